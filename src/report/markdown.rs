//! The report as a page of Markdown that a person wants to read.

use super::cost;
use super::document::{Document, LaneReport, model_bytes};
use super::words::{check_counts, gaps, headlines, plain, race_sentence, routes_words, unnamed_library};
use super::workload::Table;
use crate::analysis::{cell_text, grid_failures, grid_tables};
use crate::domain::{Grid, PHASES, Phase, Status, units};
use crate::session::State;
use std::fmt::Write;

/// The page. Everything that comes from files or from the machine is escaped.
#[must_use]
pub fn markdown(state: &State) -> String {
    let document = Document::new(state);
    let mut page = Page(String::with_capacity(8 << 10));
    page.line("# gds-top report");
    page.blank();
    let answers = headlines(state);
    if answers.is_empty() {
        page.line("Nothing was checked and nothing was run.");
    }
    for answer in &answers {
        page.line(&format!("- **{}**", escape(answer)));
    }
    page.blank();
    machine(&mut page, state);
    results(&mut page, &document);
    workload(&mut page, state);
    if let Some(grid) = &state.grid {
        storage(&mut page, grid);
    }
    phases(&mut page, &document);
    tables(&mut page, super::setup::of(&document, true));
    cost(&mut page, &document);
    advice(&mut page, &document);
    findings(&mut page, state);
    not_measured(&mut page, state);
    let earlier = super::earlier::lines(state);
    if !earlier.is_empty() {
        page.line("## Before it in the same session");
        page.blank();
        earlier.iter().for_each(|line| page.line(&format!("- {}", escape(line))));
        page.blank();
    }
    page.line("---");
    let tool = if state.tool.is_empty() { "gds-top" } else { &state.tool };
    page.line(&format!(
        "Made by {}. Sizes in binary units, rates in decimal units; times run from 'context up, nothing pinned' to 'all tensors on the target'.",
        escape(tool)
    ));
    page.0
}

/// The grid of storage measurements, a table for each access and pattern; columns are transfer × threads.
fn storage(page: &mut Page, grid: &Grid) {
    page.line(&format!(
        "## Storage under {}, into {}, GB/s",
        escape(&grid.plan.dir.to_string_lossy()),
        escape(&grid.plan.target)
    ));
    page.blank();
    for table in grid_tables(grid) {
        page.line(&format!("### {}", table.title()));
        page.blank();
        let columns: Vec<String> = table.columns().map(|(transfer, n)| format!("{transfer} × {n}")).collect();
        page.line(&format!("| block | {} |", columns.join(" | ")));
        page.line(&format!("|---:|{}", "---:|".repeat(columns.len())));
        for block in &table.blocks {
            let cells: Vec<String> = table.columns().map(|c| cell_text(grid, &table.key(*block, c))).collect();
            page.line(&format!("| {} | {} |", units::bytes(*block), cells.join(" | ")));
        }
        page.blank();
    }
    for failure in grid_failures(grid) {
        page.line(&format!("- {}", escape(&failure)));
    }
    page.blank();
}

struct Page(String);

impl Page {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn blank(&mut self) {
        self.0.push('\n');
    }

    fn title(&mut self, text: &str) {
        self.line(&format!("## {text}"));
        self.blank();
    }

    /// A table whose columns are as wide as their widest cell, so that it reads well unrendered too. `right` marks columns of numbers.
    fn table(&mut self, head: &[&str], right: &[bool], rows: &[Vec<String>]) {
        let width = |i: usize| {
            let cells = rows.iter().filter_map(|r| r.get(i)).map(|c| unicode_width::UnicodeWidthStr::width(c.as_str()));
            cells.chain(head.get(i).map(|h| unicode_width::UnicodeWidthStr::width(*h))).max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let row = |cells: &[String]| {
            let mut line = String::from("|");
            for (i, width) in widths.iter().enumerate() {
                let cell = cells.get(i).map_or("", String::as_str);
                let space = " ".repeat(width.saturating_sub(unicode_width::UnicodeWidthStr::width(cell)));
                let (left, after) =
                    if right.get(i) == Some(&true) { (space.as_str(), "") } else { ("", space.as_str()) };
                let _ = write!(line, " {left}{cell}{after} |");
            }
            line
        };
        self.line(&row(&head.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>()));
        let rule: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(i, w)| if right.get(i) == Some(&true) { format!("{}:", "-".repeat(w - 1)) } else { "-".repeat(*w) })
            .collect();
        self.line(&row(&rule));
        for cells in rows {
            self.line(&row(cells));
        }
        self.blank();
    }
}

/// Text in which no character has a meaning of its own.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in plain(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

