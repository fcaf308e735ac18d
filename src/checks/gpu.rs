//! GPU and driver.

use super::context::{Context, GpuSeen, LAST_PROPRIETARY, version_numbers};
use super::judged::{Cost, DIRECT, EVERY, Judged, Scope};
use super::registry_keys;
use crate::domain::{Group::Gpu, Route, units};
use crate::host::{self, Architecture};

const VERSION_FILE: &str = "/proc/driver/nvidia/version";

/// The loaded driver as the machine tells it.
pub(super) struct Driver {
    pub(super) version: Option<String>,
    pub(super) line: Option<String>,
}

impl Driver {
    pub(super) fn of(ctx: &Context<'_>) -> Self {
        let line = host::nvidia_version_line(ctx.root);
        let from_line = line.as_deref().and_then(|line| {
            line.split_whitespace().find(|w| w.contains('.') && w.starts_with(|c: char| c.is_ascii_digit()))
        });
        let version = ctx.root.read_text("/sys/module/nvidia/version").ok().map(|text| text.trim().to_owned());
        Self { version: version.or_else(|| from_line.map(str::to_owned)), line }
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.line.is_some() || self.version.is_some()
    }

    /// Whether the open kernel modules are loaded; `None` where nothing says so.
    pub(super) fn is_open(&self) -> Option<bool> {
        self.line.as_ref().map(|line| line.to_lowercase().contains("open kernel"))
    }

    /// Whether the module on disk is the open one, where it is of the version that is loaded.
    fn installed_is_open(&self, ctx: &Context<'_>) -> Option<bool> {
        let output = ctx.root.command(&["modinfo", "nvidia"]).filter(|o| o.exit_code == Some(0))?;
        let field = |name: &str| output.stdout.lines().find_map(|l| l.strip_prefix(name)).map(|v| v.trim().to_owned());
        (field("version:") == self.version).then(|| field("license:").map(|license| license.contains("GPL")))?
    }
}

/// The version of nvidia-fs, loaded or installed.
pub(super) fn nvfs_version(ctx: &Context<'_>) -> Option<String> {
    host::nvidia_fs_version(ctx.root).or_else(|| {
        let output = ctx.root.command(&["modinfo", "nvidia_fs"]).filter(|o| o.exit_code == Some(0))?;
        let version = output.stdout.lines().find_map(|line| line.strip_prefix("version:"))?;
        Some(version.trim().to_owned())
    })
}

/// Checks that need no answer of NVML.
pub(super) fn quick(ctx: &Context<'_>) -> Vec<Judged> {
    let driver = Driver::of(ctx);
    if !driver.is_loaded() {
        return ["driver-version", "driver-flavour"]
            .iter()
            .map(|id| Judged::na(id, Gpu, "no NVIDIA driver is loaded").unread(VERSION_FILE, &host::Unread::Missing))
            .collect();
    }
    let mut out = Vec::new();
    if !ctx.is_aarch64() {
        out.push(registry_keys::static_bar1(ctx));
    }
    out
}

/// Checks that wait for NVML.
pub(super) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out: Vec<Judged> = mismatch(ctx).into_iter().collect();
    let driver = Driver::of(ctx);
    if driver.is_loaded() {
        out.extend([version(ctx, &driver), flavour(ctx, &driver)]);
    }
    for (number, gpu) in ctx.gpus().iter().enumerate() {
        out.extend(of_gpu(ctx, gpu).into_iter().map(|judged| judged.of(Scope::Gpu(number))));
    }
    out
}

