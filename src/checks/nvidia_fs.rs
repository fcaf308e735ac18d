//! The nvidia-fs kernel module.

use super::context::{Context, version_numbers};
use super::gpu::{Driver, nvfs_version};
use super::judged::{Cost, Judged};
use super::storage::disks;
use super::{kernel_log, nvfs_module};
use crate::domain::{Group::NvidiaFs, Route};
use crate::host::{self, Unread};

const NVFS: &[Route] = &[Route::Nvfs];

/// Whether the module is loaded; `None` where nothing can be seen.
pub(super) fn is_loaded(ctx: &Context<'_>) -> Option<bool> {
    let root = ctx.root;
    if root.exists("/sys/module/nvidia_fs") || root.exists("/proc/driver/nvidia-fs/version") {
        return Some(true);
    }
    match root.read_text("/proc/modules") {
        Ok(text) => Some(text.lines().any(|line| line.starts_with("nvidia_fs "))),
        // Without the list of modules its folder in sysfs says the same, as long as that folder is there.
        Err(_) => root.entries("/sys/module").ok().map(|names| names.iter().any(|name| name == "nvidia_fs")),
    }
}

pub(super) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    if !ctx.has_gpu() {
        return vec![
            Judged::na("nvfs-loaded", NvidiaFs, "there is no GPU for nvidia-fs to serve")
                .found("/sys/module/nvidia_fs", "not looked for"),
        ];
    }
    let mut out = nvfs_module::before_loading(ctx);
    out.extend(kernel_log::load_errors(ctx));
    match is_loaded(ctx) {
        Some(true) => {
            out.push(
                Judged::pass("nvfs-loaded", NvidiaFs, "nvidia-fs is loaded").found("/sys/module/nvidia_fs", "exists"),
            );
            out.extend([version(ctx), device_nodes(ctx)]);
            out.extend(counters(ctx));
            out.extend(nvfs_module::when_loaded(ctx));
        }
        Some(false) => {
            let judged = not_loaded(ctx, &out);
            out.push(judged);
        }
        None => out.push(
            Judged::na("nvfs-loaded", NvidiaFs, "whether nvidia-fs is loaded cannot be seen")
                .found("/proc/modules and /sys/module", "cannot be read")
                .unknown(NVFS),
        ),
    }
    out.extend(kernel_log::trouble(ctx));
    out.extend(nvfs_module::peermem(ctx));
    // On other disks the NVMe driver does not matter, and the list of symbols is long.
    let over_pcie = |facts: &host::PathFacts| {
        disks(facts).iter().any(|d| d.name.starts_with("nvme"))
            && !super::storage::transports(ctx, facts).iter().any(|kind| kind == "rdma")
    };
    if ctx.subjects.iter().filter_map(|s| s.facts.as_ref()).any(over_pcie) {
        out.push(nvme_hook(ctx));
    }
    for judged in &mut out {
        if judged.finding.why.is_empty() {
            "nvidia-fs carries the route nvfs: it lends the pages of GPU memory to the storage driver."
                .clone_into(&mut judged.finding.why);
        }
    }
    out
}

