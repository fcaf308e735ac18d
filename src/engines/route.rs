//! The route of transfers according to the counters of a library. It is proven only if the counters include all
//! transfers and all of their bytes.

use crate::core::{Access, Route, RouteCounts, units};

/// The transfers that a run made by the library, by the run's own count: a library that counts none of them may be wrong in its totals too.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    /// Minimum number of transfers.
    pub transfers: u64,
    /// The bytes of the transfers.
    pub bytes: u64,
}

/// The counters of a library between two readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// The direction of the transfers.
    pub(super) access: Access,
    /// The number of transfers with nvidia-fs, with P2PDMA and with POSIX calls.
    pub(super) by_route: [u64; 3],
    /// The bytes of the transfers that were counted by route.
    pub(super) bytes: u64,
    /// The number of all transfers.
    pub(super) all: u64,
    /// The bytes of all transfers.
    pub(super) all_bytes: u64,
    /// Whether the module nvidia-fs is loaded.
    pub(super) nvidia_fs_loaded: bool,
    /// GPUs for which transfers were counted. A run uses one.
    pub(super) gpus: usize,
}

impl Counted {
    /// The route of most transfers. If two routes are equal, the indirect one is returned. `None` if no transfer was
    /// counted by route.
    pub(super) fn route(&self, source: &str) -> Option<RouteCounts> {
        let [nvfs, p2p, posix] = self.by_route;
        let route = match (nvfs, p2p, posix) {
            (0, 0, 0) => return None,
            (n, p, c) if n >= p && n > c => Route::Nvfs,
            (_, p, c) if p > c => Route::P2pdma,
            _ => Route::Compat,
        };
        let doubt = self.doubt();
        Some(RouteCounts {
            route,
            nvfs_reads: Some(nvfs),
            p2p_reads: Some(p2p),
            posix_reads: Some(posix),
            proven: doubt.is_none(),
            source: doubt.map_or_else(|| source.to_owned(), |doubt| format!("{source}: {doubt}")),
        })
    }

