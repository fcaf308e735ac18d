//! Who has never seen it: what is wrong, why, and what to press, at every size; and hands that act on what they point at.

use super::{frame, text};
use crate::config::Taste;
use crate::session::State;
use crate::tui::app::{Pane, RowKey, Screen, Sheet, UiState};
use crate::tui::dispatch::Effect;
use crate::tui::screens::learn::lesson::Lesson;
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

fn press(ui: &mut UiState, state: &State, code: KeyCode) -> Effect {
    ui.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), state)
}

fn mouse(ui: &mut UiState, state: &State, kind: MouseEventKind, (column, row): (u16, u16)) -> Effect {
    ui.input(&Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }), state)
}

fn drawn(ui: &mut UiState, state: &State, (w, h): (u16, u16)) -> String {
    text(&frame(state, ui, &Theme::new(Taste::default()), w, h))
}

fn find(shown: &str, what: &str) -> (u16, u16) {
    let (row, line) = shown.lines().enumerate().find(|(_, line)| line.contains(what)).unwrap();
    (line[..line.find(what).unwrap()].chars().count() as u16, row as u16)
}

const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);

#[test]
fn the_reason_and_the_key_that_mends_it_are_told_at_every_size() {
    let state = testdata::state(Scene::Failed);
    for (size, reason) in [((40, 12), false), ((60, 20), true), ((80, 24), true), ((120, 36), true), ((250, 70), true)]
    {
        let mut ui = UiState::default();
        let shown = drawn(&mut ui, &state, size);
        assert!(!reason || shown.lines().any(|line| line.contains("why ")), "{size:?}\n{shown}");
        let told = shown.lines().skip_while(|line| !(line.contains("fix ") && line.contains(" f ")));
        let fix: String = told.take(2).collect();
        assert!(fix.contains("udev"), "{size:?}\n{shown}");
        press(&mut ui, &state, KeyCode::Char('f'));
        assert_eq!(ui.sheet, Some(Sheet::Fix("udev-record".into())), "{size:?}");
    }
}

#[test]
fn where_nothing_was_checked_that_is_said_with_the_key_that_checks_and_no_key_that_does_nothing() {
    let state = State::default();
    let mut ui = UiState { unasked: true, ..UiState::default() };
    let shown = drawn(&mut ui, &state, (80, 24));
    assert!(shown.contains("not checked") && shown.contains("r       checks this machine"), "{shown}");
    assert!(!shown.contains("Checking") && !shown.contains("filter") && !shown.contains("move"), "{shown}");
    press(&mut ui, &state, KeyCode::Char('r'));
    let shown = drawn(&mut ui, &state, (80, 24));
    assert!(shown.contains("Checking this machine"), "{shown}");
}

#[test]
fn a_small_screen_shows_reads_memory_and_files_of_a_process_in_turn() {
    let state = testdata::in_use(testdata::state(Scene::Live), true);
    let mut ui = UiState { screen: Screen::System, ..UiState::default() };
    drawn(&mut ui, &state, (60, 20));
    press(&mut ui, &state, KeyCode::Enter);
    for (title, next) in [("Reads", "Tab memory"), ("Memory", "Tab model files"), ("Model files", "Tab reads")] {
        let shown = drawn(&mut ui, &state, (60, 20));
        assert!(shown.contains(title) && shown.contains(next), "{shown}");
        press(&mut ui, &state, KeyCode::Tab);
    }
}

#[test]
fn the_lesson_shows_its_figure_below_its_words_on_an_ordinary_terminal() {
    let state = State::default();
    let mut ui = UiState { screen: Screen::Learn, ..UiState::default() };
    ui.learn.lesson = Some(Lesson::load().map(std::sync::Arc::new));
    ui.learn.at = 1.0;
    for (step, figure) in
        [(0, "The ways of a byte"), (1, "Qwen3-0.6B"), (3, "Qwen2.5-7B"), (6, "gds-slab"), (7, "Median times")]
    {
        ui.learn.step = step;
        let shown = drawn(&mut ui, &state, (80, 24));
        assert!(shown.contains(figure) && shown.contains("Tab the figure"), "{shown}");
    }
}

#[test]
fn keys_named_on_the_screen_can_be_clicked() {
    let state = testdata::state(Scene::Failed);
    let mut ui = UiState::default();
    let shown = drawn(&mut ui, &state, (120, 36));
    let (x, y) = find(&shown, "? help");
    mouse(&mut ui, &state, CLICK, (x, y));
    assert_eq!(ui.sheet, Some(Sheet::Help));
    press(&mut ui, &state, KeyCode::Esc);
    let shown = drawn(&mut ui, &state, (120, 36));
    mouse(&mut ui, &state, CLICK, find(&shown, "fix   f"));
    assert_eq!(ui.sheet, Some(Sheet::Fix("udev-record".into())));
    let shown = drawn(&mut ui, &state, (120, 36));
    let lowest = shown.lines().position(|line| line.contains("d dry run")).unwrap() as u16;
    let (x, _) = find(&shown, "d dry run");
    assert_eq!(mouse(&mut ui, &state, CLICK, (x, lowest)).commands.len(), 1, "{shown}");
    let (x, _) = find(&shown, "Esc close");
    mouse(&mut ui, &state, CLICK, (x, lowest));
    assert_eq!(ui.sheet, None);
}

