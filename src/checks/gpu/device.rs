//! Checks of each GPU: its model, its features, and its settings in NVML.

use crate::checks::advice::Advice;
use crate::checks::classes;
use crate::checks::context::{Context, GpuSeen, LAST_PROPRIETARY};
use crate::checks::gpu::flavours::{self, is_for_proprietary};
use crate::checks::gpu::guest_driver;
use crate::checks::judged::{Cost, EVERY, Judged, Scope};
use crate::checks::matrix::{self, GpuClass};
use crate::core::{CheckId, FindingFact, FixId, Route, units};
use crate::machine::{self, Architecture};

/// Checks of each GPU. They wait for NVML.
pub(crate) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    for (number, gpu) in ctx.gpus().iter().enumerate() {
        out.extend(of_gpu(ctx, gpu).into_iter().map(|judged| judged.of(Scope::Gpu(number))));
    }
    out
}

/// Whether cuFile supports none of the GPUs, because all are older than Pascal.
pub(crate) fn is_before_pascal(ctx: &Context<'_>) -> bool {
    let is_old = |gpu: &GpuSeen| match gpu.capability() {
        Some(capability) => capability < (6, 0),
        None => gpu.architecture.is_some_and(|architecture| architecture < Architecture::Pascal),
    };
    !ctx.gpus().is_empty() && ctx.gpus().iter().all(is_old)
}

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
            // Compat mode does not work on these GPUs either (NVIDIA's page on compat mode).
            Judged::lack(
                CheckId::GpuComputeCap,
                format!("compute capability {major}.{minor} is below 6.0: cuFile does not work on this GPU"),
            )
            .never(&GpuClass::BeforePascal.row().closed())
            .advice("Use loaders without cuFile on this GPU.")
        } else {
            Judged::pass(CheckId::GpuComputeCap, format!("compute capability {major}.{minor}"))
        };
        out.push(label(judged, format!("{major}.{minor}")));
    } else if let Some(architecture) = gpu.architecture.filter(|architecture| *architecture < Architecture::Pascal) {
        out.push(label(
            Judged::lack(
                CheckId::GpuComputeCap,
                format!("the GPU is {}: cuFile does not work before Pascal", architecture.name()),
            )
            .never(&GpuClass::BeforePascal.row().closed())
            .advice("Use loaders without cuFile on this GPU."),
            on_bus(ctx, gpu),
        ));
    }
    let allowed = gpu.nvml.as_ref().and_then(|n| n.attributes.as_ref()).and_then(|a| a.gpu_direct_rdma) == Some(true);
    let class = if !allowed && ["TITAN", "CMP "].iter().any(|word| gpu.name.contains(word)) {
        Judged::warn(CheckId::GpuClass, format!("{} is neither a data-centre nor a workstation GPU", gpu.name)).advice(
            Advice::from("NVIDIA does not document direct routes for it. Run ")
                .command("gds-top bench MODEL")
                .text(" to count its reads."),
        )
    } else if gpu.name.contains("GeForce") {
        Judged::lack(CheckId::GpuClass, format!("{} is a GeForce: no direct route", gpu.name))
            .never(&GpuClass::GeForce.row().closed())
            .advice("Reads go through host memory: use a plain loader or cuFile's compat mode.")
    } else {
        Judged::pass(CheckId::GpuClass, gpu.name.clone())
    };
    out.push(label(class, gpu.name.clone()));
    out.extend(flavours::of_gpu(ctx, gpu));
    out.extend(open_capable(ctx, gpu).map(|judged| {
        label(judged, capability.map_or_else(|| on_bus(ctx, gpu), |(a, b)| format!("compute capability {a}.{b}")))
    }));
    out.extend(p2pdma_model(ctx, gpu, capability).map(|judged| label(judged, gpu.name.clone())));
    out.extend(of_nvml(ctx, gpu, machine::Driver::of(ctx.root).is_open() == Some(true)));
    out.extend(compute_mode(ctx, gpu).into_iter().chain(partition(ctx, gpu)));
    out
}

/// The CUDA error with which libcufile did not open.
fn cuda_error(ctx: &Context<'_>) -> Option<i32> {
    ctx.root.libcufile().open.as_ref().filter(|open| open.code != Some(0))?.cuda_code
}

