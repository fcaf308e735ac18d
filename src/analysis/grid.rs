//! The grid of storage measurements as tables, and its ranges of rates.

use crate::core::{Access, CellKey, CellResult, Grid, Pattern, Transfer};

/// One table of a grid: block sizes down, transfers and threads across.
#[derive(Clone, Debug, PartialEq)]
pub struct GridTable {
    /// Which way.
    pub access: Access,
    /// In which order.
    pub pattern: Pattern,
    /// The transfers: each has a column for each number of threads.
    pub transfers: Vec<Transfer>,
    /// Thread counts, rising.
    pub threads: Vec<u32>,
    /// Block sizes, rising.
    pub blocks: Vec<u64>,
}

impl GridTable {
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

/// The rates of one transfer divided by those of another, in otherwise equal cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRatio {
    /// The median.
    pub median: f64,
    /// The lowest and the highest.
    pub range: (f64, f64),
    /// Pairs of cells.
    pub pairs: usize,
}

/// The rates of `a` over those of `b` for one access; `None` without a pair of good cells.
#[must_use]
pub fn rate_ratio(grid: &Grid, access: Access, a: Transfer, b: Transfer) -> Option<RateRatio> {
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
    Some(RateRatio {
        median: *ratios.get(ratios.len() / 2)?,
        range: (*ratios.first()?, *ratios.last()?),
        pairs: ratios.len(),
    })
}

/// The slowest and the fastest rate of a grid, in bytes a second: the ends of its colours, at least ten times and at most a thousand times apart.
#[must_use]
pub fn rate_range(grid: &Grid) -> Option<(f64, f64)> {
    let rates = || grid.results.iter().flatten().filter(|r| r.error.is_none()).filter_map(|r| r.bytes_per_s);
    let best = rates().filter(|rate| rate.is_finite()).fold(0.0, f64::max);
    let least = rates().filter(|rate| *rate > 0.0).fold(best, f64::min);
    (best > 0.0).then(|| (least.clamp(best / 1000.0, best / 10.0), best))
}

/// The position of a rate between two others, by its logarithm: 0 at the slowest, 1 at the fastest.
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
    use crate::core::grid_testdata::with_gaps;

    #[test]
    fn the_effect_of_registering_is_that_of_pairs_that_differ_in_nothing_else() {
        let ratio = rate_ratio(&with_gaps(), Access::Read, Transfer::GdsRegistered, Transfer::Gds).unwrap();
        // Of four pairs one has wrong bytes, one failed and one is not there.
        assert!(ratio.pairs == 1 && (ratio.median - 1.5).abs() < 1e-9, "{ratio:?}");
        assert_eq!(rate_ratio(&with_gaps(), Access::Write, Transfer::GdsRegistered, Transfer::Gds), None);
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
        let (least, best) = rate_range(&with_gaps()).unwrap();
        assert!((best / least - 10.0).abs() < 1e-9, "{least} {best}");
    }
}
