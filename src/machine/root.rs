//! `Root`: one view of a machine with the same methods whether it is the live one or a captured folder.

use super::command::{self, CommandOutput};
use super::folder::Folder;
use super::libcufile::{self, LibcufileFacts};
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

/// Most bytes of one file that a view reads; longer ones are [`Unread::TooLarge`].
pub const MAX_TEXT_BYTES: u64 = 16 << 20;

#[allow(clippy::large_enum_variant, reason = "there is one a machine")]
enum View {
    Live(LiveOptions),
    Folder(Box<Folder>),
}

/// Files that were read, each with its content or why it could not be read.
type Kept = BTreeMap<PathBuf, Result<Vec<u8>, Unread>>;

/// A view of a machine. Slow answers (NVML, libcufile, commands, kernel symbols) are fetched once and kept; files and
/// paths are read again each time.
pub struct Root {
    view: View,
    nvml: OnceLock<NvmlFacts>,
    libcufile: OnceLock<LibcufileFacts>,
    symbols: OnceLock<Result<BTreeSet<String>, Unread>>,
    commands: Mutex<BTreeMap<Vec<String>, &'static OnceLock<Option<CommandOutput>>>>,
    timings: Mutex<Vec<(String, Duration)>>,
    /// Files that were read in this round of checks; `None` outside of a round.
    kept: Mutex<Option<Kept>>,
    pub(super) recording: Option<Mutex<Recording>>,
}

/// Files are read once while this exists; see [`Root::keep_reads`].
#[derive(Debug)]
pub struct KeptReads<'a> {
    root: &'a Root,
}

