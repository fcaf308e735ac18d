//! The command `learn`: shows the lesson on the screens or writes it to a file.

use super::args::{OutputArgs, RaceArgs};
use super::consent;
use super::outcome::{FINE, Ran, has_terminal, note, print, print_file};
use super::race::{config, screens};
use super::settings;
use super::terminal::columns;
use crate::present::lesson::Lesson;
use crate::report;
use crate::session::{Feed, REAL_TIME, live};
use crate::tui::{self, ScreenId};
use std::path::Path;

/// Shows the lesson or writes it to a file.
pub(super) fn run(
    model: Option<String>,
    html: Option<&Path>,
    headless: bool,
    race: &RaceArgs,
    output: &OutputArgs,
) -> Ran {
    let file = html.filter(|path| *path != Path::new("-"));
    if html.is_none() && headless {
        return Ok(print(report::lesson_text(&Lesson::load()?, columns()).as_bytes()));
    }
    if html.is_some() && file.is_none() {
        return Ok(print_file(page()?.as_bytes()));
    }
    if let Some(path) = file {
        report::write_page(path, &page()?).map_err(|error| error.to_string())?;
        note(&format!("wrote {}", path.display()));
        return Ok(FINE);
    }
    if !has_terminal() {
        return Err("the lesson needs a terminal; 'gds-top learn --html FILE' writes it as a page".to_owned());
    }
    if !consent::to_make(model.as_slice(), race.yes)? {
        return Ok(consent::declined());
    }
    let look = settings::look(output)?;
    let feed = feed(model, race)?;
    screens(feed, look, ScreenId::Learn, REAL_TIME, None)
}

/// The lesson as an HTML page.
fn page() -> Result<String, String> {
    let lesson = Lesson::load()?;
    Ok(report::lesson_page(&lesson, |step, title, dark| tui::lesson_figure(&lesson, step, title, dark)))
}

/// A session that measures the model when the user requests it. Without a model it creates a small synthetic one.
fn feed(model: Option<String>, race: &RaceArgs) -> Result<Feed, String> {
    let mut config = config(race)?;
    config.model = model;
    config.repeat = race.repeat.unwrap_or(1);
    config.checks = false;
    config.race = false;
    config.end_after_race = false;
    live::start(config).map_err(|error| error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::present::lesson_steps::STEPS;

    #[test]
    fn the_text_has_every_step_and_no_markup() {
        let text = report::lesson_text(&Lesson::load().unwrap(), 80);
        assert!((1..=STEPS).all(|number| text.contains(&format!("\n{number}. "))), "{text}");
        assert!(!text.contains('<') && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn the_page_has_every_step_with_its_picture_and_needs_nothing_else() {
        let page = page().unwrap();
        assert_eq!(page.matches("<section>").count(), STEPS);
        assert_eq!(page.matches("<svg ").count(), 2 * STEPS, "on light ground and on dark");
        assert!(!page.contains("(key 1)") && !page.contains("sliders"), "paper has neither");
        let outside = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http") && !outside.contains("<script") && !outside.contains(" src="));
    }
}
