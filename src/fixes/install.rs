//! Plans that install nvidia-fs and libcufile, and that build nvidia-fs.

use super::applied::load_at_boot;
use super::packages::{built_again, compiler, dkms as by_dkms, dkms_version, install, license, remove};
use super::parts::{Family, empty, run, words};
use super::toolkit::{toolkit, toolkit_with_p2pdma};
use super::{distribution, driver, repository, secure_boot};
use crate::checks::Report;
use crate::core::{Change, CheckId, Finding, FindingFact, FixId, FixPlan, FixPolicy, FixRisk, Needs, Status};
use crate::machine::{
    DebPackage, LibraryOwner, Root, container, cufile_wheel, deb_packages, dkms_rows, following_kernel, kernel_release,
    library_owner, library_pip, library_update, modules_disabled, nvidia_fs_known, nvidia_fs_loaded,
    nvidia_fs_of_ubuntu, precompiled_driver,
};

/// The obstacle if no driver is installed.
pub(super) const NO_DRIVER: &str = "nvidia-fs needs the sources of an NVIDIA driver: install the driver first";
/// The obstacle if the driver has the proprietary kernel modules.
pub(super) const CLOSED_DRIVER: &str =
    "this nvidia-fs needs the open kernel modules: run gds-top fix nvidia-driver-open first";
/// The command that loads nvidia-fs.
pub(super) const LOAD: &str = "sudo modprobe nvidia-fs";

