//! The command palette: it finds actions, screens, themes and items of the screens by a few letters.

use super::keys::action::Action;
use super::pen::{Pen, Run, cut};
use super::theme::Theme;
use super::widgets::sheet;
use crate::config::ThemeName;
use crate::core::CheckId;

/// Maximum width of the palette in columns.
const WIDEST: u16 = 90;
/// Maximum number of listed entries.
pub(crate) const MOST: usize = 12;

/// An item of a screen to which the palette can jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Jump {
    /// A check, by its id.
    Check(CheckId),
    /// A tensor, by its name.
    Tensor(String),
    /// A plan of the Race screen, by its number in the list.
    Plan(usize),
}

/// The effect of an entry in the palette.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Action(Action),
    Theme(ThemeName),
    /// The speed of a replay, in sixteenths of real time.
    Speed(u32),
    Jump(Jump),
}

/// An entry in the palette.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The kind of the entry: key, screen, theme or check.
    pub(crate) kind: String,
    pub(crate) label: String,
    pub(crate) choice: Choice,
}

/// The open palette.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commands {
    pub(crate) query: String,
    /// The index of the selected entry.
    pub(crate) at: usize,
    /// The entries for the query, with the best match first.
    pub(crate) found: Vec<Entry>,
}

impl Commands {
    /// The selected entry.
    pub(crate) fn selected(&self) -> Option<&Entry> {
        self.found.get(self.at)
    }

    /// Draws the palette on top of the screen.
    pub(crate) fn draw(&self, pen: &mut Pen<'_>, theme: &Theme) {
        let prompt = [(": ".to_owned(), theme.accent), (format!("{}▏", self.query), theme.strong)];
        let mut lines: Vec<Vec<Run>> = Vec::with_capacity(MOST);
        for (row, entry) in self.found.iter().enumerate() {
            let (mark, style) = if row == self.at { ("▸ ", theme.accent) } else { ("  ", theme.text) };
            let kind = format!("{:<9}", entry.kind);
            let label = cut(&entry.label, pen.width().min(WIDEST).saturating_sub(21));
            lines.push(vec![(mark.to_owned(), theme.accent), (kind, theme.dim), (label, style)]);
        }
        if lines.is_empty() {
            lines.push(vec![("  No command, screen, check or tensor matches.".to_owned(), theme.dim)]);
        }
        // The height is fixed, so that the sheet does not move while the user types.
        lines.resize(MOST, Vec::new());
        let keys = [
            ("↑↓".to_owned(), theme.accent),
            (" move  ".to_owned(), theme.dim),
            ("⏎".to_owned(), theme.accent),
            (" run  ".to_owned(), theme.dim),
            ("Esc".to_owned(), theme.accent),
            (" close".to_owned(), theme.dim),
        ];
        sheet::draw(pen, &prompt, &lines, &keys, 0, WIDEST, theme);
    }
}

/// The rank of a text for a query; a lower rank is better. First come texts that contain all words of the query,
/// preferably at the start of a word, then texts that contain its letters in order and close together. `None` if the
/// text does not match.
pub(crate) fn rank(query: &str, text: &str) -> Option<usize> {
    let (query, text) = (query.trim().to_lowercase(), text.to_lowercase());
    if query.is_empty() {
        return Some(0);
    }
    let place = |word: &str| {
        let at = text.find(word)?;
        let starts = at == 0 || !text[..at].ends_with(char::is_alphanumeric);
        Some(at + if starts { 0 } else { 100 })
    };
    if let Some(places) = query.split_whitespace().map(place).collect::<Option<Vec<usize>>>() {
        return Some(places.into_iter().sum());
    }
    let letters: Vec<char> = query.chars().filter(|c| !c.is_whitespace()).collect();
    let shortest = shortest_window(&letters, &text)?;
    // Almost every text contains the letters if they can be far apart.
    (letters.len() >= 3 && shortest <= 2 * letters.len() + 4).then_some(1_000 + shortest)
}

/// The length in characters of the shortest part of a text that contains the letters in order.
fn shortest_window(letters: &[char], text: &str) -> Option<usize> {
    let first = letters.first()?;
    let text: Vec<char> = text.chars().collect();
    let window = |start: usize| {
        let mut at = start;
        for wanted in letters {
            at += text[at..].iter().position(|letter| letter == wanted)? + 1;
        }
        Some(at - start)
    };
    (0..text.len()).filter(|start| text[*start] == *first).map_while(window).min()
}

/// The best entries for a query. Entries with an equal rank keep the order of the list.
pub(crate) fn best(query: &str, entries: Vec<Entry>) -> Vec<Entry> {
    let mut ranked: Vec<(usize, Entry)> = entries
        .into_iter()
        .filter_map(|entry| Some((rank(query, &format!("{} {}", entry.label, entry.kind))?, entry)))
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, entry)| entry).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_before_letters_in_order_and_starts_of_words_first() {
        assert!(rank("race", "Race again") < rank("race", "embrace"));
        assert!(rank("kv run", "run a KV cache").is_some());
        assert!(rank("rga", "Race again") > rank("race", "Race again"));
        assert_eq!(rank("xyz", "Race again"), None);
        let far = "cuda-driver-runtime: the driver supports CUDA 13.0, and libcufile 1.15 needs 13.0 or later";
        assert_eq!(rank("udevdb", far), None, "letters far apart");
        assert!(rank("udevdb", "udev-database: udev has no record of this disk").is_some());
        assert!(rank("lmhead", "lm_head.weight").is_some());
        assert_eq!(rank("", "anything"), Some(0));
    }
}
