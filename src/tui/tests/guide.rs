//! Tests of the checklist on screen 1: its text is the same as on the command line, at every size, and its fixes can
//! be opened.

use super::{app, environment, frame, text};
use crate::config::Taste;
use crate::core::CheckId;
use crate::core::{
    Event, EventBody, FixId, FixPlan, FixProgress, FixStage, Guide, GuideStep, Needs, OpenPlan, OpenStep, Route,
    StepState,
};
use crate::session::{Command, State};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::screen_id::ScreenId;
use crate::tui::screens::environment::{Pane, RowKey};
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};

fn step(title: &str, state: StepState) -> GuideStep {
    GuideStep {
        checks: Vec::new(),
        title: title.into(),
        state,
        found: vec![format!("found: {title}")],
        plans: Vec::new(),
        advice: Vec::new(),
    }
}

/// A scene with a checklist: a completed step, a step with a fix, a step without a fix, and the proof.
fn state() -> State {
    let mut state = testdata::state(Scene::Failed);
    let mut udev = step("udev's record of the disk", StepState::Open);
    udev.plans = state.plans.clone();
    let mut bios = step("A setting of the BIOS", StepState::Open);
    bios.advice = vec!["set it by hand".into()];
    let open = OpenPlan {
        id: FixId::Memlock,
        title: "Lift the limit on locked memory".into(),
        steps: vec![OpenStep { text: "sudo reboot".into(), state: StepState::Open }],
        verified: false,
        next: "sudo reboot; then gds-top verifies it".into(),
    };
    let guide = Guide {
        route: Route::P2pdma,
        reason: "P2PDMA is near".into(),
        open: vec![open],
        steps: vec![
            step("The driver", StepState::Done),
            udev,
            bios,
            step("The proof: reads counted on p2pdma", StepState::Unknown),
        ],
    };
    state.reduce(&Event { at_ns: state.now_ns, body: EventBody::GuideMade { guide } });
    state
}

fn press(ui: &mut App, state: &State, code: KeyCode) -> Effect {
    ui.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), state)
}

/// The fix that is open, and whether the checklist is open.
fn sheets(ui: &mut App) -> (Option<FixId>, bool) {
    let screen = environment(ui);
    (screen.fix.as_ref().map(|sheet| sheet.id), screen.guide.is_some())
}

#[test]
fn every_line_of_the_checklist_can_be_brought_into_sight_at_every_size() {
    let state = state();
    let theme = Theme::new(Taste::default());
    for (w, h) in [(60, 20), (80, 24), (120, 36), (200, 60)] {
        let mut ui = app(ScreenId::Environment);
        environment(&mut ui).guide = Some(0);
        let mut seen = String::new();
        for _ in 0..6 {
            seen.push_str(&text(&frame(&state, &mut ui, &theme, w, h)));
            press(&mut ui, &state, KeyCode::Down);
        }
        for part in ["1 of 4 steps", " 1. The driver", "udev's record", "Waiting", "set it by", "The proof"] {
            let part = if part == "Waiting" { "memlock" } else { part };
            assert!(seen.contains(part), "{w}x{h}: {part}\n{seen}");
        }
    }
}

#[test]
fn a_fix_is_opened_from_the_checklist_and_closing_it_leads_back() {
    let state = state();
    let mut ui = app(ScreenId::Environment);
    press(&mut ui, &state, KeyCode::Char('i'));
    assert_eq!(sheets(&mut ui), (None, true));
    assert!(press(&mut ui, &state, KeyCode::Char('a')).commands.is_empty(), "nothing is applied without its preview");
    let copied = press(&mut ui, &state, KeyCode::Char('y')).copy;
    assert_eq!(copied.as_deref(), Some("sudo gds-top fix udev-record"));
    press(&mut ui, &state, KeyCode::Enter);
    assert_eq!(sheets(&mut ui), (Some(FixId::UdevRecord), true));
    assert_eq!(
        press(&mut ui, &state, KeyCode::Char('a')).commands,
        [Command::ApplyFix(FixId::UdevRecord, state.plans[0].digest())]
    );
    press(&mut ui, &state, KeyCode::Esc);
    assert_eq!(sheets(&mut ui), (None, true));
    assert_eq!(press(&mut ui, &state, KeyCode::Char('r')).commands, [Command::Recheck]);
    press(&mut ui, &state, KeyCode::Esc);
    assert_eq!(sheets(&mut ui), (None, false));
}

