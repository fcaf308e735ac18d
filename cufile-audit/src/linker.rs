//! Structures of the dynamic linker and of ELF.

use core::ffi::{CStr, c_char};

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

/// Tags of entries of the dynamic section.
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// The tables by which an object finds its symbols.
#[derive(Clone, Copy, Default)]
pub(crate) struct Symbols {
    strings: usize,
    symbols: usize,
}

impl Symbols {
    /// A symbol of the table with its name.
    ///
    /// # Safety
    /// The object has a symbol of this number.
    pub(crate) unsafe fn get(&self, number: usize) -> (&Symbol, &[u8]) {
        // SAFETY: both tables are mapped with the object, and names end with a zero byte.
        unsafe {
            let symbol = &*(self.symbols as *const Symbol).add(number);
            (symbol, CStr::from_ptr((self.strings + symbol.name as usize) as *const _).to_bytes())
        }
    }
}

/// The symbols of an object; `None` if it has none. `other` gets each further entry of the dynamic section: its tag, its value, and that as an address.
///
/// # Safety
/// `map` is the link map of an object that is mapped.
pub(crate) unsafe fn symbols(map: &LinkMap, mut other: impl FnMut(i64, usize, usize)) -> Option<Symbols> {
    let mut found = Symbols::default();
    let mut entry = map.dynamic;
    if entry.is_null() {
        return None;
    }
    // SAFETY: a dynamic section ends with tag 0. Its tables are mapped with the object and have the layout of the ELF
    // specification.
    unsafe {
        while (*entry).tag != 0 {
            let value = (*entry).value;
            // The linker makes these addresses absolute. If the section is read-only, they stay relative.
            let address = if value < map.address { map.address + value } else { value };
            match (*entry).tag {
                DT_STRTAB => found.strings = address,
                DT_SYMTAB => found.symbols = address,
                tag => other(tag, value, address),
            }
            entry = entry.add(1);
        }
    }
    (found.strings != 0 && found.symbols != 0).then_some(found)
}

/// The address of an exported function, from the hash table of the object.
///
/// # Safety
/// `map` is the link map of a loaded object.
pub(crate) unsafe fn symbol(map: &LinkMap, name: &CStr) -> Option<usize> {
    let name = name.to_bytes();
    let mut table = 0;
    // SAFETY: the caller gives the link map of a loaded object.
    let symbols = unsafe {
        symbols(map, |tag, _, address| {
            if tag == DT_GNU_HASH {
                table = address
            }
        })
    }?;
    if table == 0 {
        return None;
    }
    // SAFETY: the hash table is mapped with the object and has the layout of GNU.
    unsafe {
        let words = table as *const u32;
        let (buckets, first, bloom) = (*words, *words.add(1), *words.add(2));
        if buckets == 0 {
            return None;
        }
        let hash = name.iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let bucket_words = words.add(4 + bloom as usize * 2);
        let chain = bucket_words.add(buckets as usize);
        let mut index = *bucket_words.add((hash % buckets) as usize);
        while index >= first && index != 0 {
            let found = *chain.add((index - first) as usize);
            let (symbol, its_name) = symbols.get(index as usize);
            if found | 1 == hash | 1 && symbol.section != 0 && its_name == name {
                return Some(map.address + symbol.value);
            }
            if found & 1 != 0 {
                break;
            }
            index += 1;
        }
    }
    None
}
