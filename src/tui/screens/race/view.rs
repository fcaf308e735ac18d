//! Screen 2: the engines compared, and the reasons for their times.
//!
//! ```text
//!  headline
//! ╭ model ─────────────────────────────────────────╮
//! │ ● engine  ████████████▌      100 %  rate  time │
//! │   where the time went                          │
//! ╰────────────────────────────────────────────────╯
//! ╭ Bandwidth ────╮╭ Host memory ────╮╭ GPU ───────╮
//! ```

use super::layers::LAYERS_PANE;
use super::names::entry_marker;
use super::state::Ui;
use super::{charts, lanes, layers, phases};
use crate::analysis::Advice;
use crate::core::Engine;
use crate::core::units::rate;
use crate::present::advice::sentence;
use crate::present::flow::of_run;
use crate::present::headline::race;
use crate::present::row_groups;
use crate::session::State;
use crate::tui::layout::WIDE;
use crate::tui::pen::{Pen, width, wrap};
use crate::tui::selection::selected_entry;
use crate::tui::theme::Theme;
use crate::tui::widgets::flow::least_columns;
use crate::tui::widgets::{self, big_number, headline};
use crate::tui::words::{headline_in, row_name};

/// Minimum height of a useful chart in rows, including its border.
const CHART_ROWS: u16 = 8;

/// Minimum width in columns for the share of the ceiling in large digits.
const BIG_FROM: u16 = 110;
/// Width of the text next to the digits in columns.
const BIG_WORDS: u16 = 24;

/// Minimum height in rows of a heading, a bar of phases and its legend below the lanes.
const LEAST_PHASES: u16 = 5;

/// Minimum height in rows of the two timelines of a read's layers, including their border.
const LAYER_ROWS: u16 = 6;

/// Draws the path of the bytes of the selected run, or of the running one.
fn flow(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let Some(path) = charts::chosen(state, ui).and_then(|lane| of_run(state, lane, ui.ctx.clock_ns)) else { return };
    let words = path.bottleneck().unwrap_or_default();
    let room = pen.width();
    let drawn = room.min(least_columns(&path) + 12 * path.hops.len() as u16);
    let beside = usize::from(room - drawn) > width(&words) + 3;
    widgets::flow::draw(&mut pen.part(0, 0, drawn, 1), &path, ui.ctx.frames, theme);
    if beside {
        pen.text(drawn + 3, 0, &words, theme.dim);
    }
}

/// Width of the large share of the ceiling in columns. It is reserved from the first load on, so that the answer next to it does not move.
fn large_columns(state: &State, w: u16) -> u16 {
    let shown = w >= BIG_FROM && !state.ceilings.is_empty() && !state.lanes.is_empty();
    if shown { big_number::COLUMNS + BIG_WORDS + 3 } else { 0 }
}

/// The share of its ceiling that the selected run reached, as the screen's one large number.
fn share_in_large(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let groups = row_groups(state);
    let selected = selected_entry(state, ui.ctx).unwrap_or(0);
    let mut entries = groups.iter().flat_map(|group| group.rows.iter().map(move |entry| (group, entry)));
    let Some((group, entry)) = entries.nth(selected) else { return };
    let Some((ceiling, share)) = lanes::share_of_ceiling(state, entry) else { return };
    let style = theme.lane(entry.engine);
    big_number::draw(pen, (share * 100.0).round() as u32, style);
    let words = big_number::COLUMNS + 2;
    let end = pen.text(words, 0, &format!("{} ", entry_marker(entry, theme)), style);
    let end = pen.text(end, 0, &row_name(entry, BIG_WORDS.saturating_sub(8)), theme.strong);
    pen.text(end, 0, &format!(", {}", group.cache), theme.dim);
    pen.text(words, 1, &format!("of {}", ceiling.kind.words()), theme.dim);
    pen.text(words, 2, &rate(ceiling.bytes_per_s), theme.dim);
}

