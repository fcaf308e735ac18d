//! Asks for consent before more than 1 GiB is written to a disk.

use super::outcome::{COULD_NOT_RUN, fail, note};
use super::streams;
use crate::core::units::{self, GIB};
use crate::models::{KeptModel, Profile};
use crate::trust::{Destination, Owners};
use std::io::{self, BufRead as _, IsTerminal, Write as _};
use std::path::Path;

/// Writes of up to this many bytes need no consent.
const WITHOUT_QUESTION: u64 = GIB;

/// Asks before more than 1 GiB is written. Returns whether it may be written.
///
/// # Errors
/// A sentence if there is no terminal.
pub(super) fn to_write(bytes: u64, place: &Path, yes: bool) -> Result<bool, String> {
    of_total(bytes, &place.display().to_string(), yes)
}

fn of_total(bytes: u64, place: &str, yes: bool) -> Result<bool, String> {
    if yes || bytes <= WITHOUT_QUESTION {
        return Ok(true);
    }
    let what = format!("{} would be written to {place}", units::bytes(bytes));
    if !has_terminal() {
        return Err(format!("{what}; pass --yes to allow more than 1 GiB"));
    }
    note(&what);
    ask("Continue?")
}

/// Asks whether to create a directory that does not exist. Returns whether it exists now.
///
/// # Errors
/// A sentence if there is neither a terminal nor `yes`, or if the directory cannot be created.
pub(super) fn to_create(dir: &Path, yes: bool) -> Result<bool, String> {
    if dir.symlink_metadata().is_ok() {
        return Ok(true);
    }
    if !yes && !has_terminal() {
        return Err(format!("{} does not exist; create it, or pass --yes", dir.display()));
    }
    if !yes && !ask(&format!("{} does not exist. Create it?", dir.display()))? {
        return Ok(false);
    }
    Destination::make(dir, Owners::Any)
        .map(|made| {
            made.keep();
            true
        })
        .map_err(|error| format!("cannot create {}: {error}", dir.display()))
}

/// Asks once before the synthetic models of this command are written, unless they already exist. Returns whether they
/// may be written.
///
/// # Errors
/// The same as [`to_write`].
pub(super) fn to_make<T: AsRef<str>>(models: &[T], yes: bool) -> Result<bool, String> {
    let mut missing: Vec<KeptModel> = Vec::new();
    for model in models {
        let model: &str = model.as_ref();
        if Path::new(model).exists() || !Profile::names().contains(&model) {
            continue;
        }
        match Profile::named(model).and_then(KeptModel::full) {
            Ok(kept) => {
                if kept.written().is_none() && missing.iter().all(|other| other.dir() != kept.dir()) {
                    missing.push(kept);
                }
            }
            // The session reports the missing place for the model.
            Err(error) if error.is_of_the_machine() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let Some(first) = missing.first() else { return Ok(true) };
    if missing.len() == 1 {
        return to_write(first.bytes(), first.dir(), yes);
    }
    let folder = first.dir().parent().unwrap_or(first.dir()).display();
    of_total(missing.iter().map(KeptModel::bytes).sum(), &format!("{folder} ({} models)", missing.len()), yes)
}

/// The exit status if the user declined. The command did not run.
pub(super) fn declined() -> u8 {
    fail(COULD_NOT_RUN, "nothing was written, because you declined")
}

fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question. Only an explicit yes is consent.
fn ask(question: &str) -> Result<bool, String> {
    let _ = write!(streams::err(), "{question} [y/N] ").and_then(|()| io::stderr().flush());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| format!("cannot read the answer: {error}"))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
