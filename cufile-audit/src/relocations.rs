//! Makes the linker report symbols of code without a PLT.
//!
//! The linker reports a symbol when it fills a slot of the PLT. Code that is compiled with `-fno-plt`, like all Rust
//! code, uses other slots (`GLOB_DAT`), and static tables of function pointers have the addresses themselves (`ABSOLUTE`).
//! The linker fills these in the same way but does not report them. So the type of these relocations is changed to that
//! of a PLT slot before the object is relocated. glibc before 2.35 treats these types alike and reports none of them.

use crate::linker::{self, LinkMap, Relocation};
use crate::{names, system};

const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
/// The number of relocations without a symbol at the start of the table.
const DT_RELACOUNT: i64 = 0x6fff_fff9;
const GLOB_DAT: u32 = if cfg!(target_arch = "x86_64") { 6 } else { 1025 };
const JUMP_SLOT: u32 = GLOB_DAT + 1;
/// `R_X86_64_64` and `R_AARCH64_ABS64`.
const ABSOLUTE: u32 = if cfg!(target_arch = "x86_64") { 1 } else { 257 };

/// Changes the relocations of recorded functions that the object imports.
///
/// # Safety
/// `map` must be the link map of an object that is mapped but not relocated yet.
pub(crate) unsafe fn show_to_linker(map: &LinkMap) {
    let (mut table, mut bytes, mut plain) = (0, 0, 0);
    let of_table = |tag, value, address| match tag {
        DT_RELA => table = address,
        DT_RELASZ => bytes = value,
        DT_RELACOUNT => plain = value,
        _ => {}
    };
    // SAFETY: by the condition of this function.
    let Some(symbols) = (unsafe { linker::symbols(map, of_table) }) else { return };
    if table == 0 {
        return;
    }
    // SAFETY: the table is mapped with the object and has the layout of the ELF specification.
    unsafe {
        let mut memory = None;
        for index in plain..bytes / size_of::<Relocation>() {
            let at = (table as *const Relocation).add(index);
            let (kind, symbol) = ((*at).info as u32, ((*at).info >> 32) as usize);
            // An address inside a function is not its entry.
            if kind != GLOB_DAT && (kind != ABSOLUTE || (*at).addend != 0) {
                continue;
            }
            let (symbol, name) = symbols.get(symbol);
            if symbol.section != 0 || (names::function(name).is_none() && names::plain_function(name).is_none()) {
                continue;
            }
            let info = (*at).info - u64::from(kind) + u64::from(JUMP_SLOT);
            // The table is read-only. The kernel can write to it through this file, so no page must be made writable.
            let memory = *memory.get_or_insert_with(system::own_memory);
            system::write_at(memory, (&raw const (*at).info).addr(), info);
        }
        if let Some(memory) = memory {
            system::close_descriptor(memory);
        }
    }
}
