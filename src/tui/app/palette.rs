//! The command palette of the app: its keys, its entries and their effect.

use super::App;
use crate::config::ThemeName;
use crate::session::{Command, State};
use crate::tui::commands::{Choice, Commands, Entry, Jump, best};
use crate::tui::effect::Effect;
use crate::tui::frame;
use crate::tui::help;
use crate::tui::keys::action::Action;
use crate::tui::keys::bindings::Place;
use crate::tui::screen_id::ScreenId;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

impl App {
    /// Opens the palette with a query.
    pub(super) fn open_commands(&mut self, query: &str, session: &State) {
        self.help = None;
        self.ctx.filtering = false;
        self.commands = Some(Commands { query: query.to_owned(), ..Commands::default() });
        self.find_commands(session);
    }

    /// Handles keys while the command palette is open. `None` if the key works everywhere, such as the key that ends
    /// the program.
    pub(super) fn command_key(&mut self, key: KeyEvent, session: &State) -> Option<Effect> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let palette = self.commands.as_mut()?;
        let last = palette.found.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc => {
                self.commands = None;
                return Some(Effect { theme: Some(self.ctx.theme), ..Effect::default() });
            }
            KeyCode::Enter => {
                let chosen = palette.selected().cloned();
                self.commands = None;
                return Some(chosen.map_or_else(Effect::default, |entry| self.choose(entry.choice, session)));
            }
            KeyCode::Up => palette.at = palette.at.saturating_sub(1),
            KeyCode::Down => palette.at = (palette.at + 1).min(last),
            KeyCode::Char('p') if control => palette.at = palette.at.saturating_sub(1),
            KeyCode::Char('n') if control => palette.at = (palette.at + 1).min(last),
            KeyCode::Char('u') if control => palette.query.clear(),
            KeyCode::Char(_) if control => return None,
            KeyCode::Backspace => _ = palette.query.pop(),
            KeyCode::Char(c) => palette.query.push(c),
            _ => return Some(Effect::default()),
        }
        if matches!(key.code, KeyCode::Backspace) || matches!(key.code, KeyCode::Char(c) if !control || c == 'u') {
            self.find_commands(session);
        }
        // A selected theme is previewed immediately.
        let preview = match self.commands.as_ref().and_then(|palette| palette.selected()) {
            Some(Entry { choice: Choice::Theme(name), .. }) => *name,
            _ => self.ctx.theme,
        };
        Some(Effect { theme: Some(preview), ..Effect::default() })
    }

    /// Finds the entries for the query: keys that have an effect now, themes, and items of all screens.
    pub(super) fn find_commands(&mut self, session: &State) {
        let Some(query) = self.commands.as_ref().map(|palette| palette.query.clone()) else { return };
        let place = Place::Screen(self.current, self.screen().table());
        let mut entries: Vec<Entry> = Vec::new();
        for binding in self.bindings_of(place, self.screen().table() > 0, session) {
            let choice = Choice::Action(binding.action);
            let moves =
                binding.action.moved(1, 2).is_some() || matches!(binding.action, Action::Commands | Action::Close);
            if moves || entries.iter().any(|entry| entry.choice == choice) {
                continue;
            }
            let (kind, label) = match binding.action {
                Action::Screen(screen) => {
                    (format!("screen {}", screen.number()), help::of_screen(self.tab(screen, session), binding.help))
                }
                _ => (binding.label.clone(), binding.help.to_owned()),
            };
            entries.push(Entry { kind, label, choice });
        }
        for name in ThemeName::ALL {
            entries.push(Entry {
                kind: "theme".to_owned(),
                label: format!("theme {name}"),
                choice: Choice::Theme(name),
            });
        }
        if self.ctx.replay {
            for sixteenths in [4, 8, 16, 32, 64, 128, 256, 0] {
                entries.push(Entry {
                    kind: "speed".to_owned(),
                    label: format!("speed {}", frame::speed_word(sixteenths)),
                    choice: Choice::Speed(sixteenths),
                });
            }
        }
        for screen in &self.screens {
            for (kind, label, jump) in screen.matches(&query, session, &self.ctx) {
                entries.push(Entry { kind: kind.to_owned(), label, choice: Choice::Jump(jump) });
            }
        }
        if let Some(palette) = &mut self.commands {
            palette.found = best(&query, entries);
            // In the list of all themes the current one is selected, so that no other theme is previewed unasked.
            let themes = palette.found.iter().filter(|entry| matches!(entry.choice, Choice::Theme(_))).count();
            let current = palette.found.iter().position(|entry| entry.choice == Choice::Theme(self.ctx.theme));
            palette.at = current.filter(|_| themes == ThemeName::ALL.len()).unwrap_or(0);
        }
    }

    /// Performs the selected entry of the command palette.
    pub(super) fn choose(&mut self, choice: Choice, session: &State) -> Effect {
        match choice {
            Choice::Action(action) => self.act(action, false, session),
            Choice::Speed(sixteenths) => {
                self.ctx.speed = sixteenths;
                Command::Speed(sixteenths).into()
            }
            Choice::Theme(name) => {
                self.ctx.theme = name;
                Effect { theme: Some(name), ..Effect::default() }
            }
            Choice::Jump(jump) => {
                let effect = self.show(match jump {
                    Jump::Check(_) => ScreenId::Environment,
                    Jump::Tensor(_) => ScreenId::Tensors,
                    Jump::Plan(_) => ScreenId::Race,
                });
                let (screen, ctx) = self.screen_mut();
                screen.jump(&jump, session, ctx);
                effect
            }
        }
    }
}
