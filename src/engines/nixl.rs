//! `nixl`: the NIXL library itself, tensor by tensor: registers memory and file, prepares, posts, waits, releases and
//! deregisters. With `one_transfer`, all tensors have one registration and as few transfers as the plugin supports. The
//! agent and its back end are started before the clock, like the cuFile driver (see `nixl_library`).

use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded};
use super::cufile_files::open_for_cufile;
use super::error::LoadError;
use super::files;
use super::gds_per_tensor::on_pages_of_their_own;
use super::nixl_library::named;
use super::nixl_requests::{Requests, in_parts, together as grouped};
use crate::core::{Made, Note, Phase, Setting, units};
use crate::device::{Device, DeviceMemory};
use crate::models::plan::Block;
use nixl_ffi::{Agent, Memory, Operation, Part};
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError};

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let nixl = context.nixl.ok_or_else(|| LoadError::Nixl("NIXL is not open".to_owned()))?;
    let agent = nixl.agent.lock().unwrap_or_else(PoisonError::into_inner);
    let model = context.model();
    let mut rec = Recorder::new(context.clock, 0, 9 * model.tensors.len() + 16);
    let mut notes = vec![Note::Nixl { library: named(&nixl.library), plugin: nixl.plugin }];
    if context.order.settings.get(Setting::ModeMt).is_some_and(|on| on != 0) {
        notes.push(Note::NixlModeMt);
    }
    let mut at = rec.now();
    files::reopen_model(context.order)?;
    // The POSIX plugin passes offset and length to the kernel without alignment, and tensors are not aligned.
    let odirect = match nixl.plugin.uses_cufile() {
        true => (1, "as programs with NIXL open files for cuFile"),
        false => (0, "tensors are not aligned, and the plugin reads them without alignment"),
    };
    let odirect = context.setting(Setting::Odirect, odirect);
    let opened = open_for_cufile(context, odirect.is_on(), &mut notes)?;
    at = rec.end(Phase::Open, at, What::SETUP);
    let (offsets, total) = on_pages_of_their_own(model);
    let memory = context.allocate(total)?;
    // The POSIX plugin supports only host memory, so bytes for a GPU are copied from a buffer.
    let staging = if context.device.is_gpu() && !nixl.plugin.uses_cufile() {
        let longest = model.tensors.iter().map(|t| t.bytes).max().unwrap_or(0);
        notes.push(Note::NixlPosixCopies);
        Some(Arc::new(DeviceMemory::allocate(&Device::Host, longest)?))
    } else {
        None
    };
    let (target, kind) = match (&staging, context.device) {
        (Some(staging), _) => (staging, Memory::Host),
        (None, Device::Cuda(cuda)) => (&memory, Memory::Gpu(cuda.info().ordinal)),
        (None, Device::Host) => (&memory, Memory::Host),
    };
    at = rec.end(Phase::Allocate, at, What::SETUP);
    let counts = context.cufile.map(|cufile| cufile.counts());
    let image = context.image_offsets();
    let one_transfer = context.setting(Setting::OneTransfer, (0, "tensor by tensor, as Mini-GDS loads"));
    if one_transfer.is_on() && staging.is_none() {
        let requests = Requests::of(context, nixl.plugin);
        let all = All { agent: &agent, opened: &opened, memory: &memory, kind, offsets: &offsets, requests };
        let transfers;
        (at, transfers) = together(context, &all, &mut rec, at)?;
        notes.extend(requests.filter(|_| transfers > 1).map(|requests| Note::NixlTransfers {
            transfers,
            requests: requests.most,
            compat: !context.direct_possible(),
        }));
    }
    let each = !one_transfer.is_on() || staging.is_some();
    for (index, (tensor, offset)) in model.tensors.iter().zip(&offsets).enumerate() {
        if tensor.bytes == 0 || !each {
            continue;
        }
        let what = What::tensor(index);
        let refused = |error: nixl_ffi::Error| {
            LoadError::Nixl(format!(
                "{} by {}: tensor {} of {} ({}) was not read: {error}",
                nixl.plugin.name(),
                named(&nixl.library),
                tensor.name,
                model.shards[tensor.shard as usize].path.display(),
                units::bytes(tensor.bytes)
            ))
        };
        let (here, len) = (if staging.is_some() { 0 } else { *offset as usize }, tensor.bytes as usize);
        let registered = agent.register(target, kind, here, len).map_err(refused)?;
        at = rec.end(Phase::RegisterBuffer, at, what);
        let file = opened[tensor.shard as usize].as_fd();
        let registered_file = agent.register_file(file, tensor.file_offset, len).map_err(refused)?;
        at = rec.end(Phase::RegisterHandle, at, what);
        let mut transfer = agent.prepare_read(&registered, &registered_file).map_err(refused)?;
        at = rec.end(Phase::Submit, at, what);
        // A post is recorded as a transfer, because in compat mode and with the POSIX plugin the bytes move during
        // this call.
        let mut done = transfer.post().map_err(refused)?;
        let mut asked = 0_u32;
        while !done {
            // The status is polled without a pause, as users of NIXL do. In a load of seconds, this thread yields its
            // core to NIXL's own threads from time to time.
            asked += 1;
            if asked.is_multiple_of(64) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            done = transfer.poll().map_err(refused)?;
        }
        // Spans refer to the image and not to the position of the tensor in memory, so that all engines use the same
        // offsets.
        at = rec.end(Phase::Transfer, at, What::tensor_bytes(index, image[index], tensor.bytes));
        drop(transfer);
        at = rec.end(Phase::Release, at, what);
        drop(registered_file);
        drop(registered);
        at = rec.end(Phase::Deregister, at, what);
        if let Some(staging) = &staging {
            memory.copy_from_host(*offset, staging, 0, len)?;
            at = rec.end(Phase::Copy, at, What::tensor_bytes(index, image[index], tensor.bytes));
        }
        context.landed(tensor.bytes);
    }
    context.device.synchronize()?;
    at = rec.end(Phase::Sync, at, What::SETUP);
    drop(opened);
    drop(staging);
    rec.end(Phase::Release, at, What::SETUP);
    let after = context.cufile.map(|cufile| cufile.counts());
    if let Some(failed) = counts.zip(after).map(|(b, a)| a.failed_since(b)).filter(|failed| *failed > 0) {
        notes.push(Note::NixlHidFailures { failed });
    }
    Ok(Loaded {
        repeated_reads: None,
        staging: Vec::new(),
        memory,
        tensor_offsets: offsets,
        spans: rec.into_spans(),
        slots: 1,
        settings: vec![odirect, one_transfer],
        auto_choice: None,
        notes,
        route: context.cufile.zip(counts.zip(after)).map(|(cufile, (before, after))| {
            // The plugin divides transfers; their number is not known here.
            let made = Made::at_least(1, model.tensors.iter().map(|tensor| tensor.bytes).sum());
            cufile.route(before, after, &made)
        }),
    })
}