    /// The reason why the counters do not prove a single route. `None` if they do.
    fn doubt(&self) -> Option<String> {
        let [nvfs, p2p, posix] = self.by_route;
        let name = self.access.name();
        let counted = nvfs.saturating_add(p2p).saturating_add(posix);
        let shares: Vec<String> =
            [("nvidia-fs", nvfs, "".to_owned()), ("P2PDMA", p2p, "".to_owned()), ("POSIX", posix, format!(" {name}s"))]
                .into_iter()
                .filter(|(_, transfers, _)| *transfers > 0)
                .map(|(route, transfers, kind)| format!("{} by {route}{kind}", units::count(transfers)))
                .collect();
        // Level 1 counts a transfer with POSIX calls twice, as a call and as its copy: 718 for 359 reads (libcufile
        // 1.15 on an H200, 2026-11-23). A large transfer needs several POSIX calls, so this is a lower bound. The
        // bytes are compared below.
        if counted.saturating_add(posix) < self.all {
            let (counted, all) = (units::count(counted), units::plural(self.all, name));
            return Some(format!("they count {counted} of {all}, {}", shares.join(", ")));
        }
        // For transfers on a stream, level 1 also counts the bytes twice: 2.8 GiB for 1.4 GiB (libcufile 1.15 on an
        // H200, 2026-11-23).
        let counted_twice = counted == posix && self.bytes.saturating_mul(2) == self.all_bytes;
        if self.bytes < self.all_bytes && !counted_twice {
            let (bytes, all) = (units::bytes(self.bytes), units::bytes(self.all_bytes));
            return Some(format!("they count {bytes} of {all}, {}", shares.join(", ")));
        }
        // Some versions count more bytes than were requested, for example complete blocks. No version counts twice as
        // many on a direct route.
        if posix == 0 && self.all_bytes > 0 && self.bytes / 2 >= self.all_bytes {
            let (bytes, all) = (units::bytes(self.bytes), units::bytes(self.all_bytes));
            return Some(format!("they count {bytes} of {all}, {}", shares.join(", ")));
        }
        if self.gpus > 1 {
            return Some(format!("they count transfers of {} GPUs, {}", self.gpus, shares.join(", ")));
        }
        if nvfs > 0 && !self.nvidia_fs_loaded {
            return Some(format!("the module nvidia-fs is not loaded, but they count {}", shares.join(", ")));
        }
        (shares.len() > 1).then(|| shares.join(", "))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ALL_NVFS: Counted = Counted {
        access: Access::Read,
        by_route: [311, 0, 0],
        bytes: 1 << 30,
        all: 311,
        all_bytes: 1 << 30,
        nvidia_fs_loaded: true,
        gpus: 1,
    };

    fn judged(counted: Counted) -> (Route, bool) {
        let judged = counted.route("statistics").unwrap();
        (judged.route, judged.proven)
    }

    #[test]
    fn a_route_is_proven_if_all_transfers_and_bytes_took_it() {
        assert_eq!(judged(ALL_NVFS), (Route::Nvfs, true));
        assert_eq!(
            judged(Counted { by_route: [0, 311, 0], nvidia_fs_loaded: false, ..ALL_NVFS }),
            (Route::P2pdma, true)
        );
        assert_eq!(
            judged(Counted { by_route: [0, 0, 311], nvidia_fs_loaded: false, ..ALL_NVFS }),
            (Route::Compat, true)
        );
        assert!(Counted { by_route: [0; 3], ..ALL_NVFS }.route("statistics").is_none());
    }

    #[test]
    fn level_1_counts_posix_transfers_twice() {
        let all = Counted { by_route: [0, 0, 359], all: 718, nvidia_fs_loaded: false, ..ALL_NVFS };
        assert_eq!(judged(all), (Route::Compat, true));
        // One of the 311 tensors needs seven POSIX calls.
        assert_eq!(judged(Counted { by_route: [0, 0, 317], all: 622, ..all }), (Route::Compat, true));
        assert_eq!(judged(Counted { bytes: all.all_bytes - 1, ..all }), (Route::Compat, false));
        // On a stream the bytes are also counted twice. Half of the bytes does not prove a direct route.
        assert_eq!(judged(Counted { bytes: all.all_bytes / 2, ..all }), (Route::Compat, true));
        let direct = Counted { by_route: [359, 0, 0], all: 359, nvidia_fs_loaded: true, ..all };
        assert_eq!(judged(Counted { bytes: all.all_bytes / 2, ..direct }), (Route::Nvfs, false));
        // The same count does not prove a direct route, because half of the transfers are missing.
        assert_eq!(judged(Counted { by_route: [359, 0, 0], nvidia_fs_loaded: true, ..all }), (Route::Nvfs, false));
    }

    #[test]
    fn missing_transfers_missing_bytes_a_missing_module_and_mixtures_are_no_proof() {
        assert_eq!(judged(Counted { by_route: [1, 0, 0], ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { by_route: [310, 0, 0], ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { by_route: [0, 0, 155], ..ALL_NVFS }), (Route::Compat, false));
        assert_eq!(judged(Counted { bytes: 4096, ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { nvidia_fs_loaded: false, ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { by_route: [310, 0, 1], ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { by_route: [156, 0, 156], ..ALL_NVFS }), (Route::Compat, false));
        assert_eq!(judged(Counted { bytes: 2 << 30, ..ALL_NVFS }), (Route::Nvfs, false));
        assert_eq!(judged(Counted { gpus: 2, ..ALL_NVFS }), (Route::Nvfs, false));
        let mixed = Counted { by_route: [310, 0, 1], ..ALL_NVFS }.route("statistics").unwrap();
        assert_eq!(mixed.source, "statistics: 310 by nvidia-fs, 1 by POSIX reads");
    }
}