/// Installs nvidia-fs. If no libcufile is installed that the driver supports, it is installed too, with its tools.
pub(super) fn nvfs(root: &Root, report: &Report, family: Family) -> FixPlan {
    let cuda = toolkit(root, family);
    let has_library = root.libcufile_if_known().is_some_and(|facts| facts.chosen.is_some() || !facts.found.is_empty());
    let is_too_new = report.finding(CheckId::CudaDriverRuntime).is_some_and(|finding| finding.status == Status::Fail);
    // The meta package accepts older versions of nvidia-fs, so only the package of the module updates it.
    let is_too_old = |f: &Finding| {
        f.fix == Some(FixId::NvfsInstall) && !matches!(f.id, CheckId::NvfsLoaded | CheckId::NvfsSecureboot)
    };
    let is_update = has_library && nvidia_fs_known(root) && report.findings.iter().any(is_too_old);
    // nvidia-fs depends on the kernel and the driver only, and works with drivers of CUDA 12.
    // DKMS has no source of a driver that Ubuntu built.
    let of_ubuntu = nvidia_fs_of_ubuntu(root).filter(|_| family == Family::Debian && !nvidia_fs_known(root));
    let is_of_ubuntu = of_ubuntu.is_some();
    // The package that follows the kernel brings the module with each of its updates.
    let following = || following_kernel(root, &kernel_release(root)?);
    let of_ubuntu = of_ubuntu.map(|module| match following() {
        Some(kernel) => format!("{module} linux-modules-nvidia-fs-{kernel}"),
        None => module,
    });
    let is_module_only = !cuda.is_nvidia_fs_only && (is_update || (has_library && !is_too_new));
    let package = if let Some(module) = of_ubuntu {
        if has_library { module } else { format!("{module} libcufile-{}", cuda.suffix) }
    } else if cuda.is_nvidia_fs_only || is_module_only {
        "nvidia-fs-dkms".to_owned()
    } else {
        format!("nvidia-gds-{}{}", cuda.suffix, if cuda.is_without_nvidia_fs { " nvidia-fs" } else { "" })
    };
    let library = cuda
        .obstacle
        .clone()
        .filter(|_| cuda.is_nvidia_fs_only)
        .map_or_else(String::new, |why| format!(" Only the module is installed: {why}."));
    // Ubuntu signs its modules with a key that Secure Boot accepts.
    let signing = secure_boot::signing(root, report, family, secure_boot::Module::NvidiaFs).filter(|_| !is_of_ubuntu);
    let mut changes: Vec<_> = signing.iter().flat_map(|signing| signing.before.clone()).collect();
    let precompiled = driver::without_precompiled(root, family);
    let is_precompiled = !precompiled.is_empty();
    if family == Family::RedHat && repository::configured(root, family).is_ok() {
        changes.extend(distribution::dkms_source(root));
    }
    changes.extend(precompiled);
    if family == Family::Debian {
        changes.push(run("sudo apt-get update"));
    }
    changes.push(run(&install(root, family, &package)));
    changes.extend(distribution::unsupported_modules(root));
    let kernel = kernel_release(root);
    // DKMS builds an nvidia-fs that was installed before the source of the driver only on request.
    match kernel.as_deref().filter(|_| is_precompiled && is_update) {
        Some(kernel) => changes.push(by_dkms(kernel, &format!("dkms autoinstall -k {kernel}"))),
        None => changes.extend(built_again(kernel.as_deref())),
    }
    // NVIDIA's package for Debian and Ubuntu has such a file. That of others may lack it.
    changes.extend(load_at_boot(root).filter(|_| family != Family::Debian || is_of_ubuntu));
    // If the driver is installed but not loaded, nvidia-fs is built now and loaded after the same reboot.
    let waits = driver::waits_for_reboot(root) || modules_disabled(root).is_some();
    changes.extend(signing.iter().flat_map(|signing| signing.after.clone()));
    let needs = if signing.is_some() || waits || is_precompiled {
        changes.push(run("sudo reboot"));
        Needs::Reboot
    } else {
        changes.extend(loaded_again(root));
        Needs::Root
    };
    let bad = |id: CheckId| report.finding(id).filter(|f| matches!(f.status, Status::Fail | Status::Warn));
    let is_wanted = report.findings.iter().any(|finding| finding.fix == Some(FixId::NvfsInstall));
    let installed = crate::machine::nvidia_fs_installed(root).filter(|_| !is_wanted);
    // DKMS needs the driver's sources, and modprobe needs its symbols. A package whose module cannot be built stays
    // partly installed.
    let obstacle = if let Some(version) = installed {
        Some(format!("nvidia-fs {version} is already installed; gds-top fix nvfs-load loads it"))
    } else if !waits && !root.exists("/proc/driver/nvidia/version") {
        Some(NO_DRIVER.to_owned())
    } else if let Some(finding) = bad(CheckId::GpuOpenCapable) {
        Some(format!(
            "{}; the packages contain a later nvidia-fs, which needs the open kernel modules",
            finding.summary
        ))
    } else if (is_update || (is_module_only && !is_of_ubuntu && family == Family::Debian))
        && repository::configured(root, family) == Err(true)
    {
        // The archives of Debian and Ubuntu have an old nvidia-fs-dkms.
        Some(format!(
            "no configured repository is NVIDIA's, which has the later version: run gds-top fix {} first",
            FixId::NvidiaRepository
        ))
    } else if !waits && bad(CheckId::DriverFlavour).is_some() {
        Some(CLOSED_DRIVER.to_owned())
    } else {
        cuda.obstacle.filter(|_| !cuda.is_nvidia_fs_only)
    };
    // mokutil needs the terminal to ask for a password.
    let policy = if signing.is_some() { FixPolicy::Show } else { FixPolicy::Ask };
    FixPlan {
        why: format!(
            "The route nvfs needs this kernel module.{}{library}{}{} Run {}{}{}{}",
            if is_module_only {
                " libcufile is already installed, so no package of the CUDA toolkit is needed."
            } else {
                cuda.why.as_str()
            },
            if package.contains("nvidia-gds") && cuda.is_without_nvidia_fs {
                " From CUDA 13.4 on nvidia-fs is a separate package."
            } else {
                ""
            },
            if needs == Needs::Root { stop_programs(root) } else { "" },
            match family {
                Family::Debian => format!(
                    "'apt-get install -s {package}' to see all changes. The archives of Debian and Ubuntu have old versions; NVIDIA's repository has the current one."
                ),
                Family::RedHat => format!(
                    "'{} install --assumeno {package}' to see all changes: the package can install another kernel (compare grubby --default-kernel before and after), and precompiled driver packages of branch 570 and later are not compatible with modules that DKMS builds.",
                    distribution::dnf(root)
                ),
                Family::Suse => format!("'zypper install --dry-run {package}' to see all changes."),
            },
            repository::hint(root, family),
            signing.map_or_else(String::new, |signing| signing.why),
            distribution::not_confirmed(root, &package) + &compiler(kernel.as_deref()) + license(family)
        ),
        changes,
        verify: "gds-top check: nvfs-loaded, nvfs-version and nvfs-devnodes".to_owned(),
        undo: if is_update {
            format!("install the earlier version of {package} again")
        } else {
            format!(
                "'{}' removes {package} and keeps its dependencies; the module stays loaded until the next boot",
                remove(root, family, &package)
            )
        },
        obstacle,
        ..empty(FixId::NvfsInstall, needs, FixRisk::Medium, policy)
    }
}

