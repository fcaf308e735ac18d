//! `nixl`: the NIXL library itself, tensor by tensor: register memory and file, prepare, post, wait, release, deregister. The agent and its back end
//! (the plugin GDS, GDS_MT or POSIX) are set up before the clock, as the cuFile driver is.

use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded};
use super::error::LoadError;
use super::files;
use super::gds_per_tensor::{on_pages_of_their_own, open_for_cufile};
use crate::device::{Device, DeviceMemory};
use crate::domain::{Engine, LaneOrder, NixlPlugin, Phase, units};
use nixl_ffi::{Agent, Library, Memory};
use serde_json::{Value, json};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// NIXL with a back end that is up.
#[derive(Debug)]
pub struct Nixl {
    agent: Mutex<Agent>,
    plugin: NixlPlugin,
    library: Library,
    /// Time to find and load the library, in nanoseconds.
    pub library_ns: u64,
    /// Time to make the agent, in nanoseconds.
    pub agent_ns: u64,
    /// Time to load the plugin and start the back end, in nanoseconds.
    pub backend_ns: u64,
}

/// The library in words: version of its wheel and file.
fn named(library: &Library) -> String {
    let version = library.version().map_or_else(|| "NIXL of unknown version".to_owned(), |v| format!("NIXL {v}"));
    format!("{version} ({})", library.path().display())
}

impl Nixl {
    /// Makes an agent of a library that [`find`] found and starts the plugin that the order's engine names.
    ///
    /// # Errors
    /// When there is no NIXL, it lacks the plugin, or the plugin does not start; always a sentence.
    pub(super) fn open(
        order: &LaneOrder,
        plugin: NixlPlugin,
        (library, found_ns): (Library, u64),
    ) -> Result<Self, LoadError> {
        let refused = |e: nixl_ffi::Error| LoadError::Nixl(e.to_string());
        let start = Instant::now();
        let missing = plugin.uses_cufile().then(|| library.load_cuda_runtime()).flatten();
        let library_ns = found_ns + start.elapsed().as_nanos() as u64;
        let start = Instant::now();
        let mut agent = Agent::new(&library, "gds-top").map_err(refused)?;
        let agent_ns = start.elapsed().as_nanos() as u64;
        let start = Instant::now();
        let mut settings = Vec::new();
        for (knob, setting) in knob_names(plugin) {
            if let Some(value) = order.knobs.get(*knob) {
                settings.push((*setting, value.to_string()));
            }
        }
        agent.create_backend(plugin.name(), &settings).map_err(|error| {
            let hint = match (missing, agent.plugins()) {
                (Some(missing), _) => format!("; {missing}"),
                (None, Ok(have)) if !have.iter().any(|name| name == plugin.name()) => {
                    format!("; its plugins are [{}]", have.join(", "))
                }
                (None, Ok(_)) => String::new(),
                (None, Err(why)) => format!("; which plugins it has it does not tell: {why}"),
            };
            LoadError::Nixl(format!("{}: {error}{hint}", named(&library)))
        })?;
        let backend_ns = start.elapsed().as_nanos() as u64;
        Ok(Self { agent: Mutex::new(agent), plugin, library, library_ns, agent_ns, backend_ns })
    }
}

/// The library and the time to find and load it, in nanoseconds. Before cuFile is opened: whoever lacks both wants to hear of NIXL first.
pub(super) fn find() -> Result<(Library, u64), LoadError> {
    let start = Instant::now();
    let library = Library::find().map_err(|e| LoadError::Nixl(e.to_string()))?;
    Ok((library, start.elapsed().as_nanos() as u64))
}

/// Settings of ours that a plugin has under a name of its own (src/plugins of NIXL 1.5).
const fn knob_names(plugin: NixlPlugin) -> &'static [(&'static str, &'static str)] {
    match plugin {
        NixlPlugin::Gds => {
            &[("block_bytes", "max_request_size"), ("depth", "batch_limit"), ("slots", "batch_pool_size")]
        }
        NixlPlugin::GdsMt => &[("threads", "thread_count")],
        NixlPlugin::Posix => &[("io_uring", "use_uring"), ("depth", "ios_pool_size")],
    }
}

