//! Tests of the command palette: it finds commands, screens, checks, tensors, plans and themes by a few letters.

use super::{app, environment, frame, race, tensors};
use crate::config::{Taste, ThemeName};
use crate::core::CheckId;
use crate::session::{Command, State};
use crate::tui::app::App;
use crate::tui::context::Context;
use crate::tui::effect::Effect;
use crate::tui::keymap::Keymap;
use crate::tui::screen_id::ScreenId;
use crate::tui::screens::environment::RowKey;
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};

/// Opens the palette, types a query and presses a key.
fn typed(ui: &mut App, state: &State, query: &str, last: KeyCode) -> Effect {
    let mut press = |code| ui.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), state);
    press(KeyCode::Char(':'));
    query.chars().for_each(|c| _ = press(KeyCode::Char(c)));
    press(last)
}

#[test]
fn a_screen_a_check_a_tensor_and_a_plan_are_reached_from_any_screen() {
    let mut state = testdata::state(Scene::Failed);
    state.race_plans = testdata::offers();
    let mut ui = app(ScreenId::Learn);
    typed(&mut ui, &state, "environment", KeyCode::Enter);
    assert_eq!(ui.current, ScreenId::Environment);
    typed(&mut ui, &state, "memlock", KeyCode::Enter);
    frame(&state, &mut ui, &Theme::new(Taste::default()), 120, 36);
    assert_eq!(environment(&mut ui).selected, Some(RowKey::Check(CheckId::LimMemlock)));
    typed(&mut ui, &state, "layers.7.mlp.down", KeyCode::Enter);
    frame(&state, &mut ui, &Theme::new(Taste::default()), 120, 36);
    assert_eq!((ui.current, tensors(&mut ui).order.len()), (ScreenId::Tensors, 1));
    let title = state.race_plans[1].title.clone();
    typed(&mut ui, &state, &title, KeyCode::Enter);
    assert_eq!((ui.current, race(&mut ui).plans), (ScreenId::Race, Some(1)), "a plan is selected and not run");
}

#[test]
fn a_theme_is_previewed_and_kept_by_enter_only() {
    let state = testdata::state(Scene::Done);
    let mut ui = app(ScreenId::Race);
    assert_eq!(typed(&mut ui, &state, "theme light", KeyCode::Right).theme, None);
    ui.commands = None;
    assert_eq!(typed(&mut ui, &state, "theme ligh", KeyCode::Char('t')).theme, Some(ThemeName::Light));
    let escaped = ui.input(&Input::Key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)), &state);
    assert_eq!((escaped.theme, ui.ctx.theme), (Some(ThemeName::Auto), ThemeName::Auto));
    assert_eq!(typed(&mut ui, &state, "theme light", KeyCode::Enter).theme, Some(ThemeName::Light));
    assert_eq!(ui.ctx.theme, ThemeName::Light);
    assert_eq!(typed(&mut ui, &state, "them", KeyCode::Char('e')).theme, Some(ThemeName::Light), "the current theme");
}

#[test]
fn the_palette_takes_letters_that_are_keys_elsewhere_and_ctrl_c_still_ends_the_program() {
    let state = testdata::state(Scene::Done);
    let mut ui = app(ScreenId::Race);
    assert!(!typed(&mut ui, &state, "qqq", KeyCode::Char('q')).quit);
    assert_eq!(ui.commands.as_ref().map(|palette| palette.query.as_str()), Some("qqqq"));
    assert!(ui.input(&Input::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), &state).interrupt);
}

#[test]
fn one_screen_has_no_key_that_leads_elsewhere_or_changes_something() {
    let mut state = testdata::state(Scene::Failed);
    state.race_plans = testdata::offers();
    let keys = Keymap::default().bindings;
    let mut ui = App::new(ScreenId::System, Context { alone: true, can_export: true, keys, ..Context::default() });
    let is_harmless = |ui: &App, effect: Effect| {
        let only_looks = effect.commands.iter().all(|command| matches!(command, Command::WatchSystem(_)));
        ui.current == ScreenId::System && only_looks && effect.lend.is_empty() && !effect.export && !effect.baseline
    };
    assert!(ui.start().commands.contains(&Command::WatchSystem(true)));
    let others = [KeyCode::Enter, KeyCode::Tab, KeyCode::Up, KeyCode::Down, KeyCode::Left, KeyCode::Right];
    for code in ('!'..='~').filter(|key| *key != 'q').map(KeyCode::Char).chain(others) {
        let effect = ui.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), &state);
        assert!(is_harmless(&ui, effect), "{code:?}");
        (ui.help, ui.commands, ui.ctx.filtering) = (None, None, false);
    }
    let title = state.race_plans[1].title.clone();
    for query in ["environment", "memlock", "layers.7.mlp.down", "export", "undo", &title] {
        let effect = typed(&mut ui, &state, query, KeyCode::Enter);
        assert!(is_harmless(&ui, effect), "{query}");
    }
    frame(&state, &mut ui, &Theme::new(Taste::default()), 120, 36);
}
