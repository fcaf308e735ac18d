//! Probes of user-space functions through perf_event_open(2). A hit contains the registers and a part of the stack of
//! the thread.

use super::perf_keeper::{Keeper, NoRemoval};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const DEVICE: &str = "/sys/bus/event_source/devices/uprobe";
/// The size of the sample rings of all CPUs in bytes, and the bounds for the ring of one CPU, without its header page.
/// The size of a ring must be a power of two of pages. A hit has up to 8 KiB.
const ALL_RINGS_BYTES: usize = 128 << 20;
const LEAST_RING_BYTES: usize = 1 << 20;
const MOST_RING_BYTES: usize = 8 << 20;
/// The size of `struct perf_event_attr` version 5 (Linux 4.1) in words.
const ATTR_WORDS: usize = 14;
/// Bits of `sample_type`: identifier, thread, time, user registers, user stack.
const IDENTIFIER: u64 = 1 << 16;
const THREAD: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const REGISTERS: u64 = 1 << 12;
const STACK: u64 = 1 << 13;
/// Bits of the flags: report forks, use the selected clock.
const TASK: u64 = 1 << 13;
const USE_CLOCK: u64 = 1 << 25;
const CLOCK_MONOTONIC: u64 = 1;
/// Requests of perf events (linux/perf_event.h).
const SET_OUTPUT: libc::c_ulong = 0x2405;
const GET_ID: libc::c_ulong = 0x8008_2407;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// Types of records.
const LOST: u32 = 2;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
/// Positions in the header page of the ring, in words: where the kernel writes next, and where the reader continues.
const HEAD: usize = 1024 / 8;
const TAIL: usize = 1032 / 8;

/// The numbers of user registers in perf: the result, the arguments in order, the stack pointer.
#[cfg(target_arch = "x86_64")]
const NUMBERS: [u32; 8] = [0, 5, 4, 3, 2, 16, 17, 7];
#[cfg(not(target_arch = "x86_64"))]
const NUMBERS: [u32; 8] = [0, 0, 1, 2, 3, 4, 5, 31];

/// A position in a program or library.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The path of the file for this process.
    pub path: std::path::PathBuf,
    /// The offset of the function in the file.
    pub offset: u64,
    /// Whether the probe is at the return of the function. Otherwise it is at the entry.
    pub at_return: bool,
    /// The bytes of the stack in each hit, a multiple of 8.
    pub stack_bytes: u32,
}

/// An event from the kernel: a hit of a probe, a fork, or lost hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hit {
    /// A probe was hit.
    Probe {
        /// The index of the probe in the opened list.
        probe: usize,
        /// The process id.
        process: u32,
        /// The thread id.
        thread: u32,
        /// The time in nanoseconds of CLOCK_MONOTONIC.
        at_ns: u64,
        /// The result register. It is valid at a return.
        result: u64,
        /// The first six arguments. They are valid at an entry.
        arguments: [u64; 6],
        /// The stack pointer.
        stack_pointer: u64,
        /// The stack from the stack pointer on.
        stack: Vec<u8>,
    },
    /// A process was forked, or a thread was created. For a thread both ids are the same.
    Forked {
        /// The id of the new process.
        process: u32,
        /// The id of its parent.
        parent: u32,
        /// The time in nanoseconds of CLOCK_MONOTONIC.
        at_ns: u64,
    },
    /// The number of hits that the kernel could not store.
    Lost(u64),
    /// Hits that were discarded, because the time to read them was over.
    Discarded {
        /// The index of the probe in the opened list.
        probe: usize,
        /// The process id.
        process: u32,
        /// The number of hits.
        count: u64,
    },
}

/// The index of a probe and whether it records the stack, by the identifier that the kernel assigned.
type Ids = HashMap<u64, (usize, bool)>;

/// Open probes with a ring per CPU.
#[derive(Debug)]
pub struct Probes {
    rings: Vec<Ring>,
    events: Vec<OwnedFd>,
    /// The positions of the events whose rings are mapped.
    leaders: Vec<usize>,
    ids: Ids,
    /// It is closed after the events. `None` if it could not be started; then the end takes longer.
    _keeper: Option<Keeper>,
}