/// The check of a GPU that explains a CUDA error: 46 (a GPU in exclusive mode is in use), and 100 (MIG is on, and no
/// instance exists).
pub(crate) fn explains(ctx: &Context<'_>, error: Option<i32>) -> Option<CheckId> {
    let has = |judged: Option<Judged>| judged.is_some_and(|judged| judged.stops(Route::Compat));
    match error? {
        46 | 100 if ctx.gpus().iter().any(|gpu| has(compute_mode(ctx, gpu))) => Some(CheckId::GpuComputeMode),
        100 if ctx.gpus().iter().any(|gpu| has(partition(ctx, gpu))) => Some(CheckId::GpuMigVgpu),
        _ => None,
    }
}

/// The compute mode, which can exclude programs.
fn compute_mode(ctx: &Context<'_>, gpu: &GpuSeen) -> Option<Judged> {
    const ID: CheckId = CheckId::GpuComputeMode;
    let nvml = gpu.nvml.as_ref()?;
    let mode = nvml.compute_mode.as_ref()?;
    let allow = || Advice::run(format!("sudo nvidia-smi -i {} -c 0", nvml.index));
    let judged = match mode.as_str() {
        "default" => Judged::pass(ID, "compute mode default"),
        "prohibited" => Judged::lack(ID, "compute mode prohibited: no program can use this GPU")
            .missing(Cost::Root, EVERY)
            .advice(allow()),
        other if cuda_error(ctx) == Some(46) => {
            Judged::lack(ID, format!("another process uses the GPU, and compute mode {other} allows only one"))
                .missing(Cost::Root, EVERY)
                .advice(allow().text(", or end the process that `nvidia-smi` lists."))
        }
        // The MPS server is that process, and programs share the GPU through it.
        other if ctx.root.variable("CUDA_MPS_PIPE_DIRECTORY").is_some() => {
            Judged::info(ID, format!("compute mode {other}, as the MPS server needs it"))
        }
        other => Judged::warn(ID, format!("compute mode {other}: one process at a time")).advice(allow()),
    };
    Some(judged.found(format!("NVML, GPU {}", gpu.address), mode.clone()))
}

/// MIG without an instance, which CUDA reports as no GPU.
fn partition(ctx: &Context<'_>, gpu: &GpuSeen) -> Option<Judged> {
    let nvml = gpu.nvml.as_ref().filter(|nvml| nvml.mig.as_deref() == Some("enabled"))?;
    let judged = if cuda_error(ctx) != Some(100) {
        Judged::warn(CheckId::GpuMigVgpu, "MIG is on: an instance has only a part of BAR1").advice(
            "If a direct route fails, stay with compat mode, or remove the instances and turn MIG off on the host.",
        )
    } else {
        let judged =
            Judged::lack(CheckId::GpuMigVgpu, "MIG is on, and CUDA lists no MIG instance").missing(Cost::Root, EVERY);
        match machine::container(ctx.root) {
            Some(container) if container.runtime == "kubernetes" => {
                judged.advice("Request an instance for the pod, such as nvidia.com/mig-3g.40gb, or turn MIG off on the node.")
            }
            Some(_) => judged.advice(
                "On the host, create an instance (nvidia-smi mig -cgi 0 -C) and give it to the container, or turn MIG off (nvidia-smi -mig 0).",
            ),
            None => judged.advice(
                Advice::from("Create an instance: ")
                    .command(format!("sudo nvidia-smi mig -i {0} -cgi 0 -C", nvml.index))
                    .text(". Or turn MIG off: ")
                    .command(format!("sudo nvidia-smi -i {0} -mig 0", nvml.index)),
            ),
        }
    };
    Some(judged.found(format!("NVML, GPU {}", gpu.address), "MIG enabled"))
}

