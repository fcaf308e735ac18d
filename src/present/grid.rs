//! The grid of storage measurements as sentences, cells and tables.

use super::labels::{factor, plural, proof};
use super::view::{Answer, GAP};
use crate::analysis::{GridTable, rate_ratio};
use crate::core::{Access, CellKey, CellResult, Grid, Status, Transfer, units};

/// The title of a grid table: `sequential read`.
#[must_use]
pub fn title(table: &GridTable) -> String {
    format!("{} {}", table.pattern, table.access)
}

/// The title of the grid: `Storage under /data, into host memory`.
#[must_use]
pub fn heading(grid: &Grid) -> String {
    format!("Storage under {}", place(grid))
}

/// The legend of the grid tables.
#[must_use]
pub fn legend(grid: &Grid) -> String {
    let transfers = grid.plan.axis(|cell| cell.transfer);
    let meanings: Vec<String> =
        transfers.iter().map(|transfer| format!("{transfer}: {}", transfer.meaning())).collect();
    format!(
        "GB/s; rows are block sizes, columns numbers of threads. ✖ failed, ! wrong bytes, · not measured. {}.",
        meanings.join("; ")
    )
}

/// The operations and latencies of a cell, or the reason why it failed: `100 operations, p50 1.00 ms, p99 2.00 ms`.
#[must_use]
pub fn tooltip(result: &CellResult) -> String {
    match (&result.error, result.latency_ns) {
        (Some(why), _) => why.clone(),
        (None, Some(latency)) => format!(
            "{}, p50 {}, p99 {}",
            units::plural(result.operations, "operation"),
            units::duration(latency.p50),
            units::duration(latency.p99)
        ),
        (None, None) => String::new(),
    }
}

/// A short text for a cell: the rate in GB/s, `✖` if the cell failed, `!` after the rate if wrong bytes were moved,
/// `·` if it was not measured.
#[must_use]
pub fn cell(grid: &Grid, key: &CellKey) -> String {
    match grid.result(key) {
        None => "·".to_owned(),
        Some(CellResult { error: Some(_), .. }) => "✖".to_owned(),
        Some(r) => {
            let rate = r.bytes_per_s.map_or_else(|| GAP.to_owned(), |rate| units::three_digits(rate / 1e9));
            if r.verified == Some(false) { rate + "!" } else { rate }
        }
    }
}

/// The name of a cell from its coordinates: `cpu, 1 MiB blocks, 4 threads, sequential`.
#[must_use]
pub fn cell_name(key: &CellKey) -> String {
    let (threads, blocks) = (units::plural(u64::from(key.threads), "thread"), units::bytes(key.block_bytes));
    format!("{}, {blocks} blocks, {threads}, {}", key.transfer, key.pattern)
}

/// The result of a cell in one line: the rate, or the reason why it failed.
#[must_use]
pub fn cell_result(result: &CellResult) -> String {
    match (&result.error, result.bytes_per_s) {
        (Some(why), _) => why.clone(),
        (None, rate) => rate.map_or_else(|| GAP.to_owned(), units::rate),
    }
}

/// The answers of a grid, beginning with the fastest reads and writes.
#[must_use]
pub fn answers(grid: &Grid) -> Vec<Answer> {
    let mut answers = Vec::new();
    for access in Access::ALL.iter().copied() {
        let Some(best) = grid.best(|c| c.access == access) else { continue };
        let what = if access == Access::Read { "Reads" } else { "Writes" };
        let latency = best.latency_ns.map_or_else(String::new, |latency| {
            format!("Latency p50 {}, p99 {}.", units::duration(latency.p50), units::duration(latency.p99))
        });
        let rate = units::rate(best.bytes_per_s.unwrap_or(0.0));
        answers.push(Answer::new(Status::Pass, format!("{what}: up to {rate} ({}).", cell_name(&best.key)), latency));
        for (a, b, than) in [
            (Transfer::GdsRegistered, Transfer::Gds, "with registered buffers"),
            (Transfer::Gds, Transfer::CpuGpu, "as O_DIRECT and a copy"),
        ] {
            answers.extend(compared(grid, access, a, b, than));
        }
        answers.extend(route_used(grid, access));
    }
    let cells = |count: usize| format!("{count} {}", plural(count, "cell"));
    let wrong = grid.results.iter().flatten().filter(|r| r.verified == Some(false)).count();
    if wrong > 0 {
        answers.push(Answer::new(Status::Fail, format!("{} moved wrong bytes.", cells(wrong)), ""));
    }
    let (all, left) = (grid.plan.cells.len(), grid.plan.cells.len() - grid.done());
    if left > 0 && grid.ended {
        answers.push(Answer::new(Status::Warn, format!("{left} of {} were not measured.", cells(all)), ""));
    }
    answers
}

