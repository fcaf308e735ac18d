//! Tests that answers, verdicts and table cells are the same on the screens and in text, Markdown, HTML and JSON, for
//! every shipped recording.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "program/spread.rs"]
mod spread;

use gds_top::core::CacheState;
use gds_top::headless;
use gds_top::present::table::{COLUMNS, Column, columns};
use gds_top::present::view::GAP;
use gds_top::present::{Answer, comparisons, headline, verdict};
use gds_top::report;
use gds_top::session::{State, recording, replay};
use gds_top::tui::{OffScreen, ScreenId};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Each recording with its state and all output formats.
static ALL: LazyLock<Vec<(String, State, Forms)>> = LazyLock::new(|| {
    spread::spread(&recordings(), |path| {
        let state = state(path);
        let forms = Forms::of(path, &state);
        (path.display().to_string(), state, forms)
    })
});

fn state(path: &Path) -> State {
    let mut state = State::default();
    recording::read(path).unwrap().for_each(|event| state.reduce(&event.unwrap()));
    state
}

/// All recordings in these directories.
fn recordings() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("assets/recordings"), PathBuf::from("tests")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "gdsrec") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The words of a text with single spaces, because line breaks do not matter.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A screen after all jobs are done.
fn screen(screen: ScreenId, state: &State) -> String {
    let mut stage = OffScreen::new(screen, 400, 700);
    stage.frame(state);
    stage.settle();
    stage.frame(state);
    stage.text()
}

fn markdown(state: &State) -> String {
    let mut text = String::new();
    let mut chars = report::markdown(state).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    chars.retain(|c| c != '\r');
    let mut chars = chars.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.extend(chars.next()),
            // Bold text.
            '*' if chars.peek() == Some(&'*') => {
                chars.next();
            }
            c => text.push(c),
        }
    }
    text
}

/// The HTML page without its tags, which become line ends.
fn html(state: &State) -> String {
    let mut text = String::new();
    let mut tag = false;
    for c in report::html(state).chars() {
        match c {
            '<' => (tag, text) = (true, text + "\n"),
            '>' if tag => tag = false,
            c if !tag => text.push(c),
            _ => {}
        }
    }
    for (coded, plain) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")] {
        text = text.replace(coded, plain);
    }
    text
}

/// The standard output of a headless replay.
fn headless(path: &Path) -> String {
    let feed = replay::start(path, 0.0, replay::Options::default()).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let options = headless::Options { width: 240, ..headless::Options::default() };
    headless::run(&feed, &options, &mut out, &mut err);
    String::from_utf8(out).unwrap()
}

/// The texts of a state in every output format.
struct Forms {
    headless: String,
    text: String,
    markdown: String,
    html: String,
    json: serde_json::Value,
    report_screen: String,
    race_screen: String,
    environment_screen: String,
}

impl Forms {
    fn of(path: &Path, state: &State) -> Self {
        Self {
            headless: headless(path),
            text: report::text(state, 240, false),
            markdown: markdown(state),
            html: html(state),
            json: report::json(state)["summary"].clone(),
            report_screen: screen(ScreenId::Report, state),
            race_screen: screen(ScreenId::Race, state),
            environment_screen: screen(ScreenId::Environment, state),
        }
    }

    /// Checks that every format other than the screens contains the answer with its headline and conditions.
    fn has(&self, name: &str, answer: &Answer) {
        for (form, text) in
            [("headless", &self.headless), ("text", &self.text), ("Markdown", &self.markdown), ("HTML", &self.html)]
        {
            for part in [&answer.headline, &answer.conditions] {
                assert!(words(text).contains(&words(part)), "{name}: not in {form}: {part}\n{text}");
            }
        }
        let in_json = self.json["answers"].as_array().unwrap().iter().any(|told| {
            told["headline"] == answer.headline.as_str() && told["conditions"] == answer.conditions.as_str()
        });
        assert!(in_json, "{name}: not in JSON: {answer:?}");
    }
}

/// Whether a line contains these cells in order.
fn has_row(text: &str, cells: &[String]) -> bool {
    let in_order = |line: &str| {
        let mut rest = line;
        cells.iter().all(|cell| match rest.find(cell.replace('\u{a0}', " ").as_str()) {
            Some(at) => {
                rest = &rest[at + cell.replace('\u{a0}', " ").len()..];
                true
            }
            None => false,
        })
    };
    text.lines().any(|line| in_order(&line.replace('\u{a0}', " ")))
}

#[test]
fn answers_are_the_same_in_every_form() {
    for (name, state, forms) in &*ALL {
        for answer in headline::answers(state) {
            forms.has(name, &answer);
        }
        let shown = headline::winners(&comparisons(state));
        for answer in &shown {
            for (screen, text) in [("Race", &forms.race_screen), ("Report", &forms.report_screen)] {
                assert!(words(text).contains(&words(&answer.headline)), "{name}: not on {screen}: {answer:?}\n{text}");
            }
        }
        for (number, verdict) in state.verdicts.iter().enumerate() {
            let answer = verdict::answer(verdict);
            assert!(words(&forms.report_screen).contains(&words(&answer.headline)), "{name}: {answer:?}");
            assert!(
                number > 0 || words(&forms.environment_screen).contains(&words(&answer.text())),
                "{name}: {answer:?}"
            );
        }
        assert_eq!(forms.json["answers"].as_array().unwrap().len(), headline::answers(state).len(), "{name}");
    }
}

