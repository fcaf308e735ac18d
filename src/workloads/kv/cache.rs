//! The page cache of stored files. It is made cold or hot before a read, and emptied before written files are
//! checked.

use crate::core::{CacheState, Note};
use crate::device;
use crate::trust::open_regular;
use rustix::fs::Advice;
use std::io::Read;
use std::path::PathBuf;

/// Maximum share of the bytes that may be cached in a cold run. Lookups read headers again, so some bytes are always
/// cached.
const COLD_ENOUGH: f64 = 0.02;

/// Brings the files into a cache state. Returns a note if they stayed in the page cache.
pub(super) fn prepare(files: &[PathBuf], state: CacheState) -> Option<Note> {
    match state {
        CacheState::AsIs => None,
        CacheState::Cold => {
            evict(files);
            let share = resident_fraction(files).filter(|share| *share > COLD_ENOUGH)?;
            Some(Note::FilesCached { share })
        }
        CacheState::Hot => {
            let mut buffer = vec![0; 1 << 20];
            for path in files {
                let Ok(mut file) = open_regular(path) else { continue };
                while matches!(file.read(&mut buffer), Ok(1..)) {}
            }
            None
        }
    }
}

/// Drops the files from the page cache after flushing dirty pages.
pub(super) fn evict(files: &[PathBuf]) {
    for path in files {
        let Ok(file) = open_regular(path) else { continue };
        let _ = rustix::fs::fdatasync(&file);
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    }
}

/// Share of the files' bytes in the page cache, 0 to 1; `None` if the kernel does not report it.
pub(super) fn resident_fraction(files: &[PathBuf]) -> Option<f64> {
    let (mut resident, mut total) = (0_u64, 0_u64);
    for path in files {
        let file = open_regular(path).ok()?;
        let length = file.metadata().ok()?.len();
        if length > 0 {
            resident += device::resident_bytes(&file, 0..length).ok()?.min(length);
        }
        total += length;
    }
    (total > 0).then(|| resident as f64 / total as f64)
}