/// Pascal and Volta do not support the open kernel modules, which current nvidia-fs and P2PDMA require.
fn open_capable(ctx: &Context<'_>, gpu: &GpuSeen) -> Option<Judged> {
    const ID: CheckId = CheckId::GpuOpenCapable;
    // On GPUs older than Pascal, cuFile does not work with any kernel modules.
    let architecture = gpu.architecture.filter(|a| matches!(a, Architecture::Pascal | Architecture::Volta))?;
    let name = match gpu.capability() {
        Some((major, minor)) => format!("compute capability {major}.{minor} ({})", architecture.name()),
        None => architecture.name().to_owned(),
    };
    let old = machine::nvidia_fs_installed(ctx.root).is_some_and(|version| is_for_proprietary(ctx, &version));
    let last = LAST_PROPRIETARY;
    let judged = if let Some(summary) = only_lacks_old_module(ctx, &name, old) {
        Judged::lack(ID, summary)
            .fact(FindingFact::HandBuiltNvidiaFs)
            .missing(Cost::Install, &[Route::Nvfs])
            .never(&[Route::P2pdma])
            .advice(old_module(ctx))
    } else if old {
        Judged::warn(ID, format!("{name} is older than Turing: keep nvidia-fs at 2.17.4 or older"))
            .advice(format!("Keep the proprietary driver, branch {last} or older, and do not update nvidia-fs."))
    } else if ctx.is_divided() {
        Judged::lack(ID, format!("{name} is older than Turing and cannot use the open kernel modules")).never(&[Route::Nvfs, Route::P2pdma]).advice(format!(
            "With the proprietary driver, branch {last} or older, this GPU reads through host memory. For a direct route, the newer GPU of this machine needs the open kernel modules."
        ))
    } else {
        // nvidia-fs 2.18.3 is the first version that builds on Linux 6.2 (ChangeLog of nvidia-fs).
        let also = if ctx.kernel().is_some_and(|kernel| kernel >= (6, 2)) {
            ""
        } else {
            " Only nvidia-fs 2.17.4 or older, built by hand, has a direct route on this GPU."
        };
        Judged::lack(ID, format!("{name} is older than Turing and cannot use the open kernel modules")).never(&[Route::Nvfs, Route::P2pdma]).advice(format!(
            "Use a Turing or newer GPU for a direct route. With the proprietary driver, branch {last} or older, this GPU reads through host memory.{also}"
        ))
    };
    Some(judged)
}

/// The finding if all parts of the route nvfs can be right except the version of nvidia-fs: the newest one that loads next
/// to the proprietary modules is 2.17.4, and it builds on kernels before 6.2 (ChangeLog of nvidia-fs).
fn only_lacks_old_module(ctx: &Context<'_>, name: &str, is_old: bool) -> Option<String> {
    const HOOKS: [&str; 2] = ["nvme_v1_register_nvfs_dma_ops", "nvme_v2_register_nvfs_dma_ops"];
    let is_proprietary = machine::Driver::of(ctx.root).is_open() == Some(false);
    if is_old || !is_proprietary || ctx.kernel().is_none_or(|kernel| kernel >= (6, 2)) {
        return None;
    }
    match machine::nvidia_fs_installed(ctx.root) {
        Some(version) => {
            Some(format!("nvidia-fs {version} needs the open kernel modules, which do not support this GPU"))
        }
        None => {
            let is_patched =
                ctx.root.symbols().is_ok_and(|symbols| HOOKS.iter().any(|symbol| symbols.contains(*symbol)));
            is_patched.then(|| format!("{name} needs nvidia-fs 2.17.4 or older, which is not installed"))
        }
    }
}

/// How to install the newest nvidia-fs that loads next to the proprietary modules. The package would replace it.
fn old_module(ctx: &Context<'_>) -> Advice {
    let dnf = machine::packages::dnf(ctx.root);
    let (remove, install) = match machine::packages::family(ctx.root) {
        machine::packages::Family::Debian => {
            ("sudo apt-get purge nvidia-fs-dkms".to_owned(), "sudo apt-get update && sudo apt-get install".to_owned())
        }
        machine::packages::Family::RedHat => (
            format!("sudo {dnf} remove --setopt=clean_requirements_on_remove=False nvidia-fs-dkms"),
            format!("sudo {dnf} install"),
        ),
        machine::packages::Family::Suse => {
            ("sudo zypper remove nvidia-fs-dkms".to_owned(), "sudo zypper install".to_owned())
        }
    };
    let build = format!(
        "{install} git make gcc && git clone --depth 1 --branch v2.17.4 https://github.com/NVIDIA/gds-nvidia-fs && sudo make -C gds-nvidia-fs/src && sudo make -C gds-nvidia-fs/src install"
    );
    let is_installed =
        machine::nvidia_fs_installed(ctx.root).is_some() || !machine::nvidia_fs_builds(ctx.root).is_empty();
    let advice = if is_installed {
        Advice::from("Keep the proprietary driver. Replace nvidia-fs by 2.17.4: remove its package with ")
            .command(remove)
    } else {
        Advice::from("Keep the proprietary driver, and install no package of nvidia-fs")
    };
    advice
        .text(", build 2.17.4 with ")
        .command(build)
        .text(", and load it with ")
        .command("sudo modprobe nvidia-fs")
        .text(". Build it again after each update of the kernel, the NVIDIA driver or the NVMe driver.")
}

