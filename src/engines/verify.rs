//! Compares every byte on the target with the file after the clock has stopped.

use super::context::{EngineContext, Loaded, POISON, run_workers};
use super::error::LoadError;
use super::files;
use crate::device::Staging;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of bytes that are compared at a time.
const STEP: u64 = 8 << 20;

/// A range of a file and its offset on the target.
struct Piece {
    shard: usize,
    file_offset: u64,
    target_offset: u64,
    bytes: u64,
}

/// The position of the first different byte, and the number of different bytes.
struct Difference {
    shard: usize,
    file_offset: u64,
    target_offset: u64,
    on_target: u8,
    in_file: u8,
    bytes: u64,
}

/// Compares all tensors. Returns `Ok(None)` if all bytes are equal. Otherwise returns a description: the first
/// different tensor and byte in file order, and the number of different bytes.
pub(super) fn compare(context: &EngineContext<'_>, loaded: &Loaded) -> Result<Option<String>, LoadError> {
    let model = context.model();
    let pieces = pieces(context, loaded);
    let opened = files::open_shards(model, false)?;
    let next = AtomicUsize::new(0);
    let found = run_workers(context, context.cpus.clamp(1, 8), |_| {
        context.device.bind()?;
        let mut slots = Staging::slots(context.device, 2, STEP as usize)?;
        let mut differences = Vec::new();
        let (Some(mut ours), Some(mut theirs)) = (slots.pop(), slots.pop()) else { return Ok(differences) };
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let length = piece.bytes as usize;
            let path = &model.shards[piece.shard].path;
            files::read_block(
                &opened[piece.shard],
                path,
                &mut theirs.bytes_mut()[..length],
                piece.file_offset,
                length,
            )?;
            loaded.memory.read_back(piece.target_offset, &mut ours.bytes_mut()[..length])?;
            let (ours, theirs) = (&ours.bytes()[..length], &theirs.bytes()[..length]);
            if ours != theirs {
                let mut unequal = ours.iter().zip(theirs).enumerate().filter(|(_, (a, b))| a != b);
                if let Some((at, (on_target, in_file))) = unequal.next() {
                    differences.push(Difference {
                        shard: piece.shard,
                        file_offset: piece.file_offset + at as u64,
                        target_offset: piece.target_offset + at as u64,
                        on_target: *on_target,
                        in_file: *in_file,
                        bytes: 1 + unequal.count() as u64,
                    });
                }
            }
            context.counters.verified_bytes.fetch_add(piece.bytes, Ordering::Relaxed);
        }
        Ok(differences)
    })?;
    Ok(first_of(context, found.into_iter().flatten().collect()))
}

/// Describes the differences. The compared blocks show how many bytes differ.
fn first_of(context: &EngineContext<'_>, mut found: Vec<Difference>) -> Option<String> {
    found.sort_unstable_by_key(|d| (d.shard, d.file_offset));
    let first = found.first()?;
    let model = context.model();
    let path = model.shards[first.shard].path.display();
    let tensor = model.tensors.iter().find(|t| {
        t.shard as usize == first.shard && (t.file_offset..t.file_offset + t.bytes).contains(&first.file_offset)
    });
    let place = match tensor {
        Some(tensor) => format!(
            "first in {} at byte {} of {} (byte {} of {path}, byte {} of the target)",
            tensor.name,
            first.file_offset - tensor.file_offset,
            tensor.bytes,
            first.file_offset,
            first.target_offset
        ),
        None => format!("first at byte {} of {path}", first.file_offset),
    };
    let never = if context.order.poison && first.on_target == POISON {
        ", the value that filled the target before the load: no byte seems to have arrived there"
    } else {
        ""
    };
    let changed = if changed_since(&model.shards[first.shard].path, context.order.spawned_monotonic_ns) {
        "; the file was written to or replaced during the load: load it again when no process writes to it"
    } else {
        ""
    };
    let bytes: u64 = found.iter().map(|d| d.bytes).sum();
    Some(format!(
        "{place}: {:#04x} on the target, {:#04x} in the file{never}; in all {bytes} of {} bytes differ{changed}",
        first.on_target,
        first.in_file,
        model.tensor_bytes()
    ))
}

/// Whether the inode of a file changed after a time of CLOCK_MONOTONIC, because it was written or replaced. The load
/// is then not the cause of different bytes.
fn changed_since(path: &Path, then_ns: u64) -> bool {
    if then_ns == 0 {
        return false;
    }
    let ago = Duration::from_nanos(super::protocol::monotonic_ns().saturating_sub(then_ns));
    let Some(then) = SystemTime::now().checked_sub(ago).and_then(|then| then.duration_since(UNIX_EPOCH).ok()) else {
        return false;
    };
    std::fs::metadata(path).is_ok_and(|meta| {
        let changed = u64::try_from(meta.ctime()).unwrap_or(0);
        Duration::new(changed, u32::try_from(meta.ctime_nsec()).unwrap_or(0)) > then
    })
}

/// The tensors as ranges. Adjacent ranges are joined and divided into pieces of [`STEP`].
fn pieces(context: &EngineContext<'_>, loaded: &Loaded) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (tensor, target_offset) in context.model().tensors.iter().zip(&loaded.tensor_offsets) {
        let (mut file_offset, mut target_offset, mut left) = (tensor.file_offset, *target_offset, tensor.bytes);
        while left > 0 {
            if let Some(last) = pieces.last_mut() {
                let room = STEP - last.bytes;
                if last.shard == tensor.shard as usize
                    && last.file_offset + last.bytes == file_offset
                    && last.target_offset + last.bytes == target_offset
                    && room > 0
                {
                    let take = left.min(room);
                    last.bytes += take;
                    (file_offset, target_offset, left) = (file_offset + take, target_offset + take, left - take);
                    continue;
                }
            }
            pieces.push(Piece { shard: tensor.shard as usize, file_offset, target_offset, bytes: 0 });
        }
    }
    pieces
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_made_after_the_lane_began_is_known_by_its_record() {
        let before = crate::engines::protocol::monotonic_ns().saturating_sub(3_600_000_000_000);
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(changed_since(file.path(), before.max(1)));
        let missing = file.path().with_extension("missing");
        assert!(!changed_since(file.path(), 0) && !changed_since(&missing, 1));
    }
}
