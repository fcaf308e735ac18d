//! The runs of a race: time bars on a common axis, figures, and routes with their proof.

use super::axis::{Axis, loaded_share};
use super::names::{entry_marker, longest_name};
use super::phases;
use crate::core::units::{bytes, count, duration, percent, rate};
use crate::core::{Ceiling, Engine, ModelInfo, Status, Target};
use crate::present::ceilings::{reached, reaching};
use crate::present::engine_rows::{unavailable, without_run};
use crate::present::failures::stderr_tail;
use crate::present::progress::{elapsed_ns, rate_now, stage_words};
use crate::present::table::{ROUTE, ResultRow, TIME, VERIFIED};
use crate::present::{EngineRow, GAP, RowGroup, labels, row_groups};
use crate::session::{LaneStatus, State};
use crate::tui::clicks::Spot;
use crate::tui::context::Context;
use crate::tui::keys::action::Action;
use crate::tui::pen::{Pen, Run, runs_width, width, wrap};
use crate::tui::screen_id::ScreenId;
use crate::tui::selection::selected_entry;
use crate::tui::theme::Theme;
use crate::tui::widgets::{bars, sheet};
use crate::tui::words::{chosen, row_name};
use ratatui::style::Style;

/// Widths of the columns with figures, from the right. A column of width 0 is hidden.
struct Columns {
    name: u16,
    bar: u16,
    /// The share of the ceiling.
    share: u16,
    rate: u16,
    time: u16,
    ratio: u16,
    n: u16,
    route: u16,
    verified: u16,
}

