//! The lesson: on screens, with a model to measure where one is named, or as a file for a lecture.

use super::args::{OutputArgs, RaceArgs};
use super::outcome::{BAD_CALL, FINE, fail, note};
use super::race::{config, screens, taste};
use crate::session::{Feed, REAL_TIME, live};
use crate::tui::{self, Screen};
use std::io::IsTerminal;
use std::path::Path;

/// Shows the lesson, or writes it.
pub(super) fn run(model: Option<String>, export: Option<&Path>, race: &RaceArgs, output: &OutputArgs) -> u8 {
    if let Some(path) = export {
        return match tui::lesson_page().and_then(|page| {
            std::fs::write(path, page).map_err(|e| format!("{} cannot be written: {e}", path.display()))
        }) {
            Ok(()) => {
                note(&format!("wrote {}", path.display()));
                FINE
            }
            Err(sentence) => fail(BAD_CALL, &sentence),
        };
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return fail(BAD_CALL, "the lesson needs a terminal; 'gds-top learn --export FILE.html' writes it without one");
    }
    let taste = match taste(output) {
        Ok(taste) => taste,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let feed = match feed(model, race) {
        Ok(feed) => feed,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    screens(feed, taste, Screen::Learn, REAL_TIME, None)
}

/// A session that waits to measure the model, or, where none is named, a small one that it then makes.
fn feed(model: Option<String>, race: &RaceArgs) -> Result<Feed, String> {
    let mut config = config(race)?;
    config.model = model;
    config.checks = false;
    config.race = false;
    config.end_after_race = false;
    live::start(config).map_err(|error| error.to_string())
}