/// Installs the libcufile of the CUDA release that the driver supports.
pub(super) fn libcufile(root: &Root, report: &Report, family: Family) -> FixPlan {
    let cuda = if lacks_p2pdma(report) { toolkit_with_p2pdma(root, report, family) } else { toolkit(root, family) };
    let package = format!("libcufile-{}", cuda.suffix);
    let wheel = cufile_wheel(cuda.major);
    let facts = root.libcufile();
    let chosen = facts.chosen.clone().unwrap_or_default();
    let folder = format!("/usr/local/cuda-{}/lib64", cuda.suffix.replace('-', "."));
    let is_newer = report.finding(CheckId::CudaDriverRuntime).is_some_and(|finding| finding.status == Status::Fail);
    let is_too_old = lacks_p2pdma(report);
    let mut remaining = Vec::new();
    let (mut changes, mut obstacle) = (vec![run(&install(root, family, &package))], cuda.obstacle);
    // Releases without P2PDMA are of CUDA 12, and so is what loads them.
    let update = library_update(root, &chosen, if is_too_old { 12 } else { cuda.major });
    let is_of_python = matches!(library_owner(root, &chosen), LibraryOwner::Wheel(_));
    let pip = |verb: &str| library_pip(root, &chosen, verb).unwrap_or_else(|| format!("python3 -m pip {verb}"));
    let of_conda = update.clone().filter(|_| !is_of_python && (is_too_old || is_newer));
    if let Some(update) = update.clone().filter(|_| is_too_old).or(of_conda) {
        changes = vec![shell_words(&update)];
        obstacle = None;
    } else if let Some(wheel) = wheel.filter(|_| is_newer && is_of_python) {
        // A Python environment loads its own library, independent of the system's library.
        let is_of_13 = chosen.contains("/nvidia/cu13/") && wheel != "nvidia-cufile";
        changes = is_of_13.then(|| run(&format!("{} nvidia-cufile", pip("uninstall -y")))).into_iter().collect();
        changes.push(run(&format!("{} {wheel}", pip("install"))));
        obstacle = None;
        if !is_of_13 {
            remaining.push(format!("in the Python environment of {chosen}: remove the package with that library"));
        }
    } else if is_newer {
        remaining.push(format!(
            "export LD_LIBRARY_PATH={folder}, so that programs find it before {chosen}; or remove the package with that library"
        ));
    }
    if update.is_some() && is_too_old && container(root).is_some() {
        remaining.push("add the command to the image, because the change is lost with this container".to_owned());
    } else if let Some(wheel) = wheel.filter(|_| container(root).is_some()) {
        // Packages that are installed in a container are lost with it, and most images have no sudo.
        if !(is_newer && is_of_python) {
            changes = vec![run(&format!("{} {wheel}", pip("install")))];
        }
        obstacle = None;
        remaining
            .push(format!("add {package} or {wheel} to the image, because the change is lost with this container"));
    }
    let unneeded = !is_too_old
        && report.finding(CheckId::LibFound).is_some_and(|finding| finding.status == Status::Pass)
        && !is_newer;
    let has = |word: &str| matches!(changes.first(), Some(Change::Run { argv }) if argv.iter().any(|one| one == word));
    let is_package = !has("pip") && !has("conda");
    let needs = if has("sudo") { Needs::Root } else { Needs::User };
    let policy = if is_package { FixPolicy::Ask } else { FixPolicy::Show };
    let of_package = |text: String| if is_package { text } else { String::new() };
    FixPlan {
        why: format!(
            "Every cuFile read goes through this library.{}{}{}{}{}",
            of_package(cuda.why),
            of_package(wheel.map_or_else(String::new, |wheel| format!(" Without root: pip install {wheel}."))),
            if is_newer {
                let needed = if has_newer_toolkit(root, &chosen, cuda.major) {
                    "Programs of that release need a newer driver."
                } else {
                    "The driver need not be replaced."
                };
                format!(" {chosen} needs a newer CUDA release than the driver supports. {needed}")
            } else {
                String::new()
            },
            of_package(repository::hint(root, family)),
            of_package(distribution::not_confirmed(root, &package))
        ),
        verify: "gds-top check: lib-found and cuda-driver-runtime".to_owned(),
        undo: if is_package {
            format!("'{}' removes {package} and keeps its dependencies", remove(root, family, &package))
        } else {
            "the same command with the earlier version".to_owned()
        },
        changes,
        remaining,
        obstacle: obstacle
            .or_else(|| unneeded.then(|| format!("{chosen} is already installed, and the driver supports it"))),
        ..empty(FixId::LibcufileInstall, needs, FixRisk::Low, policy)
    }
}

