//! The tables and rate ranges of a grid of storage measurements.

use crate::core::{Access, CellKey, CellResult, Grid, Pattern, Transfer};

/// One table of a grid. Rows are block sizes, columns are transfers and thread counts.
#[derive(Clone, Debug, PartialEq)]
pub struct GridTable {
    /// Read or write.
    pub access: Access,
    /// The order of the offsets.
    pub pattern: Pattern,
    /// The transfers. Each has one column per thread count.
    pub transfers: Vec<Transfer>,
    /// The thread counts in ascending order.
    pub threads: Vec<u32>,
    /// The block sizes in bytes, in ascending order.
    pub blocks: Vec<u64>,
}

impl GridTable {
    /// The columns.
    pub fn columns(&self) -> impl Iterator<Item = (Transfer, u32)> + '_ {
        self.transfers.iter().flat_map(|transfer| self.threads.iter().map(|threads| (*transfer, *threads)))
    }

    /// The cell in a row and a column. `None` if it was not measured.
    #[must_use]
    pub const fn key(&self, block_bytes: u64, (transfer, threads): (Transfer, u32)) -> CellKey {
        CellKey { transfer, access: self.access, pattern: self.pattern, block_bytes, threads }
    }
}

/// The tables of a grid, reads first.
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

/// The rates of one transfer divided by those of another, in cells that are otherwise equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRatio {
    /// The median of the ratios.
    pub median: f64,
    /// The lowest and the highest ratio.
    pub range: (f64, f64),
    /// The number of pairs of cells.
    pub pairs: usize,
}

/// The rates of `a` divided by those of `b` for one access. `None` without a pair of successful cells.
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

/// The slowest and the fastest rate of a grid in bytes per second, for the colour scale. The ratio of the two is at
/// least 10 and at most 1000.
#[must_use]
pub fn rate_range(grid: &Grid) -> Option<(f64, f64)> {
    let rates = || grid.results.iter().flatten().filter(|r| r.error.is_none()).filter_map(|r| r.bytes_per_s);
    let best = rates().filter(|rate| rate.is_finite()).fold(0.0, f64::max);
    let least = rates().filter(|rate| *rate > 0.0).fold(best, f64::min);
    (best > 0.0).then(|| (least.clamp(best / 1000.0, best / 10.0), best))
}

/// The position of a rate on a logarithmic scale: 0 at the slowest rate, 1 at the fastest.
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
        // Of the four pairs, one has wrong bytes, one failed and one is missing.
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
        // Nearly equal rates must not get the extreme colours of the scale.
        let (least, best) = rate_range(&with_gaps()).unwrap();
        assert!((best / least - 10.0).abs() < 1e-9, "{least} {best}");
    }
}
