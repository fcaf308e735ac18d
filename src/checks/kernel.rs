//! Kernel and platform.

use super::context::Context;
use super::judged::{Cost, DIRECT, EVERY, Judged};
use super::registry_keys;
use crate::domain::{Group::Kernel, Route};
use crate::host;

const P2PDMA: &[Route] = &[Route::P2pdma];

pub(super) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = vec![wsl(ctx), version(ctx)];
    if ctx.gpu_on_bus() || ctx.is_aarch64() {
        out.push(iommu(ctx));
    }
    out.push(p2pdma(ctx));
    out.extend(blocklist(ctx));
    out.extend(super::reboot_pending::run(ctx));
    out.push(architecture(ctx));
    out.extend(kaslr(ctx));
    out
}

/// libcufile is made for two architectures.
fn architecture(ctx: &Context<'_>) -> Judged {
    const ID: &str = "cpu-arch";
    const FILE: &str = "/proc/sys/kernel/arch";
    let judged = match ctx.root.read_text(FILE).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    {
        Some(arch) if arch == "x86_64" || arch == "aarch64" => Judged::pass(ID, Kernel, arch.clone()).found(FILE, arch),
        Some(arch) => Judged::lack(ID, Kernel, format!("current releases of libcufile are not made for {arch}"))
            .found(FILE, arch)
            .never(EVERY),
        // The file is of Linux 6.1; a program that runs here was made for one of the two.
        None if ctx.is_aarch64() => Judged::pass(ID, Kernel, "aarch64").found("/proc/cpuinfo", "CPU implementer"),
        None if ctx.root.read_text("/proc/cpuinfo").is_ok_and(|text| text.lines().any(|l| l.contains(": POWER"))) => {
            Judged::lack(ID, Kernel, "current releases of libcufile are not made for POWER")
                .found("/proc/cpuinfo", "POWER")
                .never(EVERY)
        }
        None => Judged::na(ID, Kernel, "the architecture is not said").found(FILE, "cannot be read"),
    };
    judged.why("On another one libcufile says 'Platform CPU Architecture not Supported!'.")
}

/// The last thing to try where P2PDMA stays off though all is set for it (known issues of GDS).
fn kaslr(ctx: &Context<'_>) -> Option<Judged> {
    let params = ctx.root.read_text("/proc/driver/nvidia/params").ok()?;
    let cmdline = ctx.root.read_text("/proc/cmdline").ok()?;
    if ctx.is_aarch64() || !registry_keys::all_have(ctx, &params, "RMForceStaticBar1", 1) {
        return None;
    }
    let off = cmdline.split_whitespace().any(|word| word == "nokaslr");
    let judged = if off {
        Judged::pass("kaslr-p2pdma", Kernel, "addresses of the kernel are not randomised")
    } else {
        Judged::info("kaslr-p2pdma", Kernel, "addresses of the kernel are randomised, which P2PDMA rarely minds")
            .advice("Only where P2PDMA stays off (801) though every check passes: boot once with nokaslr; it lowers the security of the kernel.")
    };
    Some(
        judged
            .found("/proc/cmdline", if off { "nokaslr" } else { "no nokaslr" })
            .why("NVIDIA lists it among the known issues of P2PDMA."),
    )
}

/// Systems on which a route is documented not to work (NVIDIA's known issues).
fn blocklist(ctx: &Context<'_>) -> Option<Judged> {
    let id = host::os_release(ctx.root, "ID")?;
    let version = host::os_release(ctx.root, "VERSION_ID")?;
    let family = ["rhel", "rocky", "almalinux", "ol", "centos"].contains(&id.as_str());
    // Oracle's own kernel and those of ELRepo are others than the one that has the fault.
    let release = host::kernel_release(ctx.root).unwrap_or_default();
    let own = !release.contains("uek") && !release.contains("elrepo");
    (family && own && version == "9.5" && !ctx.is_aarch64()).then(|| {
        Judged::lack("distro-blocklist", Kernel, "P2PDMA does not work on RHEL 9.5 and its rebuilds for x86")
            .found("/etc/os-release", format!("ID={id}, VERSION_ID={version}"))
            .missing(Cost::System, P2PDMA)
            .why("NVIDIA lists it among the known issues.")
            .advice("Update to RHEL 9.6 or later.")
    })
}

