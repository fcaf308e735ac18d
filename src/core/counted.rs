//! The route of transfers according to the counters of libcufile. It is proven only if the counters include all
//! transfers and exactly the bytes that the caller itself transferred.

use super::{Access, Route, RouteCounts, units};
use std::ops::RangeInclusive;

/// The bytes of the smallest piece into which libcufile divides a transfer.
const PIECE_BYTES: u64 = 4096;

/// The transfers that were made with the library, by the caller's own count. A library that counts none of them, or
/// each twice, is wrong in its totals too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The minimum and maximum number of transfers.
    pub transfers: RangeInclusive<u64>,
    /// The minimum and maximum of their bytes. They differ if a part of the transfers was repeated without the library,
    /// or if reads exceeded the end of a file: the library may count the bytes that were requested.
    pub bytes: RangeInclusive<u64>,
    /// The number of further transfers, which failed and were made without the library. Its counters prove nothing about
    /// them.
    pub repeated: u64,
}

impl Made {
    /// Transfers whose number and bytes are known.
    #[must_use]
    pub const fn exactly(transfers: u64, bytes: u64) -> Self {
        Self { transfers: transfers..=transfers, bytes: bytes..=bytes, repeated: 0 }
    }

    /// Transfers that may have been divided, with a known number of bytes.
    #[must_use]
    pub const fn at_least(transfers: u64, bytes: u64) -> Self {
        Self { transfers: transfers..=u64::MAX, bytes: bytes..=bytes, repeated: 0 }
    }

    /// The most bytes that the library may count. A transfer that does not begin and end at the limit of a block may be
    /// counted with its complete blocks. That is never twice as much.
    fn most_bytes(&self) -> u64 {
        let most = *self.bytes.end();
        let blocks = self.transfers.end().saturating_mul(2 * (PIECE_BYTES - 1));
        most.saturating_add(blocks.min(most / 2))
    }

    /// The most transfers that the library may count: each twice, as level 1 of libcufile 1.15 does (718 for 359 reads
    /// on an H200, 2026-11-23), and each piece of a divided transfer.
    fn most_transfers(&self) -> u64 {
        self.transfers.end().saturating_mul(2).saturating_add(self.bytes.end() / PIECE_BYTES)
    }
}

/// The counters of a library between two readings.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The direction of the transfers.
    pub access: Access,
    /// The number of transfers with nvidia-fs, with P2PDMA and with POSIX calls.
    pub by_route: [u64; 3],
    /// The bytes of the transfers that were counted by route.
    pub bytes: u64,
    /// The number of all transfers that level 1 counts. 0 if it is unknown.
    pub all: u64,
    /// The bytes of all transfers that level 1 counts. 0 if they are unknown.
    pub all_bytes: u64,
    /// Whether the module nvidia-fs is loaded.
    pub nvidia_fs_loaded: bool,
    /// The reads of all processes that nvidia-fs counted. `None` if it does not count.
    pub nvidia_fs_reads: Option<u64>,
    /// GPUs for which transfers were counted. `None` if the transfers may belong to several GPUs.
    pub gpus: Option<usize>,
}

impl Counted {
    /// The route of most transfers. If two routes are equal, the indirect one is returned. `None` if no transfer was
    /// counted by route.
    #[must_use]
    pub fn route(&self, made: &Made, source: &str) -> Option<RouteCounts> {
        let [nvfs, p2p, posix] = self.by_route;
        let route = match (nvfs, p2p, posix) {
            (0, 0, 0) => return None,
            (n, p, c) if n >= p && n > c => Route::Nvfs,
            (_, p, c) if p > c => Route::P2pdma,
            _ => Route::Compat,
        };
        let doubt = self.doubt(made);
        Some(RouteCounts {
            route,
            nvfs_reads: Some(nvfs),
            p2p_reads: Some(p2p),
            posix_reads: Some(posix),
            proven: doubt.is_none(),
            source: doubt.map_or_else(|| source.to_owned(), |doubt| format!("{source}: {doubt}")),
        })
    }

