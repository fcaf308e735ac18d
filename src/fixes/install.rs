//! Plans that install: repository, driver, nvidia-fs, libcufile, keys, storage driver, kernel.

use super::packages::{dkms_version, install, remove};
use super::recipes::{Family, empty, family, run};
use super::toolkit::toolkit;
use super::{distribution, doca, driver, fabric, kernel, repository, secure_boot};
use crate::checks::Report;
use crate::domain::{Change, FixPlan, FixPolicy, FixRisk, Needs, Status};
use crate::host::{Root, cufile_wheel};

/// The plan of one of these fixes.
pub(super) fn plan(root: &Root, report: &Report, id: &str) -> Option<FixPlan> {
    let family = family(root);
    Some(match id {
        "nvidia-repository" => repository::plan(root, family),
        "nvidia-driver-open" => driver::open(root, report, family),
        "nvidia-driver-proprietary" => driver::proprietary(root, report, family),
        "nvidia-fabricmanager" => fabric::plan(root, family),
        "nvfs-install" => nvfs(root, report, family),
        "libcufile-install" => libcufile(root, report, family),
        "nvfs-dkms" => dkms(root, report, family),
        "secure-boot-key" => secure_boot::plan(root, report, family),
        "nvme-patch" => doca::plan(root, report, family),
        "kernel-p2pdma" => kernel::plan(root, report, family),
        _ => return None,
    })
}

/// nvidia-fs, with libcufile and the tools of the CUDA that the driver serves.
fn nvfs(root: &Root, report: &Report, family: Family) -> FixPlan {
    let cuda = toolkit(root, family);
    let package = format!("nvidia-gds-{}", cuda.suffix);
    let signing = secure_boot::signing(root, report, family, secure_boot::Module::NvidiaFs);
    let mut changes: Vec<_> = signing.iter().flat_map(|signing| signing.before.clone()).collect();
    changes.push(run(&install(root, family, &package)));
    match &signing {
        Some(signing) => {
            changes.extend(signing.after.clone());
            changes.push(run("sudo reboot"));
        }
        None => changes.push(run("sudo modprobe nvidia-fs")),
    }
    let bad = |id: &str| report.finding(id).filter(|f| matches!(f.status, Status::Fail | Status::Warn));
    // DKMS builds it against the driver's sources and modprobe wants its symbols: a package that cannot be built stays half installed.
    let obstacle = if !root.exists("/proc/driver/nvidia/version") {
        Some(
            "nvidia-fs is built against the NVIDIA driver, and none is loaded: install that first, and reboot"
                .to_owned(),
        )
    } else if let Some(finding) = bad("gpu-open-capable") {
        Some(format!("{}; the packages have a later nvidia-fs, which needs the open kernel modules", finding.summary))
    } else if bad("driver-flavour").is_some() {
        Some(
            "this nvidia-fs needs the open kernel modules of the driver: gds-top fix nvidia-driver-open comes first"
                .to_owned(),
        )
    } else {
        cuda.obstacle
    };
    let needs = if signing.is_some() { Needs::Reboot } else { Needs::Root };
    // mokutil asks for a password on the terminal.
    let policy = if signing.is_some() { FixPolicy::Show } else { FixPolicy::Ask };
    FixPlan {
        title: "Install nvidia-fs".to_owned(),
        why: format!(
            "The route nvfs needs this kernel module.{} '{}' says beforehand what comes with it: on RHEL-like systems the package may pull another \
             kernel (compare grubby --default-kernel before and after), and precompiled driver packages of branch 570 and later do not go with \
             modules that DKMS builds. The archives of Debian and Ubuntu have old versions; NVIDIA's repository has the current one.{}{}{}",
            cuda.why,
            match family {
                Family::Debian => format!("apt-get install -s {package}"),
                Family::RedHat => format!("{} install --assumeno {package}", distribution::dnf(root)),
                Family::Suse => format!("zypper install --dry-run {package}"),
            },
            repository::hint(root, family),
            signing.map_or_else(String::new, |signing| signing.why),
            distribution::not_confirmed(root, &package)
        ),
        changes,
        verify: "gds-top check: nvfs-loaded, nvfs-version and nvfs-devnodes".to_owned(),
        undo: format!(
            "{}: {package} and the packages that came with it; the loaded module goes at the next boot",
            remove(root, family, &package)
        ),
        obstacle,
        ..empty(needs, FixRisk::Medium, policy)
    }
}

