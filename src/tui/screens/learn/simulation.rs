//! The simulation in the lesson: a load tensor by tensor, with the values of the sliders. It is computed and not
//! measured.

/// The positions of the sliders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Simulation {
    /// The index of the tensor size in [`Self::SIZES`].
    pub(crate) size: usize,
    /// The index of the overhead per tensor in [`Self::COSTS`].
    pub(crate) cost: usize,
}

impl Default for Simulation {
    fn default() -> Self {
        // These values are similar to Qwen3-0.6B on the H200 of the recordings.
        Self { size: 4, cost: 5 }
    }
}

impl Simulation {
    /// Tensor sizes in bytes.
    pub(crate) const SIZES: [u64; 9] =
        [64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 42 << 20, 128 << 20, 512 << 20];
    /// Overheads per tensor in nanoseconds.
    pub(crate) const COSTS: [u64; 9] = [0, 20_000, 50_000, 100_000, 300_000, 800_000, 1_500_000, 2_700_000, 5_000_000];

    /// The selected tensor size in bytes.
    pub(crate) fn size_bytes(self) -> u64 {
        Self::SIZES[self.size.min(Self::SIZES.len() - 1)]
    }

    /// The selected overhead per tensor in nanoseconds.
    pub(crate) fn cost_ns(self) -> u64 {
        Self::COSTS[self.cost.min(Self::COSTS.len() - 1)]
    }

    /// Time in nanoseconds to load `bytes` on `slots` slots that move `bytes_per_s` in total. Each slot loads one
    /// tensor after another.
    pub(crate) fn wall_ns(self, bytes: u64, bytes_per_s: f64, slots: u64) -> f64 {
        let tensors = bytes.div_ceil(self.size_bytes().max(1)) as f64;
        tensors * self.cost_ns() as f64 / slots.max(1) as f64 + bytes as f64 * 1e9 / bytes_per_s.max(1.0)
    }

    /// Share of that time in which no bytes move.
    pub(crate) fn overhead(self, bytes: u64, bytes_per_s: f64, slots: u64) -> f64 {
        let all = self.wall_ns(bytes, bytes_per_s, slots);
        1.0 - bytes as f64 * 1e9 / bytes_per_s.max(1.0) / all.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulation_pays_each_tensor_once_a_slot() {
        let free = Simulation { size: 4, cost: 0 };
        assert!((free.wall_ns(1_000_000_000, 1e9, 1) - 1e9).abs() < 1.0);
        let paid = Simulation { size: 2, cost: 3 };
        let tensors = 1_000_000_000_u64.div_ceil(1 << 20) as f64;
        assert!((paid.wall_ns(1_000_000_000, 1e9, 1) - 1e9 - tensors * 100_000.0).abs() < 1.0);
        assert!(paid.overhead(1_000_000_000, 1e9, 1) > 0.08 && free.overhead(1_000_000_000, 1e9, 4).abs() < 1e-9);
    }
}
