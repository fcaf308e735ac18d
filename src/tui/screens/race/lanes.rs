//! The lanes of a race: bars with ghosts, figures, routes with their proof.

use super::phases;
use super::view::selected_entry;
use crate::domain::units::{bytes, count, rate, three_digits};
use crate::domain::{Engine, ModelInfo, Route, Status, Target};
use crate::session::{LaneStatus, State};
use crate::tui::app::UiState;
use crate::tui::entries::{Entry, Heat, elapsed_ns, heats, landed_at, rate_now, stage_words};
use crate::tui::frame::spinner;
use crate::tui::mouse::Spot;
use crate::tui::pen::{Pen, Run, runs_width, width};
use crate::tui::theme::Theme;
use crate::tui::widgets::{bars, sheet};
use crate::tui::words::{cache_word, route_word, same_unit};

/// Columns of the figures, from the right; a column of width 0 is not shown.
struct Columns {
    name: u16,
    bar: u16,
    percent: u16,
    rate: u16,
    time: u16,
    ratio: u16,
    n: u16,
    route: u16,
    verified: u16,
}

impl Columns {
    fn new(w: u16, state: &State, ui: &UiState, heats: &[Heat<'_>]) -> Self {
        let entries = || heats.iter().flat_map(|h| &h.entries);
        let places = entries().filter(|e| e.place().is_some()).map(|e| width(&e.name()));
        let placed = places.max().unwrap_or(0) as u16;
        let repeats = entries().any(|e| e.lanes.len() > 1);
        let cufile = state.lanes.iter().any(|l| l.engine.opens_cufile());
        let moving = heats.iter().any(|h| racing(h, state, ui)) || state.running_lane().is_some();
        // Parts of one model have nothing that they could be compared with.
        let compared = heats.iter().any(|h| !h.together())
            || entries().filter_map(|e| e.lanes.first()).any(|lane| state.alone_ns(lane).is_some());
        let mut columns = Self {
            name: longest_name(state, w).max(placed.min(26)) + 5,
            bar: 0,
            percent: if moving { 6 } else { 0 },
            rate: 11,
            time: 9,
            ratio: if w >= 70 && compared { 9 } else { 0 },
            n: if repeats && w >= 76 { 6 } else { 0 },
            route: match w {
                _ if !cufile => 0,
                0..90 => 0,
                90..110 => 14,
                // As wide as the words are.
                _ => 4 + entries().map(|entry| width(&route_words(entry, true).0)).max().unwrap_or(0).max(9) as u16,
            },
            verified: if w >= 110 { 14 } else { 3 },
        };
        columns.bar = w.saturating_sub(columns.figures() + columns.name + 1);
        if columns.bar < 12 {
            columns.percent = 0;
            columns.bar = w.saturating_sub(columns.figures() + columns.name + 1);
        }
        if columns.bar < 3 {
            // The time says what the rate says.
            columns.rate = 0;
            columns.bar = w.saturating_sub(columns.figures() + columns.name + 1);
        }
        columns
    }

    const fn figures(&self) -> u16 {
        self.percent + self.rate + self.time + self.ratio + self.n + self.route + self.verified
    }
}

/// Columns of the longest name of a lane, as far as names are shown whole in a pane of `w` columns.
pub(crate) fn longest_name(state: &State, w: u16) -> u16 {
    let names = state.lanes.iter().map(|l| &l.engine).chain(state.unavailable.iter().map(|(engine, _)| engine));
    let longest = names.map(|engine| width(&engine.label())).max().unwrap_or(4) as u16;
    longest.clamp(6, if w >= 100 { 28 } else { 22 })
}

/// Rows that the lanes take with their border, without phases.
pub(crate) fn rows(state: &State, ui: &UiState, w: u16) -> u16 {
    let heats = heats(state);
    if heats.is_empty() {
        return 5 + unavailable(state).len().min(12) as u16;
    }
    let _ = (ui, w);
    let heads = if heats.len() > 1 { heats.len() } else { 0 };
    let entries: usize = heats.iter().flat_map(|h| &h.entries).map(|e| 1 + usize::from(last_words(e).is_some())).sum();
    (3 + heads + entries + unavailable(state).len()) as u16
}

fn title(state: &State, heats: &[Heat<'_>], w: u16, theme: &Theme) -> Vec<Run> {
    let Some(model) = &state.model else { return vec![("Race".to_owned(), theme.strong)] };
    let models: Vec<&ModelInfo> = match state.models.as_slice() {
        [_, _, ..] if heats.iter().any(|h| h.share.is_some()) => state.models.iter().map(AsRef::as_ref).collect(),
        _ => vec![model.as_ref()],
    };
    let sum = |of: &dyn Fn(&ModelInfo) -> u64| models.iter().fold(0_u64, |sum, m| sum.saturating_add(of(m)));
    // What a workload writes and reads are pieces of a cache, and no weights.
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
    if let [heat] = heats {
        parts.push((format!("{} cache", cache_word(heat.cache)), theme.text));
    }
    if let Some(heat) = heats.first()
        && *heat.target == Target::Host
    {
        parts.push(("into host memory".to_owned(), theme.status(Status::Na)));
    }
    let mut runs: Vec<Run> = Vec::new();
    for part in parts {
        // Half a word says nothing: what finds no room is left out.
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

/// Draws the lanes and, in the last `phase_rows` rows of the pane, where the time went.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, ui: &UiState, theme: &Theme, phase_rows: u16) {
    let heats = heats(state);
    let title = title(state, &heats, pen.width(), theme);
    let mut inside = pen.frame(&title, theme.faint);
    let (w, h) = (inside.width(), inside.height());
    if heats.is_empty() {
        nothing(&mut inside, state, ui, theme);
        return;
    }
    let columns = Columns::new(w, state, ui, &heats);
    let lanes_height = h.saturating_sub(phase_rows);
    let mut lanes = inside.part(0, 0, w, lanes_height);
    let selected = selected_entry(state, ui);
    let mut rows: Vec<Row<'_, '_>> = Vec::new();
    let mut index = 0;
    for heat in &heats {
        if heats.len() > 1 {
            rows.push(Row::Heat(heat));
        }
        for entry in &heat.entries {
            rows.push(Row::Entry(heat, entry, index));
            if let Some(words) = last_words(entry) {
                rows.push(Row::LastWords(words));
            }
            index += 1;
        }
    }
    rows.extend(unavailable(state).into_iter().map(|(engines, why)| Row::Unavailable(engines, why)));
    column_heads(&mut lanes.part(0, 0, w, 1), &columns, &heats, state, ui, theme);
    let room = usize::from(lanes_height.saturating_sub(1));
    let at = rows.iter().position(|r| matches!(r, Row::Entry(_, _, i) if Some(*i) == selected)).unwrap_or(0);
    let first = at.saturating_sub(room.saturating_sub(2)).min(rows.len().saturating_sub(room));
    if rows.len() > room {
        sheet::scrollbar(&mut lanes.part(0, 1, w, room as u16), rows.len(), first, theme);
    }
    for (y, row) in rows.iter().skip(first).take(room).enumerate() {
        // Cold or hot must be told of the first line that is seen too: its heading stays above it.
        let above = rows.iter().take(first).rfind(|r| matches!(r, Row::Heat(_)));
        let row = match (y, row, above) {
            (0, Row::Entry(..) | Row::LastWords(_), Some(heading)) => heading,
            _ => row,
        };
        let mut line = lanes.part(0, y as u16 + 1, w, 1);
        match row {
            Row::Heat(heat) => heat_row(&mut line, heat, theme),
            Row::Entry(heat, entry, i) => {
                line.hit(ui, 0, 0, w, Spot::Entry(*i));
                entry_row(&mut line, &columns, heat, entry, state, ui, theme);
                if Some(*i) == selected {
                    if ui.race.selected.is_some() && !theme.mono {
                        line.restyle(0, 0, w, 1, theme.selected);
                    }
                    line.cell(0, 0, '▸', theme.accent);
                }
            }
            Row::LastWords(words) => {
                line.fit(
                    columns.name,
                    0,
                    w.saturating_sub(columns.name + 1),
                    &format!("last words: {words}"),
                    theme.dim,
                );
            }
            Row::Unavailable(engine, why) => {
                line.text(2, 0, "–", theme.status(Status::Na));
                // One keeps to the column of names; several that share their reason take the room that they need.
                let room = if engine.contains(", ") { w } else { columns.name.saturating_sub(5) };
                let name = line.fit(4, 0, room, engine, theme.dim);
                let at = columns.name.max(name + 1);
                line.fit(at, 0, w.saturating_sub(at + 1), &format!("cannot run here: {why}"), theme.dim);
            }
        }
    }
    if phase_rows > 0 {
        phases::below(&mut inside.part(0, lanes_height, w, phase_rows), state, ui, columns.name, theme);
    }
}

enum Row<'a, 's> {
    Heat(&'a Heat<'s>),
    Entry(&'a Heat<'s>, &'a Entry<'s>, usize),
    LastWords(&'s str),
    Unavailable(String, &'s str),
}

fn nothing(pen: &mut Pen<'_>, state: &State, ui: &UiState, theme: &Theme) {
    let words = match (&state.model, state.ended) {
        (_, Some(_)) => "The session ended without a race.".to_owned(),
        (None, None) => format!("{} The model's files are being read.", spinner(ui)),
        (Some(_), None) => format!("{} The race is being planned.", spinner(ui)),
    };
    pen.text(2, 1, &words, theme.dim);
    for (i, (engine, why)) in unavailable(state).iter().enumerate() {
        let text = format!("– {engine} cannot run here: {why}");
        pen.fit(2, 3 + i as u16, pen.width().saturating_sub(4), &text, theme.dim);
    }
}

/// Engines that cannot run, those with the same reason together: five lines that say the same hide the others.
fn unavailable(state: &State) -> Vec<(String, &str)> {
    let mut groups: Vec<(String, &str)> = Vec::new();
    for (engine, why) in &state.unavailable {
        match groups.iter_mut().find(|(_, known)| known == why) {
            Some((engines, _)) => {
                let label = engine.label();
                // What cannot be written cannot be read either: a variant is named once.
                if !engines.split(", ").any(|known| known == label) {
                    engines.push_str(", ");
                    engines.push_str(&label);
                }
            }
            None => groups.push((engine.label(), why)),
        }
    }
    groups
}

/// The last line that a dead lane wrote.
fn last_words<'s>(entry: &Entry<'s>) -> Option<&'s str> {
    let (lane, _) = entry.failed()?;
    lane.last_words.as_deref()?.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// Whether bars show how far lanes have come; otherwise they compare speeds.
fn racing(heat: &Heat<'_>, state: &State, ui: &UiState) -> bool {
    !heat.settled() && !ui.over && state.ended.is_none()
}

fn column_heads(pen: &mut Pen<'_>, columns: &Columns, heats: &[Heat<'_>], state: &State, ui: &UiState, theme: &Theme) {
    let style = theme.faint_text();
    let any_racing = heats.iter().any(|h| racing(h, state, ui));
    let all_racing = heats.iter().all(|h| racing(h, state, ui));
    let (long, short) = match (any_racing, all_racing) {
        (true, true) => ("loaded   ▒ the others at that time", "loaded"),
        (true, false) => ("loaded, or speed where all is done", "loaded"),
        (false, _) => ("speed, longer is faster", "speed"),
    };
    let bar = if width(long) < usize::from(columns.bar) { long } else { short };
    pen.text(columns.name, 0, bar, style);
    let mut x = columns.name + columns.bar;
    for (column, word) in [
        (columns.percent, ""),
        (columns.rate, "rate"),
        (columns.time, "time"),
        (columns.ratio, if heats.iter().all(Heat::together) { "vs alone" } else { "vs best" }),
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
        pen.text(x + 2, 0, "bytes", style);
    }
}

fn heat_row(pen: &mut Pen<'_>, heat: &Heat<'_>, theme: &Theme) {
    let direction = heat.entries.first().and_then(|entry| entry.engine.direction());
    let words = match direction {
        Some(direction) => format!("{direction}, {}", heat.words(cache_word(heat.cache))),
        None => heat.words(cache_word(heat.cache)),
    };
    // Half a sentence is worse than its first clause.
    let room = usize::from(pen.width().saturating_sub(2));
    let clause = words.rsplit_once(", ").map_or(words.as_str(), |(first, _)| first);
    let shown = if width(&words) <= room { words.as_str() } else { clause };
    let end = pen.fit(1, 0, room as u16, shown, theme.text);
    for x in end + 1..pen.width().saturating_sub(1) {
        pen.cell(x, 0, '╌', theme.faint);
    }
}

/// The engine's mark, or the number of a lane that runs beside others.
pub(crate) fn entry_marker(entry: &Entry<'_>, theme: &Theme) -> char {
    let number = entry.place().and_then(|(number, _)| char::from_digit(number, 10));
    number.unwrap_or_else(|| theme.marker(entry.engine))
}

fn entry_row(
    pen: &mut Pen<'_>,
    columns: &Columns,
    heat: &Heat<'_>,
    entry: &Entry<'_>,
    state: &State,
    ui: &UiState,
    theme: &Theme,
) {
    let w = pen.width();
    let style = theme.lane(entry.engine);
    let running = entry.running();
    pen.cell(2, 0, entry_marker(entry, theme), style);
    let name = if running.is_some() { theme.strong } else { theme.text };
    let end = pen.text(4, 0, &entry.short_name(columns.name.saturating_sub(5)), name);
    if let Some(took) = entry.took().map(|took| format!(" → {took}"))
        && usize::from(columns.name.saturating_sub(end)) > width(&took)
    {
        pen.text(end, 0, &took, theme.dim);
    }
    if entry.n() == 0
        && running.is_none()
        && let Some((_, why)) = entry.failed()
    {
        let text = format!("{} failed: {why}", Status::Fail.mark());
        pen.fit(columns.name, 0, w.saturating_sub(columns.name + 1), &text, theme.status(Status::Fail));
        return;
    }
    if entry.n() == 0 && running.is_none() && entry.stopped() {
        let text = format!("{} stopped before it had loaded", Status::Na.mark());
        pen.fit(columns.name, 0, w.saturating_sub(columns.name + 1), &text, theme.status(Status::Na));
        return;
    }
    if entry.n() == 0 && running.is_none() {
        let words = if state.ended.is_some() || ui.over { "never ran" } else { "waits" };
        pen.text(columns.name, 0, words, theme.dim);
        return;
    }
    let total = entry.lanes.first().map_or(0, |lane| state.bytes_of(lane));
    let mut x = columns.name;
    let live = racing(heat, state, ui);
    let share_of = |landed: u64| if total > 0 { landed as f64 / total as f64 } else { 0.0 };
    let (share, fill, rest) = match (running, live) {
        (Some(lane), _) => (share_of(lane.landed_bytes()), '▆', '─'),
        (None, true) => {
            let ghost = entry.typical().map_or(0, |lane| match leader_time(heat, ui) {
                Some(time) => landed_at(lane, time),
                None => lane.result.as_deref().map_or(0, |r| r.bytes),
            });
            (share_of(ghost), '▒', '─')
        }
        (None, false) if heat.together() => {
            // Lanes that run together may load models of different sizes: what compares is their rate.
            let best = heat.entries.iter().filter_map(speed_of).fold(0.0, f64::max);
            (speed_of(entry).filter(|_| best > 0.0).map_or(0.0, |speed| speed / best), '▆', ' ')
        }
        (None, false) => {
            let best = heat.fastest().and_then(Entry::wall_ns).unwrap_or(0);
            (best as f64 / entry.wall_ns().unwrap_or(1).max(1) as f64, '▆', ' ')
        }
    };
    bars::bar(pen, x, 0, columns.bar.saturating_sub(1), share, (fill, style), (rest, theme.faint));
    if let Some(lane) = running.filter(|lane| lane.clock_ns.is_none()) {
        let LaneStatus::Running(stage) = lane.status else { return };
        let words = format!("{} {}", spinner(ui), stage_words(stage, lane.cache));
        pen.fit(x, 0, columns.bar.saturating_sub(1), &format!("{words} "), theme.dim);
    }
    x += columns.bar;
    let figure = |pen: &mut Pen<'_>, x: &mut u16, column: u16, text: &str, style| {
        *x += column;
        if column > 0 {
            pen.right(*x, 0, text, style);
        }
    };
    let percent = if live || running.is_some() { format!("{:.0} %", share * 100.0) } else { String::new() };
    figure(pen, &mut x, columns.percent, &percent, theme.dim);
    let wall = running.map_or_else(|| entry.wall_ns(), |lane| elapsed_ns(lane, ui.clock_ns));
    let speed = match running {
        Some(lane) => rate_now(lane),
        None => speed_of(entry),
    };
    figure(pen, &mut x, columns.rate, &speed.map_or_else(|| "–".to_owned(), rate), theme.text);
    let time = wall.map_or_else(|| "–".to_owned(), |ns| same_unit(ns, slowest(heat)));
    figure(pen, &mut x, columns.time, &time, theme.strong);
    let ratio = heat.fastest().and_then(Entry::wall_ns).filter(|best| *best > 0 && running.is_none());
    // Beside others a lane's own time alone is what it is measured by.
    let alone = heat.together().then(|| entry.lanes.first().and_then(|lane| state.alone_ns(lane)));
    let ratio = alone.map_or(ratio, |alone| alone.filter(|_| running.is_none()));
    let ratio = ratio.zip(wall).map(|(best, wall)| format!("{}×", three_digits(wall as f64 / best as f64)));
    figure(pen, &mut x, columns.ratio, ratio.as_deref().unwrap_or("–"), theme.text);
    let n = entry.n();
    let runs = if n == entry.lanes.len() { format!("n={n}") } else { format!("{n}/{}", entry.lanes.len()) };
    figure(pen, &mut x, columns.n, &runs, theme.dim);
    if columns.route > 0 {
        let (word, style) = route(entry, w >= 110, theme);
        pen.fit(x + 3, 0, columns.route.saturating_sub(3), &word, style);
        x += columns.route;
    }
    let (mark, word, style) = verified(entry, theme);
    let text = if columns.verified > 6 { format!("{mark} {word}") } else { mark.to_string() };
    pen.text(x + 2, 0, &text, style);
}

/// Bytes a second at the median time.
fn speed_of(entry: &Entry<'_>) -> Option<f64> {
    crate::domain::units::bytes_per_s(entry.results().map(|r| r.bytes).max()?, entry.wall_ns()?)
}

/// The longest median of a heat: its unit is everybody's.
fn slowest(heat: &Heat<'_>) -> u64 {
    heat.entries.iter().filter_map(Entry::wall_ns).max().unwrap_or(1_000_000_000)
}

/// The time on the clock of the lane that loads now, at which ghosts are shown.
fn leader_time(heat: &Heat<'_>, ui: &UiState) -> Option<u64> {
    let lane = heat.entries.iter().find_map(Entry::running)?;
    elapsed_ns(lane, ui.clock_ns)
}

/// The route of an entry's reads in its colour.
fn route(entry: &Entry<'_>, in_words: bool, theme: &Theme) -> (String, ratatui::style::Style) {
    let (words, status) = route_words(entry, in_words);
    (words, status.map_or(theme.dim, |status| theme.status(status)))
}

/// The route of an entry's reads with its proof, as words or as a mark, and how good it is.
fn route_words(entry: &Entry<'_>, in_words: bool) -> (String, Option<Status>) {
    let counts = entry.typical().and_then(|l| l.result.as_deref()?.route.as_ref());
    if counts.is_none() && !entry.engine.opens_cufile() {
        return ("–".to_owned(), None);
    }
    let Some(counts) = counts else {
        return ("not known".to_owned(), None);
    };
    let status = match counts.route {
        Route::Compat => Status::Warn,
        Route::None => Status::Fail,
        _ if counts.straight() => Status::Pass,
        _ => Status::Warn,
    };
    let proof = match (in_words, counts.proven) {
        (true, true) => ", proven",
        (true, false) => ", unproven",
        (false, true) => " ✔",
        (false, false) => " ?",
    };
    (format!("{}{proof}", route_word(counts.route)), Some(status))
}

fn verified(entry: &Entry<'_>, theme: &Theme) -> (char, &'static str, ratatui::style::Style) {
    if entry.failed().is_some() {
        (Status::Fail.mark(), "one failed", theme.status(Status::Fail))
    } else if entry.n() == 0 {
        (' ', "", theme.dim)
    } else if entry.verified() && entry.stopped() {
        (Status::Pass.mark(), "one stopped", theme.status(Status::Na))
    } else if entry.verified() {
        (Status::Pass.mark(), "verified", theme.status(Status::Pass))
    } else {
        (Status::Na.mark(), "not verified", theme.status(Status::Na))
    }
}