fn version(ctx: &Context<'_>, driver: &Driver) -> Judged {
    const ID: &str = "driver-version";
    const WHY: &str = "nvidia-fs takes the persistent peer-to-peer calls from driver 555 on; P2PDMA needs the open modules from 565.47 on.";
    let Some(version) = driver.version.as_deref() else {
        return Judged::na(ID, Gpu, "the version of the loaded driver could not be read");
    };
    let numbers = version_numbers(version);
    let judged = if numbers < vec![460] {
        Judged::lack(ID, Gpu, format!("driver {version} is older than 460, the oldest that works with GDS"))
            .missing(Cost::Install, &[Route::Nvfs, Route::P2pdma, Route::C2c])
            .fixes(ctx.driver_fix())
    } else if ctx.before_turing().next().is_some() {
        // P2PDMA, which needs a later one, is not for this GPU.
        Judged::pass(ID, Gpu, format!("driver {version}"))
    } else if numbers < vec![555] {
        // On bare x86 nvidia-fs takes the persistent calls of such a driver, too.
        Judged::lack(ID, Gpu, format!("driver {version} works with nvidia-fs, but is too old for P2PDMA"))
            .missing(Cost::Install, &[Route::P2pdma])
            .fix("nvidia-driver-open")
    } else if numbers < vec![565, 47] {
        Judged::lack(ID, Gpu, format!("driver {version} is older than 565.47, the first with P2PDMA"))
            .missing(Cost::Install, &[Route::P2pdma])
            .fix("nvidia-driver-open")
    } else {
        Judged::pass(ID, Gpu, format!("driver {version}"))
    };
    judged.found(VERSION_FILE, driver.line.clone().unwrap_or_else(|| version.to_owned())).why(WHY)
}

fn flavour(ctx: &Context<'_>, driver: &Driver) -> Judged {
    const ID: &str = "driver-flavour";
    const WHY: &str = "From nvidia-fs 2.17.5 on its symbols come from the open kernel modules only, and P2PDMA exists only there; with the \
                       proprietary modules nvidia-fs fails to load with 'Unknown symbol nvidia_p2p_…'.";
    let judged = match driver.is_open().or_else(|| driver.installed_is_open(ctx)) {
        None => {
            Judged::na(ID, Gpu, "whether the open or the proprietary modules are loaded is not said").unknown(DIRECT)
        }
        Some(true) => Judged::pass(ID, Gpu, "open kernel modules"),
        Some(false) if ctx.before_turing().next().is_some() => {
            // What that means for the routes is said by the check gpu-open-capable.
            Judged::pass(ID, Gpu, "proprietary kernel modules, the only ones for a GPU before Turing")
        }
        Some(false) => {
            let nvfs = nvfs_version(ctx);
            let old = nvfs.as_deref().is_some_and(|v| version_numbers(v) <= vec![2, 17, 4]);
            let routes: &[Route] = if old { &[Route::P2pdma] } else { &[Route::Nvfs, Route::P2pdma] };
            let summary = match &nvfs {
                Some(version) if old => {
                    format!("proprietary kernel modules; enough for nvidia-fs {version}, not for P2PDMA")
                }
                Some(version) => format!("proprietary kernel modules do not go with nvidia-fs {version}"),
                None => "proprietary kernel modules: neither a current nvidia-fs nor P2PDMA works with them".to_owned(),
            };
            Judged::lack(ID, Gpu, summary)
                .missing(Cost::Install, routes)
                .fix("nvidia-driver-open")
                .advice("Install the open kernel modules of the same driver (Turing GPUs and later), then reboot.")
        }
    };
    judged.found(VERSION_FILE, driver.line.clone().unwrap_or_else(|| "not readable".to_owned())).why(WHY)
}

/// Whether the loaded module and the libraries are of different versions.
pub(super) fn is_mismatched(ctx: &Context<'_>) -> bool {
    mismatch(ctx).is_some_and(|judged| judged.in_the_way().next().is_some())
}

fn mismatch(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "driver-mismatch";
    const WHY: &str = "After a half-finished upgrade the loaded kernel module and the libraries differ, and everything of CUDA fails.";
    let driver = Driver::of(ctx);
    let nvml = ctx.root.nvml();
    let refused = nvml.error.as_deref().filter(|e| e.to_lowercase().contains("mismatch"));
    let loaded = match (driver.version.clone(), refused) {
        (Some(version), _) => version,
        (None, Some(_)) => "not readable".to_owned(),
        (None, None) => return None,
    };
    let other = nvml.driver_version.as_deref().filter(|version| **version != loaded);
    let judged = if refused.is_some() || other.is_some() {
        Judged::lack(ID, Gpu, format!("the loaded module is {loaded}, the libraries are of another version"))
            .found("NVML", refused.or(other).unwrap_or_default())
            .missing(Cost::Reboot, EVERY)
            .advice("Reboot, or unload and reload the nvidia modules, so that module and libraries are of one version.")
    } else {
        let installed = ctx.root.command(&["modinfo", "nvidia"]).filter(|o| o.exit_code == Some(0));
        let installed =
            installed.and_then(|o| Some(o.stdout.lines().find_map(|l| l.strip_prefix("version:"))?.trim().to_owned()));
        match installed.filter(|version| *version != loaded) {
            Some(version) => Judged::warn(
                ID,
                Gpu,
                format!("driver {loaded} is loaded, {version} is installed: the next boot changes it"),
            )
            .found("modinfo nvidia", version)
            .advice("Reboot before measuring, so that what is measured is what stays."),
            None if nvml.error.is_some() => return None,
            None => Judged::pass(ID, Gpu, format!("module and libraries are both {loaded}")),
        }
    };
    Some(judged.found("/sys/module/nvidia/version", loaded).why(WHY))
}

