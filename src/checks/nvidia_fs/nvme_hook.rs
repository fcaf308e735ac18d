//! Checks the hook of the NVMe driver for nvidia-fs.

use crate::checks::advice::{Advice, rebuild_initramfs};
use crate::checks::classes;
use crate::checks::context::{Context, GpuSeen, Subject};
use crate::checks::filesystem::layers::RAID0_P2PDMA;
use crate::checks::gpu::driver::FIRST_WITH_P2PDMA;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::p2pdma::has_p2pdma;
use crate::checks::kernel::signing;
use crate::checks::matrix::{self, Storage};
use crate::checks::nvidia_fs::build_inputs::zst_driver;
use crate::checks::nvidia_fs::dkms::rebuilt;
use crate::checks::nvidia_fs::failed_build;
use crate::checks::pcie::topology;
use crate::checks::storage::virtual_disk;
use crate::core::{CheckId, FindingFact, FixId, Route};
use crate::machine::{self, NvmeMultipath, PathFacts, Source};
use crate::text::capitalised;

const ID: CheckId = CheckId::NvfsNvmeSymbol;
const NVFS: &[Route] = &[Route::Nvfs];

/// The route nvfs needs an NVMe driver that passes its requests to nvidia-fs. The finding is only information if no GPU
/// or no path can use that route with any driver.
pub(crate) fn nvme_hook(ctx: &Context<'_>) -> Judged {
    let judged = hook(ctx);
    if judged.stops(Route::Nvfs) && !is_for_nvfs(ctx) {
        return Judged { advice: None, explains: false, ..judged.fixes(None).aside() };
    }
    judged
}

/// Whether some path and GPU can use nvidia-fs with a suitable NVMe driver.
fn is_for_nvfs(ctx: &Context<'_>) -> bool {
    let is_open = |gpu: Option<&GpuSeen>, facts: &PathFacts| {
        let is_virtual = machine::disks(facts).iter().any(|disk| virtual_disk::maker(ctx, disk).is_some());
        let storage = classes::of_path(ctx.root, facts);
        !is_virtual && !matrix::is_closed(gpu.and_then(classes::of_gpu), storage, Route::Nvfs)
    };
    let gpus = ctx.gpus();
    ctx.subjects.iter().filter_map(|subject| subject.facts.as_ref()).any(|facts| {
        if gpus.is_empty() { is_open(None, facts) } else { gpus.iter().any(|gpu| is_open(Some(gpu), facts)) }
    })
}

fn hook(ctx: &Context<'_>) -> Judged {
    const MODULES: &str = "/proc/driver/nvidia-fs/modules";
    if let Ok(text) = ctx.root.read_text(MODULES)
        && let Some(line) = text.lines().find(|line| line.starts_with("nvme:"))
    {
        return Judged::pass(ID, "the NVMe driver is registered with nvidia-fs").found(MODULES, line);
    }
    let judged = match ctx.root.symbols() {
        Err(why) => Judged::na(ID, "it is not visible whether the NVMe driver is built for GDS")
            .unread("/proc/kallsyms", &why)
            .unknown(NVFS),
        Ok(symbols) => {
            let names: Vec<&String> = symbols.iter().filter(|s| s.starts_with("nvme_v")).collect();
            // nvidia-fs 2.28 and later support the second generation of the hook (ChangeLog of nvidia-fs,
            // gds-nvidia-fs#87).
            let old = machine::nvidia_fs_installed(ctx.root)
                .filter(|version| machine::version_numbers(version) < vec![2, 28]);
            let unregistered = ctx.root.read_text(MODULES).is_ok_and(|_| ctx.root.opens("/dev/nvidia-fs0").is_ok());
            match names.first() {
                Some(_) if unregistered && machine::nvidia_fs_loaded(ctx.root) == Some(true) => {
                    let version = machine::nvidia_fs_installed(ctx.root).unwrap_or_default();
                    let summary = if names.iter().all(|n| n.starts_with("nvme_v2")) {
                        format!(
                            "nvidia-fs {version} did not register with the NVMe driver, which has the second-generation hook"
                        )
                    } else {
                        format!("nvidia-fs {version} did not register with the NVMe driver's hook")
                    };
                    let judged = Judged::lack(ID, summary)
                        .found("/proc/kallsyms", names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(" "))
                        .found(MODULES, "no line nvme, while /dev/nvidia-fs0 was held open")
                        .explaining();
                    if names.iter().all(|n| n.starts_with("nvme_v2")) {
                        of_another_generation(ctx, judged)
                    } else {
                        let (fix, advice) = rebuilt(ctx);
                        judged.missing(Cost::Root, NVFS).fix(fix).advice(advice.text(" for this NVMe driver."))
                    }
                }
                Some(name) if names.iter().all(|n| n.starts_with("nvme_v2")) && old.is_some() => {
                    let summary = format!(
                        "the NVMe driver has the second-generation hook, nvidia-fs {} the first",
                        old.unwrap_or_default()
                    );
                    let judged = Judged::lack(ID, summary).found("/proc/kallsyms", (*name).clone()).explaining();
                    of_another_generation(ctx, judged)
                }
                Some(name) => {
                    Judged::pass(ID, "the NVMe driver is built for GDS").found("/proc/kallsyms", (*name).clone())
                }
                None => without_hook(ctx)
                    .found("/proc/kallsyms", "no nvme_v1_register_nvfs_dma_ops, no nvme_v2_register_nvfs_dma_ops"),
            }
        }
    };
    // If nvidia-fs is loaded, this finding explains why it is not used.
    if machine::nvidia_fs_loaded(ctx.root) == Some(true) && judged.stops(Route::Nvfs) {
        judged.explaining()
    } else {
        judged
    }
}

