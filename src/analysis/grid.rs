//! The grid of storage measurements in words and tables, the same on the screens and in every form of the report.

use crate::domain::{Access, CellKey, CellResult, Grid, Pattern, RouteCounts, Transfer, units};

/// One table of a grid: block sizes down, transfers and threads across.
#[derive(Clone, Debug, PartialEq)]
pub struct GridTable {
    /// Which way.
    pub access: Access,
    /// In which order.
    pub pattern: Pattern,
    /// How bytes travel: each has a column for each number of threads.
    pub transfers: Vec<Transfer>,
    /// Thread counts, rising.
    pub threads: Vec<u32>,
    /// Block sizes, rising.
    pub blocks: Vec<u64>,
}

impl GridTable {
    /// `sequential read`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.pattern, self.access)
    }

    /// The columns.
    pub fn columns(&self) -> impl Iterator<Item = (Transfer, u32)> + '_ {
        self.transfers.iter().flat_map(|transfer| self.threads.iter().map(|threads| (*transfer, *threads)))
    }

    /// The cell of a row and a column.
    #[must_use]
    pub const fn key(&self, block_bytes: u64, (transfer, threads): (Transfer, u32)) -> CellKey {
        CellKey { transfer, access: self.access, pattern: self.pattern, block_bytes, threads }
    }
}

/// The tables of a grid: reads first.
#[must_use]
pub fn grid_tables(grid: &Grid) -> Vec<GridTable> {
    let table = |(access, pattern)| GridTable {
        access,
        pattern,
        transfers: grid.plan.axis(|c| c.transfer),
        threads: grid.plan.axis(|c| c.threads),
        blocks: grid.plan.axis(|c| c.block_bytes),
    };
    grid.plan.axis(|c| (c.access, c.pattern)).into_iter().map(table).collect()
}

/// A cell in a few letters: a rate in GB/s, `✖` for one that failed, `!` behind wrong bytes, `·` for one that is still to come.
#[must_use]
pub fn cell_text(grid: &Grid, key: &CellKey) -> String {
    match grid.result(key) {
        None => "·".to_owned(),
        Some(CellResult { error: Some(_), .. }) => "✖".to_owned(),
        Some(r) => {
            let rate = r.bytes_per_s.map_or_else(|| "–".to_owned(), |rate| units::three_digits(rate / 1e9));
            if r.verified == Some(false) { rate + "!" } else { rate }
        }
    }
}

/// A cell by its coordinates: `cpu, 1.00 MiB blocks, 4 threads, sequential`.
#[must_use]
pub fn cell_words(key: &CellKey) -> String {
    let threads = if key.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", key.threads) };
    format!("{}, {} blocks, {threads}, {}", key.transfer, units::bytes(key.block_bytes), key.pattern)
}

/// What a grid says, each a sentence, the answer first.
#[must_use]
pub fn grid_sentences(grid: &Grid) -> Vec<String> {
    let mut said = Vec::new();
    for access in Access::ALL.iter().copied() {
        let Some(best) = grid.best(|c| c.access == access) else { continue };
        let verb = if access == Access::Read { "Reads" } else { "Writes" };
        let p99 = best.latency_ns.map_or_else(String::new, |l| {
            format!(", {} an operation (p99 {})", units::duration(l.p50), units::duration(l.p99))
        });
        said.push(format!(
            "{verb}: {} at best, by {}{p99}.",
            units::rate(best.bytes_per_s.unwrap_or(0.0)),
            cell_words(&best.key)
        ));
        for (a, b, what, than) in [
            (Transfer::GdsRegistered, Transfer::Gds, "With registered buffers cuFile", "as without"),
            (Transfer::Gds, Transfer::CpuGpu, "cuFile", "as O_DIRECT and a copy"),
        ] {
            if let Some((ratio, low, high, n)) = ratios(grid, access, a, b) {
                let pairs = if n == 1 { "1 pair".to_owned() } else { format!("{n} pairs") };
                said.push(format!(
                    "{what} {access}s {}× as fast {than} (median of {pairs} of cells, {} to {}).",
                    units::three_digits(ratio),
                    units::three_digits(low),
                    units::three_digits(high)
                ));
            }
        }
        if let Some(gds) = grid.best(|c| c.access == access && c.transfer.uses_cufile()) {
            said.push(format!("The route of cuFile {access}s: {}.", route_words(gds.route.as_ref())));
        }
    }
    let wrong = grid.results.iter().flatten().filter(|r| r.verified == Some(false)).count();
    if wrong > 0 {
        said.push(format!("{wrong} cells moved wrong bytes: marked with '!'."));
    }
    let left = grid.plan.cells.len() - grid.done();
    if left > 0 && grid.ended {
        said.push(format!("{left} of {} cells were not measured.", grid.plan.cells.len()));
    }
    said
}

fn route_words(route: Option<&RouteCounts>) -> String {
    match route {
        None => "not told".to_owned(),
        Some(r) if r.proven => format!("{}, proven by {}", r.route, r.source),
        Some(r) => format!("{}, not proven ({})", r.route, r.source),
    }
}

