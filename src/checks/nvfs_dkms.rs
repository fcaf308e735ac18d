//! What DKMS knows of nvidia-fs, and what a build of it takes: headers, the driver's source and its symbol versions.

use super::context::{Context, version_numbers};
use super::gpu::nvfs_version;
use super::judged::{Cost, Judged};
use super::kernel_log::{self, Refusal};
use super::nvidia_fs::is_loaded;
use crate::domain::{Group::NvidiaFs, Route};
use crate::host;

const NVFS: &[Route] = &[Route::Nvfs];

/// A line of `dkms status`.
pub(super) struct DkmsRow {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) kernel: Option<String>,
    pub(super) state: String,
}

/// What DKMS says, of all modules. The command is asked only where there is something to ask about: it takes a tenth of a second.
pub(super) fn dkms_rows(ctx: &Context<'_>) -> Vec<DkmsRow> {
    if ctx.root.is_live() && !ctx.root.exists("/var/lib/dkms") {
        return Vec::new();
    }
    let Some(output) = ctx.root.command(&["dkms", "status"]).filter(|o| o.exit_code == Some(0)) else {
        return Vec::new();
    };
    output.stdout.lines().filter_map(dkms_row).collect()
}

/// `nvidia-fs/2.25.7, 6.8.0-60-generic, x86_64: installed`, or in DKMS 2 `nvidia-fs, 2.25.7, …`.
fn dkms_row(line: &str) -> Option<DkmsRow> {
    let (left, state) = line.split_once(": ")?;
    let mut parts = left.split(',').map(str::trim);
    let first = parts.next()?;
    let (name, version) = match first.split_once('/') {
        Some((name, version)) => (name, version),
        None => (first, parts.next()?),
    };
    let kernel = parts.next().map(str::to_owned);
    Some(DkmsRow { name: name.to_owned(), version: version.to_owned(), kernel, state: state.trim().to_owned() })
}

fn nvfs_rows(ctx: &Context<'_>) -> Vec<DkmsRow> {
    dkms_rows(ctx).into_iter().filter(|row| row.name == "nvidia-fs" || row.name == "nvidia_fs").collect()
}

/// Whether nvidia-fs is installed for this kernel, or at least known to DKMS.
pub(super) fn is_anywhere(ctx: &Context<'_>) -> bool {
    nvfs_version(ctx).is_some() || !nvfs_rows(ctx).is_empty()
}