/// The loaded NVMe driver has no hook. DOCA's driver is not installed or was not loaded.
fn without_hook(ctx: &Context<'_>) -> Judged {
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    if let Some((source, text)) = machine::built_in(ctx.root, "nvme", "CONFIG_BLK_DEV_NVME") {
        return Judged::lack(ID, "the NVMe driver is built into the kernel and cannot be replaced")
            .found(source, text)
            .missing(Cost::System, NVFS)
            .advice(match (is_for_p2pdma(ctx), has_p2pdma(ctx)) {
                (true, true) if !driver_has_p2pdma(ctx) => {
                    "Use P2PDMA, which works with this NVMe driver but needs NVIDIA driver 565.47 or later."
                }
                (true, true) => "Use P2PDMA, which works with this NVMe driver.",
                (true, false) => "Boot a kernel with NVMe as a module, or one with P2PDMA (6.2 or later).",
                (false, _) => "Boot a kernel with NVMe as a module.",
            });
    }
    let rows: Vec<machine::DkmsRow> =
        machine::dkms_rows(ctx.root).into_iter().filter(|row| row.name == "mlnx-nvme").collect();
    let Some(row) = rows.iter().find(|row| row.is_installed_for(&release)).or(rows.first()) else {
        if let Some(file) = packaged_driver(ctx, &release) {
            return not_loaded(ctx, "another NVMe driver is installed, but the kernel's driver is loaded")
                .found(file, "exists")
                .explaining();
        }
        let judged = Judged::lack(ID, "the NVMe driver is not built for GDS").advice(patched_driver(ctx));
        let is_closed = without_doca(ctx).is_some() || is_only_nvme_in_cloud(ctx);
        return if is_closed { judged.never(NVFS) } else { judged.missing(Cost::System, NVFS) };
    };
    let kernel = row.kernel.as_deref().map_or_else(String::new, |kernel| format!(", {kernel}"));
    let state = format!("{}/{}{kernel}: {}", row.name, row.version, row.state);
    let rejected = machine::kernel_log(ctx.root)
        .and_then(|log| log.of(Source::Signature).next_back().map(|message| message.line.clone()));
    let judged = if !row.is_installed_for(&release) {
        let modules = machine::ofed_module_to_build(ctx.root, "mlnx-nvme", &release);
        let has_other_route = is_for_p2pdma(ctx) && has_p2pdma(ctx) && driver_has_p2pdma(ctx);
        let instead = if has_other_route { "Use P2PDMA, which needs no patched driver. " } else { "" };
        if let Some(judged) = failed_build::failed(ctx, ID, &modules, instead) {
            return judged.found("dkms status", state).explaining();
        }
        Judged::lack(ID, format!("the NVMe driver for GDS is not built for the running kernel {release}"))
            .missing(Cost::Reboot, NVFS)
            .fix(FixId::NvmePatch)
            .advice(
                Advice::from("Run ")
                    .command_and_initramfs(ctx.root, &failed_build::builds(ctx, &modules, &release))
                    .text(", then reboot."),
            )
    } else if let Some(line) = rejected {
        signing::rejected(ctx, ID, signing::Module::Nvme, Some(&line), NVFS)
    } else {
        not_loaded(ctx, "DOCA's NVMe driver is installed, but the kernel's driver is loaded")
    };
    judged.found("dkms status", state).explaining()
}