/// The replacement of a GPU without P2PDMA.
const LISTED: &str = "For P2PDMA, use a GPU on NVIDIA's list, such as A100, L4, L40S or H100.";

fn p2pdma_model(ctx: &Context<'_>, gpu: &GpuSeen, capability: Option<(u32, u32)>) -> Option<Judged> {
    const ID: CheckId = CheckId::GpuP2pdmaModel;
    if gpu.is_grace()
        || gpu.name.contains("GeForce")
        || capability.is_some_and(|c| c < (6, 0))
        || (capability.is_none() && gpu.architecture.is_some_and(|a| a < Architecture::Pascal))
    {
        return None;
    }
    // Without a driver, the PCI device id shows the model.
    let on_bus = ctx.pci().into_iter().flatten().find(|pci| pci.address == gpu.address && gpu.nvml.is_none());
    let listed = classes::is_listed(gpu) || on_bus.is_some_and(machine::PciGpu::is_listed_for_p2pdma);
    Some(match capability {
        None if gpu.architecture.is_some_and(|a| a < Architecture::TuringOrLater) => {
            Judged::lack(ID, "the GPU is older than Ampere: no P2PDMA")
                .never(&[Route::P2pdma])
                .cause(CheckId::GpuOpenCapable)
        }
        _ if listed => Judged::pass(ID, "on NVIDIA's list for P2PDMA"),
        None if on_bus.is_some_and(machine::PciGpu::is_turing) => {
            Judged::lack(ID, "the GPU is older than Ampere: no P2PDMA").never(&[Route::P2pdma]).advice(LISTED)
        }
        Some(capability) if capability < (8, 0) => {
            let judged =
                Judged::lack(ID, format!("{} is older than Ampere: no P2PDMA", gpu.name)).never(&[Route::P2pdma]);
            if capability < (7, 5) { judged.cause(CheckId::GpuOpenCapable) } else { judged.advice(LISTED) }
        }
        Some(_) => Judged::info(ID, format!("{} is not on NVIDIA's list for P2PDMA", gpu.name)),
        None => Judged::na(ID, "without NVML, the checks do not know whether P2PDMA supports this GPU")
            .unknown(&[Route::P2pdma]),
    })
}

/// How to get a BAR1 that covers the memory.
pub(crate) fn enlarge_bar1(gpu: &GpuSeen) -> Advice {
    const FIRMWARE: &str = "enable 'Above 4G decoding' and 'Resizable BAR' in the firmware";
    if machine::has_display_mode(&gpu.name) {
        Advice::from("Use NVIDIA's Display Mode Selector Tool: ")
            .command("sudo ./displaymodeselector --gpumode physical_display_disabled")
            .text(format!(
                ", then reboot. This switches off the display outputs of the card; with displays on it, {FIRMWARE}."
            ))
    } else {
        crate::text::capitalised(&format!("{FIRMWARE}.")).into()
    }
}

