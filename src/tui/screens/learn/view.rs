//! Screen 5: why can GDS be slower on a small model? Twelve steps with recorded loads, and a simulation that is marked
//! as such.
//!
//! ```text
//!  headline: step and title
//! ╭ words ────────╮╭ figure ───────────────────╮
//! │               ││                           │
//! ╰───────────────╯╰───────────────────────────╯
//! ╭ Simulation, not measured ──────────────────╮
//! ```

use super::simulation::Simulation;
use super::state::Ui;
use crate::core::units::{bytes, count, duration, percent};
use crate::core::{CacheState, Engine, Phase, Route, Status};
use crate::present::lesson::{Lesson, Load, ModelLoads, measured_here, written_first};
use crate::present::lesson_steps::{Figure, STEPS, Step, step};
use crate::present::phases::title;
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::pen::{Pen, Run, runs_width, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::headline;
use crate::tui::widgets::path_drawing::{self, DrawnPath};
use crate::tui::widgets::scatter::{self, Cloud};
use crate::tui::widgets::{bars, sheet, timeline};
use crate::tui::words::Headline;

/// Minimum number of rows of a figure below the text, including its border.
const fn least_rows(figure: Figure) -> u16 {
    match figure {
        Figure::Paths => 6,
        Figure::FewTensors | Figure::SmallLoad | Figure::LargeLoad => 7,
        Figure::Crossover | Figure::Table | Figure::Pinned => 9,
        Figure::Slab | Figure::Reads => 10,
    }
}

/// Draws the screen.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let airy = h >= 26;
    let mut y = u16::from(airy);
    let say = |status, text: String| Headline { status, text };
    let lesson = match &ui.screen.lesson {
        Some(Ok(lesson)) => lesson,
        Some(Err(error)) => {
            let model_loads = say(Status::Fail, format!("The lesson's recordings cannot be read: {error}"));
            headline::draw(&mut pen.part(0, y, w, 3), &model_loads, theme);
            return;
        }
        None => {
            let model_loads = say(Status::Info, "Reading the recorded loads …".to_owned());
            headline::draw(&mut pen.part(0, y, w, 3), &model_loads, theme);
            return;
        }
    };
    let number = ui.screen.step.min(STEPS - 1);
    let step = step(lesson, number);
    // The question of the screen comes first, if the line has space for it.
    let question = if pen.width() >= 80 { "Why can GDS be slower on a small model?  " } else { "" };
    let title = say(Status::Info, format!("{question}{} of {STEPS}: {}", number + 1, step.title));
    y += headline::draw(&mut pen.part(0, y, w, 2), &title, theme);
    y += u16::from(airy);
    let rest = h.saturating_sub(y);
    let simulated = if rest >= 20 { 7 } else { 0 };
    let body = rest - simulated;
    let words = words(&step, state, ui);
    if !ui.ctx.narrow && !ui.ctx.small {
        let left = (w * 2 / 5).max(36);
        let most = text(&mut pen.part(0, y, left, body), &words, (number, ui.screen.scroll.at()), theme);
        figure(&mut pen.part(left, y, w - left, body), &step, lesson, ui, theme);
        if simulated > 0 {
            simulation(&mut pen.part(0, y + body, w, simulated), lesson, ui, theme);
        }
        ui.screen.scroll.drawn(most);
        return;
    }
    let mut most = 0;
    match ui.screen.pane % 3 {
        0 => {
            // If the text leaves enough space, its figure is below it.
            let needs = |gap| wrapped(&words, w.saturating_sub(6), gap).len() as u16 + 2;
            let fits = |upper: &u16| upper + least_rows(step.figure) <= rest;
            let upper = [needs(true) + 1, needs(true), needs(false)].into_iter().find(fits).unwrap_or(rest);
            most = text(&mut pen.part(0, y, w, upper), &words, (number, ui.screen.scroll.at()), theme);
            if upper < rest {
                figure(&mut pen.part(0, y + upper, w, rest - upper), &step, lesson, ui, theme);
            }
        }
        1 => figure(&mut pen.part(0, y, w, rest), &step, lesson, ui, theme),
        _ => simulation(&mut pen.part(0, y, w, rest), lesson, ui, theme),
    }
    // Another key press shows the next pane.
    let next = ["the figure", "the simulation", "the words"][ui.screen.pane % 3];
    let hint = [(format!(" {} ", ui.ctx.keys.key_of(Action::NextPane)), theme.accent), (format!("{next} "), theme.dim)];
    let x = w.saturating_sub(runs_width(&hint) as u16 + 2);
    pen.runs(x, y + rest.saturating_sub(1), &hint);
    ui.screen.scroll.drawn(most);
}

