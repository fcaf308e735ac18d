//! The NVIDIA driver for a machine: the kernel modules that its GPUs support, and the branch of a working driver.

use super::packages::{built_again, compiler, install, license};
use super::parts::{Family, empty, run};
use super::{distribution, fabric, repository, secure_boot};
use crate::checks::Report;
use crate::core::{Change, CheckId, FindingFact, FixId, FixPlan, FixPolicy, FixRisk, Needs, Route};
use crate::machine::{
    Architecture, BRANCH_OF_BLACKWELL, DriverOrigin, GpuKind, Root, UbuntuDriver, deb_packages, dkms_rows,
    driver_origin, following_kernel, gpu_kinds, is_aarch64, kernel_release, module_info, modules_of_other_variants,
    nvidia_driver, nvidia_fs_builds, nvidia_version_line, os_release, precompiled_driver,
};

/// The last branch for Maxwell, Pascal and Volta, which has long-term support. Branch 590 dropped these GPUs
/// (NVIDIA's support plan for Linux drivers).
const LONG_SUPPORT: u32 = 580;
/// A release of that branch, for NVIDIA's installer, whose file names contain the complete version.
const LONG_SUPPORT_RELEASE: &str = "580.95.05";
/// The first driver with P2PDMA.
const FIRST_WITH_P2PDMA: (u32, u32) = (565, 47);

/// The kind of kernel modules of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Open,
    Proprietary,
}

/// The kind of kernel modules that are loaded, or installed for the running kernel.
fn present(root: &Root) -> Option<Flavour> {
    let of = |is_open: bool| if is_open { Flavour::Open } else { Flavour::Proprietary };
    if let Some(line) = nvidia_version_line(root) {
        return Some(of(line.to_lowercase().contains("open kernel")));
    }
    let output = root.command(&["modinfo", "nvidia"]).filter(|output| output.exit_code == Some(0))?;
    let license = output.stdout.lines().find_map(|line| line.strip_prefix("license:"))?;
    Some(of(license.contains("GPL")))
}

/// Whether the open driver is installed for the running kernel but is loaded only at the next boot.
pub(super) fn waits_for_reboot(root: &Root) -> bool {
    let Some(output) = root.command(&["modinfo", "nvidia"]).filter(|output| output.exit_code == Some(0)) else {
        return false;
    };
    let field = |name: &str| output.stdout.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let is_open = field("license:").is_some_and(|license| license.contains("GPL"));
    let loaded = root.read_text("/sys/module/nvidia/version").ok();
    is_open && field("version:").is_some_and(|version| loaded.is_none_or(|loaded| loaded.trim() != version))
}

/// The version of the driver that is installed but not loaded.
fn next_version(root: &Root) -> Option<String> {
    let loaded = root.read_text("/sys/module/nvidia/version").ok()?;
    module_info(root, "nvidia")?.version.filter(|version| version != loaded.trim())
}

fn is_open_next(root: &Root) -> bool {
    module_info(root, "nvidia").and_then(|installed| installed.is_open()) == Some(true)
}

fn branch_of(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next().flatten().unwrap_or(0)))
}

/// The branch of the driver after the plan of `nvidia-driver-open`. `None` if the newest one is installed.
fn branch_after(version: Option<(u32, u32)>, report: &Report) -> Option<u32> {
    version.map(|version| if serves(version, report) { version.0 } else { LONG_SUPPORT })
}

/// The oldest driver with the open modules that this machine needs, the reason in a few words, and the sentence about it.
fn oldest(report: &Report) -> ((u32, u32), &'static str, &'static str) {
    let found = report.finding(CheckId::GpuPresent);
    if found.is_some_and(|found| found.facts.contains(&FindingFact::DriverOlderThanGpu)) {
        ((BRANCH_OF_BLACKWELL, 0), "this GPU", "The installed driver is older than the GPU.")
    } else if report.verdicts.iter().any(|verdict| verdict.possible == Route::P2pdma) {
        (FIRST_WITH_P2PDMA, "P2PDMA", "P2PDMA needs driver 565.47 or later.")
    } else {
        ((515, 0), "the open modules", OPEN_ONLY)
    }
}

/// Whether a driver with the open modules supports the GPU and the route that the verdicts want.
fn serves(version: (u32, u32), report: &Report) -> bool {
    version >= oldest(report).0
}

