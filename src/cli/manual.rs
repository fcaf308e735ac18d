//! The manual pages.

use super::commands::Cli;
use super::exit;
use super::outcome::{FINE, Ran, print};
use crate::tui;
use clap::{Command, CommandFactory as _};
use std::path::Path;

/// The commands with a page: all but those that the program runs itself.
fn command() -> Command {
    exit::documented(Cli::command())
        .mut_subcommands(|sub| if sub.get_name().starts_with("__") { sub } else { sub.hide(false) })
}

/// Prints the page of the program, or writes a page for each command.
pub(super) fn write(dir: Option<&Path>) -> Ran {
    let Some(dir) = dir else {
        let mut text = Vec::new();
        clap_mangen::Man::new(command())
            .render(&mut text)
            .map_err(|error| format!("the manual page could not be written: {error}"))?;
        text.extend_from_slice(tui::Keymap::manual().as_bytes());
        return Ok(print(&text));
    };
    let bad = |error: std::io::Error| format!("cannot write manual pages to {}: {error}", dir.display());
    std::fs::create_dir_all(dir).map_err(bad)?;
    clap_mangen::generate_to(command(), dir).map_err(bad)?;
    // The keys of the screens are in the page of the program.
    let page = dir.join("gds-top.1");
    let mut text = std::fs::read(&page).map_err(bad)?;
    text.extend_from_slice(tui::Keymap::manual().as_bytes());
    std::fs::write(&page, text).map_err(bad)?;
    Ok(FINE)
}