/// The route of the fastest cuFile cell, and the number of cells with the same route and proof if others differ. Cells
/// with wrong bytes prove no route.
fn route_used(grid: &Grid, access: Access) -> Option<Answer> {
    let is_cufile = |key: &CellKey| key.access == access && key.transfer.uses_cufile();
    let route = grid.best(is_cufile)?.route.as_ref()?;
    let measured = || grid.results.iter().flatten().filter(move |r| is_cufile(&r.key) && r.error.is_none());
    let is_same = |r: &&CellResult| {
        let is_right = r.verified != Some(false);
        is_right && r.route.as_ref().is_some_and(|other| (other.route, other.proven) == (route.route, route.proven))
    };
    let (same, all) = (measured().filter(is_same).count(), measured().count());
    let part = if same == all { String::new() } else { format!(" in {same} of {}", units::plural(all as u64, "cell")) };
    let headline = format!("cuFile {access}s used the route {}{part}, {}.", route.route, proof(route.proven));
    Some(Answer::new(Status::Info, headline, format!("Source: {}.", route.source)))
}

fn compared(grid: &Grid, access: Access, a: Transfer, b: Transfer, than: &str) -> Option<Answer> {
    let ratio = rate_ratio(grid, access, a, b)?;
    let (low, high) = ratio.range;
    let pairs = format!(
        "Median of {} of cells, {} to {}.",
        units::plural(ratio.pairs as u64, "pair"),
        factor(low),
        factor(high)
    );
    Some(Answer::new(Status::Info, format!("cuFile {access}s are {} as fast {than}.", factor(ratio.median)), pairs))
}

/// The reasons why cells failed. Each reason appears once, with the number of cells.
#[must_use]
pub fn failures(grid: &Grid) -> Vec<String> {
    let mut counted: Vec<(&str, usize, CellKey)> = Vec::new();
    for result in grid.results.iter().flatten() {
        let Some(why) = &result.error else { continue };
        match counted.iter_mut().find(|(known, _, first)| known == why && first.transfer == result.key.transfer) {
            Some((_, count, _)) => *count += 1,
            None => counted.push((why, 1, result.key)),
        }
    }
    let one = |(why, count, first): (&str, usize, CellKey)| {
        format!("{count} {} of {}: {why}", plural(count, "cell"), first.transfer)
    };
    counted.into_iter().map(one).collect()
}

/// The location of a grid: `/data, into host memory`.
#[must_use]
pub fn place(grid: &Grid) -> String {
    format!("{}, into {}", grid.plan.dir.display(), grid.plan.target)
}

/// The current activity while no cell has a result.
#[must_use]
pub fn waiting(grid: &Grid) -> Answer {
    let dir = grid.plan.dir.display();
    let headline = match (grid.written, grid.done()) {
        (Some(_), _) => format!("Writing the test files into {dir} …"),
        (None, 0) => format!("Measuring the storage under {dir} …"),
        (None, _) => failures(grid).into_iter().next().unwrap_or_else(|| "No cell has ended yet.".to_owned()),
    };
    Answer::new(Status::Info, headline, "")
}

/// The progress of the grid, as a number from 0 to 1 and as text. `None` if the grid is not running.
#[must_use]
pub fn progress(grid: &Grid) -> Option<(f64, String)> {
    if let Some((bytes, of)) = grid.written {
        let words = format!("{} of {} of test files written", units::bytes(bytes), units::bytes(of));
        return Some((bytes as f64 / of.max(1) as f64, words));
    }
    let running = grid.running?;
    let (done, all) = (grid.done(), grid.plan.cells.len());
    let now = grid.plan.cells.get(running as usize).map(|key| format!(" · now {} {}", key.access, cell_name(key)));
    let left = (all - done) as u64 * grid.plan.cell_ns;
    let words = format!("{done} of {all} cells, at least {} left{}", units::duration(left), now.unwrap_or_default());
    Some((done as f64 / all.max(1) as f64, words))
}

/// All values of a cell, one per line: rate, latency and route.
#[must_use]
pub fn details(grid: &Grid, key: &CellKey) -> Vec<String> {
    let head = format!("{} {}", key.access, cell_name(key));
    match grid.result(key) {
        None => vec![format!("{head}: not measured yet")],
        Some(CellResult { error: Some(why), .. }) => vec![format!("{head}: failed"), why.clone()],
        Some(result) => {
            let latency = result.latency_ns.map(|l| {
                format!(
                    "latency p50 {}, p90 {}, p99 {}, max {}",
                    units::duration(l.p50),
                    units::duration(l.p90),
                    units::duration(l.p99),
                    units::duration(l.max)
                )
            });
            let cpu = result
                .cpu_ns
                .filter(|_| result.wall_ns > 0)
                .map(|ns| format!("CPU {} of one", units::percent(ns as f64 / result.wall_ns as f64)));
            let operations = units::plural(result.operations, "operation");
            let mut lines = vec![format!("{head}: {}, {operations}, {}", cell_result(result), verified(result))];
            lines.push(latency.into_iter().chain(cpu).collect::<Vec<_>>().join(" · "));
            lines
                .extend(result.route.as_ref().map(|r| format!("route {}, {}: {}", r.route, proof(r.proven), r.source)));
            lines
        }
    }
}

