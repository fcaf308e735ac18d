//! The libraries and files of a process in procfs, and the route of its reads that they suggest.

use crate::core::{MORE_FILES, OpenFile, SeenRoute, is_libcufile, os_error};
use crate::trust::Allowance;
use crate::trust::process::{self, has_these_mounts, is_own};
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Extensions of files that can be models. Other programs use some of them too, so the text calls them files.
const MODEL_ENDINGS: [&str; 6] = [".safetensors", ".gguf", ".bin", ".pt", ".pth", ".tensors"];
/// The bit of `O_DIRECT` in the octal flags of fdinfo, on x86-64 and on arm64 (include/uapi/asm-generic/fcntl.h,
/// arch/arm64).
pub(super) const O_DIRECT: u64 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };
/// Maximum number of listed mapped files of a process.
const MOST_MAPPED: usize = 1_000;
/// Maximum number of open model files of a process that are listed.
const MOST_OPEN: usize = 1_000;

/// The libraries and model files in the mappings of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Libraries {
    pub(super) cuda: bool,
    pub(super) cufile: Option<String>,
    pub(super) mapped: Vec<String>,
    /// The reason why the mappings cannot be read.
    pub(super) denied: Option<String>,
}

/// The number after a label at the start of a line.
pub(super) fn field(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(label))?.split_whitespace().next()?.parse().ok()
}

fn is_model(path: &str) -> bool {
    MODEL_ENDINGS.iter().any(|ending| path.ends_with(ending))
}

/// The libraries and model files that a process has mapped.
pub(super) fn libraries(folder: &Path, allowed: &mut Allowance) -> Libraries {
    let mut found = Libraries::default();
    let maps = match process::mappings(folder, allowed) {
        Ok(maps) => maps,
        // A process that ended meanwhile hides nothing.
        Err(_) if !folder.exists() => return found,
        Err(error) => {
            return Libraries { denied: Some(format!("maps: {}", os_error(&error))), ..found };
        }
    };
    let mut last = "";
    let mut known = HashSet::new();
    let mut left_out = false;
    for line in maps.lines() {
        // The path is the sixth field and may contain spaces. All mappings of a file are adjacent.
        let Some(path) = line.find('/').and_then(|at| line.get(at..)) else { continue };
        if path == last {
            continue;
        }
        last = path;
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.starts_with("libcuda.so") {
            found.cuda = true;
        } else if is_libcufile(Path::new(path)) {
            found.cufile = Some(name.to_owned());
        } else if is_model(path) && known.insert(path) && known.len() <= MOST_MAPPED {
            if !allowed.path(path) {
                left_out = true;
                continue;
            }
            found.mapped.push(path.to_owned());
        }
    }
    if left_out || known.len() > MOST_MAPPED {
        found.mapped.push(MORE_FILES.to_owned());
    }
    found
}

/// The open files of a process.
pub(super) struct Open {
    /// Those with endings of models.
    pub(super) models: Vec<OpenFile>,
    nvidia_fs: bool,
    /// Whether the process has a cufile.log open: libcufile opens it together with its driver.
    pub(super) log: bool,
}

/// The open files of a process that are models or devices of GDS; `None` without permission.
pub(super) fn open_files(folder: &Path, allowed: &mut Allowance) -> Option<Open> {
    let mut open = Open { models: Vec::new(), nvidia_fs: false, log: false };
    // A user who made the mounts of a process decides whether a file system answers.
    let has_sizes = is_own(folder) || has_these_mounts(folder);
    for entry in fs::read_dir(folder.join("fd")).ok()?.flatten() {
        if !allowed.descriptor() {
            break;
        }
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let path = target.to_string_lossy().into_owned();
        open.nvidia_fs |= path.starts_with("/dev/nvidia-fs");
        open.log |= path.ends_with("/cufile.log");
        if !is_model(&path) || open.models.len() >= MOST_OPEN || !allowed.path(&path) {
            continue;
        }
        let info = process::descriptor_facts(folder, &entry.file_name(), allowed);
        let flags = process::descriptor_flags(&info).unwrap_or(0);
        open.models.push(OpenFile {
            offset: field(&info, "pos:").unwrap_or(0),
            bytes: if has_sizes { fs::metadata(&target).ok().map(|m| m.len()) } else { None },
            direct: u64::from(flags) & O_DIRECT != 0,
            path,
        });
    }
    open.models.sort_by(|a, b| a.path.cmp(&b.path).then(b.direct.cmp(&a.direct)));
    open.models.dedup_by(|a, b| a.path == b.path && a.direct == b.direct && a.offset == b.offset);
    Some(open)
}