/// The text of a step, and the result of this session for the same subject.
fn words(step: &Step, state: &State, ui: &Ui<'_>) -> Vec<String> {
    let mut words = step.text.clone();
    words.extend(step.at_the_keys.map(str::to_owned));
    if ui.ctx.replay {
        return words;
    }
    if let Some(here) = measured_here(state, ui.screen.measured.as_ref()) {
        let stops = if state.running_lane().is_some() { " c stops it." } else { "" };
        words.insert(0, format!("{here}{stops}"));
    } else if let Some(writes) = written_first(state) {
        words.insert(0, format!("Key {} measures here. It first {writes}.", ui.ctx.keys.key_of(Action::Measure)));
    }
    words
}

/// Draws the figure of a step for a page, with the simulation if the step uses it.
pub(crate) fn page(pen: &mut Pen<'_>, step: &Step, lesson: &Lesson, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let simulated = if step.figure == Figure::SmallLoad { 7 } else { 0 };
    figure(&mut pen.part(0, 0, w, h.saturating_sub(simulated)), step, lesson, ui, theme);
    if simulated > 0 {
        simulation(&mut pen.part(0, h.saturating_sub(simulated), w, simulated), lesson, ui, theme);
    }
}

/// Paragraphs as lines of `room` columns, with or without empty lines between them.
fn wrapped(words: &[String], room: u16, gap: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in words {
        if gap && !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(wrap(paragraph, room));
    }
    lines
}

/// Draws the text of a step from line `scroll`. Returns the maximum scroll position.
fn text(pen: &mut Pen<'_>, words: &[String], (number, scroll): (usize, usize), theme: &Theme) -> usize {
    let dots: String = (0..STEPS).map(|i| if i <= number { '●' } else { '○' }).collect();
    let mut inside = pen.frame(&[(dots, theme.accent)], theme.faint);
    let (w, h) = (inside.width(), inside.height());
    let room = w.saturating_sub(4);
    let spaced = wrapped(words, room, true);
    let shown = if spaced.len() > usize::from(h) { wrapped(words, room, false) } else { spaced };
    let top = u16::from(shown.len() + 2 <= usize::from(h));
    let lines: Vec<Vec<Run>> = shown.into_iter().map(|line| vec![(line, theme.text)]).collect();
    sheet::text(&mut inside.part(2, top, w.saturating_sub(2), h.saturating_sub(top)), &lines, scroll, theme)
}

fn figure(pen: &mut Pen<'_>, step: &Step, lesson: &Lesson, ui: &Ui<'_>, theme: &Theme) {
    let each = Engine::GdsPerTensor;
    match step.figure {
        Figure::Paths => {
            let (w, h) = (pen.width(), pen.height());
            let upper = if h >= 30 { 20 } else { h };
            paths(&mut pen.part(0, 0, w, upper), theme);
            // The time of each path in the recordings, if there is space for it.
            if upper < h {
                table(&mut pen.part(0, upper, w, h - upper), &both(lesson), ui, theme);
            }
        }
        Figure::FewTensors => {
            let Some(load) = lesson.small.load(&each) else { return };
            slots(pen, &lesson.small, &[(load, timeline::few_tensors(&load.spans, 6))], ui, theme);
        }
        Figure::SmallLoad => complete(pen, &lesson.small, &[&each], ui, theme),
        Figure::LargeLoad => complete(pen, &lesson.large, &[&each], ui, theme),
        Figure::Slab | Figure::Reads => {
            let cold = |engine| lesson.small.load_in(engine, CacheState::Cold);
            together(pen, &lesson.small, [&each, &Engine::GdsSlab].into_iter().filter_map(cold).collect(), ui, theme);
        }
        // The model whose lines cross shows the crossover better.
        Figure::Crossover => {
            let crosses = [&lesson.small, &lesson.large]
                .into_iter()
                .find(|model_loads| model_loads.crossover_with_mmap().is_some());
            cross(pen, crosses.unwrap_or(&lesson.small), theme);
        }
        Figure::Table => table(pen, &both(lesson), ui, theme),
        Figure::Pinned => table(pen, &[&lesson.small, &lesson.small_1024, &lesson.large_usual], ui, theme),
    }
}

