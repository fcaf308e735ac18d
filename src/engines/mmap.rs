//! `mmap`: maps each file and copies each tensor from the mapping, as safetensors and Hugging Face do. The source is
//! pageable, so the driver stages it, and missing pages fault one after another.
//!
//! MADV_SEQUENTIAL was tested: it made cold loads on ext4 twenty times slower (kernel 6.18, 8 MiB read-ahead). So the
//! default read-ahead of the kernel is used, as in safetensors.

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
        // The header was read again and the length of the file was checked above, so the range is inside the mapping
        // unless the file was truncated since.
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
    context.counters.sample_files();
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