/// Median, least and most of rate `a` over rate `b` in cells that differ in nothing else, and their number.
fn ratios(grid: &Grid, access: Access, a: Transfer, b: Transfer) -> Option<(f64, f64, f64, usize)> {
    let good = |r: &&CellResult| r.error.is_none() && r.verified != Some(false);
    let rate = |r: &CellResult| r.bytes_per_s.filter(|rate| rate.is_finite() && *rate > 0.0);
    let mut ratios: Vec<f64> = grid
        .results
        .iter()
        .flatten()
        .filter(|r| r.key.transfer == a && r.key.access == access)
        .filter(good)
        .filter_map(|r| {
            let other = grid.result(&CellKey { transfer: b, ..r.key }).filter(good)?;
            Some(rate(r)? / rate(other)?)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    Some((*ratios.get(ratios.len() / 2)?, *ratios.first()?, *ratios.last()?, ratios.len()))
}

/// Why cells failed, each sentence once, with how many cells it holds for.
#[must_use]
pub fn grid_failures(grid: &Grid) -> Vec<String> {
    let mut counted: Vec<(String, usize, CellKey)> = Vec::new();
    for result in grid.results.iter().flatten() {
        let Some(why) = &result.error else { continue };
        match counted.iter_mut().find(|(said, _, first)| said == why && first.transfer == result.key.transfer) {
            Some((_, n, _)) => *n += 1,
            None => counted.push((why.clone(), 1, result.key)),
        }
    }
    let cells = |n: usize| if n == 1 { "1 cell".to_owned() } else { format!("{n} cells") };
    counted.into_iter().map(|(why, n, first)| format!("{} of {}: {}", cells(n), first.transfer, why)).collect()
}

/// The slowest and the fastest rate of a grid, in bytes a second: the ends of its colours, at least ten times and at most a thousand times apart.
#[must_use]
pub fn rate_range(grid: &Grid) -> Option<(f64, f64)> {
    let rates = || grid.results.iter().flatten().filter(|r| r.error.is_none()).filter_map(|r| r.bytes_per_s);
    let best = rates().filter(|rate| rate.is_finite()).fold(0.0, f64::max);
    let least = rates().filter(|rate| *rate > 0.0).fold(best, f64::min);
    (best > 0.0).then(|| (least.clamp(best / 1000.0, best / 10.0), best))
}

/// How warm a rate is between two, by its logarithm: 0 at the slowest, 1 at the fastest.
#[must_use]
pub fn warmth(rate: f64, (least, best): (f64, f64)) -> f64 {
    if !(rate > 0.0 && least > 0.0 && best > least) {
        return 0.0;
    }
    ((rate / least).log10() / (best / least).log10()).clamp(0.0, 1.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::domain::{GridPlan, Percentiles};

    fn grid() -> Grid {
        let cells = GridPlan::cells_of(
            &[Transfer::GdsRegistered, Transfer::Gds],
            &[Access::Read],
            &[Pattern::Sequential],
            &[4096, 65536],
            &[1, 4],
        );
        let plan =
            GridPlan { dir: "/d".into(), target: "host memory".to_owned(), file_bytes: 1 << 30, cell_ns: 1, cells };
        let mut grid = Grid::new(plan.clone());
        grid.end();
        for (i, key) in plan.cells.iter().enumerate().take(7) {
            let mut r = CellResult::failed(*key, "it broke, \"badly\"");
            if i != 6 {
                let rate = if key.transfer == Transfer::GdsRegistered { 3e9 } else { 2e9 };
                r = CellResult {
                    error: None,
                    verified: Some(i != 1),
                    bytes_per_s: Some(rate),
                    latency_ns: Some(Percentiles { p50: 10_000, p90: 11_000, p99: 12_000, max: 13_000 }),
                    ..r
                };
            }
            grid.results[i] = Some(r);
        }
        grid
    }

    #[test]
    fn cells_say_their_rate_failure_wrong_bytes_or_that_they_are_to_come() {
        let grid = grid();
        let shown: Vec<String> = grid.plan.cells.iter().map(|key| cell_text(&grid, key)).collect();
        assert_eq!(shown, ["3.00", "3.00!", "3.00", "3.00", "2.00", "2.00", "✖", "·"]);
        let tables = grid_tables(&grid);
        assert_eq!((tables.len(), tables[0].title().as_str(), tables[0].columns().count()), (1, "sequential read", 4));
        assert_eq!(tables[0].key(4096, (Transfer::Gds, 4)), grid.plan.cells[5]);
    }

    #[test]
    fn the_effect_of_registering_is_told_from_pairs_that_differ_in_nothing_else() {
        let said = grid_sentences(&grid());
        assert!(said[0].starts_with("Reads: 3.00 GB/s at best, by gds-registered"), "{said:?}");
        // Of four pairs one has wrong bytes, one failed and one is not there.
        assert!(said[1].contains("reads 1.50× as fast as without (median of 1 pair of"), "{said:?}");
        assert!(
            said.iter().any(|s| s.contains("1 cells moved wrong bytes"))
                && said.iter().any(|s| s.contains("1 of 8 cells were not measured"))
        );
        assert_eq!(grid_failures(&grid()), ["1 cell of gds: it broke, \"badly\""]);
    }

    #[test]
    fn warmth_rises_from_the_slowest_rate_to_the_fastest() {
        let range = (1e-3, 1.0);
        assert_eq!(
            (warmth(0.0, range), warmth(1e-3, range), warmth(1.0, range), warmth(2.0, range)),
            (0.0, 0.0, 1.0, 1.0)
        );
        assert!(warmth(0.1, range) > warmth(0.01, range) && warmth(f64::NAN, range) == 0.0);
        // Nearly equal rates are not drawn as if they were worlds apart.
        let (least, best) = rate_range(&grid()).unwrap();
        assert!((best / least - 10.0).abs() < 1e-9, "{least} {best}");
    }
}