fn not_loaded(ctx: &Context<'_>, earlier: &[Judged]) -> Judged {
    let installed = nvfs_version(ctx);
    let proprietary = Driver::of(ctx).is_open() == Some(false);
    let (summary, cost) = match &installed {
        Some(version) => (format!("nvidia-fs {version} is installed, but not loaded"), Cost::Root),
        None => ("nvidia-fs is not loaded".to_owned(), Cost::Install),
    };
    let mut judged = Judged::lack("nvfs-loaded", NvidiaFs, summary)
        .found("/sys/module/nvidia_fs", "does not exist")
        .missing(cost, NVFS)
        .fix(if installed.is_some() { "nvfs-load" } else { "nvfs-install" })
        .advice(if installed.is_some() {
            "sudo modprobe nvidia-fs".to_owned()
        } else {
            let (major, minor) = host::cuda_packages(ctx.root);
            format!("Install the package nvidia-gds-{major}-{minor}.")
        });
    if let Some(version) = &installed {
        judged = judged.found("modinfo nvidia_fs", version.clone());
    }
    if let Some((file, line, by_hand_too)) = super::nvfs_build::kept_out(ctx.root).filter(|_| installed.is_some()) {
        judged.finding.summary = format!("{}, because {file} keeps it out", judged.finding.summary);
        judged = judged.found(&file, line).advice(if by_hand_too {
            format!("Remove that line from {file}, then sudo modprobe nvidia-fs; modprobe does nothing as long as it is there.")
        } else {
            format!("sudo modprobe nvidia-fs loads it until the next boot; remove that line from {file} so that it is loaded then, too.")
        });
    }
    if proprietary && installed.as_deref().is_some_and(|version| version_numbers(version) > vec![2, 17, 4]) {
        judged.cause(if ctx.before_turing().next().is_some() { "gpu-open-capable" } else { "driver-flavour" })
    } else if let Some(cause) = earlier.iter().find(|j| j.finding.cause.is_none() && j.stops(Route::Nvfs)) {
        judged.cause(&cause.finding.id)
    } else {
        judged
    }
}

/// Whether the loaded module is one that libcufile does not take.
pub(super) fn is_too_old(ctx: &Context<'_>) -> bool {
    is_loaded(ctx) == Some(true) && version(ctx).stops(Route::Nvfs)
}

/// Whether the module's devices cannot be opened.
pub(super) fn lacks_devices(ctx: &Context<'_>) -> bool {
    is_loaded(ctx) == Some(true) && device_nodes(ctx).stops(Route::Nvfs)
}

fn version(ctx: &Context<'_>) -> Judged {
    const ID: &str = "nvfs-version";
    let Some(version) = host::nvidia_fs_version(ctx.root) else {
        return Judged::na(ID, NvidiaFs, "the version of nvidia-fs could not be read").unknown(NVFS);
    };
    let numbers = version_numbers(&version);
    let judged = if numbers < vec![2, 12] {
        Judged::lack(ID, NvidiaFs, format!("nvidia-fs {version} is older than 2.12, the oldest that libcufile takes"))
            .missing(Cost::Root, NVFS)
            .explaining()
            .fix("nvfs-install")
    } else if numbers == [2, 25, 6] {
        Judged::lack(ID, NvidiaFs, "nvidia-fs 2.25.6 is broken: reads fail with 'rw_verify_area failed with -14'")
            .missing(Cost::Root, NVFS)
            .explaining()
            .fix("nvfs-install")
            .advice("Update to 2.25.7 or later, or go back to 2.24.3.")
    } else if numbers == [2, 22, 3] && ctx.kernel() == Some((6, 6)) {
        Judged::warn(ID, NvidiaFs, "nvidia-fs 2.22.3 is known to fail with EFAULT on some kernels 6.6")
            .fix("nvfs-install")
            .advice("Update to 2.25.7 or later (gds-nvidia-fs#53).")
    } else if numbers < vec![2, 17] {
        Judged::warn(ID, NvidiaFs, format!("nvidia-fs {version} is old")).fix("nvfs-install")
    } else if numbers < vec![2, 25, 7] && numbers.len() > 2 {
        Judged::info(ID, NvidiaFs, format!("nvidia-fs {version}; 2.25.7 and later have known faults mended"))
    } else {
        Judged::pass(ID, NvidiaFs, format!("nvidia-fs {version}"))
    };
    judged
        .found("/sys/module/nvidia_fs/version", version)
        .why("A module that is too old or known to be bad makes cuFile fail with 5004.")
}

