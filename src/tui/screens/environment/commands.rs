//! The commands of a fix, for the clipboard.

use crate::core::{Change, Finding, FixPlan, Needs};
use crate::text::{quoted, quoted_line};

/// The commands for a shell. If gds-top can apply the fix, this is the command that applies it, otherwise the
/// commands of the fix. The plan and the findings already have the commands that this user can run.
pub(super) fn commands(plan: &FixPlan, findings: &[Finding], has_sudo: bool) -> String {
    let sudo = if has_sudo { "sudo " } else { "" };
    if plan.applies() {
        // The command of a finding contains the examined path.
        if let Some(command) = findings.iter().filter(|f| f.fix == Some(plan.id)).find_map(|f| f.command.as_deref()) {
            return command.to_owned();
        }
        let sudo = if plan.needs == Needs::User { "" } else { sudo };
        return format!("{sudo}gds-top fix {}", plan.id);
    }
    let lines = plan.changes.iter().map(|change| match change {
        Change::Run { argv } => quoted_line(argv),
        Change::WriteFile { path, after, .. } => {
            format!("printf %s {} | {sudo}tee {}", quoted(after), quoted(&path.display().to_string()))
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::FixPolicy;
    use crate::tui::testdata::{self, Scene};

    #[test]
    fn commands_for_root_without_sudo_do_not_name_it() {
        let state = testdata::state(Scene::Failed);
        for plan in &state.plans {
            assert!(commands(plan, &[], true).starts_with("sudo gds-top fix "));
            assert!(commands(plan, &[], false).starts_with("gds-top fix "));
            let shown = FixPlan { policy: FixPolicy::Show, ..plan.clone() };
            assert!(commands(&shown, &[], true).contains(" | sudo tee /run/udev/data/b254:0"));
            let text = commands(&shown, &[], false);
            assert!(text.contains(" | tee /run/udev/data/b254:0") && !text.contains("sudo"), "{text}");
        }
        assert!(!state.plans.is_empty());
    }
}
