//! Formats the preview of a plan: a diff for files, and command lines.

use super::error::FixError;
use super::files::look;
use super::place::Place;
use crate::core::{Change, FixPlan, FixPolicy, FixRisk, Guide, Needs};
use crate::text::{diff, paragraph, quoted_line, sanitise};
use std::fmt::Write as _;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// The plan with the obstacle that applying it would meet in its files: a symbolic link, or bytes that are not text.
#[must_use]
pub fn with_file_obstacle(place: &Place, mut plan: FixPlan) -> FixPlan {
    if plan.applies() {
        add_file_obstacle(place, &mut plan);
    }
    plan
}

/// The checklist with such obstacles in the plans that the guided set-up applies.
#[must_use]
pub fn with_file_obstacles(place: &Place, mut guide: Guide) -> Guide {
    let plans = guide.steps.iter_mut().flat_map(|step| &mut step.plans);
    plans.filter(|plan| plan.is_executable()).for_each(|plan| add_file_obstacle(place, plan));
    guide
}

fn add_file_obstacle(place: &Place, plan: &mut FixPlan) {
    if plan.obstacle.is_some() {
        return;
    }
    let Ok(root) = place.open_root() else { return };
    // The user who previews a plan of root need not be able to read its files.
    let lacks_root = place.lacks_root(plan);
    let is_obstacle =
        |error: &FixError| matches!(error, FixError::Symlink { .. } | FixError::NotText { .. }) || !lacks_root;
    let obstacle = plan.changes.iter().find_map(|change| match change {
        Change::WriteFile { path, .. } => look(&root, path).err().filter(is_obstacle),
        Change::Run { .. } => None,
    });
    plan.obstacle = obstacle.map(|error| error.to_string());
}

/// The preview of a plan as text, wrapped at `width` columns. Diffs and commands are not wrapped.
#[must_use]
pub fn preview(plan: &FixPlan, width: usize) -> String {
    let mut out = String::new();
    paragraph(&mut out, "", 2, &format!("{} ({})", plan.title, plan.id), width);
    paragraph(&mut out, "  ", 2, &plan.why, width);
    out.push('\n');
    out.push_str(&changes_text(plan));
    out.push('\n');
    let needs = match plan.needs {
        Needs::User => "no special rights",
        Needs::Root => "root",
        Needs::Reboot => "root, and a reboot",
    };
    let risk = match plan.risk {
        FixRisk::Low => "low",
        FixRisk::Medium => "medium: other programs may notice",
        FixRisk::High => "high: the machine may need manual repair",
    };
    let policy = match plan.policy {
        FixPolicy::Ask if plan.obstacle.is_some() => "gds-top cannot apply this fix here; do it by hand",
        FixPolicy::Ask => "gds-top applies it after consent",
        FixPolicy::Show => "gds-top only shows this fix; run its commands yourself",
        FixPolicy::Never if matches!(plan.risk, FixRisk::Low) => {
            "gds-top never applies this fix; run its commands yourself"
        }
        FixPolicy::Never => "gds-top never applies this fix; run its commands yourself, with care",
    };
    let mut row = |label: &str, text: &str| paragraph(&mut out, &format!("{label:<8}"), 8, text, width);
    row("Needs", needs);
    row("Risk", risk);
    row("Who", policy);
    row("Verify", &plan.verify);
    row("Undo", &plan.undo);
    plan.remaining.iter().for_each(|left| row("Then", left));
    plan.obstacle.iter().for_each(|obstacle| row("But", obstacle));
    out
}

/// The changes of a plan as text: a diff for files, and command lines.
pub(super) fn changes_text(plan: &FixPlan) -> String {
    let mut out = String::new();
    for change in &plan.changes {
        match change {
            Change::WriteFile { path, before, after, mode } => {
                let path = path.display();
                match before {
                    Some(_) => {
                        let _ = writeln!(out, "--- {path}\n+++ {path}");
                    }
                    None => {
                        let _ = writeln!(out, "--- /dev/null\n+++ {path} (new, mode {mode:04o})");
                    }
                }
                let lines = diff(before.as_deref().unwrap_or(""), after, CONTEXT);
                for line in &lines {
                    let _ = if line.mark == '@' {
                        writeln!(out, "{}", line.text)
                    } else {
                        writeln!(out, "{}{}", line.mark, line.text)
                    };
                }
                if lines.is_empty() {
                    out.push_str(" (no change)\n");
                }
            }
            Change::Run { argv } => {
                let _ = writeln!(out, "$ {}", quoted_line(argv));
            }
        }
    }
    sanitise(&out).into_owned()
}
