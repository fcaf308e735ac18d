//! The comparison of engines: each group with its winner, bars and results table.

use crate::core::{LaneInks, units};
use crate::present::comparisons::Comparison;
use crate::present::table::{self, ResultRow};
use crate::present::{SessionAnalysis, labels};
use crate::report::section::{Bar, Block, Cells, Section};

pub(super) fn sections(analysis: &SessionAnalysis<'_>, full: bool) -> Vec<Section> {
    let inks = LaneInks::of(analysis.state.lanes.iter().map(|lane| &lane.engine));
    let one = |comparison: &Comparison<'_>| {
        let mut section = Section::new(comparison.title());
        let rows = comparison.rows();
        if full {
            section.blocks.push(Block::Bars(rows.iter().map(|row| bar(row, &inks)).collect()));
        }
        section.blocks.push(Block::Table(cells(&rows, full)));
        let evidence = rows.iter().filter_map(|row| labels::routes_evidence(&row.ranked.engine, &row.runs));
        section.block(Block::List(evidence.collect()))
    };
    analysis.comparisons.iter().map(one).collect()
}

fn cells(rows: &[ResultRow<'_>], full: bool) -> Cells {
    let table = table::table(String::new(), String::new(), rows, full);
    let judged = |(at, row): (usize, &ResultRow<'_>)| {
        let status = |(column, of): (usize, &table::Column)| Some((at, column, (of.status?)(row)));
        table::columns(full).enumerate().filter_map(status).collect::<Vec<_>>()
    };
    let statuses = rows.iter().enumerate().flat_map(judged).collect();
    let cells = Cells { heads: table.heads, rows: table.rows, statuses };
    if full { cells.without_empty_columns() } else { cells }
}

fn bar(row: &ResultRow<'_>, inks: &LaneInks) -> Bar {
    let ranked = row.ranked;
    Bar {
        name: ranked.engine.to_string(),
        colour: inks.place(&ranked.engine),
        wall_ns: ranked.wall_ns,
        runs_ns: row.runs.iter().filter(|run| run.is_good()).map(|run| run.wall_ns).collect(),
        note: format!("{} · {}", units::duration(ranked.wall_ns), labels::rate(ranked)),
        phases: row.typical.map(|run| run.phases).unwrap_or_default(),
    }
}