/// Whether a CUDA toolkit is installed that is newer than CUDA `major`.
fn has_newer_toolkit(root: &Root, library: &str, major: u32) -> bool {
    let is_newer = |package: &DebPackage| {
        let version = package.name.strip_prefix("cuda-toolkit-").and_then(|rest| rest.split_once('-'));
        version.is_some_and(|(first, second)| {
            first.parse::<u32>().is_ok_and(|first| first > major) && second.parse::<u32>().is_ok()
        })
    };
    // The library of a toolkit is in targets/ or lib64/ of its directory.
    let folder = library.split_once("/targets/").or_else(|| library.split_once("/lib64/"));
    folder.is_some_and(|(folder, _)| root.exists(format!("{folder}/bin/nvcc")))
        || deb_packages(root).iter().any(is_newer)
}

/// The change that runs a command with quoted words.
fn shell_words(line: &str) -> Change {
    let bare = |word: String| word.trim_matches('\'').to_owned();
    Change::Run { argv: words(line).into_iter().map(bare).collect() }
}

/// Whether the installed libcufile is too old for P2PDMA, the best route of this machine.
fn lacks_p2pdma(report: &Report) -> bool {
    report.finding(CheckId::LibVersion).is_some_and(|finding| {
        finding.fix == Some(FixId::LibcufileInstall) && matches!(finding.status, Status::Fail | Status::Warn)
    })
}

