//! The settings with which libcufile runs in a process: its cufile.json, and whether P2PDMA may be enabled.

use crate::core::{RouteProof, WatchedConfiguration};
use crate::trust::{self, Allowance};
use cufile_audit::layout::{CONFIGURATION, Function, P2PDMA, Record};
use cufile_ffi::values::PARAM_USE_PCIP2PDMA;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The path that libcufile uses if the environment names none.
const DEFAULT: &str = "/etc/cufile.json";
/// Maximum length of a cufile.json that is searched.
const MOST_BYTES: u64 = 16 << 20;
/// The length from which on a path names no file (PATH_MAX in include/uapi/linux/limits.h). An environment can have a
/// longer one.
const PATH_BYTES: usize = 4096;
/// Maximum number of different cufile.json that are listed.
const MOST_CONFIGURATIONS: usize = 256;

/// The settings of a process.
#[derive(Debug)]
pub(super) struct Settings {
    configuration: WatchedConfiguration,
    /// Whether P2PDMA may be enabled.
    pub(super) may_use_p2pdma: bool,
}

impl Settings {
    /// The settings of a process whose environment names this cufile.json. The file system of the path may not answer, so
    /// this is called in the thread of an examiner.
    pub(super) fn new(process: u32, named: Option<&OsStr>, has_p2pdma: bool) -> Self {
        let folder = trust::process::folder(process.cast_signed());
        let path = shortened(named);
        let path = match path.is_absolute() {
            true => path.to_owned(),
            // The directory of a process that has ended is unknown, and a file in that of this program is another one.
            false => match folder.join("cwd").read_link() {
                Ok(inside) => inside.join(path),
                Err(_) => return Self::unknown(named),
            },
        };
        let is_path = named.is_none_or(|named| named.len() < PATH_BYTES);
        let look = || {
            let inside = trust::process::path_of(&folder, &path)?;
            let exists = is_path && inside.is_file();
            Some((exists, exists && may_enable_p2pdma(&inside)))
        };
        let mut seen = look();
        // If the process ended in the meantime, the path through its directory named no file.
        if folder.join("root").read_link().is_err() {
            seen = look();
        }
        let Some((exists, may_enable_p2pdma)) = seen else {
            return Self::unknown(Some(path.as_os_str()).filter(|_| named.is_some()));
        };
        Self {
            may_use_p2pdma: has_p2pdma || may_enable_p2pdma,
            configuration: WatchedConfiguration {
                path: path.to_string_lossy().into_owned(),
                exists,
                from_environment: named.is_some(),
                not_examined: false,
            },
        }
    }

    /// The settings of a process whose cufile.json was not examined. It may enable P2PDMA.
    pub(super) fn unknown(named: Option<&OsStr>) -> Self {
        let configuration = WatchedConfiguration {
            path: shortened(named).to_string_lossy().into_owned(),
            exists: false,
            from_environment: named.is_some(),
            not_examined: true,
        };
        Self { configuration, may_use_p2pdma: true }
    }

    /// The settings in the environment that a running process had at its start. `None` if it cannot be read.
    pub(super) fn of(process: u32, allowed: &mut Allowance) -> Option<Self> {
        // A process that has ended has no variables.
        let environment = trust::process::variables(
            &trust::process::folder(process.cast_signed()),
            &[CONFIGURATION, P2PDMA],
            allowed,
        )?;
        let named = environment.get(OsStr::new(CONFIGURATION)).filter(|path| !path.is_empty());
        let has_p2pdma = environment.contains_key(OsStr::new(P2PDMA));
        Some(Self::new(process, named.map(|path| path.as_os_str()), has_p2pdma))
    }
}

/// The beginning of the path of a cufile.json.
fn shortened(named: Option<&OsStr>) -> &Path {
    let bytes = named.map_or(DEFAULT.as_bytes(), OsStrExt::as_bytes);
    Path::new(OsStr::from_bytes(bytes.get(..PATH_BYTES).unwrap_or(bytes)))
}

/// The settings of all processes.
#[derive(Debug, Default)]
pub(super) struct AllSettings {
    configurations: BTreeMap<String, WatchedConfiguration>,
    /// Whether a cufile.json or the environment may enable P2PDMA in a process.
    may_use_p2pdma: bool,
    /// The call that enabled P2PDMA.
    enabled_by: Option<RouteProof>,
}

impl AllSettings {
    pub(super) fn add(&mut self, settings: Settings) {
        self.may_use_p2pdma |= settings.may_use_p2pdma;
        let new = settings.configuration;
        if let Some(known) = self.configurations.get_mut(&new.path) {
            known.exists |= new.exists;
            known.from_environment |= new.from_environment;
            known.not_examined |= new.not_examined;
        } else if !self.is_full() {
            self.configurations.insert(new.path.clone(), new);
        }
    }

