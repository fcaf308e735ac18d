//! `Root` is one view of a machine. It has the same methods for the live machine and for a captured one.

use super::command::{self, CommandOutput, KERNEL_MESSAGES};
use super::container::Container;
use super::cufile_probe;
use super::folder::Folder;
use super::kernel_thread::is_kernel_thread;
use super::libcufile::LibcufileFacts;
use super::live;
use super::live_options::LiveOptions;
use super::nvml::{self, NvmlFacts};
use super::path_facts::{self, PathFacts};
use super::recording::Recording;
use super::symbols;
use super::unread::Unread;
use super::unstarted;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// Maximum size in bytes of a file that a view reads. Larger files give [`Unread::TooLarge`].
pub const MAX_TEXT_BYTES: u64 = 16 << 20;
/// Smaller maximum sizes of files below these directories. The list of processors has 1.3 MiB for 896 of them, and a node
/// with 10 000 mounts lists them in 2 MiB. Attributes of sysfs have one page.
const MAX_BYTES_BELOW: [(&str, u64); 9] = [
    ("/proc/cpuinfo", 4 << 20),
    ("/proc/self/mountinfo", 4 << 20),
    ("/proc/net", 1 << 20),
    ("/proc", 128 << 10),
    ("/sys", 128 << 10),
    ("/etc/os-release", 64 << 10),
    ("/etc", 1 << 20),
    ("/run", 1 << 20),
    ("/boot", 1 << 20),
];
/// Maximum number of bytes that a round of checks reads from files above [`SMALL_BYTES`]. The files of a captured
/// machine can have any size.
const MAX_ROUND_BYTES: u64 = 48 << 20;
/// Maximum size in bytes of a file that is read in any case.
const SMALL_BYTES: u64 = 64 << 10;

/// The maximum size in bytes of a file.
fn max_bytes(path: &Path) -> u64 {
    MAX_BYTES_BELOW.iter().find(|(above, _)| path.starts_with(above)).map_or(MAX_TEXT_BYTES, |(_, most)| *most)
}

#[allow(clippy::large_enum_variant, reason = "there is one value per machine")]
enum View {
    Live(LiveOptions),
    Folder(Box<Folder>),
}

/// What was read: files, directories, and whether paths exist.
#[derive(Default)]
struct Kept {
    files: BTreeMap<PathBuf, Result<Vec<u8>, Unread>>,
    folders: BTreeMap<PathBuf, Result<Vec<String>, Unread>>,
    presence: BTreeMap<PathBuf, bool>,
    /// The container in which the machine's programs run. Many checks and sentences ask for it.
    container: Option<Option<Container>>,
    /// The bytes of the files above [`SMALL_BYTES`].
    bytes: u64,
}

/// A view of a machine. Slow facts (NVML, libcufile, commands, kernel symbols) are collected once and kept. Files and
/// paths are read again on each call.
pub struct Root {
    view: View,
    nvml: OnceLock<NvmlFacts>,
    libcufile: OnceLock<LibcufileFacts>,
    symbols: OnceLock<Result<BTreeSet<String>, Unread>>,
    commands: Mutex<BTreeMap<Vec<String>, &'static OnceLock<Option<CommandOutput>>>>,
    timings: Mutex<Vec<(String, Duration)>>,
    /// Files that were read in this round of checks; `None` outside a round.
    kept: Mutex<Option<Kept>>,
    pub(super) recording: Option<Mutex<Recording>>,
}

/// While this guard exists, each file is read only once; see [`Root::keep_reads`].
#[derive(Debug)]
pub struct KeptReads<'a> {
    root: &'a Root,
    /// A guard inside another one ends nothing.
    is_first: bool,
}

impl Drop for KeptReads<'_> {
    fn drop(&mut self) {
        if self.is_first {
            *self.root.kept() = None;
        }
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.view {
            View::Live(_) => f.write_str("Root(live)"),
            View::Folder(folder) => write!(f, "Root({})", folder.path().display()),
        }
    }
}

impl Root {
    /// Opens the live machine with the default options.
    #[must_use]
    pub fn live() -> Self {
        Self::live_with(LiveOptions::default())
    }