/// The loads of both models.
fn both(lesson: &Lesson) -> [&ModelLoads; 2] {
    [&lesson.small, &lesson.large]
}

fn paths(pen: &mut Pen<'_>, theme: &Theme) {
    let mut inside = pen.frame(&[("The paths of a byte".to_owned(), theme.strong)], theme.faint);
    let (w, h) = (inside.width(), inside.height());
    let cached = format!("{}, {}", Engine::Mmap, Engine::Pread);
    let odirect = Engine::Odirect.to_string();
    let drawings = [
        (cached.as_str(), "through the page cache, then copied", Route::Compat, "page cache"),
        (odirect.as_str(), "pinned host memory, no page cache", Route::Compat, "pinned ring"),
        ("cuFile, compat", "through host memory of the library", Route::Compat, "its buffers"),
        ("cuFile, direct", "nvidia-fs, P2PDMA or C2C: no host memory", Route::P2pdma, ""),
    ];
    let gap = if h >= 18 { 4 } else { 3 };
    for (i, (name, words, route, through)) in drawings.into_iter().enumerate() {
        if h < 12 {
            // Each path has one line, because the drawing replaces the words.
            let drawn = DrawnPath { route, gpu: true, through };
            let y = i as u16 * if h >= 7 { 2 } else { 1 };
            inside.text(2, y, name, theme.strong);
            path_drawing::draw_as(&mut inside.part(18, 0, w.saturating_sub(19), h), (0, y), &drawn, h >= 7, theme);
            continue;
        }
        let y = i as u16 * gap + 1;
        inside.text(2, y, name, theme.strong);
        inside.fit(20, y, w.saturating_sub(21), words, theme.dim);
        let drawn = DrawnPath { route, gpu: true, through };
        path_drawing::draw(&mut inside.part(2, y + 1, w.saturating_sub(4), 1), 0, 0, &drawn, theme);
    }
}

/// Draws the complete loads of some engines above each other, with a common time scale.
fn complete(pen: &mut Pen<'_>, model_loads: &ModelLoads, engines: &[&Engine], ui: &Ui<'_>, theme: &Theme) {
    together(pen, model_loads, engines.iter().filter_map(|engine| model_loads.load(engine)).collect(), ui, theme);
}

fn together(pen: &mut Pen<'_>, model_loads: &ModelLoads, loads: Vec<&Load>, ui: &Ui<'_>, theme: &Theme) {
    let longest = loads.iter().map(|l| l.wall_ns).max().unwrap_or(0);
    let rows: Vec<(&Load, (u64, u64))> = loads.into_iter().map(|load| (load, (0, longest))).collect();
    slots(pen, model_loads, &rows, ui, theme);
}