pub(super) fn dkms(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "nvfs-dkms";
    const WHY: &str = "DKMS builds nvidia-fs anew for each kernel; after a kernel update the build for it may be missing. It reports success even \
                       where nvidia_p2p symbols stayed unresolved.";
    let rows = nvfs_rows(ctx);
    let release = host::kernel_release(ctx.root)?;
    let first = rows.first()?;
    let here: Vec<&DkmsRow> = rows.iter().filter(|row| row.kernel.as_deref() == Some(release.as_str())).collect();
    let installed = here.iter().find(|row| row.state.starts_with("installed"));
    let others: Vec<&str> = rows.iter().filter_map(|row| row.kernel.as_deref()).collect();
    let loaded = is_loaded(ctx) == Some(true);
    let again = |version: &str| {
        format!(
            "sudo dkms install nvidia-fs/{version} -k {release}, with the headers of this kernel installed; then sudo modprobe nvidia-fs."
        )
    };
    // A module that came ready-made, or that a weak update serves this kernel with, needs no build of DKMS.
    let elsewhere = || ctx.root.command(&["modinfo", "nvidia_fs"]).is_some_and(|output| output.exit_code == Some(0));
    let unused = loaded || (here.is_empty() && elsewhere());
    let needed = ctx
        .kernel()
        .and_then(oldest_for)
        .filter(|(oldest, _)| version_numbers(&first.version) < oldest.to_vec() && !unused);
    let lacking = |summary: String, version: &str| {
        if unused {
            Judged::info(ID, NvidiaFs, summary)
        } else if let Some((oldest, kernel)) = needed {
            let oldest = oldest.map(|n| n.to_string()).join(".");
            Judged::lack(ID, NvidiaFs, format!("{summary}; it does not build on Linux {kernel} and later"))
                .missing(Cost::Install, NVFS)
                .fix("nvfs-install")
                .advice(format!("Install nvidia-fs {oldest} or later, the first that builds on this kernel."))
        } else {
            Judged::lack(ID, NvidiaFs, summary).missing(Cost::Root, NVFS).advice(again(version))
        }
    };
    let mut judged = match (installed, here.first()) {
        (Some(row), _) if row.state.contains("WARNING") => lacking(
            format!("nvidia-fs {} was installed by DKMS, but another file lies in its place", row.version),
            &row.version,
        ),
        (Some(row), _) => Judged::pass(ID, NvidiaFs, format!("nvidia-fs {} is built for this kernel", row.version)),
        (None, Some(row)) => {
            lacking(format!("nvidia-fs {} is {} for this kernel, not installed", row.version, row.state), &row.version)
        }
        (None, None) if others.is_empty() => {
            lacking(format!("nvidia-fs {} is known to DKMS, but was never built", first.version), &first.version)
        }
        (None, None) => lacking(
            format!("nvidia-fs {} is built for {}, but {release} is running", first.version, others.join(", ")),
            &first.version,
        ),
    };
    for row in &rows {
        let kernel = row.kernel.as_deref().map_or(String::new(), |kernel| format!(", {kernel}"));
        judged = judged.found("dkms status", format!("nvidia-fs/{}{kernel}: {}", row.version, row.state));
    }
    if judged.stops(Route::Nvfs) {
        let log = format!("/var/lib/dkms/nvidia-fs/{}/build/make.log", first.version);
        if let Ok(text) = ctx.root.read_text(&log)
            && let Some(line) = text.lines().rev().find(|l| l.contains("error:") || l.contains("ERROR:"))
        {
            judged = judged.found(log, line.trim());
        }
        if build_inputs(ctx).is_some_and(|inputs| inputs.stops(Route::Nvfs)) {
            judged = judged.cause("nvfs-build-inputs");
        } else if !super::gpu::Driver::of(ctx).is_loaded() {
            // Built against a driver that is not there either.
            judged = judged.cause("gpu-present");
        }
    }
    Some(judged.why(WHY))
}

/// The oldest nvidia-fs that builds on a kernel, and the kernel from which on that holds (its ChangeLog, gds-nvidia-fs#35 and #53).
fn oldest_for(kernel: (u32, u32)) -> Option<([u32; 3], &'static str)> {
    [
        ((6, 17), [2, 28, 2], "6.17"),
        ((6, 11), [2, 26, 6], "6.11"),
        ((6, 5), [2, 19, 6], "6.5"),
        ((6, 2), [2, 18, 3], "6.2"),
        ((6, 0), [2, 17, 0], "6.0"),
    ]
    .into_iter()
    .find(|(from, ..)| kernel >= *from)
    .map(|(_, oldest, text)| (oldest, text))
}

