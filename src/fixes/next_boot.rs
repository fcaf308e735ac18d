//! Adds to a plan with a reboot the commands by which the kernel of the next boot has the NVIDIA driver.

use super::boot_entry::start_by_default;
use super::guided::is_reboot;
use super::parts::{Family, family, run};
use super::spec::installs_modules;
use super::statement::{self, commands};
use crate::checks::{modules_of_next_boot, restart_of_kernel};
use crate::core::guide::GuideStep;
use crate::core::{Change, FixId, FixPlan, Needs};
use crate::machine::{Root, container, image_host, kernel_release, next_kernel_release, packages, unready_kernel};

/// The plan with these commands. A plan that installs modules gets them for the kernel of the next boot too.
pub(super) fn ready(root: &Root, plan: FixPlan) -> FixPlan {
    let reboots = plan.needs == Needs::Reboot || plan.changes.iter().any(is_reboot);
    // The plan of a kernel builds its modules, and a limit is in effect after a new login.
    let is_ready = matches!(plan.id, FixId::KernelP2pdma | FixId::Memlock);
    if !reboots || is_ready || plan.obstacle.is_some() || plan.changes.is_empty() {
        return plan;
    }
    let own = plan.changes.clone();
    let mut out = if installs_modules(plan.id) { with_installed(root, plan) } else { with_missing(root, plan) };
    let added = out.changes.iter().filter(|change| !own.contains(change));
    if out.applies()
        && let Some(left) = statement::left_by(out.id, commands(added))
        && !out.undo.contains(&left)
    {
        out.undo.push_str(&format!(" {left}."));
    }
    out
}

/// The plans of a checklist with these commands. A later plan does not repeat a build.
pub(super) fn ready_steps(root: &Root, steps: &mut [GuideStep]) {
    let mut known: Vec<Change> = Vec::new();
    for plan in steps.iter_mut().flat_map(|step| &mut step.plans) {
        let mut out = ready(root, plan.clone());
        out.changes.retain(|change| plan.changes.contains(change) || !known.contains(change));
        // A plan that installs modules builds its new modules for the next kernel, so its commands are kept.
        let is_new = |change: &&Change| !plan.changes.contains(change) && !installs_modules(plan.id);
        known.extend(out.changes.iter().filter(is_new).cloned());
        if out.changes == plan.changes {
            out.undo.clone_from(&plan.undo);
        }
        *plan = out;
    }
}

/// Packages build modules for the running kernel. DKMS then builds them for that of the next boot, or the next boot starts
/// the running kernel.
fn with_installed(root: &Root, mut plan: FixPlan) -> FixPlan {
    let running = kernel_release(root).unwrap_or_default();
    let is_changeable = container(root).is_none() && image_host(root).is_none();
    let Some(next) = next_kernel_release(root).filter(|next| is_changeable && *next != running) else { return plan };
    let family = family(root);
    let has = |word: &str| {
        plan.changes
            .iter()
            .any(|change| matches!(change, Change::Run { argv } if argv.iter().any(|w| w.contains(word))))
    };
    let is_of_dkms = family != Family::Suse && !has("linux-modules-nvidia-") && !has("akmod");
    let added: Vec<Change> = if is_of_dkms {
        let has_headers = root.exists(format!("/lib/modules/{next}/build/Makefile"));
        let headers = packages::install_headers(root, &next, false).filter(|_| !has_headers);
        plan.why.push_str(&format!(" The next boot starts Linux {next}, so DKMS builds the modules for it too."));
        headers.map(|line| run(&without_question(&line))).into_iter().chain([run(&build_all(&next))]).collect()
    } else {
        plan.why.push_str(&format!(" The next boot would start Linux {next}, so {running} is made the default."));
        vec![start_by_default(root, family, &running, "")]
    };
    let at = plan.changes.iter().position(is_reboot).unwrap_or(plan.changes.len());
    plan.changes.splice(at..at, added);
    plan
}

fn build_all(release: &str) -> String {
    format!("sudo dkms autoinstall -k {release}")
}

/// The lacking modules are built first, or the next boot starts the running kernel, which has them.
fn with_missing(root: &Root, mut plan: FixPlan) -> FixPlan {
    let Some(unready) = unready_kernel(root) else { return plan };
    let (release, module) = (&unready.release, unready.lacking());
    let build = modules_of_next_boot(root, &unready);
    let added: Vec<Change> = if !build.is_empty() {
        plan.why
            .push_str(&format!(" The next boot starts Linux {release}, which lacks {module}, so it is built first."));
        build.iter().map(|line| run(&without_question(line))).collect()
    } else if restart_of_kernel(root, &unready).is_some() {
        let running = &unready.running;
        plan.why.push_str(&format!(
            " Linux {release} would start next and lacks {module}, so {running} is made the default."
        ));
        vec![start_by_default(root, family(root), running, "")]
    } else {
        plan.obstacle = Some(format!(
            "the next boot starts Linux {release}, which lacks {module}: install it for this kernel first"
        ));
        return plan;
    };
    plan.changes.splice(0..0, added);
    plan
}

/// A command that installs packages without a question.
fn without_question(line: &str) -> String {
    line.replacen(" install ", " install -y ", 1).replace("dkms install -y ", "dkms install ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_package_managers_get_the_answer_to_their_question() {
        for (line, wanted) in [
            ("sudo dnf install kernel-devel-1 kernel-headers", "sudo dnf install -y kernel-devel-1 kernel-headers"),
            ("sudo dkms install nvidia/580.95.05 -k 1", "sudo dkms install nvidia/580.95.05 -k 1"),
            ("sudo apt-get update", "sudo apt-get update"),
        ] {
            assert_eq!(without_question(line), wanted);
        }
    }
}
