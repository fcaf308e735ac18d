//! A machine captured in a folder. Links are resolved inside it; nothing outside is ever opened.

use super::command::CommandOutput;
use super::libcufile::LibcufileFacts;
use super::nvml::NvmlFacts;
use super::path_facts::PathFacts;
use super::root::Unread;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Most links followed for one path, as in the kernel.
const MAX_LINKS: u32 = 40;
/// Most bytes of one of the JSON files beside `files/`.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// A captured machine.
pub(super) struct Folder {
    top: PathBuf,
    capture: Value,
    environment: BTreeMap<String, String>,
    commands: Vec<CommandOutput>,
    paths: Vec<PathFacts>,
    nvml: NvmlFacts,
    libcufile: LibcufileFacts,
    /// When files were changed, by path.
    times: BTreeMap<PathBuf, u64>,
    /// The temporary folder of an unpacked archive, removed with the view.
    unpacked: Option<tempfile::TempDir>,
}

/// Where a captured path leads.
enum Found {
    /// Here, as a real path in the folder and as the path it stands for.
    Here {
        real: PathBuf,
        path: PathBuf,
    },
    Missing,
    Denied(String),
}

impl Folder {
    pub(super) fn open(top: &Path) -> Result<Self, String> {
        if !top.is_dir() {
            return Err(format!(
                "{} is no folder; --root wants a folder or archive that 'gds-top capture' wrote",
                top.display()
            ));
        }
        if !top.join("files").is_dir() && !top.join("capture.json").is_file() {
            return Err(format!(
                "{} holds no captured machine: neither capture.json nor files/ is there; make one with 'gds-top capture'",
                top.display()
            ));
        }
        let capture: Value = json(top, "capture.json")?.unwrap_or(Value::Null);
        if !capture.is_object() && !capture.is_null() {
            return Err(format!("{}/capture.json holds no object in braces; take the capture again", top.display()));
        }
        if let Some(version) = capture.get("schema_version").and_then(Value::as_u64).filter(|&v| v != 1) {
            return Err(format!("{}/capture.json has schema_version {version}, this program reads 1", top.display()));
        }
        let unsaid = |what: &str| format!("{what} is not part of this capture");
        let mut nvml: NvmlFacts = json(top, "nvml.json")?.unwrap_or_default();
        if nvml.error.is_none() && nvml.driver_version.is_none() && nvml.gpus.is_empty() {
            nvml.error = Some(unsaid("NVML"));
            nvml.unasked = true;
        }
        let mut libcufile: LibcufileFacts = json(top, "libcufile.json")?.unwrap_or_default();
        if libcufile == LibcufileFacts::default() {
            libcufile.error = Some(unsaid("libcufile"));
            libcufile.unasked = true;
        }
        Ok(Self {
            top: top.join("files"),
            capture,
            environment: environment(json(top, "environment.json")?),
            commands: json(top, "commands.json")?.unwrap_or_default(),
            paths: json(top, "paths.json")?.unwrap_or_default(),
            nvml,
            libcufile,
            times: times(json(top, "times.json")?),
            unpacked: None,
        })
    }

    /// A plain tree of files that stands for a machine's root: nothing is known of it but its files.
    pub(super) fn tree(top: &Path) -> Result<Self, String> {
        if !top.is_dir() {
            return Err(format!(
                "{} is no folder; name one that holds the files of a machine (etc, usr, …)",
                top.display()
            ));
        }
        let unsaid = |what: &str| format!("{what} cannot be asked in a folder");
        Ok(Self {
            top: top.to_owned(),
            capture: Value::Null,
            environment: BTreeMap::new(),
            commands: Vec::new(),
            paths: Vec::new(),
            nvml: NvmlFacts { error: Some(unsaid("NVML")), ..NvmlFacts::default() },
            libcufile: LibcufileFacts { error: Some(unsaid("libcufile")), unasked: true, ..LibcufileFacts::default() },
            times: BTreeMap::new(),
            unpacked: None,
        })
    }

    pub(super) fn with_unpacked(mut self, folder: tempfile::TempDir) -> Self {
        self.unpacked = Some(folder);
        self
    }

