//! The result for people: the answers first, then the figures, then what to do.

use super::progress::paint;
use super::table;
use crate::analysis::{Comparison, GridTable, cell_text, compare, grid_failures, grid_tables, of_median_time};
use crate::domain::{Grid, RunResult, Status, Transfer, units};
use crate::report::words::{check_counts, gaps, headlines, plain, routes_words, where_time_went};
use crate::session::{LaneStatus, State};
use unicode_width::UnicodeWidthStr;

/// The result as text of at most `width` columns where words allow; `colour` adds ANSI colours to status words only.
#[must_use]
pub fn result_text(state: &State, width: u16, colour: bool) -> String {
    let mut text = Text { out: String::new(), width: usize::from(width).clamp(40, 240), colour };
    for answer in headlines(state) {
        text.wrapped("", &answer);
    }
    let runs = state.runs();
    let runs: Vec<&RunResult> = runs.iter().collect();
    for comparison in compare(&runs) {
        text.results(&comparison, &runs);
    }
    for group in crate::report::group_tables(state) {
        text.title(&group.title);
        let mut rows = vec![group.head.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>()];
        rows.extend(group.rows);
        text.table(&rows, &group.right);
    }
    let ceilings = crate::report::ceiling_words(state);
    if !ceilings.is_empty() {
        text.title("Ceilings measured in this session");
        ceilings.iter().for_each(|words| text.wrapped("- ", words));
    }
    let lessons = crate::report::lessons(state);
    let set_up = crate::report::setup_tables(state, false);
    for table in crate::report::workload_tables(state).iter().chain(&set_up).chain(&lessons.lines) {
        text.title(table.title);
        text.wrapped("", &table.says);
        let mut rows = vec![table.head.iter().map(|head| (*head).to_owned()).collect()];
        rows.extend(table.rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()));
        text.table(&rows, &table.right);
    }
    lessons.crossings.iter().for_each(|told| text.wrapped("- ", &plain(told)));
    if let Some(grid) = &state.grid {
        text.grid(grid);
    }
    text.failures(state);
    text.advice(&lessons.advice);
    text.checks(state);
    let gaps = gaps(state);
    if !gaps.is_empty() {
        text.title("Notes, and what could not be measured");
        gaps.iter().for_each(|gap| text.wrapped("- ", gap));
    }
    if text.out.is_empty() {
        text.wrapped("", "Nothing was checked and nothing was run.");
    }
    text.out
}

struct Text {
    out: String,
    width: usize,
    colour: bool,
}