/// Draws timelines of loads, with a bar of their phases below each.
fn slots(pen: &mut Pen<'_>, model_loads: &ModelLoads, loads: &[(&Load, (u64, u64))], ui: &Ui<'_>, theme: &Theme) {
    let title = [
        (model_loads.model.clone(), theme.strong),
        ("  each row is a slot, recorded on an H200".to_owned(), theme.dim),
    ];
    let mut inside = pen.frame(&title, theme.faint);
    let (w, h) = (inside.width(), inside.height());
    let each = (h.saturating_sub(2)) / (loads.len().max(1) as u16);
    let longest = loads.iter().map(|(l, _)| l.wall_ns).max().unwrap_or(1);
    for (i, (load, window)) in loads.iter().enumerate() {
        let y = i as u16 * each;
        let name = [
            (format!("{} ", theme.marker(&load.engine)), theme.lane(&load.engine)),
            (load.engine.to_string(), theme.strong),
            (
                format!(
                    "  {}, {} (n = {}), {} reads, {}",
                    load.cache,
                    duration(load.wall_ns),
                    load.runs,
                    load.count(Phase::Transfer),
                    match load.count(Phase::RegisterBuffer) {
                        1 => "1 registration".to_owned(),
                        n => format!("{n} registrations"),
                    }
                ),
                theme.dim,
            ),
        ];
        inside.runs(1, y, &name);
        // If there are only a few rows, the bar of phases is not drawn and the slots use its space.
        let rows = each.saturating_sub(if each >= 6 { 4 } else { 1 }).clamp(2, 17);
        let mut page = inside.part(1, y + 1, w.saturating_sub(2), rows);
        let used = timeline::draw(&mut page, &load.spans, *window, ui.screen.at, theme);
        if each >= 6 {
            bars::phases(&mut inside, 1, y + used + 1, w.saturating_sub(2), &load.phases, longest, theme);
        }
        let below = y + used + 3;
        if loads.len() == 1 && below + 5 < h {
            by_phase(&mut inside.part(1, below, w.saturating_sub(2), h - below - 2), model_loads, load, theme);
        }
    }
    let times: Vec<_> = loads.iter().map(|(l, _)| l.phases).collect();
    let legend = bars::phase_legend(&times, w.saturating_sub(2), theme);
    for (y, line) in (h.saturating_sub(legend.len() as u16)..).zip(&legend) {
        inside.runs(1, y, line);
    }
}

/// Draws the mean time of each phase per tensor, with a bar for its share.
fn by_phase(pen: &mut Pen<'_>, model_loads: &ModelLoads, load: &Load, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let total = load.phases.total_ns().max(1) as f64;
    pen.text(0, 0, &format!("a tensor of {} on average", bytes(model_loads.mean_bytes())), theme.dim);
    let shown = load.phases.iter().filter(|(_, ns)| *ns as f64 / total >= 0.005);
    for ((phase, ns), y) in shown.zip(1..h) {
        let spans = load.spans.iter().filter(|s| s.phase == phase);
        let sum = spans.fold(0_u64, |sum, span| sum.saturating_add(span.duration_ns()));
        let each = if sum > 0 { duration(sum / model_loads.tensors.max(1)) } else { "–".to_owned() };
        let (style, fill) = theme.phase(phase);
        pen.text(0, y, title(phase), theme.text);
        pen.right(26, y, &each, theme.strong);
        pen.right(32, y, &percent(ns as f64 / total), theme.dim);
        bars::bar(pen, 34, y, w.saturating_sub(34), ns as f64 / total, (fill, style), (' ', theme.faint));
    }
}

fn cross(pen: &mut Pen<'_>, model_loads: &ModelLoads, theme: &Theme) {
    let engines = [Engine::Mmap, Engine::GdsPerTensor];
    let mut title = vec![(format!("{}  ", model_loads.model), theme.strong)];
    for engine in &engines {
        title.push((format!("{} ", theme.marker(engine)), theme.lane(engine)));
        title.push((format!("{engine}  "), theme.text));
    }
    title.push(("size and time on the clock".to_owned(), theme.dim));
    let mut inside = pen.frame(&title, theme.faint);
    let loads: Vec<&Load> = engines.iter().filter_map(|e| model_loads.load(e)).collect();
    let lines: Vec<_> =
        loads.iter().map(|l| l.cost.as_ref().map(|cost| |size: u64| cost.fit.tensor_ns(size))).collect();
    let clouds: Vec<Cloud<'_>> = loads
        .iter()
        .zip(&lines)
        .map(|(load, line)| Cloud {
            points: &load.points,
            line: line.as_ref().map(|line| line as &dyn Fn(u64) -> f64),
            style: theme.lane(&load.engine),
            marker: theme.marker(&load.engine),
            slots: load.cost.as_ref().map_or(1.0, |cost| cost.parallelism),
        })
        .collect();
    let mark = model_loads.crossover_with_mmap().map(|size| (size, format!("even at {}", bytes(size))));
    scatter::draw(&mut inside, &clouds, mark, theme);
}

/// Minimum width of a column with a time and its star, in columns of the terminal.
const LEAST_TIME: u16 = 10;