/// The branch of the driver that an earlier step brings in place of the present one.
pub(super) fn coming_branch(root: &Root, report: &Report) -> Option<u32> {
    let version = nvidia_driver(root).as_deref().and_then(branch_of)?;
    let is_replaced = report.replaced_driver() == Some(FixId::NvidiaDriverOpen);
    branch_after(Some(version), report).filter(|branch| is_replaced && *branch != version.0)
}

const OPEN_ONLY: &str = "nvidia-fs from 2.17.5 on and P2PDMA work with the open modules only.";

/// The plan of `nvidia-driver-open`.
pub(super) fn open(root: &Root, report: &Report, family: Family) -> FixPlan {
    let installed = nvidia_driver(root);
    let version = installed.as_deref().and_then(branch_of);
    let is_open = present(root) == Some(Flavour::Open);
    let (_, needed_by, reason) = oldest(report);
    let serves = |version: (u32, u32)| serves(version, report);
    let branch = branch_after(version, report);
    let mut notes = match (&installed, version, branch) {
        (Some(installed), Some(version), Some(branch)) if version.0 == branch => {
            format!(" Driver {installed} keeps its branch; only its kernel modules change.")
        }
        (Some(installed), _, Some(branch)) => format!(
            " Driver {installed} is too old for {needed_by}; branch {branch} has long support and also supports CUDA 12 programs."
        ),
        _ => String::new(),
    };
    let gpus = gpu_kinds(root);
    let waiting = next_version(root).filter(|next| is_open_next(root) && branch_of(next).is_some_and(serves));
    let obstacle = too_old(&gpus).or_else(|| {
        let installed = installed.as_deref()?;
        if let Some(next) = &waiting {
            return Some(format!("driver {next} with the open kernel modules is already installed: reboot to load it"));
        }
        (is_open && version.is_some_and(serves))
            .then(|| format!("driver {installed} with the open kernel modules is already installed"))
    });
    notes.push_str(&lost(&gpus));
    notes.push_str(&distribution::not_confirmed(root, "nvidia-open"));
    if let (Some(stream), Some(branch)) = (stream(root), branch.filter(|_| family == Family::RedHat)) {
        // The streams of a branch keep it: 560-open, 560-dkms.
        let of_stream = stream.split('-').next().and_then(|first| first.parse::<u32>().ok());
        if of_stream.is_some_and(|of_stream| of_stream != branch) {
            notes.push_str(&format!(
                " The enabled stream {stream} of the module nvidia-driver keeps its branch, so dnf update alone changes nothing."
            ));
        }
    }
    let same = version.zip(branch).is_some_and(|(version, branch)| version.0 == branch);
    let is_too_old = is_open && version.is_some_and(|version| !serves(version));
    let plan = FixPlan {
        verify: "/proc/driver/nvidia/version says 'Open Kernel Module'".to_owned(),
        undo: match &installed {
            Some(installed) => format!("install the packages of driver {installed} again"),
            None => "remove the driver's packages".to_owned(),
        },
        ..plan(
            root,
            report,
            family,
            Flavour::Open,
            branch,
            installed.as_deref().filter(|_| same),
            if is_too_old { reason } else { OPEN_ONLY },
            &notes,
            obstacle,
        )
    };
    if is_too_old {
        return FixPlan { title: "Install a newer NVIDIA driver with the open kernel modules".to_owned(), ..plan };
    }
    plan
}

