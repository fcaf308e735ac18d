//! Compares every byte with the expected content: on the target after a read; in the files or in host memory after a
//! write. The files are dropped from the page cache first.

use super::cache;
use super::content;
use super::order::Method;
use super::shared::Shared;
use super::store::failed;
use crate::engines::{LoadError, run_workers};
use crate::trust::shown;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of bytes that are compared at a time.
const STEP: u64 = 4 << 20;

/// Compares the selected files. Returns `Ok(None)` if all bytes are correct, otherwise the first difference.
pub(super) fn compare(
    shared: &Shared<'_>,
    counts: &(dyn Fn(usize) -> bool + Sync),
) -> Result<Option<String>, LoadError> {
    let layout = shared.layout;
    if shared.lane.write && shared.method != Method::Ram {
        let mut paths: Vec<_> = layout.files.iter().map(|file| file.path.clone()).collect();
        paths.dedup();
        cache::evict(&paths);
    }
    let next = AtomicUsize::new(0);
    let found = run_workers(shared.context, shared.context.cpus.clamp(1, 8), |_| {
        shared.context.device.bind()?;
        let (mut bytes, mut scratch) = (Vec::new(), Vec::new());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = layout.files.get(index) else { return Ok(None) };
            if !counts(index) {
                continue;
            }
            let open = (shared.lane.write && shared.method != Method::Ram).then(|| File::open(&file.path)).transpose();
            let open = open.map_err(|source| failed("opening", &file.path, source))?;
            let mut at = 0;
            while at < layout.payload {
                let length = STEP.min(layout.payload - at);
                bytes.resize(length as usize, 0);
                match &open {
                    Some(open) => {
                        open.read_exact_at(&mut bytes, file.start + at)
                            .map_err(|source| failed("reading back", &file.path, source))?;
                    }
                    None if shared.lane.write => {
                        let Some(slot) = shared.ram.get(index) else { return Err(LoadError::Stopped) };
                        let slot = slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        bytes.copy_from_slice(&slot.bytes()[at as usize..(at + length) as usize]);
                    }
                    None => {
                        for piece in layout.place(index as u32, at, length) {
                            let range = piece.from as usize..(piece.from + piece.bytes) as usize;
                            shared.target.read_back(piece.to, &mut bytes[range])?;
                        }
                    }
                }
                if let Some(wrong) = content::differs(layout.seed(), layout.content_of(index), at, &bytes, &mut scratch)
                {
                    let place = if shared.lane.write { "in the store" } else { "on the target" };
                    return Ok(Some(format!(
                        "byte {wrong} of the payload of {} is wrong {place}",
                        shown(&file.path).display()
                    )));
                }
                shared.context.counters.verified_bytes.fetch_add(length, Ordering::Relaxed);
                at += length;
            }
        }
    })?;
    Ok(found.into_iter().flatten().next())
}
