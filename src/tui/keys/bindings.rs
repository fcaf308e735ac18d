//! The current key bindings: the rows of all tables in one list, with the keys from the settings file.

use super::action::Action;
use super::key::{Key, control, plain};
use super::spec::Spec;
use crate::config::KeySetting;
use crate::core::nearest::hint;
use crate::tui::screen_id::ScreenId;
use crossterm::event::KeyCode;

/// The place in which a key table is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A screen, or one of its sheets if the number is above 0.
    Screen(ScreenId, usize),
    /// The help.
    Help,
    /// All places.
    Everywhere,
}

impl Place {
    /// Whether both places can be active at the same time, so that a key must not have different meanings in them.
    fn meets(self, other: Self) -> bool {
        self == other || self == Self::Everywhere || other == Self::Everywhere
    }
}

/// An action with its current keys.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) place: Place,
    /// The index of its row in the table of that place.
    pub(crate) row: usize,
    pub(crate) action: Action,
    pub(crate) keys: Vec<Key>,
    /// The keys as text.
    pub(crate) label: String,
    /// One or two words for the footer. If empty, the action is not in the footer.
    pub(crate) short: &'static str,
    /// The sentence in the help.
    pub(crate) help: &'static str,
}

/// All bindings, in the order of the footer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings {
    all: Vec<Binding>,
}