impl Drop for KeptReads<'_> {
    fn drop(&mut self) {
        *self.root.kept() = None;
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
    /// The live machine, probed in the usual way.
    #[must_use]
    pub fn live() -> Self {
        Self::live_with(LiveOptions::default())
    }

    /// The live machine, with limits and probe of the caller's choice.
    #[must_use]
    pub fn live_with(options: LiveOptions) -> Self {
        let recording = options.record.then(Mutex::default);
        Self::new(View::Live(options), recording)
    }

    /// A machine captured in a folder. A folder without `capture.json` and without `files/` is refused.
    ///
    /// # Errors
    /// A sentence, when the folder is none or holds no capture, or when one of its JSON files is malformed.
    pub fn folder(path: &Path) -> Result<Self, String> {
        Ok(Self::new(View::Folder(Box::new(Folder::open(path)?)), None))
    }

    /// The same, keeping what is read, so that a capture can be taken of a captured machine, with the present
    /// redaction.
    ///
    /// # Errors
    /// As [`Root::folder`].
    pub fn folder_recorded(path: &Path) -> Result<Self, String> {
        let recording = Recording::below(path.join("files"));
        Ok(Self::new(View::Folder(Box::new(Folder::open(path)?)), Some(Mutex::new(recording))))
    }

    /// A plain tree of files that represents a machine's root: a temporary root, a chroot, a mounted disk. Its paths,
    /// GPUs and libraries are unknown.
    ///
    /// # Errors
    /// A sentence, if it is not a folder.
    pub fn tree(path: &Path) -> Result<Self, String> {
        Ok(Self::new(View::Folder(Box::new(Folder::tree(path)?)), None))
    }

    /// A machine captured in a folder or in an archive, as 'gds-top capture' writes them. An archive is unpacked into
    /// a temporary folder that goes with the view. Entries that lead out of the directory, are not files, directories
    /// or links, or exceed a bound are rejected.
    ///
    /// # Errors
    /// A sentence, if it cannot be read, is hostile, or does not contain a capture.
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

    /// A folder that represents a machine: a captured one, or else a plain tree.
    ///
    /// # Errors
    /// As [`Root::folder`] and [`Root::tree`].
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

    /// Whether this is the machine we run on.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.view, View::Live(_))
    }

    /// The paths that were examined when the capture was taken; empty on a live view.
    #[must_use]
    pub fn captured_paths(&self) -> Vec<PathBuf> {
        match &self.view {
            View::Live(_) => Vec::new(),
            View::Folder(folder) => folder.paths(),
        }
    }

    /// The text of a file; invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// Why it could not be read.
    pub fn read_text(&self, path: impl AsRef<Path>) -> Result<String, Unread> {
        self.read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// Why it could not be read.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Unread> {
        let path = path.as_ref();
        if let Some(read) = self.kept().as_ref().and_then(|kept| kept.get(path)) {
            return read.clone();
        }
        let read = match &self.view {
            View::Live(_) => live::read_bytes(path, MAX_TEXT_BYTES),
            View::Folder(folder) => folder.read_bytes(path, MAX_TEXT_BYTES),
        };
        self.note(|r| r.file(path, &read));
        if let Some(kept) = self.kept().as_mut() {
            kept.insert(path.to_owned(), read.clone());
        }
        read
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Reads each file once until the guard is dropped, so that all checks of a round see the same content.
    #[must_use]
    pub fn keep_reads(&self) -> KeptReads<'_> {
        *self.kept() = Some(BTreeMap::new());
        KeptReads { root: self }
    }

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// Why it could not be listed.
    pub fn entries(&self, path: impl AsRef<Path>) -> Result<Vec<String>, Unread> {
        let path = path.as_ref();
        let read = match &self.view {
            View::Live(_) => live::entries(path),
            View::Folder(folder) => folder.entries(path),
        };
        self.note(|r| r.entries(path, &read));
        read
    }

    /// The target of a link, as written in it; `None` without a link.
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

    /// The path with every link resolved; `None` where it does not exist.
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

    /// Whether something is there, readable or not.
    #[must_use]
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        let there = match &self.view {
            View::Live(_) => std::fs::metadata(path).is_ok(),
            View::Folder(folder) => folder.exists(path),
        };
        self.note(|r| r.presence(path, there));
        there
    }

    /// Whether a device node or file can be opened for reading and writing. Nothing is written.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub fn opens(&self, path: impl AsRef<Path>) -> Result<(), Unread> {
        let path = path.as_ref();
        let opened = match &self.view {
            View::Live(_) => live::opens(path),
            View::Folder(folder) => folder.opens(path),
        };
        self.note(|r| r.opened(path, &opened));
        opened
    }

    /// When a file was last changed, in seconds since 1970, links followed; `None` if it is missing or not known.
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

    /// The output of an allow-listed command; `None` if it is not installed, not captured or not on the list.
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
        // One cell for each command, so that two threads that ask for the same one wait for one run. The list of commands is short and
        // fixed, so leaking the cells costs a few hundred bytes once.
        let cell = {
            let mut cells = self.commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *cells.entry(argv.clone()).or_insert_with(|| Box::leak(Box::default()))
        };
        let ask = || unstarted::answer(&argv).or_else(|| command::run(&argv, options.command_limit));
        let output = cell.get_or_init(|| self.timed(&argv.join(" "), ask)).clone();
        self.note(|r| r.command(&argv, output.as_ref()));
        output
    }

    /// The environment variables that matter to cuFile, CUDA and containers.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        match &self.view {
            View::Live(_) => live::environment(),
            View::Folder(folder) => folder.environment(),
        }
    }

    /// One environment variable of those that matter.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        self.environment().remove(name)
    }

    /// The facts of NVML, or the reason why there are none. Waits for it the first time.
    #[must_use]
    pub fn nvml(&self) -> &NvmlFacts {
        self.nvml.get_or_init(|| match &self.view {
            View::Live(options) => self.timed("NVML", || nvml::ask_live(options.nvml_limit)),
            View::Folder(folder) => folder.nvml(),
        })
    }

    /// The facts of libcufile from a child process, or the reason why they are missing. Waits for it the first time.
    #[must_use]
    pub fn libcufile(&self) -> &LibcufileFacts {
        self.libcufile.get_or_init(|| match &self.view {
            View::Live(options) => self.timed("libcufile, in a child", || {
                libcufile::probe_live(options, self.read_bytes("/proc/modules").is_ok())
            }),
            View::Folder(folder) => folder.libcufile(),
        })
    }

    /// The facts of libcufile, if it was probed before.
    #[must_use]
    pub fn libcufile_if_known(&self) -> Option<&LibcufileFacts> {
        match &self.view {
            View::Live(_) => self.libcufile.get(),
            View::Folder(_) => Some(self.libcufile()),
        }
    }

    /// Which of [`super::SYMBOLS`] the kernel has, from `/proc/kallsyms` (names are visible to all users, addresses are not
    /// needed).
    ///
    /// # Errors
    /// Why the list could not be read.
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

    /// The facts about a path; `None` on a capture that did not examine it.
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

    /// The time of each slow source, in the order of completion; empty on a captured machine. Sources are read at the
    /// same time, so their sum has no meaning.
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

    /// The place of a process or kernel thread of that name, `/proc/1234/comm`; `None` without one. Names of others
    /// are not kept.
    #[must_use]
    pub fn process_named(&self, name: &str) -> Option<String> {
        let listed = match &self.view {
            View::Live(_) => live::entries(Path::new("/proc")),
            View::Folder(folder) => folder.entries(Path::new("/proc")),
        };
        listed.ok()?.into_iter().filter(|entry| entry.bytes().all(|b| b.is_ascii_digit())).find_map(|id| {
            let path = format!("/proc/{id}/comm");
            let read = match &self.view {
                View::Live(_) => live::read_bytes(Path::new(&path), 64),
                View::Folder(folder) => folder.read_bytes(Path::new(&path), 64),
            };
            let found = read.as_ref().is_ok_and(|bytes| bytes.trim_ascii() == name.as_bytes());
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
