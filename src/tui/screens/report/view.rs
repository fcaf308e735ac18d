//! Screen 6: what was found and measured, on one page, in the order of the exported report.

use crate::analysis::{grid_failures, grid_sentences};
use crate::domain::units::{self, bytes, count, duration, rate};
use crate::domain::{LogLevel, Machine, RunResult, Status};
use crate::session::{LaneStatus, State};
use crate::tui::app::UiState;
use crate::tui::entries::{Entry, heats};
use crate::tui::keymap::Action;
use crate::tui::pen::{Pen, Run, wrap};
use crate::tui::race_words;
use crate::tui::screens::environment::answer;
use crate::tui::screens::race::{charts, phases};
use crate::tui::theme::Theme;
use crate::tui::widgets::headline;
use crate::tui::widgets::sheet::{self, labelled};
use crate::tui::words::{self, Headline, cache_word, route_word};

type Lines = Vec<Vec<Run>>;

/// Columns from which there is room for a page and pictures.
const PICTURES_FROM: u16 = 170;

/// Draws the screen; returns how far it scrolls.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, ui: &UiState, theme: &Theme) -> usize {
    let (w, h) = (pen.width(), pen.height());
    let airy = h >= 26;
    let mut y = u16::from(airy);
    let lines = if airy { 4 } else { 3 };
    let answer = headline(state, ui, w.saturating_sub(6), lines);
    y += headline::draw(&mut pen.part(0, y, w, lines), &answer, theme);
    y += u16::from(airy);
    let rest = h.saturating_sub(y);
    // Beside the page, where there is room, the pictures that the exported report has too.
    let pictures = if w >= PICTURES_FROM && !state.lanes.is_empty() { w * 2 / 5 } else { 0 };
    if pictures > 0 {
        // Bars, a legend that may take two lines, and the border.
        let upper = (phases::rows(state, ui).max(2) + 4).min(rest / 2);
        let x = w - pictures;
        phases::pane(&mut pen.part(x, y, pictures, upper), state, ui, theme);
        charts::one(&mut pen.part(x, y + upper, pictures, rest - upper), state, ui, theme, 0);
    }
    let mut pane = pen.part(0, y, w - pictures, rest);
    let mut inside = pane.frame(&[("Report".to_owned(), theme.strong)], theme.faint);
    let room = inside.width().saturating_sub(6);
    let mut lines = Lines::new();
    machine(&mut lines, state, ui, room, theme);
    findings(&mut lines, (state, ui), room, theme);
    runs(&mut lines, state, room, theme);
    storage(&mut lines, state, room, theme);
    lessons(&mut lines, state, ui, room, theme);
    gaps(&mut lines, state, room, theme);
    section(&mut lines, "As files", theme);
    let mut words = String::new();
    if ui.can_export {
        let key = ui.keys.key_of(Action::Export);
        words = format!(
            "{key} writes this as JSON, Markdown, HTML, CSV and a trace into a new folder below the one that gds-top was started in. Without the screens: "
        );
    }
    words.push_str("gds-top --headless MODEL --export DIR, or gds-top report RECORDING --export DIR.");
    lines.extend(wrap(&words, room).into_iter().map(|line| vec![(line, theme.dim)]));
    let (w, h) = (inside.width(), inside.height());
    sheet::text(&mut inside.part(2, 0, w.saturating_sub(2), h), &lines, ui.report_scroll, theme)
}

