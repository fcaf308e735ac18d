//! The report as one HTML file that needs nothing else: no script, no font, no picture from outside; light and dark by the reader's setting.

use super::charts::{Axis, Bar, Scale, Series, bars, chart, lane_colour, legend, markup};
use super::cost;
use super::document::{Document, LaneReport};
use super::words::{check_counts, gaps, headlines, race_sentence, routes_words, unnamed_library};
use super::workload::Table;
use crate::analysis::bytes_per_bucket;
use crate::domain::{CacheState, Metric, Status, units};
use crate::session::State;
use std::fmt::Write;

/// Points of a line, about two a column of a wide screen.
const BUCKETS: usize = 240;
/// Dots of a scatter beyond which every so many are drawn: a page must stay small.
const MOST_DOTS: usize = 1500;

/// The page. Everything that comes from files or from the machine is escaped.
#[must_use]
pub fn html(state: &State) -> String {
    let document = Document::new(state);
    let mut page = String::with_capacity(64 << 10);
    page.push_str(include_str!("head.html"));
    page.push_str(include_str!("report.css"));
    page.push_str("</style></head><body>\n<h1>gds-top report</h1>\n<section class=\"answers\">");
    let answers = headlines(state);
    if answers.is_empty() {
        page.push_str("<p>Nothing was checked and nothing was run.</p>");
    }
    for answer in answers {
        let _ = write!(page, "<p>{}</p>", markup(&answer));
    }
    page.push_str("</section>\n");
    machine(&mut page, state);
    results(&mut page, &document);
    workload(&mut page, state);
    if let Some(grid) = &state.grid {
        super::grid::html(&mut page, grid);
    }
    let earlier = super::earlier::lines(state);
    if !earlier.is_empty() {
        page.push_str("<h2>Before it in the same session</h2>\n<ul>");
        for line in earlier {
            let _ = write!(page, "<li>{}</li>", markup(&line));
        }
        page.push_str("</ul>\n");
    }
    over_time(&mut page, &document);
    memory(&mut page, &document);
    tensors(&mut page, &document);
    tables(&mut page, super::setup::of(&document, true));
    if document.lessons().next().is_some() {
        page.push_str("<h2>Advice</h2><ul>");
        document.lessons().for_each(|a| {
            let _ = write!(page, "<li>{}</li>", markup(&a.text));
        });
        page.push_str("</ul>\n");
    }
    checks(&mut page, state);
    let gaps = gaps(state);
    if !gaps.is_empty() {
        page.push_str("<h2>What could not be measured, and notes</h2><ul>");
        gaps.iter().for_each(|g| {
            let _ = write!(page, "<li>{}</li>", markup(g));
        });
        page.push_str("</ul>\n");
    }
    let _ = writeln!(
        page,
        "<footer>Made by {}. Sizes in binary units, rates in decimal units.</footer></body></html>",
        markup(&state.tool)
    );
    page
}

fn row(page: &mut String, name: &str, value: &str) {
    let _ = write!(page, "<tr><th>{name}</th><td>{}</td></tr>", markup(value));
}

fn machine(page: &mut String, state: &State) {
    let Some(m) = &state.machine else { return };
    page.push_str("<div class=\"card\"><table>");
    let (cpus, memory) = m.size();
    row(page, "Host", &format!("{} · {} · kernel {} · {cpus} · {memory}", m.host, m.distribution, m.kernel));
    let gpus: Vec<String> = m.gpus.iter().map(|g| g.name.clone()).collect();
    row(page, "GPU", &if gpus.is_empty() { "none: loads land in host memory".to_owned() } else { gpus.join(", ") });
    let or_none = |v: &Option<String>| v.clone().unwrap_or_else(|| "not seen".to_owned());
    row(page, "Driver", &format!("{} · CUDA {}", or_none(&m.driver), or_none(&m.cuda)));
    let libcufile =
        m.libcufile.as_ref().map(|l| format!("{} ({})", l.version.as_deref().unwrap_or("version unknown"), l.path));
    row(page, "libcufile", libcufile.as_deref().unwrap_or_else(|| unnamed_library(state).1));
    if let Some(model) = &state.model {
        let text = format!(
            "{} · {} tensors · {}",
            model.name,
            units::count(model.tensors.len() as u64),
            units::bytes(super::document::model_bytes(model))
        );
        row(page, "Model", &text);
    }
    page.push_str("</table></div>\n");
}