/// The inputs of a load with one transfer.
struct All<'a> {
    agent: &'a Agent,
    opened: &'a [std::fs::File],
    memory: &'a Arc<DeviceMemory>,
    kind: Memory,
    offsets: &'a [u64],
    /// The limit of a transfer. `None` if the plugin has none.
    requests: Option<Requests>,
}

/// Registers the memory of all tensors as one range and each file once, and reads all tensors in one transfer, or in
/// several if the plugin supports only a number of requests. Returns the time at which the last one ended, and their
/// number.
fn together(
    context: &EngineContext<'_>,
    all: &All<'_>,
    rec: &mut Recorder,
    mut at: u64,
) -> Result<(u64, u64), LoadError> {
    let (model, image) = (context.model(), context.image_offsets());
    let refused = |error: nixl_ffi::Error| {
        LoadError::Nixl(format!("one transfer of all tensors of {} failed: {error}", model.name))
    };
    let registered = all.agent.register(all.memory, all.kind, 0, all.memory.len()).map_err(refused)?;
    at = rec.end(Phase::RegisterBuffer, at, What::SETUP);
    let files = all
        .opened
        .iter()
        .zip(&model.shards)
        .map(|(file, shard)| all.agent.register_file(file.as_fd(), 0, shard.file_bytes as usize))
        .collect::<Result<Vec<_>, _>>()
        .map_err(refused)?;
    at = rec.end(Phase::RegisterHandle, at, What::SETUP);
    let wanted = (0..model.tensors.len()).filter(|index| model.tensors[*index].bytes > 0);
    let blocks: Vec<(Block, u64)> = wanted
        .map(|index| {
            let tensor = &model.tensors[index];
            let (shard, file_offset, bytes) = (tensor.shard, tensor.file_offset, tensor.bytes);
            (Block { shard, file_offset, bytes, image_offset: image[index] }, all.offsets[index])
        })
        .flat_map(|whole| in_parts(all.requests, whole))
        .collect();
    let opened: Vec<_> = files.iter().collect();
    let mut transfers = 0;
    for group in grouped(all.requests, &blocks) {
        if context.stopped() {
            return Err(LoadError::Stopped);
        }
        let parts: Vec<Part> = group
            .iter()
            .map(|(block, place)| Part {
                memory: 0,
                memory_offset: *place as usize,
                file: block.shard as usize,
                file_offset: block.file_offset as usize,
                len: block.bytes as usize,
            })
            .collect();
        let mut transfer = all.agent.prepare(Operation::Read, &[&registered], &opened, &parts).map_err(refused)?;
        at = rec.end(Phase::Submit, at, What::SETUP);
        transfer.run().map_err(refused)?;
        let blocks: Vec<Block> = group.iter().map(|(block, _)| *block).collect();
        at = rec.share(Phase::Transfer, at, &blocks);
        drop(transfer);
        at = rec.end(Phase::Release, at, What::SETUP);
        context.landed(blocks.iter().map(|block| block.bytes).sum());
        transfers += 1;
    }
    drop(files);
    drop(registered);
    at = rec.end(Phase::Deregister, at, What::SETUP);
    Ok((at, transfers))
}