/// Builds nvidia-fs for the running kernel.
pub(super) fn dkms(root: &Root, report: &Report, family: Family) -> FixPlan {
    let kernel = kernel_release(root);
    let module = dkms_version(root, "nvidia-fs");
    let (k, v) = (kernel.as_deref().unwrap_or("KERNEL"), module.as_deref().unwrap_or("VERSION"));
    // Sources before 2.29 can read .ko and .ko.xz only. If the driver's module is a .ko.zst, they build nvidia-fs
    // without symbol versions.
    let compressed =
        report.finding(CheckId::NvfsBuildInputs).is_some_and(|f| f.facts.contains(&FindingFact::ZstdModules));
    let too_old = compressed && module.as_deref().and_then(release).is_some_and(|version| version < (2, 29));
    let headers = distribution::headers(root, family, k);
    let tools = match family {
        Family::Debian => format!("dkms build-essential {headers}"),
        Family::RedHat => format!("dkms {headers} gcc make elfutils-libelf-devel"),
        Family::Suse => format!("dkms {headers} gcc make"),
    };
    let mut changes = vec![run(&install(root, family, &tools))];
    // nvidia-fs is built with the symbols of the driver, so the driver is built first.
    let rows = dkms_rows(root);
    let is_driver_built = rows.iter().any(|row| row.is_driver() && row.is_installed_for(k));
    let unbuilt = rows.iter().find(|row| row.is_driver() && !is_driver_built);
    changes.extend(unbuilt.map(|row| by_dkms(k, &format!("dkms install {}/{} -k {k}", row.name, row.version))));
    // The Makefile uses the first driver source that it finds. It can be that of an older driver.
    let other_driver = report.findings.iter().any(|f| f.facts.contains(&FindingFact::OtherDriverSource));
    let source = root.read_text("/sys/module/nvidia/version").ok().filter(|_| other_driver);
    let with_source = source
        .map_or_else(String::new, |driver| format!("env NVIDIA_SRC_DIR=/usr/src/nvidia-{}/nvidia ", driver.trim()));
    changes.push(by_dkms(k, &format!("{with_source}dkms build --force nvidia-fs/{v} -k {k}")));
    changes.push(by_dkms(k, &format!("{with_source}dkms install --force nvidia-fs/{v} -k {k}")));
    // A loaded module may have crashed, so a reboot is needed to replace it.
    let needs_reboot = other_driver && nvidia_fs_loaded(root) == Some(true);
    let needs = if needs_reboot { Needs::Reboot } else { Needs::Root };
    changes.extend(load_at_boot(root));
    if !needs_reboot {
        changes.extend(loaded_again(root));
    }
    let obstacle = match (&kernel, &module) {
        (None, _) => Some("the release of the running kernel is not known".to_owned()),
        (_, None) => Some(
            "dkms status lists no nvidia-fs, so there is no version to build; run gds-top fix nvfs-install".to_owned(),
        ),
        _ if too_old => Some(format!(
            "nvidia-fs {v} cannot read the symbol versions of the driver's .ko.zst modules, and 2.29 can: run gds-top fix nvfs-install"
        )),
        _ if precompiled_driver(root).is_some() => {
            Some("the driver is precompiled, and DKMS needs its source: run gds-top fix nvfs-install".to_owned())
        }
        _ => None,
    };
    FixPlan {
        why: format!(
            "The module must be built for this kernel and the loaded driver. DKMS reports success even with unresolved nvidia_p2p symbols, so only loading the module proves the build.{}",
            if needs_reboot { "" } else { stop_programs(root) }
        ),
        changes,
        verify: "gds-top check: nvfs-dkms and nvfs-load-errors; modinfo nvidia_fs".to_owned(),
        undo: format!("'sudo dkms uninstall nvidia-fs/{v} -k {k}' removes this build"),
        obstacle,
        ..empty(FixId::NvfsDkms, needs, FixRisk::Low, FixPolicy::Ask)
    }
}

/// The commands that load the installed nvidia-fs. An earlier one stays loaded until it is removed.
fn loaded_again(root: &Root) -> impl Iterator<Item = Change> {
    let unload = (nvidia_fs_loaded(root) == Some(true)).then(|| run("sudo modprobe -r nvidia-fs"));
    unload.into_iter().chain([run(LOAD)])
}

/// A sentence for a plan that loads nvidia-fs again. It starts with a space, and is empty if none is loaded.
fn stop_programs(root: &Root) -> &'static str {
    match nvidia_fs_loaded(root) {
        Some(true) => " Stop the programs that use GDS first: modprobe cannot remove a module that is in use.",
        _ => "",
    }
}

/// The major and minor number of a version.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}