fn results(page: &mut String, document: &Document<'_>) {
    let inks = document.inks();
    for comparison in &document.comparisons {
        let title = format!("{}, {} cache, {}", comparison.model, comparison.cache, comparison.target);
        let _ = write!(page, "<h2>{}</h2><p class=\"dim\">{}</p>", markup(&title), markup(&race_sentence(comparison)));
        let drawn: Vec<Bar> = comparison
            .standings
            .iter()
            .map(|s| Bar {
                name: s.engine.to_string(),
                colour: lane_colour(&inks, &s.engine),
                wall_ns: s.wall_ns,
                note: format!("{} · {}", units::duration(s.wall_ns), s.rate_words()),
                phases: document.run_of(comparison, &s.engine).map(|r| r.phases).unwrap_or_default(),
            })
            .collect();
        if let Some(svg) = bars(&title, &drawn) {
            let _ = write!(page, "<figure class=\"card\">{svg}</figure>");
        }
        page.push_str("<div class=\"card\"><table><tr><th>engine<th class=\"n\">time<th class=\"n\">rate<th class=\"n\">ratio<th>verified<th class=\"n\">host peak<th class=\"n\">own pinned<th>route<th class=\"n\">runs</tr>");
        for s in &comparison.standings {
            let (class, mark) = match s.verified {
                Some(true) => ("pass", "✔ "),
                Some(false) => ("fail", "✖ "),
                None => ("na", ""),
            };
            let verified = format!("{mark}{}", s.verified_words());
            let run = document.run_of(comparison, &s.engine);
            let peak = |bytes: Option<u64>| bytes.map_or("–".to_owned(), units::bytes);
            let _ = write!(
                page,
                "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"{class}\">{verified}<td class=\"n\">{}<td class=\"n\">{}<td>{}<td class=\"n\">{}</tr>",
                markup(&s.engine.to_string()),
                units::duration(s.wall_ns),
                s.rate_words(),
                s.ratio_words(),
                peak(run.and_then(|r| r.host_peak_bytes)),
                peak(run.and_then(|r| r.pinned_peak_bytes)),
                markup(&routes_words(&document.runs_of(comparison, &s.engine))),
                if s.failed > 0 { format!("{} ({} failed)", s.runs, s.failed) } else { s.runs.to_string() }
            );
        }
        page.push_str("</table></div>\n");
    }
    groups(page, document);
    let ceilings = super::ceiling_words(document.state);
    if !ceilings.is_empty() {
        page.push_str("<h2>Ceilings measured in this session</h2><div class=\"card\"><ul>");
        ceilings.iter().for_each(|words| page.push_str(&format!("<li>{}", markup(words))));
        page.push_str("</ul></div>\n");
    }
    for lane in document.lanes.iter().filter(|l| l.error().is_some()) {
        let name = format!(
            "{} ({}, repeat {}) failed: {}",
            lane.lane.engine,
            lane.lane.cache,
            lane.lane.repeat,
            lane.error().unwrap_or_default()
        );
        let _ = write!(page, "<p class=\"fail\">✖ {}</p>", markup(&name));
        if let Some(words) = lane.lane.last_words.as_deref().filter(|w| !w.trim().is_empty()) {
            let _ = write!(page, "<p class=\"dim\">Its last words: {}</p>", markup(words));
        }
    }
}

/// What ran together.
fn groups(page: &mut String, document: &Document<'_>) {
    for group in super::group_tables(document.state) {
        let class = |right: &bool| if *right { " class=\"n\"" } else { "" };
        let (title, sentence) = (markup(&group.title), markup(&group.sentence));
        let _ = write!(page, "<h2>{title}</h2><p class=\"dim\">{sentence}</p><div class=\"card\"><table><tr>");
        for (head, right) in group.head.iter().zip(&group.right) {
            let _ = write!(page, "<th{}>{}", class(right), markup(head));
        }
        page.push_str("</tr>");
        for row in &group.rows {
            page.push_str("<tr>");
            for (cell, right) in row.iter().zip(&group.right) {
                let _ = write!(page, "<td{}>{}", class(right), markup(cell));
            }
            page.push_str("</tr>");
        }
        page.push_str("</table></div>\n");
    }
}

fn workload(page: &mut String, state: &State) {
    tables(page, super::workload::tables(state));
    super::layers::html(page, state);
}

fn tables(page: &mut String, tables: Vec<Table>) {
    for table in tables {
        let _ = write!(
            page,
            "<h2>{}</h2><p class=\"dim\">{}</p><div class=\"card\"><table><tr>",
            table.title,
            markup(&table.says)
        );
        let class = |right: Option<&bool>| if right == Some(&true) { " class=\"n\"" } else { "" };
        for (head, right) in table.head.iter().zip(&table.right) {
            let _ = write!(page, "<th{}>{}", class(Some(right)), markup(head));
        }
        page.push_str("</tr>");
        for row in &table.rows {
            page.push_str("<tr>");
            for (at, cell) in row.iter().enumerate() {
                let _ = write!(page, "<td{}>{}", class(table.right.get(at)), markup(cell));
            }
            page.push_str("</tr>");
        }
        page.push_str("</table></div>\n");
    }
}

