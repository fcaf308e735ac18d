//! The keys in use: the table's, with those of the settings in their place. Labels and the documentation are made from it too.

use super::app::{Screen, UiState};
use super::keymap::{Action, Key, TABLE};
use crate::config::{KeySetting, hint};
use crate::session::State;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// An action with the keys that it has now.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) action: Action,
    keys: Vec<Key>,
    /// The keys as shown.
    pub(crate) label: String,
    /// One or two words for the footer; empty keeps it out of there.
    pub(crate) short: &'static str,
    /// A sentence for the help.
    pub(crate) help: &'static str,
    when: fn(&State, &UiState) -> bool,
}

/// All bindings, in the order of the footer.
#[derive(Clone, Debug)]
pub struct Keymap {
    table: Vec<Binding>,
}

static DEFAULT: LazyLock<Keymap> = LazyLock::new(|| {
    let row = |row: &super::keymap::Row| Binding {
        action: row.action,
        keys: row.keys.to_vec(),
        label: row.label.to_owned(),
        short: row.short,
        help: row.help,
        when: row.when,
    };
    Keymap { table: TABLE.iter().map(row).collect() }
});

impl Default for Keymap {
    fn default() -> Self {
        DEFAULT.clone()
    }
}

/// Where an action applies; two of them on one key must not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Everywhere,
    Sheet,
    SheetAnd(&'static [Screen]),
    On(&'static [Screen]),
}

fn place(action: Action) -> Place {
    use Action as A;
    match action {
        A::Apply | A::DryRun | A::CopyCommands | A::Close => Place::Sheet,
        A::Undo => Place::SheetAnd(&[Screen::Environment]),
        A::Fix | A::Recheck | A::NextVerdict => Place::On(&[Screen::Environment]),
        A::Filter => Place::On(&[Screen::Environment, Screen::Tensors, Screen::System]),
        A::RaceAgain | A::NextChart | A::Expand => Place::On(&[Screen::Race]),
        A::Left | A::Right => Place::On(&[Screen::Environment, Screen::Race, Screen::System]),
        A::ZoomIn | A::ZoomOut | A::ZoomAll => Place::On(&[Screen::Race, Screen::System]),
        A::NextEngine | A::PreviousEngine => Place::On(&[Screen::Tensors]),
        A::Sort | A::Reverse => Place::On(&[Screen::Tensors, Screen::System]),
        A::NextStep | A::PreviousStep | A::Play | A::SliderUp | A::SliderDown | A::Measure => {
            Place::On(&[Screen::Learn])
        }
        A::Baseline => Place::On(&[Screen::Report]),
        A::Open => Place::On(&[Screen::Environment, Screen::System]),
        A::Hold | A::PanBack | A::PanForward => Place::On(&[Screen::Race, Screen::System]),
        _ => Place::Everywhere,
    }
}

fn meet(a: Action, b: Action) -> bool {
    match (place(a), place(b)) {
        (Place::Everywhere, _) | (_, Place::Everywhere) => true,
        (Place::Sheet | Place::SheetAnd(_), Place::Sheet | Place::SheetAnd(_)) => true,
        (Place::On(a) | Place::SheetAnd(a), Place::On(b) | Place::SheetAnd(b)) => {
            a.iter().any(|screen| b.contains(screen))
        }
        _ => false,
    }
}

/// Whether the label of an action names the keys of others too.
pub(crate) fn is_joined(action: Action) -> bool {
    !joined(action).is_empty()
}

/// Actions that share one place in the footer: their first keys make the label.
fn joined(action: Action) -> &'static [Action] {
    use Action as A;
    match action {
        A::Up => &[A::Up, A::Down],
        A::Left => &[A::Left, A::Right],
        A::NextEngine => &[A::PreviousEngine, A::NextEngine],
        A::PreviousStep => &[A::PreviousStep, A::NextStep],
        A::ZoomIn => &[A::ZoomIn, A::ZoomOut, A::ZoomAll],
        A::SliderUp => &[A::SliderUp, A::SliderDown],
        A::Slower => &[A::Slower, A::Faster],
        A::PanBack => &[A::PanBack, A::PanForward],
        _ => &[],
    }
}