/// The answer and what stands behind it in so many lines of `room` columns; where that is too much, the answer is told more briefly, at last alone.
fn headline(state: &State, ui: &UiState, room: u16, lines: u16) -> Headline {
    let done: Vec<&RunResult> =
        state.lanes.iter().filter(|l| l.status == LaneStatus::Done).filter_map(|l| l.result.as_deref()).collect();
    let failed = state.lanes.iter().filter(|l| matches!(l.status, LaneStatus::Failed(_))).count();
    let verified = done.iter().filter(|r| r.verified == Some(true)).count();
    let loads = match (done.len(), verified) {
        (0, _) => "no load has finished".to_owned(),
        (n, v) if n == v => format!("{} loaded, all bytes verified", times(n)),
        (n, v) => format!("{} loaded, {v} of them verified", times(n)),
    };
    let failures = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    let status = if failed > 0 { Status::Warn } else { Status::Info };
    // Which load won is what a reader wants first; how much stands behind it comes after.
    let route = state.verdicts.first().filter(|_| done.is_empty());
    let route = route.map(|verdict| words::environment(state, Some(verdict), ui));
    let status = route.as_ref().map_or(status, |route| route.status);
    let checks = match state.checks.len() {
        0 => "Nothing checked".to_owned(),
        1 => "One check".to_owned(),
        n => format!("{n} checks"),
    };
    let measured = state.grid.as_ref().filter(|_| state.lanes.is_empty());
    let behind = match measured {
        Some(grid) => format!("{checks}; {} of {} cells of the grid measured.", grid.done(), grid.plan.cells.len()),
        None => format!("{checks}; {loads}{failures}."),
    };
    let best = measured.and_then(|grid| grid_sentences(grid).into_iter().next());
    let text = match route {
        None if best.is_some() => format!("{} {behind}", best.unwrap_or_default()),
        Some(route) => format!("{} {behind}", route.text),
        None if done.is_empty() => behind,
        None => {
            let fits = |text: &String| wrap(text, room).len() <= usize::from(lines);
            let briefly = |lines: u16| race_words::race_in(state, ui.clock_ns, room, usize::from(lines)).text;
            let all = [race_words::race(state, ui.clock_ns).text, briefly(lines - 1), briefly(1)];
            let all = all.into_iter().map(|answer| format!("{answer} {behind}")).find(fits);
            all.unwrap_or_else(|| briefly(lines))
        }
    };
    Headline { status, text }
}

fn times(n: usize) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

fn section(lines: &mut Lines, name: &str, theme: &Theme) {
    if !lines.is_empty() {
        lines.push(Vec::new());
    }
    lines.push(vec![(name.to_owned(), theme.accent)]);
}

fn machine(lines: &mut Lines, state: &State, ui: &UiState, room: u16, theme: &Theme) {
    let Some(machine) = &state.machine else { return };
    section(lines, "Machine", theme);
    let cufile = match (words::unchecked(state, ui), state.runs().iter().any(|run| run.route.is_some())) {
        // Only the checks look for it; lanes find their own.
        (_, true) => "used by loads, which did not ask for its version",
        (true, false) => "not looked for",
        (false, false) => "no libcufile",
    };
    for (label, text) in machine_facts(machine, cufile) {
        lines.extend(labelled(label, &text, room, theme.dim, theme.text));
    }
}

fn machine_facts(machine: &Machine, unnamed_cufile: &str) -> Vec<(&'static str, String)> {
    let (cpus, memory) = machine.size();
    let mut facts = vec![
        ("Host", format!("{}, {}, Linux {}", machine.host, machine.distribution, machine.kernel)),
        ("Has", format!("{cpus}, {memory}")),
    ];
    for gpu in &machine.gpus {
        let memory = gpu.memory_total_bytes.map_or_else(String::new, |b| format!(", {}", bytes(b)));
        let link = match (gpu.pcie_generation, gpu.pcie_width) {
            (Some((_, generation)), Some((_, width))) => format!(", PCIe {generation}.0 ×{width}"),
            _ => String::new(),
        };
        facts.push(("GPU", format!("{} {}{memory}{link}, {}", gpu.index, gpu.name, gpu.pci_bus_id)));
    }
    if machine.gpus.is_empty() {
        facts.push(("GPU", "none".to_owned()));
    }
    let or_none = |version: Option<&String>| version.cloned().unwrap_or_else(|| "none".to_owned());
    facts.push((
        "Driver",
        match (&machine.driver, &machine.cuda) {
            (None, None) => "none".to_owned(),
            (driver, cuda) => format!("{}, CUDA {}", or_none(driver.as_ref()), or_none(cuda.as_ref())),
        },
    ));
    let cufile = machine.libcufile.as_ref();
    facts.push((
        "cuFile",
        cufile.map_or_else(
            || unnamed_cufile.to_owned(),
            |lib| format!("{} at {}", lib.version.as_deref().unwrap_or("version not told"), lib.path),
        ),
    ));
    facts.extend(machine.container.iter().map(|c| ("Inside", c.clone())));
    facts
}

