//! A grid of storage measurements: block size × threads × access × pattern × transfer, one cell each.

use super::access::Access;
use super::run::RouteCounts;
use super::workload::Percentiles;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The transfer method, as in the transfer types of NVIDIA's gdsio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transfer {
    /// cuFile into registered memory (gdsio `-x 0`).
    GdsRegistered,
    /// cuFile into unregistered memory. The library copies through its own buffers.
    Gds,
    /// `O_DIRECT` into pinned host memory, then a copy to the GPU (gdsio `-x 2`).
    CpuGpu,
    /// `O_DIRECT` into host memory without a GPU (gdsio `-x 1`).
    Cpu,
}

/// The order of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One block after another. Each thread has a separate region.
    Sequential,
    /// Random blocks in the region of each thread.
    Random,
}

macro_rules! named {
    ($type:ident, $what:literal, [$($variant:ident => $name:literal),+]) => {
        impl $type {
            /// All values, in the order in which tables list them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name on the command line and in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|one| one.name() == text).ok_or_else(|| {
                    format!(concat!("'{}' is not a known ", $what, "; use one of {}"), text, [$($name),+].join(", "))
                })
            }
        }
    };
}

impl Transfer {
    /// The transfer method in a few words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::GdsRegistered => "cuFile, memory registered before",
            Self::Gds => "cuFile, memory not registered",
            Self::CpuGpu => "O_DIRECT, then a copy to the GPU",
            Self::Cpu => "O_DIRECT into host memory, no GPU",
        }
    }
}

named!(Transfer, "transfer", [GdsRegistered => "gds-registered", Gds => "gds", CpuGpu => "cpu-gpu", Cpu => "cpu"]);
named!(Pattern, "pattern", [Sequential => "sequential", Random => "random"]);

impl Transfer {
    /// Whether it needs libcufile.
    #[must_use]
    pub const fn uses_cufile(self) -> bool {
        matches!(self, Self::GdsRegistered | Self::Gds)
    }
}

/// The parameters of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellKey {
    /// The transfer method.
    pub transfer: Transfer,
    /// Read or write.
    pub access: Access,
    /// The order of the blocks.
    pub pattern: Pattern,
    /// The bytes of one operation.
    pub block_bytes: u64,
    /// The number of threads. Each has its own file descriptor, buffer and region, and one operation in flight.
    pub threads: u32,
}

/// A grid that will be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridPlan {
    /// The directory whose storage is measured.
    pub dir: PathBuf,
    /// The target of the bytes: the name of a GPU, or `host memory`.
    pub target: String,
    /// The size in bytes of each of the two test files. They are created in `dir` and removed at the end.
    pub file_bytes: u64,
    /// The duration of a cell in nanoseconds.
    pub cell_ns: u64,
    /// The cells in the order in which they run.
    pub cells: Vec<CellKey>,
}

impl GridPlan {
    /// The distinct values of one axis, sorted.
    pub fn axis<T: Ord>(&self, of: impl Fn(&CellKey) -> T) -> Vec<T> {
        let mut values: Vec<T> = self.cells.iter().map(of).collect();
        values.sort();
        values.dedup();
        values
    }

    /// All cells of the axes. Reads are first, so that writes cannot affect them.
    #[must_use]
    pub fn cells_of(
        transfers: &[Transfer],
        accesses: &[Access],
        patterns: &[Pattern],
        blocks: &[u64],
        threads: &[u32],
    ) -> Vec<CellKey> {
        let mut cells = Vec::new();
        for &access in accesses {
            for &pattern in patterns {
                for &transfer in transfers {
                    for &block_bytes in blocks {
                        for &threads in threads {
                            cells.push(CellKey { transfer, access, pattern, block_bytes, threads });
                        }
                    }
                }
            }
        }
        cells.sort_by_key(|cell| cell.access);
        cells
    }
}

/// The result of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// The parameters of the cell.
    #[serde(flatten)]
    pub key: CellKey,
    /// The number of bytes that were moved.
    pub bytes: u64,
    /// The number of operations.
    pub operations: u64,
    /// The time from the common start of the threads to the end of the last one, in nanoseconds.
    pub wall_ns: u64,
    /// `bytes` divided by `wall_ns`, per second. `None` for a failed cell.
    pub bytes_per_s: Option<f64>,
    /// The latency of an operation.
    pub latency_ns: Option<Percentiles>,
    /// The CPU time of the process during the measurement (user and system), in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// The time to open, register and allocate before the clock starts, in nanoseconds.
    pub setup_ns: u64,
    /// The route of the cuFile operations and its source.
    pub route: Option<RouteCounts>,
    /// The number of bytes that were compared: the last block of each thread, on the target for reads and in the file
    /// for writes.
    #[serde(default)]
    pub checked_bytes: u64,
    /// Whether the compared bytes were correct. Recordings of earlier versions contain `true` even if only a part was
    /// compared, see [`Self::verified`].
    pub verified: Option<bool>,
    /// The reason why it failed, in a sentence.
    pub error: Option<String>,
    /// Whether the process of the measurement ended at this cell without a result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub died: bool,
}

impl CellResult {
    /// The result of a cell that could not be measured.
    #[must_use]
    pub fn failed(key: CellKey, why: impl Into<String>) -> Self {
        Self {
            key,
            bytes: 0,
            operations: 0,
            wall_ns: 0,
            bytes_per_s: None,
            latency_ns: None,
            cpu_ns: None,
            setup_ns: 0,
            route: None,
            checked_bytes: 0,
            verified: None,
            error: Some(why.into()),
            died: false,
        }
    }

