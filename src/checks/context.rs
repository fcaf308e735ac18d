//! The input of all checks: the machine, the paths with their facts, the GPUs and the configuration.

use crate::checks::cufile::config_file::Config;
use crate::core::FixId;
use crate::machine::{self, Architecture, GpuKind, NvmlGpu, PathFacts, PciGpu, PciNvidia, PlannedMount, Root, Visible};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The last driver branch for Maxwell, Pascal and Volta. These GPUs always need the proprietary kernel modules.
pub(crate) const LAST_PROPRIETARY: &str = "580";

/// A path that the checks examine.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) path: PathBuf,
    /// The facts of the file system that the path is meant to be on. If it is not mounted, they have an error.
    pub(crate) facts: Option<PathFacts>,
    /// The file system that should be mounted above the path and is not, with the facts of the one below it.
    pub(crate) unmounted: Option<(PlannedMount, PathFacts)>,
}

impl Subject {
    fn new(root: &Root, path: &Path) -> Self {
        let facts = root.path_facts(path).map(by_one_name);
        let planned = facts.as_ref().and_then(|facts| machine::unmounted(root, facts));
        match (facts, planned) {
            (Some(present), Some(planned)) => Self {
                path: path.to_owned(),
                facts: Some(by_one_name(planned.facts(path))),
                unmounted: Some((planned, present)),
            },
            (facts, _) => Self { path: path.to_owned(), facts, unmounted: None },
        }
    }

    /// The facts of the file system that the path is on now.
    pub(crate) fn present(&self) -> Option<&PathFacts> {
        self.unmounted.as_ref().map(|(_, present)| present).or(self.facts.as_ref())
    }
}

/// A GPU that the checks examine, with its facts from NVML (if it answers) and from the PCI bus.
#[derive(Clone, Debug, Default)]
pub(crate) struct GpuSeen {
    /// UUID, or the PCI address if the driver does not answer.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) nvml: Option<NvmlGpu>,
    /// Derived from the compute capability, or from the PCI device id if NVML does not list the GPU.
    pub(crate) architecture: Option<Architecture>,
}

impl GpuSeen {
    pub(crate) fn capability(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.nvml.as_ref()?.compute_capability.as_deref()?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    /// The index and the model: `0 (H200)`. Without NVML, the address on the PCI bus.
    pub(crate) fn label(&self) -> String {
        match &self.nvml {
            Some(nvml) => format!("{} ({})", nvml.index, self.name.trim_start_matches("NVIDIA ")),
            None => self.address.clone(),
        }
    }

    pub(crate) fn is_grace(&self) -> bool {
        ["GH200", "GB200", "GB300", "Grace"].iter().any(|name| self.name.contains(name))
    }
}

/// The shared view of all checks of one round.
pub(crate) struct Context<'a> {
    pub(crate) root: &'a Root,
    pub(crate) subjects: Vec<Subject>,
    selected: Option<String>,
    pci: OnceLock<Option<PciNvidia>>,
    gpus: OnceLock<Vec<GpuSeen>>,
    kinds: OnceLock<Vec<GpuKind>>,
    config: OnceLock<Config>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(root: &'a Root, paths: &[PathBuf], gpu: Option<&str>) -> Self {
        Self {
            root,
            subjects: paths.iter().map(|path| Subject::new(root, path)).collect(),
            selected: gpu.map(str::to_owned),
            pci: OnceLock::new(),
            gpus: OnceLock::new(),
            kinds: OnceLock::new(),
            config: OnceLock::new(),
        }
    }

    /// Whether the user named a single GPU.
    pub(crate) fn one_was_asked_for(&self) -> bool {
        self.selected.is_some()
    }

    /// The GPUs on the PCI bus. `None` if the bus cannot be listed.
    pub(crate) fn pci(&self) -> Option<&[PciGpu]> {
        self.nvidia().map(|seen| seen.gpus.as_slice())
    }

    fn nvidia(&self) -> Option<&PciNvidia> {
        self.pci.get_or_init(|| machine::pci_nvidia(self.root)).as_ref()
    }

    /// The PCI addresses of the NVSwitches.
    pub(crate) fn nvswitches(&self) -> &[String] {
        self.nvidia().map_or(&[], |seen| &seen.nvswitches)
    }

    /// The GPUs of this machine that no virtual machine uses. Waits for NVML.
    pub(crate) fn kinds(&self) -> &[GpuKind] {
        self.kinds.get_or_init(|| machine::gpu_kinds(self.root))
    }

    /// The GPUs of this machine that the open kernel modules do not support. Waits for NVML.
    pub(crate) fn before_turing(&self) -> impl Iterator<Item = &GpuKind> {
        self.kinds().iter().filter(|gpu| gpu.architecture < Architecture::TuringOrLater)
    }

    /// The GPUs of this machine that the open kernel modules support. Waits for NVML.
    pub(crate) fn since_turing(&self) -> impl Iterator<Item = &GpuKind> {
        self.kinds().iter().filter(|gpu| gpu.architecture == Architecture::TuringOrLater)
    }

    /// Whether the open kernel modules support no GPU of this machine.
    pub(crate) fn are_all_before_turing(&self) -> bool {
        !self.kinds().is_empty() && self.since_turing().next().is_none()
    }

