//! The plan that disables NVMe native multipath with a module option. If the module is built in, it uses a kernel
//! argument.

use super::command_line::{arguments, place};
use super::modprobe::set_parameter;
use super::parts::{empty, family, initramfs, run, words};
use crate::core::{Change, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{
    MULTIPATHD_LOCAL, NVME_MULTIPATH, NvmeMultipath, Root, built_in, is_kernel_false, local_nvme_ids,
    multipathd_blacklist, multipathd_takes_nvme, nvme_has_single_paths, nvme_multipath, nvme_multipath_argument,
    nvme_subsystems,
};
use std::path::PathBuf;

const WORD: &str = "nvme_core.multipath=N";
const WHY: &str = "P2PDMA does not support the multipath device (NVIDIA's guide on GDS, NVMe P2PDMA).";

/// The plan for this machine.
pub(super) fn plan(root: &Root) -> FixPlan {
    let subsystems = nvme_subsystems(root);
    let shared = subsystems.iter().find(|(_, controllers)| controllers.len() > 1);
    let plan = FixPlan {
        verify: format!("after the reboot {NVME_MULTIPATH} is N, and gds-top check: nvme-multipath"),
        obstacle: match shared {
            _ if nvme_multipath(root) == NvmeMultipath::Forced => {
                Some("this kernel has no parameter nvme_core.multipath, as in RHEL 10: multipath stays on".to_owned())
            }
            Some((name, controllers)) => {
                Some(format!("{name} has several controllers ({}), so multipath is in use", controllers.join(", ")))
            }
            None => None,
        },
        ..empty(FixId::NvmeMultipathOff, Needs::Reboot, FixRisk::High, FixPolicy::Show)
    };
    let built_in = built_in(root, "nvme_core", "CONFIG_NVME_CORE");
    let reason = match (&built_in, nvme_multipath_argument(root)) {
        (Some((path, text)), _) => {
            format!("nvme_core is built into this kernel ({path}: {text}), so modprobe.d has no effect on it")
        }
        (None, Some(word)) => format!("the kernel was started with {word}, which overrides modprobe.d"),
        (None, None) => return by_modprobe(root, plan),
    };
    let (changes, undo_commands) = arguments(root, WORD);
    FixPlan {
        why: format!("{WHY}{} Here {reason}: {WORD} is added {}.", caution(root), place(root)),
        changes,
        undo_commands,
        undo: format!("remove {WORD} and reboot"),
        ..plan
    }
}

/// The reason not to apply the plan, unless each disk is known to have a single path.
fn caution(root: &Root) -> &'static str {
    if nvme_has_single_paths(root) {
        ""
    } else {
        " Do not disable multipath if disks have several paths: each path then becomes a disk."
    }
}

/// The plan with the option of the loadable module. gds-top applies it after consent if every disk is known to have a
/// single path.
fn by_modprobe(root: &Root, plan: FixPlan) -> FixPlan {
    let rebuild = initramfs(root, family(root));
    let (changes, obstacle) = match set_parameter(root, "nvme_core", ("multipath", "N"), is_kernel_false, "nvme.conf") {
        Ok(changes) => (changes, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let (excluded, claimed) = match multipathd_takes_nvme(root).then(|| local_nvme_ids(root)) {
        None => (None, None),
        Some(Some(ids)) => (Some(exclude(root, &ids)), None),
        Some(None) => (
            None,
            Some(
                "multipathd would then claim the local NVMe disks: exclude them in /etc/multipath.conf first"
                    .to_owned(),
            ),
        ),
    };
    let single = nvme_has_single_paths(root);
    let done = if changes.is_empty() && obstacle.is_none() {
        " The option is already set, but the initramfs needs it too."
    } else {
        " Other options, comments and the order of lines are kept."
    };
    FixPlan {
        why: format!("{WHY}{}{done}", caution(root)),
        changes: excluded.into_iter().chain(changes).chain([run(rebuild)]).collect(),
        policy: if single { FixPolicy::Ask } else { plan.policy },
        undo: if single { String::new() } else { "remove multipath=N, rebuild the initramfs and reboot".to_owned() },
        undo_commands: vec![words(rebuild)],
        remaining: vec!["sudo reboot".to_owned()],
        obstacle: plan.obstacle.or(claimed).or(obstacle),
        ..plan
    }
}

/// The change that excludes the local disks from multipathd, which otherwise claims them without native multipath.
fn exclude(root: &Root, ids: &[String]) -> Change {
    let before = root.read_text(MULTIPATHD_LOCAL).ok();
    let after = before.clone().unwrap_or_default() + &multipathd_blacklist(ids);
    Change::WriteFile { path: PathBuf::from(MULTIPATHD_LOCAL), before, after, mode: 0o644 }
}