/// Like [`details`], but for narrow screens.
#[must_use]
pub fn short_details(grid: &Grid, key: &CellKey) -> Vec<String> {
    let head = format!("{} {}, {}, {} threads", key.access, key.transfer, units::bytes(key.block_bytes), key.threads);
    match grid.result(key) {
        None => vec![format!("{head}: not measured yet")],
        Some(CellResult { error: Some(why), .. }) => vec![format!("{head}: failed"), why.clone()],
        Some(result) => {
            let mut lines = vec![format!("{head}: {}, {}", cell_result(result), verified(result))];
            lines.extend(result.latency_ns.map(|l| {
                format!(
                    "latency p50 {}, p90 {}, p99 {}",
                    units::duration(l.p50),
                    units::duration(l.p90),
                    units::duration(l.p99)
                )
            }));
            lines.extend(result.route.as_ref().map(|r| format!("route {}, {}", r.route, proof(r.proven))));
            lines
        }
    }
}

fn verified(result: &CellResult) -> String {
    match result.verified() {
        Some(true) => "all bytes verified".to_owned(),
        Some(false) => "wrong bytes".to_owned(),
        // In recordings of earlier versions, the number of checked bytes is missing.
        None if result.verified == Some(true) && result.checked_bytes == 0 => "last blocks compared".to_owned(),
        None if result.checked_bytes > 0 => match result.checked_bytes.saturating_mul(100) / result.bytes.max(1) {
            0 => "under 1 % compared".to_owned(),
            percent => format!("{percent} % compared"),
        },
        None => "not verified".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::grid_tables;
    use crate::core::grid_testdata::with_gaps;
    use crate::core::{Route, RouteCounts};

    #[test]
    fn a_route_of_all_cells_needs_proof_and_right_bytes_in_each() {
        let counts = |route, proven| RouteCounts {
            route,
            nvfs_reads: Some(9),
            p2p_reads: Some(0),
            posix_reads: Some(0),
            source: "cuFile level-3 statistics".to_owned(),
            proven,
        };
        let mut grid = with_gaps();
        let said = |grid: &Grid| {
            let all = answers(grid).into_iter().map(|answer| answer.headline);
            all.filter(|line| line.contains(" used the route ")).collect::<Vec<_>>()
        };
        assert!(said(&grid).is_empty());
        grid.results.iter_mut().flatten().for_each(|r| r.route = Some(counts(Route::Nvfs, true)));
        // Six cells were measured, and one of them has wrong bytes.
        assert_eq!(said(&grid), ["cuFile reads used the route nvfs in 5 of 6 cells, proven."]);
        grid.results.iter_mut().flatten().for_each(|r| r.verified = Some(true));
        assert_eq!(said(&grid), ["cuFile reads used the route nvfs, proven."]);
        // Slower cells used another route, or have no proof or route.
        let others = [Some(counts(Route::Compat, true)), Some(counts(Route::Nvfs, false)), None];
        for (number, other) in others.into_iter().enumerate() {
            let mut mixed = grid.clone();
            for result in mixed.results.iter_mut().flatten().filter(|r| r.key.transfer == Transfer::Gds) {
                result.route = other.clone();
            }
            assert_eq!(said(&mixed), ["cuFile reads used the route nvfs in 4 of 6 cells, proven."], "{number}");
        }
    }

    #[test]
    fn cells_show_their_rate_failure_wrong_bytes_or_that_they_are_to_come() {
        let grid = with_gaps();
        let shown: Vec<String> = grid.plan.cells.iter().map(|key| cell(&grid, key)).collect();
        assert_eq!(shown, ["3.00", "3.00!", "3.00", "3.00", "2.00", "2.00", "✖", "·"]);
        assert_eq!(grid_tables(&grid).iter().map(title).collect::<Vec<_>>(), ["sequential read"]);
    }

    #[test]
    fn the_answers_are_the_best_rate_the_effect_of_registering_and_what_is_missing() {
        let all: Vec<(Status, String)> = answers(&with_gaps()).into_iter().map(|a| (a.status, a.headline)).collect();
        assert!(all[0].1.starts_with("Reads: up to 3.00 GB/s (gds-registered, "), "{all:?}");
        assert_eq!(all[1].1, "cuFile reads are 1.5× as fast with registered buffers.");
        assert!(all.contains(&(Status::Fail, "1 cell moved wrong bytes.".to_owned())), "{all:?}");
        assert!(all.contains(&(Status::Warn, "1 of 8 cells were not measured.".to_owned())), "{all:?}");
        assert_eq!(failures(&with_gaps()), ["1 cell of gds: it broke"]);
    }
}
