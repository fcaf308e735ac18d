//! The statistics of the library, levels 1 to 3, decoded with the layout of the loaded version.
//!
//! The structures grew in GDS 1.19 (level 1 from 512 to 624 bytes, which moves all later fields). So the library
//! writes to a large zeroed buffer, and fields are read by offset. Only level 3 counts reads by route. It is the only
//! proof of the route of a transfer.

use std::ffi::c_int;

use crate::driver::Driver;
use crate::error::Error;
use crate::library::Library;
use crate::raw::fns;

/// The size of the buffer in bytes. Level 3 of 1.20 needs 5112.
const ROOM_BYTES: usize = 16 * 1024;
const L1_BYTES: usize = 512;
const L1_BYTES_VECTORED: usize = 624;
const HISTOGRAM: usize = 32;
const GPU_BYTES: usize = 248;
/// The number of GPUs in level 3.
pub const MAX_GPUS: usize = 16;

/// The number of successes and failures of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounter {
    /// The number of successes.
    pub ok: u64,
    /// The number of failures.
    pub err: u64,
}

macro_rules! fields {
    ($(#[$doc:meta])* $name:ident { counters { $($counter:ident @ $c_at:literal),* $(,)? } numbers { $($number:ident @ $n_at:literal),* $(,)? } }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $(#[doc = concat!("The counter `", stringify!($counter), "` of cufile.h.")] pub $counter: OpCounter,)*
            $(#[doc = concat!("The number `", stringify!($number), "` of cufile.h. The end of its name is the unit.")] pub $number: u64,)*
        }

        impl $name {
            fn decode(room: &Room, at: usize) -> Self {
                Self {
                    $($counter: OpCounter { ok: room.number(at + $c_at), err: room.number(at + $c_at + 8) },)*
                    $($number: room.number(at + $n_at),)*
                }
            }

            /// The fields and their offsets in the C structure.
            pub const OFFSETS: &'static [(&'static str, usize)] =
                &[$((stringify!($counter), $c_at),)* $((stringify!($number), $n_at),)*];
        }
    };
}

fields! {
    /// `CUfileStatsLevel1_t` without its vectored part. Latencies are in microseconds, bandwidths in bytes per
    /// second.
    StatsL1Basic {
        counters {
            read_ops @ 0, write_ops @ 16, hdl_register_ops @ 32, hdl_deregister_ops @ 48, buf_register_ops @ 64, buf_deregister_ops @ 80,
            batch_submit_ops @ 176, batch_complete_ops @ 192, batch_setup_ops @ 208, batch_cancel_ops @ 224, batch_destroy_ops @ 240,
            batch_enqueued_ops @ 256, batch_posix_enqueued_ops @ 272, batch_processed_ops @ 288, batch_posix_processed_ops @ 304,
            batch_nvfs_submit_ops @ 320, batch_p2p_submit_ops @ 336, batch_aio_submit_ops @ 352, batch_iouring_submit_ops @ 368,
            batch_mixed_io_submit_ops @ 384, batch_total_submit_ops @ 400,
        }
        numbers {
            read_bytes @ 96, write_bytes @ 104, read_bw_bytes_per_sec @ 112, write_bw_bytes_per_sec @ 120, read_lat_avg_us @ 128,
            write_lat_avg_us @ 136, read_ops_per_sec @ 144, write_ops_per_sec @ 152, read_lat_sum_us @ 160, write_lat_sum_us @ 168,
            batch_read_bytes @ 416, batch_write_bytes @ 424, batch_read_bw_bytes @ 432, batch_write_bw_bytes @ 440,
            batch_submit_lat_avg_us @ 448, batch_completion_lat_avg_us @ 456, batch_submit_ops_per_sec @ 464,
            batch_complete_ops_per_sec @ 472, batch_submit_lat_sum_us @ 480, batch_completion_lat_sum_us @ 488,
            last_batch_read_bytes @ 496, last_batch_write_bytes @ 504,
        }
    }
}

fields! {
    /// The vectored transfers in `CUfileStatsLevel1_t` (since GDS 1.19).
    StatsVectored {
        counters { readv_ops @ 512, writev_ops @ 528 }
        numbers {
            readv_bytes @ 544, writev_bytes @ 552, readv_bw_bytes_per_sec @ 560, writev_bw_bytes_per_sec @ 568, readv_lat_avg_us @ 576,
            writev_lat_avg_us @ 584, readv_ops_per_sec @ 592, writev_ops_per_sec @ 600, readv_lat_sum_us @ 608, writev_lat_sum_us @ 616,
        }
    }
}

