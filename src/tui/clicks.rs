//! The clickable areas of the last frame.

use super::keys::action::Action;
use super::screen_id::ScreenId;
use ratatui::layout::{Position, Rect};
use std::cell::RefCell;

/// The meaning of a clickable area. Numbers are those of the screen that drew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// The tab of a screen.
    Screen(ScreenId),
    /// A key that is named on the screen; a click has the same effect.
    Key(Action),
    /// A row that can be selected.
    Row(usize),
    /// The head of a column.
    Column(usize),
    /// A pane.
    Pane(usize),
    /// The bar of a replay, from the beginning of the recording to its end.
    Scrub,
    /// The plot of a chart: from the left to the right edge, in microseconds on the clock of the charts.
    Time { from_us: i64, to_us: i64 },
}

/// The places of the last frame that can be clicked, those drawn last on top.
#[derive(Debug, Default)]
pub(crate) struct Clicks {
    areas: RefCell<Vec<(Rect, Spot)>>,
}

impl Clicks {
    pub(crate) fn add(&self, area: Rect, spot: Spot) {
        self.areas.borrow_mut().push((area, spot));
    }

    /// Forgets all places.
    pub(crate) fn clear(&self) {
        self.areas.borrow_mut().clear();
    }

    /// Forgets what a sheet covers: the tabs stay.
    pub(crate) fn cover(&self) {
        self.areas.borrow_mut().retain(|(_, spot)| matches!(spot, Spot::Screen(_)));
    }

    /// The place at a position of the screen.
    pub(crate) fn at(&self, at: Position) -> Option<(Rect, Spot)> {
        self.areas.borrow().iter().rev().find(|(area, _)| area.contains(at)).copied()
    }
}
