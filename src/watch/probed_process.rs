//! Facts in procfs about a process with kernel probes: its parent, its mappings, its code and the flags of its
//! descriptors.

use super::named_file::Descriptor;
use super::outside;
use super::rings::now_ns;
use crate::trust::Allowance;
use crate::trust::process::{descriptor_facts, descriptor_flags, folder};
use procfs::process::{MMPermissions, MMapPath, Process};
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The flags of descriptors during one reading of calls, by their process, number and file.
#[derive(Debug, Default)]
pub(super) struct KnownFlags(HashMap<(u32, u32, [u64; 4]), Option<u32>>);

impl KnownFlags {
    /// The flags of a descriptor with this file. They are read once, because the kernel also writes all locks of the file,
    /// and a process can have any number of them.
    pub(super) fn of(&mut self, descriptor: Descriptor, file: Option<[u64; 4]>) -> Option<u32> {
        let Descriptor { process, number } = descriptor;
        match file.filter(|identity| *identity != [0; 4]) {
            Some(file) => *self.0.entry((process, number, file)).or_insert_with(|| flags(descriptor)),
            None => flags(descriptor),
        }
    }
}

/// The flags of an open descriptor.
fn flags(Descriptor { process, number }: Descriptor) -> Option<u32> {
    let (folder, name) = (folder(process.cast_signed()), number.to_string());
    descriptor_flags(&descriptor_facts(&folder, OsStr::new(&name), &mut Allowance::unlimited()))
}

/// The parent of a process, and its start in nanoseconds of CLOCK_MONOTONIC, which is up to a clock tick too early.
pub(super) fn parent_of(process: u32) -> Option<(u32, u64)> {
    let stat = Process::new(i32::try_from(process).ok()?).ok()?.stat().ok()?;
    let parent = u32::try_from(stat.ppid).ok().filter(|parent| *parent > 0)?;
    let since_boot_ns = u128::from(stat.starttime) * 1_000_000_000 / u128::from(clock_ticks_per_second().max(1));
    let now_ns = now_ns();
    let boot = clock_gettime(ClockId::Boottime);
    let up_ns = boot.tv_sec as u128 * 1_000_000_000 + boot.tv_nsec as u128;
    let age_ns = u64::try_from(up_ns.saturating_sub(since_boot_ns)).unwrap_or(u64::MAX);
    Some((parent, now_ns.saturating_sub(age_ns)))
}

/// Whether a process has a mapping with exactly these addresses.
pub(super) fn is_mapped(process: u32, range: (u64, u64)) -> bool {
    let maps = outside::maps(process, &mut Allowance::unlimited());
    maps.is_ok_and(|maps| maps.iter().any(|map| map.address == range))
}

/// The instruction that the kernel writes at a probe.
const BREAKPOINT: &[u8] = if cfg!(target_arch = "x86_64") { &[0xcc] } else { &[0xa0, 0x00, 0x20, 0xd4] };

/// Whether the code of a process has a breakpoint at an offset of a mapped file. `None` if the code cannot be read.
pub(super) fn has_breakpoint(process: u32, path: &Path, offset: u64) -> Option<bool> {
    let maps = outside::maps(process, &mut Allowance::unlimited()).ok()?;
    let code = maps.iter().find(|map| {
        let length = map.address.1 - map.address.0;
        matches!(&map.pathname, MMapPath::Path(mapped) if mapped == path)
            && map.perms.contains(MMPermissions::EXECUTE)
            && offset.checked_sub(map.offset).is_some_and(|inside| inside < length)
    })?;
    let mut bytes = vec![0; BREAKPOINT.len()];
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, code.address.0 + (offset - code.offset)).ok()?;
    Some(bytes == BREAKPOINT)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_flags_of_a_descriptor_are_read_once_in_a_reading_while_it_has_the_same_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = File::open(file.path()).unwrap();
        let descriptor = Descriptor { process: std::process::id(), number: open.as_raw_fd().cast_unsigned() };
        let (_, identity) = descriptor.file().unwrap();
        let is_nonblocking = |flags: Option<u32>| flags.unwrap() & rustix::fs::OFlags::NONBLOCK.bits() != 0;
        let mut known = KnownFlags::default();
        assert!(!is_nonblocking(known.of(descriptor, Some(identity))));
        rustix::fs::fcntl_setfl(&open, rustix::fs::OFlags::NONBLOCK).unwrap();
        assert!(!is_nonblocking(known.of(descriptor, Some(identity))));
        assert!(is_nonblocking(known.of(descriptor, Some([1; 4]))) && is_nonblocking(known.of(descriptor, None)));
        assert!(is_nonblocking(KnownFlags::default().of(descriptor, Some(identity))));
    }
}