fn not_loaded(ctx: &Context<'_>, summary: &str) -> Judged {
    let rebuild = capitalised(&rebuild_initramfs(ctx.root));
    Judged::lack(ID, summary)
        .missing(Cost::Reboot, NVFS)
        .fix(FixId::Initramfs)
        .advice(format!("{rebuild}, then reboot: the old one contains the kernel's NVMe driver."))
}

/// The NVMe driver of a package without DKMS (MLNX_OFED, kmod-mlnx-nvme) for the running kernel, if the loaded driver is
/// the kernel's own. The kernel marks a loaded driver from elsewhere with O.
fn packaged_driver(ctx: &Context<'_>, release: &str) -> Option<String> {
    let modules = ctx.root.read_text("/proc/modules").ok()?;
    let loaded = modules.lines().find(|line| line.starts_with("nvme "))?;
    let is_own = !loaded.rsplit_once('(').is_some_and(|(_, marks)| marks.contains('O'));
    let files = ["extra", "updates", "weak-updates"].into_iter().flat_map(|folder| {
        ["mlnx-nvme/host/nvme.ko", "nvme.ko"].into_iter().flat_map(move |file| {
            ["", ".xz", ".zst", ".gz"].map(|ending| format!("/lib/modules/{release}/{folder}/{file}{ending}"))
        })
    });
    is_own.then_some(files).into_iter().flatten().find(|file| ctx.root.exists(file))
}

/// The advice if nvidia-fs does not support the second generation of the hook. nvidia-fs expects it on Linux 6.17 and
/// later, but the driver of DOCA-OFED 26.01 exports its symbol on all kernels (gds-nvidia-fs#87).
fn of_another_generation(ctx: &Context<'_>, judged: Judged) -> Judged {
    if ctx.kernel().is_some_and(|kernel| kernel < (6, 17)) {
        judged.missing(Cost::Reboot, NVFS).fact(FindingFact::OutdatedDoca).fix(FixId::NvmePatch).advice(
            "Update DOCA to 3.4.1 (mlnx-nvme-dkms 26.04) or later, then reboot. Another nvidia-fs does not help with 26.01.",
        )
    } else {
        let least = if zst_driver(ctx).is_some() { "2.29" } else { "2.28" };
        judged
            .missing(Cost::Root, NVFS)
            .fix(FixId::NvfsInstall)
            .advice(format!("Install nvidia-fs {least} or later. DKMS then builds it for this NVMe driver."))
    }
}

/// Whether the disk is a multipath device that must or cannot be changed, which P2PDMA does not support.
fn has_several_paths(ctx: &Context<'_>, subject: &Subject) -> bool {
    let state = machine::nvme_multipath(ctx.root);
    let is_on = matches!(state, NvmeMultipath::On | NvmeMultipath::Forced);
    let disks = subject.facts.as_ref().map(machine::disks).unwrap_or_default();
    let ours: Vec<String> = disks.iter().filter_map(|disk| machine::nvme_controller(&disk.name)).collect();
    let shares = |(_, paths): (String, Vec<String>)| paths.len() > 1 && paths.iter().any(|path| ours.contains(path));
    let is_device = disks.iter().any(|disk| machine::nvme_hidden_path(ctx.root, &disk.name).is_some());
    (state == NvmeMultipath::Forced && is_device)
        || (is_on && machine::nvme_subsystems(ctx.root).into_iter().any(shares))
}

/// Whether some path and GPU can use P2PDMA, independent of the current configuration.
fn is_for_p2pdma(ctx: &Context<'_>) -> bool {
    let is_open = |gpu: Option<&GpuSeen>, subject: &Subject| {
        let storage = subject.facts.as_ref().and_then(|facts| classes::of_path(ctx.root, facts));
        let is_too_old = storage == Some(Storage::NvmeRaid0) && ctx.kernel().is_none_or(|kernel| kernel < RAID0_P2PDMA);
        let is_closed = matrix::is_closed(gpu.and_then(classes::of_gpu), storage, Route::P2pdma);
        let is_refused = subject.facts.as_ref().zip(gpu).is_some_and(|(facts, gpu)| {
            topology::between(ctx, facts, gpu).is_some_and(|judged| judged.stops(Route::P2pdma))
        });
        let is_doubtful = gpu.is_some() && classes::doubt(ctx).is_some();
        !is_too_old && !is_doubtful && !is_closed && !is_refused && !has_several_paths(ctx, subject)
    };
    let gpus = ctx.gpus();
    !ctx.is_aarch64()
        && ctx.subjects.iter().any(|subject| {
            if gpus.is_empty() { is_open(None, subject) } else { gpus.iter().any(|gpu| is_open(Some(gpu), subject)) }
        })
}

