//! The pages of this process that are in its page tables.

use crate::system::{O_CLOEXEC, open};
use core::ffi::{c_int, c_ulong};

/// The request of an ioctl that lists pages, since Linux 6.7, and its category of pages that are present.
const PAGEMAP_SCAN: c_ulong = 0xc060_6610;
const PAGE_IS_PRESENT: u64 = 1 << 3;

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct PageScan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    room: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_of_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of linux/fs.h: addresses of pages with the same categories.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PageRegion {
    pub(crate) start: u64,
    pub(crate) end: u64,
    categories: u64,
}

#[link(name = "c")]
unsafe extern "C" {
    fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
}

/// A descriptor for the page table entries of this process. It is negative if it cannot be opened.
pub(crate) fn page_table() -> c_int {
    // SAFETY: the argument is a C string literal.
    unsafe { open(c"/proc/self/pagemap".as_ptr(), O_CLOEXEC) }
}

/// Lists the present pages between two addresses. Returns the number of regions and the address at which the kernel
/// stopped, or `None` if the kernel does not know the request.
pub(crate) fn present_pages(fd: c_int, start: usize, end: usize, out: &mut [PageRegion]) -> Option<(usize, usize)> {
    let mut scan = PageScan {
        size: size_of::<PageScan>() as u64,
        start: start as u64,
        end: end as u64,
        regions: out.as_mut_ptr() as u64,
        room: out.len() as u64,
        category_mask: PAGE_IS_PRESENT,
        return_mask: PAGE_IS_PRESENT,
        ..PageScan::default()
    };
    // SAFETY: the kernel writes at most `room` regions to `out`, and `walk_end` of `scan`. Both exist during the call.
    let found = unsafe { ioctl(fd, PAGEMAP_SCAN, &raw mut scan) };
    Some((usize::try_from(found).ok()?, usize::try_from(scan.walk_end).ok()?))
}
