//! Finds out why a program did not load the recording library.

use crate::core::NotLoaded;
use crate::trust::open_regular;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use rustix::fs::getxattr;
use rustix::process::{getegid, geteuid};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The bits set-user-ID and set-group-ID of a mode.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
/// The extended attribute with the capabilities of a file.
const CAPABILITIES: &str = "security.capability";
/// The start of the file that is read. It contains the program headers and the name of the linker.
const START_BYTES: u64 = 1 << 20;

/// The reason why the linker did not load the library into this program. `None` if it is unknown.
pub(super) fn reason(program: &OsStr) -> Option<NotLoaded> {
    let path = find(program)?;
    // Such a program may be executable without being readable.
    if has_other_rights(&path, &std::fs::metadata(&path).ok()?) {
        return Some(NotLoaded::ElevatedRights);
    }
    let mut bytes = Vec::new();
    open_regular(&path).ok()?.take(START_BYTES).read_to_end(&mut bytes).ok()?;
    of_linker(&bytes)
}

/// The file of a program, found as `execvp` finds it.
pub(super) fn find(program: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(PathBuf::from(program));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn has_other_rights(path: &Path, file: &Metadata) -> bool {
    let mode = file.permissions().mode();
    let sets_user = mode & SET_USER != 0 && file.uid() != geteuid().as_raw();
    let sets_group = mode & SET_GROUP != 0 && file.gid() != getegid().as_raw();
    let has_capabilities = || getxattr(path, CAPABILITIES, &mut [0_u8; 64]).is_ok_and(|bytes| bytes > 0);
    sets_user || sets_group || has_capabilities()
}

/// The reason in the program headers.
fn of_linker(bytes: &[u8]) -> Option<NotLoaded> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let mut linkers = header
        .program_headers(endian, bytes)
        .ok()?
        .iter()
        .filter_map(|part| part.interpreter(endian, bytes).transpose());
    match linkers.next() {
        None => Some(NotLoaded::Static),
        Some(Ok(linker)) => {
            let name = linker.rsplit(|byte| *byte == b'/').next().unwrap_or(linker);
            (!name.starts_with(b"ld-linux")).then_some(NotLoaded::OtherLibc)
        }
        Some(Err(_)) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_in_the_mode_or_the_program_headers() {
        // This test uses the linker of glibc, so no reason is known for it.
        let own = std::env::current_exe().unwrap();
        assert_eq!(reason(own.as_os_str()), None);
        assert_eq!(reason(OsStr::new("/no/such/program")), None);
        let mut bytes = std::fs::read(&own).unwrap();
        bytes.truncate(START_BYTES as usize);
        let name = b"/ld-linux";
        let at = bytes.windows(name.len()).position(|part| part == name).unwrap();
        bytes[at + 1..at + 8].copy_from_slice(b"ld-musl");
        assert_eq!(of_linker(&bytes), Some(NotLoaded::OtherLibc));
        // The number of program headers.
        bytes[56..58].fill(0);
        assert_eq!(of_linker(&bytes), Some(NotLoaded::Static));
        assert_eq!(of_linker(b"#!/bin/sh\n"), None);
    }
}