/// The name of an action in the settings: `next_pane`, `screen_race`.
fn name(action: Action) -> String {
    let spelled = match action {
        Action::Screen(screen) => format!("Screen{screen:?}"),
        other => format!("{other:?}"),
    };
    let mut text = String::new();
    for glyph in spelled.chars() {
        if glyph.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(glyph.to_ascii_lowercase());
    }
    text
}

const KEY_NAMES: [(&str, KeyCode); 15] = [
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("tab", KeyCode::Tab),
    ("shift-tab", KeyCode::BackTab),
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("space", KeyCode::Char(' ')),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("delete", KeyCode::Delete),
    ("backspace", KeyCode::Backspace),
];

fn parse_key(text: &str) -> Result<Key, String> {
    let mut glyphs = text.chars();
    if let (Some(glyph), None) = (glyphs.next(), glyphs.next())
        && !glyph.is_control()
    {
        return Ok(Key { code: KeyCode::Char(glyph), control: false });
    }
    let lower = text.to_ascii_lowercase();
    if let Some((_, code)) = KEY_NAMES.iter().find(|(name, _)| *name == lower) {
        return Ok(Key { code: *code, control: false });
    }
    if let Some(number) = lower.strip_prefix('f').and_then(|n| n.parse::<u8>().ok()).filter(|n| (1..=12).contains(n)) {
        return Ok(Key { code: KeyCode::F(number), control: false });
    }
    if let Some(glyph) = lower.strip_prefix("ctrl-").filter(|rest| rest.len() == 1).and_then(|rest| rest.chars().next())
    {
        if matches!(glyph, 'i' | 'm' | 'j' | 'h' | '[') {
            return Err(format!("'{text}' cannot be told from tab, enter, backspace or esc by a terminal"));
        }
        return Ok(Key { code: KeyCode::Char(glyph), control: true });
    }
    let mut known: Vec<&str> = KEY_NAMES.iter().map(|(name, _)| *name).collect();
    known.push("ctrl-a");
    Err(format!("'{text}' is no key{}", hint(text, &known)))
}

/// A key as the settings spell it.
fn spell(key: Key) -> String {
    if key.control {
        return match key.code {
            KeyCode::Char(glyph) => format!("ctrl-{glyph}"),
            other => format!("{other:?}"),
        };
    }
    if let Some((name, _)) = KEY_NAMES.iter().find(|(_, code)| *code == key.code) {
        return (*name).to_owned();
    }
    match key.code {
        KeyCode::Char(glyph) => glyph.to_string(),
        KeyCode::F(number) => format!("f{number}"),
        other => format!("{other:?}"),
    }
}

/// A key as it is shown.
fn show(key: Key) -> String {
    if key.control {
        return match key.code {
            KeyCode::Char(glyph) => format!("^{}", glyph.to_ascii_uppercase()),
            other => format!("{other:?}"),
        };
    }
    match key.code {
        KeyCode::Up => "↑".to_owned(),
        KeyCode::Down => "↓".to_owned(),
        KeyCode::Left => "←".to_owned(),
        KeyCode::Right => "→".to_owned(),
        KeyCode::Enter => "⏎".to_owned(),
        KeyCode::Tab => "Tab".to_owned(),
        KeyCode::BackTab => "S-Tab".to_owned(),
        KeyCode::Esc => "Esc".to_owned(),
        KeyCode::PageUp => "PgUp".to_owned(),
        KeyCode::PageDown => "PgDn".to_owned(),
        KeyCode::Home => "Home".to_owned(),
        KeyCode::End => "End".to_owned(),
        KeyCode::Delete => "Del".to_owned(),
        KeyCode::F(number) => format!("F{number}"),
        _ => spell(key),
    }
}

