//! Snapshots of the characters on every screen in every situation, at two sizes. The tests in `themes.rs` cover the
//! colours.

use super::{app, environment, frame, learn, system, tensors, text};
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::core::FixStage;
use crate::session::State;
use crate::tui::app::App;
use crate::tui::jobs::tensor_rows::Sort;
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use crate::tui::widgets::scroll::Scroll;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

fn press(ui: &mut App, code: KeyCode, state: &State) {
    ui.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), state);
}

pub(super) fn theme(name: ThemeName) -> Theme {
    Theme::new(Taste { theme: name, depth: ColourDepth::True, ..Taste::default() })
}

const SIZES: [(u16, u16); 2] = [(80, 24), (120, 36)];

/// Writes one snapshot file for a situation with both sizes. The mono theme is used, so only weight and reversal
/// remain of the styles.
pub(super) fn check_all(name: &str, state: &State, ui: &mut App) {
    let mut shown = String::new();
    for (w, h) in SIZES {
        let mono = frame(state, ui, &theme(ThemeName::Mono), w, h);
        assert!(mono.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
        let dark = frame(state, ui, &theme(ThemeName::Dark), w, h);
        shown.push_str(&format!("== {w}x{h}\n{}", text(&dark)));
    }
    compare(name, &shown);
}

/// Writes one snapshot file for a frame of one size.
fn check(name: &str, state: &State, ui: &mut App, (w, h): (u16, u16)) {
    compare(&format!("{name}-{w}x{h}"), &text(&frame(state, ui, &theme(ThemeName::Dark), w, h)));
}

fn compare(name: &str, shown: &str) {
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, shown);
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
fn the_headline_of_the_report_contains_the_verification_once() {
    let shown =
        frame(&testdata::state(Scene::Done), &mut app(ScreenId::Report), &Theme::new(Taste::default()), 200, 40);
    let shown = text(&shown);
    let headline = shown.split("╭ Report").next().unwrap_or_default();
    assert!(headline.contains("5 of 5 runs finished"), "{shown}");
    assert_eq!(headline.matches("verified").count(), 1, "{shown}");
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
    let lesson = crate::present::lesson::Lesson::load().map(std::sync::Arc::new);
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
    learn(&mut ui).lesson = Some(crate::present::lesson::Lesson::load().map(std::sync::Arc::new));
    for step in 0..crate::tui::screens::learn::STEPS {
        (learn(&mut ui).step, learn(&mut ui).at) = (step, if step == 1 { 0.5 } else { 1.0 });
        for size in [(60, 20), (120, 36)] {
            check(&format!("learn-{}", step + 1), &state, &mut ui, size);
        }
    }
}

#[test]
fn no_word_of_the_lesson_is_lost_at_its_smallest_usual_size() {
    let mut ui = app(ScreenId::Learn);
    let lesson = crate::present::lesson::Lesson::load().unwrap();
    learn(&mut ui).lesson = Some(Ok(std::sync::Arc::new(lesson.clone())));
    for number in 0..crate::tui::screens::learn::STEPS {
        learn(&mut ui).go(number);
        let step = crate::tui::screens::learn::step(&lesson, number);
        let last = step.text.last().unwrap().split_whitespace().last().unwrap().to_owned();
        let shown = text(&frame(&State::default(), &mut ui, &theme(ThemeName::Dark), 60, 20));
        assert!(shown.contains(&last), "{number}: {last}\n{shown}");
        // At this size the text does not fit, so it scrolls.
        frame(&State::default(), &mut ui, &theme(ThemeName::Dark), 40, 12);
        (0..40).for_each(|_| {
            press(&mut ui, KeyCode::Down, &State::default());
        });
        let shown = text(&frame(&State::default(), &mut ui, &theme(ThemeName::Dark), 40, 12));
        assert!(shown.contains(&last), "{number}: {last}\n{shown}");
    }
}

#[test]
fn every_pane_of_a_small_terminal_has_something_in_it() {
    let state = testdata::in_use(testdata::state(Scene::Done), true);
    let lesson = crate::present::lesson::Lesson::load().map(std::sync::Arc::new);
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
        ("fixed", testdata::fixing(FixStage::Fixed)),
    ] {
        let mut ui = app(ScreenId::Environment);
        environment(&mut ui).open_fix(crate::core::FixId::UdevRecord);
        check(&format!("fix-{name}"), &state, &mut ui, (120, 36));
        check(&format!("fix-{name}"), &state, &mut ui, (80, 24));
    }
}

#[test]
fn the_help_in_a_replay() {
    let mut ui = app(ScreenId::Race);
    (ui.ctx.replay, ui.ctx.speed, ui.help) = (true, 32, Some(Scroll::default()));
    check("help", &testdata::state(Scene::Live), &mut ui, (120, 36));
}

#[test]
fn ascii_mode_draws_nothing_but_ascii() {
    for scene in Scene::ALL {
        for screen in ScreenId::ALL {
            let theme = Theme::new(Taste { theme: ThemeName::Dark, ascii: true, ..Taste::default() });
            let mut ui = app(screen);
            let shown = text(&frame(&testdata::state(scene), &mut ui, &theme, 120, 36));
            assert!(shown.is_ascii(), "{shown}");
            assert!(!shown.contains('?') || shown.matches('?').count() == shown.matches("? help").count(), "{shown}");
        }
    }
}

#[test]
fn without_colour_the_outcomes_still_differ() {
    let mut ui = app(ScreenId::Environment);
    let shown = text(&frame(&testdata::state(Scene::Failed), &mut ui, &theme(ThemeName::Mono), 120, 36));
    assert!(
        shown.contains("✖ fail") && shown.contains("▲ ext4-ordered") && shown.contains("✔ odirect-open"),
        "{shown}"
    );
}