/// Whether the loaded NVIDIA driver has P2PDMA. One of an unknown version counts.
fn driver_has_p2pdma(ctx: &Context<'_>) -> bool {
    let version = machine::Driver::of(ctx.root).version;
    version.is_none_or(|version| machine::version_numbers(&version) >= FIRST_WITH_P2PDMA.to_vec())
}

/// The name of the distribution, if no NVMe driver for GDS exists for it: the release notes of GDS and the pages of
/// DOCA-Host do not list it.
fn without_doca(ctx: &Context<'_>) -> Option<String> {
    const UNLISTED: [&str; 6] = ["fedora", "amzn", "azurelinux", "arch", "opensuse-leap", "opensuse-tumbleweed"];
    let id = machine::os_release(ctx.root, "ID").filter(|id| UNLISTED.contains(&id.as_str()))?;
    // The pretty name of Amazon Linux contains the date of its release.
    let name = match (machine::os_release(ctx.root, "NAME"), machine::os_release(ctx.root, "VERSION_ID")) {
        (Some(name), Some(version)) if id == "amzn" => Some(format!("{name} {version}")),
        _ => machine::os_release(ctx.root, "PRETTY_NAME"),
    };
    Some(name.unwrap_or(id))
}

/// Whether this is a virtual machine of a cloud for whose kernels no NVMe driver for GDS exists, and all paths are on
/// disks. Other paths, such as FSx for Lustre, do not need this driver.
fn is_only_nvme_in_cloud(ctx: &Context<'_>) -> bool {
    let on_disk = |subject: &Subject| subject.facts.as_ref().is_some_and(|facts| !machine::disks(facts).is_empty());
    classes::undocumented(ctx).is_some() && !ctx.subjects.is_empty() && ctx.subjects.iter().all(on_disk)
}

/// Whether the system is RHEL 8 or a rebuild of it.
fn is_rhel_8(ctx: &Context<'_>) -> bool {
    machine::kernel_release(ctx.root).is_some_and(|release| release.contains(".el8"))
}

