//! Tests of the first minute of a new user: the problem, the reason and the key to press are visible at every size,
//! and a click acts on its target.

use super::{app, environment, frame, learn, system, text};
use crate::config::Taste;
use crate::core::FixId;
use crate::present::lesson::Lesson;
use crate::session::State;
use crate::tui::app::App;
use crate::tui::context::Ui;
use crate::tui::effect::Effect;
use crate::tui::screen_id::ScreenId;
use crate::tui::screens::environment::{Pane, RowKey, is_open};
use crate::tui::screens::system::order;
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

fn press(ui: &mut App, state: &State, code: KeyCode) -> Effect {
    ui.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), state)
}

fn mouse(ui: &mut App, state: &State, kind: MouseEventKind, (column, row): (u16, u16)) -> Effect {
    ui.input(&Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }), state)
}

fn drawn(ui: &mut App, state: &State, (w, h): (u16, u16)) -> String {
    text(&frame(state, ui, &Theme::new(Taste::default()), w, h))
}

fn find(shown: &str, what: &str) -> (u16, u16) {
    let (row, line) = shown.lines().enumerate().find(|(_, line)| line.contains(what)).unwrap();
    (line[..line.find(what).unwrap()].chars().count() as u16, row as u16)
}

/// The fix whose sheet is open.
fn open_fix(ui: &mut App) -> Option<FixId> {
    environment(ui).fix.as_ref().map(|sheet| sheet.id)
}

const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);

#[test]
fn the_reason_and_the_key_of_the_fix_are_shown_at_every_size() {
    let state = testdata::state(Scene::Failed);
    for (size, reason) in [((40, 12), false), ((60, 20), true), ((80, 24), true), ((120, 36), true), ((250, 70), true)]
    {
        let mut ui = app(ScreenId::Environment);
        let shown = drawn(&mut ui, &state, size);
        assert!(!reason || shown.lines().any(|line| line.contains("why ")), "{size:?}\n{shown}");
        let shown_text = shown.lines().skip_while(|line| !(line.contains("fix ") && line.contains(" f ")));
        let fix: String = shown_text.take(2).collect();
        assert!(fix.contains("udev"), "{size:?}\n{shown}");
        press(&mut ui, &state, KeyCode::Char('f'));
        assert_eq!(open_fix(&mut ui), Some(FixId::UdevRecord), "{size:?}");
    }
}

#[test]
fn where_nothing_was_checked_that_is_said_with_the_key_that_checks_and_no_key_that_does_nothing() {
    let state = State::default();
    let mut ui = app(ScreenId::Environment);
    ui.ctx.unasked = true;
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
    let mut ui = app(ScreenId::System);
    drawn(&mut ui, &state, (60, 20));
    press(&mut ui, &state, KeyCode::Enter);
    for (title, next) in [("Reads", "Tab memory"), ("Memory", "Tab files"), ("Possible model files", "Tab reads")] {
        let shown = drawn(&mut ui, &state, (60, 20));
        assert!(shown.contains(title) && shown.contains(next), "{shown}");
        press(&mut ui, &state, KeyCode::Tab);
    }
}

#[test]
fn a_small_screen_has_the_reads_of_a_process_from_storage_and_by_calls() {
    let state = testdata::in_use(testdata::state(Scene::Live), true);
    let shown = drawn(&mut app(ScreenId::System), &state, (60, 20));
    let heads = shown.lines().find(|line| line.contains("process  ")).unwrap_or_default();
    assert!(["storage", "calls", "GPU mem"].iter().all(|head| heads.contains(head)), "{shown}");
}

#[test]
fn the_lesson_shows_its_figure_below_its_words_on_an_ordinary_terminal() {
    let state = State::default();
    let mut ui = app(ScreenId::Learn);
    learn(&mut ui).lesson = Some(Lesson::load().map(std::sync::Arc::new));
    learn(&mut ui).at = 1.0;
    for (step, figure) in
        [(0, "The paths of a byte"), (1, "Qwen3-0.6B"), (3, "Qwen2.5-7B"), (6, "gds-slab"), (7, "Median times")]
    {
        learn(&mut ui).step = step;
        let shown = drawn(&mut ui, &state, (80, 24));
        assert!(shown.contains(figure) && shown.contains("Tab the figure"), "{shown}");
    }
}

#[test]
fn keys_named_on_the_screen_can_be_clicked() {
    let state = testdata::state(Scene::Failed);
    let mut ui = app(ScreenId::Environment);
    let shown = drawn(&mut ui, &state, (120, 36));
    let (x, y) = find(&shown, "? help");
    mouse(&mut ui, &state, CLICK, (x, y));
    assert!(ui.help.is_some());
    press(&mut ui, &state, KeyCode::Esc);
    let shown = drawn(&mut ui, &state, (120, 36));
    mouse(&mut ui, &state, CLICK, find(&shown, "fix   f"));
    assert_eq!(open_fix(&mut ui), Some(FixId::UdevRecord));
    let shown = drawn(&mut ui, &state, (120, 36));
    let lowest = shown.lines().position(|line| line.contains("d dry run")).unwrap() as u16;
    let (x, _) = find(&shown, "d dry run");
    assert_eq!(mouse(&mut ui, &state, CLICK, (x, lowest)).commands.len(), 1, "{shown}");
    let (x, _) = find(&shown, "Esc close");
    mouse(&mut ui, &state, CLICK, (x, lowest));
    assert_eq!(open_fix(&mut ui), None);
}

