//! Tracks transfers on a stream. Their result is written to the program's memory after the call.

use super::files::Transfer;
use super::rings::now_ns;
use crate::trust;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Maximum number of unfinished transfers of one process that are kept. They are searched for each new transfer.
const MOST_PENDING: usize = 16_384;

/// A transfer that is not known to have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// The process, the copy of libcufile and the thread that submitted it.
    pub(super) process: u32,
    pub(super) library: u8,
    pub(super) thread: u32,
    /// The time of the submission in nanoseconds.
    pub(super) submitted_ns: u64,
    pub(super) file: usize,
    pub(super) transfer: Transfer,
    /// The address in the program at which the result is written.
    pub(super) result_at: u64,
    /// The value at that address before the call.
    pub(super) before: i64,
    /// Whether the memory of the process can be accessed by its process id.
    pub(super) is_visible: bool,
}

/// The unfinished stream transfers of all processes.
#[derive(Debug, Default)]
pub(super) struct Streams {
    pending: HashMap<u32, Vec<Pending>>,
}

/// A transfer with its result and the time in nanoseconds at which the result was seen.
pub(super) type Ended = (Pending, i64, u64);

impl Streams {
    pub(super) fn unfinished(&self) -> u64 {
        self.pending.values().map(|pending| pending.len() as u64).sum()
    }

    /// Adds a submitted transfer. `after` is the value at the result's address when the call returned, at
    /// `returned_ns`. If the program reuses the address of an earlier result, the earlier transfer has ended and is
    /// returned.
    pub(super) fn submit(&mut self, new: Pending, after: i64, returned_ns: u64) -> Vec<Ended> {
        let pending = self.pending.entry(new.process).or_default();
        let mut ended = Vec::new();
        pending.retain(|old| {
            let is_used_again = old.result_at == new.result_at;
            if is_used_again && is_result(old, new.before) {
                ended.push((*old, new.before, new.submitted_ns));
            }
            !(is_used_again && is_result(old, new.before))
        });
        if is_result(&new, after) {
            ended.push((new, after, returned_ns));
        } else if pending.len() < MOST_PENDING {
            pending.push(new);
        }
        ended
    }

    /// Removes the transfers of a process.
    pub(super) fn forget(&mut self, process: u32) -> Vec<Pending> {
        self.pending.remove(&process).unwrap_or_default()
    }

    /// The transfers that have not ended.
    pub(super) fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.pending.values().flatten()
    }

    /// Looks for results in the memory of the processes.
    pub(super) fn look(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        for (process, pending) in &mut self.pending {
            if pending.is_empty() {
                continue;
            }
            // A program that changed its user can name any process, and one of another user may never answer.
            let folder = trust::process::folder(process.cast_signed());
            if !trust::process::is_own(&folder) {
                continue;
            }
            // This fails if the process has ended. Its transfers then stay unfinished.
            let Ok(memory) = File::open(folder.join("mem")) else { continue };
            pending.retain(|transfer| {
                if !transfer.is_visible {
                    return true;
                }
                let mut word = [0; 8];
                let found = memory.read_exact_at(&mut word, transfer.result_at).map(|()| i64::from_ne_bytes(word));
                match found {
                    Ok(result) if is_result(transfer, result) => {
                        ended.push((*transfer, result, now_ns()));
                        false
                    }
                    _ => true,
                }
            });
        }
        ended
    }
}

/// Whether a changed value can be a result: at most the requested number of bytes, or an error code of cuFile or the
/// operating system.
fn is_result(pending: &Pending, value: i64) -> bool {
    let most = i64::try_from(pending.transfer.size).unwrap_or(i64::MAX);
    value != pending.before && (-10_000..=most).contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::files::How;

    fn pending(result_at: u64, before: i64) -> Pending {
        let transfer =
            Transfer { write: false, how: How::Stream, offset: 0, size: 4096, address: 0, registered: Some(true) };
        let (process, thread, submitted_ns) = (1, 2, 100);
        Pending { process, library: 0, thread, submitted_ns, file: 0, transfer, result_at, before, is_visible: true }
    }

    #[test]
    fn a_result_is_seen_after_the_call_in_memory_or_when_its_place_is_used_again() {
        let mut streams = Streams::default();
        let ended = streams.submit(pending(8, 0), 4096, 150);
        assert_eq!((ended.len(), ended[0].2), (1, 150));
        assert!(streams.submit(pending(8, 0), 0, 160).is_empty());
        let ended = streams.submit(Pending { submitted_ns: 170, ..pending(8, -5) }, -5, 180);
        assert_eq!((ended.len(), ended[0].1, ended[0].2, streams.unfinished()), (1, -5, 170, 1));

        let own = std::process::id();
        let place = std::sync::atomic::AtomicI64::new(-1);
        let here = Pending { process: own, ..pending(place.as_ptr().addr() as u64, -1) };
        assert!(streams.submit(here, -1, 0).is_empty());
        assert!(streams.look().is_empty());
        place.store(77, std::sync::atomic::Ordering::SeqCst);
        let ended = streams.look();
        assert_eq!((ended.len(), ended[0].1), (1, 77));
        // More bytes than this transfer has.
        assert!(!is_result(&pending(0, 0), 4097));
    }
}
