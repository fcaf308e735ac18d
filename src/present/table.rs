//! The results table, with one entry per column. Terminal, Markdown, HTML, JSON, CSV and the screens show these
//! columns and cells.
//!
//! A new column is one entry in `columns!`.

use super::labels;
use super::phases;
use super::view::{GAP, Head, Table, or_gap};
use crate::analysis::{RankedEngine, of_median_time};
use crate::core::{RunResult, Status, units};

/// An engine of a group with its successful runs.
#[derive(Clone, Debug)]
pub struct ResultRow<'a> {
    /// The figures of the engine.
    pub ranked: &'a RankedEngine,
    /// Its successful runs.
    pub runs: Vec<&'a RunResult>,
    /// The run with the median time. It is the example if only one run is shown.
    pub typical: Option<&'a RunResult>,
}

impl<'a> ResultRow<'a> {
    /// Creates the row of an engine.
    #[must_use]
    pub fn new(ranked: &'a RankedEngine, runs: Vec<&'a RunResult>) -> Self {
        let typical = of_median_time(runs.clone(), |run| run.wall_ns);
        Self { ranked, runs, typical }
    }

    fn of_typical<T>(&self, value: impl Fn(&RunResult) -> Option<T>, text: impl Fn(T) -> String) -> String {
        or_gap(self.typical.and_then(value).map(text))
    }
}

/// A value of a column for files: the name with its unit, and a function for the value. The value is empty if it is
/// unknown.
type Raw = (&'static str, fn(&ResultRow<'_>) -> String);

