//! Records everything that a view of a machine reads.

use super::command::CommandOutput;
use super::path_facts::PathFacts;
use super::redact::Redactor;
use super::unread::Unread;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The object found at a path.
pub(super) enum Seen {
    Bytes(Vec<u8>),
    Denied(String),
    Folder,
    Link(PathBuf),
    Present,
}

/// Everything that a view has read.
#[derive(Default)]
pub(super) struct Recording {
    /// The directory with the files of a captured machine; `None` for the live machine.
    base: Option<PathBuf>,
    pub(super) files: BTreeMap<PathBuf, Seen>,
    pub(super) commands: BTreeMap<Vec<String>, CommandOutput>,
    pub(super) paths: BTreeMap<PathBuf, PathFacts>,
    pub(super) times: BTreeMap<PathBuf, u64>,
}

impl Recording {
    /// A recording of a captured machine whose files are below `base`.
    #[cfg(debug_assertions)]
    pub(super) fn below(base: PathBuf) -> Self {
        Self { base: Some(base), ..Self::default() }
    }

    /// The path on this system of a file of the machine.
    fn at(&self, path: &Path) -> PathBuf {
        self.base.as_ref().map_or_else(|| path.to_owned(), |base| base.join(path.strip_prefix("/").unwrap_or(path)))
    }

    /// The path on the machine with all links resolved.
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
            // Devices, sockets and FIFOs are recorded as directories, so that a capture never reads them as files.
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
            // Only the symbols that checks need are kept, because the complete list has about 10 MB.
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

    /// Keeps the entry with the most information. An entry with content replaces an entry that only exists.
    fn put(&mut self, path: &Path, seen: Seen) {
        let rank = |seen: &Seen| match seen {
            Seen::Present => 0,
            Seen::Folder => 1,
            Seen::Denied(_) => 2,
            Seen::Bytes(_) => 3,
            Seen::Link(_) => 4,
        };
        // A path with links (`/sys/bus/pci/devices/X/vendor`) is stored at its real path, and each link in it is
        // stored as a link.
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

    /// A redactor that knows the names of this machine and all serial numbers that were read.
    pub(super) fn redactor(&self, live: bool, environment: &BTreeMap<String, String>) -> Redactor {
        let mut redactor = Redactor::default();
        let name = Path::new("/proc/sys/kernel/hostname");
        if let Some(Seen::Bytes(bytes)) = self.files.get(name) {
            redactor.host(&String::from_utf8_lossy(bytes));
        }
        if let Some(Seen::Bytes(bytes)) = self.files.get(Path::new("/var/mmfs/gen/mmfs.cfg")) {
            redactor.cluster(&String::from_utf8_lossy(bytes));
        }
        if live {
            redactor.host(&fs::read_to_string(name).unwrap_or_default());
            redactor.people(&fs::read_to_string("/etc/passwd").unwrap_or_default());
            // `/etc/passwd` does not list the users of a directory service (LDAP, Active Directory).
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

fn reason(why: &Unread) -> String {
    match why {
        Unread::Denied(denial) => denial.message().to_owned(),
        Unread::Failed(words) => words.clone(),
        other => other.to_string(),
    }
}
