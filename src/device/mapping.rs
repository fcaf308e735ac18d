//! Read-only mappings of open files, and the share of a file in the page cache.

use super::error::DeviceError;
use crate::core::units;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// A complete file, mapped read-only and shared.
///
/// If a mapped file is truncated, access to it raises SIGBUS. A run is a separate process, so only the run ends, and
/// its standard error shows the reason.
#[derive(Debug)]
pub struct FileMapping(memmap2::Mmap);

impl FileMapping {
    /// Maps a file.
    ///
    /// # Errors
    /// If the kernel cannot map it.
    pub fn new(file: &File) -> Result<Self, DeviceError> {
        // SAFETY: the mapping is read-only. If another process changes the file, the copied bytes change too, and
        // verification detects that. The bytes are never interpreted as another type.
        let map = unsafe { memmap2::Mmap::map(file) }.map_err(|e| DeviceError::mapping("mapping the file", &e))?;
        Ok(Self(map))
    }

    /// The bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The number of bytes of `range` in the page cache, rounded to pages.
///
/// # Errors
/// If the file cannot be mapped, or if `mincore` fails.
pub fn resident_bytes(file: &File, range: Range<u64>) -> Result<u64, DeviceError> {
    const STEP: u64 = 1 << 30;
    let doing =
        || format!("reading which of {} are in the page cache", units::bytes(range.end.saturating_sub(range.start)));
    let mut resident = 0_u64;
    let mut start = range.start / 4096 * 4096;
    while start < range.end {
        let len = (range.end - start).min(STEP) as usize;
        let pages = len.div_ceil(4096);
        let mut flags = vec![0_u8; pages];
        // SAFETY: this is a new read-only mapping that is never read. mincore queries it, and then it is unmapped.
        // `flags` has one byte per page.
        let result = unsafe {
            let map = libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                start as libc::off_t,
            );
            if map == libc::MAP_FAILED {
                return Err(DeviceError::system(doing(), std::io::Error::last_os_error()));
            }
            let result = libc::mincore(map, len, flags.as_mut_ptr());
            let error = std::io::Error::last_os_error();
            libc::munmap(map, len);
            if result == 0 { Ok(()) } else { Err(error) }
        };
        result.map_err(|e| DeviceError::system(doing(), e))?;
        resident += flags.iter().map(|f| u64::from(f & 1)).sum::<u64>() * 4096;
        start += len as u64;
    }
    Ok(resident)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_just_written_is_resident_and_maps_to_its_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
        file.write_all(&content).unwrap();
        assert_eq!(FileMapping::new(&file).unwrap().bytes(), content);
        let resident = resident_bytes(&file, 0..content.len() as u64).unwrap();
        assert!(resident >= content.len() as u64, "{resident}");
        assert!(resident < content.len() as u64 + 4096);
    }
}
