//! Asks for consent before more than 1 GiB is written to a disk.

use super::outcome::note;
use super::streams;
use crate::core::units::{self, GIB};
use crate::models::{KeptModel, Profile};
use crate::trust::{Destination, Owners};
use std::io::{self, BufRead as _, IsTerminal, Write as _};
use std::path::Path;

/// Writes of up to this many bytes need no consent.
const WITHOUT_QUESTION: u64 = GIB;

/// Asks before more than 1 GiB is written.
///
/// # Errors
/// A sentence if the user declines, or if there is no terminal.
pub(super) fn to_write(bytes: u64, place: &Path, yes: bool) -> Result<(), String> {
    if yes || bytes <= WITHOUT_QUESTION {
        return Ok(());
    }
    let what = format!("{} would be written to {}", units::bytes(bytes), place.display());
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(format!("{what}; pass --yes to allow more than 1 GiB"));
    }
    note(&what);
    let _ = write!(streams::err(), "Continue? [y/N] ").and_then(|()| io::stderr().flush());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| format!("cannot read the answer: {error}"))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err("nothing was written".to_owned()),
    }
}

/// Asks whether to create a directory that does not exist.
///
/// # Errors
/// A sentence if the user declines, if there is neither a terminal nor `yes`, or if the directory cannot be created.
pub(super) fn to_create(dir: &Path, yes: bool) -> Result<(), String> {
    let has_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    if dir.symlink_metadata().is_ok() {
        return Ok(());
    }
    if !yes && !has_terminal {
        return Err(format!("{} does not exist; create it, or pass --yes", dir.display()));
    }
    if !yes {
        let _ = write!(streams::err(), "{} does not exist. Create it? [y/N] ", dir.display())
            .and_then(|()| io::stderr().flush());
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map_err(|error| format!("cannot read the answer: {error}"))?;
        if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Err("nothing was written".to_owned());
        }
    }
    Destination::make(dir, Owners::Any)
        .map(Destination::keep)
        .map_err(|error| format!("cannot create {}: {error}", dir.display()))
}

/// Asks before a synthetic model is written, unless it already exists.
///
/// # Errors
/// The same as [`to_write`].
pub(super) fn to_make(model: &str, yes: bool) -> Result<(), String> {
    if Path::new(model).exists() || !Profile::names().contains(&model) {
        return Ok(());
    }
    let kept = match Profile::named(model).and_then(KeptModel::full) {
        Ok(kept) => kept,
        // The session reports the missing place for the model.
        Err(error) if error.is_of_the_machine() => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if kept.written().is_some() {
        return Ok(());
    }
    to_write(kept.bytes(), kept.dir(), yes)
}