/// The plan of `nvidia-driver-proprietary`.
pub(super) fn proprietary(root: &Root, report: &Report, family: Family) -> FixPlan {
    let gpus = gpu_kinds(root);
    let installed = nvidia_driver(root).filter(|version| branch_of(version).is_some_and(|v| v.0 <= LONG_SUPPORT));
    let loaded = present(root) == Some(Flavour::Proprietary);
    let newest = gpus.iter().map(|gpu| gpu.architecture).max();
    let oldest = gpus.iter().map(|gpu| gpu.architecture).min();
    let both = gpus.iter().find(|gpu| gpu.needs_open);
    let obstacle = match (oldest, newest) {
        (Some(Architecture::TuringOrLater), _) | (None, _) => {
            Some("no GPU here is older than Turing: install the open kernel modules (nvidia-driver-open)".to_owned())
        }
        (_, Some(Architecture::BeforeMaxwell)) => Some(
            "no driver with GPUDirect Storage supports a GPU before Maxwell (branch 470 was the last with Kepler)"
                .to_owned(),
        ),
        _ => both.map(|gpu| {
            format!(
                "{} needs the open kernel modules, but the other GPU cannot use them: no driver supports both",
                gpu.name
            )
        }),
    };
    let obstacle = obstacle.or_else(|| {
        let installed = installed.as_deref().filter(|_| loaded)?;
        Some(format!("driver {installed} with the proprietary kernel modules is already installed"))
    });
    let names: Vec<&str> = gpus
        .iter()
        .map(|gpu| gpu.architecture)
        .filter(|architecture| *architecture < Architecture::TuringOrLater)
        .map(Architecture::name)
        .collect();
    let name = names.first().copied().unwrap_or("older than Turing");
    let last = format!(
        "The GPU is {name}: the open kernel modules do not support it, and branch {LONG_SUPPORT} is the last proprietary one that does. P2PDMA is not possible, and nvidia-fs only up to 2.17.4, which builds on kernels before 6.2. Otherwise reads go through host memory. Use the packages of CUDA 12.{}",
        gpus.iter().find(|gpu| gpu.architecture == Architecture::TuringOrLater).map_or_else(String::new, |gpu| {
            format!(" {} then has no direct route either, because all GPUs use the same modules.", gpu.name)
        })
    );
    FixPlan {
        title: format!("Install the proprietary NVIDIA driver, branch {LONG_SUPPORT}"),
        verify: "nvidia-smi lists the GPU".to_owned(),
        undo: "remove the driver's packages".to_owned(),
        ..plan(root, report, family, Flavour::Proprietary, Some(LONG_SUPPORT), None, &last, "", obstacle)
    }
}

/// A sentence about a GPU that the open modules do not support, next to one that they support. It starts with a space.
fn lost(gpus: &[GpuKind]) -> String {
    let is_newer = |gpu: &GpuKind| gpu.architecture == Architecture::TuringOrLater;
    let old = gpus.iter().find(|gpu| !is_newer(gpu)).filter(|_| gpus.iter().any(is_newer));
    old.map_or_else(String::new, |gpu| {
        format!(
            " {} is {} and cannot be used with the open modules: use it in another machine, or pass it to a virtual machine (vfio-pci).",
            gpu.name,
            gpu.architecture.name()
        )
    })
}

/// Why the open modules support none of these GPUs. `None` if they support one.
fn too_old(gpus: &[GpuKind]) -> Option<String> {
    if gpus.iter().any(|gpu| gpu.architecture == Architecture::TuringOrLater) {
        return None;
    }
    let gpu = gpus.iter().find(|gpu| gpu.architecture < Architecture::TuringOrLater)?;
    Some(format!(
        "{} is {}, older than Turing: the open kernel modules do not support it; run gds-top fix nvidia-driver-proprietary",
        gpu.name,
        gpu.architecture.name()
    ))
}

/// Whether the packages to build modules for a kernel are installed. On Amazon Linux they include other modules.
fn has_headers(root: &Root, kernel: &str) -> bool {
    os_release(root, "ID").as_deref() != Some("amzn") && root.exists(format!("/lib/modules/{kernel}/build/Makefile"))
}

