//! The screens as a whole: snapshots with colour, random states at random sizes, the real loop on a test backend.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chaos;
mod charts;
mod contrast;
mod event_loop;
mod first_look;
mod guide;
mod hands;
mod plans;
mod snapshots;

use super::app::UiState;
use super::theme::Theme;
use super::{layout, screens};
use crate::session::State;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws one frame of a size, as the loop does.
pub(super) fn frame(state: &State, ui: &mut UiState, theme: &Theme, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    ui.small = width < layout::WIDE || height < layout::TALL;
    ui.narrow = width < layout::SIDE_BY_SIDE;
    ui.clock_ns = state.now_ns;
    ui.prepare(state);
    let limits = screens::draw(state, ui, theme, &mut buffer);
    ui.hold_to(limits);
    buffer
}

/// The glyphs of a frame, line by line.
pub(super) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let rows = buffer.content().chunks(width);
    rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned() + "\n")
        .collect()
}
