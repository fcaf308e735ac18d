//! Ceilings: rates measured in the same session that no complete load on this machine can exceed on average.

use super::median::median;
use super::units;
use serde::{Deserialize, Serialize};

/// The kind of a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingKind {
    /// Copies from pinned host memory to the GPU.
    PinnedCopy,
    /// `O_DIRECT` reads of the model's files by a plain reader, without copies to a target.
    DirectRead,
    /// Reads of the model's files from the page cache by a plain reader, without copies to a target.
    CachedRead,
}

impl CeilingKind {
    /// Its name in sentences: `the pinned copy rate`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::PinnedCopy => "pinned copy rate",
            Self::DirectRead => "O_DIRECT read rate",
            Self::CachedRead => "page-cache read rate",
        }
    }
}

/// A measured ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The kind of the ceiling.
    pub kind: CeilingKind,
    /// UUID or ordinal of the GPU. It is set for copies only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// The name of the model. It is set for reads only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The rate in bytes per second.
    pub bytes_per_s: f64,
    /// The method of its measurement: block size and threads.
    pub how: String,
    /// The duration of its measurement in nanoseconds.
    pub took_ns: u64,
    /// The fastest setting of the plain reader. It is set for `O_DIRECT` reads only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<ReaderSetting>,
    /// Complete reads of the files that alternate with the cold loads. If there are any, `bytes_per_s` is their
    /// median.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<ReadPass>,
}

impl Ceiling {
    /// Adds a pass. The rate is then the median of all passes.
    pub fn add_pass(&mut self, pass: ReadPass, took_ns: u64) {
        self.passes.push(pass);
        self.took_ns = self.took_ns.saturating_add(took_ns);
        let rates: Vec<f64> = self.passes.iter().map(|pass| pass.bytes_per_s).collect();
        self.bytes_per_s = median(&rates).unwrap_or(self.bytes_per_s);
        if let Some(reader) = self.reader {
            self.how = format!(
                "every block of the files once, pages dropped first, by {} threads with blocks of {}, the best setting of a short sweep; alternating with the cold loads, median of {}",
                reader.threads,
                units::bytes(reader.block_bytes),
                if rates.len() == 1 { "one pass".to_owned() } else { format!("{} passes", rates.len()) }
            );
        }
    }
}

/// The setting of a plain reader. Each thread reads one block after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReaderSetting {
    /// The block size in bytes.
    pub block_bytes: u64,
    /// The number of threads, which is also the number of reads in flight.
    pub threads: u64,
}

/// One read of all files of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadPass {
    /// The repeat of the loads that followed this pass.
    pub round: u32,
    /// Its rate in bytes per second.
    pub bytes_per_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_median_of_the_passes() {
        let mut ceiling = Ceiling {
            kind: CeilingKind::DirectRead,
            gpu: None,
            model: None,
            bytes_per_s: 9e9,
            how: "a burst".to_owned(),
            took_ns: 5,
            reader: Some(ReaderSetting { block_bytes: 1 << 20, threads: 8 }),
            passes: Vec::new(),
        };
        let mut rates = Vec::new();
        for (round, bytes_per_s) in [(0, 3e9), (1, 1e9), (2, 2e9), (3, 7e9)] {
            ceiling.add_pass(ReadPass { round, bytes_per_s }, 10);
            rates.push(ceiling.bytes_per_s);
        }
        assert_eq!(rates, [3e9, 2e9, 2e9, 2.5e9]);
        assert_eq!((ceiling.took_ns, ceiling.passes.len()), (45, 4));
        assert!(ceiling.how.contains("8 threads with blocks of 1 MiB") && ceiling.how.contains("4 passes"));
    }
}