impl Probes {
    /// Opens probes for all processes on the given CPUs. It needs root, or CAP_PERFMON and CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// If the kernel does not support such probes or rejects them.
    pub fn open(probes: &[Probe], cpus: &[u32]) -> io::Result<Self> {
        let kind: u64 = number(&format!("{DEVICE}/type"))?;
        let return_bit = fs::read_to_string(format!("{DEVICE}/format/retprobe"))?;
        let return_bit: u32 = return_bit.trim().strip_prefix("config:").and_then(|bit| bit.parse().ok()).unwrap_or(0);
        let mut open =
            Self { rings: Vec::new(), events: Vec::new(), leaders: Vec::new(), ids: Ids::new(), _keeper: None };
        let no_removal = NoRemoval::new();
        for cpu in cpus {
            let mut leader: Option<i32> = None;
            for (number, probe) in probes.iter().enumerate() {
                let path = CString::new(probe.path.as_os_str().as_encoded_bytes())?;
                let has_stack = probe.stack_bytes > 0;
                let mask = NUMBERS.iter().fold(0_u64, |mask, number| mask | 1 << number);
                let flags = USE_CLOCK | if leader.is_none() { TASK } else { 0 };
                let sample = IDENTIFIER | THREAD | TIME | REGISTERS | if has_stack { STACK } else { 0 };
                let attr: [u64; ATTR_WORDS] = [
                    kind | ((ATTR_WORDS * 8) as u64) << 32,
                    u64::from(probe.at_return) << return_bit,
                    1,
                    sample,
                    0,
                    flags,
                    // Each hit with a stack wakes the reader.
                    u64::from(has_stack),
                    path.as_ptr().addr() as u64,
                    probe.offset,
                    0,
                    mask,
                    u64::from(probe.stack_bytes) | CLOCK_MONOTONIC << 32,
                    0,
                    0,
                ];
                let event = event(&attr, *cpu)?;
                open.ids.insert(identifier(&event)?, (number, has_stack));
                match leader {
                    Some(leader) => share_ring(&event, leader)?,
                    None => {
                        open.rings.push(Ring::map(&event, cpus.len())?);
                        open.leaders.push(open.events.len());
                        leader = Some(event.as_raw_fd());
                    }
                }
                open.events.push(event);
            }
        }
        drop(no_removal);
        open._keeper = Keeper::start(&open.events).ok();
        Ok(open)
    }

    /// Waits until a hit with a stack is in a ring, for at most this time. The arguments of such a hit are in memory that
    /// the thread may change soon.
    pub fn wait<'p>(sets: impl Iterator<Item = &'p Self>, time: Duration) {
        let leaders = sets.flat_map(|probes| probes.leaders.iter().filter_map(|at| probes.events.get(*at)));
        let mut rings: Vec<PollFd<'_>> = leaders.map(|event| PollFd::new(event, PollFlags::IN)).collect();
        if rings.is_empty() {
            std::thread::sleep(time);
        } else if let Ok(time) = Timespec::try_from(time) {
            // After an interruption, the rings are read as after the time.
            let _ = poll(&mut rings, Some(&time));
        }
    }

    /// Removes all new hits from the rings and returns them. The hits of a CPU are in order. Hits of probes that are read
    /// when `is_over` is true are only counted, so that a reading ends however many there are.
    pub fn drain(&mut self, is_over: &mut dyn FnMut() -> bool) -> Vec<Hit> {
        let mut found = Found::default();
        for ring in &mut self.rings {
            ring.drain(|record| found.add(record, &self.ids, is_over()));
        }
        found.hits()
    }
}

/// The hits of a reading.
#[derive(Default)]
struct Found {
    hits: Vec<Hit>,
    /// The number of discarded hits by process and probe.
    discarded: HashMap<(u32, usize), u64>,
}

impl Found {
    fn add(&mut self, record: &[u8], ids: &Ids, is_over: bool) {
        if is_over && let Some(of) = origin(record, ids) {
            *self.discarded.entry(of).or_default() += 1;
        } else {
            self.hits.extend(decode(record, ids));
        }
    }

