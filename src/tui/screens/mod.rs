//! The frame around every screen, and which screen is in it.

pub(crate) mod environment;
pub(crate) mod learn;
pub(crate) mod race;
pub(crate) mod report;
pub(crate) mod system;
pub(crate) mod tensors;

use super::app::{Screen, Sheet, UiState};
use super::mouse::Spot;
use super::pen::Pen;
use super::theme::Theme;
use super::{ascii, frame, help};
use crate::session::State;
use environment::{fix, guide};
use race::{grid, plans};
use ratatui::buffer::Buffer;

/// Ends of scrolling that a frame found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) sheet_scroll: usize,
    pub(crate) detail_scroll: usize,
    pub(crate) report_scroll: usize,
    pub(crate) learn_scroll: usize,
}

/// Draws everything.
pub(crate) fn draw(state: &State, ui: &UiState, theme: &Theme, buffer: &mut Buffer) -> Limits {
    let area = buffer.area;
    let (whole, state) = (state, ui.seen(state));
    let theme = &*theme.among(state.lanes.iter().map(|lane| &lane.engine));
    let mut limits = Limits::default();
    ui.hits.borrow_mut().clear();
    buffer.set_style(area, theme.ground);
    let mut pen = Pen::new(buffer, area);
    let (w, h) = (pen.width(), pen.height());
    if w < 40 || h < 10 {
        let lines = super::pen::wrap(&format!("gds-top needs 40×10, this is {w}×{h}"), w);
        for (y, line) in lines.iter().enumerate().take(usize::from(h)) {
            pen.text(0, y as u16, line, theme.text);
        }
    } else {
        let head = frame::header(&mut pen, state, ui, theme);
        let mut body = pen.part(0, head, w, h.saturating_sub(head + 1));
        match ui.screen {
            Screen::Environment => limits.detail_scroll = environment::view::draw(&mut body, state, ui, theme),
            Screen::Race if state.grid.is_some() && state.lanes.is_empty() => {
                if let Some(measured) = &state.grid {
                    grid::draw(&mut body, state, measured, ui, theme);
                }
            }
            Screen::Race => race::view::draw(&mut body, state, ui, theme),
            Screen::Tensors => tensors::view::draw(&mut body, state, ui, theme),
            Screen::System => system::view::draw(&mut body, state, ui, theme),
            Screen::Learn => limits.learn_scroll = learn::view::draw(&mut body, state, ui, theme),
            Screen::Report => limits.report_scroll = report::view::draw(&mut body, state, ui, theme),
        }
        if ui.sheet.is_some() {
            // What lies under the sheet is not there for the mouse.
            ui.hits.borrow_mut().retain(|hit| matches!(hit.target, Spot::Screen(_)));
            body.fade(theme.behind());
        }
        match &ui.sheet {
            Some(Sheet::Help) => limits.sheet_scroll = help::draw(&mut body, state, ui, theme),
            Some(Sheet::Fix(id)) => limits.sheet_scroll = fix::draw(&mut body, state, ui, id, theme),
            Some(Sheet::Plans) => limits.sheet_scroll = plans::draw(&mut body, whole, ui, theme),
            Some(Sheet::Guide) => limits.sheet_scroll = guide::draw(&mut body, state, ui, theme),
            None => {}
        }
        // Last, since some keys do something only where there was room for what they move.
        let told = if ui.sheet == Some(Sheet::Plans) { whole } else { state };
        frame::footer(&mut pen.part(0, h - 1, w, 1), told, ui, theme);
    }
    if theme.ascii {
        ascii::flatten(buffer);
    }
    limits
}