#[allow(clippy::too_many_arguments, reason = "the two plans differ in these parts")]
fn plan(
    root: &Root,
    report: &Report,
    family: Family,
    flavour: Flavour,
    branch: Option<u32>,
    same: Option<&str>,
    reason: &str,
    notes: &str,
    obstacle: Option<String>,
) -> FixPlan {
    let mut changes = Vec::new();
    if repository::configured(root, family) == Err(true) && repository::name(root, family).is_ok() {
        changes.extend(repository::plan(root, family).changes);
    }
    // The plan of the repository has these changes.
    if repository::configured(root, family).is_ok() {
        let contrib = distribution::contrib(root).map(|change| [change, run("sudo apt-get update")]);
        changes.extend(contrib.into_iter().flatten());
        changes.extend(distribution::package_hub(root));
        changes.extend(distribution::dkms_source(root));
    }
    // apt-get finds no package whose version in old lists is gone from the archive.
    let update = run("sudo apt-get update");
    if family == Family::Debian && !changes.contains(&update) {
        changes.push(update);
    }
    // DKMS builds modules only for kernels with installed headers. Without headers, the next boot has no driver.
    if let Some(kernel) = kernel_release(root).filter(|kernel| !has_headers(root, kernel)) {
        changes.push(run(&install(root, family, &distribution::headers(root, family, &kernel))));
    }
    changes.extend(distribution::unsupported_modules(root));
    let module = match flavour {
        Flavour::Open => secure_boot::Module::OpenDriver,
        Flavour::Proprietary => secure_boot::Module::ProprietaryDriver,
    };
    let origin = driver_origin(root);
    let is_signed = origin.is_some_and(DriverOrigin::is_signed);
    let signing = secure_boot::signing(root, report, family, module).filter(|_| !is_signed);
    changes.extend(signing.iter().flat_map(|signing| signing.before.clone()));
    let (packages, not_confirmed) = packages(root, family, origin, flavour, branch, same);
    changes.extend(packages);
    changes.extend(built_again(kernel_release(root).as_deref()));
    // nvidia-fs of DKMS was built with the symbols of the modules that are replaced.
    let is_replaced = flavour == Flavour::Open && present(root) == Some(Flavour::Proprietary);
    let nvidia_fs = nvidia_fs_builds(root).into_iter().next().zip(kernel_release(root)).filter(|_| is_replaced);
    if let Some((row, kernel)) = nvidia_fs {
        let of = |verb: &str| run(&format!("sudo dkms {verb} --force {}/{} -k {kernel}", row.name, row.version));
        changes.extend([of("build"), of("install")]);
    }
    let has_switches = fabric::is_needed(root);
    if has_switches {
        let driver = match same {
            Some(version) => fabric::Driver::Version(version.to_owned()),
            None => fabric::Driver::Installed(branch),
        };
        changes.extend(fabric::changes(root, family, &driver));
    }
    changes.extend(signing.iter().flat_map(|signing| signing.after.clone()));
    changes.push(run("sudo reboot"));
    let id = match flavour {
        Flavour::Open => FixId::NvidiaDriverOpen,
        Flavour::Proprietary => FixId::NvidiaDriverProprietary,
    };
    FixPlan {
        why: format!(
            "{reason} GPU programs must stop. {}{notes}{}{}{}{}{}{}{}",
            if is_signed {
                "The distribution built and signed the modules."
            } else {
                "DKMS builds the modules against the headers of the running kernel."
            },
            origin.map_or_else(String::new, |origin| kept(origin, same)),
            license(family),
            if family == Family::Suse {
                " Users of the GPU must be in the group video (sudo usermod -a -G video USER). SUSE's signed modules are an alternative: nvidia-open-driver-G06-signed-cuda-kmp-default."
            } else {
                ""
            },
            compiler(kernel_release(root).as_deref()),
            if has_switches { fabric::why(root, family) } else { String::new() },
            signing.map_or_else(String::new, |signing| signing.why),
            if not_confirmed {
                " These package names are not confirmed for this release: check them first."
            } else {
                ""
            },
        ),
        changes,
        obstacle,
        ..empty(id, Needs::Reboot, FixRisk::High, FixPolicy::Show)
    }
}

/// A sentence about the origin of the driver. It starts with a space.
fn kept(origin: DriverOrigin, same: Option<&str>) -> String {
    match origin {
        DriverOrigin::Debian if same.is_none() => {
            " Debian's archive has no such driver. Its driver is removed before NVIDIA's is installed, because packages of both cannot be combined.".to_owned()
        }
        DriverOrigin::Installer => format!(
            " The driver came from {}, so the installer is used again: packages would overwrite its files. {}/VERSION has the file of each version.",
            origin.name(),
            INSTALLERS
        ),
        origin => format!(" The driver came from {}, and so do these packages.", origin.name()),
    }
}

/// The directories of NVIDIA's installers for data-centre drivers.
const INSTALLERS: &str = "https://us.download.nvidia.com/tesla";