/// What NIXL is here, for a process of its own, as the libraries that it loads may hang or crash: `library`, `version`, `plugins`, or `error`.
#[must_use]
pub(super) fn probe_nixl() -> Value {
    let probe = || -> Result<Value, nixl_ffi::Error> {
        let library = Library::find()?;
        let plugins = Agent::new(&library, "gds-top")?.plugins()?;
        Ok(json!({"library": library.path(), "version": library.version(), "plugins": plugins}))
    };
    probe().unwrap_or_else(|error| json!({"error": error.to_string()}))
}

/// What is known of a plugin whose bytes differ from the file, to be added to where they do.
pub(super) const fn if_bytes_differ(plugin: NixlPlugin) -> &'static str {
    match plugin {
        NixlPlugin::Gds => {
            "; NIXL's plugin GDS counts the events of a cuFile batch without looking at them, so that a read which cuFile refused, or which came \
             short, counts as done (ai-dynamo/nixl#2146, in NIXL 1.5 still open): nixl:GDS_MT looks, and cufile.log may say which read it was"
        }
        NixlPlugin::GdsMt | NixlPlugin::Posix => "",
    }
}

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let nixl = context.nixl.ok_or_else(|| LoadError::Nixl("NIXL is not open".to_owned()))?;
    let agent = nixl.agent.lock().unwrap_or_else(PoisonError::into_inner);
    let model = context.model();
    let mut rec = Recorder::new(context.clock, 0, 9 * model.tensors.len() + 16);
    let mut notes = vec![format!("{}, plugin {}", named(&nixl.library), nixl.plugin.name())];
    let mut at = rec.now();
    files::reopen_model(context.order)?;
    // The POSIX plugin hands offset and length to the kernel as they are, and tensors are not aligned.
    let odirect = match nixl.plugin.uses_cufile() {
        true => (1, "as NIXL's users open files for cuFile"),
        false => (0, "tensors are not aligned, and the plugin asks the kernel for them as they are"),
    };
    let odirect = context.setting("odirect", odirect, (0, 1));
    let opened = open_for_cufile(context, odirect.is_on(), &mut notes)?;
    at = rec.end(Phase::Open, at, What::SETUP);
    let (offsets, total) = on_pages_of_their_own(model);
    let memory = context.allocate(total)?;
    // The POSIX plugin knows host memory only, so that what goes to a GPU goes through a buffer.
    let staging = if context.device.is_gpu() && !nixl.plugin.uses_cufile() {
        let longest = model.tensors.iter().map(|t| t.bytes).max().unwrap_or(0);
        notes.push(
            "the plugin POSIX reads into host memory; each tensor is then copied to the GPU from there".to_owned(),
        );
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
    for (index, (tensor, offset)) in model.tensors.iter().zip(&offsets).enumerate() {
        if tensor.bytes == 0 {
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
        // Posting counts as transfer: in compat mode, and by the POSIX plugin, the bytes move inside that very call.
        let mut done = transfer.post().map_err(refused)?;
        let mut asked = 0_u32;
        while !done {
            // Asked again at once, as NIXL's users do; a load of seconds should leave the core to NIXL's own threads now and then.
            asked += 1;
            if asked.is_multiple_of(64) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            done = transfer.poll().map_err(refused)?;
        }
        // Spans speak of the image, wherever the engine puts the tensor, so that all engines fill the same map.
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
        notes.push(format!(
            "cuFile's statistics count {failed} failed reads in this load, and NIXL said of none that it failed"
        ));
    }
    Ok(Loaded {
        staging: Vec::new(),
        memory,
        tensor_offsets: offsets,
        spans: rec.into_spans(),
        slots: 1,
        settings: vec![odirect],
        auto_choice: None,
        notes,
        route: context.cufile.zip(counts.zip(after)).map(|(cufile, (before, after))| cufile.route(before, after)),
    })
}

/// The plugin of an order's engine, where that is NIXL.
pub(super) const fn plugin_of(engine: &Engine) -> Option<NixlPlugin> {
    match engine {
        Engine::Nixl(plugin) => Some(*plugin),
        _ => None,
    }
}