    pub(super) fn path(&self) -> &Path {
        self.top.parent().unwrap_or(&self.top)
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let listed = self.capture.get("paths").and_then(Value::as_array);
        let listed: Vec<PathBuf> = listed.into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from).collect();
        if listed.is_empty() { self.paths.iter().map(|facts| facts.path.clone()).collect() } else { listed }
    }

    pub(super) fn euid(&self) -> Option<u32> {
        self.capture.get("euid").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok())
    }

    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        self.environment.clone()
    }

    pub(super) fn command(&self, argv: &[String]) -> Option<CommandOutput> {
        self.commands.iter().find(|output| output.argv == argv).cloned()
    }

    pub(super) fn nvml(&self) -> NvmlFacts {
        self.nvml.clone()
    }

    pub(super) fn libcufile(&self) -> LibcufileFacts {
        self.libcufile.clone()
    }

    /// As the capture says it: the times of its own files are those of its unpacking.
    pub(super) fn modified_unix_s(&self, path: &Path) -> Option<u64> {
        self.times.get(path).copied()
    }

    pub(super) fn path_facts(&self, path: &Path) -> Option<PathFacts> {
        self.paths.iter().find(|f| f.path == path || f.real_path.as_deref() == Some(path)).cloned()
    }

    pub(super) fn read_bytes(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Unread> {
        match self.find(path, true) {
            Found::Missing => Err(Unread::Missing),
            Found::Denied(why) => Err(Unread::Denied(why)),
            Found::Here { real, .. } => bounded(&real, limit),
        }
    }

    pub(super) fn entries(&self, path: &Path) -> Result<Vec<String>, Unread> {
        let real = match self.find(path, true) {
            Found::Missing => return Err(Unread::Missing),
            Found::Denied(why) => return Err(Unread::Denied(why)),
            Found::Here { real, .. } => real,
        };
        let listed = fs::read_dir(&real).map_err(|e| super::live::unread(&e))?;
        let mut names: Vec<String> = listed
            .filter_map(Result::ok)
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.strip_suffix(".denied").map_or(name.clone(), str::to_owned)
            })
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    pub(super) fn link(&self, path: &Path) -> Option<PathBuf> {
        match self.find(path, false) {
            Found::Here { real, .. } => fs::read_link(real).ok(),
            _ => None,
        }
    }

    pub(super) fn resolve(&self, path: &Path) -> Option<PathBuf> {
        match self.find(path, true) {
            Found::Here { path, .. } => Some(path),
            _ => None,
        }
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        !matches!(self.find(path, true), Found::Missing)
    }

    pub(super) fn opens(&self, path: &Path) -> Result<(), Unread> {
        match self.find(path, true) {
            Found::Here { .. } => Ok(()),
            Found::Missing => Err(Unread::Missing),
            Found::Denied(why) => Err(Unread::Denied(why)),
        }
    }

    /// Walks `path` below `files/` one component at a time. Because every link is expanded by hand and read again from the top, no
    /// component that is opened is ever a link, so nothing leads out.
    fn find(&self, path: &Path, follow_last: bool) -> Found {
        let mut todo: Vec<OsString> = components(path);
        let mut done: Vec<OsString> = Vec::new();
        let mut links = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                done.pop();
                continue;
            }
            let mut real = self.top.clone();
            real.extend(&done);
            real.push(&name);
            let Ok(meta) = fs::symlink_metadata(&real) else {
                let mut denied = real.into_os_string();
                denied.push(".denied");
                return match bounded(Path::new(&denied), 4096) {
                    Ok(why) => Found::Denied(String::from_utf8_lossy(&why).trim().to_owned()),
                    Err(_) => Found::Missing,
                };
            };
            if meta.is_symlink() && (follow_last || !todo.is_empty()) {
                links += 1;
                let Some(target) = fs::read_link(&real).ok().filter(|_| links <= MAX_LINKS) else {
                    return Found::Missing;
                };
                if target.is_absolute() {
                    done.clear();
                }
                todo.extend(components(&target));
            } else {
                done.push(name);
            }
        }
        let mut real = self.top.clone();
        real.extend(&done);
        if fs::symlink_metadata(&real).is_err() {
            return Found::Missing;
        }
        let mut path = PathBuf::from("/");
        path.extend(&done);
        Found::Here { real, path }
    }
}

/// The variables that are text; a capture made by hand may hold numbers or nulls.
fn environment(value: Option<Value>) -> BTreeMap<String, String> {
    let Some(Value::Object(map)) = value else { return BTreeMap::new() };
    map.into_iter()
        .filter_map(|(name, value)| match value {
            Value::String(text) => Some((name, text)),
            Value::Number(number) => Some((name, number.to_string())),
            _ => None,
        })
        .collect()
}

/// The times of a list of {path, modified_unix_s}; what is no such entry says nothing.
fn times(value: Option<Value>) -> BTreeMap<PathBuf, u64> {
    let listed = value.as_ref().and_then(Value::as_array).into_iter().flatten();
    listed
        .filter_map(|entry| {
            Some((PathBuf::from(entry.get("path")?.as_str()?), entry.get("modified_unix_s")?.as_u64()?))
        })
        .collect()
}

/// The names of a path, last one first, `..` kept.
fn components(path: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect();
    names.reverse();
    names
}

/// Reads a regular file, never through a link.
fn bounded(path: &Path, limit: u64) -> Result<Vec<u8>, Unread> {
    let meta = fs::symlink_metadata(path).map_err(|e| super::live::unread(&e))?;
    if !meta.is_file() {
        return Err(Unread::WrongKind);
    }
    let file = fs::File::open(path).map_err(|e| super::live::unread(&e))?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| super::live::unread(&e))?;
    if bytes.len() as u64 > limit { Err(Unread::TooLarge(limit)) } else { Ok(bytes) }
}

/// One of the JSON files; `None` where it is missing or `null`.
fn json<T: DeserializeOwned>(top: &Path, name: &str) -> Result<Option<T>, String> {
    let path = top.join(name);
    let bytes = match bounded(&path, MAX_JSON_BYTES) {
        Ok(bytes) => bytes,
        Err(Unread::Missing) => return Ok(None),
        Err(why) => return Err(format!("{} {why}", path.display())),
    };
    serde_json::from_slice(&bytes)
        .map_err(|error| format!("{} is no valid part of a capture: {error}; take the capture again", path.display()))
}