fields! {
    /// `CUfilePerGpuStats_t` without the UUID. `n_p2p_*`, `n_nvfs_*` and `n_posix_*` show the route.
    GpuCounters {
        counters {}
        numbers {
            read_bytes @ 16, read_bw_bytes_per_sec @ 24, read_utilization @ 32, read_duration_us @ 40, n_total_reads @ 48,
            n_p2p_reads @ 56, n_nvfs_reads @ 64, n_posix_reads @ 72, n_unaligned_reads @ 80, n_dr_reads @ 88, n_sparse_regions @ 96,
            n_inline_regions @ 104, n_reads_err @ 112, writes_bytes @ 120, write_bw_bytes_per_sec @ 128, write_utilization @ 136,
            write_duration_us @ 144, n_total_writes @ 152, n_p2p_writes @ 160, n_nvfs_writes @ 168, n_posix_writes @ 176,
            n_unaligned_writes @ 184, n_dr_writes @ 192, n_writes_err @ 200, n_mmap @ 208, n_mmap_ok @ 216, n_mmap_err @ 224,
            n_mmap_free @ 232, reg_bytes @ 240,
        }
    }
}

/// Level 1: the totals of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatsL1 {
    /// The fields that all versions with statistics have.
    pub basic: StatsL1Basic,
    /// Vectored transfers. `None` before GDS 1.19.
    pub vectored: Option<StatsVectored>,
}

/// Level 2: level 1 and size histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsL2 {
    /// Level 1.
    pub totals: StatsL1,
    /// Reads by size class (KiB, powers of two).
    pub read_size_kb_hist: [u64; HISTOGRAM],
    /// Writes by size class.
    pub write_size_kb_hist: [u64; HISTOGRAM],
}

/// The level-3 statistics of one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuStats {
    /// The UUID of the GPU as in CUDA.
    pub uuid: [u8; 16],
    /// The counters of the GPU.
    pub counters: GpuCounters,
}

/// Level 3: level 2 and the counters of each GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsL3 {
    /// Level 2.
    pub detailed: StatsL2,
    /// The GPUs with an entry, at most [`MAX_GPUS`]. It is empty for host memory.
    pub gpus: Vec<GpuStats>,
}

/// The C structures and the offsets of their fields, for a library with or without vectored transfers (since GDS
/// 1.19).
pub fn offsets(vectored: bool) -> Vec<(&'static str, Vec<(&'static str, usize)>)> {
    let mut l1 = StatsL1Basic::OFFSETS.to_vec();
    if vectored {
        l1.extend_from_slice(StatsVectored::OFFSETS);
    }
    let at = if vectored { L1_BYTES_VECTORED } else { L1_BYTES };
    let l2 = vec![("read_size_kb_hist", at), ("write_size_kb_hist", at + 8 * HISTOGRAM)];
    let l3 = vec![("num_gpus", at + 16 * HISTOGRAM), ("per_gpu_stats", at + 16 * HISTOGRAM + 8)];
    let gpu = GpuCounters::OFFSETS.to_vec();
    vec![
        ("CUfileStatsLevel1_t", l1),
        ("CUfileStatsLevel2_t", l2),
        ("CUfileStatsLevel3_t", l3),
        ("CUfilePerGpuStats_t", gpu),
    ]
}

/// The buffer that the library fills. It is aligned for u64 fields.
struct Room {
    words: Vec<u64>,
    l1_bytes: usize,
    vectored: bool,
}

impl Room {
    fn new(vectored: bool) -> Self {
        Self { words: vec![0; ROOM_BYTES / 8], l1_bytes: if vectored { L1_BYTES_VECTORED } else { L1_BYTES }, vectored }
    }

    /// The u64 at a byte offset. The offset of every field is a multiple of 8. After the end of the buffer the value
    /// is 0.
    fn number(&self, at: usize) -> u64 {
        self.words.get(at / 8).copied().unwrap_or(0)
    }

    fn l1(&self) -> StatsL1 {
        StatsL1 {
            basic: StatsL1Basic::decode(self, 0),
            vectored: self.vectored.then(|| StatsVectored::decode(self, 0)),
        }
    }

    fn l2(&self) -> StatsL2 {
        let histogram = |at: usize| std::array::from_fn(|i| self.number(at + 8 * i));
        StatsL2 {
            totals: self.l1(),
            read_size_kb_hist: histogram(self.l1_bytes),
            write_size_kb_hist: histogram(self.l1_bytes + 8 * HISTOGRAM),
        }
    }

    fn l3(&self) -> StatsL3 {
        let at = self.l1_bytes + 2 * 8 * HISTOGRAM;
        // num_gpus is the lower half of the word. The other half is padding.
        let gpus = (self.number(at) & 0xffff_ffff).min(MAX_GPUS as u64) as usize;
        let gpus = (0..gpus).map(|i| {
            let at = at + 8 + i * GPU_BYTES;
            let mut uuid = [0; 16];
            uuid[..8].copy_from_slice(&self.number(at).to_ne_bytes());
            uuid[8..].copy_from_slice(&self.number(at + 8).to_ne_bytes());
            GpuStats { uuid, counters: GpuCounters::decode(self, at) }
        });
        StatsL3 { detailed: self.l2(), gpus: gpus.collect() }
    }
}

