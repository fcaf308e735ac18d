//! The output options of a command: its colours, and whether it can show progress.

use super::args::{Export, OutputArgs};
use super::settings;
pub(super) use super::streams::columns;
use super::streams::error_columns;
use crate::config::ThemeName;
use crate::headless::{self, Asked};
use std::io::{self, IsTerminal};

/// The options of headless output for the current streams.
pub(super) fn headless_options(output: &OutputArgs, export: Option<Export>) -> headless::Options {
    let dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
    let liked = settings::current();
    let mono = liked.theme.as_deref().is_some_and(|name| name.parse() == Ok(ThemeName::Mono));
    headless::Options {
        json: output.json,
        quiet: output.quiet,
        full: false,
        verbose: output.verbose,
        progress: io::stderr().is_terminal() && !output.plain && !dumb,
        first_task: headless::FirstTask::default(),
        colour: !output.plain && output.color.colours(io::stdout().is_terminal() && !mono && !dumb),
        export,
        width: columns(),
        progress_width: error_columns(),
        asked: Asked::default(),
    }
}
