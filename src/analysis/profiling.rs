//! The profiling overhead: the times of the same load in three modes.

use super::against::{Doubt, MOST_NOISE, is_busy};
use crate::core::median::median;
use crate::core::{CacheState, Engine};

/// A mode of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfilingMode {
    /// Without meters and output.
    Bare,
    /// With meters.
    Headless,
    /// With meters and the screens.
    Screens,
}

impl ProfilingMode {
    /// All modes, in the order of [`ProfilingOverhead::walls`].
    pub const ALL: [Self; 3] = [Self::Bare, Self::Headless, Self::Screens];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Headless => "headless",
            Self::Screens => "screens",
        }
    }
}

/// The times of one engine.
#[derive(Clone, Debug)]
pub struct ProfilingOverhead {
    /// The engine.
    pub engine: Engine,
    /// The cache state.
    pub cache: CacheState,
    /// The loaded bytes.
    pub bytes: u64,
    /// The times in nanoseconds by mode, in the order of [`ProfilingMode::ALL`].
    pub walls: [Vec<u64>; 3],
    /// The share of the time in which at least one task waited for a CPU, 0 to 1, for each session with meters.
    pub pressures: Vec<f64>,
}

impl ProfilingOverhead {
    /// The median time of a mode in nanoseconds.
    #[must_use]
    pub fn median_ns(&self, mode: ProfilingMode) -> f64 {
        let walls: Vec<f64> = self.walls[mode as usize].iter().map(|ns| *ns as f64).collect();
        median(&walls).unwrap_or(f64::NAN)
    }

    /// The time divided by that of the bare load. It is above 1 if there is overhead.
    #[must_use]
    pub fn ratio(&self, mode: ProfilingMode) -> f64 {
        self.median_ns(mode) / self.median_ns(ProfilingMode::Bare)
    }

    /// The largest deviation of a bare load from the median, as a share. Smaller differences are noise. `None` for a
    /// single load.
    #[must_use]
    pub fn noise(&self) -> Option<f64> {
        let middle = self.median_ns(ProfilingMode::Bare);
        let apart = self.walls[0].iter().map(|ns| (*ns as f64 - middle).abs() / middle);
        (self.walls[0].len() > 1).then(|| apart.fold(0.0, f64::max))
    }

    /// The median share of the time in which at least one task waited for a CPU.
    #[must_use]
    pub fn pressure(&self) -> f64 {
        median(&self.pressures).unwrap_or(0.0)
    }

    /// The reason why the ratios show nothing.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        match self.noise() {
            _ if is_busy(self.pressure()) => Some(Doubt::BusyCpus),
            Some(noise) if noise > MOST_NOISE => Some(Doubt::Spread),
            _ => None,
        }
    }

    /// The modes whose ratio differs from 1 by more than the noise. `None` if the noise is unknown.
    #[must_use]
    pub fn beyond_noise(&self) -> Option<Vec<ProfilingMode>> {
        let noise = self.noise()?;
        Some(ProfilingMode::ALL.into_iter().filter(|mode| (self.ratio(*mode) - 1.0).abs() > noise).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_medians_and_noise_is_the_spread_of_the_bare_loads() {
        use ProfilingMode::{Headless, Screens};
        let walls = [vec![100, 90, 110], vec![101, 400, 99], vec![120, 120, 120]];
        let (engine, cache, pressures) = (Engine::Pread, CacheState::Hot, vec![0.1, 0.9, 0.2]);
        let overhead = ProfilingOverhead { engine, cache, bytes: 1000, walls, pressures };
        assert!((overhead.ratio(Headless) - 1.01).abs() < 1e-9 && (overhead.ratio(Screens) - 1.2).abs() < 1e-9);
        assert!(overhead.noise().is_some_and(|noise| (noise - 0.1).abs() < 1e-9));
        assert_eq!((overhead.beyond_noise(), overhead.doubt()), (Some(vec![Screens]), None));
        let busy = ProfilingOverhead { pressures: vec![0.9, 0.6, 0.1], ..overhead.clone() };
        assert_eq!(busy.doubt(), Some(Doubt::BusyCpus));
        let wide = ProfilingOverhead { walls: [vec![100, 160, 100], vec![100], vec![100]], ..overhead.clone() };
        assert_eq!(wide.doubt(), Some(Doubt::Spread));
        // All runs are within the noise, even if all are on one side of the median.
        let skewed = ProfilingOverhead { walls: [vec![100, 95, 140], vec![100], vec![100]], ..overhead };
        assert!(skewed.noise().is_some_and(|noise| (noise - 0.4).abs() < 1e-9));
        assert_eq!(skewed.beyond_noise(), Some(Vec::new()));
        let once = ProfilingOverhead { walls: [vec![100], vec![100], vec![100]], ..skewed };
        assert!(once.noise().is_none() && once.beyond_noise().is_none());
    }
}