impl Bindings {
    /// The bindings of these tables with their default keys.
    pub(crate) fn collected(tables: &[(Place, Vec<&'static Spec>)]) -> Self {
        let bound = |place: Place, (row, spec): (usize, &&'static Spec)| Binding {
            place,
            row,
            action: spec.action,
            keys: spec.keys.to_vec(),
            label: spec.label.to_owned(),
            short: spec.short,
            help: spec.help,
        };
        let all = tables.iter().flat_map(|(place, specs)| specs.iter().enumerate().map(|spec| bound(*place, spec)));
        Self { all: all.collect() }
    }

    /// These bindings with keys from the settings. An action that the settings do not name keeps its keys.
    ///
    /// # Errors
    /// Returns a sentence with file and line for an unknown action or key, with the most similar known one, or for a
    /// key with two meanings on one screen.
    pub(crate) fn with(&self, settings: &[KeySetting]) -> Result<Self, String> {
        let mut map = self.clone();
        let mut changed: Vec<(Action, &str)> = Vec::new();
        let actions = self.actions();
        for setting in settings {
            let wrong = |sentence: String| format!("{}: {sentence}", setting.place);
            let wanted = setting.action.replace('-', "_");
            let Some(action) = actions.iter().copied().find(|action| action.name() == wanted) else {
                let names: Vec<String> = actions.iter().map(|action| action.name()).collect();
                let known: Vec<&str> = names.iter().map(String::as_str).collect();
                return Err(wrong(format!("'{}' is not an action{}", setting.action, hint(&wanted, &known))));
            };
            let keys: Vec<Key> =
                setting.keys.iter().map(|text| Key::parse(text)).collect::<Result<_, String>>().map_err(wrong)?;
            for (key, owner) in [(plain(KeyCode::Esc), Action::Close), (control('c'), Action::Interrupt)] {
                if action != owner && keys.contains(&key) {
                    let (key, owner) = (key.spelled(), owner.name());
                    return Err(wrong(format!("{key} always means '{owner}' and no other action")));
                }
            }
            if keys.is_empty() && matches!(action, Action::Quit | Action::Help | Action::Interrupt) {
                return Err(wrong(format!("'{}' needs a key, because it ends or closes something", setting.action)));
            }
            map.all.iter_mut().filter(|row| row.action == action).for_each(|row| row.keys.clone_from(&keys));
            changed.push((action, &setting.place));
        }
        for (action, place) in &changed {
            map.has_one_meaning(*action, self).map_err(|sentence| format!("{place}: {sentence}"))?;
        }
        let touched: Vec<Action> = changed.iter().map(|(action, _)| *action).collect();
        map.relabel(&touched);
        Ok(map)
    }

    /// Returns an error if a key of the action has another meaning in a place where the action is available. Double
    /// meanings that the default tables contain are intended and allowed.
    fn has_one_meaning(&self, action: Action, tables: &Self) -> Result<(), String> {
        let keys = |map: &Self, action| -> Vec<Key> {
            map.all.iter().filter(|row| row.action == action).flat_map(|row| row.keys.clone()).collect()
        };
        let places = |action: Action| self.all.iter().filter(move |row| row.action == action).map(|row| row.place);
        let meet = |a: Action, b: Action| places(a).any(|place| places(b).any(|other| place.meets(other)));
        for key in keys(self, action) {
            let rival = self.all.iter().map(|row| row.action).find(|other| {
                let by_intent = keys(tables, action).contains(&key) && keys(tables, *other).contains(&key);
                *other != action && meet(action, *other) && keys(self, *other).contains(&key) && !by_intent
            });
            if let Some(rival) = rival {
                return Err(format!(
                    "'{}' would mean both '{}' and '{}' on one screen; give one of them another key",
                    key.spelled(),
                    action.name(),
                    rival.name()
                ));
            }
        }
        Ok(())
    }

    /// The bindings of a replay. Its keys override those of the screens, which keep their other keys. On the Learn
    /// screen, the keys of the lesson have priority.
    pub(crate) fn for_replay(&self) -> Self {
        const PLAYER: [Action; 4] = [Action::SeekBack, Action::SeekForward, Action::PreviousLoad, Action::NextLoad];
        let taken: Vec<Key> =
            self.all.iter().filter(|row| PLAYER.contains(&row.action)).flat_map(|row| row.keys.clone()).collect();
        let (mut map, mut changed) = (self.clone(), Vec::new());
        let screens = |place| matches!(place, Place::Screen(screen, 0) if screen != ScreenId::Learn);
        for row in map.all.iter_mut().filter(|row| screens(row.place)) {
            if row.keys.iter().any(|key| taken.contains(key)) && row.keys.iter().any(|key| !taken.contains(key)) {
                row.keys.retain(|key| !taken.contains(key));
                changed.push(row.action);
            }
        }
        map.relabel(&changed);
        map
    }

    /// The bindings if there is only one screen, without actions that run, change or write something.
    pub(crate) fn for_one_screen(&self, only: ScreenId) -> Self {
        const OF_OTHERS: [Action; 3] = [Action::Fix, Action::CancelRace, Action::Export];
        let is_kept = |row: &Binding| match (row.place, row.action) {
            (Place::Screen(screen, _), _) => screen == only,
            (_, Action::Screen(_)) => false,
            (_, action) => !OF_OTHERS.contains(&action),
        };
        Self { all: self.all.iter().filter(|row| is_kept(row)).cloned().collect() }
    }

    /// Updates the labels of changed actions, and of actions that share a place with them.
    fn relabel(&mut self, touched: &[Action]) {
        let first: Vec<(Action, Option<Key>)> =
            self.all.iter().map(|row| (row.action, row.keys.first().copied())).collect();
        let shown = |action: Action| first.iter().find(|(a, _)| *a == action).and_then(|(_, key)| *key).map(Key::shown);
        for row in &mut self.all {
            let group = row.action.joined();
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

    /// All bindings.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Binding> {
        self.all.iter()
    }

    /// The bindings of a place.
    pub(crate) fn of(&self, place: Place) -> impl Iterator<Item = &Binding> {
        self.all.iter().filter(move |row| row.place == place)
    }

    /// The first key of an action as text; empty if it has none.
    pub(crate) fn key_of(&self, action: Action) -> String {
        let row = self.all.iter().find(|row| row.action == action);
        row.and_then(|row| row.keys.first()).map_or_else(String::new, |key| key.shown())
    }

    /// All actions without duplicates, in the order of the tables.
    pub(crate) fn actions(&self) -> Vec<Action> {
        let mut all: Vec<Action> = Vec::new();
        for row in &self.all {
            if !all.contains(&row.action) {
                all.push(row.action);
            }
        }
        all
    }
}