fn findings(lines: &mut Lines, (state, ui): (&State, &UiState), room: u16, theme: &Theme) {
    if state.verdicts.is_empty() && state.checks.is_empty() {
        return;
    }
    section(lines, "Route", theme);
    // Where nothing was loaded, the answer about the only path is the headline already.
    let told = state.verdicts.len() == 1 && !state.lanes.iter().any(|lane| lane.status == LaneStatus::Done);
    for verdict in &state.verdicts {
        let mut answer = words::environment(state, Some(verdict), ui);
        if told {
            answer.text.clear();
        }
        for (i, line) in wrap(&answer.text, room.saturating_sub(2)).into_iter().enumerate() {
            let mark = if i == 0 { answer.status.mark() } else { ' ' };
            lines.push(vec![(format!("{mark} "), theme.status(answer.status)), (line, theme.text)]);
        }
        if !verdict.proof.is_empty() {
            let label = if verdict.proven { "proof: " } else { "no proof: " };
            lines.extend(
                wrap(&format!("{label}{}", verdict.proof), room.saturating_sub(2))
                    .into_iter()
                    .map(|line| vec![("  ".to_owned(), theme.dim), (line, theme.dim)]),
            );
        }
    }
    let mut wrong: Vec<_> = state.checks.iter().filter(|f| matches!(f.status, Status::Warn | Status::Fail)).collect();
    // What failed before what is only a warning; what another one causes after its cause.
    wrong.sort_by_key(|f| (f.status != Status::Fail, f.cause.is_some()));
    for finding in wrong {
        for (i, line) in
            wrap(&format!("{}: {}", finding.id, finding.summary), room.saturating_sub(2)).into_iter().enumerate()
        {
            let mark = if i == 0 { finding.status.mark() } else { ' ' };
            lines.push(vec![(format!("{mark} "), theme.status(finding.status)), (line, theme.text)]);
        }
        let remedy = answer::plan_for(state, finding).map(|plan| plan.title.clone()).or_else(|| finding.advice.clone());
        for (i, line) in wrap(&remedy.unwrap_or_default(), room.saturating_sub(4)).into_iter().enumerate() {
            let arrow = if i == 0 { "  → " } else { "    " };
            lines.push(vec![(arrow.to_owned(), theme.accent), (line, theme.dim)]);
        }
    }
}

fn runs(lines: &mut Lines, state: &State, room: u16, theme: &Theme) {
    let heats = heats(state);
    if heats.is_empty() {
        return;
    }
    section(lines, "Loads", theme);
    // What a workload's lane writes and what it reads differ by a word more.
    let named = if heats.iter().flat_map(|h| &h.entries).any(|e| e.engine.direction().is_some()) { 20 } else { 16 };
    let wide = room >= 76 + named;
    let name = usize::from(named);
    let head = format!("  {:<name$} {:<9}{:>4} {:>10} {:>10}", "engine", "cache", "n", "median", "rate");
    let more = if wide {
        format!(" {:>10} {:>10} {:>10}  {:<12}", "host peak", "pinned", "CPU", "route")
    } else {
        String::new()
    };
    lines.push(vec![(head + &more, theme.dim)]);
    for entry in heats.iter().flat_map(|h| &h.entries) {
        lines.push(run_line(entry, named, wide, theme));
    }
}