fn device_nodes(ctx: &Context<'_>) -> Judged {
    const ID: &str = "nvfs-devnodes";
    const NODE: &str = "/dev/nvidia-fs0";
    let judged = match ctx.root.opens(NODE) {
        Ok(()) => Judged::pass(ID, NvidiaFs, "its device opens").found(NODE, "opens"),
        Err(why) => {
            let inside = host::container(ctx.root).is_some();
            let judged = match &why {
                Unread::Missing => Judged::lack(ID, NvidiaFs, "the module is loaded, but its devices are not here"),
                _ => Judged::lack(ID, NvidiaFs, "its device may not be opened"),
            };
            judged.unread(NODE, &why).missing(Cost::Root, NVFS).advice(if inside {
                "Start the container with --device /dev/nvidia-fs0 and so on for each node, or let the NVIDIA container toolkit inject them."
            } else {
                "The driver makes them with mode 0666: look for a udev rule that changes it, or reload nvidia-fs."
            })
        }
    };
    judged.why("cuFile opens /dev/nvidia-fs0 to 15 when the driver is opened; --gpus all alone does not bring them into a container.")
}

/// The module's own counters: whether they count, and whether errors stand in them.
fn counters(ctx: &Context<'_>) -> Vec<Judged> {
    const STATS: &str = "/proc/driver/nvidia-fs/stats";
    let Ok(text) = ctx.root.read_text(STATS) else { return Vec::new() };
    let mut out = Vec::new();
    if let Some(line) = text.lines().find(|line| line.starts_with("IO stats:")) {
        let judged = if line.starts_with("IO stats: Enabled") {
            Judged::pass("nvfs-stats-on", NvidiaFs, "nvidia-fs counts reads")
        } else {
            Judged::info("nvfs-stats-on", NvidiaFs, "nvidia-fs does not count reads, so its counters prove nothing")
                .advice("echo 1 | sudo tee /sys/module/nvidia_fs/parameters/rw_stats_enabled")
        };
        out.push(
            judged
                .found(STATS, line)
                .why("Without it the counters stay away, which is easily read as 'no direct reads'."),
        );
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
            Judged::pass("nvfs-errors", NvidiaFs, "no errors counted")
        } else {
            Judged::warn("nvfs-errors", NvidiaFs, format!("nvidia-fs counted errors: {}", bad.join(" ")))
                .advice("dma-map points to the IOMMU or ACS, cpu-gpu-pages to mixed buffers; see whether the counts grow during a load.")
        };
        out.push(
            judged
                .found(STATS, line.split_whitespace().collect::<Vec<_>>().join(" "))
                .why("Counted since the module was loaded."),
        );
    }
    out
}

/// Whether the NVMe driver can hand its requests to nvidia-fs.
fn nvme_hook(ctx: &Context<'_>) -> Judged {
    const ID: &str = "nvfs-nvme-symbol";
    const MODULES: &str = "/proc/driver/nvidia-fs/modules";
    const WHY: &str = "Only an NVMe driver that was built for GDS lets nvidia-fs put GPU pages in its requests; the ordinary one cannot.";
    if let Ok(text) = ctx.root.read_text(MODULES)
        && let Some(line) = text.lines().find(|line| line.starts_with("nvme:"))
    {
        return Judged::pass(ID, NvidiaFs, "the NVMe driver is registered with nvidia-fs")
            .found(MODULES, line)
            .why(WHY);
    }
    let judged = match ctx.root.symbols() {
        Err(why) => Judged::na(ID, NvidiaFs, "whether the NVMe driver is built for GDS cannot be seen")
            .unread("/proc/kallsyms", &why)
            .unknown(NVFS),
        Ok(symbols) => {
            let names: Vec<&String> = symbols.iter().filter(|s| s.starts_with("nvme_v")).collect();
            // nvidia-fs knows the second generation of the hook from 2.28 on (its ChangeLog; gds-nvidia-fs#87).
            let old = nvfs_version(ctx).filter(|version| version_numbers(version) < vec![2, 28]);
            let unregistered = ctx
                .root
                .read_text(MODULES)
                .is_ok_and(|text| !text.trim().is_empty() && ctx.root.opens("/dev/nvidia-fs0").is_ok());
            match names.first() {
                Some(_) if unregistered && is_loaded(ctx) == Some(true) => {
                    let version = nvfs_version(ctx).unwrap_or_default();
                    let summary = if names.iter().all(|n| n.starts_with("nvme_v2")) {
                        format!(
                            "the NVMe driver has the second generation of the hook, and nvidia-fs {version} did not take it"
                        )
                    } else {
                        format!("the NVMe driver has the hook, but nvidia-fs {version} did not register with it")
                    };
                    let judged = Judged::lack(ID, NvidiaFs, summary)
                        .found("/proc/kallsyms", names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(" "))
                        .found(MODULES, "no line nvme, while /dev/nvidia-fs0 was held open")
                        .explaining();
                    if names.iter().all(|n| n.starts_with("nvme_v2")) {
                        of_another_generation(ctx, judged)
                    } else {
                        judged
                            .missing(Cost::Root, NVFS)
                            .fix("nvfs-dkms")
                            .advice("Build nvidia-fs anew for this NVMe driver (dkms install), then load it again.")
                    }
                }
                Some(name) if names.iter().all(|n| n.starts_with("nvme_v2")) && old.is_some() => {
                    let summary = format!(
                        "the NVMe driver has the second generation of the hook, nvidia-fs {} the first",
                        old.unwrap_or_default()
                    );
                    let judged =
                        Judged::lack(ID, NvidiaFs, summary).found("/proc/kallsyms", (*name).clone()).explaining();
                    of_another_generation(ctx, judged)
                }
                Some(name) => Judged::pass(ID, NvidiaFs, "the NVMe driver is built for GDS")
                    .found("/proc/kallsyms", (*name).clone()),
                None => Judged::lack(ID, NvidiaFs, "the NVMe driver is not built for GDS")
                    .found("/proc/kallsyms", "no nvme_v1_register_nvfs_dma_ops, no nvme_v2_register_nvfs_dma_ops")
                    .missing(Cost::System, NVFS)
                    .advice(patched_driver(ctx)),
            }
        }
    };
    // Somebody who loaded nvidia-fs wants to know why it is not used.
    let judged = if is_loaded(ctx) == Some(true) && judged.stops(Route::Nvfs) { judged.explaining() } else { judged };
    judged.why(WHY)
}

