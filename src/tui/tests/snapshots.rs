//! Every screen in every situation at four sizes, glyphs and styles: `TestBackend`'s own text form forgets colour.

use super::{app, environment, frame, learn, system, tensors, text};
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::domain::FixStage;
use crate::session::State;
use crate::tui::app::App;
use crate::tui::jobs::tensor_rows::Sort;
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use crate::tui::widgets::scroll::Scroll;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

fn press(ui: &mut App, code: KeyCode, state: &State) {
    ui.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), state);
}

fn theme(name: ThemeName) -> Theme {
    Theme::new(Taste { theme: name, depth: ColourDepth::True, ascii: false })
}

/// What the letters of styles stand for, over all frames of a file.
#[derive(Default)]
struct Legend(Vec<String>);

impl Legend {
    fn letter(&mut self, style: String) -> String {
        let index = self.0.iter().position(|known| *known == style).unwrap_or_else(|| {
            self.0.push(style);
            self.0.len() - 1
        });
        Self::name(index)
    }

    fn name(index: usize) -> String {
        let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        letters.chars().nth(index).map_or_else(|| format!("({index})"), String::from)
    }

    fn text(&self) -> String {
        self.0.iter().enumerate().map(|(i, style)| format!("{} {style}\n", Self::name(i))).collect()
    }
}

/// A line of runs for each row (`12a3b`: twelve cells of style a, three of b); equal rows below each other are counted.
fn styles(buffer: &Buffer, legend: &mut Legend) -> String {
    let mut rows: Vec<(String, usize)> = Vec::new();
    for row in buffer.content().chunks(usize::from(buffer.area.width).max(1)) {
        let mut runs: Vec<(usize, String)> = Vec::new();
        for cell in row {
            let letter = legend.letter(describe(cell));
            match runs.last_mut() {
                Some((count, last)) if *last == letter => *count += 1,
                _ => runs.push((1, letter)),
            }
        }
        let line: String = runs.into_iter().map(|(count, letter)| format!("{count}{letter}")).collect();
        match rows.last_mut() {
            Some((last, count)) if *last == line => *count += 1,
            _ => rows.push((line, 1)),
        }
    }
    rows.into_iter().map(|(line, n)| if n == 1 { line + "\n" } else { format!("{line} ×{n}\n") }).collect()
}

/// Glyph rows, then the styles, then what their letters mean.
fn picture(buffer: &Buffer) -> String {
    let mut legend = Legend::default();
    let styles = styles(buffer, &mut legend);
    format!("{}\n{styles}\n{}", text(buffer), legend.text())
}

const SIZES: [(u16, u16); 4] = [(60, 20), (80, 24), (120, 36), (200, 60)];

/// One file of a situation at all sizes: with colour the glyphs and the styles, without it the rows whose glyphs are others, and the styles.
pub(super) fn check_all(name: &str, state: &State, ui: &mut App) {
    let mut legend = Legend::default();
    let mut shown = String::new();
    for (w, h) in SIZES {
        let dark = frame(state, ui, &theme(ThemeName::Dark), w, h);
        let mono = frame(state, ui, &theme(ThemeName::Mono), w, h);
        let (glyphs, plain) = (text(&dark), text(&mono));
        shown.push_str(&format!("== {w}x{h} dark\n{glyphs}-- styles\n{}", styles(&dark, &mut legend)));
        shown.push_str(&format!("== {w}x{h} mono\n"));
        for (row, (_, other)) in glyphs.lines().zip(plain.lines()).enumerate().filter(|(_, (a, b))| a != b) {
            shown.push_str(&format!("{row:>2} {other}\n"));
        }
        shown.push_str(&format!("-- styles\n{}", styles(&mono, &mut legend)));
        assert!(mono.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    }
    shown.push_str(&format!("== letters\n{}", legend.text()));
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, shown);
    });
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

pub(super) fn check(name: &str, state: &State, ui: &mut App, theme_name: ThemeName, (w, h): (u16, u16)) {
    let shown = picture(&frame(state, ui, &theme(theme_name), w, h));
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(format!("{name}-{w}x{h}-{theme_name}"), shown);
    });
}

