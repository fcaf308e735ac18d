//! Recording what a view read, and writing it as a captured machine that gives the same findings elsewhere.

use super::command::CommandOutput;
use super::path_facts::PathFacts;
use super::redact::Redactor;
use super::root::{Root, Unread};
use crate::trust::Scratch;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Version of the form of a capture.
pub const CAPTURE_SCHEMA_VERSION: u32 = 1;

/// Why a capture could not be written.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The view does not record: it is a captured machine itself, or recording was not switched on.
    #[error("this view of the machine was opened without recording, so there is nothing to write")]
    NotRecording,
    /// A file could not be written.
    #[error("{path} could not be written: {error}; choose another place for the capture")]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// The object found at a path.
enum Seen {
    Bytes(Vec<u8>),
    Denied(String),
    Folder,
    Link(PathBuf),
    Present,
}

/// All that a view read.
#[derive(Default)]
pub(super) struct Recording {
    /// The folder of a captured machine's files; `None` on the live machine.
    base: Option<PathBuf>,
    files: BTreeMap<PathBuf, Seen>,
    commands: BTreeMap<Vec<String>, CommandOutput>,
    paths: BTreeMap<PathBuf, PathFacts>,
    times: BTreeMap<PathBuf, u64>,
}

impl Recording {
    /// For a captured machine with its files below `base`.
    pub(super) fn below(base: PathBuf) -> Self {
        Self { base: Some(base), ..Self::default() }
    }

    /// The place of the machine's file on this machine.
    fn at(&self, path: &Path) -> PathBuf {
        self.base.as_ref().map_or_else(|| path.to_owned(), |base| base.join(path.strip_prefix("/").unwrap_or(path)))
    }

    /// The path of the machine with every link resolved.
    fn real(&self, path: &Path) -> Option<PathBuf> {
        let real = fs::canonicalize(self.at(path)).ok()?;
        match &self.base {
            None => Some(real),
            Some(base) => Some(Path::new("/").join(real.strip_prefix(fs::canonicalize(base).ok()?).ok()?)),
        }
    }

    pub(super) fn file(&mut self, path: &Path, read: &Result<Vec<u8>, Unread>) {
        match read {
            Ok(bytes) => self.put(path, Seen::Bytes(bytes.clone())),
            Err(Unread::Missing) => {}
            // Every other object is written as a folder, so that it is not read as a file.
            Err(Unread::WrongKind) => self.put(path, Seen::Folder),
            Err(why) => self.put(path, Seen::Denied(reason(why))),
        }
    }

    pub(super) fn entries(&mut self, path: &Path, read: &Result<Vec<String>, Unread>) {
        match read {
            Ok(names) => {
                self.put(path, Seen::Folder);
                for name in names {
                    let child = path.join(name);
                    if self.files.contains_key(&child) {
                        continue;
                    }
                    let here = self.at(&child);
                    let seen = match fs::symlink_metadata(&here) {
                        Ok(meta) if meta.is_symlink() => fs::read_link(&here).map_or(Seen::Present, Seen::Link),
                        Ok(meta) if meta.is_dir() => Seen::Folder,
                        _ => Seen::Present,
                    };
                    self.put(&child, seen);
                }
            }
            Err(Unread::Missing) => {}
            Err(why) => self.put(path, Seen::Denied(reason(why))),
        }
    }

    pub(super) fn link(&mut self, path: &Path, target: Option<&Path>) {
        if let Some(target) = target {
            self.put(path, Seen::Link(target.to_owned()));
        }
    }

    pub(super) fn resolved(&mut self, path: &Path, real: Option<&Path>) {
        if let Some(real) = real {
            self.put(path, Seen::Present);
            self.put(real, Seen::Present);
        }
    }

    pub(super) fn presence(&mut self, path: &Path, there: bool) {
        if there {
            self.put(path, if self.at(path).is_dir() { Seen::Folder } else { Seen::Present });
        }
    }

    pub(super) fn modified(&mut self, path: &Path, when: Option<u64>) {
        if let Some(when) = when {
            self.put(path, Seen::Present);
            self.times.insert(path.to_owned(), when);
        }
    }

