//! The help: every key that does something now, and what the units mean.

use crate::session::State;
use crate::tui::app::UiState;
use crate::tui::keymap::TABLE;
use crate::tui::pen::{Pen, Run, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::sheet;

/// Draws the help over the screen; returns how far it scrolls.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, ui: &UiState, theme: &Theme) -> usize {
    let under = UiState { sheet: None, ..ui.clone() };
    let mut lines: Vec<Vec<Run>> = Vec::new();
    for binding in TABLE.iter().filter(|b| (b.when)(state, &under)) {
        // The footer joins pairs such as ↑↓; the help names each key of its own line.
        let label = match binding.label {
            "↑↓" => "↑",
            "←→" => "←",
            "[ ]" => "[",
            "+ - 0" | "+ -" => "+",
            label => label,
        };
        lines.push(vec![(format!("{label:<7}"), theme.accent), (binding.help.to_owned(), theme.text)]);
    }
    lines.push(Vec::new());
    let words = [
        "Sizes in memory and on disk are binary: 1 GiB is 2³⁰ bytes. Rates are decimal: 1 GB/s is 10⁹ bytes a second.",
        "The clock of a load runs from 'context up, nothing pinned' to 'all bytes on the target'. Start-up and verification are outside of it.",
        "A route is 'proven' only when counters of cuFile or of the kernel module showed it. What could not be measured is a gap or –.",
    ];
    let room = 64.min(pen.width().saturating_sub(8));
    for word in words {
        lines.extend(wrap(word, room).into_iter().map(|line| vec![(line, theme.dim)]));
        lines.push(Vec::new());
    }
    let title = [("Keys and words".to_owned(), theme.strong)];
    let keys = [("? Esc".to_owned(), theme.accent), (" close".to_owned(), theme.dim)];
    sheet::draw(pen, &title, &lines, &keys, ui.sheet_scroll, 72, theme)
}