/// Draws a table of all loads of both models, and of the model that was measured here.
fn table(pen: &mut Pen<'_>, models: &[&ModelLoads], ui: &Ui<'_>, theme: &Theme) {
    let mut inside = pen.frame(&[("Median times".to_owned(), theme.strong)], theme.faint);
    let model_loads: Vec<&ModelLoads> = models.iter().copied().chain(ui.screen.measured.as_ref()).collect();
    let (w, h) = (inside.width(), inside.height());
    // The columns: one for each model and cache state, as many as fit.
    let states = |model_loads: &ModelLoads| {
        let has = |cache: &CacheState| model_loads.loads.iter().any(|load| load.cache == *cache);
        [CacheState::Cold, CacheState::Hot].into_iter().filter(has).collect::<Vec<_>>()
    };
    let mut columns: Vec<(&ModelLoads, CacheState)> = model_loads
        .iter()
        .flat_map(|model_loads| states(model_loads).into_iter().map(move |cache| (*model_loads, cache)))
        .collect();
    columns.truncate(usize::from(w.saturating_sub(19) / LEAST_TIME).max(1));
    let room = w.saturating_sub(20) / columns.len().max(1) as u16;
    let mut before: Option<&ModelLoads> = None;
    for (i, (model_loads, cache)) in columns.iter().enumerate() {
        let x = 18 + i as u16 * room;
        if before.is_none_or(|before| !std::ptr::eq(before, *model_loads)) {
            let own = columns.iter().filter(|(other, _)| std::ptr::eq(*other, *model_loads)).count() as u16;
            inside.fit(x + 2, 0, (room * own).saturating_sub(2), &model_loads.model, theme.strong);
        }
        before = Some(model_loads);
        inside.right(x + room, 1, &cache.to_string(), theme.faint_text());
    }
    let mut y = 2;
    for engine in Engine::named() {
        if !model_loads.iter().any(|t| t.loads.iter().any(|l| l.engine == *engine)) || y >= h {
            continue;
        }
        inside.cell(1, y, theme.marker(engine), theme.lane(engine));
        inside.text(3, y, &engine.to_string(), theme.text);
        for (i, (model_loads, cache)) in columns.iter().enumerate() {
            let x = 18 + (i as u16 + 1) * room;
            let load = model_loads.load_in(engine, *cache);
            let best = model_loads.fastest(*cache).is_some_and(|best| best.engine == *engine);
            let words = load.map_or_else(|| "–".to_owned(), |l| duration(l.wall_ns));
            let style = if best { theme.status(Status::Pass) } else { theme.text };
            inside.right(x, y, &words, style);
            if best {
                inside.cell(x.saturating_sub(words.chars().count() as u16 + 2), y, '★', style);
            }
        }
        y += 1;
    }
    inside.text(3, y + 1, "★ the fastest of its column", theme.dim);
    races(&mut inside.part(0, y + 3, w, h.saturating_sub(y + 3)), &model_loads, theme);
}

/// Draws the times of the table as bars. Each model and cache state has a separate scale. As many as fit are drawn.
fn races(pen: &mut Pen<'_>, model_loads: &[&ModelLoads], theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let columns = w.saturating_sub(18 + 12);
    let mut y = 0;
    let pairs =
        model_loads.iter().flat_map(|model_loads| [(*model_loads, CacheState::Hot), (*model_loads, CacheState::Cold)]);
    for (model_loads, cache) in pairs {
        let mut loads: Vec<&Load> = model_loads.loads.iter().filter(|load| load.cache == cache).collect();
        loads.sort_by_key(|load| load.wall_ns);
        let slowest = loads.last().map_or(0, |load| load.wall_ns);
        if columns < 8 || loads.is_empty() || y + 1 + loads.len() as u16 > h {
            continue;
        }
        pen.text(1, y, &format!("{}, {}: time, shorter is better", model_loads.model, cache), theme.dim);
        for (load, row) in loads.iter().zip(y + 1..) {
            pen.cell(1, row, theme.marker(&load.engine), theme.lane(&load.engine));
            pen.text(3, row, &load.engine.to_string(), theme.text);
            let share = load.wall_ns as f64 / slowest.max(1) as f64;
            bars::bar(pen, 18, row, columns, share, ('▆', theme.lane(&load.engine)), (' ', theme.faint));
            pen.right(w.saturating_sub(1), row, &duration(load.wall_ns), theme.text);
        }
        y += loads.len() as u16 + 2;
    }
}

