//! Finds the functions that a library exports in its file.

use cufile_audit::layout::{FUNCTIONS, Function};
use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum size in bytes. libcufile has 3 MiB, so a larger file is not libcufile.
const MOST_BYTES: u64 = 64 << 20;

/// Functions that open or close the driver, register memory or files, or move data.
const PROBED: [Function; 22] = [
    Function::DriverOpen,
    Function::DriverClose,
    Function::DriverCloseV2,
    Function::DriverGetProperties,
    Function::GetVersion,
    Function::HandleRegister,
    Function::HandleDeregister,
    Function::BufRegister,
    Function::BufDeregister,
    Function::Read,
    Function::Write,
    Function::Readv,
    Function::Writev,
    Function::ReadAsync,
    Function::WriteAsync,
    Function::StreamRegister,
    Function::StreamDeregister,
    Function::BatchSetUp,
    Function::BatchSubmit,
    Function::BatchGetStatus,
    Function::BatchCancel,
    Function::BatchDestroy,
];

/// The exported functions that can be probed, with their offsets in the file. The process that maps the file may have
/// written any bytes into it, so each function is used once.
pub(super) fn functions(library: &File, shown: &Path) -> Result<Vec<(Function, u64)>, String> {
    let shown = shown.display();
    let mut bytes = Vec::new();
    let read = library.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot read {shown}: {error}"))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("{shown} is not libcufile: it has more than {MOST_BYTES} bytes"));
    }
    exported(&bytes).map_err(|why| format!("{shown} {why}"))
}

/// The number of functions that a library exports, for tests with hostile files.
///
/// # Errors
/// Fails if the bytes are not an ELF file or export no function. The error is part of a sentence.
pub fn probed_functions(bytes: &[u8]) -> Result<usize, String> {
    exported(bytes).map(|found| found.len())
}

/// The functions in the bytes of a library.
fn exported(bytes: &[u8]) -> Result<Vec<(Function, u64)>, String> {
    let file = object::File::parse(bytes).map_err(|error| format!("is not an ELF file: {error}"))?;
    let offset = |address: u64| {
        file.segments().find_map(|segment| {
            let (start, length) = segment.file_range();
            let inside = address.checked_sub(segment.address()).filter(|inside| *inside < length)?;
            start.checked_add(inside).filter(|offset| *offset < bytes.len() as u64)
        })
    };
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
        let Ok(name) = symbol.name() else { continue };
        let Some(function) = PROBED.iter().find(|function| FUNCTIONS[**function as usize].name == name) else {
            continue;
        };
        if seen.insert(*function as usize)
            && let Some(offset) = offset(symbol.address())
        {
            found.push((*function, offset));
        }
    }
    if found.is_empty() { Err("exports no function of cuFile".to_owned()) } else { Ok(found) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A 64-bit ELF file for this test: one segment, and a dynamic symbol table in which one function is defined many times.
    fn elf(segment_offset: u64, symbols: usize) -> Vec<u8> {
        let mut bytes = vec![0_u8; 64 + 56];
        let put = |bytes: &mut Vec<u8>, at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(&mut bytes, 0, b"\x7fELF\x02\x01\x01");
        for (at, value) in [(16, 3_u16), (18, 62), (52, 64), (54, 56), (56, 1), (58, 64), (60, 3), (62, 2)] {
            put(&mut bytes, at, &value.to_le_bytes());
        }
        put(&mut bytes, 20, &1_u32.to_le_bytes());
        put(&mut bytes, 32, &64_u64.to_le_bytes());
        // The segment: loaded from an offset of the attacker's choice.
        put(&mut bytes, 64, &1_u32.to_le_bytes());
        put(&mut bytes, 72, &segment_offset.to_le_bytes());
        put(&mut bytes, 96, &u64::MAX.to_le_bytes());
        let names = bytes.len() as u64;
        bytes.extend_from_slice(b"\0cuFileRead\0");
        let table = bytes.len() as u64;
        for at in 0..symbols {
            let mut symbol = [0_u8; 24];
            symbol[0] = 1;
            symbol[4] = 0x12;
            symbol[6] = 1;
            symbol[8..16].copy_from_slice(&(16 + at as u64).to_le_bytes());
            bytes.extend_from_slice(&symbol);
        }
        let sections = bytes.len() as u64;
        put(&mut bytes, 40, &sections.to_le_bytes());
        // The sections: an empty one, the dynamic symbols, and their names.
        for (kind, offset, size, link, entry) in
            [(0_u32, 0, 0, 0_u32, 0), (11, table, symbols as u64 * 24, 2, 24_u64), (3, names, 12, 0, 0)]
        {
            let mut section = [0_u8; 64];
            section[4..8].copy_from_slice(&kind.to_le_bytes());
            section[24..32].copy_from_slice(&offset.to_le_bytes());
            section[32..40].copy_from_slice(&size.to_le_bytes());
            section[40..44].copy_from_slice(&link.to_le_bytes());
            section[56..64].copy_from_slice(&entry.to_le_bytes());
            bytes.extend_from_slice(&section);
        }
        bytes
    }

    #[test]
    fn a_function_is_probed_once_however_often_a_file_defines_it() {
        let found = exported(&elf(0, 100_000)).unwrap();
        // The first entry of a symbol table is not a symbol.
        assert_eq!(found, [(Function::Read, 17)]);
    }

    #[test]
    fn an_offset_outside_the_file_is_not_probed() {
        for offset in [u64::MAX, u64::MAX - 20, 1 << 40] {
            assert!(exported(&elf(offset, 3)).is_err(), "{offset:#x}");
        }
    }
}