#[test]
fn what_comes_only_after_a_race_is_said_to_wait() {
    let mut state = state();
    for measuring in [false, true] {
        state.grid = testdata::grid(3).grid.filter(|_| measuring);
        for (fix, key) in [(Some(FixId::UdevRecord), 'a'), (None, 'r')] {
            let mut ui = app(ScreenId::Environment);
            fix.into_iter().for_each(|id| environment(&mut ui).open_fix(id));
            assert_eq!(press(&mut ui, &state, KeyCode::Char(key)).commands.len(), 1);
            let said = ui.ctx.notice.unwrap_or_default();
            assert_eq!(said.contains("when it has ended (c on Race stops it)"), measuring, "{said}");
        }
    }
}

#[test]
fn a_fix_for_root_asks_for_the_terminal_first_where_sudo_is_needed() {
    let state = state();
    assert_eq!(state.plans[0].needs, Needs::Root);
    let mut ui = app(ScreenId::Environment);
    ui.ctx.needs_sudo = true;
    environment(&mut ui).open_fix(FixId::UdevRecord);
    let effect = press(&mut ui, &state, KeyCode::Char('a'));
    assert!(effect.commands.is_empty());
    assert_eq!(effect.lend, [Command::ApplyFix(FixId::UdevRecord, state.plans[0].digest())]);
}

/// A scene with a second fix: first the udev record, then the setting in cufile.json.
fn with_second_fix(mut state: State) -> State {
    let plan = FixPlan { id: FixId::CufileP2pdmaKeys, check: CheckId::CfgP2pBoth, ..state.plans[0].clone() };
    state.reduce(&Event { at_ns: state.now_ns, body: EventBody::FixPlanned { plan } });
    state
}

/// The same scene with the first fix applied.
fn two_fixes() -> State {
    with_second_fix(testdata::fixing(FixStage::Fixed))
}

/// The fix that a key applies.
fn applied(effect: &Effect) -> Option<FixId> {
    effect.commands.iter().find_map(|command| match command {
        Command::ApplyFix(id, _) => Some(*id),
        _ => None,
    })
}

#[test]
fn two_fixes_are_applied_with_four_keys() {
    let mut ui = app(ScreenId::Environment);
    let (before, between) = (with_second_fix(testdata::state(Scene::Failed)), two_fixes());
    press(&mut ui, &before, KeyCode::Char('f'));
    assert_eq!(applied(&press(&mut ui, &before, KeyCode::Char('a'))), Some(FixId::UdevRecord));
    press(&mut ui, &between, KeyCode::Char('f'));
    assert_eq!(applied(&press(&mut ui, &between, KeyCode::Char('a'))), Some(FixId::CufileP2pdmaKeys));
}

#[test]
fn the_key_for_fixes_opens_the_next_open_fix_and_never_an_applied_one() {
    let between = two_fixes();
    let mut ui = app(ScreenId::Environment);
    environment(&mut ui).selected = Some(RowKey::Check(CheckId::UdevDatabase));
    press(&mut ui, &between, KeyCode::Char('f'));
    assert_eq!(sheets(&mut ui).0, Some(FixId::CufileP2pdmaKeys));
    // This is the only fix that is left, so the key has no effect.
    press(&mut ui, &between, KeyCode::Char('f'));
    assert_eq!(sheets(&mut ui).0, Some(FixId::CufileP2pdmaKeys));
}

