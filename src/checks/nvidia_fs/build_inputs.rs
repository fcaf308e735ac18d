//! Checks what a build of nvidia-fs needs: kernel headers, the driver source and its symbol versions.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::refusal::{Refusal, refusal};
use crate::core::{CheckId, FindingFact, FixId, Route};
use crate::machine;

const NVFS: &[Route] = &[Route::Nvfs];

/// The first nvidia-fs whose build reads the symbol versions of a driver in `.ko.zst` (gds-nvidia-fs, commit f1a0a63).
const READS_ZST: [u32; 2] = [2, 29];

/// The file of the driver's module, if it is compressed with zstd. An nvidia-fs before 2.29 can be built next to it,
/// but the kernel does not load it (gds-nvidia-fs#72).
pub(crate) fn zst_driver(ctx: &Context<'_>) -> Option<String> {
    let output = ctx.root.command(&["modinfo", "nvidia"])?;
    let file = output.stdout.lines().find_map(|line| line.strip_prefix("filename:"))?.trim();
    file.ends_with(".ko.zst").then(|| file.to_owned())
}

/// The headers of the running kernel, and the source and symbol versions of the loaded driver.
pub(crate) fn build_inputs(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsBuildInputs;
    if !machine::nvidia_fs_known(ctx.root) {
        return None;
    }
    let root = ctx.root;
    let release = machine::kernel_release(root)?;
    let loaded = machine::nvidia_fs_loaded(ctx.root) == Some(true);
    let refusal = refusal(ctx).map(|(kind, _)| kind);
    let tree = format!("/lib/modules/{release}");
    let modules = root.entries(&tree);
    let no_headers = modules.as_ref().is_ok_and(|names| !names.is_empty() && !names.iter().any(|name| name == "build"))
        && root.entries("/usr/src").is_ok();
    // On RHEL the link belongs to the kernel package and its target to kernel-devel.
    let dangling = root.link(format!("{tree}/build")).filter(|target| {
        let inside = |folder: &std::path::Path, name: &std::ffi::OsStr| {
            root.entries(folder).is_ok_and(|names| !names.iter().any(|n| name == n.as_str()))
        };
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else { return false };
        inside(parent, name) || parent.parent().zip(parent.file_name()).is_some_and(|(above, name)| inside(above, name))
    });
    let built_here = machine::nvidia_fs_builds(ctx.root)
        .iter()
        .any(|row| row.kernel.as_deref() == Some(release.as_str()) && row.state.starts_with("installed"));
    let installed = machine::nvidia_fs_installed(ctx.root);
    let version = installed
        .or_else(|| machine::nvidia_fs_builds(ctx.root).first().map(|row| row.version.clone()))
        .unwrap_or_default();
    let zst = zst_driver(ctx).filter(|_| machine::version_numbers(&version) < READS_ZST.to_vec());
    let sources: Vec<String> = root
        .entries("/usr/src")
        .unwrap_or_default()
        .into_iter()
        .filter(|name| {
            name.strip_prefix("nvidia-").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
                || name.strip_prefix("nvidia-srv-").is_some()
        })
        .collect();
    let build = format!("sudo dkms install nvidia-fs/{version} -k {release}");
    let mixed = matches!(refusal, Some(Refusal::NoVersions | Refusal::OtherDriver));
    let judged = if loaded {
        return None;
    } else if (no_headers || dangling.is_some()) && !built_here {
        let said = dangling.map_or_else(
            || "no entry 'build'".to_owned(),
            |to| format!("build points to {}, which does not exist", to.display()),
        );
        Judged::lack(ID, format!("the headers of kernel {release} are not installed"))
            .found(&tree, said)
            .missing(Cost::Root, NVFS)
            .advice(match machine::packages::install_headers(root, &release, false) {
                Some(install) => Advice::run(install).text(", then ").command(build),
                None => Advice::from(format!("Install the headers of {release}, then run ")).command(build),
            })
    } else if let (Some(file), true) = (zst, refusal == Some(Refusal::NoVersions)) {
        const AGAIN: &str = ". Building this version again has no effect.";
        let replace = of_ubuntu(ctx, &file, &version);
        let judged = Judged::lack(ID, format!("nvidia-fs {version} cannot read the symbol versions of a .ko.zst"))
            .found("modinfo nvidia", file)
            .fact(FindingFact::ZstdModules)
            .missing(Cost::Root, NVFS);
        match replace {
            // DKMS has no source of the driver, so it cannot build a later version either.
            Some(command) => judged.by_hand().advice(
                Advice::from("Replace it by the module that Ubuntu built for this driver: ")
                    .command(command)
                    .text(AGAIN),
            ),
            None => judged.fix(FixId::NvfsInstall).advice(Advice::from("Install nvidia-fs 2.29 or later").text(AGAIN)),
        }
    } else if sources.len() > 1 && mixed {
        Judged::lack(ID, format!("nvidia-fs was built with an outdated driver source; {} are installed", sources.len()))
            .found("/usr/src", sources.join(" "))
            .fact(FindingFact::OtherDriverSource)
            .missing(Cost::Root, NVFS)
            .advice(with_source(ctx, &sources, &version, &release))
    } else {
        return None;
    };
    Some(judged)
}

/// How to build nvidia-fs with the source of the loaded driver. Its Makefile uses the first source that it finds.
fn with_source(ctx: &Context<'_>, sources: &[String], version: &str, release: &str) -> Advice {
    let driver = machine::Driver::of(ctx.root).version.unwrap_or_default();
    let is_loaded = |name: &&String| !driver.is_empty() && name.ends_with(&format!("-{driver}"));
    let again = machine::build_again("nvidia-fs", version, release);
    match sources.iter().find(is_loaded) {
        Some(name) => {
            let again = again.replace("sudo dkms", &format!("sudo NVIDIA_SRC_DIR=/usr/src/{name}/nvidia dkms"));
            Advice::run(format!("{again} && sudo modprobe nvidia-fs"))
        }
        None => Advice::from("Remove the sources of drivers that are not loaded, then run ")
            .command(format!("{again} && sudo modprobe nvidia-fs")),
    }
}

/// The command that replaces nvidia-fs by the module that Ubuntu built next to the loaded driver. `None` if DKMS built the
/// driver: Ubuntu's module does not load next to it. modprobe prefers a module that DKMS left in `updates` (depmod.d(5)).
fn of_ubuntu(ctx: &Context<'_>, driver: &str, version: &str) -> Option<String> {
    let package = machine::nvidia_fs_of_ubuntu(ctx.root).filter(|_| driver.contains("/kernel/nvidia-"))?;
    Some(format!(
        "sudo apt-get update && sudo apt-get install {package} && sudo dkms remove nvidia-fs/{version} --all && sudo modprobe nvidia-fs"
    ))
}