/// Whether this is the Windows Subsystem for Linux: by the name of its kernel, or, with a kernel of one's own, by the marks of Windows' side. That
/// Microsoft built the kernel says nothing: Azure Linux is built there, too.
pub(super) fn is_wsl(ctx: &Context<'_>) -> bool {
    wsl_mark(ctx).is_some()
}

fn wsl_mark(ctx: &Context<'_>) -> Option<(&'static str, String)> {
    if let Some(release) = host::kernel_release(ctx.root).filter(|release| release.contains("icrosoft")) {
        return Some(("/proc/sys/kernel/osrelease", release));
    }
    let mark = ["/proc/sys/fs/binfmt_misc/WSLInterop", "/run/WSL"].into_iter().find(|mark| ctx.root.exists(mark))?;
    Some((mark, "exists".to_owned()))
}

fn wsl(ctx: &Context<'_>) -> Judged {
    const ID: &str = "wsl";
    let judged = if let Some((source, text)) = wsl_mark(ctx) {
        Judged::lack(ID, Kernel, "this is the Windows Subsystem for Linux: cuFile does not work here")
            .found(source, text)
            .never(EVERY)
            .advice("Use Linux itself; here only the loaders without cuFile work.")
    } else {
        let release = host::kernel_release(ctx.root).unwrap_or_default();
        Judged::pass(ID, Kernel, "not WSL").found("/proc/sys/kernel/osrelease", release)
    };
    judged.why("On WSL libcufile aborts the process: 'Assertion failure, file index :cufio-udev line :143'.")
}

fn version(ctx: &Context<'_>) -> Judged {
    const ID: &str = "kernel-version";
    let Some(numbers) = ctx.kernel() else {
        return Judged::na(ID, Kernel, "the kernel's release could not be read");
    };
    let release = host::kernel_release(ctx.root).unwrap_or_default();
    if let Some((source, text)) = gvisor(ctx, &release) {
        return Judged::lack(ID, Kernel, "this is a sandbox of gVisor, which answers for a kernel of its own: no disk reaches a GPU through it")
            .found(source, text)
            .never(DIRECT)
            .advice("Run the program in a container without gVisor (runtimeClassName of runc), or keep to the loaders without cuFile.")
            .why("gVisor carries out system calls itself; P2PDMA and nvidia-fs live in the kernel behind it.");
    }
    let judged = if numbers < (4, 15) {
        Judged::lack(ID, Kernel, format!("Linux {release} is older than 4.15"))
            .missing(Cost::System, &[Route::Nvfs, Route::P2pdma])
    } else if numbers < (6, 2) && carries_p2pdma_back(ctx, &release) {
        Judged::pass(ID, Kernel, format!("Linux {release}, to which Red Hat carried P2PDMA back"))
    } else if numbers < (6, 2) {
        Judged::lack(ID, Kernel, format!("Linux {release} is older than 6.2, the first with P2PDMA for user memory"))
            .missing(Cost::System, P2PDMA)
            .fix("kernel-p2pdma")
            .advice("Boot Linux 6.2 or later: gds-top fix kernel-p2pdma says where this system has one.")
    } else {
        Judged::pass(ID, Kernel, format!("Linux {release}"))
    };
    judged
        .found("/proc/sys/kernel/osrelease", release)
        .why("P2PDMA needs Linux 6.2; the NVMe drivers built for nvidia-fs reach up to 6.17.")
}

/// Whether the release of the kernel is one with P2PDMA for user memory.
pub(super) fn has_p2pdma(ctx: &Context<'_>) -> bool {
    let release = host::kernel_release(ctx.root).unwrap_or_default();
    ctx.kernel().is_none_or(|numbers| numbers >= (6, 2) || carries_p2pdma_back(ctx, &release))
}

/// What shows that gVisor answers: the name of its release, or of its first ones the one build that they all tell of.
fn gvisor(ctx: &Context<'_>, release: &str) -> Option<(&'static str, String)> {
    if release.contains("gvisor") {
        return Some(("/proc/sys/kernel/osrelease", release.to_owned()));
    }
    let version = ctx.root.read_text("/proc/version").ok()?;
    version
        .contains("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016")
        .then(|| ("/proc/version", version.trim().to_owned()))
}

