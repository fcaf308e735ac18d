//! Checks of the loaded module: version, devices and counters.

use crate::checks::advice::Advice;
use crate::checks::container::bring::Lack;
use crate::checks::container::lxc::given;
use crate::checks::container::surroundings;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::iommu::iommu;
use crate::core::{CheckId, Finding, FixId, NVFS_STATS, Route, Status};
use crate::machine::{self, Denial, Unread};

const NVFS: &[Route] = &[Route::Nvfs];

/// Whether libcufile rejects the loaded module because of its version.
pub(crate) fn is_too_old(ctx: &Context<'_>) -> bool {
    machine::nvidia_fs_loaded(ctx.root) == Some(true) && version(ctx).stops(Route::Nvfs)
}

/// Whether the module's devices cannot be opened.
pub(crate) fn lacks_devices(ctx: &Context<'_>) -> bool {
    machine::nvidia_fs_loaded(ctx.root) == Some(true) && device_nodes(ctx).stops(Route::Nvfs)
}

pub(crate) fn version(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::NvfsVersion;
    let Some(version) = machine::nvidia_fs_version(ctx.root) else {
        return Judged::na(ID, "the version of nvidia-fs could not be read").unknown(NVFS);
    };
    let mut judged = of_version(ctx, &version);
    if let Some(installed) = good_installed(ctx, &version, &judged) {
        judged.finding.summary = format!("{}; {installed} is installed", judged.finding.summary);
        judged = judged.by_hand().advice(load_installed(ctx)).found("modinfo nvidia_fs", installed);
    }
    judged.found("/sys/module/nvidia_fs/version", version)
}

/// The version of the installed nvidia-fs, if it works and the loaded one does not: an update replaces the file of a
/// loaded module, and not the module.
fn good_installed(ctx: &Context<'_>, loaded: &str, judged: &Judged) -> Option<String> {
    let is_bad = |judged: &Judged| judged.stops(Route::Nvfs) || judged.finding.status == Status::Warn;
    if !is_bad(judged) || machine::container(ctx.root).is_some() {
        return None;
    }
    let version = machine::module_info(ctx.root, "nvidia_fs")?.version?;
    let is_rejected =
        machine::Driver::of(ctx.root).is_open() == Some(false) && machine::version_numbers(&version) > vec![2, 17, 4];
    (version != loaded && !is_rejected && !is_bad(&of_version(ctx, &version))).then_some(version)
}

/// How to replace the loaded module by the installed one.
fn load_installed(ctx: &Context<'_>) -> Advice {
    if machine::modules_disabled(ctx.root).is_some() {
        return Advice::run("sudo reboot")
            .text(", which loads the installed nvidia-fs. Until then the kernel loads no modules.");
    }
    Advice::from("Stop the programs that use GDS, because a module in use cannot be removed. Then run ")
        .command("sudo modprobe -r nvidia-fs && sudo modprobe nvidia-fs")
        .text(", or reboot.")
}

