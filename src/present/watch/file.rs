//! The texts about a watched file: its name, its route and the evidence for the route.

use crate::core::units::plural;
use crate::core::{Route, TensorsUnknown, WatchReport, WatchedFile};
use crate::present::view::GAP;

/// Whether cuFile used a file.
#[must_use]
pub fn is_of_cufile(file: &WatchedFile) -> bool {
    file.reads.count + file.writes.count + file.registrations > 0
}

/// Bytes of a file that were moved by any method.
pub(in crate::present) fn moved(file: &WatchedFile) -> u64 {
    [file.reads.bytes, file.writes.bytes, file.plain.bytes, file.plain.touched_bytes]
        .into_iter()
        .fold(0, u64::saturating_add)
}

/// From this size on, a file that is not a part of a program can be a model or a cache.
pub(super) const LARGE: u64 = 1 << 20;

/// Whether at least 1 MiB of a file was moved, or mapped if it is not a part of a program. If there is one, short lists
/// leave out smaller files without cuFile: next to a model, the modules of an interpreter do not matter.
pub(in crate::present) fn is_large(file: &WatchedFile) -> bool {
    moved(file) >= LARGE || file.plain.mapped_bytes >= LARGE && !is_of_program(&file.path)
}

/// Directories of programs and their data, in which there are no models.
const SYSTEM: [&str; 9] =
    ["/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/etc/", "/var/cache/", "/var/log/", "/run/"];
/// Endings of the modules of an interpreter and of libraries.
const MODULES: [&str; 3] = [".pyc", ".py", ".so"];

/// Whether a file is a part of a program: by its directory, or because it is a module.
pub(super) fn is_of_program(path: &str) -> bool {
    let is_module = MODULES.iter().any(|ending| path.ends_with(ending)) || path.contains("/site-packages/");
    is_module || SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// The path of a file. If the file contains a chunk of a KV cache, the chunk is named too.
pub(in crate::present) fn name(file: &WatchedFile) -> String {
    let Some(kv) = &file.kv else { return file.path.clone() };
    let layer = match &kv.layer {
        Some(layer) if layer.bytes().all(|byte| byte.is_ascii_digit()) => format!(" layer {layer}"),
        Some(layer) => format!(" {layer}"),
        None => String::new(),
    };
    let chunk: String = kv.chunk.chars().take(12).collect();
    format!("{} chunk {chunk}{layer}: {}", kv.system, file.path)
}

/// The safetensors files whose tensors are not known, with the reason for the first one.
pub(super) fn unknown_tensors(report: &WatchReport) -> Option<String> {
    let mut unknown = report.files.iter().filter_map(|file| Some((name(file), file.tensors_unknown?)));
    let (first, why) = unknown.next()?;
    let why = match why {
        TensorsUnknown::OtherFile => "another file is at its path",
        TensorsUnknown::NotRead => "its header was not read",
    };
    let more = match unknown.count() as u64 {
        0 => String::new(),
        more => format!(", and for {}", plural(more, "other file")),
    };
    Some(format!("unknown for {first} ({why}){more}"))
}

/// The route of a file's transfers, and whether it is inferred: `compat, inferred`.
pub(in crate::present) fn route(file: &WatchedFile) -> String {
    match (file.route, file.proven) {
        (Route::None, _) => GAP.to_owned(),
        (route, true) => route.to_string(),
        (route, false) => format!("{route}, inferred"),
    }
}

/// The reason why a test of the file fails: failed calls, or a missing proof of a direct route if one is required.
#[must_use]
pub fn file_failure(file: &WatchedFile, requires_direct: bool) -> Option<String> {
    let failed = [file.reads.errors, file.writes.errors, file.failed_registrations];
    match failed.into_iter().fold(0, u64::saturating_add) {
        0 if requires_direct && file.moved() > 0 && !(file.proven && file.route.is_direct()) => {
            Some("A direct route is not proven.".to_owned())
        }
        0 => None,
        failed => Some(format!("{} failed.", plural(failed, "call"))),
    }
}
