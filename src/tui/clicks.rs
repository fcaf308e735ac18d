//! The clickable areas of the last frame.

use super::keys::action::Action;
use super::screen_id::ScreenId;
use ratatui::layout::{Position, Rect};
use std::cell::RefCell;

/// The meaning of a clickable area. The screen that drew the area defines the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// The tab of a screen.
    Screen(ScreenId),
    /// A key that is shown on the screen. A click has the effect of the key.
    Key(Action),
    /// A row that can be selected.
    Row(usize),
    /// The heading of a column.
    Column(usize),
    /// A pane.
    Pane(usize),
    /// The progress bar of a replay, from the beginning to the end of the recording.
    Scrub,
    /// The plot of a chart, with the times of its left and right edge in microseconds on the time axis.
    Time { from_us: i64, to_us: i64 },
}

/// The clickable areas of the last frame. If areas overlap, the one that was drawn last is on top.
#[derive(Debug, Default)]
pub(crate) struct Clicks {
    areas: RefCell<Vec<(Rect, Spot)>>,
}

impl Clicks {
    pub(crate) fn add(&self, area: Rect, spot: Spot) {
        self.areas.borrow_mut().push((area, spot));
    }

    /// Removes all areas.
    pub(crate) fn clear(&self) {
        self.areas.borrow_mut().clear();
    }

    /// Removes the areas that a sheet covers. The tabs are kept.
    pub(crate) fn cover(&self) {
        self.areas.borrow_mut().retain(|(_, spot)| matches!(spot, Spot::Screen(_)));
    }

    /// The area at a position on the screen.
    pub(crate) fn at(&self, at: Position) -> Option<(Rect, Spot)> {
        self.areas.borrow().iter().rev().find(|(area, _)| area.contains(at)).copied()
    }
}