fn every_scene(screen: ScreenId, name: &str) {
    for scene in Scene::ALL {
        let mut ui = app(screen);
        check_all(&format!("{name}-{}", scene.name()), &testdata::state(scene), &mut ui);
    }
}

#[test]
fn the_environment_screen_in_every_situation() {
    every_scene(ScreenId::Environment, "environment");
}

#[test]
fn the_race_screen_in_every_situation() {
    every_scene(ScreenId::Race, "race");
}

#[test]
fn the_tensors_screen_in_every_situation() {
    every_scene(ScreenId::Tensors, "tensors");
}

#[test]
fn the_report_screen_in_every_situation() {
    every_scene(ScreenId::Report, "report");
}

#[test]
fn one_tensor_in_two_engines() {
    let mut ui = app(ScreenId::Tensors);
    tensors(&mut ui).open = true;
    check_all("tensors-open", &testdata::state(Scene::Done), &mut ui);
    tensors(&mut ui).open = false;
    (tensors(&mut ui).sort, tensors(&mut ui).filter, tensors(&mut ui).at) = (Sort::Difference, "down_proj".into(), 3);
    check_all("tensors-filtered", &testdata::state(Scene::Done), &mut ui);
}

#[test]
fn the_system_screen_in_every_situation() {
    let live = testdata::in_use(testdata::state(Scene::Live), true);
    let alone = testdata::in_use(testdata::state(Scene::NoGpu), false);
    let (done, loading) = (testdata::state(Scene::Done), testdata::state(Scene::Loading));
    let failed = testdata::unseen(testdata::state(Scene::Failed));
    for (name, state, open, replay) in [
        ("loading", &loading, false, false),
        ("live", &live, false, false),
        ("done", &done, false, true),
        ("failed", &failed, false, false),
        ("no-gpu", &alone, false, false),
        ("process", &live, true, false),
    ] {
        let mut ui = app(ScreenId::System);
        ui.ctx.replay = replay;
        system(&mut ui).open = open;
        check_all(&format!("system-{name}"), state, &mut ui);
    }
}

#[test]
fn the_learn_screen_in_every_situation() {
    let lesson = crate::tui::jobs::lesson::Lesson::load().map(std::sync::Arc::new);
    for (scene, step, at, lesson) in [
        (Scene::Loading, 0, 0.0, None),
        (Scene::Live, 2, 0.4, Some(lesson.clone())),
        (Scene::Done, 4, 1.0, Some(lesson.clone())),
        (Scene::Failed, 0, 0.0, Some(Err("the file is damaged".to_owned()))),
        (Scene::NoGpu, 0, 0.0, Some(lesson)),
    ] {
        let mut ui = app(ScreenId::Learn);
        (learn(&mut ui).lesson, learn(&mut ui).step, learn(&mut ui).at) = (lesson, step, at);
        check_all(&format!("learn-{}", scene.name()), &testdata::state(scene), &mut ui);
    }
}

#[test]
fn the_steps_of_the_lesson() {
    let mut ui = app(ScreenId::Learn);
    let state = State::default();
    learn(&mut ui).lesson = Some(crate::tui::jobs::lesson::Lesson::load().map(std::sync::Arc::new));
    for step in 0..crate::tui::screens::learn::STEPS {
        (learn(&mut ui).step, learn(&mut ui).at) = (step, if step == 1 { 0.5 } else { 1.0 });
        check(&format!("learn-{}", step + 1), &state, &mut ui, ThemeName::Dark, (120, 36));
        for (theme, size) in [(ThemeName::Mono, (120, 36)), (ThemeName::Dark, (60, 20)), (ThemeName::Mono, (60, 20))] {
            check(&format!("learn-{}", step + 1), &state, &mut ui, theme, size);
        }
    }
}

