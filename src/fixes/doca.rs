//! The plans for an NVMe driver and an NFS client that are built for GDS, from NVIDIA's DOCA-Host: its repository, the
//! driver, and a new build of nvidia-fs.
//!
//! Sources: GPUDirect Storage Installation and Troubleshooting Guide (DOCA Requirements and Installation), release
//! notes (Known Limitations), DOCA-Host Installation and DKMS Management Guide, and the installer of OFED for the
//! names of RPM packages. The plan marks all other names as not confirmed.

use super::distribution::{self, called, id, release, rhel};
use super::fstab::{Fstab, OVER_RDMA, with_options};
use super::kernel::{has_nvidia_fs, is_arm};
use super::packages::{built_again, compiler, dkms, dkms_version, install};
use super::parts::{Family, empty, initramfs, line_in, run};
use super::secure_boot;
use crate::checks::Report;
use crate::core::{Change, CheckId, Finding, FindingFact, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{
    MlnxOfed, PathFacts, Root, built_in, kernel_release, mlnx_ofed, nvme_transports, ofed_module_to_build, os_release,
};
use crate::text::quoted_line;
use std::path::{Path, PathBuf};

const SERVER: &str = "https://linux.mellanox.com/public/repo/doca";
/// The part of an address that all online repositories of DOCA have. The release is next.
const ONLINE: &str = "/repo/doca/";
/// The part of the address of a repository from a package of DOCA-Host. The release is next.
const UNPACKED: &str = "/doca-host-";
const RPM_KEYS: &str = "https://linux.mellanox.com/public/repo/doca/public_keys/nvidia-doca-rpm-gpg-public-key.asc https://linux.mellanox.com/public/repo/doca/GPG-KEY-Mellanox.pub";
const DOWNLOADS: &str = "https://developer.nvidia.com/doca-downloads";
/// NVIDIA changed its key in February 2026. Depending on the release, packages are signed with the old or the new
/// key.
const KEYRING: &str = "/usr/share/keyrings/nvidia-doca.gpg";

/// The installer of MLNX_OFED, in the directory of its package.
const INSTALLER: &str = "sudo ./mlnxofedinstall --with-nvmf --with-nfsrdma --enable-gds --add-kernel-support --dkms";

/// A storage driver that is built for GDS.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Nvme,
    NfsRdma,
}

impl Transport {
    const fn id(self) -> FixId {
        match self {
            Self::Nvme => FixId::NvmePatch,
            Self::NfsRdma => FixId::NfsRdmaClient,
        }
    }

    /// Its name in DKMS. The package ends in `-dkms`.
    const fn module(self) -> &'static str {
        match self {
            Self::Nvme => "mlnx-nvme",
            Self::NfsRdma => "mlnx-nfsrdma",
        }
    }

    /// The package of DOCA with it. The NFS client needs the InfiniBand drivers of DOCA, against which it is built.
    fn package(self, is_compiled: bool) -> String {
        if is_compiled { format!("kmod-{}", self.module()) } else { format!("{}-dkms", self.module()) }
    }
}

