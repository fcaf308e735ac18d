//! A machine captured in a folder. Links are resolved inside it by hand, on open descriptors; the kernel follows none, so nothing outside is opened.

use super::command::CommandOutput;
use super::libcufile::LibcufileFacts;
use super::nvml::NvmlFacts;
use super::path_facts::PathFacts;
use super::unread::Unread;
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

/// Most links followed for one path, as in the kernel.
const MAX_LINKS: u32 = 40;
/// Most bytes of one of the JSON files next to `files/`.
const MAX_JSON_BYTES: u64 = 16 << 20;
/// Most JSON values in one of them. A value without content takes 2 bytes of the file and up to 100 of memory.
const MAX_JSON_VALUES: usize = 500_000;

/// A captured machine.
pub(super) struct Folder {
    top: PathBuf,
    /// The folder with the machine's files, held open: another one that takes its name later is not read. `None` where the capture has no files.
    files: Option<OwnedFd>,
    capture: Value,
    environment: BTreeMap<String, String>,
    commands: Vec<CommandOutput>,
    paths: Vec<PathFacts>,
    nvml: NvmlFacts,
    libcufile: LibcufileFacts,
    /// When files were changed, by path.
    times: BTreeMap<PathBuf, u64>,
    /// The temporary folder of an unpacked archive, removed with the view.
    unpacked: Option<Scratch>,
}

/// The target of a captured path.
enum Found {
    /// Here: its open folder, its name in it, and its path on the captured machine.
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
                "{} is not a readable directory ({why}); pass a folder or archive that 'gds-top capture' wrote to --root",
                top.display()
            )
        })?;
        let files = match kind_of(&held, OsStr::new("files")) {
            None => None,
            Some(FileType::Directory) => Some(
                open_below(held.as_fd(), OsStr::new("files"), OFlags::PATH | OFlags::DIRECTORY)
                    .map_err(|why| format!("{}/files cannot be opened: {why}", top.display()))?,
            ),
            // A link would present another folder, perhaps this machine's, as the captured one.
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

    /// A plain tree of files that represents a machine's root: only its files are known.
    pub(super) fn tree(top: &Path) -> Result<Self, String> {
        let held = open_top(top).map_err(|why| {
            format!(
                "{} is not a readable directory ({why}); name one with the files of a machine (etc, usr, …)",
                top.display()
            )
        })?;
        let unsaid = |what: &str| format!("{what} is not available in a folder");
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

    /// From the capture's list, because its files have the times of their unpacking.
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
            Found::Here { folder, name, .. } => bounded(folder.as_fd(), &name, limit),
        }
    }

    pub(super) fn entries(&self, path: &Path) -> Result<Vec<String>, Unread> {
        let (folder, name) = match self.find(path, true) {
            Found::Missing => return Err(Unread::Missing),
            Found::Denied(why) => return Err(Unread::Denied(why)),
            Found::Here { folder, name, .. } => (folder, name),
        };
        let unread = |errno: rustix::io::Errno| super::live::unread(&errno.into());
        let opened = open_below(folder.as_fd(), &name, OFlags::RDONLY | OFlags::DIRECTORY).map_err(unread)?;
        let listed = rustix::fs::Dir::new(opened).map_err(unread)?;
        let mut names: Vec<String> = listed
            .filter_map(Result::ok)
            .map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()).to_string_lossy().into_owned())
            .filter(|name| name != "." && name != "..")
            .map(|name| name.strip_suffix(".denied").map_or(name.clone(), str::to_owned))
            .collect();
        names.sort();
        names.dedup();
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
            Found::Denied(why) => Err(Unread::Denied(why)),
        }
    }

    /// Walks `path` below `files/` one component at a time. Every link is expanded by hand and read again from the top, and each component is opened in
    /// the descriptor of the one before without following a link, so nothing leads out, even if another user changes the folder meanwhile.
    fn find(&self, path: &Path, follow_last: bool) -> Found {
        let Some(top) = self.files.as_ref().and_then(|top| top.try_clone().ok()) else { return Found::Missing };
        let mut todo: Vec<OsString> = components(path);
        // The folders on the way, opened, with their names; the top has none.
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

/// The variables as text. A capture made by hand can contain numbers or nulls.
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

/// The times of a list of {path, modified_unix_s}; other entries are ignored.
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

/// The folder that the caller named, which may be reached through links; everything in it may not.
fn open_top(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens an entry of a folder; a link fails.
fn open_below(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    // O_NONBLOCK: opening a FIFO without a writer must not hang; regular files do not care.
    let always = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let always = if flags.contains(OFlags::PATH) { always } else { always | OFlags::NONBLOCK | OFlags::NOCTTY };
    rustix::fs::openat(folder, name, flags | always, Mode::empty())
}

/// The kind of an entry, links not followed; `None` if it does not exist.
fn kind_of(folder: &impl AsFd, name: &OsStr) -> Option<FileType> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

fn target_of(folder: BorrowedFd<'_>, name: &OsStr) -> Option<PathBuf> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// Reads a regular file, never through a link.
fn bounded(folder: BorrowedFd<'_>, name: &OsStr, limit: u64) -> Result<Vec<u8>, Unread> {
    let unread = |errno: rustix::io::Errno| super::live::unread(&errno.into());
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(unread)?;
    // Before it is opened, because opening a device may do something.
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Unread::WrongKind);
    }
    let file = File::from(open_below(folder, name, OFlags::RDONLY).map_err(unread)?);
    // Another one may have taken its name since.
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
    /// One of them; `None` if it is missing or `null`.
    fn part<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        let path = self.path.join(name);
        let bytes = match bounded(self.top.as_fd(), OsStr::new(name), MAX_JSON_BYTES) {
            Ok(bytes) => bytes,
            Err(Unread::Missing) => return Ok(None),
            Err(why) => return Err(format!("{} {why}", path.display())),
        };
        // Texts have these characters too; a kernel log has about 10 000 commas.
        if bytes.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() > MAX_JSON_VALUES {
            return Err(format!("{} has more than {MAX_JSON_VALUES} values", path.display()));
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            format!("{} is not a valid part of a capture: {error}; take the capture again", path.display())
        })
    }
}