    pub(super) fn opened(&mut self, path: &Path, opened: &Result<(), Unread>) {
        match opened {
            Ok(()) => self.put(path, Seen::Present),
            Err(Unread::Missing) => {}
            Err(why) => self.put(path, Seen::Denied(reason(why))),
        }
    }

    pub(super) fn symbols(&mut self, found: &Result<BTreeSet<String>, Unread>) {
        let path = Path::new("/proc/kallsyms");
        match found {
            // Only the names that checks ask for; the list has ten megabytes and the rest says nothing.
            Ok(names) => {
                let text: String = names.iter().map(|name| format!("0000000000000000 T {name}\n")).collect();
                self.put(path, Seen::Bytes(text.into_bytes()));
            }
            Err(Unread::Missing) => {}
            Err(why) => self.put(path, Seen::Denied(reason(why))),
        }
    }

    pub(super) fn command(&mut self, argv: &[String], output: Option<&CommandOutput>) {
        if let Some(output) = output {
            self.commands.insert(argv.to_vec(), output.clone());
        }
    }

    pub(super) fn path(&mut self, facts: &PathFacts) {
        self.paths.insert(facts.path.clone(), facts.clone());
    }

    /// Keeps what says most: content before mere presence.
    fn put(&mut self, path: &Path, seen: Seen) {
        let rank = |seen: &Seen| match seen {
            Seen::Present => 0,
            Seen::Folder => 1,
            Seen::Denied(_) => 2,
            Seen::Bytes(_) => 3,
            Seen::Link(_) => 4,
        };
        // A path through links (`/sys/bus/pci/devices/X/vendor`) is kept at its real path, and each link on the way
        // as a link.
        let real = self.behind_links(path);
        match self.files.get(&real) {
            Some(old) if rank(old) >= rank(&seen) => {}
            _ => {
                self.files.insert(real, seen);
            }
        }
    }

    fn behind_links(&mut self, path: &Path) -> PathBuf {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
        let mut here = PathBuf::from("/");
        let parts: Vec<_> = parent.components().skip(1).map(|c| c.as_os_str().to_owned()).collect();
        for part in parts {
            here.push(part);
            if let Ok(target) = fs::read_link(self.at(&here))
                && let Some(real) = self.real(&here)
            {
                self.files.insert(here.clone(), Seen::Link(target));
                here = real;
            }
        }
        here.join(name)
    }
}

fn reason(why: &Unread) -> String {
    match why {
        Unread::Denied(words) | Unread::Failed(words) => words.clone(),
        other => other.to_string(),
    }
}

impl Root {
    /// Writes all that was read through this view to `dest` as a captured machine, completely or not at all: an
    /// archive if the name ends in `.tar.zst`, otherwise a folder. `tool` names the program, `unix_s` is the time in
    /// seconds since 1970. Host and user names, addresses, passwords and tokens, serial numbers and UUIDs of disks
    /// are replaced, equal ones by equal replacements; UUIDs of GPUs are kept because verdicts name them.
    ///
    /// # Errors
    /// If the view does not record, `dest` exists, or a file cannot be written.
    pub fn write_capture(&self, dest: &Path, tool: &str, unix_s: u64) -> Result<Captured, CaptureError> {
        let failed = |error: std::io::Error| CaptureError::Write { path: dest.to_owned(), error };
        if fs::symlink_metadata(dest).is_ok() {
            return Err(failed(std::io::Error::other("it exists already")));
        }
        let parent = dest.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let is_archive = dest.file_name().is_some_and(|name| name.to_string_lossy().ends_with(".tar.zst"));
        // A folder is made where it will be, so that it can be renamed.
        let scratch =
            if is_archive { Scratch::new("gds-top-capture-") } else { Scratch::new_in(parent, ".gds-top-capture-") };
        let scratch = scratch.map_err(failed)?;
        let inside = scratch.path().join("machine");
        let redacted = self.write_folder(&inside, tool, unix_s)?;
        let files = listing(&inside).map_err(failed)?;
        if is_archive {
            let file = tempfile::NamedTempFile::new_in(parent).map_err(failed)?;
            super::archive::pack(&inside, file.as_file()).map_err(failed)?;
            file.as_file().sync_all().map_err(failed)?;
            file.persist_noclobber(dest).map_err(|error| failed(error.error))?;
        } else {
            fs::rename(&inside, dest).map_err(failed)?;
        }
        Ok(Captured { files, redacted })
    }