const TOO_OLD: &str = "The library refuses GPUs before Pascal: 'NO GDS SUPPORT - Reason: arch=(needs >=6)'.";

/// The PCI device id of a GPU.
fn on_bus(ctx: &Context<'_>, gpu: &GpuSeen) -> String {
    let device = ctx.pci().and_then(|all| all.iter().find(|pci| pci.address == gpu.address)?.device.clone());
    device.map_or_else(String::new, |id| format!("10de:{}", id.trim_start_matches("0x")))
}

fn of_gpu(ctx: &Context<'_>, gpu: &GpuSeen) -> Vec<Judged> {
    let mut out = Vec::new();
    let source = if gpu.nvml.is_some() { "NVML, GPU" } else { "PCI device" };
    let label = |judged: Judged, text: String| judged.found(format!("{source} {}", gpu.address), text);
    let capability = gpu.capability();
    if let Some((major, minor)) = capability {
        let judged = if major < 6 {
            // NVIDIA's page on compat mode: it does not work there either.
            Judged::lack(
                "gpu-compute-cap",
                Gpu,
                format!("compute capability {major}.{minor} is below 6.0: cuFile does not work on this GPU"),
            )
            .never(EVERY)
            .advice("Only loaders without cuFile work on this GPU.")
        } else {
            Judged::pass("gpu-compute-cap", Gpu, format!("compute capability {major}.{minor}"))
        };
        out.push(label(judged, format!("{major}.{minor}")).why(TOO_OLD));
    } else if let Some(architecture) = gpu.architecture.filter(|architecture| *architecture < Architecture::Pascal) {
        out.push(
            label(
                Judged::lack(
                    "gpu-compute-cap",
                    Gpu,
                    format!("the GPU is {}: cuFile does not work before Pascal", architecture.name()),
                )
                .never(EVERY)
                .advice("Only loaders without cuFile work on this GPU."),
                on_bus(ctx, gpu),
            )
            .why(TOO_OLD),
        );
    }
    let allowed = gpu.nvml.as_ref().and_then(|n| n.attributes.as_ref()).and_then(|a| a.gpu_direct_rdma) == Some(true);
    let class = if !allowed && ["TITAN", "CMP "].iter().any(|word| gpu.name.contains(word)) {
        Judged::warn("gpu-class", Gpu, format!("{} is neither a data-centre nor a workstation GPU", gpu.name)).advice(
            "Whether the driver gives its pages to disks is not documented; a load with gds-top counts its reads.",
        )
    } else if gpu.name.contains("GeForce") {
        Judged::lack("gpu-class", Gpu, format!("{} is a GeForce: no direct route", gpu.name))
            .never(DIRECT)
            .advice("Reads go through host memory here; use a plain loader or cuFile's compat mode.")
    } else {
        Judged::pass("gpu-class", Gpu, gpu.name.clone())
    };
    out.push(
        label(class, gpu.name.clone())
            .why("The driver gives no peer-to-peer pages of a GeForce: nvidia_p2p_get_pages returns -22."),
    );
    out.extend(open_capable(ctx, gpu).map(|judged| {
        label(judged, capability.map_or_else(|| on_bus(ctx, gpu), |(a, b)| format!("compute capability {a}.{b}")))
    }));
    out.extend(p2pdma_model(gpu, capability).map(|judged| label(judged, gpu.name.clone())));
    out.extend(of_nvml(gpu));
    out
}

