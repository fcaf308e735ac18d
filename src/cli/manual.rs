//! Writes the manual pages.

use super::commands::Cli;
use super::examples;
use super::exit;
use super::names;
use super::outcome::{FINE, Ran, print_file};
use crate::trust::{Destination, Owners, Scratch};
use crate::tui;
use clap::{Command, CommandFactory as _};
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The commands that have a manual page. Commands that only the program runs have none.
fn command() -> Command {
    exit::documented(examples::added(names::without_settings(Cli::command())))
        .mut_subcommands(|sub| if sub.get_name().starts_with("__") { sub } else { sub.hide(false) })
}

/// Prints the page of the program, or writes one page per command into a directory.
pub(super) fn write(dir: Option<&Path>) -> Ran {
    let Some(dir) = dir else {
        let mut text = Vec::new();
        clap_mangen::Man::new(command())
            .render(&mut text)
            .map_err(|error| format!("the manual page could not be written: {error}"))?;
        text.extend_from_slice(tui::Keymap::manual().as_bytes());
        return Ok(print_file(&text));
    };
    let bad = |error: std::io::Error| format!("cannot write manual pages to {}: {error}", dir.display());
    let folder = Destination::make(dir, Owners::Any).map_err(bad)?;
    // The pages are first written to a private directory, because the target directory can contain links of another
    // user with their names.
    let made = Scratch::new("gds-top-man-").map_err(bad)?;
    clap_mangen::generate_to(command(), made.path()).map_err(bad)?;
    for page in std::fs::read_dir(made.path()).map_err(bad)? {
        let page = page.map_err(bad)?;
        let mut text = of_program(&std::fs::read_to_string(page.path()).map_err(bad)?).into_bytes();
        // The page of the program lists the keys of the screens.
        if page.file_name() == "gds-top.1" {
            text.extend_from_slice(tui::Keymap::manual().as_bytes());
        }
        put(&folder, &page.file_name(), &text).map_err(bad)?;
    }
    Ok(FINE)
}

/// The page whose footer names the program and its version. clap_mangen writes the name of the command without one.
fn of_program(page: &str) -> String {
    let line = |line: &str| match line.strip_prefix(".TH ").and_then(|rest| rest.split(' ').next()) {
        Some(title) => format!(".TH {title} 1  \"gds-top {}\" \n", env!("CARGO_PKG_VERSION")),
        None => format!("{line}\n"),
    };
    page.lines().map(line).collect()
}

/// Writes a file. It replaces an existing file or link.
fn put(folder: &Destination, name: &OsStr, text: &[u8]) -> std::io::Result<()> {
    let mut temporary = folder.unfinished_file()?;
    temporary.file_mut().write_all(text)?;
    temporary.file().set_permissions(Permissions::from_mode(0o644))?;
    temporary.persist(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_footer_of_every_page_names_the_program_and_its_version() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(write(Some(folder.path())), Ok(FINE));
        let footer = concat!("\"gds-top ", env!("CARGO_PKG_VERSION"), "\"");
        let mut pages = 0;
        for page in std::fs::read_dir(folder.path()).unwrap() {
            let text = std::fs::read_to_string(page.unwrap().path()).unwrap();
            let head = text.lines().find(|line| line.starts_with(".TH ")).unwrap().to_owned();
            assert!(head.contains(footer), "{head}");
            pages += 1;
        }
        assert!(pages > 20, "{pages} pages");
    }
}