impl Columns {
    fn new(w: u16, state: &State, groups: &[RowGroup<'_>]) -> Self {
        let entries = || groups.iter().flat_map(|h| &h.rows);
        let places = entries().filter(|e| e.place().is_some()).map(|e| width(&e.name()));
        let placed = places.max().unwrap_or(0) as u16;
        let repeats = entries().any(|e| e.lanes.len() > 1);
        let cufile = state.lanes.iter().any(|l| l.engine.opens_cufile());
        // Parts of one model are not compared with each other.
        let compared = groups.iter().any(|h| !h.together())
            || entries().filter_map(|e| e.lanes.first()).any(|lane| state.alone_ns(lane).is_some());
        // When `auto` has finished, its name includes the engine that it chose. The width is reserved, so that the bars do not move then.
        let auto = if entries().any(|e| *e.engine == Engine::Auto) { 15 } else { 0 };
        let share = match (state.ceilings.is_empty(), w) {
            (true, 0..70) => 0,
            (_, 0..70) => 8,
            _ => 9,
        };
        let mut columns = Self {
            name: longest_name(state, w).max(placed.min(26)).max(auto) + 5,
            bar: 0,
            share,
            rate: 11,
            time: 9,
            ratio: if w >= 70 && compared { 9 } else { 0 },
            n: if repeats && w >= 76 { 6 } else { 0 },
            route: match w {
                _ if !cufile => 0,
                0..90 => 0,
                // The column is as wide as its widest text, and from the start as wide as the text of most routes.
                _ => 4 + entries().map(|entry| width(&route(entry).0)).max().unwrap_or(0).max(14) as u16,
            },
            verified: if w >= 110 { 14 } else { 3 },
        };
        columns.bar = w.saturating_sub(columns.figures() + columns.name + 1);
        // The rate is dropped first, because it shows the same as the time.
        for drop in [|c: &mut Self| c.rate = 0, |c: &mut Self| c.n = 0, |c: &mut Self| c.share = 0] {
            if columns.bar < 12 {
                drop(&mut columns);
                columns.bar = w.saturating_sub(columns.figures() + columns.name + 1);
            }
        }
        columns
    }

    const fn figures(&self) -> u16 {
        self.share + self.rate + self.time + self.ratio + self.n + self.route + self.verified
    }
}

/// Number of rows that the runs need, including their border but not the phases.
pub(crate) fn rows(state: &State) -> u16 {
    let groups = row_groups(state);
    if groups.is_empty() {
        return 5 + unavailable(state).len().min(12) as u16;
    }
    let heads = if groups.len() > 1 { groups.len() } else { 0 };
    let entries: usize = groups.iter().flat_map(|h| &h.rows).map(|e| 1 + usize::from(last_line(e).is_some())).sum();
    (3 + heads + entries + unavailable(state).len()) as u16
}

fn title(state: &State, groups: &[RowGroup<'_>], w: u16, theme: &Theme) -> Vec<Run> {
    let Some(model) = &state.model else { return vec![("Race".to_owned(), theme.strong)] };
    let models: Vec<&ModelInfo> = match state.models.as_slice() {
        [_, _, ..] if groups.iter().any(|h| h.share.is_some()) => state.models.iter().map(AsRef::as_ref).collect(),
        _ => vec![model.as_ref()],
    };
    let sum = |of: &dyn Fn(&ModelInfo) -> u64| models.iter().fold(0_u64, |sum, m| sum.saturating_add(of(m)));
    // A workload writes and reads pieces of a cache instead of tensors.
    let cache = state.lanes.iter().any(|lane| matches!(lane.engine, Engine::Workload(_)));
    let (pieces, files) = if cache { ("pieces", "files") } else { ("tensors", "shards") };
    let names: Vec<&str> = models.iter().map(|m| m.name.as_str()).collect();
    let mut parts = vec![
        (names.join(" + "), theme.strong),
        (format!("{} {pieces}", count(sum(&|m| m.tensors.len() as u64))), theme.text),
        (bytes(sum(&|m| m.tensor_bytes())), theme.text),
    ];
    let shards = sum(&|m| m.shards.len() as u64);
    if shards > 1 {
        parts.push((format!("{shards} {files}"), theme.text));
    }
    if let [group] = groups {
        parts.push((format!("{} cache", group.cache), theme.text));
    }
    if let Some(group) = groups.first()
        && *group.target == Target::Host
    {
        parts.push(("into host memory".to_owned(), theme.status(Status::Na)));
    }
    let mut runs: Vec<Run> = Vec::new();
    for part in parts {
        // A part that does not fit is left out, because a cut word is not useful.
        if !runs.is_empty() && runs_width(&runs) + width(&part.0) + 4 > usize::from(w.saturating_sub(6)) {
            continue;
        }
        if !runs.is_empty() {
            runs.push((" ── ".to_owned(), theme.faint));
        }
        runs.push(part);
    }
    runs
}

/// Draws the runs and, in the last `phase_rows` rows of the pane, the phases. `refused` is the selected line among
/// the engines that cannot run.
pub(crate) fn draw(
    pen: &mut Pen<'_>,
    state: &State,
    (ctx, refused): (&Context, Option<usize>),
    theme: &Theme,
    phase_rows: u16,
) {
    let groups = row_groups(state);
    let title = title(state, &groups, pen.width(), theme);
    if groups.is_empty() {
        return nothing(pen, &title, state, (ctx, refused), theme);
    }
    let mut inside = pen.frame(&title, theme.faint);
    let (w, h) = (inside.width(), inside.height());
    let columns = Columns::new(w, state, &groups);
    let lanes_height = h.saturating_sub(phase_rows);
    let mut lanes = inside.part(0, 0, w, lanes_height);
    let selected = selected_entry(state, ctx).filter(|_| refused.is_none());
    let mut rows: Vec<Row<'_, '_>> = Vec::new();
    let mut index = 0;
    for group in &groups {
        if groups.len() > 1 {
            rows.push(Row::Group(group));
        }
        for entry in &group.rows {
            rows.push(Row::Entry(group, entry, index));
            if let Some(line) = last_line(entry) {
                rows.push(Row::StderrTail(line));
            }
            index += 1;
        }
    }
    rows.extend(unavailable(state).into_iter().enumerate().map(|(n, (names, why))| Row::Unavailable(n, names, why)));
    let axis = Axis::new(columns.name, columns.bar, &groups, state, ctx);
    column_heads(&mut lanes.part(0, 0, w, 1), &columns, &groups, !state.ceilings.is_empty(), theme);
    axis.label(&mut lanes, 0, theme.faint_text());
    let room = usize::from(lanes_height.saturating_sub(1));
    let is_selected = |row: &Row<'_, '_>| match row {
        Row::Entry(_, _, number) => Some(*number) == selected,
        Row::Unavailable(number, ..) => Some(*number) == refused,
        _ => false,
    };
    let at = rows.iter().position(is_selected).unwrap_or(0);
    let first = at.saturating_sub(room.saturating_sub(2)).min(rows.len().saturating_sub(room));
    if rows.len() > room {
        sheet::scrollbar(&mut lanes.part(0, 1, w, room as u16), rows.len(), first, theme);
    }
    for (y, row) in rows.iter().skip(first).take(room).enumerate() {
        // The cache state of the first visible row must stay visible, so the heading of its group is kept.
        let above = rows.iter().take(first).rfind(|r| matches!(r, Row::Group(_)));
        let row = match (y, row, above) {
            (0, Row::Entry(..) | Row::StderrTail(_), Some(heading)) => heading,
            _ => row,
        };
        let mut line = lanes.part(0, y as u16 + 1, w, 1);
        match row {
            Row::Group(group) => group_row(&mut line, group, theme),
            Row::Entry(group, entry, i) => {
                line.hit(0, 0, w, Spot::Row(*i));
                entry_row(&mut line, (&columns, axis), (group, entry), state, ctx, theme);
                if Some(*i) == selected {
                    if ctx.entry.is_some() && !theme.mono {
                        line.restyle(0, 0, w, 1, theme.selected);
                    }
                    line.cell(0, 0, '▸', theme.accent);
                }
            }
            Row::StderrTail(text) => {
                line.fit(
                    columns.name,
                    0,
                    w.saturating_sub(columns.name + 1),
                    &format!("standard error: {text}"),
                    theme.dim,
                );
            }
            Row::Unavailable(number, engines, why) => {
                line.hit(0, 0, w, Spot::Row(index + number));
                line.text(2, 0, "–", theme.status(Status::Na));
                // A single engine uses the column of names. Several engines with the same reason use as many columns
                // as they need.
                let room = if engines.len() > 1 { w } else { columns.name.saturating_sub(5) };
                let name = line.fit(4, 0, room, &engines.join(", "), theme.dim);
                let at = columns.name.max(name + 1);
                line.fit(at, 0, w.saturating_sub(at + 1), why, theme.dim);
                if Some(*number) == refused {
                    line.restyle(0, 0, w, 1, theme.selected);
                    line.cell(0, 0, '▸', theme.accent);
                }
            }
        }
    }
    if phase_rows > 0 {
        phases::below(&mut inside.part(0, lanes_height, w, phase_rows), state, ctx, (columns.name, axis), theme);
    }
}

enum Row<'a, 's> {
    Group(&'a RowGroup<'s>),
    Entry(&'a RowGroup<'s>, &'a EngineRow<'s>, usize),
    StderrTail(String),
    Unavailable(usize, Vec<String>, String),
}

/// Draws the suggestions and the engines that cannot run, in a pane that is as high as this text.
fn nothing(pen: &mut Pen<'_>, title: &[Run], state: &State, (ctx, refused): (&Context, Option<usize>), theme: &Theme) {
    let room = pen.width().saturating_sub(6);
    let mut lines: Vec<(Option<usize>, Vec<Run>)> = vec![(None, Vec::new())];
    for (key, words) in invitation(state, ctx) {
        let indent = 4.max(1 + width(&key));
        for (n, line) in wrap(words, room.saturating_sub(indent as u16)).into_iter().enumerate() {
            let key = if n == 0 { key.as_str() } else { "" };
            lines.push((None, vec![(format!("  {key:<indent$}"), theme.accent), (line, theme.text)]));
        }
    }
    lines.push((None, Vec::new()));
    for (number, (engines, why)) in unavailable(state).into_iter().enumerate() {
        let text = format!("{} {why}", engines.join(", "));
        for (n, line) in wrap(&text, room.saturating_sub(2)).into_iter().enumerate() {
            let mark = if n == 0 { "  – " } else { "    " };
            lines.push((Some(number), vec![(mark.to_owned(), theme.status(Status::Na)), (line, theme.dim)]));
        }
    }
    let rows = (lines.len() as u16 + 2).min(pen.height());
    let w = pen.width();
    let mut pane = pen.part(0, 0, w, rows);
    let mut inside = pane.frame(title, theme.faint);
    for (y, (number, runs)) in (0..inside.height()).zip(&lines) {
        inside.runs(0, y, runs);
        let Some(number) = number else { continue };
        inside.hit(y, 0, w, Spot::Row(*number));
        if Some(*number) == refused {
            inside.restyle(0, y, w, 1, theme.selected);
            inside.cell(0, y, '▸', theme.accent);
        }
    }
}

/// Suggestions if no run exists: a key or a command, and its effect.
fn invitation(state: &State, ctx: &Context) -> Vec<(String, &'static str)> {
    let mut rows = Vec::new();
    if ctx.captured {
        rows.push((
            "gds-top MODEL".to_owned(),
            "compares the engines on the machine itself; nothing can run on a capture",
        ));
    } else if ctx.is_live() && !state.race_plans.is_empty() {
        rows.push((
            ctx.keys.key_of(Action::Plans),
            "everything that can be run here: models, KV caches, the storage grid",
        ));
    } else {
        rows.push(("gds-top MODEL".to_owned(), "compares the engines with a model"));
    }
    rows.push((ctx.keys.key_of(Action::Screen(ScreenId::Learn)), "recorded loads of two models on an H200, explained"));
    rows
}

/// The last line on the standard error of a run whose process died.
fn last_line(entry: &EngineRow<'_>) -> Option<String> {
    let (lane, _) = entry.failed()?;
    stderr_tail(lane.stderr_tail.as_deref()?).pop()
}

/// Whether some runs of the group have not started.
fn racing(group: &RowGroup<'_>, state: &State, ctx: &Context) -> bool {
    !group.settled() && !ctx.over && state.ended.is_none()
}

fn column_heads(pen: &mut Pen<'_>, columns: &Columns, groups: &[RowGroup<'_>], bounded: bool, theme: &Theme) {
    let style = theme.faint_text();
    let mut x = columns.name + columns.bar;
    for (column, word) in [
        (columns.share, if bounded { "ceiling" } else { "" }),
        (columns.rate, "rate"),
        (columns.time, "time"),
        (columns.ratio, if groups.iter().all(RowGroup::together) { "vs alone" } else { "vs best" }),
        (columns.n, "runs"),
    ] {
        x += column;
        if column > 0 {
            pen.right(x, 0, word, style);
        }
    }
    if columns.route > 0 {
        pen.text(x + 3, 0, "route", style);
    }
    x += columns.route;
    if columns.verified > 6 {
        pen.text(x + 2, 0, VERIFIED.title, style);
    }
}

fn group_row(pen: &mut Pen<'_>, group: &RowGroup<'_>, theme: &Theme) {
    let (words, [clause, _]) = (group.title(), group.title_parts());
    // If the sentence does not fit, only its first clause is shown.
    let room = usize::from(pen.width().saturating_sub(2));
    let shown = if width(&words) <= room { words } else { clause };
    let end = pen.fit(1, 0, room as u16, &shown, theme.text);
    for x in end + 1..pen.width().saturating_sub(1) {
        pen.cell(x, 0, '╌', theme.faint);
    }
}

fn entry_row(
    pen: &mut Pen<'_>,
    (columns, axis): (&Columns, Axis),
    (group, entry): (&RowGroup<'_>, &EngineRow<'_>),
    state: &State,
    ctx: &Context,
    theme: &Theme,
) {
    let w = pen.width();
    let style = theme.lane(entry.engine);
    let running = entry.running();
    let live = racing(group, state, ctx);
    pen.cell(2, 0, entry_marker(entry, theme), style);
    let name = if running.is_some() { theme.strong } else { theme.text };
    let end = pen.text(4, 0, &row_name(entry, columns.name.saturating_sub(5)), name);
    if let Some(took) = chosen(entry)
        && usize::from(columns.name.saturating_sub(end)) > width(&took)
    {
        pen.text(end, 0, &took, theme.dim);
    }
    if entry.n() == 0 && running.is_none() {
        let (status, words) = without_run(entry, state.ended.is_some() || ctx.over);
        pen.fit(columns.name, 0, w.saturating_sub(columns.name + 1), &words, theme.status(status));
        return;
    }
    let places = group.ranked();
    let place = places.iter().position(|row| std::ptr::eq(*row, entry)).filter(|_| !live && !group.together());
    if let Some(digit) = place.filter(|_| places.len() > 1).and_then(|at| char::from_digit(at as u32 + 1, 10)) {
        pen.cell(1, 0, digit, if digit == '1' { theme.accent } else { theme.dim });
    }
    let mut x = columns.name;
    let time = running.map_or_else(|| entry.wall_ns(), |lane| elapsed_ns(lane, ctx.clock_ns));
    let setup = match running {
        Some(lane) => lane.started_ns.map(|start| lane.clock_ns.unwrap_or(ctx.clock_ns).saturating_sub(start)),
        None => entry.ranked().map(|ranked| ranked.setup_ns),
    };
    axis.setup(pen, setup.unwrap_or(0), theme);
    bars::bar(pen, axis.zero, 0, axis.columns, time.map_or(0.0, |ns| axis.share(ns)), ('▆', style), (' ', theme.faint));
    let walls: Vec<u64> = entry.good().map(|run| run.wall_ns).collect();
    if walls.len() > 1 && running.is_none() {
        axis.dots(pen, &walls, theme.strong);
    }
    if let Some(lane) = running.filter(|lane| lane.clock_ns.is_none()) {
        let LaneStatus::Running(stage) = lane.status else { return };
        let words = format!("{} {}", ctx.spinner(), stage_words(stage, lane.cache));
        pen.fit(axis.zero + 1, 0, axis.columns.saturating_sub(1), &format!("{words} "), theme.dim);
    }
    x += columns.bar;
    let figure = |pen: &mut Pen<'_>, x: &mut u16, column: u16, text: &str, style| {
        *x += column;
        if column > 0 {
            pen.right(*x, 0, text, style);
        }
    };
    let share = share_of_ceiling(state, entry).map(|(_, share)| percent(share)).unwrap_or_default();
    figure(pen, &mut x, columns.share, &share, theme.strong);
    let wall = running.map_or_else(|| entry.wall_ns(), |lane| elapsed_ns(lane, ctx.clock_ns));
    let speed = match running {
        Some(lane) => rate_now(lane),
        None => entry.bytes_per_s(),
    };
    figure(pen, &mut x, columns.rate, &speed.map_or_else(|| "–".to_owned(), rate), theme.text);
    let ranked = group.ranked_engine(entry).filter(|_| running.is_none());
    let row = ranked.map(|ranked| ResultRow::new(ranked, entry.good().collect()));
    let time = match (&row, wall) {
        (Some(row), _) => (TIME.cell)(row),
        (None, wall) => wall.map_or_else(|| GAP.to_owned(), duration),
    };
    figure(pen, &mut x, columns.time, &time, theme.strong);
    // Runs that load together are compared with their time alone.
    let alone = || entry.lanes.first().and_then(|lane| state.alone_ns(lane)).filter(|ns| *ns > 0);
    let ratio = match ranked {
        Some(ranked) if group.together() => alone().map(|alone| labels::factor(ranked.wall_ns as f64 / alone as f64)),
        ranked => ranked.map(labels::ratio),
    };
    figure(pen, &mut x, columns.ratio, ratio.as_deref().unwrap_or(GAP), theme.text);
    let n = entry.n();
    let runs = if n == entry.lanes.len() { n.to_string() } else { format!("{n}/{}", entry.lanes.len()) };
    figure(pen, &mut x, columns.n, &runs, theme.dim);
    if columns.route > 0 {
        let (word, status) = route(entry);
        let style = status.map_or(theme.dim, |status| theme.status(status));
        pen.fit(x + 3, 0, columns.route.saturating_sub(3), &word, style);
        x += columns.route;
    }
    if let Some(share) = running.and_then(|lane| loaded_share(lane, state)).filter(|_| columns.verified > 6) {
        pen.text(x + 2, 0, &format!("{} loaded", percent(share)), theme.dim);
        return;
    }
    let (mark, word, style) = verified(entry, row.as_ref(), theme);
    let text = if columns.verified > 6 { format!("{mark} {word}") } else { mark.to_string() };
    pen.text(x + 2, 0, &text, style);
}

