//! The help: every key that does something now, and what the units mean.

use crate::session::State;
use crate::tui::app::UiState;
use crate::tui::pen::{Pen, Run, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::sheet;

/// Draws the help over the screen; returns how far it scrolls.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, ui: &UiState, theme: &Theme) -> usize {
    let under = UiState { sheet: None, ..ui.clone() };
    let mut lines: Vec<Vec<Run>> = Vec::new();
    let mut named = Vec::new();
    for binding in ui.keys.now(state, &under) {
        // Some stand in the table twice, for their place in the footer.
        if named.contains(&binding.action) {
            continue;
        }
        named.push(binding.action);
        lines
            .push(vec![(format!("{:<7}", first(&binding.label)), theme.accent), (binding.help.to_owned(), theme.text)]);
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

/// The footer joins the keys of a pair; the help names each in a line of its own.
fn first(label: &str) -> &str {
    if let Some((first, _)) = label.split_once(' ') {
        return first;
    }
    match label {
        "↑↓" => "↑",
        "←→" => "←",
        label => label,
    }
}