/// libcufile of the CUDA that the driver serves.
fn libcufile(root: &Root, report: &Report, family: Family) -> FixPlan {
    let cuda = toolkit(root, family);
    let package = format!("libcufile-{}", cuda.suffix);
    let wheel = cufile_wheel(cuda.major);
    let facts = root.libcufile();
    let chosen = facts.chosen.clone().unwrap_or_default();
    let folder = format!("/usr/local/cuda-{}/lib64", cuda.suffix.replace('-', "."));
    let is_newer = report.finding("cuda-driver-runtime").is_some_and(|finding| finding.status == Status::Fail);
    let mut remaining = Vec::new();
    let (mut changes, mut obstacle) = (vec![run(&install(root, family, &package))], cuda.obstacle);
    if let Some(wheel) = wheel.filter(|_| is_newer && chosen.contains("/site-packages/")) {
        // A Python environment loads its own library, whatever the system has.
        changes = vec![run(&format!("python3 -m pip install {wheel}"))];
        obstacle = None;
        remaining.push(format!("in the Python environment of {chosen}: remove the package that brought that library"));
    } else if is_newer {
        remaining.push(format!(
            "export LD_LIBRARY_PATH={folder}, so that programs find it before {chosen}; or remove the package that brought that one"
        ));
    }
    let unneeded = report.finding("lib-found").is_some_and(|finding| finding.status == Status::Pass) && !is_newer;
    let (needs, policy) = match changes.first() {
        Some(Change::Run { argv }) if argv.first().is_some_and(|word| word == "sudo") => (Needs::Root, FixPolicy::Ask),
        _ => (Needs::User, FixPolicy::Show),
    };
    FixPlan {
        title: "Install libcufile".to_owned(),
        why: format!(
            "Every cuFile read goes through this library.{}{}{}{}{}",
            cuda.why,
            wheel.map_or_else(String::new, |wheel| format!(" Without root: pip install {wheel}.")),
            if is_newer {
                format!(" {chosen} is of a newer CUDA than the driver serves; the driver can stay.")
            } else {
                String::new()
            },
            repository::hint(root, family),
            distribution::not_confirmed(root, &package)
        ),
        changes,
        verify: "gds-top check: lib-found and cuda-driver-runtime".to_owned(),
        undo: remove(root, family, &package),
        remaining,
        obstacle: obstacle.or_else(|| unneeded.then(|| format!("{chosen} is here already, and the driver serves it"))),
        ..empty(needs, FixRisk::Low, policy)
    }
}

fn dkms(root: &Root, report: &Report, family: Family) -> FixPlan {
    let kernel = crate::host::kernel_release(root);
    let module = dkms_version(root, "nvidia-fs");
    let (k, v) = (kernel.as_deref().unwrap_or("KERNEL"), module.as_deref().unwrap_or("VERSION"));
    // Sources before 2.29 read .ko and .ko.xz only, and build a module without symbol versions beside a .ko.zst.
    let compressed =
        report.finding("nvfs-build-inputs").is_some_and(|f| f.evidence.iter().any(|e| e.text.contains(".ko.zst")));
    let too_old = compressed && module.as_deref().and_then(release).is_some_and(|version| version < (2, 29));
    let headers = distribution::headers(root, family, k);
    let tools = match family {
        Family::Debian => format!("dkms build-essential {headers}"),
        Family::RedHat => format!("dkms {headers} gcc make elfutils-libelf-devel"),
        Family::Suse => format!("dkms {headers} gcc make"),
    };
    let mut changes = vec![run(&install(root, family, &tools))];
    // Its Makefile takes the first driver source that it finds, which may be that of the driver before.
    let other_driver =
        report.finding("nvfs-dkms").is_some_and(|f| f.evidence.iter().any(|e| e.text.contains("NVIDIA_SRC_DIR=")));
    let source = root.read_text("/sys/module/nvidia/version").ok().filter(|_| other_driver);
    let with_source = source
        .map_or_else(String::new, |driver| format!("env NVIDIA_SRC_DIR=/usr/src/nvidia-{}/nvidia ", driver.trim()));
    if too_old {
        changes.push(run(&install(root, family, &format!("nvidia-gds-{}", toolkit(root, family).suffix))));
        changes.push(run("sudo dkms autoinstall"));
    } else {
        changes.push(run(&format!("sudo {with_source}dkms build --force nvidia-fs/{v} -k {k}")));
        changes.push(run(&format!("sudo {with_source}dkms install --force nvidia-fs/{v} -k {k}")));
    }
    // A module that is loaded already, and that may have crashed, is changed by a reboot only.
    let needs = if other_driver { Needs::Reboot } else { Needs::Root };
    if !other_driver {
        changes.push(run("sudo modprobe nvidia-fs"));
    }
    let obstacle = match (&kernel, &module) {
        (None, _) => Some("the release of the running kernel is not known".to_owned()),
        (_, None) => Some(
            "dkms status names no nvidia-fs, so which version to build is not known; see gds-top fix nvfs-install"
                .to_owned(),
        ),
        _ if too_old => Some(format!(
            "the driver's modules are .ko.zst, and nvidia-fs {v} cannot read their symbol versions: 2.29 or later is needed, or a build by hand with \
             KBUILD_EXTRA_SYMBOLS at the driver's Module.symvers"
        )),
        _ => None,
    };
    FixPlan {
        title: "Build nvidia-fs for the running kernel".to_owned(),
        why: "The module must be built for this kernel and against the loaded driver. DKMS reports success even where nvidia_p2p symbols stayed \
              unresolved, so only loading it proves the build."
            .to_owned(),
        changes,
        verify: "gds-top check: nvfs-dkms and nvfs-load-errors; modinfo nvidia_fs".to_owned(),
        undo: format!("sudo dkms uninstall nvidia-fs/{v} -k {k}"),
        obstacle,
        ..empty(needs, FixRisk::Low, FixPolicy::Ask)
    }
}

/// Major and minor of a version.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}