/// A column of the results table.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its name in files.
    pub id: &'static str,
    /// Its title on screens and in reports.
    pub title: &'static str,
    /// Whether its cells are numbers, which are aligned to the right.
    pub right: bool,
    /// Whether only full reports show it, because the width of a terminal is limited.
    pub detail: bool,
    /// The function that returns the cell of a row.
    pub cell: fn(&ResultRow<'_>) -> String,
    /// The function that returns the status of a cell, if the column has a status.
    pub status: Option<fn(&ResultRow<'_>) -> Status>,
    /// Its values in `results.csv`.
    pub raw: &'static [Raw],
}

impl std::fmt::Debug for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Column").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Column {
    const fn new(
        id: &'static str,
        title: &'static str,
        cell: fn(&ResultRow<'_>) -> String,
        raw: &'static [Raw],
    ) -> Self {
        Self { id, title, right: true, detail: false, cell, status: None, raw }
    }

    const fn words(self) -> Self {
        Self { right: false, ..self }
    }

    const fn detail(self) -> Self {
        Self { detail: true, ..self }
    }

    /// The cell with the symbol of its status: `✔ yes`.
    #[must_use]
    pub fn marked(&self, row: &ResultRow<'_>) -> String {
        let cell = (self.cell)(row);
        match self.status.map(|status| status(row)) {
            Some(Status::Na) | None => cell,
            Some(status) => format!("{} {cell}", status.mark()),
        }
    }
}

fn raw<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Makes the columns, and the list of all of them in this order.
macro_rules! columns {
    ($($(#[doc = $doc:literal])* $name:ident = $column:expr;)*) => {
        $(
            $(#[doc = $doc])*
            pub const $name: Column = $column;
        )*

        /// All columns, in order.
        pub const COLUMNS: &[Column] = &[$($name),*];
    };
}

columns! {
    /// The engine, with its name from the command line.
    ENGINE = Column::new(
        "engine",
        "engine",
        |row| row.ranked.engine.to_string(),
        &[("engine", |row| row.ranked.engine.to_string())],
    )
    .words();

    /// The median time.
    TIME = Column::new(
        "time",
        "time",
        |row| units::duration(row.ranked.wall_ns),
        &[("wall_ns", |row| row.ranked.wall_ns.to_string())],
    );

    /// The fastest and the slowest run.
    RANGE = Column::new(
        "range",
        "range",
        |row| match row.ranked.wall_range_ns {
            _ if row.ranked.runs < 2 => GAP.to_owned(),
            (low, high) => format!("{} – {}", units::duration(low), units::duration(high)),
        },
        &[
            ("wall_min_ns", |row| row.ranked.wall_range_ns.0.to_string()),
            ("wall_max_ns", |row| row.ranked.wall_range_ns.1.to_string()),
        ],
    )
    .detail();

    /// Bytes per second at the median time.
    RATE = Column::new(
        "rate",
        "rate",
        |row| labels::rate(row.ranked),
        &[("bytes_per_s", |row| raw(Some(row.ranked.bytes_per_s).filter(|_| row.ranked.moved())))],
    );

    /// The time divided by the time of the fastest engine.
    RATIO = Column::new(
        "ratio",
        "vs best",
        |row| labels::ratio(row.ranked),
        &[("ratio_to_fastest", |row| raw(Some(row.ranked.ratio_to_fastest).filter(|_| !row.ranked.in_doubt)))],
    );

    /// Whether all bytes were verified.
    VERIFIED = Column {
        status: Some(|row| labels::verified(row.ranked).0),
        ..Column::new(
            "verified",
            "verified",
            |row| labels::verified(row.ranked).1.to_owned(),
            &[("verified", |row| raw(row.ranked.verified))],
        )
        .words()
    };

    /// The number of successful and failed runs.
    RUNS = Column::new(
        "runs",
        "runs",
        |row| labels::runs(row.ranked),
        &[("runs", |row| row.ranked.runs.to_string()), ("failed", |row| row.ranked.failed.to_string())],
    );

    /// The route of the reads.
    ROUTE = Column::new(
        "route",
        "route",
        |row| labels::routes(&row.runs),
        &[
            ("route", |row| raw(row.typical.and_then(|run| run.route.as_ref()).map(|counts| counts.route))),
            ("route_proven", |row| raw(row.typical.and_then(|run| run.route.as_ref()).map(|counts| counts.proven))),
        ],
    )
    .words();

    /// Peak resident memory of the loading process.
    HOST_PEAK = Column::new(
        "host_peak",
        "host peak",
        |row| row.of_typical(|run| run.host_peak_bytes, units::bytes),
        &[("host_peak_bytes", |row| raw(row.typical.and_then(|run| run.host_peak_bytes)))],
    )
    .detail();

    /// The peak of resident memory, divided: anonymous memory, and memory of mapped files, which the kernel can drop.
    HOST_PARTS = Column::new(
        "host_parts",
        "anonymous + files",
        |row| {
            let part = |of: fn(&RunResult) -> Option<u64>| row.of_typical(of, units::bytes);
            let (anonymous, files) = (part(|run| run.host_anonymous_bytes), part(|run| run.host_file_bytes));
            if anonymous == files && row.typical.is_none_or(|run| run.host_anonymous_bytes.is_none()) {
                return anonymous;
            }
            format!("{anonymous} + {files}")
        },
        &[
            ("host_anonymous_bytes", |row| raw(row.typical.and_then(|run| run.host_anonymous_bytes))),
            ("host_file_bytes", |row| raw(row.typical.and_then(|run| run.host_file_bytes))),
        ],
    )
    .detail();

    /// Maximum memory that the engine pinned.
    PINNED_PEAK = Column::new(
        "pinned_peak",
        "pinned peak",
        |row| row.of_typical(|run| run.pinned_peak_bytes, units::bytes),
        &[("pinned_peak_bytes", |row| raw(row.typical.and_then(|run| run.pinned_peak_bytes)))],
    )
    .detail();

    /// CPU time of the load.
    CPU = Column::new(
        "cpu",
        "CPU time",
        |row| row.of_typical(|run| run.cpu_ns, units::duration),
        &[("cpu_ns", |row| raw(row.typical.and_then(|run| run.cpu_ns)))],
    )
    .detail();

    /// The phases with the most time.
    PHASES = Column::new("phases", "largest phases", |row| row.typical.map_or_else(|| GAP.to_owned(), phases::largest), &[])
            .words();
}

/// The columns that a terminal shows, or all of them.
pub fn columns(detail: bool) -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(move |column| detail || !column.detail)
}

/// The results table of rows.
#[must_use]
pub fn table(title: String, note: String, rows: &[ResultRow<'_>], detail: bool) -> Table {
    Table {
        title,
        note,
        heads: columns(detail).map(|column| Head { title: column.title.into(), right: column.right }).collect(),
        rows: rows.iter().map(|row| columns(detail).map(|column| column.marked(row)).collect()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn columns_have_unique_names_and_raw_values_have_units() {
        let ids: BTreeSet<&str> = COLUMNS.iter().map(|column| column.id).collect();
        assert_eq!(ids.len(), COLUMNS.len());
        let names: Vec<&str> = COLUMNS.iter().flat_map(|column| column.raw).map(|(name, _)| *name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(columns(false).count() < columns(true).count());
    }
}