/// The finding about a version of nvidia-fs.
fn of_version(ctx: &Context<'_>, version: &str) -> Judged {
    const ID: CheckId = CheckId::NvfsVersion;
    let numbers = machine::version_numbers(version);
    // A later nvidia-fs does not load next to proprietary kernel modules.
    let is_held = machine::Driver::of(ctx.root).is_open() == Some(false) && numbers <= vec![2, 17, 4];
    if is_held && numbers < vec![2, 12] {
        Judged::lack(ID, format!("nvidia-fs {version} is older than 2.12, the oldest that libcufile accepts"))
            .missing(Cost::Root, NVFS)
            .explaining()
            .by_hand()
            .advice("Install nvidia-fs 2.17.4, the last for proprietary kernel modules, from NVIDIA/gds-nvidia-fs.")
    } else if is_held {
        Judged::pass(ID, format!("nvidia-fs {version} fits the proprietary kernel modules, which need 2.17.4 or older"))
    } else if numbers < vec![2, 12] {
        Judged::lack(ID, format!("nvidia-fs {version} is older than 2.12, the oldest that libcufile accepts"))
            .missing(Cost::Root, NVFS)
            .explaining()
            .fix(FixId::NvfsInstall)
    } else if numbers == [2, 25, 6] {
        Judged::lack(ID, "nvidia-fs 2.25.6 is faulty: reads fail with 'rw_verify_area failed with -14'")
            .missing(Cost::Root, NVFS)
            .explaining()
            .failing_reads()
            .fix(FixId::NvfsInstall)
            .advice(
                "Update to 2.25.7 or later, or go back to 2.24.3. Until then set CUFILE_FORCE_COMPAT_MODE=true: reads then work through host memory.",
            )
    } else if numbers == [2, 22, 3] && ctx.kernel() == Some((6, 6)) {
        Judged::warn(ID, "nvidia-fs 2.22.3 fails with EFAULT on some 6.6 kernels")
            .fix(FixId::NvfsInstall)
            .advice("Update to 2.25.7 or later (gds-nvidia-fs#53).")
    } else if numbers < vec![2, 17] {
        Judged::warn(ID, format!("nvidia-fs {version} is old")).fix(FixId::NvfsInstall)
    } else if numbers < vec![2, 25, 7] && numbers.len() > 2 {
        Judged::info(ID, format!("nvidia-fs {version}; 2.25.7 and later fix known errors"))
    } else {
        Judged::pass(ID, format!("nvidia-fs {version}"))
    }
}

pub(crate) fn device_nodes(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::NvfsDevnodes;
    const NODE: &str = "/dev/nvidia-fs0";
    match ctx.root.opens(NODE) {
        Ok(()) => Judged::pass(ID, "the device of nvidia-fs opens").found(NODE, "opens"),
        Err(why) => {
            let inside = machine::container(ctx.root);
            let judged = match &why {
                Unread::Missing => Judged::lack(ID, "nvidia-fs is loaded, but its devices do not exist"),
                _ => Judged::lack(ID, "the device of nvidia-fs cannot be opened"),
            };
            let judged = judged.unread(NODE, &why).missing(Cost::Root, NVFS);
            let denial = matches!(why, Unread::Denied(_)).then(|| surroundings::selinux_denial(ctx)).flatten();
            if let Some(line) = denial {
                return judged.found(machine::KERNEL_LOG, line).advice(surroundings::allow_in_selinux(ctx));
            }
            match (&inside, &why) {
                (Some(container), _) => {
                    judged.fix(FixId::ContainerDevices).advice(given(ctx.root, container, &[Lack::NvidiaFs]))
                }
                (None, Unread::Missing) => judged.advice(
                    Advice::from("Reload the module, which creates them: ")
                        .command("sudo modprobe -r nvidia-fs && sudo modprobe nvidia-fs"),
                ),
                // A device cgroup denies with EPERM; the mode of the device denies with EACCES.
                (None, Unread::Denied(Denial::NotPermitted)) => {
                    let judged = Judged {
                        finding: Finding {
                            summary: "a device cgroup denies the device of nvidia-fs".to_owned(),
                            ..judged.finding
                        },
                        ..judged
                    };
                    judged.advice(match own_slice(ctx) {
                        Some(line) if line.contains("slurm") => "Ask the administrator of Slurm to allow /dev/nvidia-fs* in the device cgroup of jobs (cgroup.conf, gres.conf).",
                        Some(line) if line.contains(".service") => "Add DeviceAllow=/dev/nvidia-fs0 rw to the systemd unit, and the same for each of these devices.",
                        _ => "Start the program outside the cgroup that denies the device, or allow /dev/nvidia-fs* there.",
                    })
                }
                (None, _) => by_udev(ctx, judged),
            }
        }
    }
}