impl Library {
    /// Sets what is counted, from 0 (nothing) to 3 (everything). Above 0, processes with older libraries crashed at
    /// exit (rapidsai/kvikio#497), so use it only in a process that can crash without harm.
    ///
    /// # Errors
    /// The error of `cuFileSetStatsLevel`, or [`Error::MissingSymbol`] before GDS 1.15.
    pub fn set_stats_level(&self, level: u8) -> Result<(), Error> {
        let f = self.need(self.symbols().set_stats_level, "cuFileSetStatsLevel")?;
        // SAFETY: the argument is a number.
        self.check("cuFileSetStatsLevel", unsafe { f(c_int::from(level)) })
    }
}

impl Driver {
    /// Starts the counters.
    ///
    /// # Errors
    /// The error of `cuFileStatsStart`, or [`Error::MissingSymbol`] before GDS 1.15.
    pub fn stats_start(&self) -> Result<(), Error> {
        self.plain(self.library().symbols().stats_start, "cuFileStatsStart")
    }

    /// Stops the counters.
    ///
    /// # Errors
    /// The error of `cuFileStatsStop`, or [`Error::MissingSymbol`] before GDS 1.15.
    pub fn stats_stop(&self) -> Result<(), Error> {
        self.plain(self.library().symbols().stats_stop, "cuFileStatsStop")
    }

    /// Resets all counters.
    ///
    /// # Errors
    /// The error of `cuFileStatsReset`, or [`Error::MissingSymbol`] before GDS 1.15.
    pub fn stats_reset(&self) -> Result<(), Error> {
        self.plain(self.library().symbols().stats_reset, "cuFileStatsReset")
    }

    /// The level-3 counters. Reading them takes 5 to 15 µs.
    ///
    /// # Errors
    /// The error of `cuFileGetStatsL3`, or [`Error::MissingSymbol`] before GDS 1.15.
    pub fn stats_l3(&self) -> Result<StatsL3, Error> {
        self.fill(self.library().symbols().get_stats_l3, "cuFileGetStatsL3").map(|room| room.l3())
    }

    fn plain(&self, f: Option<fns::Plain>, name: &'static str) -> Result<(), Error> {
        let f = self.library().need(f, name)?;
        // SAFETY: the function has no arguments, and the driver is open.
        self.library().check(name, unsafe { f() })
    }

    fn fill(&self, f: Option<fns::GetStats>, name: &'static str) -> Result<Room, Error> {
        let f = self.library().need(f, name)?;
        let mut room = Room::new(self.library().has_vectored_stats());
        // SAFETY: the largest structure of the newest version has 5112 bytes. The buffer has 16 KiB, is zeroed, and
        // is aligned to 8.
        self.library().check(name, unsafe { f(room.words.as_mut_ptr().cast()) })?;
        Ok(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer in which each word contains its offset.
    fn telling(vectored: bool) -> Room {
        let mut room = Room::new(vectored);
        for (i, word) in room.words.iter_mut().enumerate() {
            *word = 8 * i as u64;
        }
        room
    }

    #[test]
    fn levels_move_by_112_bytes_at_1_19() {
        for (vectored, l1) in [(false, 512), (true, 624)] {
            let mut room = telling(vectored);
            room.words[(l1 + 512) / 8] = 0xdead_beef_0000_0002;
            let stats = room.l3();
            assert_eq!(stats.gpus.len(), 2);
            assert_eq!(stats.gpus[0].counters.n_posix_reads, (l1 + 512 + 8 + 72) as u64);
            assert_eq!(stats.gpus[1].counters.reg_bytes, (l1 + 512 + 8 + 248 + 240) as u64);
            assert_eq!(stats.detailed.read_size_kb_hist[0], l1 as u64);
            assert_eq!(stats.detailed.write_size_kb_hist[31], (l1 + 504) as u64);
            assert_eq!(stats.detailed.totals.vectored.map(|v| v.writev_lat_sum_us), vectored.then_some(616));
            assert_eq!(stats.detailed.totals.basic.batch_total_submit_ops, OpCounter { ok: 400, err: 408 });
        }
    }

    #[test]
    fn a_wild_number_of_gpus_stays_within_the_room() {
        let mut room = telling(false);
        room.words[1024 / 8] = u64::MAX;
        assert_eq!(room.l3().gpus.len(), MAX_GPUS);
    }

    #[test]
    fn fields_fill_their_structures_without_a_gap() {
        let bytes = |offsets: &[(&str, usize)], counters: usize| 8 * offsets.len() + 8 * counters;
        assert_eq!(bytes(StatsL1Basic::OFFSETS, 21), L1_BYTES);
        assert_eq!(bytes(StatsVectored::OFFSETS, 2), L1_BYTES_VECTORED - L1_BYTES);
        assert_eq!(bytes(GpuCounters::OFFSETS, 0) + 16, GPU_BYTES);
    }
}