/// RHEL 9 from 9.6 on: its kernel is a 5.14 by name with P2PDMA of later ones (NVIDIA's steps for P2PDMA name 9.6 and 10). 9.5 is known not
/// to work, which is another check's to say.
fn carries_p2pdma_back(ctx: &Context<'_>, release: &str) -> bool {
    let minor = host::os_release(ctx.root, "VERSION_ID")
        .and_then(|version| version.strip_prefix("9.").and_then(|minor| minor.parse::<u32>().ok()));
    release.contains(".el9") && minor.is_some_and(|minor| minor >= 5)
}

fn p2pdma(ctx: &Context<'_>) -> Judged {
    const ID: &str = "kernel-p2pdma";
    const WHY: &str = "P2PDMA lets the ordinary NVMe driver write into GPU memory, without nvidia-fs; libcufile looks for pci_p2pdma_add_resource.";
    const SYMBOL: &str = "pci_p2pdma_add_resource";
    let release = host::kernel_release(ctx.root).unwrap_or_default();
    let judged = match host::kernel_config(ctx.root, &release) {
        Ok(config) => {
            let line = config.line("CONFIG_PCI_P2PDMA");
            let on = config.value("CONFIG_PCI_P2PDMA") == Some("y");
            // Asked only where the list is at hand already: it is long.
            let part = on
                && !ctx.root.is_live()
                && ctx.root.symbols().is_ok_and(|s| s.contains("p2pdma_pgmap_ops") && !s.contains(SYMBOL));
            if part {
                Judged::lack(ID, Kernel, "the kernel was built with PCI P2PDMA, but shows only a part of it")
                    .found(config.source, line)
                    .found("/proc/kallsyms", format!("p2pdma_pgmap_ops, but no {SYMBOL}"))
                    .missing(Cost::System, P2PDMA)
                    .only_warn()
            } else if on {
                Judged::pass(ID, Kernel, "the kernel has PCI P2PDMA").found(config.source, line)
            } else {
                lacking(Judged::lack(ID, Kernel, "the kernel was built without PCI P2PDMA")).found(config.source, line)
            }
        }
        Err(tried) => match ctx.root.symbols() {
            Ok(symbols) if symbols.contains(SYMBOL) => {
                Judged::pass(ID, Kernel, "the kernel has PCI P2PDMA").found("/proc/kallsyms", SYMBOL)
            }
            Ok(symbols) if symbols.contains("p2pdma_pgmap_ops") => {
                Judged::warn(ID, Kernel, "the kernel shows only a part of PCI P2PDMA")
                    .found("/proc/kallsyms", format!("p2pdma_pgmap_ops, but no {SYMBOL}"))
                    .missing(Cost::System, P2PDMA)
            }
            Ok(_) => lacking(Judged::lack(ID, Kernel, "the kernel has no PCI P2PDMA"))
                .found("/proc/kallsyms", format!("no {SYMBOL}")),
            Err(why) => {
                let mut judged = Judged::na(ID, Kernel, "the kernel's configuration could not be read").unknown(P2PDMA);
                for (path, why) in &tried {
                    judged = judged.unread(path, why);
                }
                judged.unread("/proc/kallsyms", &why)
            }
        },
    };
    judged.why(WHY)
}

fn lacking(judged: Judged) -> Judged {
    judged.missing(Cost::System, P2PDMA).advice("Boot a kernel with CONFIG_PCI_P2PDMA (6.2 or later).")
}

/// Whether the processor is one of NVIDIA's, whose GPUs lie on the coherent link: Neoverse V2, or of NVIDIA's own making. An ARM machine that does not
/// tell is taken for one.
fn is_grace(ctx: &Context<'_>) -> bool {
    if !ctx.is_aarch64() {
        return false;
    }
    let Ok(text) = ctx.root.read_text("/proc/cpuinfo") else { return true };
    let mut said = text.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key.trim(), value.trim()));
    let ours = |(key, value): (&str, &str)| matches!((key, value), ("CPU part", "0xd4f") | ("CPU implementer", "0x4e"));
    !text.contains("CPU part") || said.any(ours)
}

