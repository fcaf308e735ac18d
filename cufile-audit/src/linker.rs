//! Structures of the dynamic linker and of ELF.

use core::ffi::c_char;

/// The public start of `struct link_map`.
#[repr(C)]
pub(crate) struct LinkMap {
    pub(crate) address: usize,
    pub(crate) name: *const c_char,
    pub(crate) dynamic: *const Dynamic,
}

/// `Elf64_Sym`. Here `value` is the address in memory, not the offset in the file.
#[repr(C)]
pub(crate) struct Symbol {
    pub(crate) name: u32,
    pub(crate) info: u8,
    pub(crate) other: u8,
    pub(crate) section: u16,
    pub(crate) value: usize,
    pub(crate) size: u64,
}

/// An entry of the dynamic section.
#[repr(C)]
pub(crate) struct Dynamic {
    pub(crate) tag: i64,
    pub(crate) value: usize,
}

/// `Elf64_Rela`.
#[repr(C)]
pub(crate) struct Relocation {
    pub(crate) offset: usize,
    pub(crate) info: u64,
    pub(crate) addend: i64,
}