/// The plan for this machine.
pub(super) fn plan(root: &Root, report: &Report, family: Family, transport: Transport) -> FixPlan {
    const WHY_NFS: &str = "The client of the distribution does not register with nvidia-fs. The drivers of all NVIDIA network cards are replaced.";
    const WHY: &str = "The route nvfs needs this driver; P2PDMA does not, and needs fewer steps if kernel and GPU support it. The driver replaces that of all NVMe disks, possibly of the root disk.";
    const UBUNTU: &str = " Ubuntu's linux-nvidia kernels contain this driver: 'sudo apt-get install linux-nvidia' and a boot into that kernel replace this plan.";
    let kernel = kernel_release(root).unwrap_or_default();
    let missing = ofed_module_to_build(root, transport.module(), &kernel);
    let is_outdated = transport == Transport::Nvme
        && report
            .finding(CheckId::NvfsNvmeSymbol)
            .is_some_and(|found| found.facts.contains(&FindingFact::OutdatedDoca));
    let found = if transport == Transport::Nvme { CheckId::NvfsNvmeSymbol } else { CheckId::NvfsRegistered };
    let failed = report
        .finding(found)
        .and_then(|found| found.evidence.iter().find(|evidence| evidence.source.ends_with("/make.log")))
        .map(|evidence| format!("{} ({})", evidence.text, evidence.source));
    let ofed = mlnx_ofed(root);
    let is_compiled = match &ofed {
        Some(ofed) => family == Family::RedHat && ofed.package(transport.module()).is_some(),
        None => has_compiled_drivers(root, family),
    };
    let (mut changes, source) = match &ofed {
        // DKMS has the driver: a new kernel needs only its build.
        _ if is_outdated => match updated(root, family) {
            Ok((changes, source)) => (changes, Ok(source)),
            Err(why) => (Vec::new(), Err(why)),
        },
        // Another build of the same version for this kernel fails again.
        _ if !missing.is_empty() && failed.is_some() => {
            (Vec::new(), Err(format!("DKMS cannot build the driver for this kernel: {}", failed.unwrap_or_default())))
        }
        _ if !missing.is_empty() => {
            let headers = run(&install(root, family, &distribution::headers(root, family, &kernel)));
            let build = |(name, version): &(String, String)| {
                dkms(&kernel, &format!("dkms install {name}/{version} -k {kernel}"))
            };
            (
                [headers].into_iter().chain(missing.iter().map(build)).collect(),
                Ok(" DKMS has the driver for another kernel, so it is built for this one.".to_owned()),
            )
        }
        Some(ofed) => of_ofed(root, family, transport, ofed),
        None if is_before_doca(root) => (
            distribution::sources_of_dkms(root, family).into_iter().chain([run(INSTALLER)]).collect(),
            Ok(format!(
                " NVIDIA lists {} for MLNX_OFED and not for DOCA: download MLNX_OFED 5.8 LTS from https://network.nvidia.com/products/infiniband-drivers/linux/mlnx_ofed/ and run its installer in the directory of its package.",
                called(root)
            )),
        ),
        None => match doca(root, family, transport) {
            Ok((changes, source)) => (changes, Ok(source)),
            Err(why) => (Vec::new(), Err(why)),
        },
    };
    let (rebuilt, order) = nvidia_fs(root, report, family);
    // A mount over TCP is changed by hand after its test over RDMA (nfs-rdma), so it stays usable without one.
    let is_over_rdma = |facts: &&PathFacts| {
        facts.filesystem.as_deref().is_some_and(|kind| kind.starts_with("nfs"))
            && facts.option_value("proto") == Some("rdma")
    };
    let mount = report.paths.iter().filter(|_| transport == Transport::NfsRdma).find(is_over_rdma);
    let signing = secure_boot::signing(root, report, family, secure_boot::Module::Nvme);
    let (table, remaining) = mount.map_or((None, Vec::new()), |facts| at_boot(root, facts));
    let earlier = undo_of_update(&changes, family);
    if source.is_ok() {
        // DKMS signs a module when it builds it, so the key must exist before.
        changes.splice(0..0, signing.iter().flat_map(|signing| signing.before.clone()));
        changes.extend(built_again(kernel_release(root).as_deref()));
        changes.extend(rebuilt);
        changes.extend(distribution::unsupported_modules(root));
        changes.extend([replaced(transport, is_compiled), run(initramfs(root, family))]);
        changes.extend(signing.iter().flat_map(|signing| signing.after.clone()));
        changes.extend(mount.iter().filter_map(|facts| unmount(facts)));
        changes.extend(table);
        changes.push(run("sudo reboot"));
    }
    let obstacle = obstacle(root).filter(|_| transport == Transport::Nvme).or_else(|| source.as_ref().err().cloned());
    FixPlan {
        why: format!(
            "{}{} {order}{}{}{}",
            if transport == Transport::Nvme { WHY } else { WHY_NFS },
            match transport {
                Transport::Nvme if id(root) == "ubuntu" && !is_before_doca(root) => UBUNTU,
                Transport::Nvme => "",
                Transport::NfsRdma => use_of_mount(report, mount.is_some()),
            },
            source.unwrap_or_default(),
            compiler(kernel_release(root).as_deref()),
            signing.map_or_else(String::new, |signing| signing.why)
        ),
        changes,
        verify: if transport == Transport::NfsRdma {
            "before the reboot modinfo -n rpcrdma names a file in updates or extra; after it and the mount, grep rpcrdma_register_nvfs /proc/kallsyms shows the hook"
        } else if is_outdated {
            "before the reboot dkms status lists mlnx-nvme 26.04 or later; after it grep nvme_v /proc/kallsyms shows nvme_v1_register_nvfs_dma_ops"
        } else if has_fabric(root, report) {
            "before the reboot modinfo -n nvme_rdma names a file in updates or extra; after it grep nvme_rdma_v /proc/kallsyms shows nvme_rdma_v1_register_nvfs_dma_ops"
        } else {
            "before the reboot modinfo -n nvme names a file in updates or extra; after it grep nvme_v /proc/kallsyms shows nvme_v1_register_nvfs_dma_ops or nvme_v2_…"
        }
        .to_owned(),
        undo: match &ofed {
            _ if is_outdated => earlier,
            Some(_) => format!("remove the package of {}, rebuild the initramfs, reboot", transport.module()),
            None if is_before_doca(root) => {
                "remove MLNX_OFED (sudo /usr/sbin/ofed_uninstall.sh --force), rebuild the initramfs, reboot".to_owned()
            }
            None => {
                format!("remove {} and doca-ofed, rebuild the initramfs, reboot", transport.package(is_compiled))
            }
        },
        remaining,
        obstacle,
        ..empty(transport.id(), Needs::Reboot, FixRisk::High, FixPolicy::Show)
    }
}

