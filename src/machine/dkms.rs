//! The kernel modules that DKMS builds.

use super::plain_name::is_plain_name;
use super::root::Root;

/// One line of `dkms status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DkmsRow {
    /// Name of the module, for example `nvidia-fs`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The kernel release for which it was built; `None` if it was only added.
    pub kernel: Option<String>,
    /// `added`, `built` or `installed`, with the notes that DKMS adds.
    pub state: String,
}

impl DkmsRow {
    /// Whether the module is the NVIDIA driver. Debian names it nvidia-current, RHEL nvidia-open, Ubuntu nvidia-srv.
    #[must_use]
    pub fn is_driver(&self) -> bool {
        let rest = self.name.strip_prefix("nvidia");
        rest.is_some_and(|rest| {
            rest.is_empty()
                || ["-open", "-current", "-srv", "-tesla", "-legacy"].iter().any(|name| rest.starts_with(name))
        })
    }

    /// Whether the module is installed for a kernel.
    #[must_use]
    pub fn is_installed_for(&self, release: &str) -> bool {
        self.kernel.as_deref() == Some(release) && self.state.starts_with("installed")
    }
}

/// A module of DOCA or MLNX_OFED that DKMS has for other kernels only, after the module that is built first: all of them
/// are built with the symbols of mlnx-ofed-kernel. Empty if the module is unknown to DKMS, or built for this kernel.
#[must_use]
pub fn ofed_module_to_build(root: &Root, module: &str, release: &str) -> Vec<(String, String)> {
    let rows = dkms_rows(root);
    let lacking = |name: &str| {
        let mut own = rows.iter().filter(|row| row.name == name).peekable();
        let first = own.peek().map(|row| (row.name.clone(), row.version.clone()));
        if own.any(|row| row.is_installed_for(release)) { None } else { first }
    };
    match lacking(module) {
        Some(module) => lacking("mlnx-ofed-kernel").into_iter().chain([module]).collect(),
        None => Vec::new(),
    }
}

/// The command that builds a module again for a kernel and installs it. `dkms install --force` alone copies an earlier
/// build (dkms 3.0.10: `do_install` builds only what is not built).
#[must_use]
pub fn build_again(name: &str, version: &str, kernel: &str) -> String {
    let of = |verb: &str| format!("sudo dkms {verb} --force {name}/{version} -k {kernel}");
    format!("{} && {}", of("build"), of("install"))
}

/// All modules of DKMS. The command takes about 0.1 s, so it runs only if the directory of DKMS exists.
#[must_use]
pub fn dkms_rows(root: &Root) -> Vec<DkmsRow> {
    if root.is_live() && !root.exists("/var/lib/dkms") {
        return Vec::new();
    }
    let Some(output) = root.command(&["dkms", "status"]).filter(|output| output.exit_code == Some(0)) else {
        return Vec::new();
    };
    output.stdout.lines().filter_map(row).collect()
}

/// The path and the text of the log of the last build of a module for a kernel. A failed build leaves it in `build`.
#[must_use]
pub fn build_log(root: &Root, name: &str, version: &str, release: &str) -> Option<(String, String)> {
    let folder = format!("/var/lib/dkms/{name}/{version}");
    let arch = if super::release::is_aarch64(root) { "aarch64" } else { "x86_64" };
    [format!("{folder}/build/make.log"), format!("{folder}/{release}/{arch}/log/make.log")].into_iter().find_map(
        |path| {
            let text = root.read_text(&path).ok()?;
            // The log of a build for another kernel explains nothing.
            let other =
                text.lines().take(4).find_map(|line| line.split_once(" for kernel ")?.1.split_whitespace().next());
            other.is_none_or(|kernel| kernel == release).then_some((path, text))
        },
    )
}

/// Parses `nvidia-fs/2.25.7, 6.8.0-60-generic, x86_64: installed`, or the format of DKMS 2: `nvidia-fs, 2.25.7, …`.
fn row(line: &str) -> Option<DkmsRow> {
    let (left, state) = line.split_once(": ")?;
    let mut parts = left.split(',').map(str::trim);
    let first = parts.next()?;
    let (name, version) = match first.split_once('/') {
        Some((name, version)) => (name, version),
        None => (first, parts.next()?),
    };
    let kernel = parts.next().map(str::to_owned);
    // These words become parts of commands.
    let is_plain = [name, version].into_iter().chain(kernel.as_deref()).all(is_plain_name);
    is_plain.then(|| DkmsRow {
        name: name.to_owned(),
        version: version.to_owned(),
        kernel,
        state: state.trim().to_owned(),
    })
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
            let row = row(line).unwrap();
            assert_eq!(
                (row.name.as_str(), row.version.as_str(), row.kernel.as_deref()),
                ("nvidia-fs", "2.25.7", Some("6.8.0-60-generic"))
            );
            assert_eq!(row.state, "installed");
        }
        let added = row("nvidia-fs/2.26.6: added").unwrap();
        assert_eq!((added.kernel, added.state.as_str()), (None, "added"));
        assert!(row("Error! Could not find anything").is_none());
        for line in ["nvidia-fs/2.25.7, 6.8$(x), x86_64: installed", "nvidia-fs/2`x`: added", "nvidia fs/2.25.7: added"]
        {
            assert!(row(line).is_none(), "{line}");
        }
    }
}