/// Draws the simulation below its sliders. It is computed from an overhead, a size and the recorded rate, and it is
/// marked as not measured.
fn simulation(pen: &mut Pen<'_>, lesson: &Lesson, ui: &Ui<'_>, theme: &Theme) {
    let title: [Run; 2] = [
        ("SIMULATION".to_owned(), theme.status(Status::Warn)),
        (
            if pen.width() < 90 {
                format!("  arithmetic for {}, not measured", lesson.small.model)
            } else {
                format!(
                    "  computed for {}, not measured: time = tensors × overhead / slots + bytes / rate",
                    lesson.small.model
                )
            },
            theme.dim,
        ),
    ];
    let mut inside = pen.frame(&title, theme.faint);
    let w = inside.width();
    let model_loads = &lesson.small;
    let Some(cost) = model_loads.load(&Engine::GdsPerTensor).and_then(|load| load.cost.as_ref()) else {
        inside.text(2, 0, "The recording has no fitted rate for the simulation.", theme.dim);
        return;
    };
    let simulation = ui.screen.simulation;
    let (slots, rate) = (cost.parallelism.round().max(1.0) as u64, cost.bytes_per_s());
    let sliders = [
        (
            "tensor size",
            format!(
                "{}, {} tensors",
                bytes(simulation.size_bytes()),
                count(model_loads.bytes.div_ceil(simulation.size_bytes()))
            ),
            simulation.size,
            Simulation::SIZES.len(),
        ),
        ("overhead per tensor", duration(simulation.cost_ns()), simulation.cost, Simulation::COSTS.len()),
    ];
    for (y, (name, value, at, all)) in sliders.into_iter().enumerate() {
        let chosen = ui.screen.slider == y;
        let y = y as u16;
        inside.cell(1, y, if chosen { '▸' } else { ' ' }, theme.accent);
        inside.text(3, y, name, if chosen { theme.strong } else { theme.text });
        for i in 0..all {
            let (glyph, style) = if i == at { ('◆', theme.accent) } else { ('─', theme.faint) };
            inside.cell(23 + i as u16 * 2, y, glyph, style);
            inside.cell(24 + i as u16 * 2, y, '─', theme.faint);
        }
        inside.text(23 + all as u16 * 2 + 2, y, &value, theme.strong);
    }
    let wall = simulation.wall_ns(model_loads.bytes, rate, slots);
    let measured = model_loads.load(&Engine::GdsPerTensor).map_or(wall, |l| l.wall_ns as f64);
    let mmap = model_loads.load(&Engine::Mmap).map_or(0.0, |l| l.wall_ns as f64);
    let scale = wall.max(measured).max(mmap).max(1.0);
    // The bars leave space for their names on the left and their values on the right.
    let (x, by_tensor) = if w < 70 { (20, "recorded, GDS") } else { (30, "recorded tensor by tensor") };
    let bar_room = w.saturating_sub(x + 30).max(8);
    let share = simulation.overhead(model_loads.bytes, rate, slots);
    let columns = |ns: f64| (ns / scale * f64::from(bar_room)).round() as u16;
    let (paid, moving) = (columns(wall * share), columns(wall * (1.0 - share)));
    let lines = [("simulated", wall, Some(share)), (by_tensor, measured, None), ("recorded mmap", mmap, None)];
    for (i, (name, ns, share)) in lines.into_iter().enumerate() {
        let y = i as u16 + 2;
        inside.text(3, y, name, theme.text);
        let end = if let Some(share) = share {
            let (cost_style, cost_fill) = theme.phase(Phase::RegisterBuffer);
            let (move_style, move_fill) = theme.phase(Phase::Transfer);
            (0..paid).for_each(|c| inside.cell(x + c, y, cost_fill, cost_style));
            (0..moving).for_each(|c| inside.cell(x + paid + c, y, move_fill, move_style));
            inside.text(
                x + paid + moving + 1,
                y,
                &format!("{}, {:.0} % overhead", duration(ns as u64), share * 100.0),
                theme.text,
            )
        } else {
            (0..columns(ns)).for_each(|c| inside.cell(x + c, y, '▆', theme.dim));
            inside.text(x + columns(ns) + 1, y, &duration(ns as u64), theme.text)
        };
        let _ = end;
    }
}
