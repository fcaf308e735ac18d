//! Records which pages of mapped files a process has in its page tables before it unmaps them or ends. gds-top reads
//! the page tables too, but too seldom for a mapping that exists for a few milliseconds.

use crate::layout::{Record, kind};
use crate::rings::{self, Writer};
use crate::{pages, system, uring};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The maximum number of mappings of a process that are observed.
const MAPPINGS: usize = 1024;
/// The number of page table entries that are read at once, and of ranges in one record.
const ENTRIES: usize = 512;
const RANGES: usize = 64;
/// The bit of an entry for a page that is present.
const PRESENT: u64 = 1 << 63;

struct Mapping {
    /// 0 marks a free entry, and 1 an entry that is being written.
    address: AtomicUsize,
    length: AtomicUsize,
    offset: AtomicU64,
    file: [AtomicU64; 2],
}

static TABLE: [Mapping; MAPPINGS] = [const {
    Mapping {
        address: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        offset: AtomicU64::new(0),
        file: [const { AtomicU64::new(0) }; 2],
    }
}; MAPPINGS];
/// The number of entries that were ever used. The others are free.
static USED: AtomicUsize = AtomicUsize::new(0);

fn used() -> impl Iterator<Item = &'static Mapping> {
    TABLE.iter().take(USED.load(Ordering::Acquire))
}

/// Observes a new mapping of a file.
pub(crate) fn remember(address: usize, length: usize, offset: u64, file: [u64; 2]) {
    // The program can unmap a file by other functions. Then the kernel may return its address again.
    for old in used().filter(|old| old.address.load(Ordering::Relaxed) == address) {
        old.address.store(0, Ordering::Relaxed);
    }
    for (number, mapping) in TABLE.iter().enumerate() {
        if mapping.address.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        mapping.length.store(length, Ordering::Relaxed);
        mapping.offset.store(offset, Ordering::Relaxed);
        for (slot, word) in mapping.file.iter().zip(file) {
            slot.store(word, Ordering::Relaxed);
        }
        mapping.address.store(address, Ordering::Release);
        USED.fetch_max(number + 1, Ordering::AcqRel);
        return;
    }
}

/// Records the present pages of observed mappings that are about to be unmapped.
pub(crate) fn unmap(address: usize, length: usize) {
    let end = address.saturating_add(length);
    for mapping in used() {
        let first = mapping.address.load(Ordering::Acquire);
        let last = first.saturating_add(mapping.length.load(Ordering::Relaxed));
        if first <= 1 || first >= end || last <= address {
            continue;
        }
        record(mapping, first, first.max(address), last.min(end));
        if address <= first && last <= end {
            mapping.address.store(0, Ordering::Release);
        }
    }
}

/// Records the present pages of all observed mappings, before the process ends.
pub(crate) fn end() {
    for mapping in used() {
        let first = mapping.address.load(Ordering::Acquire);
        if first > 1 {
            record(mapping, first, first, first.saturating_add(mapping.length.load(Ordering::Relaxed)));
        }
    }
}

/// Like [`end`], before the process starts another program in its place. The child of a fork has the mappings and rings of
/// its parent, so it does nothing.
pub(crate) fn before_program() {
    if rings::is_first_process() {
        end();
        uring::end();
    }
}

/// The present ranges of a mapping, as offsets of its file, until they are written.
struct Present<'m> {
    mapping: &'m Mapping,
    ranges: [(u64, u64); RANGES],
    count: usize,
}

impl Present<'_> {
    fn add(&mut self, from: u64, to: u64) {
        if let Some(last) = self.ranges.get_mut(self.count.wrapping_sub(1)).filter(|last| last.1 == from) {
            last.1 = to;
            return;
        }
        if self.count == RANGES {
            self.write();
        }
        if let Some(slot) = self.ranges.get_mut(self.count) {
            *slot = (from, to);
            self.count += 1;
        }
    }

    fn write(&mut self) {
        write(self.mapping, &self.ranges, self.count);
        self.count = 0;
    }
}

#[inline(never)]
fn record(mapping: &Mapping, first: usize, from: usize, to: usize) {
    let page = system::page_bytes();
    let table = if system::is_filtered() { -1 } else { pages::page_table() };
    if table < 0 {
        return;
    }
    let start = mapping.offset.load(Ordering::Relaxed);
    let offset = |address: usize| start.wrapping_add((address.max(first) - first) as u64);
    let mut present = Present { mapping, ranges: [(0, 0); RANGES], count: 0 };
    let mut at = from - from % page;
    let mut regions = [pages::PageRegion::default(); RANGES];
    // Linux before 6.7 lists no regions, so its table is read entry by entry.
    while at < to {
        let Some((count, reached)) = pages::present_pages(table, at, to.next_multiple_of(page), &mut regions) else {
            break;
        };
        for region in regions.iter().take(count) {
            present.add(offset(region.start as usize), offset(region.end as usize));
        }
        if reached <= at {
            break;
        }
        at = reached;
    }
    let mut entries = [0_u64; ENTRIES];
    while at < to {
        let wanted = (to - at).div_ceil(page).min(ENTRIES);
        let read = system::read_words(table, &mut entries, wanted, at / page * 8);
        if read == 0 {
            break;
        }
        for entry in entries.iter().take(read) {
            if entry & PRESENT != 0 {
                present.add(offset(at), offset(at + page));
            }
            at += page;
        }
    }
    system::close_descriptor(table);
    present.write();
}

fn write(mapping: &Mapping, ranges: &[(u64, u64); RANGES], count: usize) {
    let Some(mut writer) = Writer::take().filter(|_| count > 0) else { return };
    if !writer.has_room(1 + count) {
        return;
    }
    let [device, inode] = [0, 1].map(|word: usize| mapping.file.get(word).map_or(0, |w| w.load(Ordering::Relaxed)));
    let now = system::now_ns();
    let record = Record { start_ns: now, end_ns: now, ..Record::default() };
    let extra = [device, inode, 0, 0, 0, 0, 0];
    writer.put(&Record { head: Record::head(kind::TOUCHED, 0, count as u32), extra, ..record });
    for (from, to) in ranges.iter().take(count) {
        let head = Record::head(kind::TOUCHED, 0, 0);
        writer.put(&Record { head, offset: *from, size: to - from, ..record });
    }
    writer.publish();
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec;

    #[test]
    fn present_pages_are_listed_as_in_the_page_table() {
        let page = system::page_bytes();
        let mut room = vec![0_u8; 40 * page];
        // Every third page is touched. The memory of the vector is zeroed by the kernel, page by page.
        (0..13).for_each(|third| room[third * 3 * page] = 1);
        let base = (room.as_ptr() as usize).next_multiple_of(page);
        let table = pages::page_table();
        assert!(table >= 0);
        let (from, to) = (base, base + 32 * page);
        let mut regions = [pages::PageRegion::default(); 64];
        let mut entries = [0_u64; 32];
        let read = system::read_words(table, &mut entries, 32, from / page * 8);
        assert_eq!(read, 32);
        if let Some((count, reached)) = pages::present_pages(table, from, to, &mut regions) {
            assert_eq!(reached, to);
            let listed = |at: usize| {
                regions.iter().take(count).any(|region| region.start as usize <= at && at < region.end as usize)
            };
            for (index, entry) in entries.iter().enumerate() {
                assert_eq!(listed(from + index * page), entry & PRESENT != 0, "page {index}");
            }
        }
        system::close_descriptor(table);
    }
}
