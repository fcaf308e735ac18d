//! What a plan would change, as text: a diff for files, the command line for commands.

use crate::domain::{Change, FixPlan, FixPolicy, FixRisk, Needs};
use crate::text::{quoted_line, sanitise};
use std::fmt::Write as _;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// The preview of a plan.
#[must_use]
pub fn preview(plan: &FixPlan) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{} ({})\n  {}\n", plan.title, plan.id, plan.why);
    out.push_str(&changes_text(plan));
    let needs = match plan.needs {
        Needs::User => "nobody special",
        Needs::Root => "root",
        Needs::Reboot => "root, and a reboot",
    };
    let risk = match plan.risk {
        FixRisk::Low => "low",
        FixRisk::Medium => "medium: other programs may notice",
        FixRisk::High => "high: the machine may need manual repair",
    };
    let policy = match plan.policy {
        FixPolicy::Ask => "gds-top applies it after consent",
        FixPolicy::Show => "gds-top only shows this one; do it by hand",
        FixPolicy::Never => "gds-top never does this; by hand, and with care",
    };
    let _ = write!(
        out,
        "\nNeeds   {needs}\nRisk    {risk}\nWho     {policy}\nVerify  {}\nUndo    {}\n",
        plan.verify, plan.undo
    );
    for left in &plan.remaining {
        let _ = writeln!(out, "Then    {left}");
    }
    if let Some(obstacle) = &plan.obstacle {
        let _ = writeln!(out, "But     {obstacle}");
    }
    out
}

/// What a plan changes: a diff for files, the command line for commands.
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
                out.push_str(&diff(before.as_deref().unwrap_or(""), after));
            }
            Change::Run { argv } => {
                let _ = writeln!(out, "$ {}", quoted_line(argv));
            }
        }
    }
    sanitise(&out).into_owned()
}

/// The one changed stretch between two texts with context, in the form of `diff -u`.
fn diff(before: &str, after: &str) -> String {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    if head == old.len() && head == new.len() {
        return " (no change)\n".to_owned();
    }
    let from = head.saturating_sub(CONTEXT);
    let (old_end, new_end) = ((old.len() - tail + CONTEXT).min(old.len()), (new.len() - tail + CONTEXT).min(new.len()));
    let start = |from: usize, count: usize| if count == 0 { from } else { from + 1 };
    let (old_count, new_count) = (old_end - from, new_end - from);
    let mut out = format!("@@ -{},{old_count} +{},{new_count} @@\n", start(from, old_count), start(from, new_count));
    let mut put = |sign: char, lines: &[&str]| {
        for line in lines {
            let _ = writeln!(out, "{sign}{line}");
        }
    };
    put(' ', &old[from..head]);
    put('-', &old[head..old.len() - tail]);
    put('+', &new[head..new.len() - tail]);
    put(' ', &old[old.len() - tail..old_end]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_reads_as_that_of_diff_u() {
        assert_eq!(diff("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(diff("1\n2\n3\n4\n5\n", "1\n2\n3\n4\nx\n5\n"), "@@ -2,4 +2,5 @@\n 2\n 3\n 4\n+x\n 5\n");
        assert_eq!(diff("a\n", "a\n"), " (no change)\n");
        assert_eq!(diff("a\na\n", "a\n"), "@@ -1,2 +1,1 @@\n a\n-a\n");
    }
}
