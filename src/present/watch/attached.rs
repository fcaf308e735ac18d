//! The answer about a running process from procfs, and its facts.

use crate::core::units::{bytes, plural};
use crate::core::{AttachedProcess, Route, Status};
use crate::present::top;
use crate::present::view::{Answer, GAP};

/// The facts of a running process from procfs. They do not prove a route.
pub(super) fn answer(process: &AttachedProcess) -> Answer {
    let start = "Start it with 'gds-top watch -- COMMAND' to see its calls.";
    match (&process.libcufile, process.readable) {
        (Some(_), _) => {
            let why = process
                .not_recorded
                .as_deref()
                .map_or_else(String::new, |why| format!("Calls are not recorded: {why}. "));
            let headline = match process.route {
                Route::None => "The process has libcufile loaded; its route is not proven.".to_owned(),
                route => format!("The process has libcufile loaded; its route is {route}, inferred."),
            };
            Answer::new(Status::Info, headline, why + start)
        }
        (None, true) => Answer::new(Status::Info, "The process had no libcufile loaded when it was examined.", ""),
        (None, false) if process.unexamined_processes > 0 => {
            let why = "It did not answer in time, or a limit was reached.";
            Answer::new(Status::Warn, "The process could not be examined.", why)
        }
        (None, false) => Answer::new(
            Status::Warn,
            "The process could not be examined.",
            match process.other_user {
                true => {
                    "It belongs to another user, and the kernel denies access. Run gds-top as that user or as root."
                }
                false => "The kernel denies access to its mappings and descriptors.",
            },
        ),
    }
}

/// The reason why the open files of a process are not listed.
const FOREIGN_MOUNTS: &str = "not examined: another user has made the mounts of the process";

/// The children of a process that are not examined, and what is missing then.
const UNSEEN_CHILDREN: &str = "children that end before the next reading: reads count only if the parent waits, calls only with the same libcufile";

/// Labelled facts about a running process. `names_library` is whether its libcufile is one of them.
pub(super) fn facts(process: &AttachedProcess, names_library: bool) -> Vec<(&'static str, String)> {
    let gap = || GAP.to_owned();
    let mut facts = vec![("process", process.pid.to_string())];
    if names_library {
        facts.push(("libcufile", process.libcufile.clone().unwrap_or_else(gap)));
    }
    let least = if process.reads_at_least { "at least " } else { "" };
    let of_all =
        |read: Option<u64>| read.map_or_else(gap, |read| format!("{least}{}, with child processes", bytes(read)));
    facts.push(("system calls", of_all(process.read_call_bytes)));
    facts.push(("storage", of_all(process.storage_read_bytes)));
    let counted = process.nvfs_reads.map(|n| format!("{} of all processes", plural(n, "read")));
    facts.push(("nvidia-fs", counted.unwrap_or_else(|| "not loaded, or it counts no reads".to_owned())));
    facts.extend(log(process));
    facts.extend(top::unexamined(process.unexamined_processes).map(|text| ("examined", text)));
    if process.has_foreign_mounts {
        facts.push(("files", FOREIGN_MOUNTS.to_owned()));
    }
    if process.recorded || process.read_call_bytes.is_some() {
        facts.push(("not seen", UNSEEN_CHILDREN.to_owned()));
    }
    facts
}

/// The log of a running process, and the causes in it.
fn log(process: &AttachedProcess) -> Vec<(&'static str, String)> {
    let Some(log) = &process.log else { return Vec::new() };
    let compat = if log.compat { ", reports compat mode" } else { "" };
    let lines = plural(log.lines, "line");
    let causes = log.causes.iter().map(|cause| ("in the log", cause.clone()));
    std::iter::once(("cufile.log", format!("{}: {lines} of this process{compat}", log.path))).chain(causes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::SessionEnd;
    use crate::core::{RouteProof, WatchReport};
    use crate::present::watch;

    #[test]
    fn numbers_without_some_processes_are_lower_bounds_and_the_reason_is_shown() {
        let text = |process: &AttachedProcess, label: &str| {
            facts(process, true).into_iter().find(|(name, _)| *name == label).map(|(_, text)| text)
        };
        let seen = AttachedProcess { read_call_bytes: Some(4096), ..AttachedProcess::default() };
        assert_eq!(text(&seen, "system calls").as_deref(), Some("4 KiB, with child processes"));
        assert_eq!((text(&seen, "examined"), text(&seen, "files")), (None, None));
        assert_eq!(text(&seen, "not seen").as_deref(), Some(UNSEEN_CHILDREN));
        assert_eq!(text(&AttachedProcess::default(), "not seen"), None);
        let partial =
            AttachedProcess { reads_at_least: true, unexamined_processes: 2, has_foreign_mounts: true, ..seen.clone() };
        assert_eq!(text(&partial, "system calls").as_deref(), Some("at least 4 KiB, with child processes"));
        assert!(text(&partial, "examined").is_some_and(|text| text.starts_with("2 processes were not examined")));
        assert_eq!(text(&partial, "files").as_deref(), Some(FOREIGN_MOUNTS));
        // The kernel denies nothing to a reader that it does not answer.
        assert_ne!(answer(&partial).conditions, answer(&seen).conditions);
    }

    #[test]
    fn an_inferred_route_of_a_running_process_is_called_so_once() {
        let of = |route, route_proof| {
            let libcufile = Some("/l".to_owned());
            let process = AttachedProcess { libcufile, route, route_proof, ..Default::default() };
            let report = WatchReport { attached: Some(process), ..WatchReport::default() };
            watch::facts(&report, SessionEnd::Complete)
                .into_iter()
                .find(|(label, _)| *label == "route")
                .map(|fact| fact.1)
        };
        let compat = of(Route::Compat, RouteProof::ProcessLog).unwrap_or_default();
        assert!(compat.starts_with("compat, inferred: the") && compat.matches("inferred").count() == 1, "{compat}");
        let headline = |route| {
            let process = AttachedProcess { libcufile: Some("/l".to_owned()), route, ..Default::default() };
            answer(&process).headline
        };
        assert!(headline(Route::Compat).ends_with("its route is compat, inferred."), "{}", headline(Route::Compat));
        assert!(headline(Route::None).ends_with("its route is not proven."), "{}", headline(Route::None));
        let unknown = of(Route::None, RouteProof::Nothing);
        assert_eq!(unknown.as_deref(), Some(watch::proof(RouteProof::Nothing)));
    }
}
