//! Checks of the current state of GPU and driver: free BAR1, ECC and Xid, stream memory operations, CUDA versions.

use crate::checks::advice::{Advice, rebuild_initramfs};
use crate::checks::classes;
use crate::checks::context::{Context, GpuSeen};
use crate::checks::gpu::device::enlarge_bar1;
use crate::checks::gpu::faults::{is_fault_of, is_of_a_program, recovery};
use crate::checks::gpu::{newer_driver, static_bar1};
use crate::checks::judged::{Cost, EVERY, Judged, Scope};
use crate::checks::logs::xid;
use crate::checks::matrix::GpuClass;
use crate::core::{CheckId, FixId, Route, units};
use crate::machine::{self, GpuAttributes, Message, NvmlGpu, Source, Visible};
use crate::text::capitalised;

/// The default of `max_device_cache_size_kb`: the size of libcufile's own buffers on the GPU.
const DEFAULT_CACHE_BYTES: u64 = 128 * units::MIB;

/// With less free BAR1, no loader can register a buffer.
const LEAST_BUFFER_BYTES: u64 = 16 * units::MIB;

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    out.extend(coherent_mode(ctx));
    for (number, gpu) in ctx.gpus().iter().enumerate() {
        let Some(nvml) = &gpu.nvml else { continue };
        let source = format!("NVML, GPU {}", gpu.address);
        let mut mine = Vec::new();
        mine.extend(bar1_left(ctx, gpu, nvml, &source));
        mine.extend(ecc(ctx, nvml, &source));
        out.extend(mine.into_iter().map(|judged| judged.of(Scope::Gpu(number))));
    }
    out
}

/// Checks that wait for the child process that opens libcufile and reads CUDA attributes.
pub(crate) fn late(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    out.extend(cuda_versions(ctx));
    out.extend(p2pdma_of_all(ctx));
    for (number, gpu) in ctx.gpus().iter().enumerate() {
        let asked = attributes(ctx, gpu);
        let source = format!("NVML, GPU {}", gpu.address);
        let mut mine = Vec::new();
        if gpu.nvml.is_some() || asked.is_some() {
            mine.push(stream_operations(ctx, asked.as_ref()));
        }
        mine.extend(direct_rdma(ctx, gpu, asked.as_ref(), &source));
        out.extend(mine.into_iter().map(|judged| judged.of(Scope::Gpu(number))));
    }
    out
}

/// The CUDA attributes of a GPU. In a capture they are among the NVML facts, otherwise they are from the child
/// process that opened libcufile.
fn attributes(ctx: &Context<'_>, gpu: &GpuSeen) -> Option<GpuAttributes> {
    let captured = gpu.nvml.as_ref().and_then(|nvml| nvml.attributes.clone());
    captured.or_else(|| {
        ctx.root.libcufile().cuda.iter().find(|seen| seen.uuid == gpu.id).map(|seen| seen.attributes.clone())
    })
}