#[test]
fn results_tables_have_the_same_cells_in_every_form() {
    let mut tables = 0;
    for (name, state, forms) in &*ALL {
        let compared = comparisons(state);
        let told = forms.json["results"].as_array().unwrap();
        assert_eq!(told.len(), compared.len(), "{name}");
        for (comparison, in_json) in compared.iter().zip(told) {
            tables += 1;
            assert_eq!(in_json["title"], comparison.title(), "{name}");
            let rows = comparison.rows();
            // JSON has all columns. The report leaves out those without a value in any row.
            let has_value = |column: &&Column| rows.iter().any(|row| column.marked(row) != GAP);
            for (row, in_json) in rows.iter().zip(in_json["rows"].as_array().unwrap()) {
                let all: Vec<String> = COLUMNS.iter().map(|column| column.marked(row)).collect();
                assert_eq!(serde_json::json!(all), *in_json, "{name}");
                let cells: Vec<String> = COLUMNS.iter().filter(has_value).map(|column| column.marked(row)).collect();
                assert!(has_row(&forms.markdown, &cells), "{name}: not in Markdown: {cells:?}\n{}", forms.markdown);
                let lines = cells.join("\n").replace('\u{a0}', " ");
                assert!(forms.html.replace('\u{a0}', " ").contains(&lines), "{name}: not in HTML: {cells:?}");
                let short: Vec<String> = columns(false).map(|column: &Column| column.marked(row)).collect();
                for (form, text) in
                    [("headless", &forms.headless), ("text", &forms.text), ("the Report screen", &forms.report_screen)]
                {
                    assert!(has_row(text, &short), "{name}: not in {form}: {short:?}\n{text}");
                }
                let time = (gds_top::present::table::TIME.cell)(row);
                assert!(words(&forms.race_screen).contains(&time), "{name}: {time}\n{}", forms.race_screen);
            }
        }
    }
    assert!(tables > 20, "{tables}");
}

#[test]
fn the_documents_name_the_factor_of_odirect_with_a_hot_cache() {
    let path = "assets/recordings/h200-full-qwen3-0.6b.gdsrec";
    let (_, state, _) = ALL.iter().find(|(name, _, _)| name == path).unwrap();
    let compared = comparisons(state);
    let hot = compared.iter().find(|comparison| comparison.group.cache == CacheState::Hot).unwrap();
    let time = |name: &str| hot.group.engines.iter().find(|one| one.engine.to_string() == name).unwrap().wall_ns as f64;
    let factor = format!("{:.0} times", time("odirect") / time("auto"));
    for page in ["README.md", "docs/findings.md"] {
        assert!(std::fs::read_to_string(page).unwrap().contains(&factor), "{page}: {factor}");
    }
}

#[test]
fn headlines_have_at_most_twelve_words() {
    for (name, state, _) in &*ALL {
        for answer in headline::answers(state) {
            let count =
                answer.headline.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count();
            assert!(count <= 12, "{name}: {count}: {}", answer.headline);
        }
    }
}

#[test]
fn the_table_of_lines_has_each_line_of_the_figures() {
    use gds_top::present::{SessionAnalysis, cost, series};
    let mut lines = 0;
    for (name, state, _) in ALL.iter() {
        let analysis = SessionAnalysis::new(state);
        let rows = cost::lines(&analysis, true).map(|table| table.rows).unwrap_or_default();
        for cache in series::caches(&analysis) {
            let (drawn, _) = series::tensors(&analysis, cache);
            for label in drawn.iter().map(|one| &one.label).filter(|label| !label.is_empty()) {
                let has_it = |row: &Vec<String>| row.last().is_some_and(|line| label.ends_with(&format!(": {line}")));
                assert!(rows.iter().any(|row| row[1] == cache.to_string() && has_it(row)), "{name}: {label}: {rows:?}");
                lines += 1;
            }
        }
        for (row, (_, cost)) in rows.iter().zip(analysis.costs()) {
            let workers: f64 = row[row.len() - 2].parse().unwrap();
            assert!((workers - cost.parallelism).abs() < 0.006, "{name}: {row:?}");
        }
    }
    assert!(lines > 4, "{lines}");
}

#[test]
fn workload_tables_show_one_run_of_the_repeats_with_the_median_time() {
    use gds_top::present::workload;
    let mut repeated = 0;
    for (name, state, _) in ALL.iter() {
        let all: Vec<_> = workload::runs(state).map(|(run, _)| run).collect();
        let shown: Vec<_> = workload::shown(state).map(|(run, _)| run).collect();
        for run in &shown {
            let of = |one: &&&gds_top::core::RunResult| one.engine == run.engine && one.cache == run.cache;
            let mut times: Vec<u64> = all.iter().filter(of).map(|one| one.wall_ns).collect();
            times.sort_unstable();
            assert_eq!(run.wall_ns, times[(times.len() - 1) / 2], "{name}: {}", run.engine);
            assert_eq!(shown.iter().filter(of).count(), 1, "{name}: {}", run.engine);
            repeated += usize::from(times.len() > 1);
        }
        assert!(all.iter().all(|run| shown.iter().any(|one| one.engine == run.engine && one.cache == run.cache)));
    }
    assert!(repeated > 0, "no recording with repeats of a workload");
}
