//! The commands of a fix, for the clipboard.

use super::fix::quoted;
use crate::domain::{Change, FixPlan, Needs};

/// What somebody would type: the fix by its name where gds-top applies it, else its own commands.
pub(super) fn commands(plan: &FixPlan) -> String {
    if plan.applies() {
        let sudo = if plan.needs == Needs::User { "" } else { "sudo " };
        return format!("{sudo}gds-top fix {}", plan.id);
    }
    let lines = plan.changes.iter().map(|change| match change {
        Change::Run { argv } => argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        Change::WriteFile { path, after, .. } => {
            format!("printf %s {} | sudo tee {}", quoted(after), quoted(&path.display().to_string()))
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