/// How to open devices whose mode a udev rule or a person changed. The module creates them with mode 0666.
fn by_udev(ctx: &Context<'_>, judged: Judged) -> Judged {
    const FOLDERS: [&str; 4] = ["/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d"];
    let files = FOLDERS.into_iter().flat_map(|folder| {
        let names = ctx.root.entries(folder).unwrap_or_default();
        names.into_iter().map(move |name| format!("{folder}/{name}"))
    });
    let rule = files.filter_map(|file| {
        let text = ctx.root.read_text(&file).ok()?;
        let is_meant = |line: &&str| {
            let line = line.trim();
            !line.starts_with('#')
                && (line.contains("nvidia-fs") || line.contains("\"nvidia*\""))
                && (line.contains("MODE=") || line.contains("GROUP="))
        };
        let line = text.lines().find(is_meant)?.trim().to_owned();
        Some((file, line))
    });
    let Some((file, line)) = rule.into_iter().next() else {
        return judged.advice(
            Advice::run("sudo chmod 0666 /dev/nvidia-fs*")
                .text(". No udev rule sets their mode, and the module creates them with 0666."),
        );
    };
    let group =
        line.split_once("GROUP=\"").and_then(|(_, rest)| rest.split('"').next()).filter(|group| *group != "root");
    let advice = match group {
        Some(group) => Advice::run(format!("sudo usermod -aG {group} \"$USER\""))
            .text(format!(", then log in again: {file} gives the devices to this group.")),
        None => Advice::from(format!("Set MODE=\"0666\" for nvidia-fs* in {file}, then run "))
            .command("sudo udevadm control --reload && sudo udevadm trigger"),
    };
    judged.found(file, line).advice(advice)
}

/// The cgroup of this process, in version 2 or of the devices controller.
fn own_slice(ctx: &Context<'_>) -> Option<String> {
    let text = ctx.root.read_text("/proc/self/cgroup").ok()?;
    let line = text.lines().find(|line| line.contains(":devices:")).or_else(|| text.lines().next())?;
    Some(line.to_owned())
}

/// Checks whether the counters of the module are on, and whether they contain errors.
pub(crate) fn counters(ctx: &Context<'_>) -> Vec<Judged> {
    let Ok(text) = ctx.root.read_text(NVFS_STATS) else { return Vec::new() };
    let mut out = Vec::new();
    if let Some(line) = text.lines().find(|line| line.starts_with("IO stats:")) {
        let judged = if line.starts_with("IO stats: Enabled") {
            Judged::pass(CheckId::NvfsStatsOn, "nvidia-fs counts reads")
        } else {
            Judged::info(CheckId::NvfsStatsOn, "nvidia-fs does not count reads, so its counters cannot prove a route")
                .advice(Advice::run("echo 1 | sudo tee /sys/module/nvidia_fs/parameters/rw_stats_enabled"))
        };
        out.push(judged.found(NVFS_STATS, line));
    }
    let counted = |word: &str| word.split_once('=').is_some_and(|(_, count)| count.parse::<u64>().is_ok_and(|n| n > 0));
    if let Some(line) = text.lines().find(|line| line.trim_start().starts_with("Error")) {
        let mut bad: Vec<String> = line.split_whitespace().filter(|word| counted(word)).map(str::to_owned).collect();
        for label in ["Reads", "Mmap", "Bar1-map"] {
            let words = text.lines().filter(|l| l.starts_with(label)).flat_map(str::split_whitespace);
            let errors =
                words.filter(|word| (word.starts_with("err=") || word.starts_with("io_state_err=")) && counted(word));
            bad.extend(errors.map(|word| format!("{label} {word}")));
        }
        let judged = if bad.is_empty() {
            Judged::pass(CheckId::NvfsErrors, "no errors counted")
        } else {
            let judged = Judged::warn(CheckId::NvfsErrors, format!("nvidia-fs counted errors: {}", bad.join(" ")));
            if version(ctx).fails_reads {
                judged.cause(CheckId::NvfsVersion)
            } else if iommu(ctx).fails_reads {
                judged.cause(CheckId::IommuState)
            } else {
                judged
                .advice("dma-map suggests the IOMMU or ACS, cpu-gpu-pages mixed buffers. Check whether the counts grow during a load.")
            }
        };
        out.push(judged.found(NVFS_STATS, line.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    out
}
