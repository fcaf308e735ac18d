//! Writes everything that a view of a machine has read as a captured machine. The captured machine gives the same
//! findings on other systems.

use super::command::CommandOutput;
use super::path_facts::PathFacts;
use super::recording::Seen;
use super::redact::Redactor;
use super::root::Root;
use crate::trust::{Destination, Scratch};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Version of the capture format.
pub const CAPTURE_SCHEMA_VERSION: u32 = 1;

/// The reason why a capture could not be written.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The view does not record, because recording was not requested when it was opened.
    #[error("this view of the machine was opened without recording, so there is nothing to write")]
    NotRecording,
    /// The name is that of an archive in another format.
    #[error(
        "{} has the name of an archive that gds-top cannot write; end the name in .tar.zst, or leave the ending out for a directory",
        path.display()
    )]
    OtherArchive {
        /// The file.
        path: PathBuf,
    },
    /// The files of an archive are collected in a temporary directory first.
    #[error(
        "the files of the capture could not be written to a temporary directory: {0}; set TMPDIR to a directory with more space"
    )]
    Scratch(std::io::Error),
    /// A file could not be written.
    #[error("{path} could not be written: {error}; choose another place for the capture")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
}

/// The endings of archives and compressed files in other formats. A directory with such a name would be taken for an
/// archive.
const OTHER_ARCHIVES: [&str; 9] = [".tar", ".tgz", ".tzst", ".gz", ".xz", ".bz2", ".zst", ".zip", ".7z"];

/// Whether a capture with this name is an archive (`.tar.zst`) and not a directory.
///
/// # Errors
/// If the name is that of an archive in another format.
pub fn is_archive_name(dest: &Path) -> Result<bool, CaptureError> {
    let name = dest.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".tar.zst") {
        return Ok(true);
    }
    let lower = name.to_lowercase();
    match OTHER_ARCHIVES.iter().any(|ending| lower.ends_with(*ending)) {
        true => Err(CaptureError::OtherArchive { path: dest.to_owned() }),
        false => Ok(false),
    }
}

impl Root {
    /// Writes everything that was read through this view to `dest` as a captured machine. The capture is an archive
    /// if the name ends in `.tar.zst`, otherwise a directory. It is written completely or not at all. `tool` is the name
    /// of the program, and `unix_s` is the time in seconds since 1970. Host and user names, addresses, passwords,
    /// tokens, serial numbers and UUIDs of disks are replaced; equal values get equal replacements. UUIDs of GPUs are
    /// kept because verdicts contain them.
    ///
    /// # Errors
    /// Fails if the view does not record, `dest` exists or has the name of another archive, or a file cannot be
    /// written.
    pub fn write_capture(&self, dest: &Path, tool: &str, unix_s: u64) -> Result<Captured, CaptureError> {
        let is_archive = is_archive_name(dest)?;
        let failed = |error: std::io::Error| CaptureError::Write { path: dest.to_owned(), error };
        if fs::symlink_metadata(dest).is_ok() {
            return Err(failed(std::io::Error::other("it exists already")));
        }
        let parent = dest.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A directory is created on the file system of `dest`, so that it can be renamed to `dest`.
        let scratch =
            if is_archive { Scratch::new("gds-top-capture-") } else { Scratch::new_in(parent, ".gds-top-capture-") };
        let unprepared = |error| if is_archive { CaptureError::Scratch(error) } else { failed(error) };
        let scratch = scratch.map_err(unprepared)?;
        let inside = scratch.path().join("machine");
        let redacted = self.write_folder(&inside, tool, unix_s).map_err(|error| match error {
            CaptureError::Write { error, .. } if is_archive => CaptureError::Scratch(error),
            error => error,
        })?;
        let files = listing(&inside).map_err(failed)?;
        if is_archive {
            let (folder, name) = Destination::of_file(dest).map_err(failed)?;
            let file = folder.unfinished_file().map_err(failed)?;
            super::archive::pack(&inside, file.file()).map_err(failed)?;
            file.file().sync_all().map_err(failed)?;
            #[cfg(debug_assertions)]
            hold();
            file.persist_new(name).map_err(failed)?;
        } else {
            fs::rename(&inside, dest).map_err(failed)?;
        }
        Ok(Captured { files, redacted })
    }