/// Draws the screen.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    ui.screen.charted.set(false);
    ui.screen.more.set(false);
    let airy = h >= 26;
    // The text has the same number of rows during and after a race, so that the panes do not move.
    let block = if airy { 3 } else { 0 };
    let fewest = lanes::rows(state).saturating_add(CHART_ROWS);
    let roomy = h > fewest.saturating_add(block);
    let large = if airy && roomy { large_columns(state, w) } else { 0 };
    let room = w.saturating_sub(6 + large);
    let answers = race(state, ui.ctx.clock_ns);
    let answer = headline_in(&answers, room, if airy && h < 40 { 2 } else { 3 });
    // The question of the screen ends with "and why?". The answer is the advice about the fastest cuFile engine, or
    // else about the largest avoidable overhead.
    let advice = ui.ctx.stats.advice();
    let about_cufile = |advice: &&Advice| advice.engine.as_ref().is_some_and(Engine::opens_cufile);
    let why = || advice.iter().filter(|advice| advice.explains);
    let advice = why().find(about_cufile).or(why().next()).or(advice.first());
    let advice = advice.filter(|_| airy && state.running_lane().is_none());
    let mut advice: Vec<String> = advice.map(|advice| wrap(&sentence(advice), room)).unwrap_or_default();
    // If there is little space, empty lines and the reason are left out before a pane, because the panes also show
    // the reason.
    let said = wrap(&answer.text, room).len().min(3) as u16;
    let block = if roomy { block.max(said) } else { said };
    let shown = usize::from(block - said);
    if advice.len() > shown {
        advice.truncate(shown);
        advice.iter_mut().last().into_iter().for_each(|line| line.push_str(" …"));
    }
    let message_rows = block;
    let all_rows = fewest.saturating_add(phases::rows(state, ui.ctx, w)).saturating_add(message_rows);
    let all_rows = if all_rows <= h { all_rows } else { fewest.saturating_add(message_rows) };
    let spare = h.checked_sub(all_rows);
    let (above, below) = match spare {
        _ if !airy => (0, 0),
        Some(0) => (0, 0),
        Some(1) => (0, 1),
        _ => (1, 1),
    };
    let mut y = above;
    if large > 0 {
        share_in_large(&mut pen.part(w - large, y, large, big_number::ROWS), state, ui, theme);
    }
    y += headline::draw(&mut pen.part(0, y, w - large, 3), &answer, theme);
    for (row, line) in (y..).zip(&advice) {
        pen.text(3, row, line, theme.dim);
    }
    y += block.saturating_sub(said) + below;
    // The line for the path of the bytes is always reserved, so that nothing moves when a load begins.
    if h >= 30 && w >= WIDE && !ui.ctx.small && layers::shown(state, ui).is_none() {
        flow(&mut pen.part(3, y, w.saturating_sub(6), 1), state, ui, theme);
        y += 1;
    }
    let rest = h.saturating_sub(y);
    // Without a run the charts would be empty.
    if state.lanes.is_empty() {
        lanes::draw(&mut pen.part(0, y, w, rest), state, (ui.ctx, ui.screen.refused), theme, 0);
        return;
    }
    let layered = layers::shown(state, ui).filter(|_| !ui.screen.charts);
    if let Some(read) = layered.as_ref().filter(|_| ui.screen.expanded && !ui.ctx.small) {
        layers::draw(&mut pen.part(0, y, w, rest), read, ui, theme);
        return;
    }
    if ui.screen.expanded {
        charts::one(&mut pen.part(0, y, w, rest), state, ui, theme, ui.screen.chart);
        return;
    }
    if ui.ctx.small || w < WIDE {
        let mut pane = pen.part(0, y, w, rest);
        let panes = layers::panes(state, ui);
        match (ui.screen.pane % panes, layers::shown(state, ui)) {
            (LAYERS_PANE, Some(read)) => layers::draw(&mut pane, &read, ui, theme),
            (0, _) => lanes::draw(&mut pane, state, (ui.ctx, ui.screen.refused), theme, 0),
            (1, _) => phases::pane(&mut pane, state, ui.ctx, theme),
            (chart, _) => charts::one(&mut pane, state, ui, theme, chart - 2),
        }
        let hint = format!(" {} of {panes} ", ui.screen.pane % panes + 1);
        pane.right(w.saturating_sub(2), rest.saturating_sub(1), &hint, theme.dim);
        return;
    }
    let bare = lanes::rows(state);
    let phase_rows = phases::rows(state, ui.ctx, w);
    let with_phases = bare.saturating_add(phase_rows);
    // The runs answer the question, and the phases give the reason. The phases are in the same pane or, if that is
    // full, in a separate pane next to a chart.
    let least = if layered.is_some() { LAYER_ROWS } else { CHART_ROWS };
    let (top, shown, beside) = if with_phases + CHART_ROWS <= rest {
        (with_phases, phase_rows, false)
    } else if bare + least <= rest {
        (bare, 0, phase_rows > 0)
    } else {
        // Rows that are too few for charts show the phases around the selected run.
        let spare = rest.saturating_sub(bare);
        (rest, if spare >= LEAST_PHASES { spare.min(phase_rows) } else { 0 }, false)
    };
    lanes::draw(&mut pen.part(0, y, w, top), state, (ui.ctx, ui.screen.refused), theme, shown);
    let left = rest.saturating_sub(top);
    if left >= least
        && let Some(read) = &layered
    {
        layers::draw(&mut pen.part(0, y + top, w, left), read, ui, theme);
    } else if left >= CHART_ROWS {
        charts::row(&mut pen.part(0, y + top, w, left), state, ui, beside, theme);
    }
}