/// The call that applies a fix, as code where its id is one that a program would give.
fn command(fix: &str) -> String {
    let usual = fix.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if usual { format!("`gds-top fix {fix}`") } else { escape(&format!("gds-top fix {fix}")) }
}

fn machine(page: &mut Page, state: &State) {
    let Some(m) = &state.machine else { return };
    page.title("Machine");
    let (cpus, memory) = m.size();
    let mut rows = vec![
        ("Host", format!("{}, {cpus}, {memory}", escape(&m.host))),
        ("System", format!("{}, kernel {}", escape(&m.distribution), escape(&m.kernel))),
    ];
    if m.gpus.is_empty() {
        rows.push(("GPU", "none: loads land in host memory".to_owned()));
    }
    for gpu in &m.gpus {
        let memory = gpu.memory_total_bytes.map_or(String::new(), |b| format!(", {}", units::bytes(b)));
        rows.push(("GPU", format!("{} {}{memory}", gpu.index, escape(&gpu.name))));
    }
    let or_none = |value: &Option<String>| value.as_deref().map_or("not seen".to_owned(), escape);
    rows.push(("Driver", format!("{}, CUDA {}", or_none(&m.driver), or_none(&m.cuda))));
    rows.push((
        "libcufile",
        match &m.libcufile {
            Some(l) => {
                format!("{} ({})", l.version.as_deref().map_or("version unknown".to_owned(), escape), escape(&l.path))
            }
            None => unnamed_library(state).1.to_owned(),
        },
    ));
    rows.push((
        "nvidia-fs",
        match &m.nvidia_fs {
            Some(n) => n.version.as_deref().map_or("loaded, version unknown".to_owned(), escape),
            None => "not loaded".to_owned(),
        },
    ));
    if let Some(container) = &m.container {
        rows.push(("Container", escape(container)));
    }
    if let Some(model) = &state.model {
        let tensors = units::count(model.tensors.len() as u64);
        let (bytes, shards) = (units::bytes(model_bytes(model)), model.shards.len());
        let shards = if shards == 1 { "1 file".to_owned() } else { format!("{shards} files") };
        rows.push(("Model", format!("{}: {tensors} tensors, {bytes}, {shards}", escape(&model.name))));
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    page.table(&["", ""], &[], &rows);
}

fn results(page: &mut Page, document: &Document<'_>) {
    for comparison in &document.comparisons {
        page.title(&format!(
            "{} cache, {}, {}",
            cost::cache_name(comparison.cache),
            escape(&comparison.model),
            escape(&comparison.target)
        ));
        page.line(&escape(&race_sentence(comparison)));
        page.blank();
        let rows: Vec<Vec<String>> = comparison
            .standings
            .iter()
            .map(|s| {
                let run = document.run_of(comparison, &s.engine);
                let (low, high) = s.wall_range_ns;
                let range = if s.runs > 1 {
                    format!("{} – {}", units::duration(low), units::duration(high))
                } else {
                    "–".to_owned()
                };
                vec![
                    escape(&s.engine.to_string()),
                    units::duration(s.wall_ns),
                    range,
                    s.rate_words(),
                    s.ratio_words(),
                    match s.verified {
                        Some(true) => format!("✔ {}", s.verified_words()),
                        Some(false) => "✖ no".to_owned(),
                        None => s.verified_words().to_owned(),
                    },
                    peak(run.and_then(|r| r.host_peak_bytes)),
                    peak(run.and_then(|r| r.pinned_peak_bytes)),
                    escape(&routes_words(&document.runs_of(comparison, &s.engine))),
                    if s.failed > 0 {
                        format!("{} of {} failed", s.failed, s.failed + s.runs)
                    } else {
                        s.runs.to_string()
                    },
                ]
            })
            .collect();
        let right = [false, true, true, true, true, false, true, true, false, true];
        let head = ["engine", "time", "range", "rate", "ratio", "verified", "host peak", "own pinned", "route", "runs"];
        page.table(&head, &right, &rows);
    }
    for group in super::group_tables(document.state) {
        page.title(&escape(&group.title));
        page.line(&escape(&group.sentence));
        page.blank();
        let rows: Vec<Vec<String>> =
            group.rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
        page.table(&group.head, &group.right, &rows);
    }
    let ceilings = super::ceiling_words(document.state);
    if !ceilings.is_empty() {
        page.title("Ceilings measured in this session");
        ceilings.iter().for_each(|words| page.line(&format!("- {}", escape(words))));
        page.blank();
    }
    let failed: Vec<&LaneReport<'_>> = document.lanes.iter().filter(|l| l.error().is_some()).collect();
    if !failed.is_empty() {
        page.title("Runs that failed");
        for lane in failed {
            let (engine, l) = (escape(&lane.lane.engine.to_string()), lane.lane);
            page.line(&format!(
                "- {engine}, {}, repeat {}: {}",
                l.cache,
                l.repeat,
                escape(&lane.error().unwrap_or_default())
            ));
            if let Some(words) = l.last_words.as_deref().filter(|w| !w.trim().is_empty()) {
                page.line(&format!("  Its last words: {}", escape(words.trim())));
            }
        }
        page.blank();
    }
}

fn peak(bytes: Option<u64>) -> String {
    bytes.map_or("–".to_owned(), units::bytes)
}

fn workload(page: &mut Page, state: &State) {
    tables(page, super::workload::tables(state));
}

fn tables(page: &mut Page, tables: Vec<Table>) {
    for table in tables {
        page.title(table.title);
        page.line(&escape(&table.says));
        page.blank();
        let rows: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
        page.table(&table.head, &table.right, &rows);
    }
}

fn phases(page: &mut Page, document: &Document<'_>) {
    let lanes = document.typical(|_| true);
    let several = lanes.iter().any(|l| document.which(l).is_some());
    let seen: Vec<Phase> =
        PHASES.into_iter().filter(|p| lanes.iter().any(|l| l.good().is_some_and(|r| r.phases.get(*p) > 0))).collect();
    if seen.is_empty() {
        return;
    }
    page.title("Where the time went");
    page.line("Share of the wall time by phase, averaged over the slots (workers), of the run with the median time.");
    page.blank();
    let mut head = vec!["engine", "cache"];
    head.extend(several.then_some("load"));
    head.extend(["time", "slots"]);
    head.extend(seen.iter().map(|p| p.name()));
    let rows: Vec<Vec<String>> = lanes
        .iter()
        .filter_map(|l| Some((l, l.good()?)))
        .map(|(l, r)| {
            let mut row = vec![escape(&l.lane.engine.to_string()), l.lane.cache.to_string()];
            row.extend(several.then(|| escape(&document.which(l).unwrap_or_default())));
            row.extend([units::duration(r.wall_ns), r.slots.to_string()]);
            row.extend(seen.iter().map(|p| percent(r.phases.get(*p), r.wall_ns)));
            row
        })
        .collect();
    let mut right = vec![false; 2 + usize::from(several)];
    right.resize(head.len(), true);
    page.table(&head, &right, &rows);
}

fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) | (_, 0) => "–".to_owned(),
        _ => match part as f64 * 100.0 / whole as f64 {
            share if share < 0.05 => "< 0.1 %".to_owned(),
            share if share < 0.95 => format!("{share:.1} %"),
            share => format!("{share:.0} %"),
        },
    }
}

