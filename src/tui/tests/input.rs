//! Tests of mouse, clipboard, export, zoom and the commands that examine the machine.

use super::{app, frame, race, tensors, text};
use crate::config::Taste;
use crate::session::{Command, State};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

fn key(ui: &mut App, state: &State, c: char) -> Effect {
    ui.input(&Input::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)), state)
}

fn mouse(ui: &mut App, state: &State, kind: MouseEventKind, column: u16, row: u16) -> Effect {
    ui.input(&Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }), state)
}

const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);

fn theme() -> Theme {
    Theme::new(Taste::default())
}

/// The position of a text in a frame.
fn find(shown: &str, what: &str) -> (u16, u16) {
    let (row, line) = shown.lines().enumerate().find(|(_, line)| line.contains(what)).unwrap();
    let column = line[..line.find(what).unwrap()].chars().count();
    (column as u16, row as u16)
}

#[test]
fn a_click_on_a_tab_a_lane_and_a_tensor_selects_it() {
    let state = testdata::state(Scene::Done);
    let mut ui = app(ScreenId::Environment);
    let shown = text(&frame(&state, &mut ui, &theme(), 120, 36));
    let (x, y) = find(&shown, "3 Tensors");
    mouse(&mut ui, &state, CLICK, x + 2, y);
    assert_eq!(ui.current, ScreenId::Tensors);
    let shown = text(&frame(&state, &mut ui, &theme(), 120, 36));
    let (_, first) = find(&shown, "▸");
    mouse(&mut ui, &state, CLICK, 5, first + 4);
    assert_eq!(tensors(&mut ui).at, 4);
    key(&mut ui, &state, '2');
    let shown = text(&frame(&state, &mut ui, &theme(), 120, 36));
    let (x, y) = find(&shown, "○ mmap");
    mouse(&mut ui, &state, CLICK, x, y);
    let chosen = ui.ctx.entry.unwrap();
    let groups = crate::present::row_groups(&state);
    let entry = groups.iter().flat_map(|h| &h.rows).nth(chosen).unwrap();
    assert_eq!(entry.engine.to_string(), "mmap");
    mouse(&mut ui, &state, CLICK, 119, 35);
    assert_eq!(ui.ctx.entry, Some(chosen), "a click on an empty place changes nothing");
}

#[test]
fn the_wheel_moves_the_selection_and_no_click_reaches_through_a_sheet() {
    let state = testdata::state(Scene::Done);
    let mut ui = app(ScreenId::Tensors);
    frame(&state, &mut ui, &theme(), 120, 36);
    mouse(&mut ui, &state, MouseEventKind::ScrollDown, 50, 20);
    assert_eq!(tensors(&mut ui).at, 3);
    key(&mut ui, &state, '?');
    frame(&state, &mut ui, &theme(), 120, 36);
    mouse(&mut ui, &state, CLICK, 5, 20);
    assert_eq!(tensors(&mut ui).at, 3);
}

#[test]
fn the_machine_is_watched_only_while_its_screen_is_shown() {
    let state = testdata::state(Scene::Done);
    let mut ui = app(ScreenId::Environment);
    assert_eq!(key(&mut ui, &state, '4').commands, [Command::WatchSystem(true)]);
    assert_eq!(key(&mut ui, &state, '4').commands, []);
    assert_eq!(key(&mut ui, &state, '1').commands, [Command::WatchSystem(false)]);
    let mut ui = app(ScreenId::Environment);
    ui.ctx.replay = true;
    assert_eq!(key(&mut ui, &state, '4').commands, []);
}

#[test]
fn y_copies_the_answer_and_x_exports_only_where_that_can_be_done() {
    let state = testdata::state(Scene::Done);
    let mut ui = app(ScreenId::Race);
    let copied = key(&mut ui, &state, 'y').copy.unwrap();
    let answers = crate::present::headline::race(&state, state.now_ns);
    assert!(copied.contains(&answers[0].text()), "{copied}");
    assert!(!key(&mut ui, &state, 'x').export);
    ui.ctx.can_export = true;
    assert!(key(&mut ui, &state, 'x').export);
}

#[test]
fn zoom_and_cursor_scroll_back_through_the_charts_and_e_expands_one() {
    let state = testdata::state(Scene::Done);
    let mut ui = app(ScreenId::Race);
    let full_range = text(&frame(&state, &mut ui, &theme(), 120, 36));
    "e++".chars().for_each(|c| drop(key(&mut ui, &state, c)));
    let end = text(&frame(&state, &mut ui, &theme(), 120, 36));
    (0..30).for_each(|_| drop(key(&mut ui, &state, 'h')));
    let earlier = text(&frame(&state, &mut ui, &theme(), 120, 36));
    assert!(full_range != end && end != earlier && earlier.contains(" at "), "{earlier}");
    assert!(!earlier.contains("where the time went") && earlier.contains("Bandwidth"), "{earlier}");
    "0e".chars().for_each(|c| drop(key(&mut ui, &state, c)));
    race(&mut ui).time.cursor = None;
    assert_eq!(text(&frame(&state, &mut ui, &theme(), 120, 36)), full_range);
}

