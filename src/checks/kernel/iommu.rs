//! Checks whether an IOMMU translates the addresses of the GPU.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::image_host;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::arguments::change_argument;
use crate::checks::kernel::iommu_fault::{is_fault, is_of_route};
use crate::checks::kernel::reboot_pending;
use crate::core::{CheckId, FixId, NVFS_STATS, Route};
use crate::machine::{self, Message, Source};

const MEANWHILE: &str = "Until then set CUFILE_FORCE_COMPAT_MODE=true: reads then work through host memory.";

/// Whether the GPUs use the coherent link: the processor is a Neoverse V2 (Grace) or an NVIDIA design. An ARM machine
/// that does not report its processor counts as one.
fn is_grace(ctx: &Context<'_>) -> bool {
    if !ctx.is_aarch64() {
        return false;
    }
    let Ok(text) = ctx.root.read_text("/proc/cpuinfo") else { return true };
    let mut said = text.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key.trim(), value.trim()));
    let ours = |(key, value): (&str, &str)| matches!((key, value), ("CPU part", "0xd4f") | ("CPU implementer", "0x4e"));
    !text.contains("CPU part") || said.any(ours)
}

/// How to boot Grace with an IOMMU that translates. Only the words on the present command line are removed.
fn without_words(ctx: &Context<'_>, words: &[&str]) -> Advice {
    let wrong: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| matches!(*word, "iommu=pt" | "iommu=off" | "iommu.passthrough=1" | "iommu.passthrough=on"))
        .collect();
    if wrong.is_empty() {
        return "Enable the IOMMU (SMMU) in the firmware. A kernel that was built with pass-through as its default needs iommu.passthrough=0.".into();
    }
    if let [word] = wrong.as_slice()
        && let Some(command) = machine::argument_command(ctx.root, Some(*word), None)
    {
        return Advice::run(command).text(", then reboot.");
    }
    let named = wrong.join(" and ");
    if machine::boot_loader(ctx.root).is_some_and(|boot| boot.loader == machine::BootLoader::Extlinux) {
        return format!("Remove {named} from APPEND in /boot/extlinux/extlinux.conf, then reboot.").into();
    }
    match machine::packages::family(ctx.root) {
        machine::packages::Family::RedHat => Advice::from(format!("Remove {named} from the kernel command line: "))
            .command(format!("sudo grubby --update-kernel=ALL --remove-args=\"{}\"", wrong.join(" ")))
            .text(", then reboot."),
        machine::packages::Family::Debian => {
            Advice::from(format!("Remove {named} from /etc/default/grub and /etc/default/grub.d, then run "))
                .command("sudo update-grub")
                .text(" and reboot.")
        }
        machine::packages::Family::Suse => Advice::from(format!("Remove {named} from /etc/default/grub, then run "))
            .command("sudo grub2-mkconfig -o /boot/grub2/grub.cfg")
            .text(" and reboot."),
    }
}

/// The advice for an IOMMU that translates on x86. NVIDIA's guide disables it, and lists pass-through for some platforms.
/// Machines with more than 255 CPUs need it for their interrupts.
fn pass_through(ctx: &Context<'_>) -> Advice {
    let text = ctx.root.read_text("/proc/cpuinfo").unwrap_or_default();
    let is_large = text.lines().filter(|line| line.starts_with("processor")).count() > 255;
    let lends = ctx.pci().into_iter().flatten().any(machine::PciGpu::is_lent);
    let word = if text.contains("AuthenticAMD") { "amd_iommu=off" } else { "intel_iommu=off" };
    let boot = boot_with(ctx, "iommu=pt");
    if is_large || lends || text.is_empty() {
        return boot;
    }
    boot.text(format!(" If no virtual machine needs the IOMMU, {word} is better: NVIDIA's guide switches it off."))
}

/// How to boot with an argument. Without a fix for this system, it is the command of its boot loader.
fn boot_with(ctx: &Context<'_>, word: &str) -> Advice {
    if image_host::replaces(ctx, FixId::IommuOff) {
        return change_argument(ctx, None, Some(word));
    }
    format!("Boot with {word}.").into()
}