/// What a build of nvidia-fs takes: headers of the kernel, source and symbol versions of the loaded driver.
pub(super) fn build_inputs(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "nvfs-build-inputs";
    const WHY: &str = "nvidia-fs is compiled against the headers of the kernel and the source of the NVIDIA driver; the script of 2.28 and older reads \
                       the symbol versions of .ko and .ko.xz only, and takes the first driver source that it finds.";
    if !is_anywhere(ctx) {
        return None;
    }
    let root = ctx.root;
    let release = host::kernel_release(root)?;
    let loaded = is_loaded(ctx) == Some(true);
    let refusal = kernel_log::refusal(ctx).map(|(kind, _)| kind);
    let tree = format!("/lib/modules/{release}");
    let modules = root.entries(&tree);
    let no_headers = modules.as_ref().is_ok_and(|names| !names.is_empty() && !names.iter().any(|name| name == "build"))
        && root.entries("/usr/src").is_ok();
    // On RHEL the kernel brings the link, and kernel-devel what it points to.
    let dangling = root.link(format!("{tree}/build")).filter(|target| {
        let inside = |folder: &std::path::Path, name: &std::ffi::OsStr| {
            root.entries(folder).is_ok_and(|names| !names.iter().any(|n| name == n.as_str()))
        };
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else { return false };
        inside(parent, name) || parent.parent().zip(parent.file_name()).is_some_and(|(above, name)| inside(above, name))
    });
    let built_here = nvfs_rows(ctx)
        .iter()
        .any(|row| row.kernel.as_deref() == Some(release.as_str()) && row.state.starts_with("installed"));
    let installed = nvfs_version(ctx);
    let file = root
        .command(&["modinfo", "nvidia"])
        .and_then(|o| Some(o.stdout.lines().find_map(|l| l.strip_prefix("filename:"))?.trim().to_owned()));
    let version = installed.or_else(|| nvfs_rows(ctx).first().map(|row| row.version.clone())).unwrap_or_default();
    let zst = file.as_deref().filter(|f| f.ends_with(".ko.zst") && version_numbers(&version) < vec![2, 29]);
    let sources: Vec<String> = root
        .entries("/usr/src")
        .unwrap_or_default()
        .into_iter()
        .filter(|name| {
            name.strip_prefix("nvidia-").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
                || name.strip_prefix("nvidia-srv-").is_some()
        })
        .collect();
    let mixed = matches!(refusal, Some(Refusal::NoVersions | Refusal::OtherDriver));
    let judged = if loaded {
        return None;
    } else if (no_headers || dangling.is_some()) && !built_here {
        let said = dangling.map_or_else(
            || "no entry 'build'".to_owned(),
            |to| format!("build points to {}, which is not there", to.display()),
        );
        Judged::lack(ID, NvidiaFs, format!("the headers of kernel {release} are not installed"))
            .found(&tree, said)
            .missing(Cost::Root, NVFS)
            .advice(format!(
                "Install linux-headers-{release} (kernel-devel-{release} on RHEL and SUSE), then sudo dkms install nvidia-fs/{version} -k {release}."
            ))
    } else if let (Some(file), true) = (zst, refusal == Some(Refusal::NoVersions)) {
        Judged::lack(ID, NvidiaFs, format!("nvidia-fs {version} cannot read the symbol versions of a .ko.zst"))
            .found("modinfo nvidia", file)
            .missing(Cost::Root, NVFS)
            .advice(
                "Build nvidia-fs 2.29 or later, or by hand with KBUILD_EXTRA_SYMBOLS at the driver's Module.symvers.",
            )
    } else if sources.len() > 1 && mixed {
        Judged::lack(ID, NvidiaFs, format!("{} driver sources are here, and a stale one was taken", sources.len()))
            .found("/usr/src", sources.join(" "))
            .missing(Cost::Root, NVFS)
            .advice("Remove the sources of drivers that are not loaded, then dkms remove and dkms install nvidia-fs.")
    } else {
        return None;
    };
    Some(judged.why(WHY))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_dkms_status_are_read() {
        for line in [
            "nvidia-fs/2.25.7, 6.8.0-60-generic, x86_64: installed",
            "nvidia-fs, 2.25.7, 6.8.0-60-generic, x86_64: installed",
        ] {
            let row = dkms_row(line).unwrap();
            assert_eq!(
                (row.name.as_str(), row.version.as_str(), row.kernel.as_deref()),
                ("nvidia-fs", "2.25.7", Some("6.8.0-60-generic"))
            );
            assert_eq!(row.state, "installed");
        }
        let added = dkms_row("nvidia-fs/2.26.6: added").unwrap();
        assert_eq!((added.kernel, added.state.as_str()), (None, "added"));
        assert!(dkms_row("Error! Could not find anything").is_none());
    }
}
