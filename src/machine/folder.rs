//! Reads a machine that was captured in a directory. Links are resolved in this module on open descriptors. The kernel
//! follows no link, so no file outside the directory is opened.

use super::command::CommandOutput;
use super::libcufile::LibcufileFacts;
use super::nvml::NvmlFacts;
use super::path_facts::PathFacts;
use super::unread::{Denial, Unread};
use crate::trust::Scratch;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links that are followed for one path. The kernel has the same limit.
const MAX_LINKS: u32 = 40;
/// Maximum size in bytes of a JSON file next to `files/`.
const MAX_JSON_BYTES: u64 = 16 << 20;
/// Maximum number of entries of a directory. Each of them can be a device or a process whose files are read.
const MAX_ENTRIES: usize = 16_384;
/// Maximum number of JSON values in one file. An empty value takes 2 bytes in the file and up to 100 bytes in memory.
const MAX_JSON_VALUES: usize = 500_000;

/// A captured machine.
pub(super) struct Folder {
    top: PathBuf,
    /// Open descriptor of the directory with the machine's files. If another directory gets the same name later, it is not
    /// read. `None` if the capture contains no files.
    files: Option<OwnedFd>,
    capture: Value,
    environment: BTreeMap<String, String>,
    commands: Vec<CommandOutput>,
    paths: Vec<PathFacts>,
    nvml: NvmlFacts,
    libcufile: LibcufileFacts,
    /// Modification times in seconds since 1970, by path.
    times: BTreeMap<PathBuf, u64>,
    /// The temporary directory of an unpacked archive. It is removed when the view is dropped.
    unpacked: Option<Scratch>,
}

/// The object that was found at a captured path.
enum Found {
    /// It exists: its open parent directory, its name in that directory, and its path on the captured machine.
    Here {
        folder: OwnedFd,
        name: OsString,
        path: PathBuf,
    },
    Missing,
    Denied(String),
}

impl Folder {
    pub(super) fn open(top: &Path) -> Result<Self, String> {
        let held = open_top(top).map_err(|why| {
            format!(
                "{} is not a readable directory ({why}); pass a directory or archive that 'gds-top capture' wrote",
                top.display()
            )
        })?;
        let files = match kind_of(&held, OsStr::new("files")) {
            None => None,
            Some(FileType::Directory) => Some(
                open_below(held.as_fd(), OsStr::new("files"), OFlags::PATH | OFlags::DIRECTORY)
                    .map_err(|why| format!("{}/files cannot be opened: {why}", top.display()))?,
            ),
            // If `files` were a link, another directory, perhaps of this machine, would be read as the captured machine.
            Some(_) => {
                return Err(format!(
                    "{}/files is not a directory, so this is not a capture; take it again with 'gds-top capture'",
                    top.display()
                ));
            }
        };
        if files.is_none() && kind_of(&held, OsStr::new("capture.json")) != Some(FileType::RegularFile) {
            return Err(format!(
                "{} is not a captured machine: it has neither capture.json nor files/; create one with 'gds-top capture'",
                top.display()
            ));
        }
        let json = Json { top: &held, path: top };
        let capture: Value = json.part("capture.json")?.unwrap_or(Value::Null);
        if !capture.is_object() && !capture.is_null() {
            return Err(format!("{}/capture.json is not an object in braces; take the capture again", top.display()));
        }
        if let Some(version) = capture.get("schema_version").and_then(Value::as_u64).filter(|&v| v != 1) {
            return Err(format!("{}/capture.json has schema_version {version}, this program reads 1", top.display()));
        }
        let unsaid = |what: &str| format!("{what} is not part of this capture");
        let mut nvml: NvmlFacts = json.part("nvml.json")?.unwrap_or_default();
        if nvml.error.is_none() && nvml.driver_version.is_none() && nvml.gpus.is_empty() {
            nvml.error = Some(unsaid("NVML"));
            nvml.unasked = true;
        }
        let mut libcufile: LibcufileFacts = json.part("libcufile.json")?.unwrap_or_default();
        if libcufile == LibcufileFacts::default() {
            libcufile.error = Some(unsaid("libcufile"));
            libcufile.unasked = true;
        }
        Ok(Self {
            top: top.join("files"),
            files,
            capture,
            environment: environment(json.part("environment.json")?),
            commands: json.part("commands.json")?.unwrap_or_default(),
            paths: json.part("paths.json")?.unwrap_or_default(),
            nvml,
            libcufile,
            times: times(json.part("times.json")?),
            unpacked: None,
        })
    }