/// How to undo an update: the repository file is that of the earlier release again, and so are the packages.
fn undo_of_update(changes: &[Change], family: Family) -> String {
    let file = changes.iter().find_map(|change| match change {
        Change::WriteFile { path, .. } => Some(format!("restore {}, ", path.display())),
        Change::Run { .. } => None,
    });
    let packages = match family {
        Family::Debian => {
            "install the earlier versions ('sudo apt-get install --allow-downgrades PACKAGE=VERSION' for all packages that the update names)"
        }
        Family::RedHat => "run 'sudo dnf downgrade doca-ofed \"mlnx-*\"'",
        Family::Suse => "install the earlier release of DOCA",
    };
    format!("{}{packages}, build nvidia-fs again, rebuild the initramfs, reboot", file.unwrap_or_default())
}

/// A sentence about the mount of an NFS client. It starts with a space. The verdict has the test of a mount over RDMA
/// after the client if the client of the kernel cannot be loaded.
fn use_of_mount(report: &Report, is_over_rdma: bool) -> &'static str {
    let is_test_later = report.verdicts.iter().any(|verdict| {
        let at = |id: CheckId| verdict.steps.iter().position(|step| *step == id);
        at(CheckId::NvfsRegistered).is_some() && at(CheckId::NvfsRegistered) < at(CheckId::NfsRdma)
    });
    if is_over_rdma {
        " Stop the programs that use the mount."
    } else if is_test_later {
        " The present mount stays as it is. The client of the kernel cannot be loaded next to DOCA's drivers, so the test of a mount over RDMA (nfs-rdma) follows this plan."
    } else {
        " The present mount stays as it is. First test a mount over RDMA with the present client (nfs-rdma): only a server that exports NFS over RDMA needs this plan."
    }
}

/// Whether NVIDIA lists this system for MLNX_OFED 5.8 and not for DOCA: RHEL 8 and its rebuilds, and old releases of Ubuntu
/// (release notes of GDS, MLNX_OFED/DOCA requirements).
fn is_before_doca(root: &Root) -> bool {
    rhel(root) == Some(8) || crate::machine::packages::is_ubuntu_before_doca(root)
}

/// Whether an examined path is on NVMe over RDMA. Its driver nvme_rdma has another symbol.
fn has_fabric(root: &Root, report: &Report) -> bool {
    report.paths.iter().any(|facts| nvme_transports(root, facts).iter().any(|kind| kind == "rdma"))
}

