//! cufile.log where the configuration puts it, read into causes.

use super::context::Context;
use super::judged::Judged;
use super::log_signatures::explain_cufile;
use crate::domain::{Group::Cufile, Status};

/// Lines from the end that are looked at: a log of months says nothing of today.
const LAST_LINES: usize = 2000;
/// Causes shown; the worst come first.
const MOST: usize = 6;

/// What the end of the log says. `known` are the findings so far: a log may be old, and what its check finds in order now is no alarm. Only a log
/// at a place that the configuration names is looked for.
pub(super) fn scan(ctx: &Context<'_>, known: &[Judged]) -> Option<Judged> {
    const ID: &str = "log-scan";
    let path = place(ctx)?;
    let text = ctx.root.read_text(&path).ok()?;
    let skipped = text.lines().count().saturating_sub(LAST_LINES);
    let tail: String = text.lines().skip(skipped).flat_map(|line| [line, "\n"]).collect();
    let causes = explain_cufile(&tail);
    let passes = |id: &str| known.iter().any(|judged| judged.finding.id == id && judged.finding.status == Status::Pass);
    let is_open = |check: &str| check.is_empty() || !passes(check);
    let see = |check: &str| if check.is_empty() { String::new() } else { format!("; see {check}") };
    let worst = causes.iter().find(|cause| cause.status >= Status::Warn && is_open(&cause.check));
    let mut judged = match (worst, causes.first()) {
        (Some(cause), _) => {
            let said = format!("cufile.log says: {}{}", cause.meaning, see(&cause.check));
            // What fails now is told by its check; the log is its witness, and may be of another program.
            let judged = if cause.status == Status::Fail {
                Judged::warn(ID, Cufile, said)
            } else {
                Judged::info(ID, Cufile, said)
            };
            judged.advice(cause.todo.clone())
        }
        (None, Some(cause)) if cause.status >= Status::Warn => Judged::info(
            ID,
            Cufile,
            format!("cufile.log says: {}; its check finds it in order now{}", cause.meaning, see(&cause.check)),
        ),
        _ => Judged::pass(ID, Cufile, "no message that explains a fallback"),
    };
    if causes.is_empty() {
        judged = judged.found(&path, format!("{} lines read", tail.lines().count()));
    }
    for cause in causes.iter().take(MOST) {
        let times = if cause.count > 1 { format!(" ({} times)", cause.count) } else { String::new() };
        judged = judged.found(&path, format!("{}{times}: {}", cause.line, cause.sentence()));
    }
    Some(judged.why("libcufile writes down why it fell back; the file may be of another program or another day."))
}

fn place(ctx: &Context<'_>) -> Option<String> {
    let named = ctx.root.variable("CUFILE_LOGFILE_PATH").filter(|path| path.starts_with('/'));
    named.or_else(|| Some(format!("{}/cufile.log", super::cufile_details::log_folder(ctx)?.trim_end_matches('/'))))
}