/// What to do about a driver with the second generation of the hook that nvidia-fs did not take. Linux has what this generation is made of from 6.17 on, and
/// nvidia-fs goes by that; the driver of DOCA-OFED 26.01 shows its name everywhere (gds-nvidia-fs#87).
fn of_another_generation(ctx: &Context<'_>, judged: Judged) -> Judged {
    if ctx.kernel().is_some_and(|kernel| kernel < (6, 17)) {
        judged.missing(Cost::Reboot, NVFS).fix("nvme-patch").advice(
            "Update DOCA to 3.4.1 (mlnx-nvme-dkms 26.04) or later, then reboot: the NVMe driver of 26.01 names this hook also on kernels that have only \
             the first; another nvidia-fs does not help there.",
        )
    } else {
        judged
            .missing(Cost::Root, NVFS)
            .fix("nvfs-install")
            .advice("Install nvidia-fs 2.28 or later, and build it anew for this NVMe driver (dkms install).")
    }
}

/// Where an NVMe driver for GDS comes from on this system, and whether P2PDMA does without.
fn patched_driver(ctx: &Context<'_>) -> String {
    let named = ["ID", "ID_LIKE"].into_iter().filter_map(|key| host::os_release(ctx.root, key)).collect::<Vec<_>>();
    let is = |names: &[&str]| named.iter().flat_map(|words| words.split_whitespace()).any(|word| names.contains(&word));
    let driver = if is(&["ubuntu"]) {
        "an Ubuntu linux-nvidia kernel, or DOCA with mlnx-nvme-dkms"
    } else if is(&["debian"]) || named.iter().any(|words| words.contains("suse") || words.contains("sles")) {
        "DOCA with mlnx-nvme-dkms"
    } else if is(&["rhel", "centos", "fedora"]) {
        "DOCA with mlnx-nvme-dkms (before 3.2 kmod-mlnx-nvme)"
    } else {
        "DOCA with its NVMe driver"
    };
    if super::kernel::has_p2pdma(ctx) {
        format!("Take P2PDMA, which needs no changed driver; else {driver}.")
    } else {
        format!("Install {driver}; P2PDMA would need no changed driver, but another kernel.")
    }
}