/// Checks of facts that only NVML reports. `is_open` is true if the open kernel modules are loaded.
fn of_nvml(ctx: &Context<'_>, gpu: &GpuSeen, is_open: bool) -> Vec<Judged> {
    let Some(nvml) = &gpu.nvml else { return Vec::new() };
    let source = format!("NVML, GPU {}", gpu.address);
    let mut out = Vec::new();
    if let Some(bar1) = nvml.bar1_total_bytes {
        let memory = nvml.memory_total_bytes.unwrap_or(0);
        let judged = if gpu.is_grace() {
            Judged::info(CheckId::GpuBar1Size, "Grace reaches GPU memory over NVLink-C2C")
        } else if bar1 == 0 {
            Judged::lack(CheckId::GpuBar1Size, "the GPU has no BAR1 memory").never(&[Route::Nvfs, Route::P2pdma])
        } else if bar1 < memory && matrix::is_closed(classes::of_gpu(gpu), None, Route::P2pdma) {
            // Nothing enlarges the BAR1 of these GPUs, and the route nvfs needs only the registered part of the memory.
            Judged::info(
                CheckId::GpuBar1Size,
                format!("BAR1 is {}: registered memory is limited to it", units::bytes(bar1)),
            )
        } else if bar1 < memory {
            Judged::warn(
                CheckId::GpuBar1Size,
                format!("BAR1 is {} for {} of memory: too small for P2PDMA", units::bytes(bar1), units::bytes(memory)),
            )
            .missing(Cost::Reboot, &[Route::P2pdma])
            .fix(FixId::Bar1Large)
            .advice(enlarge_bar1(gpu))
        } else {
            Judged::pass(CheckId::GpuBar1Size, format!("BAR1 covers the memory: {}", units::bytes(bar1)))
        };
        out.push(judged.found(&source, format!("BAR1 {bar1} bytes, memory {memory} bytes")));
    }
    let shape = match (nvml.virtualization.as_deref(), nvml.mig.as_deref()) {
        (Some("vgpu"), _) => {
            if gpu.capability().is_some_and(|c| c < (8, 9)) {
                Some(
                    Judged::lack(CheckId::GpuMigVgpu, "a vGPU of Ampere or older does not support GDS")
                        .never(&GpuClass::OldVgpu.row().closed())
                        .advice("Pass the complete GPU through to the virtual machine, or use a vGPU of Ada or later with the open guest driver (nvfs only). Otherwise stay with compat mode."),
                )
            } else {
                Some(if is_open {
                    Judged::info(
                        CheckId::GpuMigVgpu,
                        "a vGPU with the open guest driver has the route nvfs, but no P2PDMA",
                    )
                    .never(&[Route::P2pdma])
                } else {
                    Judged::warn(CheckId::GpuMigVgpu, "this is a vGPU: nvidia-fs needs the open guest driver")
                        .never(&[Route::P2pdma])
                        .advice(guest_driver::install(ctx))
                })
            }
        }
        (_, Some("enabled")) => None,
        (Some(_), _) | (_, Some(_)) => Some(Judged::pass(CheckId::GpuMigVgpu, "a complete GPU")),
        _ => None,
    };
    out.extend(shape.map(|judged| {
        judged.found(
            &source,
            format!(
                "virtualization {}, MIG {}",
                nvml.virtualization.as_deref().unwrap_or("unknown"),
                nvml.mig.as_deref().unwrap_or("not available")
            ),
        )
    }));
    if let Some((width, most)) = nvml.pcie.as_ref().and_then(|link| Some((link.width?, link.max_width?))) {
        // An idle GPU lowers the generation of its link but keeps its width, so only the width is compared.
        let judged = if width < most {
            Judged::warn(CheckId::GpuPcieLink, format!("the GPU uses {width} of {most} PCIe lanes"))
                .advice("Reseat the card, or check the bifurcation of the slot in the firmware.")
        } else {
            Judged::pass(CheckId::GpuPcieLink, format!("the GPU uses all {most} PCIe lanes"))
        };
        out.push(judged.found(&source, format!("width {width} of {most}")));
    }
    if let Some(on) = nvml.persistence {
        let judged = if on {
            Judged::pass(CheckId::GpuPersistence, "persistence mode is on")
        } else {
            let summary = "persistence mode is off: the first GPU program starts slowly";
            // NVIDIA's known issues list it as required on Grace Hopper. On other machines, only the first start is
            // slower without it.
            let judged = if gpu.is_grace() {
                Judged::warn(CheckId::GpuPersistence, format!("{summary}; Grace needs it"))
            } else {
                Judged::info(CheckId::GpuPersistence, summary)
            };
            judged.advice(Advice::run("sudo systemctl enable --now nvidia-persistenced"))
        };
        out.push(judged.found(&source, if on { "on" } else { "off" }));
    }
    out
}
