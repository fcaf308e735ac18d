//! Recording what a view read, and writing it as a captured machine that gives the same findings elsewhere.

use super::command::CommandOutput;
use super::path_facts::PathFacts;
use super::root::{Root, Unread};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Version of the form of a capture (interface.md, 'A captured machine').
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

/// What was found at a path.
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
    files: BTreeMap<PathBuf, Seen>,
    commands: BTreeMap<Vec<String>, CommandOutput>,
    paths: BTreeMap<PathBuf, PathFacts>,
}

impl Recording {
    pub(super) fn file(&mut self, path: &Path, read: &Result<Vec<u8>, Unread>) {
        match read {
            Ok(bytes) => self.put(path, Seen::Bytes(bytes.clone())),
            Err(Unread::Missing | Unread::WrongKind) => {}
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
                    let seen = match fs::symlink_metadata(&child) {
                        Ok(meta) if meta.is_symlink() => fs::read_link(&child).map_or(Seen::Present, Seen::Link),
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
            self.put(path, if path.is_dir() { Seen::Folder } else { Seen::Present });
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
        // A path through links (`/sys/bus/pci/devices/X/vendor`) is kept where it really lies, and each link on the way as a link.
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
            if let Ok(target) = fs::read_link(&here)
                && let Ok(real) = fs::canonicalize(&here)
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
    /// Writes all that was read through this view into `dest` (made if missing) as a captured machine. `tool` names the program, `unix_s` is
    /// the time in seconds since 1970. The host's name is replaced.
    ///
    /// # Errors
    /// When the view does not record, or a file cannot be written.
    pub fn write_capture(&self, dest: &Path, tool: &str, unix_s: u64) -> Result<(), CaptureError> {
        let recording = self.recording.as_ref().ok_or(CaptureError::NotRecording)?;
        let recording = recording.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        let clean = |text: String| if host.len() > 3 { text.replace(&host, "host") } else { text };
        let files = dest.join("files");
        let put = |path: PathBuf, bytes: &[u8]| write_file(&path, bytes);
        fs::create_dir_all(&files).map_err(|error| CaptureError::Write { path: files.clone(), error })?;
        // Links last: a file whose folder is a link in the capture would be written through it.
        for (path, seen) in &recording.files {
            let at = files.join(path.strip_prefix("/").unwrap_or(path));
            match seen {
                Seen::Bytes(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => put(at, clean(text.to_owned()).as_bytes())?,
                    Err(_) => put(at, bytes)?,
                },
                Seen::Denied(why) => {
                    let mut denied = at.into_os_string();
                    denied.push(".denied");
                    put(denied.into(), why.as_bytes())?;
                }
                Seen::Folder => fs::create_dir_all(&at).map_err(|error| CaptureError::Write { path: at, error })?,
                Seen::Present => {
                    if !at.exists() {
                        put(at, b"")?;
                    }
                }
                Seen::Link(_) => {}
            }
        }
        for (path, seen) in &recording.files {
            if let Seen::Link(target) = seen {
                let at = files.join(path.strip_prefix("/").unwrap_or(path));
                if let Some(parent) = at.parent() {
                    fs::create_dir_all(parent)
                        .map_err(|error| CaptureError::Write { path: parent.to_owned(), error })?;
                }
                if fs::symlink_metadata(&at).is_err() {
                    std::os::unix::fs::symlink(target, &at).map_err(|error| CaptureError::Write { path: at, error })?;
                }
            }
        }
        let commands: Vec<&CommandOutput> = recording.commands.values().collect();
        let paths: Vec<&PathFacts> = recording.paths.values().collect();
        let capture = serde_json::json!({
            "schema_version": CAPTURE_SCHEMA_VERSION,
            "tool": tool,
            "taken_at": unix_s,
            "euid": self.euid(),
            "paths": recording.paths.keys().collect::<Vec<_>>(),
            "redacted": ["host name"],
        });
        let parts = [
            ("capture.json", serde_json::to_string_pretty(&capture)),
            ("commands.json", serde_json::to_string_pretty(&commands)),
            ("environment.json", serde_json::to_string_pretty(&self.environment())),
            ("nvml.json", serde_json::to_string_pretty(self.nvml())),
            ("paths.json", serde_json::to_string_pretty(&paths)),
            ("libcufile.json", serde_json::to_string_pretty(self.libcufile())),
        ];
        for (name, text) in parts {
            let path = dest.join(name);
            let text = text.map_err(|e| CaptureError::Write { path: path.clone(), error: e.into() })?;
            put(path, clean(text).as_bytes())?;
        }
        Ok(())
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CaptureError> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, bytes));
    made.map_err(|error| CaptureError::Write { path: path.to_owned(), error })
}