    fn hits(self) -> Vec<Hit> {
        let discarded = self.discarded.into_iter();
        let discarded = discarded.map(|((process, probe), count)| Hit::Discarded { probe, process, count });
        self.hits.into_iter().chain(discarded).collect()
    }
}

fn number(path: &str) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{path} is not a number")))
}

/// Opens an event for all processes on one CPU.
fn event(attr: &[u64; ATTR_WORDS], cpu: u32) -> io::Result<OwnedFd> {
    let all: libc::c_long = -1;
    // SAFETY: the kernel reads the size that the attributes contain, and the path, which the caller owns. The result
    // is a new descriptor or negative.
    unsafe {
        let fd =
            libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), all, libc::c_long::from(cpu), all, CLOSE_ON_EXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

fn identifier(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0_u64;
    // SAFETY: the request writes one word.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), GET_ID as _, &raw mut id) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

fn share_ring(event: &OwnedFd, leader: i32) -> io::Result<()> {
    // SAFETY: the request reads a descriptor.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT as _, leader) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A mapped ring that the kernel writes.
#[derive(Debug)]
struct Ring {
    map: memmap2::MmapRaw,
    page: usize,
    bytes: usize,
}

impl Ring {
    fn map(event: &OwnedFd, cpus: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let share = (ALL_RINGS_BYTES / cpus.max(1)).clamp(LEAST_RING_BYTES, MOST_RING_BYTES);
        let bytes = if share.is_power_of_two() { share } else { share.next_power_of_two() / 2 };
        let map = memmap2::MmapOptions::new().len(page + bytes).map_raw(event)?;
        Ok(Self { map, page, bytes })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the index is inside the header page, which is aligned and exists as long as the reference. The
        // kernel also accesses the word atomically.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(index)) }
    }

    /// Copies `out.len()` bytes from a position in the ring. The copy continues at the start of the ring after its
    /// end.
    fn copy(&self, at: u64, out: &mut [u8]) {
        let start = at as usize % self.bytes;
        let (first, rest) = out.split_at_mut(out.len().min(self.bytes - start));
        for (place, part) in [(start, first), (0, rest)] {
            // SAFETY: the part is inside the mapping, because a record has less than 64 KiB, and a ring 1 MiB or more. The
            // kernel does not write between tail and head.
            unsafe {
                let from = self.map.as_mut_ptr().add(self.page + place);
                std::ptr::copy_nonoverlapping(from, part.as_mut_ptr(), part.len());
            }
        }
    }

    fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let mut tail = self.word(TAIL).load(Ordering::Relaxed);
        let mut record = Vec::new();
        while head.wrapping_sub(tail) >= 8 {
            let mut header = [0; 8];
            self.copy(tail, &mut header);
            let size = u64::from(u16::from_le_bytes([header[6], header[7]]));
            if size < 8 || size > head.wrapping_sub(tail) {
                tail = head;
                break;
            }
            record.resize(size as usize, 0);
            self.copy(tail, &mut record);
            take(&record);
            tail = tail.wrapping_add(size);
        }
        self.word(TAIL).store(tail, Ordering::Release);
    }
}

/// Reads the fields of a record one after another.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*first))
    }
}

/// The process and the probe of a hit. `None` for other records.
fn origin(record: &[u8], ids: &Ids) -> Option<(u32, usize)> {
    let mut fields = Fields(record);
    if fields.word()? as u32 != SAMPLE {
        return None;
    }
    let (probe, _) = *ids.get(&fields.word()?)?;
    Some((fields.word()? as u32, probe))
}