    /// Opens a plain directory tree with the files of a machine. Only the files are known.
    pub(super) fn tree(top: &Path) -> Result<Self, String> {
        let held = open_top(top).map_err(|why| {
            format!(
                "{} is not a readable directory ({why}); pass a directory with the files of a machine (etc, usr, …)",
                top.display()
            )
        })?;
        let unsaid = |what: &str| format!("{what} is not part of a plain directory tree");
        Ok(Self {
            top: top.to_owned(),
            files: Some(held),
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

    pub(super) fn with_unpacked(mut self, folder: Scratch) -> Self {
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

    pub(super) fn has_sudo(&self) -> Option<bool> {
        self.capture.get("sudo").and_then(Value::as_bool)
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

    /// The time is read from the list of the capture, because unpacking changes the times of the files.
    pub(super) fn modified_unix_s(&self, path: &Path) -> Option<u64> {
        self.times.get(path).copied()
    }

    pub(super) fn path_facts(&self, path: &Path) -> Option<PathFacts> {
        self.paths.iter().find(|f| f.path == path || f.real_path.as_deref() == Some(path)).cloned()
    }

    pub(super) fn read_bytes(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Unread> {
        match self.find(path, true) {
            Found::Missing => Err(Unread::Missing),
            Found::Denied(why) => Err(Unread::Denied(Denial::of_capture(&why))),
            Found::Here { folder, name, .. } => bounded(folder.as_fd(), &name, limit),
        }
    }

    pub(super) fn entries(&self, path: &Path) -> Result<Vec<String>, Unread> {
        let (folder, name) = match self.find(path, true) {
            Found::Missing => return Err(Unread::Missing),
            Found::Denied(why) => return Err(Unread::Denied(Denial::of_capture(&why))),
            Found::Here { folder, name, .. } => (folder, name),
        };
        let unread = |errno: rustix::io::Errno| super::live::unread(&errno.into());
        let opened = open_below(folder.as_fd(), &name, OFlags::RDONLY | OFlags::DIRECTORY).map_err(unread)?;
        let listed = rustix::fs::Dir::new(opened).map_err(unread)?;
        let mut names: Vec<String> = listed
            .filter_map(Result::ok)
            .map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()).to_string_lossy().into_owned())
            .filter(|name| name != "." && name != "..")
            .take(MAX_ENTRIES + 1)
            .map(|name| name.strip_suffix(".denied").map_or(name.clone(), str::to_owned))
            .collect();
        names.sort();
        names.dedup();
        if names.len() > MAX_ENTRIES {
            return Err(Unread::Failed(format!("it has more than {MAX_ENTRIES} entries")));
        }
        Ok(names)
    }

    pub(super) fn link(&self, path: &Path) -> Option<PathBuf> {
        match self.find(path, false) {
            Found::Here { folder, name, .. } => target_of(folder.as_fd(), &name),
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
            Found::Denied(why) => Err(Unread::Denied(Denial::of_capture(&why))),
        }
    }

    /// Resolves `path` below `files/` one component at a time. The target of each link is resolved again from the
    /// top. Each component is opened relative to its open parent, without following links. So no path leads out of
    /// the directory, even if another user changes it at the same time.
    fn find(&self, path: &Path, follow_last: bool) -> Found {
        let Some(top) = self.files.as_ref().and_then(|top| top.try_clone().ok()) else { return Found::Missing };
        let mut todo: Vec<OsString> = components(path);
        // The opened parent directories with their names. The top directory is not in the list.
        let mut done: Vec<(OsString, OwnedFd)> = Vec::new();
        let mut links = 0;
        let mut last = None;
        while let Some(name) = todo.pop() {
            last = None;
            if name == ".." {
                done.pop();
                continue;
            }
            let here = done.last().map_or(top.as_fd(), |(_, folder)| folder.as_fd());
            let kind = match kind_of(&here, &name) {
                Some(kind) => kind,
                None => {
                    let mut denied = name;
                    denied.push(".denied");
                    return match bounded(here, &denied, 4096) {
                        Ok(why) => Found::Denied(String::from_utf8_lossy(&why).trim().to_owned()),
                        Err(_) => Found::Missing,
                    };
                }
            };
            if kind == FileType::Symlink && (follow_last || !todo.is_empty()) {
                links += 1;
                let Some(target) = target_of(here, &name).filter(|_| links <= MAX_LINKS) else {
                    return Found::Missing;
                };
                if target.is_absolute() {
                    done.clear();
                }
                todo.extend(components(&target));
            } else if kind == FileType::Directory {
                let Ok(folder) = open_below(here, &name, OFlags::PATH | OFlags::DIRECTORY) else {
                    return Found::Missing;
                };
                done.push((name, folder));
            } else if todo.is_empty() {
                last = Some(name);
            } else {
                return Found::Missing;
            }
        }
        let mut path = PathBuf::from("/");
        path.extend(done.iter().map(|(name, _)| name));
        let (name, folder) = match last {
            Some(name) => {
                path.push(&name);
                (name, done.pop().map_or(top, |(_, folder)| folder))
            }
            None => (OsString::from("."), done.pop().map_or(top, |(_, folder)| folder)),
        };
        Found::Here { folder, name, path }
    }
}

/// The environment variables as text. A capture that was edited by hand can contain numbers or nulls.
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

/// The modification times from a list of {path, modified_unix_s}. Other entries are ignored.
fn times(value: Option<Value>) -> BTreeMap<PathBuf, u64> {
    let listed = value.as_ref().and_then(Value::as_array).into_iter().flatten();
    listed
        .filter_map(|entry| {
            Some((PathBuf::from(entry.get("path")?.as_str()?), entry.get("modified_unix_s")?.as_u64()?))
        })
        .collect()
}

/// The components of a path in reverse order, including `..`.
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

/// Opens the directory that the caller named. Its path may contain links; paths below it may not.
fn open_top(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens an entry of a directory; fails if the entry is a link.
fn open_below(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    // Without O_NONBLOCK, opening a FIFO that has no writer would hang. The flag has no effect on regular files.
    let always = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let always = if flags.contains(OFlags::PATH) { always } else { always | OFlags::NONBLOCK | OFlags::NOCTTY };
    rustix::fs::openat(folder, name, flags | always, Mode::empty())
}

/// The file type of an entry, without following links; `None` if the entry does not exist.
fn kind_of(folder: &impl AsFd, name: &OsStr) -> Option<FileType> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

fn target_of(folder: BorrowedFd<'_>, name: &OsStr) -> Option<PathBuf> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// Reads a regular file and never follows a link.
fn bounded(folder: BorrowedFd<'_>, name: &OsStr, limit: u64) -> Result<Vec<u8>, Unread> {
    let unread = |errno: rustix::io::Errno| super::live::unread(&errno.into());
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(unread)?;
    // The type is checked before the file is opened, because opening a device can have side effects.
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Unread::WrongKind);
    }
    let file = File::from(open_below(folder, name, OFlags::RDONLY).map_err(unread)?);
    // The type is checked again, because the entry may have been replaced since the first check.
    if !file.metadata().map_err(|e| super::live::unread(&e))?.is_file() {
        return Err(Unread::WrongKind);
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| super::live::unread(&e))?;
    if bytes.len() as u64 > limit { Err(Unread::TooLarge(limit)) } else { Ok(bytes) }
}

/// The JSON files next to `files/`.
struct Json<'a> {
    top: &'a OwnedFd,
    path: &'a Path,
}

impl Json<'_> {
    /// Parses one of these files; `None` if the file is missing or contains `null`.
    fn part<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        let path = self.path.join(name);
        let bytes = match bounded(self.top.as_fd(), OsStr::new(name), MAX_JSON_BYTES) {
            Ok(bytes) => bytes,
            Err(Unread::Missing) => return Ok(None),
            Err(why) => return Err(format!("{} {why}", path.display())),
        };
        // Strings also contain these characters: a kernel log has about 10 000 commas.
        if bytes.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() > MAX_JSON_VALUES {
            return Err(format!("{} has more than {MAX_JSON_VALUES} values", path.display()));
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            format!("{} is not a valid part of a capture: {error}; take the capture again", path.display())
        })
    }
}
