//! Tests which versions of glibc symbols the program needs. A release must run on glibc 2.28 (RHEL 8, Debian 10). A
//! local build may need the versions of this machine's start-up files, but nothing newer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod program;

use object::elf::FileHeader64;
use object::read::elf::{Dyn, FileHeader, Sym};
use object::{Endianness, elf};
use std::collections::BTreeSet;
use std::path::Path;

/// A version of glibc as (major, minor).
type Glibc = (u32, u32);

/// The newest version that a released program may need.
const RELEASE: Glibc = (2, 28);

/// glibc 2.34 merged libpthread and libdl into libc. Their symbols and the start-up code have that version. A linker
/// on a newer system uses it.
const NATIVE: Glibc = (2, 34);

/// The name of each imported symbol with its version of glibc.
fn needed(data: &[u8]) -> Vec<(String, Glibc)> {
    let header = FileHeader64::<Endianness>::parse(data).expect("a 64-bit ELF file");
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, data).unwrap();
    let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM).unwrap();
    // A library that needs no other library has no version table.
    let Some(versions) = sections.versions(endian, data).unwrap() else { return Vec::new() };
    let glibc = |name: &[u8]| {
        let (major, minor) = std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?.split_once('.')?;
        // "2.2.5" counts as 2.2.
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    };
    let of = |index| {
        let version = versions.version(versions.version_index(endian, index)).ok()??;
        glibc(version.name())
    };
    symbols
        .enumerate()
        .filter_map(|(index, symbol)| {
            let name = symbols.symbol_name(endian, symbol).ok()?;
            Some((String::from_utf8_lossy(name).into_owned(), of(index)?))
        })
        .collect()
}

/// The symbols that are newer than a version, in a program and in the library that `watch` loads into other programs.
/// In a container, other programs may run on an older glibc than this one.
fn newer(program: &Path, newest: Glibc) -> Vec<(String, Glibc)> {
    let data = std::fs::read(program).unwrap();
    let of_program = needed(&data);
    assert!(!of_program.is_empty(), "{} imports no symbol of glibc", program.display());
    let libraries = embedded(&data);
    // A build without optimization may contain a copy of the constant in each unit that uses it.
    assert!(!libraries.is_empty(), "{} contains no library", program.display());
    let of_library = libraries.iter().flat_map(|library| needed(library));
    of_program.into_iter().chain(of_library).filter(|(_, version)| *version > newest).collect()
}

/// Copies of the ELF files within a program, each to the end of the program. They are copied because they are not
/// aligned in the program.
fn embedded(data: &[u8]) -> Vec<Vec<u8>> {
    let starts = data.windows(7).enumerate().skip(1).filter(|(_, bytes)| *bytes == b"\x7fELF\x02\x01\x01");
    starts
        .map(|(at, _)| data[at..].to_vec())
        .filter(|file| {
            let Ok(header) = FileHeader64::<Endianness>::parse(file.as_slice()) else { return false };
            let Ok(endian) = header.endian() else { return false };
            header.sections(endian, file.as_slice()).is_ok_and(|sections| sections.len() > 1)
        })
        .collect()
}

#[test]
fn the_program_needs_no_symbol_that_glibc_added_after_its_merge() {
    assert_eq!(newer(Path::new(program::PROGRAM), NATIVE), []);
}

/// The dynamic linker loads the library into programs that have no other library than libc. An unresolved symbol, for
/// example `rust_eh_personality`, ends each of them at its start.
#[test]
fn the_recording_library_needs_only_symbols_of_glibc() {
    let program = std::fs::read(program::PROGRAM).unwrap();
    for library in embedded(&program) {
        let data = library.as_slice();
        let header = FileHeader64::<Endianness>::parse(data).unwrap();
        let endian = header.endian().unwrap();
        let sections = header.sections(endian, data).unwrap();
        let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM).unwrap();
        let of_glibc: BTreeSet<String> = needed(data).into_iter().map(|(name, _)| name).collect();
        let mut missing = Vec::new();
        for symbol in symbols.iter().skip(1).filter(|symbol| symbol.is_undefined(endian) && !symbol.is_weak()) {
            let name = String::from_utf8_lossy(symbols.symbol_name(endian, symbol).unwrap()).into_owned();
            if !of_glibc.contains(&name) {
                missing.push(name);
            }
        }
        assert_eq!((missing, of_glibc.contains("clock_gettime")), (Vec::<String>::new(), true));
        let (entries, strings) = sections.dynamic(endian, data).unwrap().unwrap();
        let strings = sections.strings(endian, data, strings).unwrap();
        let libraries = entries.iter().filter(|entry| entry.tag32(endian).map(i64::from) == Some(elf::DT_NEEDED));
        for library in libraries {
            let name = String::from_utf8_lossy(library.string(endian, strings).unwrap()).into_owned();
            assert!(name == "libc.so.6" || name.starts_with("ld-linux"), "{name}");
        }
    }
}

/// `.ci/release` passes the programs that it built.
#[test]
fn released_programs_run_on_glibc_2_28() {
    let Some(programs) = std::env::var_os("GDS_TOP_RELEASED") else {
        eprintln!("skipped: GDS_TOP_RELEASED names no released program; .ci/release does");
        return;
    };
    let mut seen = 0;
    for program in std::env::split_paths(&programs) {
        assert_eq!(newer(&program, RELEASE), [], "{}", program.display());
        seen += 1;
    }
    assert!(seen > 0, "GDS_TOP_RELEASED is empty");
}

/// Tests the test itself: if this machine's glibc is new enough, its libm binds `hypot` to 2.35, and the function
/// must find such a version.
#[test]
fn versions_of_a_system_program_are_read() {
    let shell = Path::new("/bin/sh");
    let data = std::fs::read(shell).unwrap_or_default();
    if FileHeader64::<Endianness>::parse(&*data).is_err() {
        eprintln!("skipped: /bin/sh is not a 64-bit ELF file");
        return;
    }
    let needed = needed(&data);
    assert!(needed.iter().any(|(name, _)| name == "__libc_start_main"), "{needed:?}");
}