    fn write_folder(&self, dest: &Path, tool: &str, unix_s: u64) -> Result<Vec<String>, CaptureError> {
        // Before the lock: all may read through this view.
        let (mut nvml, libcufile, environment) = (self.nvml().clone(), self.libcufile(), self.environment());
        for gpu in nvml.gpus.iter_mut().filter(|gpu| gpu.attributes.is_none()) {
            gpu.attributes =
                libcufile.cuda.iter().find(|seen| seen.uuid == gpu.uuid).map(|seen| seen.attributes.clone());
        }
        let recording = self.recording.as_ref().ok_or(CaptureError::NotRecording)?;
        let recording = recording.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut redactor = recording.redactor(self.is_live(), &environment);
        let files = dest.join("files");
        let failed = |path: &Path, error| CaptureError::Write { path: path.to_owned(), error };
        fs::create_dir_all(&files).map_err(|error| failed(&files, error))?;
        let mut links = Vec::new();
        for (path, seen) in &recording.files {
            let clean = redactor.path(path);
            let at = files.join(clean.strip_prefix("/").unwrap_or(&clean));
            match seen {
                Seen::Bytes(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) if path == Path::new("/proc/cmdline") => {
                        write_file(&at, redactor.command_line(text).as_bytes())?;
                    }
                    // Firmware variables are binary, although some could be read as text; those that checks read
                    // contain no names.
                    Ok(text) if !path.starts_with("/sys/firmware/efi/efivars") => {
                        write_file(&at, redactor.text(text).as_bytes())?;
                    }
                    _ => write_file(&at, bytes)?,
                },
                Seen::Denied(why) => {
                    let mut denied = at.into_os_string();
                    denied.push(".denied");
                    write_file(Path::new(&denied), why.as_bytes())?;
                }
                Seen::Folder => fs::create_dir_all(&at).map_err(|error| failed(&at, error))?,
                Seen::Present => {
                    if !at.exists() {
                        write_file(&at, b"")?;
                    }
                }
                Seen::Link(target) => links.push((at, within(&clean, redactor.path(target)))),
            }
        }
        // Links last: a file whose folder is a link in the capture would be written through it.
        for (at, target) in links {
            if let Some(parent) = at.parent() {
                fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
            }
            if fs::symlink_metadata(&at).is_err() {
                std::os::unix::fs::symlink(target, &at).map_err(|error| failed(&at, error))?;
            }
        }
        let environment: BTreeMap<&String, String> =
            environment.iter().map(|(name, value)| (name, redactor.variable(name, value))).collect();
        let commands: Vec<&CommandOutput> = recording.commands.values().collect();
        let paths: Vec<&PathFacts> = recording.paths.values().collect();
        let times: Vec<serde_json::Value> = recording
            .times
            .iter()
            .map(|(path, when)| serde_json::json!({"path": redactor.path(path).to_string_lossy(), "modified_unix_s": when}))
            .collect();
        let parts = [
            ("times.json", serde_json::to_value(&times)),
            ("commands.json", serde_json::to_value(&commands)),
            ("environment.json", serde_json::to_value(&environment)),
            ("nvml.json", serde_json::to_value(&nvml)),
            ("paths.json", serde_json::to_value(&paths)),
            ("libcufile.json", serde_json::to_value(libcufile)),
        ];
        let put = |name: &str, value: Result<serde_json::Value, serde_json::Error>, redactor: &mut Redactor| {
            let path = dest.join(name);
            // Each text separately: in JSON the 'n' of an escaped line end would be next to the first word of the
            // next line.
            let text = value
                .map(|mut value| {
                    redactor.json(&mut value);
                    value
                })
                .and_then(|value| serde_json::to_string_pretty(&value))
                .map_err(|e| failed(&path, e.into()))?;
            write_file(&path, text.as_bytes())
        };
        for (name, value) in parts {
            put(name, value, &mut redactor)?;
        }
        let redacted = redactor.said();
        let capture = serde_json::json!({
            "schema_version": CAPTURE_SCHEMA_VERSION,
            "tool": tool,
            "taken_at": unix_s,
            "euid": self.euid(),
            "paths": recording.paths.keys().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
            "redacted": redacted,
        });
        put("capture.json", Ok(capture), &mut redactor)?;
        Ok(redacted)
    }
}