fn decode(record: &[u8], ids: &Ids) -> Option<Hit> {
    let mut fields = Fields(record);
    let kind = fields.word()? as u32;
    match kind {
        LOST => {
            fields.word()?;
            Some(Hit::Lost(fields.word()?))
        }
        FORK => {
            let both = fields.word()?;
            // The ids of the threads.
            fields.word()?;
            Some(Hit::Forked { process: both as u32, parent: (both >> 32) as u32, at_ns: fields.word()? })
        }
        SAMPLE => {
            let (probe, has_stack) = *ids.get(&fields.word()?)?;
            let thread = fields.word()?;
            let at_ns = fields.word()?;
            // The value 0 means that the thread has no user registers.
            if fields.word()? == 0 {
                return None;
            }
            let mut values = [0; NUMBERS.len()];
            let mut order: Vec<u32> = NUMBERS.to_vec();
            order.sort_unstable();
            order.dedup();
            for number in order {
                let value = fields.word()?;
                for (slot, wanted) in values.iter_mut().zip(NUMBERS) {
                    if wanted == number {
                        *slot = value;
                    }
                }
            }
            let mut stack = Vec::new();
            if has_stack && let Some(size) = fields.word().filter(|size| *size > 0) {
                let bytes = fields.0.get(..size as usize)?;
                fields.0 = fields.0.get(size as usize..)?;
                let valid = fields.word()? as usize;
                stack = bytes.get(..valid.min(bytes.len()))?.to_vec();
            }
            let [result, a, b, c, d, e, f, stack_pointer] = values;
            Some(Hit::Probe {
                probe,
                process: thread as u32,
                thread: (thread >> 32) as u32,
                at_ns,
                result,
                arguments: [a, b, c, d, e, f],
                stack_pointer,
                stack,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_forks_and_losses_are_decoded_and_broken_records_are_not() {
        let ids = Ids::from([(77, (3, true))]);
        let record = |kind: u64, words: &[u64]| -> Vec<u8> {
            let size = 8 + words.len() as u64 * 8;
            std::iter::once(&(kind | size << 48)).chain(words).flat_map(|word| word.to_ne_bytes()).collect()
        };
        let mut words = vec![77, 10 | 11 << 32, 5000, 2];
        let mut numbers = NUMBERS.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        words.extend(numbers.iter().map(|number| u64::from(*number) + 100));
        words.extend([16, 1, 2, 8]);
        let Some(Hit::Probe { probe, process, thread, at_ns, arguments, stack_pointer, stack, .. }) =
            decode(&record(9, &words), &ids)
        else {
            unreachable!("a sample")
        };
        assert_eq!((probe, process, thread, at_ns), (3, 10, 11, 5000));
        assert_eq!(arguments.map(|value| value as u32 - 100), NUMBERS[1..7]);
        assert_eq!((stack_pointer as u32 - 100, stack.len()), (NUMBERS[7], 8));
        words[0] = 78;
        assert_eq!(decode(&record(9, &words), &ids), None);
        assert_eq!(decode(&record(9, &[77, 1]), &ids), None);
        assert_eq!(decode(&record(2, &[0, 9]), &ids), Some(Hit::Lost(9)));
        let forked = Hit::Forked { process: 5, parent: 4, at_ns: 9000 };
        assert_eq!(decode(&record(7, &[5 | 4 << 32, 5 | 6 << 32, 9000]), &ids), Some(forked));
    }

    #[test]
    fn hits_are_counted_and_not_decoded_when_the_time_is_over() {
        let ids = Ids::from([(77, (3, false))]);
        let record = |kind: u64, words: &[u64]| -> Vec<u8> {
            let size = 8 + words.len() as u64 * 8;
            std::iter::once(&(kind | size << 48)).chain(words).flat_map(|word| word.to_ne_bytes()).collect()
        };
        let mut words = vec![77, 10 | 11 << 32, 5000, 2];
        words.extend([0; NUMBERS.len()]);
        let mut found = Found::default();
        found.add(&record(9, &words), &ids, false);
        for _ in 0..1000 {
            found.add(&record(9, &words), &ids, true);
        }
        // Losses and forks are few, and later calls need them.
        found.add(&record(2, &[0, 9]), &ids, true);
        found.add(&record(7, &[5 | 4 << 32, 5 | 6 << 32, 9000]), &ids, true);
        let hits = found.hits();
        assert!(matches!(hits[0], Hit::Probe { probe: 3, process: 10, .. }));
        let forked = Hit::Forked { process: 5, parent: 4, at_ns: 9000 };
        assert_eq!(hits[1..], [Hit::Lost(9), forked, Hit::Discarded { probe: 3, process: 10, count: 1000 }]);
    }
}