fn cost(page: &mut Page, document: &Document<'_>) {
    tables(page, [cost::lines(document), cost::by_size(document)].into_iter().flatten().collect());
    let crossings = cost::crossings(document);
    crossings.iter().for_each(|told| page.line(&format!("- {}", escape(told))));
    if !crossings.is_empty() {
        page.blank();
    }
}

fn advice(page: &mut Page, document: &Document<'_>) {
    if document.lessons().next().is_none() {
        return;
    }
    page.title("Advice");
    for advice in document.lessons() {
        page.line(&format!("- {}", escape(&advice.text)));
    }
    page.blank();
}

fn findings(page: &mut Page, state: &State) {
    if state.checks.is_empty() {
        return;
    }
    page.title("Checks");
    page.line(&format!("{}.", escape(&check_counts(state))));
    page.blank();
    // What fails comes first; what passes is only counted.
    for status in [Status::Fail, Status::Warn] {
        for f in state.checks.iter().filter(|f| f.status == status) {
            page.line(&format!(
                "- {} **{}** ({}): {}",
                status.mark(),
                escape(&f.id),
                f.group.title(),
                escape(&f.summary)
            ));
            for e in &f.evidence {
                page.line(&format!("  - found: {}: {}", escape(&e.source), escape(&e.text)));
            }
            if !f.why.is_empty() {
                page.line(&format!("  - why: {}", escape(&f.why)));
            }
            if !f.blocks.is_empty() {
                let routes: Vec<String> = f.blocks.iter().map(ToString::to_string).collect();
                page.line(&format!("  - blocks: {}", routes.join(", ")));
            }
            if let Some(fix) = &f.fix {
                page.line(&format!("  - fix: {}", command(fix)));
            } else if let Some(advice) = &f.advice {
                page.line(&format!("  - advice: {}", escape(advice)));
            }
        }
    }
    page.blank();
}

fn not_measured(page: &mut Page, state: &State) {
    let gaps = gaps(state);
    if gaps.is_empty() {
        return;
    }
    page.title("What could not be measured, and notes");
    for gap in gaps {
        page.line(&format!("- {}", escape(&gap)));
    }
    page.blank();
}