    /// Whether the GPUs of this machine need different kernel modules. A machine loads one kind for all of them. A GPU
    /// before Maxwell has no current driver, so it does not count.
    pub(crate) fn is_divided(&self) -> bool {
        self.since_turing().next().is_some()
            && self.before_turing().any(|gpu| gpu.architecture > Architecture::BeforeMaxwell)
    }

    /// The fix that installs a driver for the GPUs of this machine. `None` if no driver with GDS supports them.
    pub(crate) fn driver_fix(&self) -> Option<FixId> {
        match self.before_turing().map(|gpu| gpu.architecture).max() {
            None => Some(FixId::NvidiaDriverOpen),
            Some(Architecture::BeforeMaxwell) => self.since_turing().next().map(|_| FixId::NvidiaDriverOpen),
            // The loaded modules serve the newer GPU.
            Some(_) if self.is_divided() && machine::Driver::of(self.root).is_open() == Some(true) => {
                Some(FixId::NvidiaDriverOpen)
            }
            Some(_) => Some(FixId::NvidiaDriverProprietary),
        }
    }

    /// Whether CUDA waits for Fabric Manager of this machine. See [`machine::runs_fabric`].
    pub(crate) fn has_fabric(&self) -> bool {
        !self.nvswitches().is_empty() || (self.hgx_blackwell().is_some() && machine::runs_fabric(self.root))
    }

    /// A B200 or B300 of an HGX board.
    pub(crate) fn hgx_blackwell(&self) -> Option<&PciGpu> {
        self.pci()?.iter().find(|gpu| gpu.is_hgx_blackwell() && !gpu.is_lent())
    }

    /// Whether the PCI bus shows a GPU. It does not wait for NVML.
    pub(crate) fn gpu_on_bus(&self) -> bool {
        self.pci().is_some_and(|gpus| !gpus.is_empty())
    }

    /// The GPUs that the user named, by default those that programs see. Waits for NVML.
    pub(crate) fn gpus(&self) -> &[GpuSeen] {
        self.gpus.get_or_init(|| {
            let nvml = self.root.nvml();
            let machine = machine::machine(self.root);
            let on_bus = |address: &str| self.pci()?.iter().find(|pci| pci.address == address)?.architecture();
            let all = machine.gpus.into_iter().map(|gpu| {
                let nvml = nvml.gpus.iter().find(|n| n.uuid == gpu.uuid).cloned();
                let mut seen =
                    GpuSeen { id: gpu.uuid, name: gpu.name, address: gpu.pci_bus_id, nvml, architecture: None };
                seen.architecture = match (seen.capability(), &seen.nvml) {
                    (Some(capability), _) => Some(Architecture::of_capability(capability)),
                    (None, Some(_)) => None,
                    (None, None) => on_bus(&seen.address),
                };
                seen
            });
            let all = all.chain(self.refused());
            match &self.selected {
                None => match machine::visible_gpus(self.root) {
                    // If none is visible, `gpu-present` is the finding for all of them.
                    Some((_, Visible::Only(shown))) if !shown.is_empty() => {
                        let is_shown = |gpu: &GpuSeen| shown.iter().any(|at| self.root.nvml().gpus[*at].uuid == gpu.id);
                        all.filter(is_shown).collect()
                    }
                    _ => all.collect(),
                },
                Some(wanted) => all
                    .enumerate()
                    .filter(|(index, gpu)| *wanted == index.to_string() || *wanted == gpu.id)
                    .map(|(_, gpu)| gpu)
                    .collect(),
            }
        })
    }

    /// The GPUs that the loaded proprietary modules refuse and that NVML does not list. Another GPU needs these modules.
    fn refused(&self) -> impl Iterator<Item = GpuSeen> {
        let listed = &self.root.nvml().gpus;
        let is_kept =
            !listed.is_empty() && self.is_divided() && machine::Driver::of(self.root).is_open() == Some(false);
        let is_refused = move |kind: &&GpuKind| {
            is_kept && kind.needs_open && listed.iter().all(|gpu| gpu.pci_bus_id != kind.address)
        };
        self.kinds().iter().filter(is_refused).map(|kind| GpuSeen {
            id: kind.address.clone(),
            name: kind.name.clone(),
            address: kind.address.clone(),
            nvml: None,
            architecture: Some(kind.architecture),
        })
    }

    /// Whether there is a GPU. It waits for NVML only if the PCI bus shows none.
    pub(crate) fn has_gpu(&self) -> bool {
        self.gpu_on_bus() || !self.root.nvml().gpus.is_empty()
    }

    pub(crate) fn config(&self) -> &Config {
        self.config.get_or_init(|| Config::load(self.root))
    }

    pub(crate) fn is_aarch64(&self) -> bool {
        machine::is_aarch64(self.root)
    }

    /// (major, minor) of the kernel release.
    pub(crate) fn kernel(&self) -> Option<(u32, u32)> {
        machine::kernel_version(self.root)
    }
}

/// Gives file systems with several names the name that the checks use. Amazon's FSx is Lustre.
fn by_one_name(mut facts: PathFacts) -> PathFacts {
    let name = match facts.filesystem.as_deref() {
        Some("fuse.fsx_lustre" | "lustre2" | "lustre_lite") => "lustre",
        Some("fuse.beegfs") => "beegfs",
        Some("fuse.gpfs") => "gpfs",
        Some("nfsv4") => "nfs4",
        Some("smbfs") => "cifs",
        Some("overlayfs") => "overlay",
        _ => return facts,
    };
    facts.filesystem = Some(name.to_owned());
    facts
}
