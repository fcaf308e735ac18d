//! Screen 1: will reads of this path go straight to the GPU?
//!
//! ```text
//!  headline
//!    now    [storage] ──▶ [host memory] ──▶ [GPU]     compat   proven
//!    goal   [storage] ═════════════════════▶ [GPU]    P2PDMA   needs …
//! ╭ Checks ─────────╮╭ one check ─────────────────────╮
//! ```

use super::answer;
use super::checks::{detail, list};
use super::road;
use super::selection::GROUPS;
use super::state::{Pane, Ui};
use crate::core::units::rate;
use crate::core::{CacheState, Finding, Route, Status, Verdict};
use crate::present::labels::proof;
use crate::present::verdict;
use crate::session::{Lane, LaneStatus, State};
use crate::tui::keys::action::Action;
use crate::tui::layout::WIDE;
use crate::tui::pen::{Pen, Run, runs_width, width, wrap};
use crate::tui::remedy::remedy;
use crate::tui::screen_id::ScreenId;
use crate::tui::theme::Theme;
use crate::tui::widgets::headline;
use crate::tui::widgets::path_drawing::{self, DrawnPath, HOST_MEMORY};
use crate::tui::widgets::sheet::{self, labelled};
use crate::tui::words;

/// Width in columns that the details keep while the list next to them widens.
const WIDE_DETAIL: u16 = 96;

/// Draws the screen.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let airy = h >= 24;
    let mut y = u16::from(airy);
    let verdict = ui.screen.verdict(state);
    y += headline::draw(&mut pen.part(0, y, w, 3), &words::environment(state, verdict, ui.ctx), theme);
    if let Some(verdict) = verdict {
        let indent = if w >= 100 { 3 } else { 1 };
        let most = if h >= 14 { 4 } else { 2 };
        y += u16::from(h >= 30);
        y += answer::draw(&mut pen.part(0, y, w, most), indent, state, ui, verdict, theme);
        if h >= 14 {
            y += u16::from(airy);
            let step = if h >= 30 { 2 } else { 1 };
            y += paths(&mut pen.part(0, y, w, 3), indent, state, ui, verdict, step, theme);
        }
        y += u16::from(airy);
    } else {
        y += 1;
    }
    let rest = h.saturating_sub(y);
    if words::unchecked(state, ui.ctx) {
        return nothing_checked(&mut pen.part(0, y, w, rest), state, ui, theme);
    }
    if w < WIDE {
        let mut pane = pen.part(0, y, w, rest);
        return match ui.screen.pane {
            Pane::List | Pane::Road => list(&mut pane, state, ui, true, theme),
            Pane::Detail => detail(&mut pane, state, ui, theme),
        };
    }
    // On a wide terminal the list widens up to its longest line before the pane next to it does.
    let longest = state.checks.iter().map(|f| width(f.id.as_str()) + width(&f.summary) + 13).max().unwrap_or(0) as u16;
    let left = (w * 2 / 5).max(longest.min(w.saturating_sub(WIDE_DETAIL))).clamp(36, longest.max(64));
    list(&mut pen.part(0, y, left, rest), state, ui, false, theme);
    let troubles = troubles(state, w.saturating_sub(left + 6), theme);
    let above = if rest >= 34 && troubles.len() > 2 { (troubles.len() as u16 + 2).min(rest / 2) } else { 0 };
    if above > 0 {
        let mut pane = pen.part(left, y, w - left, above);
        let mut inside = pane.frame(&[("Problems".to_owned(), theme.strong)], theme.faint);
        let (w, h) = (inside.width(), inside.height());
        sheet::text(&mut inside.part(2, 0, w.saturating_sub(3), h), &troubles, 0, theme);
    }
    detail(&mut pen.part(left, y + above, w - left, rest - above), state, ui, theme);
}

/// Replaces two empty panes: a list of the check subjects, and the key that starts the checks.
fn nothing_checked(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let mut inside = pen.frame(&[("Checks".to_owned(), theme.strong)], theme.faint);
    let (w, h) = (inside.width(), inside.height());
    let room = w.saturating_sub(4).min(84);
    let mut lines: Vec<Vec<Run>> = Vec::new();
    let explanation =
        "The checks show the route of reads into GPU memory, everything that blocks the direct route, and the fixes.";
    lines.extend(wrap(explanation, room).into_iter().map(|line| vec![(line, theme.text)]));
    lines.push(Vec::new());
    let groups: Vec<&str> = GROUPS.iter().map(|group| group.title()).collect();
    lines.extend(labelled("About", &format!("{}.", groups.join(", ")), room, theme.dim, theme.text));
    lines.push(Vec::new());
    let key = |key: String, words: &str| vec![(format!("{key:<8}"), theme.accent), (words.to_owned(), theme.text)];
    if !ui.ctx.replay && !ui.ctx.over && state.watch.is_none() {
        lines.push(key(ui.ctx.keys.key_of(Action::Recheck), "checks this machine now; it changes nothing"));
    } else {
        lines.extend(labelled(
            "Later",
            "'gds-top check PATH' checks a machine, without loading anything.",
            room,
            theme.dim,
            theme.text,
        ));
    }
    if !state.lanes.is_empty() || state.grid.is_some() {
        lines.push(key(ui.ctx.keys.key_of(Action::Screen(ScreenId::Race)), "Race: the runs of this session"));
    }
    let top = u16::from(h >= 10);
    sheet::text(&mut inside.part(2, top, w.saturating_sub(2), h.saturating_sub(top)), &lines, 0, theme);
}

