//! Tests of plans, grids and layers: snapshots, keys and clicks.

use super::snapshots::check_all;
use super::{app, frame, race, text};
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::session::{Command, State};
use crate::tui::app::App;
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata;
use crate::tui::theme::Theme;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

fn on_race() -> App {
    app(ScreenId::Race)
}

fn dark() -> Theme {
    Theme::new(Taste { theme: ThemeName::Dark, depth: ColourDepth::True, ..Taste::default() })
}

fn press(ui: &mut App, state: &State, code: KeyCode) -> Vec<Command> {
    ui.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), state).commands
}

fn shown(ui: &mut App, state: &State, (w, h): (u16, u16)) -> String {
    text(&frame(state, ui, &dark(), w, h))
}

#[test]
fn the_storage_grid_in_every_situation() {
    for (name, done) in [("writing", 0), ("live", 21), ("done", 192)] {
        check_all(&format!("grid-{name}"), &testdata::grid(done), &mut on_race());
    }
}

#[test]
fn a_read_layer_by_layer_at_every_size() {
    let mut ui = on_race();
    ui.ctx.entry = Some(3);
    check_all("layers-beside-the-lanes", &testdata::kv(), &mut ui);
    race(&mut ui).expanded = true;
    race(&mut ui).pane = crate::tui::screens::race::LAYERS_PANE;
    check_all("layers-alone", &testdata::kv(), &mut ui);
}

#[test]
fn the_plans_at_every_size() {
    let mut ui = on_race();
    race(&mut ui).plans = Some(0);
    check_all("plans", &testdata::several(), &mut ui);
}

#[test]
fn a_plan_is_run_by_enter_and_one_that_cannot_run_says_why() {
    let (mut state, mut ui) = (testdata::grid(192), on_race());
    state.race_plans = testdata::offers();
    shown(&mut ui, &state, (120, 36));
    press(&mut ui, &state, KeyCode::Char('P'));
    assert_eq!(race(&mut ui).plans, Some(0));
    press(&mut ui, &state, KeyCode::Down);
    // The files are listed before the user consents.
    assert!(shown(&mut ui, &state, (120, 36)).contains("640 MiB"));
    assert_eq!(press(&mut ui, &state, KeyCode::Enter), [Command::RunPlan("bench-kv lmcache".into())]);
    assert_eq!(race(&mut ui).plans, None);
    press(&mut ui, &state, KeyCode::Char('P'));
    press(&mut ui, &state, KeyCode::End);
    assert_eq!(press(&mut ui, &state, KeyCode::Enter), []);
    assert!(shown(&mut ui, &state, (120, 36)).contains("1.2 GiB free"));
}

#[test]
fn nothing_is_run_while_something_is_measured_or_in_a_replay() {
    for done in [0, 21] {
        let (mut state, mut ui) = (testdata::grid(done), on_race());
        state.race_plans = testdata::offers();
        race(&mut ui).plans = Some(0);
        assert_eq!(press(&mut ui, &state, KeyCode::Enter), [], "{done} cells");
    }
    let mut state = testdata::several();
    state.grid = testdata::grid(192).grid;
    let mut ui = on_race();
    race(&mut ui).plans = Some(0);
    ui.ctx.replay = true;
    assert_eq!(press(&mut ui, &state, KeyCode::Enter), []);
}

#[test]
fn earlier_plans_are_reached_by_the_brackets_and_by_the_list() {
    let (state, mut ui) = (testdata::several(), on_race());
    assert!(shown(&mut ui, &state, (120, 36)).contains("sequential read"));
    press(&mut ui, &state, KeyCode::Char('['));
    let older = shown(&mut ui, &state, (120, 36));
    assert!(older.contains("lmcache/gds/read") && !older.contains("sequential read"), "{older}");
    press(&mut ui, &state, KeyCode::Char(']'));
    assert!(shown(&mut ui, &state, (120, 36)).contains("sequential read"));
    // In a replay, the brackets change the speed.
    ui.ctx.replay = true;
    press(&mut ui, &state, KeyCode::Char('P'));
    press(&mut ui, &state, KeyCode::End);
    press(&mut ui, &state, KeyCode::Enter);
    assert!(shown(&mut ui, &state, (120, 36)).contains("lmcache/gds/read"));
}

#[test]
fn a_new_plan_is_shown_at_once() {
    let (mut state, mut ui) = (testdata::kv(), on_race());
    shown(&mut ui, &state, (120, 36));
    ui.ctx.entry = Some(2);
    let plan_started = crate::core::EventBody::RacePlanStarted { name: "io grid".into(), title: "io grid".into() };
    state.reduce(&crate::core::Event { at_ns: state.now_ns + 1, body: plan_started });
    shown(&mut ui, &state, (120, 36));
    assert_eq!((ui.ctx.plan, ui.ctx.entry, state.earlier.len(), state.lanes.len()), (None, None, 1, 0));
    assert_eq!(state.earlier[0].race_title(), "bench-kv lmcache");
}

#[test]
fn a_cell_is_chosen_by_a_click_and_copied_in_words() {
    let (state, mut ui) = (testdata::grid(192), on_race());
    let rows = shown(&mut ui, &state, (200, 60));
    let row = rows.lines().position(|line| line.contains("4 KiB")).unwrap();
    let click = MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: 14,
        row: u16::try_from(row).unwrap(),
        modifiers: KeyModifiers::NONE,
    };
    ui.input(&Event::Mouse(click), &state);
    assert_eq!(race(&mut ui).cell, Some(0));
    let copied = ui.input(&Event::Key(KeyEvent::new(KeyCode::Char('y'), KeyModifiers::NONE)), &state).copy.unwrap();
    assert!(copied.contains("read gds-registered, 4 KiB blocks, 1 thread, sequential: 52.0 MB/s"), "{copied}");
}

#[test]
fn the_cursor_in_a_grid_that_is_too_large_is_always_in_sight() {
    let (state, mut ui) = (testdata::grid(192), on_race());
    for (w, h) in [(60, 20), (40, 10), (80, 24)] {
        for at in 0..192 {
            race(&mut ui).cell = Some(at);
            let drawn = shown(&mut ui, &state, (w, h));
            assert!(h < 20 || drawn.contains('['), "{at} at {w}x{h}:\n{drawn}");
        }
    }
}

#[test]
fn the_arrows_go_from_layer_to_layer_and_charts_come_back_by_a_key() {
    let (state, mut ui) = (testdata::kv(), on_race());
    ui.ctx.entry = Some(3);
    // The first layer has the longest waiting time.
    assert!(
        shown(&mut ui, &state, (200, 60)).contains("layer 3 of 28")
            || shown(&mut ui, &state, (200, 60)).contains("layer 0 of 28")
    );
    race(&mut ui).layer = Some(0);
    press(&mut ui, &state, KeyCode::Right);
    assert_eq!(race(&mut ui).layer, Some(1));
    let drawn = shown(&mut ui, &state, (200, 60));
    assert!(drawn.contains("layer 1 of 28") && drawn.contains("87 % of the loading is hidden"), "{drawn}");
    press(&mut ui, &state, KeyCode::Char('L'));
    let charts = shown(&mut ui, &state, (200, 60));
    assert!(charts.contains("Bandwidth") && !charts.contains("of the loading is hidden"));
}