/// Pascal and Volta cannot run the open kernel modules, which a current nvidia-fs and P2PDMA need.
fn open_capable(ctx: &Context<'_>, gpu: &GpuSeen) -> Option<Judged> {
    const ID: &str = "gpu-open-capable";
    // Before Pascal nothing of cuFile works with any modules.
    let architecture = gpu.architecture.filter(|a| matches!(a, Architecture::Pascal | Architecture::Volta))?;
    let name = match gpu.capability() {
        Some((major, minor)) => format!("compute capability {major}.{minor} ({})", architecture.name()),
        None => architecture.name().to_owned(),
    };
    let old = nvfs_version(ctx).is_some_and(|v| version_numbers(&v) <= vec![2, 17, 4]);
    let last = LAST_PROPRIETARY;
    let judged = if old {
        Judged::warn(ID, Gpu, format!("{name} is older than Turing: keep nvidia-fs at 2.17.4 or older"))
            .advice(format!("Keep the proprietary driver, branch {last} or older, and do not update nvidia-fs."))
    } else {
        // nvidia-fs 2.18.3 is the first that builds on Linux 6.2 (ChangeLog of nvidia-fs).
        let builds = if ctx.kernel().is_some_and(|kernel| kernel >= (6, 2)) {
            ", and that does not build on Linux 6.2 and later"
        } else {
            ""
        };
        Judged::lack(ID, Gpu, format!("{name} is older than Turing: no open kernel modules")).never(&[Route::Nvfs, Route::P2pdma]).advice(format!(
            "Keep the proprietary driver, branch {last} or older. Reads go through host memory; only nvidia-fs 2.17.4 or older has a direct route here{builds}."
        ))
    };
    Some(judged.why("The open modules run on Turing and later; nvidia-fs from 2.17.5 on and P2PDMA need them."))
}

fn p2pdma_model(gpu: &GpuSeen, capability: Option<(u32, u32)>) -> Option<Judged> {
    const ID: &str = "gpu-p2pdma-model";
    const LISTED: &[&str] = &["A100", "A40", "L4", "L40", "L40S", "H100", "H200", "B100", "B200", "B300"];
    const WHY: &str = "NVIDIA lists the GPUs on which P2PDMA is supported.";
    if gpu.is_grace()
        || gpu.name.contains("GeForce")
        || capability.is_some_and(|c| c < (6, 0))
        || (capability.is_none() && gpu.architecture.is_some_and(|a| a < Architecture::Pascal))
    {
        return None;
    }
    let listed = gpu.name.split([' ', '-']).any(|word| LISTED.contains(&word));
    Some(
        match capability {
            None if gpu.architecture.is_some_and(|a| a < Architecture::TuringOrLater) => {
                Judged::lack(ID, Gpu, "the GPU is older than Ampere: no P2PDMA")
                    .never(&[Route::P2pdma])
                    .cause("gpu-open-capable")
            }
            _ if listed => Judged::pass(ID, Gpu, "on NVIDIA's list for P2PDMA"),
            Some(capability) if capability < (8, 0) => {
                let judged = Judged::lack(ID, Gpu, format!("{} is older than Ampere: no P2PDMA", gpu.name))
                    .never(&[Route::P2pdma]);
                if capability < (7, 5) { judged.cause("gpu-open-capable") } else { judged }
            }
            Some(_) => {
                Judged::info(ID, Gpu, format!("{} is not on NVIDIA's list for P2PDMA; it may still work", gpu.name))
            }
            None => Judged::na(ID, Gpu, "the GPU's model is not known").unknown(&[Route::P2pdma]),
        }
        .why(WHY),
    )
}