/// Failures and warnings with their fixes, the worst first. Consequences of other findings are left out.
fn troubles(state: &State, room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    let mut found: Vec<&Finding> =
        state.checks.iter().filter(|f| f.status.weight() >= Status::Warn.weight() && f.cause.is_none()).collect();
    found.sort_by_key(|f| std::cmp::Reverse(f.status.weight()));
    let mut lines = Vec::new();
    for finding in found {
        for (i, line) in wrap(&finding.summary, room.saturating_sub(2)).into_iter().enumerate() {
            let mark = if i == 0 { finding.status.mark() } else { ' ' };
            lines.push(vec![(format!("{mark} "), theme.status(finding.status)), (line, theme.text)]);
        }
        let remedy = remedy(state, finding);
        if let Some(remedy) = remedy {
            lines.extend(wrap(remedy, room.saturating_sub(4)).into_iter().enumerate().map(|(i, line)| {
                let arrow = if i == 0 { "  → " } else { "    " };
                vec![(arrow.to_owned(), theme.accent), (line, theme.dim)]
            }));
        }
    }
    lines
}

/// Draws the current path of the bytes and the best possible path. Returns the number of rows.
fn paths(
    pen: &mut Pen<'_>,
    indent: u16,
    state: &State,
    ui: &Ui<'_>,
    verdict: &Verdict,
    step: u16,
    theme: &Theme,
) -> u16 {
    let gpu = verdict.gpu.is_some() || state.machine.as_ref().is_some_and(|m| !m.gpus.is_empty());
    let start = indent + answer::LABEL;
    let after = start + path_drawing::COLUMNS + 3;
    pen.text(indent, 0, "now", theme.dim);
    // Two lines of filled blocks directly below each other would merge, so the second line uses words.
    let hops = road::hops(state, verdict);
    let two = gpu && !hops.is_empty();
    path_drawing::draw_as(
        pen,
        (start, 0),
        &DrawnPath { route: verdict.route, gpu, through: HOST_MEMORY },
        step > 1 || !two,
        theme,
    );
    let status = verdict::status(verdict);
    let mut now: Vec<Run> = Vec::new();
    if gpu {
        let word = if verdict.route == Route::None { "no route".to_owned() } else { verdict.route.to_string() };
        now.push((format!("{word:<9} "), theme.status(status)));
        now.push((proof(verdict.proven).to_owned(), theme.dim));
    } else {
        now.push(("no GPU here".to_owned(), theme.dim));
    }
    // A text is shown only if it fits completely, because a cut number would be misleading.
    let explanation =
        |now: &[Run], more: &str| usize::from(after) + runs_width(now) + width(more) < usize::from(pen.width());
    if let Some(measured) = measured(state).map(|most| format!(", at best {}", rate(most)))
        && explanation(&now, &measured)
    {
        now.push((measured, theme.dim));
    }
    if state.verdicts.len() > 1 {
        let number = ui.screen.verdict.min(state.verdicts.len() - 1) + 1;
        now.push((format!("   path {number} of {}", state.verdicts.len()), theme.dim));
    }
    // The badge at the top shows the same text, so a text that does not fit is left out.
    let wordy = after + 10 <= pen.width();
    let room = pen.width().saturating_sub(after);
    if wordy {
        let mut x = after;
        for (text, style) in &now {
            x = pen.fit(x, 0, (after + room).saturating_sub(x + 1), text, *style);
        }
    }
    if !two {
        return 1;
    }
    pen.text(indent, step, "goal", theme.dim);
    let selected = (ui.screen.pane == Pane::Road).then_some(ui.screen.hop);
    let end = road::draw(pen, start, step, &hops, selected, theme);
    let after = after.max(end + 2);
    let room = pen.width().saturating_sub(after);
    if wordy && verdict.possible != verdict.route {
        pen.runs(after, step, &answer::goal(state, verdict, room.saturating_sub(1), theme));
    }
    step + 1
}

/// The highest rate of a cuFile load in this session that read the storage. Loads from the page cache are excluded,
/// because they show nothing about this path.
fn measured(state: &State) -> Option<f64> {
    let results = state.lanes.iter().filter(|l| is_cold_cufile(l));
    results.filter_map(|l| l.result.as_deref()).map(|r| r.bytes_per_s).filter(|r| r.is_finite()).reduce(f64::max)
}

fn is_cold_cufile(lane: &Lane) -> bool {
    lane.status == LaneStatus::Done && lane.cache == CacheState::Cold && lane.engine.opens_cufile()
}
