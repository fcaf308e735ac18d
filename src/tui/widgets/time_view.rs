//! The visible part of a time range and the cursor in it, with zoom, pan and follow.

use crate::tui::keys::action::Action;

/// Maximum zoom level. It shows a 1024th of the complete range.
const DEEPEST: u32 = 10;
/// Number of cursor steps across the visible part.
const STEPS: f64 = 50.0;

/// The user's choices. Times have the unit of the chart (seconds). The visible part follows the right end unless the
/// user has moved it away.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TimeView {
    /// The visible part is `1 / 2^zoom` of the complete range.
    zoom: u32,
    /// The time of the cursor.
    pub(crate) cursor: Option<f64>,
    /// The last visible time. `None`: the visible part follows the right end.
    end: Option<f64>,
}

impl TimeView {
    /// Moves the cursor or the visible part by the action of a key.
    pub(crate) fn act(&mut self, action: Action, full_range: (f64, f64)) {
        match action {
            Action::Left => self.step(full_range, false),
            Action::Right => self.step(full_range, true),
            Action::PanBack => self.pan(full_range, false),
            Action::PanForward => self.pan(full_range, true),
            Action::ZoomIn => self.zoom_in(full_range),
            Action::ZoomOut => self.zoom_out(full_range),
            Action::ZoomAll => self.zoom_all(),
            _ => {}
        }
    }

    /// Whether a part of the range is not visible.
    pub(crate) const fn zoomed(&self) -> bool {
        self.zoom > 0
    }

    /// The visible part of a time range. It contains the cursor if the range does.
    pub(crate) fn window(&self, (from, to): (f64, f64)) -> (f64, f64) {
        let all = to - from;
        if self.zoom == 0 || !(all > 0.0 && all.is_finite()) {
            return (from, to);
        }
        let part = all / f64::from(1_u32 << self.zoom.min(DEEPEST));
        let mut end = self.end.unwrap_or(to);
        if let Some(at) = self.cursor {
            end = end.clamp(at, at + part);
        }
        let end = end.clamp(from + part, to.max(from + part));
        (end - part, end)
    }

    /// Moves the cursor. The first step puts it at an end of the visible part. A step beyond the right end removes it
    /// and follows the right end again.
    pub(crate) fn step(&mut self, full_range: (f64, f64), right: bool) {
        let (from, to) = self.window(full_range);
        let step = (to - from) / STEPS;
        if !(step > 0.0 && step.is_finite()) {
            return;
        }
        let at = match self.cursor {
            // The first step goes to the start of a run's clock (0), because not every chart shows the set-up before
            // it.
            None if right && from < 0.0 && to > 0.0 => 0.0,
            None if right => from,
            None => to - step,
            Some(at) if right => at + step,
            Some(at) => at - step,
        };
        if at > full_range.1 + step * 1e-6 {
            (self.cursor, self.end) = (None, None);
            return;
        }
        self.cursor = Some(at.clamp(full_range.0, full_range.1));
        self.settle(to, full_range);
    }

    /// Moves the visible part by half of its length. The cursor keeps its time unless it would no longer be visible.
    pub(crate) fn pan(&mut self, full_range: (f64, f64), right: bool) {
        let (from, to) = self.window(full_range);
        let part = to - from;
        let end = if right { to + part / 2.0 } else { to - part / 2.0 };
        let end = end.clamp((full_range.0 + part).min(full_range.1), full_range.1);
        self.cursor = self.cursor.map(|at| at.clamp(end - part, end));
        self.settle(end, full_range);
    }

    /// Stores the last visible time, or that it is the right end.
    fn settle(&mut self, end: f64, full_range: (f64, f64)) {
        let end = self.cursor.map_or(end, |at| end.max(at));
        self.end = (end < full_range.1 - (full_range.1 - full_range.0) * 1e-9).then_some(end);
    }