/// The ceiling of a row's typical run, or of its running one, and the share of it that the run reached or reaches.
pub(super) fn share_of_ceiling<'s>(state: &'s State, entry: &EngineRow<'_>) -> Option<(&'s Ceiling, f64)> {
    match entry.running() {
        Some(lane) => reaching(state, lane),
        None => reached(state, entry.typical()?),
    }
}

/// The route of a row's reads with its status.
fn route(entry: &EngineRow<'_>) -> (String, Option<Status>) {
    let counts = entry.typical().and_then(|lane| lane.result.as_deref()?.route.as_ref());
    let row = entry.ranked().map(|ranked| ResultRow::new(ranked, entry.good().collect()));
    let cell = row.map_or_else(|| GAP.to_owned(), |row| (ROUTE.cell)(&row));
    (cell, counts.map(labels::route_status))
}

fn verified(entry: &EngineRow<'_>, row: Option<&ResultRow<'_>>, theme: &Theme) -> (char, String, Style) {
    let Some(row) = row.filter(|_| entry.failed().is_none()) else {
        return match entry.failed() {
            Some(_) => (Status::Fail.mark(), "one failed".to_owned(), theme.status(Status::Fail)),
            None => (' ', String::new(), theme.dim),
        };
    };
    let status = VERIFIED.status.map_or(Status::Na, |status| status(row));
    if status == Status::Pass && entry.cancelled() {
        return (status.mark(), "one stopped".to_owned(), theme.status(Status::Na));
    }
    (status.mark(), (VERIFIED.cell)(row), theme.status(status))
}
