//! The road to the direct route: one line with the stations on the path of the bytes, each with the status of its
//! checks.

use super::state::Ui;
use crate::core::{CheckId, Finding, Group, Status, Verdict};
use crate::present::verdict::{no_gpu, steps};
use crate::session::State;
use crate::tui::clicks::Spot;
use crate::tui::pen::{Pen, width};
use crate::tui::theme::Theme;

/// First number of the clickable areas on the road. It distinguishes them from panes.
pub(super) const FIRST_SPOT: usize = 100;

/// The stations in the order of the path, and the library that moves the bytes.
const STATIONS: [(&str, &[Group]); 4] = [
    ("disk", &[Group::Storage, Group::Files]),
    ("PCIe", &[Group::Kernel, Group::NvidiaFs]),
    ("GPU", &[Group::Gpu]),
    ("cuFile", &[Group::Cufile, Group::Limits]),
];

/// A station of the road.
pub(super) struct Hop<'s> {
    pub(super) name: &'static str,
    /// The findings that block the station. The first one must be fixed first.
    pub(super) open: Vec<&'s Finding>,
}

impl Hop<'_> {
    fn status(&self) -> Status {
        self.open.iter().map(|finding| finding.status).max_by_key(|status| status.weight()).unwrap_or(Status::Pass)
    }
}

/// The stations for a verdict. Empty if the route is already direct, or if there is no GPU.
pub(super) fn hops<'s>(state: &'s State, verdict: &Verdict) -> Vec<Hop<'s>> {
    if verdict.route.is_direct() || no_gpu(verdict) {
        return Vec::new();
    }
    let mut open = steps(state, verdict);
    let blocks = |id: &CheckId| state.checks.iter().find(|finding| finding.id == *id);
    for finding in verdict.blockers.iter().filter_map(blocks) {
        if !open.iter().any(|known| known.id == finding.id) {
            open.push(finding);
        }
    }
    open.retain(|finding| finding.status.weight() >= Status::Warn.weight());
    let of = |groups: &[Group]| open.iter().copied().filter(|finding| groups.contains(&finding.group)).collect();
    STATIONS.into_iter().map(|(name, groups)| Hop { name, open: of(groups) }).collect()
}

/// The index of the first blocked station.
pub(super) fn first_blocked(hops: &[Hop<'_>]) -> Option<usize> {
    hops.iter().position(|hop| !hop.open.is_empty())
}

/// Draws the road from column `x`, with the station `selected` marked. Returns the column after it.
pub(super) fn draw(pen: &mut Pen<'_>, x: u16, y: u16, hops: &[Hop<'_>], selected: Option<usize>, theme: &Theme) -> u16 {
    let mut at = x;
    for (number, hop) in hops.iter().enumerate() {
        let status = hop.status();
        let style = theme.status(status);
        let count = if hop.open.is_empty() { String::new() } else { format!(" {}", hop.open.len()) };
        let label = format!(" {} {}{count} ", hop.name, status.mark());
        let end = pen.text(at, y, &label, style);
        if selected == Some(number) {
            pen.restyle(at, y, end - at, 1, theme.selected);
        }
        pen.hit(y, at, width(&label) as u16, Spot::Column(FIRST_SPOT + number));
        at = end;
        // The library is next to the road, because it is not a station on the path.
        let gap = match number {
            0 | 1 if hop.open.is_empty() => "══▶",
            0 | 1 => "──▶",
            2 => "  ",
            _ => "",
        };
        at = pen.text(at, y, gap, if hop.open.is_empty() { theme.status(Status::Pass) } else { theme.faint });
    }
    at
}

/// The stations that the screen shows.
pub(super) fn shown<'s>(state: &'s State, ui: &Ui<'_>) -> Vec<Hop<'s>> {
    ui.screen.verdict(state).map(|verdict| hops(state, verdict)).unwrap_or_default()
}
