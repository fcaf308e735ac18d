//! The settings with which libcufile runs in a process: its cufile.json, and whether P2PDMA may be enabled.

use crate::core::WatchedConfiguration;
use crate::trust;
use cufile_audit::layout::{CONFIGURATION, P2PDMA};
use procfs::process::Process;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The path that libcufile uses if the environment names none.
const DEFAULT: &str = "/etc/cufile.json";
/// Maximum length of a cufile.json that is searched.
const MOST_BYTES: u64 = 16 << 20;

/// The settings of a process.
#[derive(Debug)]
pub(super) struct Settings {
    configuration: WatchedConfiguration,
    /// Whether P2PDMA may be enabled.
    pub(super) may_use_p2pdma: bool,
}

impl Settings {
    /// The settings of a process whose environment names this cufile.json.
    pub(super) fn new(process: u32, named: Option<&OsStr>, has_p2pdma: bool) -> Self {
        let path = Path::new(named.unwrap_or(OsStr::new(DEFAULT)));
        let folder = || std::fs::read_link(format!("/proc/{process}/cwd"));
        // The folder of a process that has ended is unknown.
        let path = if path.is_absolute() { path.to_owned() } else { folder().unwrap_or_default().join(path) };
        let inside = inside(process, &path);
        let exists = inside.is_file();
        Self {
            may_use_p2pdma: has_p2pdma || (exists && may_enable_p2pdma(&inside)),
            configuration: WatchedConfiguration {
                path: path.to_string_lossy().into_owned(),
                exists,
                from_environment: named.is_some(),
            },
        }
    }

    /// The settings in the environment that a running process had at its start. `None` if it cannot be read.
    pub(super) fn of(process: &Process) -> Option<Self> {
        // A process that has ended has no variables.
        let environment = trust::process::variables(&trust::process::folder(process.pid))?;
        let named = environment.get(OsStr::new(CONFIGURATION)).filter(|path| !path.is_empty());
        let has_p2pdma = environment.contains_key(OsStr::new(P2PDMA));
        Some(Self::new(process.pid.unsigned_abs(), named.map(|path| path.as_os_str()), has_p2pdma))
    }
}

/// The settings of all processes.
#[derive(Debug, Default)]
pub(super) struct AllSettings {
    configurations: BTreeMap<String, WatchedConfiguration>,
    /// Whether P2PDMA may be enabled in a process.
    pub(super) may_use_p2pdma: bool,
}

impl AllSettings {
    pub(super) fn add(&mut self, settings: Settings) {
        self.may_use_p2pdma |= settings.may_use_p2pdma;
        self.configurations.insert(settings.configuration.path.clone(), settings.configuration);
    }

    pub(super) fn len(&self) -> usize {
        self.configurations.len()
    }

    pub(super) fn configurations(&self) -> Vec<WatchedConfiguration> {
        self.configurations.values().cloned().collect()
    }
}

/// The path of a file of a process, which may be in a container. If the process has ended, its path is used.
pub(super) fn inside(process: u32, path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{process}/root"));
    if root.is_dir() { root.join(path.strip_prefix("/").unwrap_or(path)) } else { path.to_owned() }
}

/// Whether a cufile.json may enable P2PDMA. The text search may return true by mistake, but not false. Root does not read
/// a file that another user could have written.
fn may_enable_p2pdma(file: &Path) -> bool {
    if trust::is_of_others(file) {
        return true;
    }
    let Ok(text) = trust::read_regular(file, MOST_BYTES) else { return true };
    String::from_utf8_lossy(&text).lines().any(|line| {
        let line = line.split("//").next().unwrap_or("");
        line.contains("use_pci_p2pdma") && line.contains("true")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_the_environment_names_is_searched() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let of = |text: &str, has_p2pdma| {
            let path = dir.path().join("cufile.json");
            std::fs::write(&path, text).unwrap();
            Settings::new(own, Some(path.as_os_str()), has_p2pdma)
        };
        assert!(of("{\"properties\": {\"use_pci_p2pdma\": true}}", false).may_use_p2pdma);
        assert!(!of("// \"use_pci_p2pdma\": true\n{}", false).may_use_p2pdma);
        let named = of("{}", true);
        assert!(named.may_use_p2pdma && named.configuration.exists && named.configuration.from_environment);
        let relative = Settings::new(own, Some(OsStr::new("no/such.json")), false);
        let folder = std::env::current_dir().unwrap();
        assert_eq!(relative.configuration.path, folder.join("no/such.json").to_string_lossy());
        assert!(!relative.configuration.exists && !relative.may_use_p2pdma);
        let mut all = AllSettings::default();
        all.add(named);
        all.add(relative);
        assert!(all.may_use_p2pdma && all.configurations().len() == 2);
    }
}