impl Keymap {
    /// The table with keys of the settings in the place of its own. An action that is not named keeps its keys.
    ///
    /// # Errors
    /// A sentence with file and line: an unknown action or key with the nearest known one, or a key that would mean two things on one screen.
    pub fn with(settings: &[KeySetting]) -> Result<Self, String> {
        let mut map = Self::default();
        let mut changed: Vec<(Action, &str)> = Vec::new();
        for setting in settings {
            let wrong = |sentence: String| format!("{}: {sentence}", setting.place);
            let names: Vec<String> = actions().into_iter().map(name).collect();
            let wanted = setting.action.replace('-', "_");
            let Some(action) = actions().into_iter().find(|action| name(*action) == wanted) else {
                let known: Vec<&str> = names.iter().map(String::as_str).collect();
                return Err(wrong(format!("'{}' is no action{}", setting.action, hint(&wanted, &known))));
            };
            let keys: Vec<Key> =
                setting.keys.iter().map(|text| parse_key(text)).collect::<Result<_, String>>().map_err(wrong)?;
            for (key, owner) in [
                (Key { code: KeyCode::Esc, control: false }, Action::Close),
                (Key { code: KeyCode::Char('c'), control: true }, Action::Interrupt),
            ] {
                if action != owner && keys.contains(&key) {
                    return Err(wrong(format!("{} always means '{}' and no other action", spell(key), name(owner))));
                }
            }
            if keys.is_empty() && matches!(action, Action::Quit | Action::Help | Action::Interrupt) {
                return Err(wrong(format!("'{}' needs a key: it is the way out", setting.action)));
            }
            map.table.iter_mut().filter(|row| row.action == action).for_each(|row| row.keys.clone_from(&keys));
            changed.push((action, &setting.place));
        }
        for (action, place) in &changed {
            map.meetings(*action).map_err(|sentence| format!("{place}: {sentence}"))?;
        }
        let touched: Vec<Action> = changed.iter().map(|(action, _)| *action).collect();
        map.relabel(&touched);
        Ok(map)
    }

    /// Whether a key of the action means something else where the action applies, beyond what the table itself has by intent.
    fn meetings(&self, action: Action) -> Result<(), String> {
        let keys = |table: &[Binding], action| -> Vec<Key> {
            table.iter().filter(|row| row.action == action).flat_map(|row| row.keys.clone()).collect()
        };
        for key in keys(&self.table, action) {
            let rival = self.table.iter().map(|row| row.action).find(|other| {
                let by_intent =
                    keys(&DEFAULT.table, action).contains(&key) && keys(&DEFAULT.table, *other).contains(&key);
                *other != action && meet(action, *other) && keys(&self.table, *other).contains(&key) && !by_intent
            });
            if let Some(rival) = rival {
                return Err(format!(
                    "'{}' would mean both '{}' and '{}' on one screen; give one of them another key",
                    spell(key),
                    name(action),
                    name(rival)
                ));
            }
        }
        Ok(())
    }

    /// Labels of what was changed, and of what shares a place with it.
    fn relabel(&mut self, touched: &[Action]) {
        let first: Vec<(Action, Option<Key>)> =
            self.table.iter().map(|row| (row.action, row.keys.first().copied())).collect();
        let shown = |action: Action| first.iter().find(|(a, _)| *a == action).and_then(|(_, key)| *key).map(show);
        for row in &mut self.table {
            let group = joined(row.action);
            if touched.contains(&row.action) || group.iter().any(|action| touched.contains(action)) {
                row.label = if group.is_empty() {
                    shown(row.action).unwrap_or_default()
                } else {
                    let parts: Vec<String> = group.iter().filter_map(|action| shown(*action)).collect();
                    let arrows = parts.iter().all(|part| matches!(part.as_str(), "↑" | "↓" | "←" | "→"));
                    parts.join(if arrows { "" } else { " " })
                };
            }
        }
    }