/// The commands that install a driver, and whether NVIDIA's lists do not confirm the package names. `same` is the
/// installed version, if only its modules change.
fn packages(
    root: &Root,
    family: Family,
    origin: Option<DriverOrigin>,
    flavour: Flavour,
    branch: Option<u32>,
    same: Option<&str>,
) -> (Vec<Change>, bool) {
    let is_open = flavour == Flavour::Open;
    match (origin, family) {
        (Some(DriverOrigin::Installer), _) => (installer(root, family, flavour, same), false),
        (Some(DriverOrigin::RpmFusion), Family::RedHat) => (rpm_fusion(root, flavour, same), false),
        // SUSE's modules are open ones, so only their version can be too old.
        (Some(DriverOrigin::Suse), Family::Suse) if is_open => {
            const NAMES: &str = "nvidia-open-driver-G06-signed-cuda-kmp-default nvidia-compute-utils-G06";
            (vec![run(&format!("sudo zypper --non-interactive update --auto-agree-with-licenses {NAMES}"))], true)
        }
        (_, Family::Debian) => debian(root, origin, flavour, branch, same),
        (_, Family::RedHat) => red_hat(root, flavour, branch, same.is_some()),
        (_, Family::Suse) => {
            // zypper installs the newest version below the next branch.
            let name = if is_open { "nvidia-open" } else { "cuda-drivers" };
            let package = branch.map_or_else(|| name.to_owned(), |branch| format!("{name}<{}", branch + 1));
            (vec![run(&install(root, family, &package))], branch.is_some())
        }
    }
}

/// The commands that run NVIDIA's installer again, for the same version or for the branch with long support.
fn installer(root: &Root, family: Family, flavour: Flavour, same: Option<&str>) -> Vec<Change> {
    let version = same.unwrap_or(LONG_SUPPORT_RELEASE);
    let arch = if is_aarch64(root) { "aarch64" } else { "x86_64" };
    let file = format!("NVIDIA-Linux-{arch}-{version}.run");
    // The option exists since branch 515. Later installers also call it --kernel-module-type.
    let modules = if flavour == Flavour::Open { "kernel-open" } else { "kernel" };
    // The option --dkms needs DKMS and a compiler.
    let has_dkms = root.exists("/usr/sbin/dkms") || !dkms_rows(root).is_empty();
    let tools = (!has_dkms).then(|| run(&install(root, family, "dkms gcc make")));
    let commands = [format!("wget {INSTALLERS}/{version}/{file}"), format!("sudo sh ./{file} --dkms -m={modules}")];
    tools.into_iter().chain(commands.iter().map(|line| run(line))).collect()
}

/// The commands for the modules of RPM Fusion (rpmfusion.org/Howto/NVIDIA, kernel open source modules).
fn rpm_fusion(root: &Root, flavour: Flavour, same: Option<&str>) -> Vec<Change> {
    let release = kernel_release(root).unwrap_or_else(|| "\"$(uname -r)\"".to_owned());
    let is_open = u8::from(flavour == Flavour::Open);
    let macros = format!("echo %_with_kmod_nvidia_open {is_open} > /etc/rpm/macros.nvidia-kmod");
    let newer = same.is_none().then(|| run("sudo dnf upgrade -y --refresh akmod-nvidia"));
    [Change::Run { argv: ["sudo", "sh", "-c", &macros].map(str::to_owned).to_vec() }]
        .into_iter()
        .chain(newer)
        .chain([run(&format!("sudo akmods --force --rebuild --kernels {release}"))])
        .collect()
}

/// The packages of Ubuntu's archive for a branch, in the variant of the installed driver. A name that ends in a hyphen is
/// removed (apt-get(8)).
fn of_ubuntu(root: &Root, driver: UbuntuDriver, flavour: Flavour, branch: u32) -> String {
    let server = if driver.is_server { "-server" } else { "" };
    let open = if flavour == Flavour::Open { "-open" } else { "" };
    let release = kernel_release(root).filter(|_| driver.is_prebuilt);
    let others =
        release.as_deref().map(|release| modules_of_other_variants(root, &format!("{branch}{server}{open}"), release));
    let removed: String = others.into_iter().flatten().map(|package| format!(" {package}-")).collect();
    let built = release
        .map(|release| {
            let modules = format!("linux-modules-nvidia-{branch}{server}{open}-");
            let following = following_kernel(root, &release).map(|kernel| format!("{modules}{kernel} "));
            format!("{modules}{release} {}", following.unwrap_or_default())
        })
        .unwrap_or_default();
    let packages = match (driver.is_headless, driver.is_prebuilt) {
        (true, true) => {
            format!("{built}nvidia-headless-no-dkms-{branch}{server}{open} nvidia-utils-{branch}{server}")
        }
        (true, false) => format!("nvidia-headless-{branch}{server}{open} nvidia-utils-{branch}{server}"),
        (false, _) => format!("{built}nvidia-driver-{branch}{server}{open}"),
    };
    packages + &removed
}

