//! `mmap`: map each file and copy each tensor out of the mapping, as safetensors and Hugging Face do. The copy is from pageable memory, so
//! the driver stages it, and pages that are not resident fault one after another.
//!
//! Tried and lost: MADV_SEQUENTIAL made cold loads on ext4 twenty times slower (kernel 6.18, 8 MiB read-ahead), so
//! the kernel's default read-ahead stays, as in safetensors.

use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded};
use super::error::LoadError;
use super::files;
use super::settings::Chosen;
use crate::core::{Phase, Setting, ShardInfo};
use crate::device::{DeviceError, FileMapping};
use std::fs::File;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let model = context.model();
    let mut rec = Recorder::new(context.clock, 0, model.tensors.len() + 4 * model.shards.len() + 8);
    let mut at = rec.now();
    files::reopen_model(context.order)?;
    let files = files::open_shards(model, false)?;
    at = rec.end(Phase::Open, at, What::SETUP);
    let mapped = |(file, shard): (&File, &ShardInfo)| {
        let doing = || format!("mapping {}", shard.path.display());
        FileMapping::new(file).map_err(|error| DeviceError { doing: doing(), ..error })
    };
    let maps = files.iter().zip(&model.shards).map(mapped).collect::<Result<Vec<_>, _>>()?;
    at = rec.end(Phase::Map, at, What::SETUP);
    let memory = context.allocate(context.image_bytes())?;
    at = rec.end(Phase::Allocate, at, What::SETUP);
    let offsets = context.image_offsets();
    for (index, (tensor, offset)) in model.tensors.iter().zip(&offsets).enumerate() {
        let from = tensor.file_offset as usize;
        // The header was read again above and the file's length checked, so the range is inside the mapping unless
        // the file shrank just now.
        let bytes = maps
            .get(tensor.shard as usize)
            .and_then(|map| map.bytes().get(from..from + tensor.bytes as usize))
            .ok_or_else(|| LoadError::Changed { what: format!("tensor {} is outside its file", tensor.name) })?;
        memory.write_pageable(*offset, bytes)?;
        context.landed(tensor.bytes);
        at = rec.end(Phase::Copy, at, What::tensor_bytes(index, *offset, tensor.bytes));
    }
    context.device.synchronize()?;
    at = rec.end(Phase::Sync, at, What::SETUP);
    drop(maps);
    drop(files);
    rec.end(Phase::Release, at, What::SETUP);
    Ok(Loaded {
        repeated_reads: None,
        staging: Vec::new(),
        memory,
        tensor_offsets: offsets,
        spans: rec.into_spans(),
        slots: 1,
        settings: vec![Chosen::fixed(Setting::Threads, 1, "one tensor after another, as safetensors copies them")],
        auto_choice: None,
        notes: Vec::new(),
        route: None,
    })
}
