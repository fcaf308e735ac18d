//! The copies of libcufile, the settings and the files of a running process, as procfs shows them.

use super::outside;
use super::probes;
use super::settings::Settings;
use crate::core::{AttachedFile, MORE_FILES, is_libcufile};
use crate::trust::Allowance;
use crate::trust::process::{descriptor_facts, descriptor_flags, folder, has_these_mounts, is_own};
use procfs::process::{MMPermissions, MMapPath};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum number of listed files of a process.
pub(super) const MOST_FILES: usize = 10_000;
/// Maximum number of descriptors of a file whose flags are read. The kernel writes all locks of a file after the flags.
const MOST_FLAGS: u64 = 16;
/// The bit of O_DIRECT in the flags of a descriptor.
const O_DIRECT: u32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };

/// The copies of libcufile that a process has mapped, and its settings if it has a copy and they are not known.
pub(super) struct Copies {
    pub(super) mapped: Vec<((u64, u64), PathBuf)>,
    pub(super) settings: Option<Settings>,
}

impl Copies {
    /// `known` is the address of the first copy of the program whose settings are known. Another program in the process can
    /// have another environment, and its copies have other addresses.
    pub(super) fn of(pid: u32, known: Option<u64>, allowed: &mut Allowance) -> Self {
        let mut mapped: Vec<((u64, u64), PathBuf)> = Vec::new();
        for map in outside::maps(pid, allowed).into_iter().flatten() {
            let MMapPath::Path(path) = map.pathname else { continue };
            let is_new = || !mapped.iter().any(|(_, known)| *known == path);
            if is_libcufile(&path) && mapped.len() < probes::MOST_COPIES && is_new() {
                mapped.push((map.address, path));
            }
        }
        let first = mapped.first().map(|((address, _), _)| *address);
        let settings = first.filter(|_| first != known).and_then(|_| Settings::of(pid, allowed));
        Self { mapped, settings }
    }
}

/// The open and mapped files of a process.
pub(super) struct Files {
    pub(super) readable: bool,
    pub(super) has_foreign_mounts: bool,
    pub(super) libcufile: Option<String>,
    pub(super) files: BTreeMap<String, AttachedFile>,
}

impl Files {
    pub(super) fn of(pid: u32, allowed: &mut Allowance) -> Self {
        Self::in_folder(&folder(pid.cast_signed()), allowed)
    }

    /// The files of the process with this directory in procfs.
    fn in_folder(process: &Path, allowed: &mut Allowance) -> Self {
        let maps = outside::maps_in(process, allowed);
        let descriptors = std::fs::read_dir(process.join("fd"));
        let readable = maps.is_ok() && descriptors.is_ok();
        // Its paths name other files here, and the user decides whether their file systems answer.
        let is_foreign = !is_own(process) && !has_these_mounts(process);
        let is_listed = |path: &Path| !is_foreign && is_data(path);
        let mut libcufile = None;
        let mut files = BTreeMap::new();
        let mut last = PathBuf::new();
        for map in maps.into_iter().flatten() {
            let MMapPath::Path(path) = map.pathname else { continue };
            if path == last {
                continue;
            }
            if is_libcufile(&path) {
                libcufile = Some(path.to_string_lossy().into_owned());
            }
            // All mappings of a file are adjacent, and a part of a library can be executed.
            if map.perms.contains(MMPermissions::EXECUTE) || is_library(&path) {
                continue;
            }
            if !allowed.may_go_on() {
                break;
            }
            if is_listed(&path) {
                entry(&mut files, &path, allowed).mapped = true;
            }
            last = path;
        }
        for descriptor in descriptors.into_iter().flatten().flatten() {
            if !allowed.descriptor() {
                break;
            }
            let Ok(path) = descriptor.path().read_link() else { continue };
            if !is_listed(&path) {
                continue;
            }
            let file = entry(&mut files, &path, allowed);
            if file.descriptors < MOST_FLAGS {
                let facts = descriptor_facts(process, &descriptor.file_name(), allowed);
                let direct = descriptor_flags(&facts).is_some_and(|flags| flags & O_DIRECT != 0);
                file.o_direct = direct && (file.o_direct || file.descriptors == 0);
            }
            file.descriptors += 1;
        }
        Self { readable, has_foreign_mounts: readable && is_foreign, libcufile, files }
    }
}

fn entry<'a>(
    files: &'a mut BTreeMap<String, AttachedFile>,
    path: &Path,
    allowed: &mut Allowance,
) -> &'a mut AttachedFile {
    let mut path = path.to_string_lossy().into_owned();
    if !files.contains_key(&path) && (files.len() >= MOST_FILES || !allowed.path(&path)) {
        path = MORE_FILES.to_owned();
    }
    files.entry(path.clone()).or_insert_with(|| {
        let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
        AttachedFile { path, bytes, ..AttachedFile::default() }
    })
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

fn is_library(path: &Path) -> bool {
    name(path).ends_with(".so") || name(path).contains(".so.")
}

/// Whether a path is a regular file outside /proc and /sys. Models can be in /dev/shm.
fn is_data(path: &Path) -> bool {
    path.is_absolute() && !["/proc", "/sys"].iter().any(|folder| path.starts_with(folder)) && path.is_file()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn no_file_of_foreign_mounts_is_looked_for_if_the_mappings_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let process = dir.path().join("7");
        std::fs::create_dir_all(process.join("fd")).unwrap();
        let file = dir.path().canonicalize().unwrap().join("data");
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, process.join("fd/3")).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let number_of_files = [own, own + 1].map(|user| {
            std::fs::write(process.join("status"), format!("Uid:\t{user}\t{user}\t{user}\t{user}\n")).unwrap();
            Files::in_folder(&process, &mut Allowance::unlimited()).files.len()
        });
        assert_eq!(number_of_files, [1, 0]);
    }

    #[test]
    fn the_settings_of_another_program_in_a_process_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("libcufile.so.0");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let start = Instant::now();
        // Another test may just fork, and its child has the new file open for a moment.
        let mut child = loop {
            match Command::new(&program).arg0("sleep").arg("60").spawn() {
                Ok(child) => break child,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ExecutableFileBusy),
            }
            assert!(start.elapsed() < Duration::from_secs(60));
        };
        let of = |known| Copies::of(child.id(), known, &mut Allowance::unlimited());
        // While a program starts, it has no variables for a moment.
        let mut first = of(None);
        while first.settings.is_none() && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
            first = of(None);
        }
        let ((address, _), _) = first.mapped[0];
        let has_settings = [None, Some(address), Some(address + 1)].map(|known| of(known).settings.is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(has_settings, [true, false, true]);
    }
}