/// The distribution of a container's host, from the release of its kernel. The image can be of another one.
fn system_of_host(ctx: &Context<'_>) -> Option<&'static str> {
    machine::container(ctx.root)?;
    let release = machine::kernel_release(ctx.root)?;
    let has = |part: &str| release.contains(part);
    [
        (has(".el") || has(".fc"), "rhel"),
        (release.ends_with("-default"), "suse"),
        (release.ends_with("-pve") || release.ends_with("-amd64"), "debian"),
        (release.ends_with("-generic"), "ubuntu"),
    ]
    .into_iter()
    .find_map(|(fits, name)| fits.then_some(name))
}

/// The source of a driver on a machine with MLNX_OFED, which must not be combined with DOCA.
pub(crate) fn from_ofed(ofed: &machine::MlnxOfed, part: &str) -> String {
    match ofed.package(part) {
        Some(package) => format!("{package} from the repository of the installed {}", ofed.release),
        None => {
            format!("{part} with the installer of {} (--with-nvmf --with-nfsrdma --enable-gds)", ofed.release)
        }
    }
}

/// Where to get an NVMe driver for GDS on this system, and whether P2PDMA makes it unnecessary.
fn patched_driver(ctx: &Context<'_>) -> String {
    let named = match system_of_host(ctx) {
        Some(name) => vec![name.to_owned()],
        None => ["ID", "ID_LIKE"].into_iter().filter_map(|key| machine::os_release(ctx.root, key)).collect(),
    };
    let is = |names: &[&str]| named.iter().flat_map(|words| words.split_whitespace()).any(|word| names.contains(&word));
    let by_p2pdma = (is_for_p2pdma(ctx), has_p2pdma(ctx));
    if let Some(name) = without_doca(ctx) {
        return match by_p2pdma {
            (true, true) if !driver_has_p2pdma(ctx) => {
                format!(
                    "Use P2PDMA after an update to NVIDIA driver 565.47 or later. NVIDIA has no patched NVMe driver for {name}."
                )
            }
            (true, true) => {
                format!("Use P2PDMA: it needs no patched NVMe driver, and NVIDIA has no such driver for {name}.")
            }
            (true, false) => {
                format!("Boot a kernel with P2PDMA (6.2 or later). NVIDIA has no patched NVMe driver for {name}.")
            }
            (false, _) => {
                format!("NVIDIA has no NVMe driver for GDS for {name}, so reads of local disks go through host memory.")
            }
        };
    }
    if let Some(cloud) = classes::undocumented(ctx) {
        return format!(
            "NVIDIA documents only compat mode in virtual machines of {cloud}. It has no patched NVMe driver for their kernels."
        );
    }
    let of_ofed = machine::mlnx_ofed(ctx.root).map(|ofed| from_ofed(&ofed, "mlnx-nvme"));
    let driver = if let Some(driver) = &of_ofed {
        driver
    } else if machine::packages::is_ubuntu_before_doca(ctx.root) {
        "MLNX_OFED 5.8 LTS with --with-nvmf --enable-gds (NVIDIA lists DOCA for GDS from Ubuntu 22.04 on)"
    } else if is(&["ubuntu"]) {
        "DOCA with mlnx-nvme-dkms, or an Ubuntu linux-nvidia kernel"
    } else if is(&["debian"]) || named.iter().any(|words| words.contains("suse") || words.contains("sles")) {
        "DOCA with mlnx-nvme-dkms"
    } else if is_rhel_8(ctx) {
        "MLNX_OFED with --with-nvmf --enable-gds (NVIDIA lists DOCA for GDS from RHEL 9 on)"
    } else if is(&["rhel", "centos", "fedora"]) {
        "DOCA with mlnx-nvme-dkms (before 3.2 kmod-mlnx-nvme)"
    } else {
        "DOCA with its NVMe driver"
    };
    let commands = commands_of_host(ctx).filter(|_| by_p2pdma != (true, true)).unwrap_or_default();
    let advice = match by_p2pdma {
        (true, true) if !driver_has_p2pdma(ctx) => {
            format!("Install {driver}. P2PDMA needs no patched NVMe driver, but NVIDIA driver 565.47 or later.")
        }
        (true, true) => format!("Use P2PDMA, which needs no patched driver, or {driver}."),
        // On such old systems, a new kernel is not an alternative.
        (true, false) if ctx.kernel().is_some_and(|kernel| kernel >= (5, 0)) => {
            format!("Install {driver}. P2PDMA needs no patched driver, but another kernel.")
        }
        _ if ctx.kernel().is_some_and(|kernel| kernel >= (6, 17)) => format!(
            "Boot a kernel before 6.17, because reads can fail with this driver from 6.17 on (NVIDIA's known issues). Then install {driver}."
        ),
        _ => format!("Install {driver}."),
    };
    advice + &commands
}

/// The commands that install the driver on the host of a container. The commands of a fix are those of the image.
fn commands_of_host(ctx: &Context<'_>) -> Option<String> {
    let host = system_of_host(ctx).filter(|_| machine::mlnx_ofed(ctx.root).is_none() && !is_rhel_8(ctx))?;
    let (kernel, doca) = match host {
        "ubuntu" => (
            " Install the kernel: `sudo apt-get install linux-nvidia`.",
            "sudo apt-get install linux-headers-$(uname -r) doca-ofed mlnx-nvme-dkms",
        ),
        "debian" => ("", "sudo apt-get install linux-headers-$(uname -r) doca-ofed mlnx-nvme-dkms"),
        "rhel" => ("", "sudo dnf install kernel-devel-$(uname -r) doca-ofed mlnx-nvme-dkms"),
        _ => ("", "sudo zypper install kernel-default-devel doca-ofed mlnx-nvme-dkms"),
    };
    let is_pod = machine::container(ctx.root).is_some_and(|container| container.runtime == "kubernetes");
    let operator = if is_pod {
        " With DOCA, set driver.rdma.enabled and driver.rdma.useHostMofed in the ClusterPolicy of NVIDIA's GPU Operator."
    } else {
        ""
    };
    Some(format!("{kernel} Or add DOCA's repository, then: `{doca}`.{operator} Then reboot."))
}