/// One good lane for each engine, model and cache state: of parts and of models together the first speaks for all.
fn shown<'d, 'a>(document: &'d Document<'a>) -> Vec<&'d LaneReport<'a>> {
    let mut shown: Vec<&LaneReport<'a>> = Vec::new();
    for lane in document.typical(|_| true) {
        let kind = |l: &LaneReport<'_>| (l.lane.engine.clone(), l.lane.cache, l.good().map(|r| r.model.clone()));
        if !shown.iter().any(|known| kind(known) == kind(lane)) {
            shown.push(lane);
        }
    }
    shown
}

fn label(document: &Document<'_>, lane: &LaneReport<'_>) -> String {
    let which = document.which(lane).map_or_else(String::new, |which| format!(", {which}"));
    format!("{} {}{which}", lane.lane.engine, lane.lane.cache)
}

fn dashed(lane: &LaneReport<'_>) -> bool {
    lane.lane.cache == CacheState::Cold
}

fn figure(page: &mut String, title: &str, caption: &str, series: &[Series], x: &Axis, y: &Axis, height: f64) {
    if let Some(svg) = chart(title, series, x, y, height) {
        let keys = legend(series);
        let _ = writeln!(
            page,
            "<h2>{}</h2><figure class=\"card\">{svg}<figcaption>{keys}<br>{}</figcaption></figure>",
            markup(title),
            markup(caption)
        );
    }
}

const SECONDS: Axis =
    Axis { name: "seconds since the clock started", scale: Scale::Linear, tick: |v| units::three_digits(v) };

/// A grey that belongs to no engine.
const CEILING_COLOUR: &str = "#888888";

fn over_time(page: &mut String, document: &Document<'_>) {
    let inks = document.inks();
    let series: Vec<Series> = shown(document)
        .into_iter()
        .filter_map(|lane| {
            let wall_ns = lane.good()?.wall_ns.max(1);
            let curve = bytes_per_bucket(&lane.lane.spans.unpack(), 0..wall_ns, BUCKETS);
            let seconds = wall_ns as f64 / 1e9 / BUCKETS as f64;
            let point = |(i, bytes): (usize, &u64)| Some(((i as f64 + 0.5) * seconds, *bytes as f64 / seconds / 1e9));
            (curve.iter().any(|b| *b > 0)).then(|| Series {
                label: label(document, lane),
                colour: lane_colour(&inks, &lane.lane.engine),
                points: curve.iter().enumerate().map(point).collect(),
                line: true,
                dashed: dashed(lane),
            })
        })
        .collect();
    let mut series = series;
    let end = series.iter().flat_map(|s| s.points.iter().flatten()).map(|(x, _)| *x).fold(0.0, f64::max);
    for lane in shown(document) {
        let Some(run) = lane.good() else { continue };
        let Some(ceiling) = document.state.ceiling(lane.lane.cache, &lane.lane.target, &run.model) else { continue };
        let label = format!("{} ceiling: {}", lane.lane.cache, ceiling.kind.words());
        if end > 0.0 && !series.iter().any(|s| s.label == label) {
            let level = ceiling.bytes_per_s / 1e9;
            let points = vec![Some((0.0, level)), Some((end, level))];
            series.push(Series { label, colour: CEILING_COLOUR.to_owned(), points, line: true, dashed: true });
        }
    }
    let rate = Axis { name: "GB/s", scale: Scale::Linear, tick: |v| units::three_digits(v) };
    figure(
        page,
        "Bandwidth, GB/s",
        "Bytes that landed on the target, told from the spans of the run with the median time. Cold runs are dashed.",
        &series,
        &SECONDS,
        &rate,
        300.0,
    );
}

