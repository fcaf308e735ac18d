//! Names and markers of the rows on the Race screen.

use crate::present::EngineRow;
use crate::session::State;
use crate::tui::pen::width;
use crate::tui::theme::Theme;

/// The width of the longest engine name in a pane of `w` columns. Longer names are cut.
pub(super) fn longest_name(state: &State, w: u16) -> u16 {
    let names = state.lanes.iter().map(|l| &l.engine).chain(state.unavailable.iter().map(|(engine, _)| engine));
    let longest = names.map(|engine| width(&engine.label())).max().unwrap_or(4) as u16;
    longest.clamp(6, if w >= 100 { 28 } else { 22 })
}

/// The marker of the engine. For a run that loads together with others, its number.
pub(super) fn entry_marker(entry: &EngineRow<'_>, theme: &Theme) -> char {
    let number = entry.place().and_then(|(number, _)| char::from_digit(number, 10));
    number.unwrap_or_else(|| theme.marker(entry.engine))
}