/// The last line of the kernel log about a transfer of a disk or a GPU that the IOMMU stopped.
fn fault(ctx: &Context<'_>) -> Option<String> {
    let log = machine::kernel_log(ctx.root)?;
    let is_meant = |message: &&Message| is_fault(&message.text) && is_of_route(ctx, &message.text);
    log.of(Source::Iommu).rev().find(is_meant).map(|message| message.line.clone())
}

/// Whether the IOMMU translates on a machine where nvidia-fs needs it off.
pub(crate) fn translates(ctx: &Context<'_>) -> bool {
    iommu(ctx).stops(Route::Nvfs)
}

pub(crate) fn iommu(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::IommuState;
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
    // The domain type of a GPU's IOMMU group shows whether addresses are translated. If there are several GPUs, one
    // with translation decides.
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
    // If the IOMMU units are hidden, only the kernel command line shows the state.
    let active = !units.is_empty() || domain.is_some() || (listed.is_err() && on);
    let passes =
        says("iommu=", "pt") || words.iter().any(|w| matches!(*w, "iommu.passthrough=1" | "iommu.passthrough=on"));
    let through = domain.as_ref().map_or(passes, |(kind, _)| kind == "identity");
    if listed.is_err() && domain.is_none() && !on && !off && !passes && !root.is_live() && !root.exists("/sys") {
        return Judged::na(ID, "the capture does not contain the state of the IOMMU")
            .found("/sys/class/iommu", "cannot be read")
            .unknown(if is_grace(ctx) { &[Route::C2c] } else { &[Route::Nvfs] });
    }
    let arm = ctx.is_aarch64();
    let off_words: &[&str] =
        if arm { &["iommu.passthrough=1"] } else { &["iommu=pt", "intel_iommu=off", "amd_iommu=off", "iommu=off"] };
    let waiting = reboot_pending::waiting_word(ctx, |word| off_words.contains(&word));
    // nvidia-fs counts the transfers that the IOMMU refused, and libcufile does not repeat these reads.
    let refused = machine::refused_mappings(root);
    let judged = match (is_grace(ctx), active, through) {
        (true, true, false) => Judged::pass(ID, "the IOMMU is on; Grace needs it"),
        (true, _, _) => Judged::lack(ID, "the IOMMU does not translate, but Grace needs it")
            .missing(Cost::Reboot, &[Route::C2c])
            .advice(without_words(ctx, &words)),
        (false, false, _) => Judged::pass(ID, "no IOMMU is active"),
        // NVIDIA's installation guide skips the step about the IOMMU on Arm.
        (false, true, false) if arm && refused.is_none() => {
            Judged::info(ID, "the IOMMU translates addresses, which needs no change on Arm")
        }
        (false, true, true) => Judged::info(ID, "the IOMMU passes addresses through, which usually works"),
        (false, true, false) => {
            let how: Advice = match waiting.clone() {
                Some(how) => how.into(),
                None if arm => boot_with(ctx, "iommu.passthrough=1"),
                // Machines with more than 255 CPUs need the IOMMU for their interrupts, so it stays on.
                None => pass_through(ctx),
            };
            let fault = fault(ctx);
            let summary = if refused.is_none() && fault.is_none() {
                "the IOMMU translates the GPU's addresses, which breaks or slows down reads by nvidia-fs"
            } else {
                "the IOMMU translates the GPU's addresses"
            };
            let how = if refused.is_some() { how.text(format!(" {MEANWHILE}")) } else { how };
            let judged = Judged::lack(ID, summary)
                .missing(Cost::Reboot, &[Route::Nvfs])
                .fixes(waiting.is_none().then_some(FixId::IommuOff))
                .advice(how);
            match (refused, fault) {
                (Some(count), _) => judged.failing_reads().found(NVFS_STATS, format!("dma-map={count}")),
                // The IOMMU stopped a transfer of a disk or a GPU.
                (None, Some(line)) => judged.broken().found(machine::KERNEL_LOG, line),
                (None, None) => judged,
            }
        }
    };
    let mut judged =
        judged.found("/sys/class/iommu", if units.is_empty() { "empty".to_owned() } else { units.join(" ") });
    if let Some((kind, path)) = domain {
        judged = judged.found(path, kind);
    }
    judged
        .found("/proc/cmdline", if words.is_empty() { "no argument for the IOMMU".to_owned() } else { words.join(" ") })
}
