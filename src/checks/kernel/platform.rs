//! Checks of the platform: architecture, virtualization, KASLR, systems with known faults.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, DIRECT, EVERY, Judged};
use crate::checks::kernel::crash::crash;
use crate::checks::kernel::iommu::iommu;
use crate::checks::kernel::{p2pdma, reboot_pending};
use crate::core::{CheckId, Route};
use crate::machine;

const P2PDMA: &[Route] = &[Route::P2pdma];

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = vec![wsl(ctx), p2pdma::version(ctx)];
    if ctx.gpu_on_bus() || ctx.is_aarch64() {
        out.push(iommu(ctx));
    }
    out.push(p2pdma::p2pdma(ctx));
    out.extend(blocklist(ctx));
    out.extend(reboot_pending::run(ctx));
    out.extend(confidential(ctx));
    out.push(architecture(ctx));
    out.extend(kaslr(ctx));
    out.extend(crash(ctx));
    out
}

/// In a confidential virtual machine, devices cannot access memory, so the driver stages all GPU data.
fn confidential(ctx: &Context<'_>) -> Option<Judged> {
    let (source, text) = machine::confidential_guest(ctx.root).filter(|_| ctx.gpu_on_bus())?;
    Some(
        Judged::lack(CheckId::VmConfidential, "devices cannot reach GPU memory in this confidential virtual machine")
            .found(source, text)
            .never(DIRECT)
            .advice("Reads go through host memory here. Only a virtual machine without SEV-SNP or TDX can have a direct route."),
    )
}

/// libcufile exists for x86-64 and ARM64.
fn architecture(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::CpuArch;
    const FILE: &str = "/proc/sys/kernel/arch";
    match ctx.root.read_text(FILE).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()) {
        Some(arch) if arch == "x86_64" || arch == "aarch64" => Judged::pass(ID, arch.clone()).found(FILE, arch),
        Some(arch) => Judged::lack(ID, format!("current releases of libcufile do not support {arch}"))
            .found(FILE, arch)
            .never(EVERY),
        // The file exists since Linux 6.1. On older kernels, /proc/cpuinfo shows the architecture.
        None if ctx.is_aarch64() => Judged::pass(ID, "aarch64").found("/proc/cpuinfo", "CPU implementer"),
        None if ctx.root.read_text("/proc/cpuinfo").is_ok_and(|text| text.lines().any(|l| l.contains(": POWER"))) => {
            Judged::lack(ID, "current releases of libcufile do not support POWER")
                .found("/proc/cpuinfo", "POWER")
                .never(EVERY)
        }
        None => Judged::na(ID, "the architecture is not known").found(FILE, "cannot be read"),
    }
}

/// The last option if P2PDMA does not work although all settings are correct (known issues of GDS).
fn kaslr(ctx: &Context<'_>) -> Option<Judged> {
    let params = ctx.root.read_text("/proc/driver/nvidia/params").ok()?;
    let cmdline = ctx.root.read_text("/proc/cmdline").ok()?;
    if ctx.is_aarch64() || !machine::registry::all_have(ctx.root, &params, "RMForceStaticBar1", 1) {
        return None;
    }
    let off = cmdline.split_whitespace().any(|word| word == "nokaslr");
    let judged = if off {
        Judged::pass(CheckId::KaslrP2pdma, "KASLR is off")
    } else {
        Judged::info(CheckId::KaslrP2pdma, "KASLR is on, which rarely affects P2PDMA")
            .advice("Only if P2PDMA fails (801) although all checks pass, boot once with nokaslr. It lowers the security of the kernel.")
    };
    Some(judged.found("/proc/cmdline", if off { "nokaslr" } else { "no nokaslr" }))
}

/// Systems on which a route does not work (NVIDIA's known issues).
fn blocklist(ctx: &Context<'_>) -> Option<Judged> {
    let id = machine::os_release(ctx.root, "ID")?;
    let version = machine::os_release(ctx.root, "VERSION_ID")?;
    let family = ["rhel", "rocky", "almalinux", "ol", "centos"].contains(&id.as_str());
    // The kernels of Oracle and ELRepo do not have this fault.
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    let own = !release.contains("uek") && !release.contains("elrepo");
    (family && own && version == "9.5" && !ctx.is_aarch64()).then(|| {
        Judged::lack(CheckId::DistroBlocklist, "P2PDMA does not work on RHEL 9.5 and its rebuilds for x86")
            .found("/etc/os-release", format!("ID={id}, VERSION_ID={version}"))
            .missing(Cost::System, P2PDMA)
            .advice(
                Advice::from("Update to release 9.6 or later, with the headers from which DKMS builds the driver: ")
                    .command(format!(
                        "{}sudo dnf upgrade -y --refresh && sudo dnf install -y kernel-devel kernel-headers",
                        if id == "rhel" { "sudo subscription-manager release --unset; " } else { "" }
                    ))
                    .text(". Then `dkms status` must list the new kernel for each module. If it does not, run `sudo dkms autoinstall -k NEW_KERNEL`. Then run `sudo reboot`."),
            )
    })
}

fn wsl(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::Wsl;
    if let Some((source, text)) = machine::wsl(ctx.root) {
        Judged::lack(ID, "this is the Windows Subsystem for Linux: cuFile does not work here")
            .found(source, text)
            .never(EVERY)
            .advice("Use loaders without cuFile here, or Linux without WSL. Keep the model in the Linux file system (~/models): reads of /mnt/c are slow.")
    } else {
        let release = machine::kernel_release(ctx.root).unwrap_or_default();
        Judged::pass(ID, "not WSL").found("/proc/sys/kernel/osrelease", release)
    }
}
