//! Every screen in every situation at four sizes, glyphs and styles: `TestBackend`'s own text form forgets colour.

use super::{frame, text};
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::domain::FixStage;
use crate::session::State;
use crate::tui::app::{Screen, Sheet, UiState};
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

fn theme(name: ThemeName) -> Theme {
    Theme::new(Taste { theme: name, depth: ColourDepth::True, ascii: false })
}

/// Glyph rows, then a row of runs for each (`12a3b`: twelve cells of style a, three of b), then what the letters mean.
fn picture(buffer: &Buffer) -> String {
    let mut legend: Vec<String> = Vec::new();
    let mut styles = String::new();
    for row in buffer.content().chunks(usize::from(buffer.area.width).max(1)) {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for cell in row {
            let style = describe(cell);
            let index = legend.iter().position(|known| *known == style).unwrap_or_else(|| {
                legend.push(style);
                legend.len() - 1
            });
            match runs.last_mut() {
                Some((count, last)) if *last == index => *count += 1,
                _ => runs.push((1, index)),
            }
        }
        for (count, index) in runs {
            styles.push_str(&format!("{count}{}", letter(index)));
        }
        styles.push('\n');
    }
    let legend: String = legend.iter().enumerate().map(|(i, style)| format!("{} {style}\n", letter(i))).collect();
    format!("{}\n{styles}\n{legend}", text(buffer))
}

fn letter(index: usize) -> char {
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".chars().nth(index).unwrap_or('?')
}

fn describe(cell: &Cell) -> String {
    let colour = |colour: Color| match colour {
        Color::Reset => "-".to_owned(),
        Color::Rgb(r, g, b) => format!("{r:02x}{g:02x}{b:02x}"),
        other => format!("{other:?}"),
    };
    let mut words = format!("{} on {}", colour(cell.fg), colour(cell.bg));
    for (modifier, word) in [
        (Modifier::BOLD, "bold"),
        (Modifier::DIM, "dim"),
        (Modifier::UNDERLINED, "underlined"),
        (Modifier::REVERSED, "reversed"),
    ] {
        if cell.modifier.contains(modifier) {
            words.push(' ');
            words.push_str(word);
        }
    }
    words
}

fn check(name: &str, state: &State, ui: &mut UiState, theme_name: ThemeName, (w, h): (u16, u16)) {
    let shown = picture(&frame(state, ui, &theme(theme_name), w, h));
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(format!("{name}-{w}x{h}-{theme_name}"), shown);
    });
}

fn every_scene(screen: Screen, name: &str) {
    for scene in Scene::ALL {
        let state = testdata::state(scene);
        let mut ui = UiState { screen, ..UiState::default() };
        let name = format!("{name}-{}", scene.name());
        for size in [(60, 20), (80, 24), (120, 36)] {
            check(&name, &state, &mut ui, ThemeName::Dark, size);
        }
        check(&name, &state, &mut ui, ThemeName::Mono, (80, 24));
        check(&name, &state, &mut ui, ThemeName::Mono, (120, 36));
        if matches!(scene, Scene::Live | Scene::Done) {
            check(&name, &state, &mut ui, ThemeName::Dark, (200, 60));
        }
    }
}

#[test]
fn the_environment_screen_in_every_situation() {
    every_scene(Screen::Environment, "environment");
}

#[test]
fn the_race_screen_in_every_situation() {
    every_scene(Screen::Race, "race");
}

#[test]
fn the_tensors_screen_in_every_situation() {
    every_scene(Screen::Tensors, "tensors");
}

#[test]
fn the_report_screen_in_every_situation() {
    every_scene(Screen::Report, "report");
}