fn run_line(entry: &Entry<'_>, named: u16, wide: bool, theme: &Theme) -> Vec<Run> {
    let mark = (format!("{} ", theme.marker(entry.engine)), theme.lane(entry.engine));
    let engine = match entry.engine.direction() {
        Some(direction) => format!("{direction} {}", words::variant_name(entry.engine, named - 6)),
        None => words::short_engine(entry.engine, named),
    };
    let name = format!("{engine:<room$} {:<9}", cache_word(entry.cache), room = usize::from(named));
    let (Some(wall), Some(result)) = (entry.wall_ns(), entry.typical().and_then(|l| l.result.as_deref())) else {
        let (status, words) = match entry.failed() {
            Some((_, why)) => (Status::Fail, format!("failed: {why}")),
            None => (Status::Na, "not finished".to_owned()),
        };
        return vec![mark, (name, theme.text), (format!("   {words}"), theme.status(status))];
    };
    let size = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), bytes);
    // Of an even number of runs none is the median: the rate is that of the time beside it.
    let speed = units::bytes_per_s(result.bytes, wall).map_or_else(|| "–".to_owned(), rate);
    let mut text = format!("{name}{:>4} {:>10} {speed:>10}", entry.n(), duration(wall));
    if wide {
        let cpu = result.cpu_ns.map_or_else(|| "–".to_owned(), duration);
        let (host, pinned) = (size(result.host_peak_bytes), size(result.pinned_peak_bytes));
        let route = result.route.as_ref().map_or("–", |r| route_word(r.route));
        text.push_str(&format!(" {host:>10} {pinned:>10} {cpu:>10}  {route:<10}"));
    }
    let verified = if entry.verified() { Status::Pass } else { Status::Na };
    let word = if entry.verified() { "verified" } else { "not verified" };
    vec![mark, (text, theme.text), (format!("  {} {word}", verified.mark()), theme.status(verified))]
}

/// What the storage gave, in the sentences of its screen; the figures are there and in the exported report.
fn storage(lines: &mut Lines, state: &State, room: u16, theme: &Theme) {
    let Some(grid) = &state.grid else { return };
    section(lines, "Storage", theme);
    let words = format!("{}, into {}", grid.plan.dir.display(), grid.plan.target);
    lines.extend(wrap(&words, room).into_iter().map(|line| vec![(line, theme.dim)]));
    for said in grid_sentences(grid).iter().chain(&grid_failures(grid)) {
        lines.extend(bullet(said, room, theme));
    }
}

fn lessons(lines: &mut Lines, state: &State, ui: &UiState, room: u16, theme: &Theme) {
    let advice = ui.derived.advice();
    if advice.is_empty() {
        return;
    }
    section(lines, "What it teaches", theme);
    if let Some(model) = &state.model {
        let words =
            format!("{}: {} tensors, {}", model.name, count(model.tensors.len() as u64), bytes(model.tensor_bytes()));
        lines.push(vec![(words, theme.dim)]);
    }
    for advice in advice {
        lines.extend(bullet(&advice.text, room, theme));
    }
}

fn bullet(text: &str, room: u16, theme: &Theme) -> Lines {
    let mark = |i: usize| if i == 0 { "• ".to_owned() } else { "  ".to_owned() };
    wrap(text, room.saturating_sub(2))
        .into_iter()
        .enumerate()
        .map(|(i, line)| vec![(mark(i), theme.dim), (line, theme.text)])
        .collect()
}

/// What could not be run, measured or finished, and what engines wanted said.
fn gaps(lines: &mut Lines, state: &State, room: u16, theme: &Theme) {
    let mut said: Vec<String> =
        state.unavailable.iter().map(|(engine, why)| format!("{engine} cannot run here: {why}")).collect();
    for lane in &state.lanes {
        for note in lane.result.iter().flat_map(|r| &r.notes) {
            said.push(format!("{} ({}): {note}", lane.engine, cache_word(lane.cache)));
        }
    }
    said.extend(state.messages.iter().filter(|(_, level, _)| *level > LogLevel::Info).map(|(_, _, text)| text.clone()));
    let mut seen = std::collections::BTreeSet::new();
    said.retain(|text| seen.insert(text.clone()));
    if said.is_empty() {
        return;
    }
    section(lines, "To know", theme);
    for text in said {
        lines.extend(bullet(&text, room, theme));
    }
}