    /// Opens the live machine with the given limits and probes.
    #[must_use]
    pub fn live_with(options: LiveOptions) -> Self {
        let recording = options.record.then(Mutex::default);
        Self::new(View::Live(options), recording)
    }

    /// Opens a machine that was captured in a directory. The directory must contain `capture.json` or `files/`.
    ///
    /// # Errors
    /// Returns a sentence if the path is not a directory, the directory contains no capture, or one of its JSON files is
    /// malformed.
    pub fn folder(path: &Path) -> Result<Self, String> {
        Ok(Self::new(View::Folder(Box::new(Folder::open(path)?)), None))
    }

    /// Like [`Root::folder`], but records what is read. Tests make a new capture from a captured machine with it.
    /// Release builds do not contain it.
    ///
    /// # Errors
    /// See [`Root::folder`].
    #[cfg(debug_assertions)]
    pub fn folder_recorded(path: &Path) -> Result<Self, String> {
        let recording = Recording::below(path.join("files"));
        Ok(Self::new(View::Folder(Box::new(Folder::open(path)?)), Some(Mutex::new(recording))))
    }

    /// Opens a plain directory tree with the files of a machine: a temporary root, a chroot or a mounted disk. Its
    /// paths, GPUs and libraries are unknown.
    ///
    /// # Errors
    /// Returns a sentence if the path is not a directory.
    pub fn tree(path: &Path) -> Result<Self, String> {
        Ok(Self::new(View::Folder(Box::new(Folder::tree(path)?)), None))
    }

    /// Opens a machine that 'gds-top capture' wrote into a directory or an archive. An archive is unpacked into a
    /// temporary directory, which is removed with the view. An archive is rejected if an entry leads out of the directory,
    /// is not a file, directory or link, or exceeds a limit.
    ///
    /// # Errors
    /// Returns a sentence if the path cannot be read, does not contain a capture, or is rejected.
    pub fn open(path: &Path) -> Result<Self, String> {
        if path.is_dir() {
            return Self::folder(path);
        }
        let (unpacked, top) = super::archive::unpack(path)?;
        let folder = Folder::open(&top)
            .map_err(|why| why.replace(&top.display().to_string(), &path.display().to_string()))?
            .with_unpacked(unpacked);
        Ok(Self::new(View::Folder(Box::new(folder)), None))
    }

    /// Opens a directory with the files of a machine: a capture, or else a plain directory tree.
    ///
    /// # Errors
    /// See [`Root::folder`] and [`Root::tree`].
    pub fn stand_in(folder: &Path) -> Result<Self, String> {
        if folder.join("files").is_dir() || folder.join("capture.json").is_file() {
            Self::folder(folder)
        } else {
            Self::tree(folder)
        }
    }

    fn new(view: View, recording: Option<Mutex<Recording>>) -> Self {
        Self {
            view,
            nvml: OnceLock::new(),
            libcufile: OnceLock::new(),
            symbols: OnceLock::new(),
            commands: Mutex::default(),
            timings: Mutex::default(),
            kept: Mutex::default(),
            recording,
        }
    }