    /// What a key does now.
    pub(crate) fn action(&self, key: KeyEvent, state: &State, ui: &UiState) -> Option<Action> {
        let pressed = Key { code: key.code, control: key.modifiers.contains(KeyModifiers::CONTROL) };
        self.table.iter().find(|row| row.keys.contains(&pressed) && (row.when)(state, ui)).map(|row| row.action)
    }

    /// The bindings that do something now and have a key.
    pub(crate) fn now(&self, state: &State, ui: &UiState) -> impl Iterator<Item = &Binding> {
        self.table.iter().filter(move |row| !row.keys.is_empty() && (row.when)(state, ui))
    }

    /// The first key of an action, as shown; empty where it has none.
    pub(crate) fn key_of(&self, action: Action) -> String {
        self.table
            .iter()
            .find(|row| row.action == action)
            .and_then(|row| row.keys.first())
            .map_or_else(String::new, |k| show(*k))
    }

    /// The part `[keys]` of a settings file with the keys of the program, commented out.
    #[must_use]
    pub fn template() -> String {
        let mut text = String::from(
            "\n[keys]\n# ACTION = a key, or a list of keys; [] takes them away. A key is one character, a name (up, down, left, right, tab, shift-tab,\n\
             # enter, space, pageup, pagedown, home, end, delete, backspace, f1 to f12) or ctrl- with a letter. Esc always closes, ctrl-c always stops.\n",
        );
        for action in actions() {
            let rows: Vec<&Binding> = DEFAULT.table.iter().filter(|row| row.action == action).collect();
            let Some(row) = rows.first() else { continue };
            let keys: Vec<String> = row.keys.iter().map(|key| format!("{:?}", spell(*key))).collect();
            let keys = if keys.len() == 1 { keys.concat() } else { format!("[{}]", keys.join(", ")) };
            let _ = writeln!(text, "# {} = {keys}  # {}", name(action), plain(row.help));
        }
        text
    }

    /// The keys as a section of the manual page, in roff.
    #[must_use]
    pub fn manual() -> String {
        let safe = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
        let mut text = String::from(".SH KEYS\nThe settings file gives other keys to these actions.\n");
        for action in actions() {
            let Some(row) = DEFAULT.table.iter().find(|row| row.action == action) else { continue };
            let keys: Vec<String> = row.keys.iter().map(|key| safe(&spell(*key))).collect();
            let _ = writeln!(
                text,
                ".TP\n\\fB{}\\fR (\\fI{}\\fR)\n{}",
                keys.join(", "),
                name(action),
                safe(plain(row.help))
            );
        }
        text
    }

    /// Every action with its keys, as a table for a document.
    #[must_use]
    pub fn document() -> String {
        let mut text = String::from("| key | action | what it does |\n|---|---|---|\n");
        for action in actions() {
            let Some(row) = DEFAULT.table.iter().find(|row| row.action == action) else { continue };
            let keys: Vec<String> =
                row.keys.iter().map(|key| format!("`{}`", spell(*key).replace('|', "\\|"))).collect();
            let _ = writeln!(text, "| {} | `{}` | {} |", keys.join(", "), name(action), meanings(action));
        }
        text
    }
}

/// What an action does, on all screens where it does something.
fn meanings(action: Action) -> String {
    let mut all: Vec<&str> = Vec::new();
    for row in TABLE.iter().filter(|row| row.action == action) {
        if !all.contains(&plain(row.help)) {
            all.push(plain(row.help));
        }
    }
    all.join("; ")
}

/// A help text without the note on other keys, which a list of keys has anyway.
fn plain(help: &str) -> &str {
    help.split(" (also ").next().unwrap_or(help)
}