#[test]
fn no_word_of_the_lesson_is_lost_at_its_smallest_usual_size() {
    let mut ui = app(ScreenId::Learn);
    let lesson = crate::tui::jobs::lesson::Lesson::load().unwrap();
    learn(&mut ui).lesson = Some(Ok(std::sync::Arc::new(lesson.clone())));
    for number in 0..crate::tui::screens::learn::STEPS {
        learn(&mut ui).go(number);
        let step = crate::tui::screens::learn::step(&lesson, number);
        let last = step.text.last().unwrap().split_whitespace().last().unwrap().to_owned();
        let shown = text(&frame(&State::default(), &mut ui, &theme(ThemeName::Dark), 60, 20));
        assert!(shown.contains(&last), "{number}: {last}\n{shown}");
        // Where it cannot all be there at once, it scrolls.
        frame(&State::default(), &mut ui, &theme(ThemeName::Dark), 40, 12);
        (0..40).for_each(|_| {
            press(&mut ui, KeyCode::Down, &State::default());
        });
        let shown = text(&frame(&State::default(), &mut ui, &theme(ThemeName::Dark), 40, 12));
        assert!(shown.contains(&last), "{number}: {last}\n{shown}");
    }
}

#[test]
fn race_and_lesson_on_paper() {
    let mut ui = app(ScreenId::Race);
    for (name, scene) in [("race-live", Scene::Live), ("race-done", Scene::Done), ("race-failed", Scene::Failed)] {
        check(name, &testdata::state(scene), &mut ui, ThemeName::Light, (120, 36));
    }
    let mut ui = app(ScreenId::Learn);
    learn(&mut ui).lesson = Some(crate::tui::jobs::lesson::Lesson::load().map(std::sync::Arc::new));
    for step in [0, 2, 4, 7] {
        (learn(&mut ui).step, learn(&mut ui).at) = (step, 1.0);
        check(&format!("learn-{}", step + 1), &State::default(), &mut ui, ThemeName::Light, (120, 36));
    }
}

#[test]
fn every_pane_of_a_small_terminal_has_something_in_it() {
    let state = testdata::in_use(testdata::state(Scene::Done), true);
    let lesson = crate::tui::jobs::lesson::Lesson::load().map(std::sync::Arc::new);
    for (screen, panes) in [
        (ScreenId::Environment, 2),
        (ScreenId::Race, 5),
        (ScreenId::Tensors, 2),
        (ScreenId::System, 3),
        (ScreenId::Learn, 3),
        (ScreenId::Report, 1),
    ] {
        let mut ui = app(screen);
        learn(&mut ui).lesson = Some(lesson.clone());
        let mut seen = Vec::new();
        for _ in 0..panes {
            let shown = text(&frame(&state, &mut ui, &theme(ThemeName::Dark), 60, 20));
            let inside: String = shown.lines().skip(5).collect();
            assert!(inside.chars().filter(|c| c.is_alphanumeric()).count() > 60, "{screen:?}\n{shown}");
            assert!(!seen.contains(&shown), "{screen:?}\n{shown}");
            seen.push(shown);
            press(&mut ui, KeyCode::Tab, &state);
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
        let mut ui = app(ScreenId::Environment);
        environment(&mut ui).open_fix("udev-record".into());
        check(&format!("fix-{name}"), &state, &mut ui, ThemeName::Dark, (120, 36));
        check(&format!("fix-{name}"), &state, &mut ui, ThemeName::Mono, (80, 24));
    }
}

#[test]
fn the_help_in_a_replay() {
    let mut ui = app(ScreenId::Race);
    (ui.ctx.replay, ui.ctx.speed, ui.help) = (true, 32, Some(Scroll::default()));
    check("help", &testdata::state(Scene::Live), &mut ui, ThemeName::Dark, (120, 36));
}

#[test]
fn ascii_mode_draws_nothing_but_ascii() {
    for scene in Scene::ALL {
        for screen in ScreenId::ALL {
            let theme = Theme::new(Taste { theme: ThemeName::Dark, depth: ColourDepth::Ansi16, ascii: true });
            let mut ui = app(screen);
            let shown = text(&frame(&testdata::state(scene), &mut ui, &theme, 120, 36));
            assert!(shown.is_ascii(), "{shown}");
            assert!(!shown.contains('?') || shown.matches('?').count() == shown.matches("? help").count(), "{shown}");
        }
    }
}

#[test]
fn without_colour_the_outcomes_are_still_told_apart() {
    let mut ui = app(ScreenId::Environment);
    let shown = text(&frame(&testdata::state(Scene::Failed), &mut ui, &theme(ThemeName::Mono), 120, 36));
    assert!(shown.contains("✖ fail") && shown.contains("▲ ext4-journal") && shown.contains("✔ o-direct"), "{shown}");
}