#[test]
fn the_key_for_fixes_goes_through_all_open_fixes_whatever_is_selected_and_enter_opens_that_of_the_selection() {
    let mut state = with_second_fix(testdata::state(Scene::Failed));
    let third = FixPlan { id: FixId::Memlock, check: CheckId::IommuState, ..state.plans[0].clone() };
    state.reduce(&Event { at_ns: state.now_ns, body: EventBody::FixPlanned { plan: third } });
    let mut ui = app(ScreenId::Environment);
    let select = |ui: &mut App| environment(ui).selected = Some(RowKey::Check(CheckId::CfgP2pBoth));
    select(&mut ui);
    let opened = |ui: &mut App| {
        press(ui, &state, KeyCode::Char('f'));
        sheets(ui).0.unwrap()
    };
    let first: Vec<FixId> = (0..3).map(|_| opened(&mut ui)).collect();
    assert_eq!(first[0], FixId::UdevRecord, "the next fix, and not that of the selected check");
    let all = [FixId::UdevRecord, FixId::CufileP2pdmaKeys, FixId::Memlock];
    assert!(all.iter().all(|id| first.contains(id)), "{first:?}");
    assert_eq!(opened(&mut ui), first[0], "after the last fix the first one");
    press(&mut ui, &state, KeyCode::Esc);
    // The list opens its groups if there is space for them.
    frame(&state, &mut ui, &Theme::new(Taste::default()), 120, 60);
    select(&mut ui);
    press(&mut ui, &state, KeyCode::Enter);
    press(&mut ui, &state, KeyCode::Enter);
    assert_eq!(sheets(&mut ui).0, Some(FixId::CufileP2pdmaKeys));
}

#[test]
fn a_dry_run_is_shown_until_the_fix_is_applied() {
    let dry = |state: &mut State| {
        let progress =
            FixProgress { id: FixId::UdevRecord, stage: FixStage::Previewed, text: "+ a line".into(), finding: None };
        state.reduce(&Event { at_ns: state.now_ns, body: EventBody::FixProgress { progress } });
    };
    let shows_it = |state: &State| {
        let mut ui = app(ScreenId::Environment);
        environment(&mut ui).open_fix(FixId::UdevRecord);
        text(&frame(state, &mut ui, &Theme::new(Taste::default()), 120, 60)).contains("Dry run")
    };
    let mut state = testdata::state(Scene::Failed);
    dry(&mut state);
    assert!(shows_it(&state));
    let applied = testdata::fixing(FixStage::Fixed);
    state.fix_log.extend(applied.fix_log.iter().cloned());
    assert!(!shows_it(&state));
    dry(&mut state);
    assert!(shows_it(&state), "a dry run after the fix is the newest");
}

#[test]
fn a_blocked_station_of_the_road_opens_its_fix_and_a_free_one_says_that_it_is_free() {
    let state = state();
    let mut ui = app(ScreenId::Environment);
    let theme = Theme::new(Taste::default());
    let shown = text(&frame(&state, &mut ui, &theme, 120, 36));
    let road = shown.lines().find(|line| line.contains("goal")).unwrap().to_owned();
    assert!(["disk", "PCIe", "GPU", "cuFile", "✖"].iter().all(|part| road.contains(part)), "{road}");
    press(&mut ui, &state, KeyCode::Tab);
    press(&mut ui, &state, KeyCode::Tab);
    assert_eq!(environment(&mut ui).pane, Pane::Road);
    press(&mut ui, &state, KeyCode::Enter);
    assert_eq!(sheets(&mut ui).0, Some(FixId::UdevRecord), "the first blocked station is selected at first");
    press(&mut ui, &state, KeyCode::Esc);
    for _ in 0..4 {
        press(&mut ui, &state, KeyCode::Left);
    }
    let names = [0, 1, 2, 3].map(|_| {
        press(&mut ui, &state, KeyCode::Enter);
        let opened = sheets(&mut ui).0;
        let free = ui.ctx.notice.as_deref().is_some_and(|words| words.contains("nothing blocks"));
        press(&mut ui, &state, KeyCode::Esc);
        environment(&mut ui).pane = Pane::Road;
        press(&mut ui, &state, KeyCode::Right);
        (opened.is_some(), free)
    });
    assert!(names.iter().any(|(opened, _)| *opened) && names.iter().any(|(_, free)| *free), "{names:?}");
}

#[test]
fn the_next_fix_is_reached_from_every_screen() {
    let state = state();
    for screen in ScreenId::ALL {
        let mut ui = app(screen);
        press(&mut ui, &state, KeyCode::Char('f'));
        assert_eq!((ui.current, sheets(&mut ui).0), (ScreenId::Environment, Some(FixId::UdevRecord)), "{screen:?}");
    }
}