#[test]
fn the_wheel_moves_what_is_under_it() {
    let state = testdata::state(Scene::Failed);
    let mut ui = app(ScreenId::Environment);
    drawn(&mut ui, &state, (80, 24));
    mouse(&mut ui, &state, MouseEventKind::ScrollDown, (60, 18));
    drawn(&mut ui, &state, (80, 24));
    assert!(
        environment(&mut ui).detail.at() > 0 && environment(&mut ui).selected.is_none(),
        "the details scroll, the list stays"
    );
    mouse(&mut ui, &state, MouseEventKind::ScrollUp, (10, 18));
    assert!(environment(&mut ui).selected.is_some() && environment(&mut ui).pane == Pane::List);
}

#[test]
fn right_and_left_go_into_the_list_and_back() {
    let state = testdata::state(Scene::Failed);
    let mut ui = app(ScreenId::Environment);
    drawn(&mut ui, &state, (120, 36));
    press(&mut ui, &state, KeyCode::Right);
    assert_eq!(environment(&mut ui).pane, Pane::Detail);
    press(&mut ui, &state, KeyCode::Char('h'));
    assert_eq!(environment(&mut ui).pane, Pane::List);
    press(&mut ui, &state, KeyCode::Left);
    let Some(RowKey::Group(group)) = environment(&mut ui).selected.clone() else {
        panic!("the group of the check is selected")
    };
    let open = |ui: &mut App| {
        let ctx = ui.ctx.clone();
        is_open(&state, &Ui { ctx: &ctx, screen: environment(ui) }, group)
    };
    assert!(open(&mut ui));
    press(&mut ui, &state, KeyCode::Left);
    assert!(!open(&mut ui));
    press(&mut ui, &state, KeyCode::Char('l'));
    assert!(open(&mut ui));
}

#[test]
fn what_a_fix_says_is_followed_until_it_is_scrolled_by_hand() {
    let state = testdata::fixing(crate::core::FixStage::Applying);
    let mut ui = app(ScreenId::Environment);
    environment(&mut ui).open_fix(FixId::UdevRecord);
    let end = drawn(&mut ui, &state, (60, 20));
    press(&mut ui, &state, KeyCode::Up);
    let before = drawn(&mut ui, &state, (60, 20));
    let sheet = environment(&mut ui).fix.as_ref().unwrap();
    assert!(sheet.held && sheet.scroll.at() + 1 == sheet.scroll.last() && before != end, "{before}");
    press(&mut ui, &state, KeyCode::Down);
    assert_eq!(drawn(&mut ui, &state, (60, 20)), end);
}

#[test]
fn processes_are_sorted_and_filtered() {
    let state = testdata::in_use(testdata::state(Scene::Done), true);
    let mut ui = app(ScreenId::System);
    let pids = |ui: &mut App| {
        let (_, sample) = state.system.back().unwrap();
        let ctx = ui.ctx.clone();
        order(sample, &Ui { ctx: &ctx, screen: system(ui) }).iter().map(|p| p.pid).collect::<Vec<_>>()
    };
    let shown = drawn(&mut ui, &state, (120, 36));
    assert_eq!(pids(&mut ui), [4711, 991, 120]);
    mouse(&mut ui, &state, CLICK, find(&shown, "GPU mem"));
    assert_eq!(pids(&mut ui), [991, 4711, 120]);
    assert!(drawn(&mut ui, &state, (120, 36)).contains("▾GPU mem"));
    press(&mut ui, &state, KeyCode::Char('S'));
    assert_eq!(pids(&mut ui), [120, 4711, 991]);
    "/notebook".chars().for_each(|c| drop(press(&mut ui, &state, KeyCode::Char(c))));
    assert_eq!(pids(&mut ui), [120]);
    press(&mut ui, &state, KeyCode::Esc);
    assert_eq!(pids(&mut ui).len(), 3);
}

#[test]
fn a_captured_machine_shows_no_processes() {
    let state = testdata::state(Scene::Failed);
    let mut ui = app(ScreenId::Environment);
    ui.ctx.captured = true;
    assert_eq!(press(&mut ui, &state, KeyCode::Char('4')).commands, []);
    assert!(drawn(&mut ui, &state, (120, 36)).contains("nothing runs on it"));
}

#[test]
fn no_line_of_the_help_is_cut() {
    for screen in ScreenId::ALL {
        for (w, h) in [(60, 20), (80, 24), (120, 36)] {
            let state = testdata::in_use(testdata::state(Scene::Done), true);
            let mut ui = app(screen);
            press(&mut ui, &state, KeyCode::Char('?'));
            let mut seen = String::new();
            for _ in 0..80 {
                seen.push_str(&drawn(&mut ui, &state, (w, h)));
                press(&mut ui, &state, KeyCode::Down);
            }
            for binding in ui.bindings_below_help(&state) {
                let last = binding.help.split_whitespace().last().unwrap();
                assert!(seen.contains(last), "{screen:?} {w}x{h}: {} is cut", binding.help);
            }
        }
    }
}

#[test]
fn without_a_gpu_the_disks_and_charts_have_the_width_and_an_empty_table_is_a_line() {
    let state = testdata::in_use(testdata::state(Scene::NoGpu), false);
    let shown = text(&frame(&state, &mut app(ScreenId::System), &Theme::new(Taste::default()), 200, 60));
    let line =
        |part: &str| shown.lines().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {shown}"));
    let storage = shown.lines().nth(line("╭ Storage")).unwrap();
    assert!(storage.starts_with('╭') && storage.ends_with('╮'), "{storage}");
    assert!(line("╭ Storage") - line("╭ GPUs") <= 5, "{shown}");
}