impl Text {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn title(&mut self, text: &str) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.line(text);
    }

    /// Words broken at the width; lines after the first are indented as far as the first's mark is long.
    fn wrapped(&mut self, mark: &str, text: &str) {
        let indent = " ".repeat(mark.width());
        let mut line = mark.to_owned();
        let mut empty = true;
        for word in text.split_whitespace() {
            if !empty && line.width() + 1 + word.width() > self.width {
                self.line(&line);
                line.clone_from(&indent);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        self.line(&line);
    }

    fn results(&mut self, comparison: &Comparison, runs: &[&RunResult]) {
        self.title(&format!("{}, {} cache, {}", plain(&comparison.model), comparison.cache, plain(&comparison.target)));
        let head = ["engine", "time", "rate", "ratio", "verified", "runs", "where the time went"].map(str::to_owned);
        let mut rows = vec![head.to_vec()];
        let mut routes = Vec::new();
        for s in &comparison.standings {
            let of_this_row = runs.iter().filter(|r| {
                (&r.engine, r.cache) == (&s.engine, comparison.cache)
                    && (&r.model, &r.target) == (&comparison.model, &comparison.target)
                    && r.error.is_none()
                    && r.verified != Some(false)
            });
            let of_this_row: Vec<&RunResult> = of_this_row.copied().collect();
            let engine = plain(&s.engine.to_string());
            let routed = of_this_row.iter().any(|r| r.route.is_some());
            routes.extend(routed.then(|| format!("{engine}: {}", routes_words(&of_this_row))));
            let run = of_median_time(of_this_row, |run| run.wall_ns);
            rows.push(vec![
                engine,
                units::duration(s.wall_ns),
                s.rate_words(),
                s.ratio_words(),
                s.verified_words().to_owned(),
                if s.failed > 0 { format!("{} ({} failed)", s.runs, s.failed) } else { s.runs.to_string() },
                run.map_or("–".to_owned(), where_time_went),
            ]);
        }
        self.table(&rows, &[false, true, true, true, false, true, false]);
        routes.iter().for_each(|route| self.wrapped("  ", &format!("route of {route}")));
    }

    /// Tables of rates, one for each access and pattern: a line of transfers over a line of thread counts.
    fn grid(&mut self, grid: &Grid) {
        for table in grid_tables(grid) {
            self.title(&format!("{}, GB/s, by threads", table.title()));
            // A transfer's columns stay together, below its name: as many transfers beside one another as fit.
            let mut rest = table.transfers.as_slice();
            while !rest.is_empty() {
                let fits = |n: &usize| {
                    let rows = grid_rows(grid, &table, &rest[..*n]);
                    table::lines(&rows, &vec![true; 1 + n * table.threads.len()], self.width).len() == rows.len()
                };
                let together = (1..=rest.len()).rev().find(fits).unwrap_or(1);
                let (now, later) = rest.split_at(together);
                self.table(&grid_rows(grid, &table, now), &vec![true; 1 + now.len() * table.threads.len()]);
                if !later.is_empty() {
                    self.line("");
                }
                rest = later;
            }
        }
        let failures = grid_failures(grid);
        if !failures.is_empty() {
            self.title("Cells that failed");
            let mark = format!("{} ", paint(self.colour, Status::Fail, "✖"));
            failures.iter().for_each(|line| self.wrapped(&mark, &plain(line)));
        }
    }

    fn table(&mut self, rows: &[Vec<String>], right: &[bool]) {
        for line in table::lines(rows, right, self.width) {
            self.line(&line);
        }
    }

    fn failures(&mut self, state: &State) {
        let failed: Vec<String> = state
            .lanes
            .iter()
            .filter_map(|l| match &l.status {
                LaneStatus::Failed(why) => {
                    let share =
                        l.share.as_ref().map_or_else(String::new, |s| format!(" ({})", plain(&s.label(&l.target))));
                    let (engine, number) = (plain(&l.engine.to_string()), l.repeat.saturating_add(1));
                    Some(format!("{engine} {} #{number}{share}: {}", l.cache, plain(&why.to_string())))
                }
                _ => None,
            })
            .collect();
        if !failed.is_empty() {
            self.title("Runs that failed");
            let mark = format!("{} ", paint(self.colour, Status::Fail, "✖"));
            failed.iter().for_each(|line| self.out.push_str(&format!("{mark}{line}\n")));
        }
    }

    fn advice(&mut self, advice: &[String]) {
        if !advice.is_empty() {
            self.title("Advice");
            advice.iter().for_each(|text| self.wrapped("- ", &plain(text)));
        }
    }

    fn checks(&mut self, state: &State) {
        if state.checks.is_empty() {
            return;
        }
        self.title(&format!("Checks: {}", check_counts(state)));
        for status in [Status::Fail, Status::Warn] {
            for f in state.checks.iter().filter(|f| f.status == status) {
                let mark = paint(self.colour, status, &format!("{} {}", status.mark(), status.word()));
                self.out.push_str(&format!("{mark}  {}: ", plain(&f.id)));
                self.wrapped("", &plain(&f.summary));
                if status == Status::Fail {
                    f.evidence.iter().for_each(|e| {
                        self.wrapped("    found: ", &format!("{}: {}", plain(&e.source), plain(&e.text)));
                    });
                }
                match (&f.fix, &f.advice) {
                    (Some(fix), _) => self.wrapped("    fix: ", &format!("gds-top fix {}", plain(fix))),
                    (None, Some(advice)) => self.wrapped("    advice: ", &plain(advice)),
                    (None, None) => {}
                }
            }
        }
    }
}

/// The rows of some transfers: their names, the numbers of threads, and a row a block.
fn grid_rows(grid: &Grid, table: &GridTable, transfers: &[Transfer]) -> Vec<Vec<String>> {
    let columns = || transfers.iter().flat_map(|transfer| table.threads.iter().map(|threads| (*transfer, *threads)));
    let mut rows = vec![vec![String::new()], vec!["block".to_owned()]];
    for transfer in transfers {
        rows[0].extend((0..table.threads.len()).map(|i| if i == 0 { transfer.to_string() } else { String::new() }));
    }
    rows[1].extend(columns().map(|(_, threads)| threads.to_string()));
    for block in &table.blocks {
        let mut row = vec![units::bytes(*block)];
        row.extend(columns().map(|column| cell_text(grid, &table.key(*block, column))));
        rows.push(row);
    }
    rows
}