    /// The reason why the counters do not prove a single route for all transfers. `None` if they do.
    #[must_use]
    pub fn doubt(&self, made: &Made) -> Option<String> {
        let [nvfs, p2p, posix] = self.by_route;
        let name = self.access.name();
        let counted = self.by_route.iter().fold(0, |sum: u64, more| sum.saturating_add(*more));
        let shares: Vec<String> =
            [("nvidia-fs", nvfs, "".to_owned()), ("P2PDMA", p2p, "".to_owned()), ("POSIX", posix, format!(" {name}s"))]
                .into_iter()
                .filter(|(_, transfers, _)| *transfers > 0)
                .map(|(route, transfers, kind)| format!("{} by {route}{kind}", units::count(transfers)))
                .collect();
        // Level 1 may count each transfer twice.
        let least = (*made.transfers.start()).max(self.all.div_ceil(2));
        if counted < least || counted > made.most_transfers() {
            let all = units::plural(if counted < least { least } else { *made.transfers.end() }, name);
            return Some(format!("they count {} of {all}, {}", units::count(counted), shares.join(", ")));
        }
        // If the caller does not know its bytes, they are compared with level 1 too. For transfers on a stream, it counts
        // the bytes twice: 2.8 GiB for 1.4 GiB (libcufile 1.15 on an H200, 2026-11-23).
        let is_known = made.bytes.start() == made.bytes.end();
        let counted_twice = counted == posix && self.bytes.saturating_mul(2) == self.all_bytes;
        let least = if is_known || counted_twice { 0 } else { self.all_bytes }.max(*made.bytes.start());
        if self.bytes < least || self.bytes > made.most_bytes() {
            let all = units::bytes(if self.bytes < least { least } else { *made.bytes.end() });
            return Some(format!("they count {} of {all}, {}", units::bytes(self.bytes), shares.join(", ")));
        }
        if let Some(gpus @ 2..) = self.gpus {
            return Some(format!("they count transfers of {gpus} GPUs, {}", shares.join(", ")));
        }
        if nvfs > 0 && !self.nvidia_fs_loaded {
            return Some(format!("the module nvidia-fs is not loaded, but they count {}", shares.join(", ")));
        }
        if nvfs > 0 && self.access == Access::Read && self.nvidia_fs_reads == Some(0) {
            return Some(format!("nvidia-fs itself counted no read, but they count {}", shares.join(", ")));
        }
        if nvfs.saturating_add(p2p) > 0 && made.repeated > 0 {
            let repeated = units::plural(made.repeated, name);
            return Some(format!("{repeated} failed and came by another route, {}", shares.join(", ")));
        }
        (shares.len() > 1).then(|| shares.join(", "))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MADE: u64 = 311;
    const BYTES: u64 = 1 << 30;
    const ALL_NVFS: Counted = Counted {
        access: Access::Read,
        by_route: [MADE, 0, 0],
        bytes: BYTES,
        all: MADE,
        all_bytes: BYTES,
        nvidia_fs_loaded: true,
        nvidia_fs_reads: None,
        gpus: Some(1),
    };
    const ALL_POSIX: Counted =
        Counted { by_route: [0, 0, MADE], all: 2 * MADE, nvidia_fs_loaded: false, gpus: Some(1), ..ALL_NVFS };

    fn judged_of(counted: Counted, made: &Made) -> (Route, bool) {
        let judged = counted.route(made, "statistics").unwrap();
        (judged.route, judged.proven)
    }

    fn judged(counted: Counted) -> (Route, bool) {
        judged_of(counted, &Made::exactly(MADE, BYTES))
    }

    #[test]
    fn a_route_is_proven_if_all_transfers_and_bytes_took_it() {
        assert_eq!(judged(ALL_NVFS), (Route::Nvfs, true));
        assert_eq!(judged(Counted { nvidia_fs_reads: Some(9), ..ALL_NVFS }), (Route::Nvfs, true));
        let p2p = Counted { by_route: [0, MADE, 0], nvidia_fs_loaded: false, ..ALL_NVFS };
        assert_eq!(judged(p2p), (Route::P2pdma, true));
        assert_eq!(judged(ALL_POSIX), (Route::Compat, true));
        assert!(Counted { by_route: [0; 3], ..ALL_NVFS }.route(&Made::exactly(MADE, BYTES), "statistics").is_none());
        // Level 1 is not needed if the caller knows its transfers.
        assert_eq!(judged(Counted { all: 0, all_bytes: 0, ..ALL_NVFS }), (Route::Nvfs, true));
    }

    #[test]
    fn transfers_that_are_counted_twice_with_the_right_bytes_are_a_proof() {
        assert_eq!(judged(Counted { all: 2 * MADE, ..ALL_NVFS }), (Route::Nvfs, true));
        assert_eq!(judged(Counted { by_route: [2 * MADE, 0, 0], all: 2 * MADE, ..ALL_NVFS }), (Route::Nvfs, true));
        // One of the 311 tensors needs seven POSIX calls.
        assert_eq!(judged(Counted { by_route: [0, 0, MADE + 6], ..ALL_POSIX }), (Route::Compat, true));
        // On a stream, level 1 counts the bytes twice too.
        assert_eq!(judged(Counted { all_bytes: 2 * BYTES, ..ALL_POSIX }), (Route::Compat, true));
    }

    #[test]
    fn bytes_of_complete_blocks_are_a_proof_and_twice_the_bytes_are_none() {
        for (transfers, bytes, counted, proven) in [
            (MADE, BYTES, BYTES + MADE * 8190, true),
            (MADE, BYTES, BYTES + MADE * 8190 + 1, false),
            (MADE, BYTES, 2 * BYTES, false),
            (MADE, BYTES, BYTES - 1, false),
            (MADE, BYTES, BYTES / 2, false),
            (MADE, MADE * 4096, MADE * 4096, true),
            (MADE, MADE * 4096, MADE * 8192, false),
            (1, 4096, 8192, false),
            (1, 1, 2, false),
        ] {
            for by_route in [[transfers, 0, 0], [0, transfers, 0], [0, 0, transfers]] {
                for times in [1, 2] {
                    let by_route = by_route.map(|count| count * times);
                    let read = Counted { by_route, bytes: counted, all: 0, all_bytes: times * counted, ..ALL_NVFS };
                    let (_, is_proven) = judged_of(read, &Made::exactly(transfers, bytes));
                    assert_eq!(is_proven, proven, "{read:?} for {transfers} of {bytes}");
                }
            }
        }
    }

    #[test]
    fn reads_past_the_end_of_a_file_may_be_counted_as_requested_or_as_returned() {
        let made = Made { transfers: MADE..=MADE, bytes: BYTES - 5000..=BYTES, repeated: 0 };
        for (bytes, proven) in [(BYTES - 5001, false), (BYTES - 5000, true), (BYTES, true), (2 * BYTES, false)] {
            assert_eq!(judged_of(Counted { bytes, all_bytes: bytes, ..ALL_NVFS }, &made).1, proven, "{bytes}");
        }
    }

    #[test]
    fn without_a_known_number_of_bytes_level_1_must_agree() {
        let made = Made { transfers: 1..=MADE, bytes: 1..=BYTES, repeated: 0 };
        assert_eq!(judged_of(ALL_NVFS, &made), (Route::Nvfs, true));
        assert_eq!(judged_of(Counted { bytes: BYTES / 2, ..ALL_NVFS }, &made), (Route::Nvfs, false));
        let half = Counted { bytes: BYTES / 2, all_bytes: BYTES, ..ALL_POSIX };
        assert_eq!(judged_of(half, &made), (Route::Compat, true));
        assert!(!judged_of(Counted { bytes: 2 * BYTES, all_bytes: 2 * BYTES, ..ALL_NVFS }, &made).1);
        assert!(!judged_of(Counted { by_route: [MADE / 2, 0, 0], all: MADE, ..ALL_NVFS }, &made).1);
    }

    #[test]
    fn a_transfer_that_was_repeated_without_the_library_leaves_no_direct_route_proven() {
        let made = Made { repeated: 1, ..Made::exactly(MADE, BYTES) };
        assert_eq!(judged_of(ALL_NVFS, &made), (Route::Nvfs, false));
        assert!(ALL_NVFS.doubt(&made).unwrap().contains("1 read failed"));
        // Compat mode reads files in the same way.
        assert_eq!(judged_of(ALL_POSIX, &made), (Route::Compat, true));
    }

    #[test]
    fn missing_transfers_missing_bytes_a_missing_module_and_mixtures_are_no_proof() {
        assert_eq!(judged(Counted { by_route: [1, 0, 0], ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { by_route: [MADE - 1, 0, 0], ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { by_route: [0, 0, 155], ..ALL_NVFS }), (Route::Compat, false));
        assert_eq!(judged(Counted { by_route: [u64::MAX, 1, 0], ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { all: 2 * MADE + 1, ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { bytes: 4096, ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { bytes: u64::MAX, all_bytes: u64::MAX, ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { nvidia_fs_loaded: false, ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { nvidia_fs_reads: Some(0), ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { by_route: [MADE - 1, 0, 1], ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { by_route: [156, 0, 156], ..ALL_NVFS }), (Route::Compat, false));
        assert_eq!(judged(Counted { gpus: Some(2), ..ALL_NVFS }), (Route::Nvfs, false));
        let mixed = Counted { by_route: [310, 0, 1], ..ALL_NVFS }.route(&Made::exactly(MADE, BYTES), "statistics");
        assert_eq!(mixed.unwrap().source, "statistics: 310 by nvidia-fs, 1 by POSIX reads");
    }
}