    pub(crate) fn zoom_in(&mut self, full_range: (f64, f64)) {
        self.zoom_to((self.zoom + 1).min(DEEPEST), full_range);
    }

    pub(crate) fn zoom_out(&mut self, full_range: (f64, f64)) {
        self.zoom_to(self.zoom.saturating_sub(1), full_range);
    }

    /// Shows the complete range. The cursor keeps its time.
    pub(crate) fn zoom_all(&mut self) {
        (self.zoom, self.end) = (0, None);
    }

    /// Puts the cursor at a time.
    pub(crate) fn put(&mut self, full_range: (f64, f64), at: f64) {
        if at.is_finite() {
            let end = self.window(full_range).1;
            self.cursor = Some(at.clamp(full_range.0, full_range.1.max(full_range.0)));
            self.settle(end, full_range);
        }
    }

    /// Changes the zoom. With a cursor, the visible part is around it, so that it stays visible at every zoom level.
    /// Otherwise the right end stays the same.
    fn zoom_to(&mut self, zoom: u32, full_range: (f64, f64)) {
        let end = self.window(full_range).1;
        self.zoom = zoom;
        let part = (full_range.1 - full_range.0) / f64::from(1_u32 << zoom);
        if part > 0.0 && part.is_finite() {
            let end = self.cursor.map_or(end, |at| at + part / 2.0);
            self.settle(end.clamp((full_range.0 + part).min(full_range.1), full_range.1), full_range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE: (f64, f64) = (0.0, 100.0);

    #[test]
    fn what_is_shown_follows_until_it_is_moved_and_again_at_the_right_end() {
        let mut view = TimeView::default();
        assert_eq!(view.window(WHOLE), WHOLE);
        view.zoom_in(WHOLE);
        assert_eq!(view.window(WHOLE), (50.0, 100.0));
        assert_eq!(view.window((0.0, 200.0)), (100.0, 200.0), "it follows what grows");
        view.pan(WHOLE, false);
        assert_eq!(view.window(WHOLE), (25.0, 75.0));
        assert_eq!(view.window((0.0, 104.0)).1, 75.0, "and stays at its place");
        view.pan(WHOLE, true);
        assert_eq!(view.window((0.0, 200.0)), (100.0, 200.0), "at the right end it follows again");
        view.step(WHOLE, false);
        assert_eq!(view.cursor, Some(99.0));
        view.step(WHOLE, true);
        view.step(WHOLE, true);
        assert_eq!((view.cursor, view.end), (None, None));
    }

    #[test]
    fn the_first_step_of_the_cursor_is_at_the_start_of_the_clock() {
        let mut view = TimeView::default();
        view.step((-1.5, 4.0), true);
        assert_eq!(view.cursor, Some(0.0));
        let mut past = TimeView::default();
        past.step((-60.0, 0.0), true);
        assert_eq!(past.cursor, Some(-60.0));
    }

    proptest! {
        #[test]
        fn the_window_is_inside_the_range_and_contains_the_cursor(
            moves in prop::collection::vec(0_u8..8, 0..60), from in -1e3..1e3_f64, length in 1e-6..1e6_f64,
        ) {
            let full_range = (from, from + length);
            let mut view = TimeView::default();
            for step in moves {
                match step {
                    0 => view.zoom_in(full_range),
                    1 => view.zoom_out(full_range),
                    2 => view.zoom_all(),
                    3 | 4 => view.step(full_range, step == 3),
                    7 => view.put(full_range, from + length * 0.3),
                    _ => view.pan(full_range, step == 5),
                }
                let (a, b) = view.window(full_range);
                let slack = length * 1e-6;
                prop_assert!(a >= full_range.0 - slack && b <= full_range.1 + slack && a < b, "{view:?} {a} {b}");
                if let Some(at) = view.cursor {
                    prop_assert!(at >= a - slack && at <= b + slack, "{view:?} {a} {b}");
                }
            }
        }
    }
}
