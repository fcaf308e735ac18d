//! Every byte on the target against every byte in the file, after the clock has stopped.

use super::context::{EngineContext, Loaded, run_workers};
use super::error::LoadError;
use super::files;
use crate::device::Staging;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes compared at a time.
const STEP: u64 = 8 << 20;

/// A range of a file and where it should lie on the target.
struct Piece {
    shard: usize,
    file_offset: u64,
    target_offset: u64,
    bytes: u64,
}

/// Compares all tensors. `Ok(None)` when all are equal, else the name of the first tensor seen to differ.
pub(super) fn compare(context: &EngineContext<'_>, loaded: &Loaded) -> Result<Option<String>, LoadError> {
    let model = context.model();
    let pieces = pieces(context, loaded);
    let opened = files::open_shards(model, false)?;
    let next = AtomicUsize::new(0);
    let differs = AtomicBool::new(false);
    let found = run_workers(context, context.cpus.clamp(1, 8), |_| {
        context.device.bind()?;
        let mut slots = Staging::slots(context.device, 2, STEP as usize)?;
        let (Some(mut ours), Some(mut theirs)) = (slots.pop(), slots.pop()) else { return Ok(None) };
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            if differs.load(Ordering::Relaxed) {
                break;
            }
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
            if ours.bytes()[..length] != theirs.bytes()[..length] {
                differs.store(true, Ordering::Relaxed);
                let at = ours.bytes()[..length].iter().zip(theirs.bytes()).position(|(a, b)| a != b).unwrap_or(0);
                return Ok(Some(piece.file_offset + at as u64).map(|offset| (piece.shard, offset)));
            }
            context.counters.verified_bytes.fetch_add(piece.bytes, Ordering::Relaxed);
        }
        Ok(None)
    })?;
    Ok(found.into_iter().flatten().min().map(|(shard, offset)| {
        let tensor = model
            .tensors
            .iter()
            .find(|t| t.shard as usize == shard && (t.file_offset..t.file_offset + t.bytes).contains(&offset));
        match tensor {
            Some(tensor) => format!("{} at byte {}", tensor.name, offset - tensor.file_offset),
            None => format!("byte {offset} of {}", model.shards[shard].path.display()),
        }
    }))
}

/// The tensors as ranges, neighbours joined and cut to [`STEP`].
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
