//! The terminal of a command: its width, its colours and whether it can show progress.

use super::args::{Export, OutputArgs};
use super::settings;
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
        colour: !output.plain && output.color.colours(io::stdout().is_terminal() && !mono && !dumb),
        ascii: liked.ascii.unwrap_or(dumb),
        export,
        width: columns(),
        progress_width: columns_of(&io::stderr()),
        asked: Asked::default(),
    }
}

/// The width of the terminal on standard output in columns. It is 100 without a terminal.
pub(super) fn columns() -> u16 {
    columns_of(&io::stdout())
}

fn columns_of(stream: &impl IsTerminal) -> u16 {
    if !stream.is_terminal() {
        return 100;
    }
    crossterm::terminal::size().map_or(100, |(columns, _)| columns.clamp(40, 160))
}