fn iommu(ctx: &Context<'_>) -> Judged {
    const ID: &str = "iommu-state";
    const WHY: &str = "On x86 an IOMMU that translates sends every peer-to-peer transfer through the root complex, or stops it; on Grace it must be on.";
    let root = ctx.root;
    let listed = root.entries("/sys/class/iommu");
    let units = listed.clone().unwrap_or_default();
    let cmdline = root.read_text("/proc/cmdline").unwrap_or_default();
    let words: Vec<&str> = cmdline.split_whitespace().filter(|w| w.contains("iommu")).collect();
    let says = |key: &str, value: &str| {
        words.iter().any(|w| w.strip_prefix(key).is_some_and(|rest| rest.split(',').any(|part| part == value)))
    };
    let on = says("intel_iommu=", "on") || says("amd_iommu=", "on") || says("amd_iommu=", "force_enable");
    let off = says("intel_iommu=", "off") || says("amd_iommu=", "off") || says("iommu=", "off");
    // The domain type of the group that a GPU is in says whether addresses are translated; of several GPUs the translated one counts.
    let domain = ctx
        .pci()
        .into_iter()
        .flatten()
        .filter_map(|gpu| {
            let group = root.link(format!("/sys/bus/pci/devices/{}/iommu_group", gpu.address))?;
            let path = format!("/sys/kernel/iommu_groups/{}/type", group.file_name()?.to_string_lossy());
            Some((root.read_text(&path).ok()?.trim().to_owned(), path))
        })
        .max_by_key(|(kind, _)| kind != "identity");
    // Where the units are not shown, the words of the command line are all there is.
    let active = !units.is_empty() || domain.is_some() || (listed.is_err() && on);
    let passes =
        says("iommu=", "pt") || words.iter().any(|w| matches!(*w, "iommu.passthrough=1" | "iommu.passthrough=on"));
    let through = domain.as_ref().map_or(passes, |(kind, _)| kind == "identity");
    if listed.is_err() && domain.is_none() && !on && !off && !passes && !root.is_live() && !root.exists("/sys") {
        return Judged::na(ID, Kernel, "whether an IOMMU is active is not part of this capture")
            .found("/sys/class/iommu", "cannot be read")
            .unknown(if is_grace(ctx) { &[Route::C2c] } else { &[Route::Nvfs] })
            .why(WHY);
    }
    let arm = ctx.is_aarch64();
    let off_words: &[&str] =
        if arm { &["iommu.passthrough=1"] } else { &["iommu=pt", "intel_iommu=off", "amd_iommu=off", "iommu=off"] };
    let waiting = super::reboot_pending::waiting_word(ctx, off_words);
    let judged = match (is_grace(ctx), active, through) {
        (true, true, false) => Judged::pass(ID, Kernel, "the IOMMU is on, as Grace needs it"),
        (true, _, _) => Judged::lack(ID, Kernel, "on Grace the IOMMU must be on and translate")
            .missing(Cost::Reboot, &[Route::C2c])
            .advice("Remove iommu=pt and iommu.passthrough=1 from the kernel's command line, reboot."),
        (false, false, _) => Judged::pass(ID, Kernel, "no IOMMU is active"),
        (false, true, true) => Judged::info(ID, Kernel, "the IOMMU passes addresses through; this usually works"),
        (false, true, false) => Judged::lack(ID, Kernel, "the IOMMU translates the GPU's addresses")
            .missing(Cost::Reboot, &[Route::Nvfs])
            .fixes(waiting.is_none().then_some("iommu-off"))
            .advice(match waiting {
                Some(how) => how,
                None if arm => "Boot with iommu.passthrough=1.".to_owned(),
                None => "Boot with iommu=pt, or with intel_iommu=off or amd_iommu=off.".to_owned(),
            }),
    };
    let mut judged =
        judged.found("/sys/class/iommu", if units.is_empty() { "empty".to_owned() } else { units.join(" ") });
    if let Some((kind, path)) = domain {
        judged = judged.found(path, kind);
    }
    judged
        .found("/proc/cmdline", if words.is_empty() { "no word about iommu".to_owned() } else { words.join(" ") })
        .why(WHY)
}