#[test]
fn a_table_of_a_hundred_thousand_tensors_is_quick() {
    let state = testdata::many_tensors(100_000);
    let mut ui = app(ScreenId::Tensors);
    let theme = theme();
    let timed = |ui: &mut App, what: &str| {
        let start = std::time::Instant::now();
        let buffer = frame(&state, ui, &theme, 120, 36);
        eprintln!("{what}: {:?}", start.elapsed());
        assert!(text(&buffer).contains("Size and time"), "{}", text(&buffer));
    };
    timed(&mut ui, "first frame, fit and order");
    timed(&mut ui, "the same again");
    key(&mut ui, &state, 's');
    timed(&mut ui, "after a change of order");
    key(&mut ui, &state, 'G');
    timed(&mut ui, "at the end");
    "/7".chars().for_each(|c| drop(key(&mut ui, &state, c)));
    timed(&mut ui, "filtered");
    assert_eq!(tensors(&mut ui).order.len(), (0..100_000).filter(|n: &u32| n.to_string().contains('7')).count());
}

#[test]
fn the_lesson_shows_its_measurement_and_can_stop_it() {
    let mut ui = app(ScreenId::Learn);
    let live = testdata::state(Scene::Live);
    assert_eq!(key(&mut ui, &live, 'c').commands, [Command::CancelRace]);
    assert_eq!(key(&mut ui, &live, 'm').commands, [], "one race at a time");
    let done = testdata::state(Scene::Done);
    assert_eq!(key(&mut ui, &done, 'm').commands, [Command::Race(None)]);
    assert_eq!(key(&mut ui, &done, 'c').commands, []);
}

#[test]
fn a_race_is_stopped_between_two_of_its_lanes_too() {
    let mut state = crate::session::State::default();
    for event in testdata::events(Scene::Done) {
        state.reduce(&event);
        if matches!(event.body, crate::core::EventBody::LaneFinished { .. }) {
            break;
        }
    }
    assert!(state.running_lane().is_none(), "none runs just now");
    let mut ui = app(ScreenId::Report);
    assert_eq!(key(&mut ui, &state, 'c').commands, [Command::CancelRace]);
    assert!(text(&frame(&state, &mut ui, &theme(), 120, 36)).contains("stopping the race"));
    let at_ns = state.now_ns + 1;
    state.reduce(&crate::core::Event { at_ns, body: crate::core::EventBody::RaceStopped });
    let mut ui = app(ScreenId::Race);
    assert_eq!(key(&mut ui, &state, 'c').commands, []);
    let shown = text(&frame(&state, &mut ui, &theme(), 120, 36));
    assert!(shown.contains("never started") && !shown.contains("to come"), "{shown}");
}

#[test]
fn a_tensor_is_opened_compared_and_left_again() {
    let state = testdata::state(Scene::Done);
    let mut ui = app(ScreenId::Tensors);
    frame(&state, &mut ui, &theme(), 120, 36);
    let first = tensors(&mut ui).rival.as_ref().map(|(lane, _)| *lane);
    assert!(first.is_some());
    ui.input(&Input::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)), &state);
    let shown = text(&frame(&state, &mut ui, &theme(), 120, 36));
    assert!(shown.contains("moved in") && shown.contains("of the clock"), "{shown}");
    key(&mut ui, &state, 'C');
    frame(&state, &mut ui, &theme(), 120, 36);
    assert_ne!(tensors(&mut ui).rival.as_ref().map(|(lane, _)| *lane), first);
    ui.input(&Input::Key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)), &state);
    let shown = text(&frame(&state, &mut ui, &theme(), 120, 36));
    assert!(shown.contains("Size and time"), "{shown}");
    let (x, y) = find(&shown, "size ");
    mouse(&mut ui, &state, CLICK, x + 1, y);
    frame(&state, &mut ui, &theme(), 120, 36);
    assert_eq!(tensors(&mut ui).sort, crate::tui::jobs::tensor_rows::Sort::Size);
    mouse(&mut ui, &state, CLICK, x + 1, y);
    assert!(tensors(&mut ui).reversed);
}

#[test]
fn a_key_without_effect_gives_the_reason() {
    let state = testdata::state(Scene::Done);
    let mut ui = app(ScreenId::Environment);
    for (screen, pressed, reason) in [
        (ScreenId::Tensors, 'P', "only on Race (2)"),
        (ScreenId::Race, 'P', "not available now"),
        (ScreenId::Report, 'f', "not available now"),
        (ScreenId::Report, 'i', "only on Environment (1)"),
    ] {
        ui.current = screen;
        frame(&state, &mut ui, &theme(), 120, 36);
        key(&mut ui, &state, pressed);
        let said = ui.ctx.notice.clone().unwrap_or_default();
        assert!(said.contains(reason), "{screen:?} {pressed}: {said}");
    }
    key(&mut ui, &state, '\u{e000}');
    assert_eq!(ui.ctx.notice, None, "no character that a keyboard has");
    key(&mut ui, &state, 'W');
    assert!(ui.ctx.notice.is_some_and(|said| said.contains('W') && said.contains('?')), "a key without any action");
}