#[test]
fn the_wheel_moves_what_is_under_it() {
    let state = testdata::state(Scene::Failed);
    let mut ui = UiState::default();
    drawn(&mut ui, &state, (80, 24));
    let selected = |ui: &UiState| ui.environment.selected.clone();
    mouse(&mut ui, &state, MouseEventKind::ScrollDown, (60, 18));
    drawn(&mut ui, &state, (80, 24));
    assert!(ui.environment.detail_scroll > 0 && selected(&ui).is_none(), "the details scroll, the list stays");
    mouse(&mut ui, &state, MouseEventKind::ScrollUp, (10, 18));
    assert!(selected(&ui).is_some() && ui.environment.pane == Pane::List);
}

#[test]
fn right_and_left_go_into_the_list_and_back() {
    let state = testdata::state(Scene::Failed);
    let mut ui = UiState::default();
    drawn(&mut ui, &state, (120, 36));
    press(&mut ui, &state, KeyCode::Right);
    assert_eq!(ui.environment.pane, Pane::Detail);
    press(&mut ui, &state, KeyCode::Char('h'));
    assert_eq!(ui.environment.pane, Pane::List);
    press(&mut ui, &state, KeyCode::Left);
    let Some(RowKey::Group(group)) = ui.environment.selected else { panic!("the group of the check is selected") };
    let open = |ui: &UiState| crate::tui::screens::environment::checks::is_open(&state, ui, group);
    assert!(open(&ui));
    press(&mut ui, &state, KeyCode::Left);
    assert!(!open(&ui));
    press(&mut ui, &state, KeyCode::Char('l'));
    assert!(open(&ui));
}

#[test]
fn what_a_fix_says_is_followed_until_it_is_scrolled_by_hand() {
    let state = testdata::fixing(crate::domain::FixStage::Applying);
    let mut ui = UiState { sheet: Some(Sheet::Fix("udev-record".into())), ..UiState::default() };
    let end = drawn(&mut ui, &state, (60, 20));
    press(&mut ui, &state, KeyCode::Up);
    let before = drawn(&mut ui, &state, (60, 20));
    assert!(ui.sheet_held && ui.sheet_scroll + 1 == ui.sheet_last && before != end, "{before}");
    press(&mut ui, &state, KeyCode::Down);
    assert_eq!(drawn(&mut ui, &state, (60, 20)), end);
}

#[test]
fn processes_are_sorted_and_filtered() {
    let state = testdata::in_use(testdata::state(Scene::Done), true);
    let mut ui = UiState { screen: Screen::System, ..UiState::default() };
    let pids = |ui: &UiState| {
        let (_, sample) = state.system.back().unwrap();
        crate::tui::screens::system::view::order(sample, ui).iter().map(|p| p.pid).collect::<Vec<_>>()
    };
    let shown = drawn(&mut ui, &state, (120, 36));
    assert_eq!(pids(&ui), [4711, 991, 120]);
    mouse(&mut ui, &state, CLICK, find(&shown, "GPU mem"));
    assert_eq!(pids(&ui), [991, 4711, 120]);
    assert!(drawn(&mut ui, &state, (120, 36)).contains("▾GPU mem"));
    press(&mut ui, &state, KeyCode::Char('S'));
    assert_eq!(pids(&ui), [120, 4711, 991]);
    "/notebook".chars().for_each(|c| drop(press(&mut ui, &state, KeyCode::Char(c))));
    assert_eq!(pids(&ui), [120]);
    press(&mut ui, &state, KeyCode::Esc);
    assert_eq!(pids(&ui).len(), 3);
}

#[test]
fn a_folder_that_stands_for_a_machine_shows_nobody_elses_processes() {
    let state = testdata::state(Scene::Failed);
    let mut ui = UiState { captured: true, ..UiState::default() };
    assert_eq!(press(&mut ui, &state, KeyCode::Char('4')).commands, []);
    assert!(drawn(&mut ui, &state, (120, 36)).contains("nothing runs on it"));
}

#[test]
fn no_line_of_the_help_is_cut() {
    for screen in Screen::ALL {
        for (w, h) in [(60, 20), (80, 24), (120, 36)] {
            let state = testdata::in_use(testdata::state(Scene::Done), true);
            let mut ui = UiState { screen, sheet: Some(Sheet::Help), ..UiState::default() };
            let mut seen = String::new();
            for _ in 0..80 {
                seen.push_str(&drawn(&mut ui, &state, (w, h)));
                press(&mut ui, &state, KeyCode::Down);
            }
            for binding in ui.keys.now(&state, &UiState { sheet: None, ..ui.clone() }) {
                let last = binding.help.split_whitespace().last().unwrap();
                assert!(seen.contains(last), "{screen:?} {w}x{h}: {} is cut", binding.help);
            }
        }
    }
}