/// The installed packages of Debian's driver. A pattern would miss those with another name, such as
/// nvidia-open-kernel-dkms.
fn of_debian(root: &Root) -> Vec<String> {
    // These belong to no driver.
    const OTHER: &[&str] =
        &["nvidia-fs", "nvidia-docker", "nvidia-container", "nvidia-gds", "nvidia-cuda", "libnvidia-container"];
    let is_driver = |name: &str| {
        (["nvidia-", "libnvidia-", "xserver-xorg-video-nvidia", "libxnvctrl", "firmware-nvidia-gsp"]
            .iter()
            .any(|start| name.starts_with(start))
            || ["libcuda1", "nvidia-smi"].contains(&name))
            && !OTHER.iter().any(|start| name.starts_with(start))
    };
    let installed: Vec<String> =
        deb_packages(root).into_iter().map(|package| package.name).filter(|name| is_driver(name)).collect();
    if installed.is_empty() { vec!["nvidia-driver*".to_owned(), "libxnvctrl*".to_owned()] } else { installed }
}

fn debian(
    root: &Root,
    origin: Option<DriverOrigin>,
    flavour: Flavour,
    branch: Option<u32>,
    same: Option<&str>,
) -> (Vec<Change>, bool) {
    let is_debian = os_release(root, "ID").as_deref() == Some("debian");
    // apt-get -y does not replace a package by an older one without this option.
    let installed = nvidia_driver(root).as_deref().and_then(branch_of).map(|(installed, _)| installed);
    let is_older = branch.is_some_and(|branch| installed.is_some_and(|installed| installed > branch));
    let option = if is_older { " --allow-downgrades" } else { "" };
    let get = |package: &str| run(&format!("sudo apt-get install -y{option} {package}"));
    let pinning = |branch: u32| get(&format!("nvidia-driver-pinning-{branch}"));
    let newest = if flavour == Flavour::Open { "nvidia-open" } else { "cuda-drivers" };
    let of_packages = || {
        let packages = deb_packages(root);
        packages.iter().find_map(|package| {
            let rest = package.name.strip_prefix("linux-modules-nvidia-")?;
            rest.split('-').next()?.parse::<u32>().ok()
        })
    };
    // Modules that Ubuntu built for another kernel keep their branch: those of DKMS are not signed for Secure Boot.
    let is_prebuilt = matches!(origin, Some(DriverOrigin::Ubuntu(driver)) if driver.is_prebuilt);
    let branch = branch.or_else(|| is_prebuilt.then(of_packages).flatten());
    // Only the archive of an Ubuntu without long-term support has packages for it.
    let is_of_archive =
        os_release(root, "ID").as_deref() == Some("ubuntu") && repository::name(root, Family::Debian).is_err();
    if is_of_archive && flavour == Flavour::Open && origin.is_none() {
        return (vec![get(&format!("nvidia-driver-{}-open", branch.unwrap_or(580)))], false);
    }
    let Some(branch) = branch else { return (vec![get(newest)], false) };
    match origin {
        Some(DriverOrigin::Ubuntu(driver)) => return (vec![get(&of_ubuntu(root, driver, flavour, branch))], false),
        // Debian's archive and NVIDIA's repository use different names for the modules.
        Some(DriverOrigin::Debian) if flavour == Flavour::Proprietary => {
            return (vec![get("nvidia-kernel-dkms")], false);
        }
        Some(DriverOrigin::Debian) if same.is_some() => return (vec![get("nvidia-open-kernel-dkms")], false),
        // NVIDIA's guide removes a driver in this way.
        Some(DriverOrigin::Debian) => {
            let removed = run(&format!("sudo apt-get remove -y --autoremove --purge {}", of_debian(root).join(" ")));
            return (vec![removed, pinning(branch), get(newest)], branch < 580);
        }
        _ => {}
    }
    if let (Some(version), Flavour::Open, true) = (same, flavour, is_debian) {
        return (vec![get(&format!("nvidia-kernel-open-dkms={version}*"))], false);
    }
    match (is_debian, flavour) {
        // Branch 580 introduced pinning packages. From 590 on, no package name contains the branch (Driver
        // Installation Guide, version locking).
        (true, _) => (vec![pinning(branch), get(newest)], branch < 580),
        (false, _) if branch >= 590 => (vec![pinning(branch), get(newest)], false),
        // Branch 560 introduced nvidia-open.
        (false, Flavour::Open) if branch < 560 => (vec![get(&format!("nvidia-driver-{branch}-open"))], false),
        (false, _) if branch >= 580 => (vec![pinning(branch), get(&format!("{newest}-{branch}"))], false),
        (false, _) => (vec![get(&format!("{newest}-{branch}"))], false),
    }
}