fn memory(page: &mut String, document: &Document<'_>) {
    let inks = document.inks();
    let gib = |v: f64| v / (1_u64 << 30) as f64;
    let series: Vec<Series> = shown(document)
        .into_iter()
        .filter_map(|lane| {
            let clock_ns = lane.lane.clock_ns?;
            let points: Vec<Option<(f64, f64)>> = document
                .state
                .series(Metric::LaneRssBytes, Some(lane.lane.id))
                .filter(|(at, v)| *at >= clock_ns && v.is_finite())
                .map(|(at, v)| Some(((at - clock_ns) as f64 / 1e9, gib(v))))
                .collect();
            (points.len() > 1).then(|| Series {
                label: label(document, lane),
                colour: lane_colour(&inks, &lane.lane.engine),
                points,
                line: true,
                dashed: dashed(lane),
            })
        })
        .collect();
    let axis = Axis { name: "GiB", scale: Scale::Linear, tick: |v| units::three_digits(v) };
    figure(
        page,
        "Host memory, GiB",
        "Resident memory of the loading process. Cold runs are dashed.",
        &series,
        &SECONDS,
        &axis,
        240.0,
    );
}

fn tensors(page: &mut String, document: &Document<'_>) {
    let inks = document.inks();
    let costs = document.costs();
    let mut series = Vec::new();
    let every = costs.iter().map(|(l, _)| l.rows.len()).sum::<usize>().div_ceil(MOST_DOTS).max(1);
    for (lane, cost) in &costs {
        let dot = |r: &crate::analysis::TensorRow| Some((r.bytes as f64, r.busy_ns() as f64));
        let dots = lane.rows.iter().filter(|r| r.busy_ns() > 0).step_by(every).map(dot).collect();
        series.push(Series {
            label: String::new(),
            colour: lane_colour(&inks, &lane.lane.engine),
            points: dots,
            line: false,
            dashed: false,
        });
        let (low, high) = (cost.fit.sizes_bytes.0.max(1) as f64, cost.fit.sizes_bytes.1.max(1) as f64);
        let line = (0..=60)
            .map(|i| low * (high / low).powf(f64::from(i) / 60.0))
            .map(|bytes| Some((bytes, cost.fit.tensor_ns(bytes as u64))))
            .collect();
        let overhead = match cost.has_overhead() {
            true => format!("{} + ", units::duration(cost.fit.overhead_ns as u64)),
            false => String::new(),
        };
        let told = format!("{}: t = {overhead}bytes / {}", label(document, lane), units::rate(cost.fit.bytes_per_s));
        series.push(Series {
            label: told,
            colour: lane_colour(&inks, &lane.lane.engine),
            points: line,
            line: true,
            dashed: dashed(lane),
        });
    }
    let x = Axis { name: "size of the tensor", scale: Scale::Log, tick: |v| units::bytes(v as u64) };
    let y = Axis { name: "time", scale: Scale::Log, tick: |v| units::duration(v as u64) };
    let mut caption =
        "Time of each tensor on its slot (one of the engine's workers) against its size, with the line that was fitted to it; cold runs are dashed.".to_owned();
    if every > 1 {
        caption += &format!(" One dot in {every} is drawn.");
    }
    figure(page, "Size against time", &caption, &series, &x, &y, 380.0);
    tables(page, [cost::lines(document), cost::by_size(document)].into_iter().flatten().collect());
    let crossings = cost::crossings(document);
    if !crossings.is_empty() {
        page.push_str("<div class=\"card\"><ul>");
        crossings.iter().for_each(|told| page.push_str(&format!("<li>{}", markup(told))));
        page.push_str("</ul></div>\n");
    }
}

fn checks(page: &mut String, state: &State) {
    if state.checks.is_empty() {
        return;
    }
    let _ = write!(page, "<h2>Checks</h2><p class=\"dim\">{}</p>", markup(&check_counts(state)));
    for status in [Status::Fail, Status::Warn, Status::Info, Status::Na, Status::Pass] {
        let class = match status {
            Status::Pass => "pass",
            Status::Info => "info",
            Status::Warn => "warn",
            Status::Fail => "fail",
            Status::Na => "na",
        };
        for f in state.checks.iter().filter(|f| f.status == status) {
            let open = if status == Status::Fail { " open" } else { "" };
            let (mark, word) = (status.mark(), status.word());
            let _ = write!(
                page,
                "<details{open}><summary><span class=\"{class}\">{mark} {word}</span> <b>{}</b>: {}</summary>",
                markup(&f.id),
                markup(&f.summary)
            );
            for e in &f.evidence {
                let _ = write!(page, "<p class=\"dim\">Found: {}: {}</p>", markup(&e.source), markup(&e.text));
            }
            if !f.why.is_empty() {
                let _ = write!(page, "<p>{}</p>", markup(&f.why));
            }
            if let Some(fix) = &f.fix {
                let _ = write!(page, "<p>Fix: <code>gds-top fix {}</code></p>", markup(fix));
            } else if let Some(advice) = &f.advice {
                let _ = write!(page, "<p>{}</p>", markup(advice));
            }
            page.push_str("</details>");
        }
    }
    page.push('\n');
}