    /// Whether all bytes were correct. `None` if only some were compared and those were correct.
    #[must_use]
    pub fn verified(&self) -> Option<bool> {
        self.verified.filter(|right| !right || (self.bytes > 0 && self.checked_bytes >= self.bytes))
    }
}

/// The colour of a value from 0 to 1. It is interpolated between five colours of matplotlib's viridis (CC0). Their
/// lightness increases, and they are readable with colour blindness.
#[must_use]
pub fn heat_colour(warmth: f64) -> (u8, u8, u8) {
    const STOPS: [(f64, f64, f64); 5] =
        [(68.0, 1.0, 84.0), (59.0, 82.0, 139.0), (33.0, 145.0, 140.0), (94.0, 201.0, 98.0), (253.0, 231.0, 37.0)];
    let at = if warmth.is_finite() { warmth.clamp(0.0, 1.0) * 4.0 } else { 0.0 };
    let below = (at as usize).min(3);
    let (low, high, share) = (STOPS[below], STOPS[below + 1], at - below as f64);
    let mix = |a: f64, b: f64| (a + (b - a) * share).round() as u8;
    (mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

/// The state of a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The plan.
    pub plan: GridPlan,
    /// Results in the order of the plan's cells; `None` if a cell has no result yet.
    pub results: Vec<Option<CellResult>>,
    /// The index of the running cell.
    pub running: Option<u32>,
    /// The progress of the test files: bytes written and total bytes. `None` when they are complete.
    pub written: Option<(u64, u64)>,
    /// Whether the grid has ended.
    pub ended: bool,
}

impl Grid {
    /// An empty grid.
    #[must_use]
    pub fn new(plan: GridPlan) -> Self {
        let results = vec![None; plan.cells.len()];
        Self { plan, results, running: None, written: None, ended: false }
    }

    /// Marks the grid as ended.
    pub const fn end(&mut self) {
        self.running = None;
        self.written = None;
        self.ended = true;
    }

    /// The result of a cell.
    #[must_use]
    pub fn result(&self, key: &CellKey) -> Option<&CellResult> {
        let at = self.plan.cells.iter().position(|cell| cell == key)?;
        self.results.get(at)?.as_ref()
    }

    /// The number of cells that have ended.
    #[must_use]
    pub fn done(&self) -> usize {
        self.results.iter().flatten().count()
    }

    /// The fastest successful result among those that `of` accepts.
    #[must_use]
    pub fn best(&self, of: impl Fn(&CellKey) -> bool) -> Option<&CellResult> {
        let good =
            self.results.iter().flatten().filter(|r| r.error.is_none() && r.verified != Some(false) && of(&r.key));
        good.filter(|r| r.bytes_per_s.is_some_and(f64::is_finite))
            .max_by(|a, b| a.bytes_per_s.unwrap_or(0.0).total_cmp(&b.bytes_per_s.unwrap_or(0.0)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn plan() -> GridPlan {
        GridPlan {
            dir: "/d".into(),
            target: "host memory".to_owned(),
            file_bytes: 1 << 20,
            cell_ns: 1,
            cells: GridPlan::cells_of(
                &[Transfer::Cpu],
                &[Access::Write, Access::Read],
                Pattern::ALL,
                &[1 << 20, 4096],
                &[1, 4],
            ),
        }
    }

    #[test]
    fn names_round_trip_and_unknown_ones_are_answered_with_the_known() {
        for transfer in Transfer::ALL {
            assert_eq!(transfer.to_string().parse::<Transfer>().unwrap(), *transfer);
        }
        assert!("gdx".parse::<Transfer>().unwrap_err().contains("gds-registered, gds, cpu-gpu, cpu"));
        assert!("up".parse::<Access>().is_err() && "zigzag".parse::<Pattern>().is_err());
    }

    #[test]
    fn reads_run_before_writes_and_each_combination_once() {
        let plan = plan();
        assert_eq!(plan.cells.len(), 16);
        let first_write = plan.cells.iter().position(|c| c.access == Access::Write).unwrap();
        assert!(plan.cells[first_write..].iter().all(|c| c.access == Access::Write));
        assert_eq!(plan.axis(|c| c.block_bytes), [4096, 1 << 20]);
        let mut once = plan.cells.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), 16);
    }

    #[test]
    fn heat_goes_from_dark_violet_to_yellow_and_never_leaves_the_scale() {
        assert_eq!((heat_colour(0.0), heat_colour(1.0)), ((68, 1, 84), (253, 231, 37)));
        assert_eq!(
            (heat_colour(-1.0), heat_colour(9.0), heat_colour(f64::NAN)),
            ((68, 1, 84), (253, 231, 37), (68, 1, 84))
        );
    }

    #[test]
    fn the_best_cell_is_a_good_one() {
        let plan = plan();
        let mut grid = Grid::new(plan.clone());
        for (i, key) in plan.cells.iter().enumerate() {
            let mut result = CellResult::failed(*key, "no");
            result.bytes_per_s = Some(100.0 - i as f64);
            if i > 2 {
                result.error = None;
            }
            result.verified = Some(i != 3);
            grid.results[i] = Some(result);
        }
        assert_eq!(grid.best(|_| true).unwrap().key, plan.cells[4]);
        assert_eq!(grid.done(), 16);
        assert!(grid.best(|c| c.threads == 99).is_none());
    }
}