/// The commands that replace a precompiled driver of RHEL by the same branch from DKMS. It is empty if there is none.
pub(super) fn without_precompiled(root: &Root, family: Family) -> Vec<Change> {
    let branch = nvidia_driver(root).as_deref().and_then(branch_of).map(|(branch, _)| branch);
    match precompiled_driver(root).filter(|_| family == Family::RedHat) {
        Some(_) => {
            let mut changes = vec![run(&install(
                root,
                family,
                &distribution::headers(root, family, &kernel_release(root).unwrap_or_default()),
            ))];
            changes.extend(red_hat(root, Flavour::Open, branch, true).0);
            // A stream that is enabled already does not replace the installed modules (Driver Installation Guide,
            // switching between driver module flavors).
            changes.push(run(&format!(
                "sudo {} install -y --allowerasing kmod-nvidia-open-dkms",
                distribution::dnf(root)
            )));
            changes
        }
        None => Vec::new(),
    }
}

/// The stream of the module nvidia-driver that dnf follows: `570-dkms`, or `open-dkms` for the newest branch.
fn stream(root: &Root) -> Option<String> {
    let text = root.read_text("/etc/dnf/modules.d/nvidia-driver.module").ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    (field("state=") == Some("enabled")).then(|| field("stream=").map(str::to_owned)).flatten()
}

/// The commands for RHEL and its relatives. `keeps` is set if the installed version has the right branch.
fn red_hat(root: &Root, flavour: Flavour, branch: Option<u32>, keeps: bool) -> (Vec<Change>, bool) {
    let dnf = distribution::dnf(root);
    // The repositories of RHEL 8 and 9 and of Amazon Linux use a module stream for each kind of modules. Later
    // repositories have a package for each kind.
    let is_amazon = os_release(root, "ID").as_deref() == Some("amzn");
    let has_streams = is_amazon || distribution::rhel(root).is_some_and(|major| major < 10);
    let name = if flavour == Flavour::Open { "nvidia-open" } else { "cuda-drivers" };
    let Some(branch) = branch else {
        let mut changes = Vec::new();
        if has_streams {
            changes.push(run("sudo dnf module reset -y nvidia-driver"));
            changes.push(run("sudo dnf module enable -y nvidia-driver:open-dkms"));
        }
        changes.push(run(&format!("sudo {dnf} install -y {name}")));
        return (changes, false);
    };
    if has_streams {
        // A machine that follows the newest branch keeps following it.
        let follows = stream(root).is_some_and(|stream| stream == "open-dkms");
        if follows && flavour == Flavour::Open && !keeps {
            return (vec![run("sudo dnf upgrade -y --refresh *nvidia*")], false);
        }
        let stream = if flavour == Flavour::Open { format!("{branch}-open") } else { format!("{branch}-dkms") };
        return (
            vec![
                run("sudo dnf module reset -y nvidia-driver"),
                run(&format!("sudo dnf module install -y --allowerasing nvidia-driver:{stream}")),
            ],
            false,
        );
    }
    let packages = match flavour {
        Flavour::Open => "nvidia-open",
        // The version lock applies only to packages with nvidia in their name.
        Flavour::Proprietary => "kmod-nvidia-latest-dkms nvidia-driver nvidia-driver-cuda",
    };
    if distribution::rhel(root).is_some() {
        return (
            vec![
                run("sudo dnf install -y python3-dnf-plugin-versionlock"),
                run(&format!("sudo dnf versionlock *nvidia*{branch}*")),
                run(&format!("sudo dnf install -y --allowerasing {packages}")),
            ],
            false,
        );
    }
    let pinned: Vec<String> = packages.split(' ').map(|package| format!("{package}-{branch}.*")).collect();
    (vec![run(&format!("sudo {dnf} install -y --allowerasing {}", pinned.join(" ")))], true)
}