#[test]
fn the_system_screen_in_every_situation() {
    for (name, gpu, open) in [("live", true, false), ("no-gpu", false, false), ("process", true, true)] {
        let state = testdata::in_use(testdata::state(Scene::Live), gpu);
        let mut ui = UiState { screen: Screen::System, ..UiState::default() };
        ui.system.open = open;
        for size in [(60, 20), (80, 24), (120, 36), (200, 60)] {
            check(&format!("system-{name}"), &state, &mut ui, ThemeName::Dark, size);
        }
        check(&format!("system-{name}"), &state, &mut ui, ThemeName::Mono, (120, 36));
    }
    let mut ui = UiState { screen: Screen::System, replay: true, ..UiState::default() };
    check("system-replay", &testdata::state(Scene::Done), &mut ui, ThemeName::Dark, (80, 24));
    ui.replay = false;
    check("system-loading", &testdata::state(Scene::Loading), &mut ui, ThemeName::Dark, (80, 24));
}

#[test]
fn the_steps_of_the_lesson() {
    let mut ui = UiState { screen: Screen::Learn, ..UiState::default() };
    let state = State::default();
    check("learn-loading", &state, &mut ui, ThemeName::Dark, (80, 24));
    ui.learn.lesson = Some(Err("the file is damaged".into()));
    check("learn-failed", &state, &mut ui, ThemeName::Dark, (80, 24));
    ui.learn.lesson = Some(crate::tui::lesson::Lesson::load().map(std::sync::Arc::new));
    for step in 0..crate::tui::lesson_steps::STEPS {
        (ui.learn.step, ui.learn.at) = (step, if step == 1 { 0.5 } else { 1.0 });
        check(&format!("learn-{}", step + 1), &state, &mut ui, ThemeName::Dark, (120, 36));
        if step == 5 {
            check("learn-6", &state, &mut ui, ThemeName::Mono, (120, 36));
            for size in [(60, 20), (80, 24), (200, 60)] {
                check("learn-6", &state, &mut ui, ThemeName::Dark, size);
            }
        }
    }
}

#[test]
fn the_fix_sheet_before_during_and_after() {
    for (name, state) in [
        ("offered", testdata::state(Scene::Failed)),
        ("applying", testdata::fixing(FixStage::Applying)),
        ("mended", testdata::fixing(FixStage::Mended)),
    ] {
        let mut ui = UiState { sheet: Some(Sheet::Fix("udev-record".into())), ..UiState::default() };
        check(&format!("fix-{name}"), &state, &mut ui, ThemeName::Dark, (120, 36));
        check(&format!("fix-{name}"), &state, &mut ui, ThemeName::Mono, (80, 24));
    }
}

#[test]
fn the_help_in_a_replay() {
    let mut ui =
        UiState { sheet: Some(Sheet::Help), replay: true, speed: 32, screen: Screen::Race, ..UiState::default() };
    check("help", &testdata::state(Scene::Live), &mut ui, ThemeName::Dark, (120, 36));
}

#[test]
fn ascii_mode_draws_nothing_but_ascii() {
    for scene in Scene::ALL {
        for screen in Screen::ALL {
            let theme = Theme::new(Taste { theme: ThemeName::Dark, depth: ColourDepth::Ansi16, ascii: true });
            let mut ui = UiState { screen, ..UiState::default() };
            let shown = text(&frame(&testdata::state(scene), &mut ui, &theme, 120, 36));
            assert!(shown.is_ascii(), "{shown}");
            assert!(!shown.contains('?') || shown.matches('?').count() == shown.matches("? help").count(), "{shown}");
        }
    }
}

#[test]
fn without_colour_the_outcomes_are_still_told_apart() {
    let mut ui = UiState::default();
    let shown = text(&frame(&testdata::state(Scene::Failed), &mut ui, &theme(ThemeName::Mono), 120, 36));
    assert!(shown.contains("✖ fail") && shown.contains("▲ ext4-journal") && shown.contains("✔ o-direct"), "{shown}");
}

#[test]
fn mono_uses_no_colour_at_all() {
    for screen in Screen::ALL {
        let mut ui = UiState { screen, ..UiState::default() };
        let buffer = frame(&testdata::state(Scene::Done), &mut ui, &theme(ThemeName::Mono), 120, 36);
        assert!(buffer.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    }
}