/// Whether open files show that a process uses cuFile without nvidia-fs, so that its settings and its log can show the
/// route. Many programs have libcufile mapped and never call it.
pub(super) fn needs_settings(libraries: &Libraries, open: Option<&Open>) -> bool {
    let uses_cufile = |open: &Open| !open.nvidia_fs && (open.log || open.models.iter().any(|file| file.direct));
    libraries.cufile.is_some() && open.is_some_and(uses_cufile)
}

/// The apparent route of a process's reads. It is inferred from outside the process, so it is never 'direct to the
/// GPU'. `is_compat` is whether settings and logs show that cuFile uses compat mode.
pub(super) fn seen_route(libraries: &Libraries, open: Option<&Open>, is_compat: bool) -> SeenRoute {
    let has = |direct: bool| open.is_some_and(|o| o.models.iter().any(|file| file.direct == direct));
    if needs_settings(libraries, open) {
        return if is_compat { SeenRoute::Compat } else { SeenRoute::Cufile };
    }
    match (&libraries.cufile, open) {
        (Some(_), Some(o)) if o.nvidia_fs => SeenRoute::NvidiaFs,
        (Some(_), None) => SeenRoute::Unknown,
        (None, _) if has(true) => SeenRoute::Direct,
        _ if !libraries.mapped.is_empty() => SeenRoute::Mapped,
        _ if has(false) => SeenRoute::Cached,
        _ => SeenRoute::Unknown,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn settings_show_the_route_only_of_a_process_with_signs_of_cufile() {
        let libraries = |is_mapped: bool| Libraries {
            cufile: Some("libcufile.so.0".to_owned()),
            mapped: is_mapped.then(|| "/m/a.bin".to_owned()).into_iter().collect(),
            ..Libraries::default()
        };
        let open = |files: &[bool], log, nvidia_fs| {
            let models = files.iter().map(|direct| OpenFile { direct: *direct, ..OpenFile::default() }).collect();
            Open { models, nvidia_fs, log }
        };
        // The route with settings that allow only compat mode, and with other settings.
        for (is_mapped, open, expected) in [
            (false, open(&[], false, false), [SeenRoute::Unknown; 2]),
            (false, open(&[false], false, false), [SeenRoute::Cached; 2]),
            (false, open(&[false], true, false), [SeenRoute::Compat, SeenRoute::Cufile]),
            (false, open(&[true], false, false), [SeenRoute::Compat, SeenRoute::Cufile]),
            (false, open(&[], true, false), [SeenRoute::Compat, SeenRoute::Cufile]),
            (true, open(&[], true, false), [SeenRoute::Compat, SeenRoute::Cufile]),
            (true, open(&[], false, false), [SeenRoute::Mapped, SeenRoute::Mapped]),
            (false, open(&[], true, true), [SeenRoute::NvidiaFs, SeenRoute::NvidiaFs]),
        ] {
            let libraries = libraries(is_mapped);
            assert_eq!([true, false].map(|is_compat| seen_route(&libraries, Some(&open), is_compat)), expected);
            assert_eq!(needs_settings(&libraries, Some(&open)), expected[0] == SeenRoute::Compat);
        }
        assert!(!needs_settings(&libraries(false), None), "open files of other users");
        let without = Libraries::default();
        assert_eq!(seen_route(&without, Some(&open(&[false], false, false)), false), SeenRoute::Cached);
    }

    #[test]
    fn of_many_mapped_files_the_first_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let maps = |count: usize| -> String {
            (0..count).map(|n| format!("7f{n:x} r--s 0 08:01 {n} /m/{n}.safetensors\n")).collect()
        };
        let mapped = |count: usize| {
            fs::write(folder.path().join("maps"), maps(count)).unwrap();
            libraries(folder.path(), &mut Allowance::unlimited()).mapped
        };
        let (few, many) = (mapped(MOST_MAPPED), mapped(MOST_MAPPED + 1));
        assert_eq!(few.len(), MOST_MAPPED);
        assert!(!few.contains(&MORE_FILES.to_owned()));
        assert_eq!(many.len(), MOST_MAPPED + 1);
        assert_eq!(many.last().map(String::as_str), Some(MORE_FILES));
    }
}
