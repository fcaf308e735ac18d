//! Where libcufile writes its log, and how much.

use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::spec::CheckId;
use crate::core::FindingFact;

/// Whether the folder of the log makes every open fail; then that is the cause of a failing open.
pub(crate) fn log_folder_is_missing(ctx: &Context<'_>) -> bool {
    log_location(ctx).in_the_way().next().is_some()
}

pub(crate) fn log_location(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::LogLocation;
    const WHY: &str = "The reason for a fallback is in cufile.log: CUFILE_LOGFILE_PATH names it, else logging.dir its folder, else it is in the \
                       working directory.";
    if let Some(path) = ctx.root.variable("CUFILE_LOGFILE_PATH").filter(|path| !path.is_empty()) {
        return Judged::pass(ID, format!("the log is {path}"))
            .found("environment", format!("CUFILE_LOGFILE_PATH={path}"))
            .why(WHY);
    }
    let Some((folder, origin)) =
        ctx.config().latest("logging.dir").and_then(|(v, origin)| Some((v.as_str()?.to_owned(), origin)))
    else {
        return Judged::info(ID, "each program leaves cufile.log in its working directory")
                .found("cufile.json", "no logging.dir")
                .advice("export CUFILE_LOGFILE_PATH=/var/tmp/cufile.log to have it at one place; gds-top's own runs keep it in a scratch folder.")
                .why(WHY);
    };
    // Of a captured machine only what was looked at is there, so a folder whose parent is not there either says nothing.
    let parent_seen = std::path::Path::new(&folder).parent().is_some_and(|parent| ctx.root.exists(parent));
    let judged = if ctx.root.exists(&folder) {
        Judged::pass(ID, format!("the log is in {folder}"))
    } else if parent_seen || ctx.root.is_live() {
        Judged::lack(ID, format!("the folder of the log, {folder}, does not exist: every open fails"))
            .fact(FindingFact::MissingFolder(folder.clone()))
            .missing(Cost::Root, EVERY)
            .advice(format!("sudo mkdir -p -m 1777 {folder}, or correct logging.dir in {origin}."))
    } else {
        Judged::na(ID, format!("whether {folder} exists is not part of this capture"))
    };
    judged.found(origin, format!("logging.dir is {folder}")).why(WHY)
}

pub(crate) fn log_level(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::LogLevel;
    const KNOWN: &[&str] = &["NOTICE", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
    let (level, origin) = match ctx.root.variable("CUFILE_LOGGING_LEVEL").filter(|level| !level.is_empty()) {
        Some(level) => (level, "CUFILE_LOGGING_LEVEL".to_owned()),
        None => ctx.config().latest("logging.level").and_then(|(v, origin)| Some((v.as_str()?.to_owned(), origin)))?,
    };
    let judged = if !KNOWN.contains(&level.as_str()) {
        Judged::warn(ID, format!("the log level {level} is none of libcufile's and is passed over"))
            .advice(format!("Write one of {}, in capitals.", KNOWN.join(", ")))
    } else if level == "DEBUG" || level == "TRACE" {
        Judged::warn(ID, format!("the log level {level} slows every read down"))
            .advice("Keep DEBUG and TRACE for finding a cause, and set ERROR for measuring.")
    } else {
        Judged::pass(ID, format!("log level {level}"))
    };
    Some(
        judged
            .found(origin, level)
            .why("Most lines on why a read fell back are WARN, INFO or DEBUG; writing them costs time."),
    )
}