/// A command that succeeds if modprobe loads a driver that is not in the kernel's own directory. A compiled driver is
/// linked from weak-updates for the other kernels of the release.
fn replaced(transport: Transport, is_compiled: bool) -> Change {
    let module = if transport == Transport::Nvme { "nvme" } else { "rpcrdma" };
    let folders = if is_compiled { "updates|extra|weak-updates" } else { "updates|extra" };
    let command = format!("/sbin/modinfo -n {module} | grep -E \"/({folders})/\"");
    Change::Run { argv: ["sh", "-c", &command].map(str::to_owned).to_vec() }
}

/// The change of `/etc/fstab` with which the reboot mounts an NFS file system over RDMA, as it is now. Without a line for
/// it, the command that mounts it again.
fn at_boot(root: &Root, facts: &PathFacts) -> (Option<Change>, Vec<String>) {
    const PATH: &str = "/etc/fstab";
    let before = root.read_text(PATH).ok();
    let point = facts.mount_point.as_deref().and_then(Path::to_str).unwrap_or_default();
    match before.as_deref().map_or(Fstab::NoLine, |text| with_options(text, point, OVER_RDMA)) {
        Fstab::Changed(after) => {
            (Some(Change::WriteFile { path: PathBuf::from(PATH), before, after, mode: 0o644 }), Vec::new())
        }
        Fstab::HasIt => (None, Vec::new()),
        Fstab::NoLine => (None, facts.mount_command(&[]).map(|argv| quoted_line(&argv)).into_iter().collect()),
    }
}

/// The command that unmounts an NFS file system, so that the old client is not used when the machine stops.
fn unmount(facts: &PathFacts) -> Option<Change> {
    let point = facts.mount_point.as_deref()?.to_str()?;
    Some(Change::Run { argv: ["sudo", "umount", point].map(str::to_owned).to_vec() })
}

/// Why the driver cannot work on this machine. `None` if it can.
fn obstacle(root: &Root) -> Option<String> {
    if let Some((path, text)) = built_in(root, "nvme", "CONFIG_BLK_DEV_NVME") {
        return Some(format!(
            "nvme is built into this kernel ({path}: {text}) and cannot be replaced: use P2PDMA, or a kernel with nvme as a module"
        ));
    }
    let version = kernel_release(root).as_deref().and_then(numbers)?;
    (version >= (6, 17)).then(|| {
        "on Linux 6.17 and later this driver can fail reads or hang the kernel with disks that use scatter-gather lists (release notes of GDS): use P2PDMA, or at least DOCA 3.3.0"
            .to_owned()
    })
}

fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(['.', '-']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// The commands that add the driver to the installed MLNX_OFED, from its repository or with its installer.
fn of_ofed(
    root: &Root,
    family: Family,
    transport: Transport,
    ofed: &MlnxOfed,
) -> (Vec<Change>, Result<String, String>) {
    let release = &ofed.release;
    let (changes, by) = match ofed.package(transport.module()) {
        Some(package) => {
            let kernel = kernel_release(root).unwrap_or_else(|| "KERNEL".to_owned());
            let refresh = (family == Family::Debian).then(|| run("sudo apt-get update"));
            // The module in Red Hat's package is compiled.
            let packages = match family {
                Family::Debian => format!("{} {package}", distribution::headers(root, family, &kernel)),
                _ => package,
            };
            let install = run(&install(root, family, &packages));
            (refresh.into_iter().chain([install]).collect(), "so the driver comes from its configured repository")
        }
        None => (vec![run(INSTALLER)], "so its installer is run again, in the directory of its package"),
    };
    let said = format!(
        " {release} is installed, and NVIDIA's guide forbids to combine it with DOCA, {by}. 24.10 is its last release. To change to DOCA, \
         remove it first (sudo /usr/sbin/ofed_uninstall.sh --force) and reboot; this replaces the drivers of all NVIDIA network cards."
    );
    (changes, Ok(said))
}

/// nvidia-fs is compiled with the symbols of OFED (see its dkms.conf), so it is built after the driver. Returns the
/// commands and a sentence.
fn nvidia_fs(root: &Root, report: &Report, family: Family) -> (Vec<Change>, &'static str) {
    // A later step removes the package, and with it the version in DKMS.
    if report.findings.iter().any(Finding::needs_hand_built_nvidia_fs) {
        return (
            Vec::new(),
            "Build nvidia-fs 2.17.4 after it. With this GPU's driver the kernel loads no later version.",
        );
    }
    if !has_nvidia_fs(root, report) {
        return (Vec::new(), "Install it before nvidia-fs, which must be built after it.");
    }
    const AGAIN: &str = "nvidia-fs is then built again for it.";
    match (dkms_version(root, "nvidia-fs"), kernel_release(root)) {
        (Some(version), Some(kernel)) => {
            let commands = ["build", "install"]
                .map(|verb| dkms(&kernel, &format!("dkms {verb} --force nvidia-fs/{version} -k {kernel}")));
            (commands.into(), AGAIN)
        }
        // This command is in NVIDIA's release notes of GDS.
        _ if family == Family::Debian => (vec![run("sudo apt-get install -y --reinstall nvidia-fs-dkms")], AGAIN),
        // DKMS lists no version, so the scripts of the package build it.
        _ => {
            let again = match family {
                Family::Suse => "zypper --non-interactive install --force".to_owned(),
                _ => format!("{} reinstall -y", distribution::dnf(root)),
            };
            let script =
                format!("{again} $(rpm -qa --queryformat \"%{{NAME}} \" \"nvidia-fs*\") && modinfo -n nvidia_fs");
            (vec![Change::Run { argv: ["sudo", "sh", "-c", &script].map(str::to_owned).to_vec() }], AGAIN)
        }
    }
}

/// The commands that add the DOCA repository and install the driver, with a sentence about them. The error is the
/// reason why there are none.
fn doca(root: &Root, family: Family, transport: Transport) -> Result<(Vec<Change>, String), String> {
    const FIRMWARE: &str = " NVIDIA's guide also lists mlnx-fw-updater, which writes firmware to network cards and is not needed for disks.";
    let kernel = kernel_release(root).unwrap_or_else(|| "KERNEL".to_owned());
    let headers = distribution::headers(root, family, &kernel);
    let dkms = " DOCA builds its drivers by DKMS since 3.2, and needs DKMS 3.2 or later.";
    let Some(repository) = repository(root, family)? else {
        // NVIDIA's page lists the package, but not the address of a repository.
        let page = format!(
            " It is not confirmed that NVIDIA has an online repository for {}: download DOCA-Host from {DOWNLOADS} (Host-Server, DOCA-Host, doca-ofed).",
            called(root)
        );
        let command = install(root, family, &format!("{headers} doca-ofed {}", transport.package(false)));
        let refresh =
            if family == Family::Suse { "sudo zypper --gpg-auto-import-keys refresh" } else { "sudo dnf makecache" };
        let install = [run("sudo rpm -Uvh doca-host-*.rpm"), run(refresh), run(&command)];
        let changes = distribution::sources_of_dkms(root, family).into_iter().chain(install).collect();
        return Ok((changes, format!("{page}{dkms}{FIRMWARE}")));
    };
    let mut changes = Vec::new();
    let mut said = String::new();
    if configured(root, family).is_none() {
        let base = address(root, &repository);
        said = format!(
            " Adding NVIDIA's DOCA repository means trusting its signing keys; {DOWNLOADS} shows the directory of each release."
        );
        if !repository.is_confirmed || (is_arm(root) && family != Family::Debian) {
            said.push_str(&format!(" It is not confirmed that {base} exists: check it first."));
        }
        changes.extend(match family {
            Family::Debian => debian(root, &base),
            _ => red_hat(root, &base),
        });
    }
    if configured(root, family).is_some() && family == Family::Debian {
        changes.push(run("sudo apt-get update"));
    }
    let is_compiled = has_compiled_drivers(root, family);
    let package = transport.package(is_compiled);
    let packages = if is_compiled { format!("doca-ofed {package}") } else { format!("{headers} doca-ofed {package}") };
    changes.push(run(&install(root, family, &packages)));
    let how = match family {
        _ if is_compiled => {
            format!(" The configured DOCA is older than 3.2, so its driver is compiled and in {package}.")
        }
        Family::Debian => dkms.to_owned(),
        _ => format!("{dkms} Before DOCA 3.2 the package was kmod-{}.", transport.module()),
    };
    let firmware = if transport == Transport::Nvme { FIRMWARE } else { "" };
    Ok((changes, format!("{said}{how}{firmware}")))
}

/// The address of the newest release.
fn address(root: &Root, repository: &Repository) -> String {
    format!("{SERVER}/latest/{}/{}", repository.folder, if is_arm(root) { "arm64-sbsa" } else { "x86_64" })
}

/// The commands that change the repository to the newest release and update the drivers, with a sentence about them. A
/// repository of a fixed release never offers a newer one.
fn updated(root: &Root, family: Family) -> Result<(Vec<Change>, String), String> {
    let kernel = kernel_release(root).unwrap_or_else(|| "KERNEL".to_owned());
    let said = " The installed DOCA has the wrong hook for this kernel, so all its drivers are updated together.";
    let Some(repository) = repository(root, family)? else {
        let (changes, page) = doca(root, family, Transport::Nvme)?;
        return Ok((changes, format!("{said} Take DOCA 3.4.1 or later.{page}")));
    };
    let base = address(root, &repository);
    let file = configured(root, family).filter(|path| root.read_text(path).is_ok_and(|text| text.contains(ONLINE)));
    let mut changes = match (&file, family) {
        (None, Family::Debian) => debian(root, &base),
        (None, _) => red_hat(root, &base),
        (Some(_), Family::Debian) => vec![keys()],
        (Some(_), _) => vec![run(&format!("sudo rpm --import {RPM_KEYS}"))],
    };
    if let Some(path) = file {
        changes.extend(newest(root, &path, &base));
        changes.push(run(match family {
            Family::Debian => "sudo apt-get update",
            _ => "sudo dnf clean expire-cache",
        }));
    }
    let packages = match family {
        Family::Debian => "doca-ofed mlnx-ofed-kernel-dkms mlnx-nvme-dkms",
        _ => "doca-ofed mlnx-*",
    };
    let headers = distribution::headers(root, family, &kernel);
    changes.push(run(&match family {
        Family::Debian => format!("sudo apt-get install -y {headers} {packages}"),
        _ => format!("sudo dnf upgrade -y {packages}"),
    }));
    const IS_NEW: &str = "dkms status mlnx-nvme | grep installed | grep -v 26.01";
    changes.push(Change::Run { argv: ["sh", "-c", IS_NEW].map(str::to_owned).to_vec() });
    Ok((changes, said.to_owned()))
}

/// The change of a repository file to the newest release. A mirror keeps its server and its keys. `None` if it names it already.
fn newest(root: &Root, path: &str, base: &str) -> Option<Change> {
    let before = root.read_text(path).ok()?;
    let line = |line: &str| match line.trim_start() {
        text if text.starts_with('#') => line.to_owned(),
        text if text.starts_with("deb ") && text.contains(SERVER) => format!("deb [signed-by={KEYRING}] {base}/ ./"),
        text if text.starts_with("Signed-By:") && before.contains(SERVER) => format!("Signed-By: {KEYRING}"),
        _ => match line.split_once(ONLINE) {
            Some((server, rest)) => {
                let (_, folder) = rest.split_once('/').unwrap_or((rest, ""));
                format!("{server}{ONLINE}latest/{folder}")
            }
            None => line.to_owned(),
        },
    };
    let after: String = before.lines().map(|text| line(text) + "\n").collect();
    (after != before).then(|| Change::WriteFile { path: PathBuf::from(path), before: Some(before), after, mode: 0o644 })
}

/// A directory on the DOCA server. `is_confirmed` is set if NVIDIA's pages or public scripts use it.
struct Repository {
    folder: String,
    is_confirmed: bool,
}

/// The directory for this release. `None` if its name on the server is unknown, `Err` if the server may have none.
fn repository(root: &Root, family: Family) -> Result<Option<Repository>, String> {
    let known = |folder: String, is_confirmed: bool| Ok(Some(Repository { folder, is_confirmed }));
    let unknown = || {
        Err(format!(
            "it is not confirmed that NVIDIA has DOCA-Host for {}; {DOWNLOADS} lists the supported systems",
            called(root)
        ))
    };
    let ubuntu = match os_release(root, "UBUNTU_CODENAME").as_deref() {
        _ if id(root) == "ubuntu" => release(root).filter(|(_, month)| *month == 4),
        Some("jammy") => Some((22, 4)),
        Some("noble") => Some((24, 4)),
        _ => None,
    };
    // From 26.04 on, Ubuntu has DOCA-OFED in its archive too (doca-ofed-generic). Both cannot be combined.
    if let Some((year @ 22.., _)) = ubuntu.filter(|_| family == Family::Debian) {
        return known(format!("ubuntu{year}.04"), year < 26);
    }
    match (family, id(root).as_str(), release(root)) {
        (Family::Debian, "debian", Some((major @ 12.., _))) => known(format!("debian{major}"), major == 13),
        // NVIDIA's page lists Oracle Linux separately from RHEL.
        (Family::RedHat, "ol", _) => Ok(None),
        (Family::RedHat, "amzn" | "azurelinux", _) => unknown(),
        (Family::RedHat, name, _) => match rhel(root) {
            Some(major @ 8..=10) => known(format!("rhel{major}"), ["rhel", "rocky"].contains(&name)),
            _ => unknown(),
        },
        (Family::Suse, "sles", _) => Ok(None),
        _ => unknown(),
    }
}

/// The file that configures the DOCA repository, online or unpacked from a package.
fn configured(root: &Root, family: Family) -> Option<String> {
    let folder = super::repository::folder(family);
    let names = root.entries(folder).ok()?.into_iter().map(|name| format!("{folder}/{name}"));
    let is_doca = |text: String| {
        text.lines().any(|line| !line.starts_with('#') && (line.contains(ONLINE) || line.contains(UNPACKED)))
    };
    names.into_iter().find(|path| root.read_text(path).is_ok_and(is_doca))
}

/// Whether the configured DOCA has compiled drivers, in packages whose names begin with kmod. From 3.2 on DKMS builds
/// them. Debian's packages always used DKMS.
fn has_compiled_drivers(root: &Root, family: Family) -> bool {
    let is_before = || {
        let text = root.read_text(configured(root, family)?).ok()?;
        let release = text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let (_, rest) = line.split_once(ONLINE).or_else(|| line.split_once(UNPACKED))?;
            // The newest release has no number.
            numbers(rest)
        })?;
        Some(release < (3, 2))
    };
    family == Family::RedHat && is_before() == Some(true)
}