/// Every action of the table once, in its order.
fn actions() -> Vec<Action> {
    let mut all: Vec<Action> = Vec::new();
    for row in TABLE {
        if !all.contains(&row.action) {
            all.push(row.action);
        }
    }
    all
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn setting(action: &str, keys: &[&str]) -> KeySetting {
        KeySetting {
            action: action.to_owned(),
            keys: keys.iter().map(|k| (*k).to_owned()).collect(),
            place: "f:3".to_owned(),
        }
    }

    fn press(map: &Keymap, code: KeyCode, ui: &UiState) -> Option<Action> {
        map.action(KeyEvent::new(code, KeyModifiers::NONE), &State::default(), ui)
    }

    #[test]
    fn a_key_of_the_settings_replaces_those_of_the_table_and_is_what_is_shown() {
        let map = Keymap::with(&[setting("quit", &["Q", "f10"]), setting("up", &["w"])]).unwrap();
        let ui = UiState { screen: Screen::Report, ..UiState::default() };
        assert_eq!(press(&map, KeyCode::Char('q'), &ui), None);
        assert_eq!(press(&map, KeyCode::F(10), &ui), Some(Action::Quit));
        assert_eq!(press(&map, KeyCode::Char('w'), &ui), Some(Action::Up));
        let label = |action| map.table.iter().find(|row| row.action == action).unwrap().label.clone();
        assert_eq!((label(Action::Quit).as_str(), label(Action::Up).as_str()), ("Q", "w ↓"));
        assert_eq!(label(Action::Help), "?");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_a_remedy() {
        for (settings, parts) in [
            (vec![setting("qiut", &["x"])], ["f:3: 'qiut' is no action", "'quit'"]),
            (vec![setting("quit", &["entre"])], ["'entre' is no key", "'enter'"]),
            (vec![setting("quit", &["2"])], ["'2' would mean both 'quit'", "'screen_race'"]),
            (vec![setting("fix", &["r"])], ["'r' would mean both 'fix'", "'recheck'"]),
            (vec![setting("fix", &["b"]), setting("recheck", &["b"])], ["'b' would mean both", "on one screen"]),
            (vec![setting("quit", &["esc"])], ["esc always means 'close'", ""]),
            (vec![setting("fix", &["ctrl-c"])], ["ctrl-c always means 'interrupt'", ""]),
            (vec![setting("fix", &["ctrl-m"])], ["cannot be told from", "enter"]),
            (vec![setting("quit", &[])], ["'quit' needs a key", "way out"]),
        ] {
            let said = Keymap::with(&settings).unwrap_err();
            assert!(parts.iter().all(|part| said.contains(part)), "{settings:?}: {said}");
        }
    }

    #[test]
    fn one_key_may_mean_different_things_on_different_screens_and_two_may_be_exchanged() {
        assert!(Keymap::with(&[setting("fix", &["s"])]).is_ok(), "sorting is not there where fixes are");
        assert!(Keymap::with(&[setting("fix", &["r"]), setting("recheck", &["f"])]).is_ok());
        assert!(Keymap::with(&[setting("fix", &["f"]), setting("play", &["space"])]).is_ok(), "as it is anyway");
        let map = Keymap::with(&[setting("undo", &[])]).unwrap();
        assert!(map.table.iter().filter(|row| row.action == Action::Undo).all(|row| row.label.is_empty()));
    }

    #[test]
    fn every_default_can_be_written_into_the_settings_as_it_is() {
        for action in actions() {
            let keys: Vec<String> =
                DEFAULT.table.iter().find(|r| r.action == action).unwrap().keys.iter().map(|k| spell(*k)).collect();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let map = Keymap::with(&[setting(&name(action), &keys)]).unwrap();
            for (ours, theirs) in map.table.iter().zip(&DEFAULT.table) {
                assert_eq!(ours.keys, theirs.keys, "{action:?}");
            }
        }
        assert!(Keymap::document().contains("| `1` | `screen_environment` |"), "{}", Keymap::document());
    }
}
