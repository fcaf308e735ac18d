//! Tests of the keymap: no key has two meanings at the same time, and settings replace keys.

use super::app;
use crate::config::KeySetting;
use crate::session::State;
use crate::tui::app::App;
use crate::tui::keymap::Keymap;
use crate::tui::keys::action::Action;
use crate::tui::keys::bindings::Place;
use crate::tui::keys::key::Key;
use crate::tui::screen_id::ScreenId;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn setting(action: &str, keys: &[&str]) -> KeySetting {
    KeySetting {
        action: action.to_owned(),
        keys: keys.iter().map(|k| (*k).to_owned()).collect(),
        place: "f:3".to_owned(),
    }
}

/// The action of a key on the Report screen of an empty session.
fn action(map: &Keymap, code: KeyCode) -> Option<Action> {
    let mut ui = app(ScreenId::Report);
    ui.ctx.keys = map.bindings.clone();
    let key = Key::pressed(KeyEvent::new(code, KeyModifiers::NONE));
    bound(&ui, key)
}

fn bound(ui: &App, key: Key) -> Option<Action> {
    ui.bindings(&State::default()).find(|row| row.keys.contains(&key)).map(|row| row.action)
}

#[test]
fn no_key_means_two_things_at_once_on_an_empty_screen() {
    for screen in ScreenId::ALL {
        let ui = app(screen);
        let state = State::default();
        let mut seen: Vec<(Key, Action)> = Vec::new();
        for binding in ui.bindings(&state) {
            for key in &binding.keys {
                // A row of a screen and a row for all screens may bind the same action.
                let other = seen.iter().find(|(known, action)| known == key && *action != binding.action);
                assert_eq!(other, None, "{screen:?}: {:?}", binding.action);
                seen.push((*key, binding.action));
            }
        }
    }
}

#[test]
fn every_action_has_a_sentence_of_help() {
    for binding in Keymap::default().bindings.iter() {
        assert!(binding.help.len() > 5 && !binding.label.is_empty(), "{:?}", binding.action);
    }
}

#[test]
fn a_key_of_the_settings_replaces_those_of_the_table_and_is_what_is_shown() {
    let map = Keymap::with(&[setting("quit", &["Q", "f10"]), setting("up", &["w"])]).unwrap();
    assert_eq!(action(&map, KeyCode::Char('q')), None);
    assert_eq!(action(&map, KeyCode::F(10)), Some(Action::Quit));
    assert_eq!(action(&map, KeyCode::Char('w')), Some(Action::Up));
    let label = |action| map.bindings.iter().find(|row| row.action == action).unwrap().label.clone();
    assert_eq!((label(Action::Quit).as_str(), label(Action::Up).as_str()), ("Q", "w ↓"));
    assert_eq!(label(Action::Help), "?");
}

#[test]
fn an_error_in_the_settings_names_its_place_and_a_remedy() {
    for (settings, parts) in [
        (vec![setting("qiut", &["x"])], ["f:3: 'qiut' is not an action", "'quit'"]),
        (vec![setting("quit", &["entre"])], ["'entre' is not a key", "'enter'"]),
        (vec![setting("quit", &["2"])], ["'2' would mean both 'quit'", "'screen_race'"]),
        (vec![setting("fix", &["r"])], ["'r' would mean both 'fix'", "'recheck'"]),
        (vec![setting("fix", &["b"]), setting("recheck", &["b"])], ["'b' would mean both", "on one screen"]),
        (vec![setting("quit", &["esc"])], ["esc always means 'close'", ""]),
        (vec![setting("fix", &["ctrl-c"])], ["ctrl-c always means 'interrupt'", ""]),
        (vec![setting("fix", &["ctrl-m"])], ["sends the same code", "enter"]),
        (vec![setting("quit", &[])], ["'quit' needs a key", "ends or closes something"]),
    ] {
        let said = Keymap::with(&settings).unwrap_err();
        assert!(parts.iter().all(|part| said.contains(part)), "{settings:?}: {said}");
    }
}

#[test]
fn one_key_may_mean_different_things_on_different_screens_and_two_may_be_exchanged() {
    assert!(Keymap::with(&[setting("recheck", &["s"])]).is_ok(), "there is no sorting on the screen of checks");
    assert!(Keymap::with(&[setting("fix", &["r"]), setting("recheck", &["f"])]).is_ok());
    assert!(Keymap::with(&[setting("fix", &["f"]), setting("play", &["space"])]).is_ok(), "as it is anyway");
    let map = Keymap::with(&[setting("undo", &[])]).unwrap();
    assert!(map.bindings.iter().filter(|row| row.action == Action::Undo).all(|row| row.label.is_empty()));
}

#[test]
fn every_default_can_be_written_into_the_settings_as_it_is() {
    let default = Keymap::default().bindings;
    for action in default.actions() {
        let row = default.iter().find(|row| row.action == action).unwrap();
        let keys: Vec<String> = row.keys.iter().map(|key| key.spelled()).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let map = Keymap::with(&[setting(&action.name(), &keys)]).unwrap();
        for (ours, theirs) in map.bindings.iter().zip(default.iter()) {
            assert_eq!(ours.keys, theirs.keys, "{action:?}");
        }
    }
    assert!(Keymap::document().contains("| `1` | `screen_environment` |"), "{}", Keymap::document());
}

#[test]
fn every_table_of_a_screen_is_in_the_keymap() {
    let bindings = Keymap::default().bindings;
    for screen in ScreenId::ALL {
        assert!(bindings.of(Place::Screen(screen, 0)).any(|row| row.action == Action::Up), "{screen:?}");
    }
}
