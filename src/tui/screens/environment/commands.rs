//! The commands of a fix, for the clipboard.

use crate::core::{Change, Finding, FixPlan};
use crate::text::{quoted, quoted_line};

/// The commands for a shell. If gds-top can apply the fix, this is the command that applies it, otherwise the
/// commands of the fix.
pub(super) fn commands(plan: &FixPlan, findings: &[Finding]) -> String {
    if plan.applies() {
        // The command of a finding contains the examined path.
        if let Some(command) = findings.iter().filter(|f| f.fix == Some(plan.id)).find_map(|f| f.command.as_deref()) {
            return command.to_owned();
        }
        return format!("{}gds-top fix {}", plan.needs.sudo(), plan.id);
    }
    let lines = plan.changes.iter().map(|change| match change {
        Change::Run { argv } => quoted_line(argv),
        Change::WriteFile { path, after, .. } => {
            format!("printf %s {} | sudo tee {}", quoted(after), quoted(&path.display().to_string()))
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