/// The contents of a capture, to be read before it is sent.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Captured {
    /// Files with their size in bytes, by path within the capture; links and folders are not counted.
    pub files: Vec<(PathBuf, u64)>,
    /// The replaced values, by kind and number.
    pub redacted: Vec<String>,
}

impl Recording {
    /// A redactor that knows this machine's names and all serial numbers in what was read.
    fn redactor(&self, live: bool, environment: &BTreeMap<String, String>) -> Redactor {
        let mut redactor = Redactor::default();
        let name = Path::new("/proc/sys/kernel/hostname");
        if let Some(Seen::Bytes(bytes)) = self.files.get(name) {
            redactor.host(&String::from_utf8_lossy(bytes));
        }
        if live {
            redactor.host(&fs::read_to_string(name).unwrap_or_default());
            redactor.people(&fs::read_to_string("/etc/passwd").unwrap_or_default());
            // Users of a directory service (LDAP, Active Directory) are not listed there.
            for name in ["USER", "LOGNAME", "SUDO_USER"] {
                redactor.user(&std::env::var(name).unwrap_or_default());
            }
            redactor.home(&std::env::var("HOME").unwrap_or_default());
            let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
            redactor.names(&read("/etc/hosts"), &read("/etc/resolv.conf"));
        }
        for facts in self.paths.values() {
            let places =
                [Some(&facts.path), facts.real_path.as_ref(), facts.tried_file.as_ref(), facts.mount_point.as_ref()];
            for path in places.into_iter().flatten() {
                redactor.home_owners(&path.display().to_string());
            }
            redactor
                .server(facts.filesystem.as_deref().unwrap_or_default(), facts.source.as_deref().unwrap_or_default());
        }
        for value in environment.values() {
            redactor.home_owners(value);
        }
        for (path, seen) in &self.files {
            redactor.home_owners(&path.display().to_string());
            if let Seen::Bytes(bytes) = seen
                && let Ok(text) = std::str::from_utf8(bytes)
            {
                redactor.learn(path, text);
            }
        }
        for output in self.commands.values() {
            redactor.learn(Path::new(""), &output.stdout);
        }
        redactor
    }
}

/// A link that climbs above the root means the root, as in the kernel; it is written so that it does not look like an
/// escape.
fn within(link: &Path, target: PathBuf) -> PathBuf {
    if target.is_absolute() {
        return target;
    }
    let mut at: Vec<_> = link.parent().into_iter().flat_map(Path::components).skip(1).collect();
    for part in target.components() {
        match part {
            std::path::Component::ParentDir if at.pop().is_none() => {
                let rest: PathBuf =
                    target.components().filter(|c| matches!(c, std::path::Component::Normal(_))).collect();
                return Path::new("/").join(rest);
            }
            std::path::Component::Normal(_) => at.push(part),
            _ => {}
        }
    }
    target
}

/// All regular files below a folder.
fn listing(top: &Path) -> std::io::Result<Vec<(PathBuf, u64)>> {
    let mut out = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                out.push((path.strip_prefix(top).unwrap_or(&path).to_owned(), entry.metadata()?.len()));
            }
        }
    }
    out.sort();
    Ok(out)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CaptureError> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, bytes));
    made.map_err(|error| CaptureError::Write { path: path.to_owned(), error })
}
