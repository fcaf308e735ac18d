//! The nvidia-fs kernel module (reference 1.2 and 1.10).

use super::context::{Context, version_numbers};
use super::gpu::{Driver, nvfs_version};
use super::judged::{Cost, Judged};
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
    let log = kernel_log(ctx);
    let mut out = Vec::new();
    let errors = load_errors(ctx, log.as_ref());
    match is_loaded(ctx) {
        Some(true) => {
            out.push(
                Judged::pass("nvfs-loaded", NvidiaFs, "nvidia-fs is loaded").found("/sys/module/nvidia_fs", "exists"),
            );
            out.extend([version(ctx), device_nodes(ctx)]);
        }
        Some(false) => out.push(not_loaded(ctx, errors.as_ref())),
        None => out.push(
            Judged::na("nvfs-loaded", NvidiaFs, "whether nvidia-fs is loaded cannot be seen")
                .found("/proc/modules and /sys/module", "cannot be read")
                .unknown(NVFS),
        ),
    }
    out.extend(errors);
    out.push(nvme_hook(ctx));
    for judged in &mut out {
        if judged.finding.why.is_empty() {
            "nvidia-fs carries the route nvfs: it lends the pages of GPU memory to the storage driver."
                .clone_into(&mut judged.finding.why);
        }
    }
    out
}

fn not_loaded(ctx: &Context<'_>, errors: Option<&Judged>) -> Judged {
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
        .advice(if installed.is_some() { "sudo modprobe nvidia-fs" } else { "Install the package nvidia-gds." });
    if let Some(version) = &installed {
        judged = judged.found("modinfo nvidia_fs", version.clone());
        if proprietary && version_numbers(version) > vec![2, 17, 4] {
            judged = judged.cause("driver-flavour");
        } else if let Some(errors) = errors.filter(|e| e.stops(Route::Nvfs)) {
            judged = judged.cause(&errors.finding.id);
        }
    }
    judged
}

fn version(ctx: &Context<'_>) -> Judged {
    const ID: &str = "nvfs-version";
    let Some(version) = host::nvidia_fs_version(ctx.root) else {
        return Judged::na(ID, NvidiaFs, "the version of nvidia-fs could not be read").unknown(NVFS);
    };
    let numbers = version_numbers(&version);
    let judged = if numbers < vec![2, 12] {
        Judged::lack(ID, NvidiaFs, format!("nvidia-fs {version} is older than 2.12, the oldest that libcufile takes"))
            .missing(Cost::Install, NVFS)
            .fix("nvfs-install")
    } else if numbers == [2, 25, 6] {
        Judged::lack(ID, NvidiaFs, "nvidia-fs 2.25.6 is broken: reads fail with 'rw_verify_area failed with -14'")
            .missing(Cost::Install, NVFS)
            .fix("nvfs-install")
            .advice("Update to 2.25.7 or later, or go back to 2.24.3.")
    } else if numbers < vec![2, 17] {
        Judged::warn(ID, NvidiaFs, format!("nvidia-fs {version} is old")).fix("nvfs-install")
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
            let mut names = symbols.iter().filter(|s| s.starts_with("nvme_v"));
            match names.next() {
                Some(name) => Judged::pass(ID, NvidiaFs, "the NVMe driver is built for GDS").found("/proc/kallsyms", name.clone()),
                None => Judged::lack(ID, NvidiaFs, "the NVMe driver is not built for GDS")
                    .found("/proc/kallsyms", "no nvme_v1_register_nvfs_dma_ops, no nvme_v2_register_nvfs_dma_ops")
                    .missing(Cost::System, NVFS)
                    .advice("Take P2PDMA, which needs no changed driver; else an Ubuntu linux-nvidia kernel, or DOCA with mlnx-nvme-dkms."),
            }
        }
    };
    judged.why(WHY)
}

/// The kernel log of this boot: text, or why there is none.
fn kernel_log(ctx: &Context<'_>) -> Option<String> {
    let output = ctx.root.command(&["journalctl", "-k", "-b", "-o", "cat"])?;
    (output.exit_code == Some(0) && output.stdout.lines().count() > 1).then_some(output.stdout)
}

/// What the kernel said when the module was loaded (signatures K1 to K7).
fn load_errors(ctx: &Context<'_>, log: Option<&String>) -> Option<Judged> {
    const ID: &str = "nvfs-load-errors";
    const SOURCE: &str = "journalctl -k -b";
    let Some(log) = log else {
        return (is_loaded(ctx) == Some(false)).then(|| {
            Judged::na(ID, NvidiaFs, "the kernel log could not be read")
                .found(SOURCE, "not available to this user")
                .advice("sudo journalctl -k -b -o cat | grep -i -e nvidia_fs -e nvidia-fs")
        });
    };
    let line = |parts: &[&str]| log.lines().rev().find(|line| parts.iter().all(|part| line.contains(part)));
    let hit = |summary: &str, cost: Cost, line: &str, advice: &str| {
        Judged::lack(ID, NvidiaFs, summary).found(SOURCE, line.trim()).missing(cost, NVFS).advice(advice)
    };
    let loaded = is_loaded(ctx) == Some(true);
    let judged = if loaded {
        let said = line(&["nvidia_fs", "registered correctly"]);
        said.map(|said| Judged::pass(ID, NvidiaFs, "the kernel registered nvidia-fs").found(SOURCE, said.trim()))
    } else if let Some(said) = line(&["nvidia_p2p_", "from proprietary module"]) {
        Some(
            hit(
                "the kernel refused nvidia-fs: its symbols are in proprietary modules",
                Cost::Install,
                said,
                "Install the open kernel modules.",
            )
            .cause("driver-flavour"),
        )
    } else if let Some(said) = line(&["no symbol version for nvidia_p2p_"]) {
        Some(hit(
            "nvidia-fs was built without the symbol versions of the NVIDIA driver",
            Cost::Root,
            said,
            "Rebuild it with nvidia-fs 2.29 or later, or with KBUILD_EXTRA_SYMBOLS at the driver's Module.symvers.",
        ))
    } else if let Some(said) = line(&["disagrees about version of symbol nvidia_p2p_"]) {
        Some(hit(
            "nvidia-fs was built against another driver version",
            Cost::Root,
            said,
            "Rebuild it: dkms remove and dkms install.",
        ))
    } else if let Some(said) =
        line(&["module with unavailable key is rejected"]).or_else(|| line(&["Key was rejected by service"]))
    {
        Some(hit(
            "Secure Boot refused nvidia-fs: its signing key is not enrolled",
            Cost::Reboot,
            said,
            "sudo mokutil --import the DKMS key, reboot, choose 'Enroll MOK' at the console.",
        ))
    } else if let Some(said) = line(&["nvidia_fs", "Unknown symbol nvidia_p2p_"]) {
        Some(hit(
            "nvidia-fs found no nvidia_p2p symbols: the NVIDIA driver was not loaded before it",
            Cost::Root,
            said,
            "Load nvidia first: softdep nvidia_fs pre: nvidia nvme.",
        ))
    } else {
        line(&["nvidia_fs", "version magic"]).map(|said| {
            hit(
                "nvidia-fs was built for another kernel",
                Cost::Root,
                said,
                "Rebuild it for the running kernel with dkms.",
            )
        })
    };
    judged.map(|judged| judged.why("The reason why the module is not there stands in the kernel log."))
}
