//! `gds-per-tensor`: for each tensor, registers the file and the buffer, reads, and deregisters. NIXL's GDS back end
//! does the same if it loads one tensor after another.

use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded};
use super::cufile_files::{not_registered, open_for_cufile};
use super::error::{LoadError, explain};
use super::files;
use super::second_try::{Missing, SecondTries};
use super::settings::Chosen;
use crate::core::{ModelInfo, Phase, Setting, TensorInfo, units};
use cufile_ffi::FileHandle;
use std::os::fd::AsFd;

/// Each tensor starts on its own GPU page (64 KiB), as with separate allocations, so that no two registrations share
/// a page.
const GPU_PAGE: u64 = 64 << 10;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let cufile = context.cufile.ok_or_else(|| LoadError::CuFile("cuFile is not open".to_owned()))?;
    let model = context.model();
    let mut rec = Recorder::new(context.clock, 0, 5 * model.tensors.len() + 16);
    let mut notes = Vec::new();
    let mut at = rec.now();
    files::reopen_model(context.order)?;
    let odirect = context.setting(Setting::Odirect, (1, "as programs with NIXL open files for cuFile"));
    let opened = open_for_cufile(context, odirect.is_on(), &mut notes)?;
    at = rec.end(Phase::Open, at, What::SETUP);
    let (offsets, total) = on_pages_of_their_own(model);
    let memory = context.allocate(total)?;
    at = rec.end(Phase::Allocate, at, What::SETUP);
    let counts = cufile.counts();
    let image = context.image_offsets();
    let tries = {
        let sizes = || model.tensors.iter().map(|tensor| tensor.bytes).filter(|bytes| *bytes > 0);
        SecondTries::new(sizes().count(), sizes().sum())
    };
    for (index, (tensor, offset)) in model.tensors.iter().zip(&offsets).enumerate() {
        if tensor.bytes == 0 {
            continue;
        }
        let what = What::tensor(index);
        let file = opened[tensor.shard as usize].as_fd();
        let path = &model.shards[tensor.shard as usize].path;
        let handle =
            FileHandle::register_borrowed(&cufile.driver, file).map_err(|error| not_registered(model, path, &error))?;
        at = rec.end(Phase::RegisterHandle, at, what);
        let doing = || format!("registering the {} of tensor {}", units::bytes(tensor.bytes), tensor.name);
        let buffer = cufile
            .driver
            .register(&memory, *offset as usize, tensor.bytes as usize, 0)
            .map_err(|e| explain(&doing(), &e))?;
        at = rec.end(Phase::RegisterBuffer, at, what);
        let mut done = 0;
        while done < tensor.bytes {
            let (left, from) = (tensor.bytes - done, tensor.file_offset + done);
            match handle.read_at(&buffer, done as usize, left as usize, from) {
                Ok(0) => return Err(files::short(path, from, tensor.file_offset + tensor.bytes)),
                Ok(got) => done += got as u64,
                Err(error) => {
                    let what = format!("tensor {} of {}", tensor.name, path.display());
                    let missing =
                        Missing { what: &what, path, file_offset: from, target_offset: offset + done, bytes: left };
                    tries.read(&missing, &memory, &error)?;
                    break;
                }
            }
        }
        // Spans refer to the image and not to the position of the tensor in memory, so that all engines use the same
        // offsets.
        at = rec.end(Phase::Transfer, at, What::tensor_bytes(index, image[index], tensor.bytes));
        context.landed(tensor.bytes);
        drop(buffer);
        drop(handle);
        at = rec.end(Phase::Deregister, at, what);
    }
    context.device.synchronize()?;
    at = rec.end(Phase::Sync, at, What::SETUP);
    drop(opened);
    rec.end(Phase::Release, at, What::SETUP);
    notes.extend(tries.note());
    Ok(Loaded {
        repeated_reads: Some(tries.repeated()),
        staging: Vec::new(),
        memory,
        tensor_offsets: offsets,
        spans: rec.into_spans(),
        slots: 1,
        settings: vec![
            Chosen::fixed(Setting::Threads, 1, "one tensor after another, as in programs that use NIXL"),
            odirect,
        ],
        auto_choice: None,
        notes,
        route: Some(cufile.route(counts, cufile.counts(), &tries.made())),
    })
}

/// The offset of each tensor in the target, and the total length.
pub(super) fn on_pages_of_their_own(model: &ModelInfo) -> (Vec<u64>, u64) {
    let mut total = 0;
    let place = |tensor: &TensorInfo| {
        let here = total;
        total += tensor.bytes.next_multiple_of(GPU_PAGE);
        here
    };
    let offsets = model.tensors.iter().map(place).collect();
    (offsets, total)
}
