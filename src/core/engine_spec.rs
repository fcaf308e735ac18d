//! The specification of the engines: names, requirements and help. All other code uses this table and never an engine
//! as a string.

use super::engine::Engine;
use super::nixl_plugin::NixlPlugin;

pub(super) const NIXL_GDS: Engine = Engine::Nixl(NixlPlugin::Gds);
pub(super) const NIXL_GDS_MT: Engine = Engine::Nixl(NixlPlugin::GdsMt);
pub(super) const NIXL_POSIX: Engine = Engine::Nixl(NixlPlugin::Posix);

/// A library or device without which an engine cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// libcufile.
    Libcufile,
    /// The NIXL library.
    Nixl,
    /// A GPU as the target.
    Gpu,
}

impl Need {
    /// Its name in sentences.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Libcufile => "libcufile",
            Self::Nixl => "the NIXL library",
            Self::Gpu => "a GPU",
        }
    }
}

/// The specification of one engine.
#[derive(Debug)]
pub struct EngineSpec {
    /// The engine.
    pub engine: Engine,
    /// The name as typed and reported.
    pub name: &'static str,
    /// Other accepted names. These are earlier names, which recordings and settings files can contain.
    pub aliases: &'static [&'static str],
    /// The libraries and devices that it requires.
    pub needs: &'static [Need],
    /// Whether it runs if the user names no engine.
    pub usual: bool,
    /// The help text: its method.
    pub help: &'static str,
}

/// The engines with a fixed name, in the order of tables. The index of an engine is its colour in palettes.
pub static ENGINES: [EngineSpec; 12] = [
    EngineSpec {
        engine: Engine::Mmap,
        name: "mmap",
        aliases: &[],
        needs: &[],
        usual: true,
        help: "map the file, copy each tensor from the mapping",
    },
    EngineSpec {
        engine: Engine::Pread,
        name: "pread",
        aliases: &[],
        needs: &[],
        usual: true,
        help: "threads read through the page cache into a pinned ring, copies overlap",
    },
    EngineSpec {
        engine: Engine::Odirect,
        name: "odirect",
        aliases: &["direct"],
        needs: &[],
        usual: true,
        help: "O_DIRECT reads into a pinned ring, copies overlap",
    },
    EngineSpec {
        engine: Engine::GdsPerTensor,
        name: "gds-per-tensor",
        aliases: &[],
        needs: &[Need::Libcufile],
        usual: true,
        help: "cuFile, tensor by tensor: register, submit, wait, deregister",
    },
    EngineSpec {
        engine: Engine::GdsBounce,
        name: "gds-bounce",
        aliases: &[],
        needs: &[Need::Libcufile],
        usual: true,
        help: "cuFile into unregistered memory",
    },
    EngineSpec {
        engine: Engine::GdsSlab,
        name: "gds-slab",
        aliases: &[],
        needs: &[Need::Libcufile],
        usual: true,
        help: "cuFile into one slab, coalesced aligned reads over threads",
    },
    EngineSpec {
        engine: Engine::GdsBatch,
        name: "gds-batch",
        aliases: &[],
        needs: &[Need::Libcufile],
        usual: true,
        help: "cuFile batch I/O",
    },
    EngineSpec {
        engine: Engine::GdsStream,
        name: "gds-stream",
        aliases: &[],
        needs: &[Need::Libcufile, Need::Gpu],
        usual: true,
        help: "cuFile asynchronous reads on streams",
    },
    EngineSpec {
        engine: NIXL_GDS,
        name: "nixl",
        aliases: &["nixl:GDS"],
        needs: &[Need::Nixl, Need::Libcufile],
        usual: true,
        help: "the NIXL library, tensor by tensor, with its plugin GDS (cuFile batches)",
    },
    EngineSpec {
        engine: Engine::Auto,
        name: "auto",
        aliases: &[],
        needs: &[],
        usual: true,
        help: "the fastest for this path, machine and cache state",
    },
    EngineSpec {
        engine: NIXL_GDS_MT,
        name: "nixl:GDS_MT",
        aliases: &[],
        needs: &[Need::Nixl, Need::Libcufile],
        usual: false,
        help: "the NIXL library, tensor by tensor, with its plugin GDS_MT (threads over cuFile)",
    },
    EngineSpec {
        engine: NIXL_POSIX,
        name: "nixl:POSIX",
        aliases: &[],
        needs: &[Need::Nixl],
        usual: false,
        help: "the NIXL library, tensor by tensor, with its plugin POSIX (host memory)",
    },
];

impl EngineSpec {
    /// Whether the engine requires this.
    #[must_use]
    pub fn needs(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }
}

impl Engine {
    /// The specification of the engine. `None` for commands, loaders and workloads.
    #[must_use]
    pub fn spec(&self) -> Option<&'static EngineSpec> {
        ENGINES.iter().find(|spec| spec.engine == *self)
    }

    /// The engines with a fixed name.
    pub fn named() -> impl DoubleEndedIterator<Item = &'static Self> {
        ENGINES.iter().map(|spec| &spec.engine)
    }

    /// The engines that run if the user names none, in order.
    #[must_use]
    pub fn usual() -> Vec<Self> {
        ENGINES.iter().filter(|spec| spec.usual).map(|spec| spec.engine.clone()).collect()
    }

    fn needs(&self, need: Need) -> bool {
        self.spec().is_some_and(|spec| spec.needs(need))
    }

    /// Whether the engine calls cuFile itself.
    #[must_use]
    pub fn uses_cufile(&self) -> bool {
        match self {
            Self::Workload(lane) => lane.uses_cufile(),
            _ => self.needs(Need::Libcufile) && !self.needs(Need::Nixl),
        }
    }

    /// Whether its process opens cuFile, either to use it or to read its statistics while another library uses it.
    #[must_use]
    pub fn opens_cufile(&self) -> bool {
        self.uses_cufile() || self.needs(Need::Libcufile)
    }

    /// Whether the target must be a GPU.
    #[must_use]
    pub fn needs_gpu(&self) -> bool {
        self.needs(Need::Gpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique() {
        let mut names: Vec<&str> =
            ENGINES.iter().flat_map(|spec| spec.aliases.iter().chain([&spec.name])).copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
