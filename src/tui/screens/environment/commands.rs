//! The commands of a fix, for the clipboard.

use crate::core::{Change, FixPlan, Needs};
use crate::text::{quoted, quoted_line};

/// The commands for a shell. If gds-top can apply the fix, this is the command that applies it, otherwise the
/// commands of the fix.
pub(super) fn commands(plan: &FixPlan) -> String {
    if plan.applies() {
        let sudo = if plan.needs == Needs::User { "" } else { "sudo " };
        return format!("{sudo}gds-top fix {}", plan.id);
    }
    let lines = plan.changes.iter().map(|change| match change {
        Change::Run { argv } => quoted_line(argv),
        Change::WriteFile { path, after, .. } => {
            format!("printf %s {} | sudo tee {}", quoted(after), quoted(&path.display().to_string()))
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