/// Why the CUDA attributes are unknown.
fn unasked(ctx: &Context<'_>) -> &'static str {
    if ctx.root.libcufile().left_closed {
        "not read because of --no-probe"
    } else {
        "not read, because CUDA was not opened"
    }
}

/// Registered buffers are mapped in BAR1, and all loaders on a GPU share it (error 5016, fastsafetensors#28).
fn bar1_left(ctx: &Context<'_>, gpu: &GpuSeen, nvml: &NvmlGpu, source: &str) -> Option<Judged> {
    const ID: CheckId = CheckId::GpuBar1Free;
    let (total, used) = (nvml.bar1_total_bytes?, nvml.bar1_used_bytes?);
    if gpu.is_grace() || total == 0 {
        return None;
    }
    let free = total.saturating_sub(used);
    let is_static = ctx
        .root
        .read_text(machine::registry::PARAMS_FILE)
        .is_ok_and(|text| machine::registry::number(&text, "RMForceStaticBar1", Some(&gpu.address)) == Some(1));
    let is_small = total < nvml.memory_total_bytes.unwrap_or(0);
    let end = "the program that holds registered GPU memory, or lower its max_device_cache_size_kb.";
    let advice = || match is_small {
        true => enlarge_bar1(gpu).text(format!(" Until then: end {end}")),
        false => format!("End {end}").into(),
    };
    // The driver reports a mapping that does not fit, whatever is free at the moment.
    let failed = machine::kernel_log(ctx.root).filter(|_| is_small).and_then(|log| {
        let is_meant = |message: &&Message| message.text.contains("no space for BAR1 mappings");
        log.of(Source::Nvidia).rev().find(is_meant).map(|message| message.line.clone())
    });
    let judged = if is_static {
        Judged::info(ID, "BAR1 is mapped completely, so its use is not relevant")
    } else if free < LEAST_BUFFER_BYTES {
        Judged::lack(ID, format!("only {} of BAR1 is free: no buffer can be registered", units::bytes(free)))
            .missing(Cost::Root, &[Route::Nvfs])
            .advice(advice())
    } else if free < DEFAULT_CACHE_BYTES {
        Judged::warn(ID, format!("only {} of BAR1 is free: registrations will fail with 5016", units::bytes(free)))
            .advice(advice())
    } else if failed.is_some() {
        Judged::warn(ID, format!("BAR1 of {} was too small for a registration", units::bytes(total))).advice(advice())
    } else {
        Judged::pass(ID, format!("{} of BAR1 is free", units::bytes(free)))
    };
    let judged = judged.found(source, format!("BAR1 {used} of {total} bytes in use"));
    Some(match failed {
        Some(line) => judged.found(machine::KERNEL_LOG, line),
        None => judged,
    })
}

/// Further requirements of P2PDMA: `ForceP2P=0` on GPUs before Hopper, and support by all visible GPUs. Otherwise
/// libcufile disables it for all GPUs (cufile.log: 'Not all GPUs support PCIP2PDMA').
fn p2pdma_of_all(ctx: &Context<'_>) -> Vec<Judged> {
    let listed =
        ctx.root.libcufile().p2p_flags.as_ref().and_then(|flags| flags.get("nvme")).is_some_and(|m| m & 1 != 0);
    if ctx.is_aarch64() || listed {
        return Vec::new();
    }
    let mut out = Vec::new();
    let params = ctx.root.read_text(machine::registry::PARAMS_FILE).unwrap_or_default();
    let line = machine::registry::lines(&params);
    let able = |gpu: &GpuSeen| gpu.capability().is_some_and(|c| c >= (8, 0)) && !gpu.name.contains("GeForce");
    for (number, gpu) in ctx.gpus().iter().enumerate().filter(|(_, gpu)| able(gpu)) {
        let key = |name: &str| machine::registry::number(&params, name, Some(&gpu.address));
        if gpu.capability().is_some_and(|c| c < (9, 0))
            // The check of the machine reports the other keys, and its fix sets all of them.
            && key("RMForceStaticBar1") == Some(1)
            && key("RmForceDisableIomapWC") == Some(1)
            && key("ForceP2P") != Some(0)
        {
            let judged =
                Judged::lack(CheckId::GpuStaticBar1, "the driver lacks ForceP2P=0, which P2PDMA needs before Hopper")
                    .found(machine::registry::PARAMS_FILE, line.clone())
                    .missing(Cost::Reboot, &[Route::P2pdma]);
            let judged = if machine::registry::absent_after_reboot(ctx.root).is_empty() {
                judged.fix(FixId::Initramfs).advice(format!(
                    "{}, then reboot: the registry keys in /etc/modprobe.d have it.",
                    capitalised(&rebuild_initramfs(ctx.root))
                ))
            } else {
                let set = machine::modprobe::in_force(ctx.root, "nvidia", "NVreg_RegistryDwords");
                let is_argument = set.is_some_and(|set| set.source == machine::modprobe::COMMAND_LINE);
                judged.fix(FixId::P2pdmaRegistryKeys).advice(if is_argument {
                    static_bar1::moved(ctx)
                } else {
                    format!(
                        "Add ForceP2P=0 to the registry keys in /etc/modprobe.d, {}, then reboot.",
                        rebuild_initramfs(ctx.root)
                    )
                })
            };
            out.push(judged.of(Scope::Gpu(number)));
        }
    }
    // libcufile 1.17 was the first to read its own variable.
    let has_own = ctx.root.libcufile().version_numbers().is_some_and(|version| version >= (1, 17));
    let (own, cuda) = ("CUFILE_VISIBLE_DEVICES", machine::CUDA_VISIBLE_DEVICES);
    let is_unordered = machine::visible_gpus(ctx.root).is_some_and(|(_, shown)| shown == Visible::Unordered);
    let hidden = is_unordered || (has_own && ctx.root.variable(own).is_some());
    let other = ctx.gpus().iter().find(|gpu| gpu.capability().is_some() && !able(gpu));
    if let Some(other) = other.filter(|_| !hidden) {
        let able: Vec<(usize, &GpuSeen)> = ctx.gpus().iter().enumerate().filter(|(_, gpu)| able(gpu)).collect();
        let numbers: Vec<String> =
            able.iter().filter_map(|(_, gpu)| Some(gpu.nvml.as_ref()?.index.to_string())).collect();
        out.extend(able.iter().map(|(number, _)| {
            Judged::lack(CheckId::GpuP2pdmaModel, format!("{} disables P2PDMA for all visible GPUs", other.name))
                .found(format!("NVML, GPU {}", other.address), other.name.clone())
                .missing(Cost::Setting, &[Route::P2pdma])
                .advice(Advice::run(format!(
                    "export CUDA_DEVICE_ORDER=PCI_BUS_ID {}={}",
                    if has_own { own } else { cuda },
                    numbers.join(",")
                )))
                .of(Scope::Gpu(*number))
        }));
    }
    out
}

/// Whether CUDA failed when libcufile opened.
fn cuda_fails(ctx: &Context<'_>) -> bool {
    let open = ctx.root.libcufile().open.as_ref();
    open.is_some_and(|open| open.cuda_code.is_some_and(|code| code != 0))
}

/// Whether opening libcufile tried to start CUDA.
fn cuda_was_tried(ctx: &Context<'_>) -> bool {
    ctx.root.libcufile().open.as_ref().is_some_and(|open| open.code.is_some())
}

/// Whether the kernel log has the reason why CUDA does not start: a GPU that must be recovered.
pub(crate) fn must_recover(ctx: &Context<'_>) -> bool {
    let log = machine::kernel_log(ctx.root).unwrap_or_default();
    cuda_fails(ctx)
        && ctx.root.nvml().gpus.iter().any(|gpu| {
            log.of(Source::Xid)
                .rev()
                .find(|fault| is_fault_of(ctx, gpu, &fault.text) && !is_of_a_program(&fault.text))
                .is_some_and(|fault| recovery(&fault.text, &gpu.pci_bus_id).is_some())
        })
}

/// ECC, and GPU faults in the kernel log.
fn ecc(ctx: &Context<'_>, nvml: &NvmlGpu, source: &str) -> Option<Judged> {
    const ID: CheckId = CheckId::GpuEcc;
    let log = machine::kernel_log(ctx.root);
    let faults: Vec<&Message> = log
        .iter()
        .flat_map(|log| log.of(Source::Xid).rev())
        .filter(|fault| is_fault_of(ctx, nvml, &fault.text))
        .collect();
    let xid = faults.iter().find(|fault| !is_of_a_program(&fault.text)).copied();
    let judged = match (xid, nvml.ecc.as_deref()) {
        (None, Some(_)) if !faults.is_empty() => {
            Judged::info(ID, "the kernel log reports a fault of a program on the GPU (Xid)")
                .found(machine::KERNEL_LOG, &faults[0].line)
        }
        (Some(fault), _) => match recovery(&fault.text, &nvml.pci_bus_id) {
            Some(todo) if cuda_fails(ctx) => {
                Judged::lack(ID, "the GPU failed (Xid), and CUDA does not start until it is recovered")
                    .found(machine::KERNEL_LOG, &fault.line)
                    .missing(Cost::Root, EVERY)
                    .advice(todo)
            }
            // Without an attempt to start CUDA, the last report of the driver is the best evidence.
            Some(todo) if !cuda_was_tried(ctx) => {
                Judged::lack(ID, "the GPU failed (Xid) and must be recovered before the next read")
                    .found(machine::KERNEL_LOG, &fault.line)
                    .missing(Cost::Root, EVERY)
                    .advice(todo)
            }
            Some(todo) => Judged::warn(ID, "the kernel log reports a fault of a GPU (Xid)")
                .found(machine::KERNEL_LOG, &fault.line)
                .advice(todo),
            None => Judged::warn(ID, "the kernel log reports a fault of a GPU (Xid)")
                .found(machine::KERNEL_LOG, &fault.line)
                .advice(xid::number(&fault.text).map_or(xid::meaning(0).1, |number| xid::meaning(number).1)),
        },
        (None, Some("enabled")) => Judged::pass(ID, "ECC is on"),
        (None, Some(_)) => Judged::info(ID, "ECC is off, so memory errors are not noticed"),
        (None, None) => return None,
    };
    Some(judged.found(source, format!("ECC {}", nvml.ecc.as_deref().unwrap_or("not said"))))
}

fn stream_operations(ctx: &Context<'_>, asked: Option<&GpuAttributes>) -> Judged {
    const ID: CheckId = CheckId::GpuStreamMemops;
    const SOURCE: &str = "CUDA attribute 122";
    match asked.and_then(|a| a.stream_mem_ops) {
        Some(true) => Judged::pass(ID, "memory operations on streams are supported").found(SOURCE, "1"),
        Some(false) => Judged::info(ID, "memory operations on streams are not supported: cuFileReadAsync fails with 5038")
            .found(SOURCE, "0")
            .advice(format!(
                "For loaders on streams: set `options nvidia NVreg_EnableStreamMemOPs=1` in /etc/modprobe.d, {}, then reboot.",
                rebuild_initramfs(ctx.root)
            )),
        None => Judged::na(ID, "only CUDA reports whether streams can wait on memory")
            .found(SOURCE, unasked(ctx))
            .advice(Advice::run("gds-top selftest").text(" to test the stream engine.")),
    }
}

/// The CUDA attribute that direct reads need. If it is unknown, integrated GPUs are recognised by their name (DGX
/// Spark, Jetson).
fn direct_rdma(ctx: &Context<'_>, gpu: &GpuSeen, asked: Option<&GpuAttributes>, source: &str) -> Option<Judged> {
    const ID: CheckId = CheckId::GpuGdrAttr;
    if let Some(rdma) = asked.and_then(|a| a.gpu_direct_rdma).filter(|_| !classes::is_integrated(gpu)) {
        let judged = if rdma {
            Judged::pass(ID, "the GPU supports GPUDirect RDMA")
        } else {
            let judged = Judged::lack(ID, "CUDA reports that this GPU does not support GPUDirect RDMA")
                .never(&GpuClass::Integrated.row().closed());
            if gpu.name.contains("GeForce") {
                judged.cause(CheckId::GpuClass)
            } else if classes::of_gpu(gpu) == Some(GpuClass::OldVgpu) {
                judged.cause(CheckId::GpuMigVgpu)
            } else if machine::confidential_guest(ctx.root).is_some() {
                judged.cause(CheckId::VmConfidential)
            } else {
                judged.advice("Use a plain loader or cuFile's compat mode, because reads go through host memory.")
            }
        };
        return Some(judged.found("CUDA attribute 116", if rdma { "1" } else { "0" }));
    }
    if gpu.nvml.is_some() && !classes::is_integrated(gpu) {
        return Some(
            Judged::na(ID, "only CUDA reports whether this GPU supports GPUDirect RDMA")
                .found("CUDA attribute 116", unasked(ctx)),
        );
    }
    if !classes::is_integrated(gpu) {
        return None;
    }
    let judged = Judged::lack(ID, format!("{} is an integrated GPU without GPUDirect RDMA", gpu.name))
        .never(&GpuClass::Integrated.row().closed())
        .found(source, gpu.name.clone())
        .advice(
            "Reads go to host memory, which the GPU shares: use a plain loader or cuFile's compat mode. The keys of P2PDMA have no effect on this GPU.",
        );
    Some(match asked.and_then(|a| a.gpu_direct_rdma) {
        Some(false) => judged.found("CUDA attribute 116", "0"),
        _ => judged,
    })
}

fn coherent_mode(ctx: &Context<'_>) -> Option<Judged> {
    if !ctx.is_aarch64() || classes::is_arm_without_c2c(ctx) {
        return None;
    }
    let text = ctx.root.read_text(machine::registry::PARAMS_FILE).ok()?;
    let line = text.lines().find(|line| line.starts_with("CoherentGPUMemoryMode:"))?;
    let mode = line.split(':').nth(1).unwrap_or("").trim().trim_matches('"');
    let summary = match mode {
        "driver" => "the driver manages GPU memory (CDMM); it is not a NUMA node".to_owned(),
        "numa" => "GPU memory is a NUMA node".to_owned(),
        "" => "the memory mode of the coherent link is the driver's default".to_owned(),
        other => format!("memory mode {other}"),
    };
    Some(Judged::info(CheckId::GpuCoherentMode, summary).found(machine::registry::PARAMS_FILE, line))
}

/// Whether libcufile fails to open because the driver is too old.
pub(crate) fn library_is_newer(ctx: &Context<'_>) -> bool {
    cuda_versions(ctx).is_some_and(|judged| judged.in_the_way().next().is_some())
}

/// Whether libcufile is part of a newer CUDA release than the driver supports (CUDA error 35). GDS 1.15 and later
/// belong to CUDA 13, 1.4 to 1.14 to CUDA 12.
fn cuda_versions(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::CudaDriverRuntime;
    let served = ctx.root.nvml().cuda_version.clone()?;
    let major: u32 = served.split('.').next()?.parse().ok()?;
    let facts = ctx.root.libcufile();
    let version = facts.version_numbers()?;
    let wanted = match version {
        v if v >= (1, 15) => 13,
        v if v >= (1, 4) => 12,
        _ => 11,
    };
    let opened = facts.open.as_ref().is_some_and(|open| open.code == Some(0));
    // libcufile checks its configuration before it calls CUDA.
    let failed = facts.open.as_ref().is_some_and(|open| {
        open.code.is_some_and(|code| !matches!(code, 0 | 5002 | -22 | 5030)) || open.cuda_code == Some(35)
    });
    let text = facts.version().unwrap_or_default();
    let judged = if major >= wanted {
        Judged::pass(ID, format!("the driver supports CUDA {served}, and libcufile {text} needs {wanted}"))
    } else if failed {
        Judged::lack(ID, format!("libcufile {text} needs CUDA {wanted}, but the driver supports only {served}"))
            .missing(Cost::Install, EVERY)
            .fix(FixId::LibcufileInstall)
            .advice(newer_driver::for_cuda(ctx, major, wanted))
    } else {
        let but = if opened { ", but it opens" } else { "" };
        Judged::info(ID, format!("libcufile {text} needs CUDA {wanted}, and the driver supports {served}{but}"))
    };
    Some(
        judged
            .found("NVML", format!("CUDA {served}"))
            .found(facts.chosen.clone().unwrap_or_else(|| "libcufile".to_owned()), text),
    )
}
