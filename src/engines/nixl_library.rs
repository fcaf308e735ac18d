//! The NIXL library of a run. It is found, loaded, and its back end (the plugin GDS, GDS_MT or POSIX) is started
//! before the clock.

use super::error::LoadError;
use crate::core::{LaneOrder, NixlPlugin, Setting};
use nixl_ffi::{Agent, Library};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::time::Instant;

/// NIXL with a running back end.
#[derive(Debug)]
pub struct Nixl {
    /// The agent, which one thread at a time uses.
    pub agent: Mutex<Agent>,
    /// The plugin.
    pub plugin: NixlPlugin,
    /// The library.
    pub library: Library,
    /// The time to find and load the library, in nanoseconds.
    pub library_ns: u64,
    /// The time to create the agent, in nanoseconds.
    pub agent_ns: u64,
    /// The time to load the plugin and start the back end, in nanoseconds.
    pub backend_ns: u64,
}

/// The name of the library: the version of its wheel, and its file.
pub(crate) fn named(library: &Library) -> String {
    let version = library.version().map_or_else(|| "NIXL of unknown version".to_owned(), |v| format!("NIXL {v}"));
    format!("{version} ({})", library.path().display())
}

impl Nixl {
    /// Creates an agent with the library from [`find`] and starts the plugin with named parameters.
    ///
    /// # Errors
    /// A sentence if NIXL is not installed, if root must not start cuFile, if it lacks the plugin, or if the plugin does not start.
    pub(crate) fn open(
        plugin: NixlPlugin,
        params: &[(&str, String)],
        (library, found_ns): (Library, u64),
    ) -> Result<Self, LoadError> {
        let refused = |e: nixl_ffi::Error| LoadError::Nixl(e.to_string());
        // The plugin opens cuFile.
        if let Some(why) = plugin.uses_cufile().then(cufile_ffi::foreign_settings).flatten() {
            return Err(LoadError::Nixl(format!("{} was not started: {why}", plugin.name())));
        }
        let start = Instant::now();
        let missing = plugin.uses_cufile().then(|| library.load_cuda_runtime()).flatten();
        let library_ns = found_ns + start.elapsed().as_nanos() as u64;
        let start = Instant::now();
        let mut agent = Agent::new(&library, "gds-top").map_err(refused)?;
        let agent_ns = start.elapsed().as_nanos() as u64;
        let start = Instant::now();
        agent.create_backend(plugin.name(), params).map_err(|error| {
            let hint = match (missing, agent.plugins()) {
                (Some(missing), _) => format!("; {missing}"),
                (None, Ok(have)) if !have.iter().any(|name| name == plugin.name()) => {
                    format!("; its plugins are [{}]", have.join(", "))
                }
                (None, Ok(_)) => String::new(),
                (None, Err(why)) => format!("; it does not list its plugins: {why}"),
            };
            LoadError::Nixl(format!("{}: {error}{hint}", named(&library)))
        })?;
        let backend_ns = start.elapsed().as_nanos() as u64;
        Ok(Self { agent: Mutex::new(agent), plugin, library, library_ns, agent_ns, backend_ns })
    }
}

/// The library, and the time to find and load it in nanoseconds. Call it before cuFile is opened, so that the error
/// names NIXL if both are missing.
pub(crate) fn find() -> Result<(Library, u64), LoadError> {
    let start = Instant::now();
    let library = Library::find().map_err(|e| LoadError::Nixl(e.to_string()))?;
    Ok((library, start.elapsed().as_nanos() as u64))
}

/// The parameters of the plugin in an order.
pub(super) fn params(order: &LaneOrder, plugin: NixlPlugin) -> Vec<(&'static str, String)> {
    let named = plugin_settings(plugin).iter();
    let mut params: Vec<_> =
        named.filter_map(|(setting, name)| Some((*name, order.settings.get(*setting)?.to_string()))).collect();
    if order.settings.get(Setting::ModeMt).is_some_and(|on| on != 0) {
        params.push(("mode", "mt".to_owned()));
    }
    params
}

/// Settings that have another name in a plugin (src/plugins of NIXL 1.5).
const fn plugin_settings(plugin: NixlPlugin) -> &'static [(Setting, &'static str)] {
    match plugin {
        NixlPlugin::Gds => &[
            (Setting::BlockBytes, "max_request_size"),
            (Setting::Depth, "batch_limit"),
            (Setting::Slots, "batch_pool_size"),
        ],
        NixlPlugin::GdsMt => &[(Setting::Threads, "thread_count")],
        NixlPlugin::Posix => &[(Setting::IoUring, "use_uring"), (Setting::Depth, "ios_pool_size")],
    }
}

/// Describes the NIXL of this machine: `library`, `version`, `plugins`, or `error`. It runs in a separate process,
/// because the libraries that it loads can hang or crash.
#[must_use]
pub(super) fn probe_nixl() -> Value {
    let probe = || -> Result<Value, nixl_ffi::Error> {
        let library = Library::find()?;
        let plugins = Agent::new(&library, "gds-top")?.plugins()?;
        Ok(json!({"library": library.path(), "version": library.version(), "plugins": plugins}))
    };
    probe().unwrap_or_else(|error| json!({"error": error.to_string()}))
}

/// A known reason for wrong bytes with a plugin. It is appended to the position of the difference.
pub(crate) const fn if_bytes_differ(plugin: NixlPlugin) -> &'static str {
    match plugin {
        NixlPlugin::Gds => {
            "; NIXL's plugin GDS does not check the results of a cuFile batch, so a failed or short read counts as done (ai-dynamo/nixl#2146, open in NIXL 1.5): nixl:GDS_MT checks them, and cufile.log may list the failed read"
        }
        NixlPlugin::GdsMt | NixlPlugin::Posix => "",
    }
}
