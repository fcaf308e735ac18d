//! The parts of a file without written blocks (`FS_IOC_FIEMAP`, include/uapi/linux/fiemap.h).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `_IOWR('f', 11, struct fiemap)`. The number is the same on x86-64 and aarch64.
const FS_IOC_FIEMAP: u64 = 0xc020_660b;
/// `FIEMAP_EXTENT_LAST`.
const LAST: u32 = 0x1;
/// `FIEMAP_EXTENT_DELALLOC`.
const DELAYED: u32 = 0x4;
/// `FIEMAP_EXTENT_UNWRITTEN`.
const UNWRITTEN: u32 = 0x800;
/// The number of extents per call.
const AT_ONCE: usize = 128;
/// The maximum number of calls per file. If a file has more extents, only a part is counted.
const MAX_CALLS: usize = 64;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap` with space for its extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; AT_ONCE],
}

/// The bytes of a file that are not in written blocks. Blocks after its end are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedExtents {
    /// The bytes in reserved blocks without data.
    pub unwritten_bytes: u64,
    /// The bytes in memory that have no block yet (delayed allocation).
    pub delayed_bytes: u64,
}

/// Queries the file system about an open file of `size` bytes. It does not flush the file.
///
/// # Errors
/// The error of the system call. It is `EOPNOTSUPP` if the file system does not support the query.
pub fn unfinished_bytes(file: impl AsFd, size: u64) -> io::Result<UnfinishedExtents> {
    let fd = file.as_fd().as_raw_fd();
    let mut found = UnfinishedExtents::default();
    let mut start = 0;
    for _ in 0..MAX_CALLS {
        if start >= size {
            break;
        }
        let mut request = Request {
            start,
            length: size - start,
            flags: 0,
            mapped: 0,
            count: AT_ONCE as u32,
            reserved: 0,
            extents: [Extent::default(); AT_ONCE],
        };
        // SAFETY: the descriptor is open as long as `file` is borrowed. `request` has the layout that FS_IOC_FIEMAP
        // reads and writes, has space for `count` extents, and outlives the call.
        let code = unsafe { libc::ioctl(fd, FS_IOC_FIEMAP as _, std::ptr::from_mut(&mut request)) };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = request.extents.get(..request.mapped as usize).unwrap_or(&request.extents);
        for extent in mapped {
            // Blocks after the end of the file are not counted.
            let bytes = extent.logical.saturating_add(extent.length).min(size).saturating_sub(extent.logical);
            if extent.flags & UNWRITTEN != 0 {
                found.unwritten_bytes += bytes;
            } else if extent.flags & DELAYED != 0 {
                found.delayed_bytes += bytes;
            }
        }
        match mapped.last() {
            Some(last) if last.flags & LAST == 0 => start = last.logical.saturating_add(last.length),
            _ => break,
        }
    }
    Ok(found)
}