/// The change that stores the keys of the repository.
fn keys() -> Change {
    let keys = format!(
        "{{ wget -qO - {SERVER}/public_keys/nvidia-doca-debian-gpg-public-key.gpg; wget -qO - {SERVER}/GPG-KEY-Mellanox.pub | gpg --dearmor; }} > {KEYRING}"
    );
    Change::Run { argv: ["sudo", "sh", "-c", &keys].map(str::to_owned).to_vec() }
}

fn debian(root: &Root, base: &str) -> Vec<Change> {
    let list = line_in(root, "/etc/apt/sources.list.d/doca.list", &format!("deb [signed-by={KEYRING}] {base}/ ./"));
    [keys()].into_iter().chain(list).chain([run("sudo apt-get update")]).collect()
}

fn red_hat(root: &Root, base: &str) -> Vec<Change> {
    const FILE: &str = "/etc/yum.repos.d/doca.repo";
    let before = root.read_text(FILE).ok();
    let text = before.clone().unwrap_or_default();
    let section = format!("[doca]\nname=NVIDIA DOCA-Host\nbaseurl={base}/\nenabled=1\ngpgcheck=1\ngpgkey={RPM_KEYS}\n");
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let file =
        Change::WriteFile { path: PathBuf::from(FILE), before, after: format!("{text}{gap}{section}"), mode: 0o644 };
    distribution::dkms_source(root).into_iter().chain([file, run("sudo dnf makecache")]).collect()
}