    fn write_folder(&self, dest: &Path, tool: &str, unix_s: u64) -> Result<Vec<String>, CaptureError> {
        // These values are read before the recording is locked, because reading them through this view also records.
        let (mut nvml, libcufile, environment) = (self.nvml().clone(), self.libcufile(), self.environment());
        let has_sudo = self.has_sudo();
        for gpu in nvml.gpus.iter_mut().filter(|gpu| gpu.attributes.is_none()) {
            gpu.attributes =
                libcufile.cuda.iter().find(|seen| seen.uuid == gpu.uuid).map(|seen| seen.attributes.clone());
        }
        let recording = self.recording.as_ref().ok_or(CaptureError::NotRecording)?;
        let recording = recording.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut redactor = recording.redactor(self.is_live(), &environment);
        let files = dest.join("files");
        let failed = |path: &Path, error| CaptureError::Write { path: path.to_owned(), error };
        make_folder(&files).map_err(|error| failed(&files, error))?;
        let mut links = Vec::new();
        for (path, seen) in &recording.files {
            let clean = redactor.path(path);
            let at = files.join(clean.strip_prefix("/").unwrap_or(&clean));
            match seen {
                Seen::Bytes(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) if path == Path::new("/proc/cmdline") => {
                        write_file(&at, redactor.command_line(text).as_bytes())?;
                    }
                    // Firmware variables are binary data, even if some are valid UTF-8. Those that the checks read
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
                Seen::Folder => make_folder(&at).map_err(|error| failed(&at, error))?,
                Seen::Present => {
                    if !at.exists() {
                        write_file(&at, b"")?;
                    }
                }
                Seen::Link(target) => links.push((at, within(&clean, redactor.path(target)))),
            }
        }
        // Links are written last. Otherwise a file whose directory is a link in the capture would be written through
        // that link.
        for (at, target) in links {
            if let Some(parent) = at.parent() {
                make_folder(parent).map_err(|error| failed(parent, error))?;
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
            // Each string is redacted separately. In JSON text, the `n` of an escaped `\n` would be adjacent to the
            // first word of the next line.
            let text = value
                .map(|mut value| {
                    redactor.json(&mut value);
                    value
                })
                .and_then(|value| crate::text::pretty_json(&value))
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
            "sudo": has_sudo,
            "paths": recording.paths.keys().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
            "redacted": redacted,
        });
        put("capture.json", Ok(capture), &mut redactor)?;
        Ok(redacted)
    }
}

/// The contents of a capture, which the user can review before sending it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Captured {
    /// Files with their size in bytes, by path within the capture; links and directories are not counted.
    pub files: Vec<(PathBuf, u64)>,
    /// One line for each kind of replaced value, with the number of values.
    pub redacted: Vec<String>,
}

/// A link target that leads above the root means the root, as in the kernel. It is rewritten so that it does not look
/// like an escape.
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

/// All regular files below a directory.
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

/// Creates a directory and those above it. Root reads files that other users may not read, such as the kernel log. So the
/// directories and files of a capture are private, whatever the umask is.
fn make_folder(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// If the variable is set, waits at the last point before the archive appears, so that a test can send a signal there.
#[cfg(debug_assertions)]
fn hold() {
    if std::env::var_os("GDS_TOP_CAPTURE_HOLD").is_some() {
        // The test waits for this line.
        let _ = writeln!(std::io::stderr(), "holding the capture");
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CaptureError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let made = path.parent().map_or(Ok(()), make_folder);
    let written = made.and_then(|()| options.open(path)?.write_all(bytes));
    written.map_err(|error| CaptureError::Write { path: path.to_owned(), error })
}