/// What only NVML knows.
fn of_nvml(gpu: &GpuSeen) -> Vec<Judged> {
    let Some(nvml) = &gpu.nvml else { return Vec::new() };
    let source = format!("NVML, GPU {}", gpu.address);
    let mut out = Vec::new();
    if let Some(bar1) = nvml.bar1_total_bytes {
        let memory = nvml.memory_total_bytes.unwrap_or(0);
        let judged = if gpu.is_grace() {
            Judged::info("gpu-bar1-size", Gpu, "Grace reaches GPU memory over its own link")
        } else if bar1 == 0 {
            Judged::lack("gpu-bar1-size", Gpu, "the GPU has no BAR1 memory").never(&[Route::Nvfs, Route::P2pdma])
        } else if bar1 < memory {
            Judged::warn(
                "gpu-bar1-size",
                Gpu,
                format!(
                    "BAR1 is {}, the GPU has {}: registered memory is limited",
                    units::bytes(bar1),
                    units::bytes(memory)
                ),
            )
            .advice("Switch on 'Above 4G decoding' and 'Resizable BAR' in the firmware.")
        } else {
            Judged::pass("gpu-bar1-size", Gpu, format!("BAR1 covers the memory: {}", units::bytes(bar1)))
        };
        out.push(
            judged
                .found(&source, format!("BAR1 {bar1} bytes, memory {memory} bytes"))
                .why("Both nvidia-fs and P2PDMA place the target of a read in BAR1."),
        );
    }
    if let Some(mode) = &nvml.compute_mode {
        let judged = match mode.as_str() {
            "default" => Judged::pass("gpu-compute-mode", Gpu, "compute mode default"),
            "prohibited" => {
                Judged::lack("gpu-compute-mode", Gpu, "compute mode prohibited: nothing may run on this GPU")
                    .missing(Cost::Root, EVERY)
                    .advice(format!("sudo nvidia-smi -i {} -c 0", nvml.index))
            }
            other => Judged::warn("gpu-compute-mode", Gpu, format!("compute mode {other}: one process at a time"))
                .advice(format!("sudo nvidia-smi -i {} -c 0", nvml.index)),
        };
        out.push(judged.found(&source, mode.clone()).why("cuFile leaves out GPUs on which CUDA may not run."));
    }
    let shape = match (nvml.virtualization.as_deref(), nvml.mig.as_deref()) {
        (Some("vgpu"), _) => {
            if gpu.capability().is_some_and(|c| c < (8, 9)) {
                Some(Judged::lack("gpu-mig-vgpu", Gpu, "a vGPU of Ampere or older has no GDS").never(DIRECT))
            } else {
                Some(Judged::warn(
                    "gpu-mig-vgpu",
                    Gpu,
                    "this is a vGPU: direct routes need Ada or later and the open guest driver",
                ))
            }
        }
        (_, Some("enabled")) => {
            Some(Judged::warn("gpu-mig-vgpu", Gpu, "MIG is on: an instance has a share of BAR1 only"))
        }
        (Some(_), _) | (_, Some(_)) => Some(Judged::pass("gpu-mig-vgpu", Gpu, "a whole GPU")),
        _ => None,
    };
    out.extend(shape.map(|judged| {
        judged
            .found(
                &source,
                format!(
                    "virtualization {}, MIG {}",
                    nvml.virtualization.as_deref().unwrap_or("unknown"),
                    nvml.mig.as_deref().unwrap_or("not available")
                ),
            )
            .why("GDS wants a whole GPU, on bare metal or passed through.")
    }));
    if let Some((width, most)) = nvml.pcie.as_ref().and_then(|link| Some((link.width?, link.max_width?))) {
        // The generation drops while the GPU idles, the width does not, so only the width tells something now.
        let judged = if width < most {
            Judged::warn("gpu-pcie-link", Gpu, format!("the GPU uses {width} of {most} PCIe lanes"))
                .advice("Reseat the card, or look at the firmware's bifurcation of the slot.")
        } else {
            Judged::pass("gpu-pcie-link", Gpu, format!("all {most} PCIe lanes are in use"))
        };
        out.push(
            judged.found(&source, format!("width {width} of {most}")).why("The link is the ceiling of every route."),
        );
    }
    if let Some(on) = nvml.persistence {
        let judged = if on {
            Judged::pass("gpu-persistence", Gpu, "persistence mode is on")
        } else {
            let summary = "persistence mode is off: the first start of a GPU program is slow";
            // NVIDIA's known issues ask for it on Grace Hopper; elsewhere it costs time at the start only.
            let judged = if gpu.is_grace() {
                Judged::warn("gpu-persistence", Gpu, format!("{summary}; Grace needs it"))
            } else {
                Judged::info("gpu-persistence", Gpu, summary)
            };
            judged.advice("sudo systemctl enable --now nvidia-persistenced")
        };
        out.push(
            judged.found(&source, if on { "on" } else { "off" }).why("Start-up cost pollutes the timing of loads."),
        );
    }
    out
}
