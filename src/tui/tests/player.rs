//! Tests of the player of a replay: its keys, its progress bar, and the session after a seek.

use super::{app, frame, text};
use crate::config::Taste;
use crate::core::Engine;
use crate::session::{Command, LoadTime, State, Timeline};
use crate::tui::app::App;
use crate::tui::context::Context;
use crate::tui::effect::Effect;
use crate::tui::keymap::Keymap;
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use std::sync::Arc;

const S: u64 = 1_000_000_000;

fn player(screen: ScreenId) -> (State, App) {
    let mut state = testdata::state(Scene::Done);
    state.now_ns = 50 * S;
    let loads = [10, 20, 30].map(|at| LoadTime { start_ns: at * S, engine: Engine::Mmap });
    let timeline = Timeline { end_ns: 60 * S, loads: loads.to_vec(), result_ns: 40 * S };
    let mut ui =
        App::new(screen, Context { replay: true, speed: 16, keys: Keymap::default().bindings, ..Context::default() });
    ui.ctx.timeline = Some(Arc::new(timeline));
    (state, ui)
}

fn press(ui: &mut App, state: &State, code: KeyCode) -> Effect {
    ui.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), state)
}

#[test]
fn arrows_go_by_a_second_and_brackets_by_a_load_also_before_the_answer_has_come() {
    let (mut state, mut ui) = player(ScreenId::Race);
    let go = |ui: &mut App, state: &State, code| press(ui, state, code).commands;
    assert_eq!(go(&mut ui, &state, KeyCode::Left), [Command::Seek(49 * S)]);
    assert_eq!(go(&mut ui, &state, KeyCode::Left), [Command::Seek(48 * S)]);
    assert_eq!(go(&mut ui, &state, KeyCode::Right), [Command::Seek(49 * S)]);
    assert_eq!(go(&mut ui, &state, KeyCode::Char('<')), [Command::Seek(30 * S)]);
    assert_eq!(go(&mut ui, &state, KeyCode::Char('<')), [Command::Seek(20 * S)]);
    assert_eq!(go(&mut ui, &state, KeyCode::Char('>')), [Command::Seek(30 * S)]);
    assert_eq!(go(&mut ui, &state, KeyCode::Char('E')), [Command::Seek(40 * S)]);
    state.now_ns = 39 * S;
    ui.ctx.over = true;
    ui.sought(&state);
    assert!(!ui.ctx.over, "it plays on from there");
    assert_eq!(go(&mut ui, &state, KeyCode::Right), [Command::Seek(41 * S)], "from the time that was sought");
    assert_eq!(go(&mut ui, &state, KeyCode::Char('O')), [Command::Loop(true)]);
}

#[test]
fn a_seek_in_a_replay_as_fast_as_possible_pauses_it() {
    let (state, mut ui) = player(ScreenId::Race);
    ui.ctx.speed = 0;
    let commands = press(&mut ui, &state, KeyCode::Left).commands;
    assert_eq!(commands, [Command::Pause(true), Command::Seek(49 * S)]);
}

#[test]
fn the_speed_is_picked_from_a_list() {
    let (state, mut ui) = player(ScreenId::Report);
    press(&mut ui, &state, KeyCode::Char('V'));
    "4×".chars().for_each(|c| _ = press(&mut ui, &state, KeyCode::Char(c)));
    let found = &ui.commands.as_ref().unwrap().found;
    assert!(found.iter().all(|entry| entry.kind == "speed") && !found.is_empty(), "{found:?}");
    assert_eq!(press(&mut ui, &state, KeyCode::Enter).commands.len(), 1);
}

#[test]
fn the_bar_has_the_times_a_tick_for_each_load_and_takes_clicks() {
    let (state, mut ui) = player(ScreenId::Race);
    let theme = Theme::new(Taste::default());
    for (w, h) in [(60, 20), (80, 24), (120, 36), (200, 60)] {
        let shown = text(&frame(&state, &mut ui, &theme, w, h));
        let bar = shown.lines().nth(2).unwrap().to_owned();
        assert!(bar.contains("00:50") && bar.contains("01:00  load 3 of 3"), "{w}x{h}: {bar}");
        assert_eq!((bar.matches('┿').count(), bar.matches('●').count()), (3, 1), "{bar}");
    }
    let shown = text(&frame(&state, &mut ui, &theme, 120, 36));
    let bar = shown.lines().nth(2).unwrap();
    let first = bar.chars().position(|c| c == '┿').unwrap() as u16;
    let kind = MouseEventKind::Down(MouseButton::Left);
    let click = MouseEvent { kind, column: first, row: 2, modifiers: KeyModifiers::NONE };
    let commands = ui.input(&Input::Mouse(click), &state).commands;
    let [Command::Seek(at)] = commands.as_slice() else { panic!("{commands:?}") };
    assert!(at.abs_diff(10 * S) < S, "{at}");
}

#[test]
fn a_key_has_one_meaning_in_the_footer_of_a_replay() {
    for screen in ScreenId::ALL {
        let (state, mut ui) = player(screen);
        let shown = text(&frame(&state, &mut ui, &Theme::new(Taste::default()), 200, 60));
        let footer = shown.lines().last().unwrap();
        assert_eq!(footer.matches("←→").count(), 1, "{screen:?}: {footer}");
    }
    let live = app(ScreenId::Race);
    assert!(live.ctx.keys.iter().all(|row| row.action != crate::tui::keys::action::Action::Left || row.keys.len() > 1));
}

#[test]
fn a_session_without_a_recording_has_no_bar() {
    let shown =
        text(&frame(&testdata::state(Scene::Done), &mut app(ScreenId::Race), &Theme::new(Taste::default()), 120, 36));
    assert!(!shown.lines().nth(2).unwrap().contains('●'));
}
