//! The path and the level of libcufile's log.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::core::{CheckId, FindingFact};
use crate::text::quoted;

/// Whether the directory of the log is missing. Every open then fails.
pub(crate) fn log_folder_is_missing(ctx: &Context<'_>) -> bool {
    log_location(ctx).in_the_way().next().is_some()
}

/// The finding about a missing directory of the log.
pub(crate) fn missing_folder(folder: &str, origin: &str) -> Judged {
    Judged::lack(CheckId::LogLocation, format!("{folder}, the directory of the log, does not exist: every open fails"))
        .fact(FindingFact::MissingFolder(folder.to_owned()))
        .missing(Cost::Root, EVERY)
        .advice(
            Advice::run(format!("sudo mkdir -p -m 1777 {}", quoted(folder)))
                .text(format!(", or correct logging.dir in {origin}.")),
        )
}

pub(crate) fn log_location(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::LogLocation;
    if let Some(path) = ctx.root.variable("CUFILE_LOGFILE_PATH").filter(|path| !path.is_empty()) {
        return Judged::pass(ID, format!("the log is {path}"))
            .found("environment", format!("CUFILE_LOGFILE_PATH={path}"));
    }
    let Some((folder, origin)) =
        ctx.config().latest("logging.dir").and_then(|(v, origin)| Some((v.as_str()?.to_owned(), origin)))
    else {
        return Judged::info(ID, "each program leaves cufile.log in its working directory")
            .found("cufile.json", "no logging.dir")
            .advice(
                Advice::run("export CUFILE_LOGFILE_PATH=$HOME/cufile.log")
                    .text(" for one place. The runs of gds-top write it to a temporary directory."),
            );
    };
    // A capture contains only paths that were read. If the parent directory is missing too, the state of the
    // directory is unknown.
    let parent_seen = std::path::Path::new(&folder).parent().is_some_and(|parent| ctx.root.exists(parent));
    let judged = if ctx.root.exists(&folder) {
        Judged::pass(ID, format!("the log is in {folder}"))
    } else if parent_seen || ctx.root.is_live() {
        missing_folder(&folder, &origin)
    } else {
        Judged::na(ID, format!("whether {folder} exists is not part of this capture"))
    };
    judged.found(origin, format!("logging.dir is {folder}"))
}

pub(crate) fn log_level(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::LogLevel;
    const KNOWN: &[&str] = &["NOTICE", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
    let (level, origin) = match ctx.root.variable("CUFILE_LOGGING_LEVEL").filter(|level| !level.is_empty()) {
        Some(level) => (level, "CUFILE_LOGGING_LEVEL".to_owned()),
        None => ctx.config().latest("logging.level").and_then(|(v, origin)| Some((v.as_str()?.to_owned(), origin)))?,
    };
    let judged = if !KNOWN.contains(&level.as_str()) {
        Judged::warn(ID, format!("libcufile ignores the unknown log level {level}"))
            .advice(format!("Write one of {} in upper case.", KNOWN.join(", ")))
    } else if level == "DEBUG" || level == "TRACE" {
        Judged::warn(ID, format!("the log level {level} slows down every read"))
            .advice("Use DEBUG and TRACE only to find a cause. Set ERROR for measurements.")
    } else {
        Judged::pass(ID, format!("log level {level}"))
    };
    Some(judged.found(origin, level))
}