    /// Processes a call that changed settings.
    pub(super) fn change(&mut self, function: Function, record: &Record) {
        let value = record.extra[0];
        let enabled_by = match function {
            // The value is a bool, which is only the lowest byte of the register.
            Function::SetParameterBool if record.object as u32 == PARAM_USE_PCIP2PDMA && value as u8 != 0 => {
                Some(RouteProof::ParameterEnablesP2pdma)
            }
            Function::DriverSetP2pFlags if value as u32 != 0 => Some(RouteProof::FlagsEnableP2pdma),
            _ => None,
        };
        self.enabled_by = self.enabled_by.or(enabled_by);
    }

    /// The reason why P2PDMA may be enabled in a process. `None` if it is not.
    pub(super) fn p2pdma(&self) -> Option<RouteProof> {
        self.enabled_by.or(self.may_use_p2pdma.then_some(RouteProof::SettingsMayEnableP2pdma))
    }

    /// Whether no further cufile.json is listed.
    pub(super) fn is_full(&self) -> bool {
        self.configurations.len() >= MOST_CONFIGURATIONS
    }

    pub(super) fn configurations(&self) -> Vec<WatchedConfiguration> {
        self.configurations.values().cloned().collect()
    }
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
        // No process has this number. A file with this name is in the directory of this program.
        let ended = Settings::new(4_194_305, Some(OsStr::new("Cargo.toml")), false);
        assert!(ended.configuration.not_examined && !ended.configuration.exists && ended.may_use_p2pdma);
        let mut all = AllSettings::default();
        all.add(named);
        all.add(relative);
        assert!(all.may_use_p2pdma && all.configurations().len() == 2);
    }

    #[test]
    fn a_process_that_ends_while_it_is_examined_has_the_settings_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cufile.json");
        std::fs::write(&path, "{}").unwrap();
        for _ in 0..100 {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            let process = child.id();
            let reaper = std::thread::spawn(move || child.wait());
            while !reaper.is_finished() {
                let seen = Settings::new(process, Some(path.as_os_str()), false);
                assert!(seen.configuration.exists && !seen.may_use_p2pdma, "{seen:?}");
            }
            reaper.join().unwrap().unwrap();
        }
    }

    #[test]
    fn a_process_whose_file_was_not_examined_is_not_hidden_by_another_one_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cufile.json");
        std::fs::write(&path, "{}").unwrap();
        let examined = || Settings::new(std::process::id(), Some(path.as_os_str()), false);
        let unknown = || Settings::unknown(Some(path.as_os_str()));
        for both in [[examined(), unknown()], [unknown(), examined()]] {
            let mut all = AllSettings::default();
            both.into_iter().for_each(|settings| all.add(settings));
            let seen = all.configurations();
            assert_eq!(seen.iter().map(|one| (one.exists, one.not_examined)).collect::<Vec<_>>(), [(true, true)]);
        }
    }

    #[test]
    fn the_number_and_the_length_of_paths_are_limited() {
        let own = std::process::id();
        let mut all = AllSettings::default();
        for number in 0..2 * MOST_CONFIGURATIONS {
            all.add(Settings::new(own, Some(OsStr::new(&format!("/no/such/{number}.json"))), false));
        }
        assert_eq!((all.configurations().len(), all.may_use_p2pdma), (MOST_CONFIGURATIONS, false));
        all.add(Settings::unknown(Some(OsStr::new("/no/such/other.json"))));
        assert_eq!((all.configurations().len(), all.may_use_p2pdma), (MOST_CONFIGURATIONS, true));
        let long = "/x".repeat(PATH_BYTES);
        let seen = Settings::new(own, Some(OsStr::new(&long)), false);
        assert_eq!((seen.configuration.path.len(), seen.configuration.exists), (PATH_BYTES, false));
        assert!(!seen.may_use_p2pdma && seen.configuration.from_environment);
    }

    #[test]
    fn of_a_huge_environment_only_a_path_of_a_possible_length_is_kept() {
        let mut command = std::process::Command::new("sleep");
        command.arg("60").env(CONFIGURATION, "/x".repeat(50_000));
        (0..10).for_each(|number| _ = command.env(format!("HUGE_{number}"), "x".repeat(100_000)));
        let mut child = command.spawn().unwrap();
        let start = std::time::Instant::now();
        // While a program starts, it has no variables for a moment.
        let seen = loop {
            let seen = Settings::of(child.id(), &mut Allowance::unlimited());
            match seen.filter(|seen| seen.configuration.path.starts_with("/x/x")) {
                Some(seen) => break seen,
                None => assert!(start.elapsed().as_secs() < 60),
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((seen.configuration.path.len(), seen.configuration.exists), (PATH_BYTES, false));
    }

    #[test]
    fn a_cufile_json_that_was_not_examined_may_enable_p2pdma() {
        let unknown = Settings::unknown(None);
        assert!(
            unknown.may_use_p2pdma && unknown.configuration.not_examined && !unknown.configuration.from_environment
        );
        assert_eq!(unknown.configuration.path, DEFAULT);
    }
}
