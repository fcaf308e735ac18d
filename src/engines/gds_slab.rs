//! `gds-slab`: one slab for the whole image, large aligned reads in file order over threads, tensors are views into it. The per-tensor costs of
//! cuFile are paid once a block or once a load.

use super::blocks::BlockQueue;
use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded, image_offsets, run_workers};
use super::cufile::explain;
use super::error::LoadError;
use super::files;
use super::gds_per_tensor::open_for_cufile;
use super::pread::PAGE;
use crate::domain::{Phase, units::MIB};
use crate::weights::plan;
use cufile_ffi::{FileHandle, IoMemory};
use std::collections::BTreeMap;
use std::os::fd::AsFd;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let cufile = context.cufile.ok_or_else(|| LoadError::CuFile("cuFile is not open".to_owned()))?;
    let model = context.model();
    // Registration pays on a direct route only: in compat mode the library allocates shadow buffers of the same size and reads no faster.
    let register = context.knob("register", u64::from(cufile.direct_possible)) != 0;
    // On a direct route large blocks over many threads fill the device. In compat mode the library reads and copies in the calling thread: hot,
    // 8 threads with 4 MiB through the page cache gave 38 GB/s on an H200 (16 MiB over 16 threads with O_DIRECT: 2.7, the disk's rate).
    let block_bytes = context.knob("block_bytes", if cufile.direct_possible { 16 * MIB } else { 4 * MIB });
    let block_bytes = block_bytes.clamp(PAGE, 1 << 30).next_multiple_of(PAGE);
    let queue = BlockQueue::new(plan::coalesced(model, block_bytes, PAGE));
    let threads = (context
        .knob("threads", context.cpus.clamp(1, if cufile.direct_possible { 16 } else { 8 }) as u64)
        .clamp(1, 256) as usize)
        .min(queue.len().max(1));
    let mut notes = Vec::new();
    let mut first = Recorder::new(context.clock, 0, 2 * queue.len() / threads + 64);
    let mut at = first.now();
    files::reopen_model(model)?;
    // A direct route needs O_DIRECT. In compat mode it pays only for what the page cache does not hold.
    let cached = context.resident_before.is_some_and(|share| share > 0.5);
    let odirect = context.knob("odirect", u64::from(cufile.direct_possible || !cached)) != 0;
    let opened = open_for_cufile(context, odirect, &mut notes)?;
    at = first.end(Phase::Open, at, What::SETUP);
    let handles = opened
        .iter()
        .zip(&model.shards)
        .map(|(file, shard)| {
            FileHandle::register_borrowed(&cufile.driver, file.as_fd())
                .map_err(|e| explain(&format!("registering {} with cuFile", shard.path.display()), &e))
        })
        .collect::<Result<Vec<_>, _>>()?;
    at = first.end(Phase::RegisterHandle, at, What::SETUP);
    let memory = context.allocate(model.image_bytes())?;
    at = first.end(Phase::Allocate, at, What::SETUP);
    let registered = if register {
        match cufile.driver.register(&memory, 0, memory.len(), 0) {
            Ok(registration) => Some(registration),
            Err(error) => {
                notes.push(format!("read into unregistered memory: registering the slab failed: {error}"));
                None
            }
        }
    } else {
        None
    };
    first.end(Phase::RegisterBuffer, at, What::SETUP);
    let was_registered = registered.is_some();
    let slab: &dyn IoMemory = match &registered {
        Some(registration) => registration,
        None => &*memory,
    };
    let counts = cufile.counts();
    let first = std::sync::Mutex::new(Some(first));
    let results = run_workers(context, threads, |number| {
        // The caller's thread goes on with the recorder of the set-up, so that slot 0 is one timeline.
        let own = if number == 0 { first.lock().ok().and_then(|mut f| f.take()) } else { None };
        let mut rec = own.unwrap_or_else(|| Recorder::new(context.clock, number, 2 * queue.len() / threads + 16));
        context.device.bind()?;
        while let Some(block) = queue.take() {
            if context.stopped() {
                return Err(LoadError::Stopped);
            }
            let at = rec.now();
            let shard = block.shard as usize;
            let path = &model.shards[shard].path;
            let mut done = 0;
            while done < block.bytes {
                let got = handles[shard]
                    .read_at(
                        slab,
                        (block.image_offset + done) as usize,
                        (block.bytes - done) as usize,
                        block.file_offset + done,
                    )
                    .map_err(|e| explain(&format!("reading {}", path.display()), &e))?;
                if got == 0 {
                    return Err(LoadError::Short {
                        path: path.clone(),
                        at: block.file_offset + done,
                        expected: block.file_offset + block.bytes,
                    });
                }
                done += got as u64;
            }
            context.landed(block.bytes);
            rec.end(Phase::Transfer, at, What::block(block.image_offset, block.bytes));
        }
        Ok(rec)
    })?;
    let mut recorders = results.into_iter();
    let mut spans = Vec::new();
    if let Some(mut first) = recorders.next() {
        let mut at = first.now();
        context.device.synchronize()?;
        at = first.end(Phase::Sync, at, What::SETUP);
        drop(registered);
        drop(handles);
        at = first.end(Phase::Deregister, at, What::SETUP);
        drop(opened);
        first.end(Phase::Release, at, What::SETUP);
        spans.extend(first.into_spans());
    }
    spans.extend(recorders.flat_map(Recorder::into_spans));
    Ok(Loaded {
        memory,
        tensor_offsets: image_offsets(model),
        spans,
        slots: threads as u32,
        knobs: BTreeMap::from([
            ("threads".to_owned(), threads as u64),
            ("block_bytes".to_owned(), block_bytes),
            ("register".to_owned(), u64::from(was_registered)),
            ("odirect".to_owned(), u64::from(odirect)),
        ]),
        notes,
        route: Some(cufile.route(counts, cufile.counts())),
    })
}
