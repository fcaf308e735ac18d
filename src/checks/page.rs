//! The page of a check in the documents and in `gds-top explain`.

use crate::checks::logs::signatures::lines_of;
use crate::core::CheckId;
use crate::core::check::Scope;
use std::fmt::Write as _;

/// The page of a check as Markdown: meaning, reason, causes, the command to check it manually, and the fix.
#[must_use]
pub fn page(id: CheckId) -> String {
    let spec = id.spec();
    let mut out = format!("# {id}\n\nThis check examines {}.\n\n", spec.examines);
    let scope = match spec.scope {
        Scope::Machine => "the machine",
        Scope::Path => "each path",
        Scope::Gpu => "each GPU",
        Scope::Pair => "each path with each GPU",
    };
    let blocks: Vec<String> = spec.blocks.iter().map(|route| format!("`{route}`")).collect();
    let blocks = if blocks.is_empty() { "no route".to_owned() } else { blocks.join(", ") };
    let _ =
        write!(out, "| group | scope | can block |\n|---|---|---|\n| {} | {scope} | {blocks} |\n", spec.group.title());
    let _ = write!(out, "\n## Why\n\n{}\n", spec.why);
    if !spec.causes.is_empty() {
        out.push_str("\n## Causes\n\nThe most likely cause is first.\n\n");
        for cause in spec.causes {
            let _ = writeln!(out, "- {cause}");
        }
    }
    let _ = write!(out, "\n## How to check\n\n```sh\n{}\n```\n", spec.look.replace("; ", "\n"));
    let lines: Vec<(String, &str)> = lines_of(id).collect();
    if !lines.is_empty() {
        out.push_str("\nLines in cufile.log and in the kernel log:\n\n| line | meaning |\n|---|---|\n");
        for (line, meaning) in lines {
            let _ = writeln!(out, "| `{line}` | {meaning} |");
        }
    }
    out.push_str("\n## How to fix\n\n");
    let fixes: Vec<String> = spec.fixes.iter().map(|fix| format!("`gds-top fix {fix}`")).collect();
    if !fixes.is_empty() {
        let _ = writeln!(
            out,
            "`gds-top check PATH` names what this machine needs. The fixes are {}, and not each of them fits every machine.",
            fixes.join(", ")
        );
    }
    if !spec.todo.is_empty() {
        let gap = if fixes.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{gap}{}", spec.todo);
    }
    if fixes.is_empty() && spec.todo.is_empty() {
        out.push_str("Nothing needs to be fixed: the check only informs.\n");
    }
    out
}