    /// Whether this is a view of the live machine.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.view, View::Live(_))
    }

    /// The paths that were examined for the capture; empty for a live view.
    #[must_use]
    pub fn captured_paths(&self) -> Vec<PathBuf> {
        match &self.view {
            View::Live(_) => Vec::new(),
            View::Folder(folder) => folder.paths(),
        }
    }

    /// Reads a file as text. Invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// Returns the reason why the file could not be read.
    pub fn read_text(&self, path: impl AsRef<Path>) -> Result<String, Unread> {
        self.read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a file as bytes.
    ///
    /// # Errors
    /// Returns the reason why the file could not be read.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Unread> {
        let path = path.as_ref();
        let mut most = max_bytes(path);
        if let Some(kept) = self.kept().as_ref() {
            if let Some(read) = kept.files.get(path) {
                return read.clone();
            }
            most = most.min(MAX_ROUND_BYTES.saturating_sub(kept.bytes).max(SMALL_BYTES));
        }
        let read = match &self.view {
            View::Live(_) => live::read_bytes(path, most),
            View::Folder(folder) => folder.read_bytes(path, most),
        };
        self.note(|r| r.file(path, &read));
        if let Some(kept) = self.kept().as_mut() {
            let bytes = match &read {
                Ok(bytes) => bytes.len() as u64,
                Err(Unread::TooLarge(most)) => *most,
                Err(_) => 0,
            };
            kept.bytes += if bytes > SMALL_BYTES { bytes } else { 0 };
            kept.files.insert(path.to_owned(), read.clone());
        }
        read
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Reads each file and directory only once until the guard is dropped, so that all checks of a round see the same content.
    #[must_use]
    pub fn keep_reads(&self) -> KeptReads<'_> {
        let mut kept = self.kept();
        let is_first = kept.is_none();
        kept.get_or_insert_default();
        KeptReads { root: self, is_first }
    }

    /// The container, which is determined only once until the guard of [`Root::keep_reads`] is dropped.
    pub(super) fn kept_container(&self, find: impl FnOnce() -> Option<Container>) -> Option<Container> {
        if let Some(found) = self.kept().as_ref().and_then(|kept| kept.container.clone()) {
            return found;
        }
        let found = find();
        if let Some(kept) = self.kept().as_mut() {
            kept.container = Some(found.clone());
        }
        found
    }

    /// The sorted names of the entries in a directory.
    ///
    /// # Errors
    /// Returns the reason why the directory could not be listed.
    pub fn entries(&self, path: impl AsRef<Path>) -> Result<Vec<String>, Unread> {
        let path = path.as_ref();
        if let Some(read) = self.kept().as_ref().and_then(|kept| kept.folders.get(path)) {
            return read.clone();
        }
        let read = match &self.view {
            View::Live(_) => live::entries(path),
            View::Folder(folder) => folder.entries(path),
        };
        self.note(|r| r.entries(path, &read));
        if let Some(kept) = self.kept().as_mut() {
            kept.folders.insert(path.to_owned(), read.clone());
        }
        read
    }

    /// The unresolved target of a link; `None` if the path is not a link.
    #[must_use]
    pub fn link(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let path = path.as_ref();
        let target = match &self.view {
            View::Live(_) => std::fs::read_link(path).ok(),
            View::Folder(folder) => folder.link(path),
        };
        self.note(|r| r.link(path, target.as_deref()));
        target
    }

    /// The path with all links resolved; `None` if it does not exist.
    #[must_use]
    pub fn resolve(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let path = path.as_ref();
        match &self.view {
            View::Live(_) => {
                let real = std::fs::canonicalize(path).ok();
                self.note(|r| r.resolved(path, real.as_deref()));
                real
            }
            View::Folder(folder) => folder.resolve(path),
        }
    }

    /// Whether the path exists, even if it is not readable.
    #[must_use]
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        if let Some(there) = self.kept().as_ref().and_then(|kept| kept.presence.get(path)) {
            return *there;
        }
        let there = match &self.view {
            View::Live(_) => std::fs::metadata(path).is_ok(),
            View::Folder(folder) => folder.exists(path),
        };
        self.note(|r| r.presence(path, there));
        if let Some(kept) = self.kept().as_mut() {
            kept.presence.insert(path.to_owned(), there);
        }
        there
    }

    /// Tests whether a device node or file can be opened for reading and writing. Nothing is written.
    ///
    /// # Errors
    /// Returns the reason why it could not be opened.
    pub fn opens(&self, path: impl AsRef<Path>) -> Result<(), Unread> {
        let path = path.as_ref();
        let opened = match &self.view {
            View::Live(_) => live::opens(path),
            View::Folder(folder) => folder.opens(path),
        };
        self.note(|r| r.opened(path, &opened));
        opened
    }

    /// Modification time of a file in seconds since 1970, with links followed; `None` if the file is missing or the
    /// time is unknown.
    #[must_use]
    pub fn modified_unix_s(&self, path: impl AsRef<Path>) -> Option<u64> {
        let path = path.as_ref();
        let when = match &self.view {
            View::Live(_) => live::modified_unix_s(path),
            View::Folder(folder) => folder.modified_unix_s(path),
        };
        self.note(|r| r.modified(path, when));
        when
    }

    /// The output of a command of the permitted list. `None` if the command is not installed, not captured or not
    /// permitted.
    #[must_use]
    pub fn command(&self, argv: &[&str]) -> Option<CommandOutput> {
        let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
        let options = match &self.view {
            View::Folder(folder) => {
                let output = folder.command(&argv);
                self.note(|r| r.command(&argv, output.as_ref()));
                return output;
            }
            View::Live(options) => options,
        };
        if !command::is_allowed(&argv) {
            return None;
        }
        // Each command has one cell, so that two threads that need the same output wait for one process. The list of
        // commands is short and fixed, so the leaked cells take only a few hundred bytes once.
        let cell = {
            let mut cells = self.commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *cells.entry(argv.clone()).or_insert_with(|| Box::leak(Box::default()))
        };
        let run = || match argv.as_slice() {
            words if words == KERNEL_MESSAGES => {
                let ran = command::run(&unstarted::WITH_TIMES.map(str::to_owned), options.command_limit)?;
                Some(CommandOutput { argv: argv.clone(), stdout: unstarted::without_times(&ran.stdout), ..ran })
            }
            words => command::run(words, options.command_limit),
        };
        let ask = || unstarted::answer(&argv).or_else(run);
        let output = cell.get_or_init(|| self.timed(&argv.join(" "), ask)).clone();
        self.note(|r| r.command(&argv, output.as_ref()));
        output
    }

    /// The environment variables that affect cuFile, CUDA and containers.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        match &self.view {
            View::Live(_) => live::environment(),
            View::Folder(folder) => folder.environment(),
        }
    }

    /// One of these environment variables.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        self.environment().remove(name)
    }

    /// The facts in the output of `nvidia-smi` of a capture. `None` on a live machine, where NVML answers.
    #[must_use]
    pub fn nvidia_smi(&self) -> Option<NvmlFacts> {
        if self.is_live() {
            return None;
        }
        let output = self.command(&["nvidia-smi"]).filter(|output| output.exit_code == Some(0))?;
        super::smi::table(&output.stdout)
    }

    /// The facts from NVML, or the reason why they are missing. The first call waits for NVML.
    #[must_use]
    pub fn nvml(&self) -> &NvmlFacts {
        self.nvml.get_or_init(|| match &self.view {
            View::Live(options) => self.timed("NVML", || nvml::ask_live(options.nvml_limit)),
            View::Folder(folder) => {
                let facts = folder.nvml();
                if facts.gpus.is_empty() { self.nvidia_smi().unwrap_or(facts) } else { facts }
            }
        })
    }

    /// The facts about libcufile from a child process, or the reason why they are missing. The first call waits for
    /// the process.
    #[must_use]
    pub fn libcufile(&self) -> &LibcufileFacts {
        self.libcufile.get_or_init(|| match &self.view {
            View::Live(options) => {
                let located = || options.locate_cufile.and_then(|locate| self.timed("libcufile", locate));
                let located = options.known_cufile.clone().or_else(located);
                match located {
                    Some(facts) => LibcufileFacts { left_closed: true, ..facts },
                    None => self.timed("libcufile, in a child", || {
                        cufile_probe::probe_live(options, self.read_bytes("/proc/modules").is_ok())
                    }),
                }
            }
            View::Folder(folder) => folder.libcufile(),
        })
    }

    /// The facts about libcufile, if they were already collected.
    #[must_use]
    pub fn libcufile_if_known(&self) -> Option<&LibcufileFacts> {
        match &self.view {
            View::Live(_) => self.libcufile.get(),
            View::Folder(_) => Some(self.libcufile()),
        }
    }

    /// The symbols of [`super::symbols::SYMBOLS`] that the kernel has, from `/proc/kallsyms`. All users can read the
    /// names, and addresses are not needed.
    ///
    /// # Errors
    /// Returns the reason why the list could not be read.
    pub fn symbols(&self) -> Result<BTreeSet<String>, Unread> {
        self.symbols
            .get_or_init(|| {
                let path = Path::new("/proc/kallsyms");
                let found = match &self.view {
                    View::Live(_) => self.timed("/proc/kallsyms", || live::symbols(path)),
                    View::Folder(folder) => {
                        folder.read_bytes(path, 4 * MAX_TEXT_BYTES).map(|bytes| symbols::found_in(bytes.as_slice()))
                    }
                };
                self.note(|r| r.symbols(&found));
                found
            })
            .clone()
    }

    /// The facts of a path; `None` if the capture did not examine the path.
    #[must_use]
    pub fn path_facts(&self, path: &Path) -> Option<PathFacts> {
        match &self.view {
            View::Live(options) => {
                let facts = self.timed(&path.display().to_string(), || path_facts::look_live(path, options.path_limit));
                self.note(|r| r.path(&facts));
                Some(facts)
            }
            View::Folder(folder) => {
                let facts = folder.path_facts(path);
                if let Some(facts) = &facts {
                    self.note(|r| r.path(facts));
                }
                facts
            }
        }
    }

    /// The effective user id; `None` if a capture does not contain it.
    #[must_use]
    pub fn euid(&self) -> Option<u32> {
        match &self.view {
            View::Live(_) => Some(rustix::process::geteuid().as_raw()),
            View::Folder(folder) => folder.euid(),
        }
    }

    /// Whether sudo is installed.
    #[must_use]
    pub fn has_sudo(&self) -> bool {
        const PROGRAMS: [&str; 4] = ["/usr/bin/sudo", "/bin/sudo", "/usr/local/bin/sudo", "/run/wrappers/bin/sudo"];
        match &self.view {
            View::Live(_) => PROGRAMS.iter().any(|path| Path::new(path).exists()),
            // Captures of earlier versions do not show it, and Proxmox VE is installed without sudo.
            View::Folder(folder) => folder.has_sudo().unwrap_or_else(|| {
                let release = self.read_text("/proc/sys/kernel/osrelease").unwrap_or_default();
                !release.trim_end().ends_with("-pve")
            }),
        }
    }

    /// Whether commands work only without sudo: this user is root, and sudo is not installed.
    #[must_use]
    pub fn is_root_without_sudo(&self) -> bool {
        self.euid() == Some(0) && !self.has_sudo()
    }

    /// The duration of each slow source, in the order of completion; empty for a captured machine. The sources are
    /// read at the same time, so the sum of the durations has no meaning.
    #[must_use]
    pub fn timings(&self) -> Vec<(String, Duration)> {
        self.timings.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn timed<T>(&self, source: &str, ask: impl FnOnce() -> T) -> T {
        let began = std::time::Instant::now();
        let answer = ask();
        let took = (source.to_owned(), began.elapsed());
        self.timings.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(took);
        answer
    }

    /// The file `/proc/1234/stat` of the kernel thread with the given name; `None` if there is none. Files of other
    /// processes are not kept.
    #[must_use]
    pub fn kernel_thread(&self, name: &str) -> Option<String> {
        let listed = match &self.view {
            View::Live(_) => live::entries(Path::new("/proc")),
            View::Folder(folder) => folder.entries(Path::new("/proc")),
        };
        listed.ok()?.into_iter().filter(|entry| entry.bytes().all(|b| b.is_ascii_digit())).find_map(|id| {
            let path = format!("/proc/{id}/stat");
            let read = match &self.view {
                View::Live(_) => live::read_bytes(Path::new(&path), 4096),
                View::Folder(folder) => folder.read_bytes(Path::new(&path), 4096),
            };
            let found = read.as_ref().is_ok_and(|stat| is_kernel_thread(stat, name));
            if found {
                self.note(|r| r.file(Path::new(&path), &read));
            }
            found.then_some(path)
        })
    }

    fn note(&self, write: impl FnOnce(&mut Recording)) {
        if let Some(recording) = &self.recording {
            write(&mut recording.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        }
    }
}
