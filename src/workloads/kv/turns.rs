//! Assigns tasks to threads. All threads share one queue, unless each has a CUDA stream. Then each thread has a
//! separate queue, filled round robin as in UCM, because a thread that takes many tasks at once would leave none for
//! the others. If writes run during a read, as in llm-d's thread pool, three of four threads prefer reads and the
//! others prefer writes, so that neither waits too long. Without this preference, tasks are taken in the order of the
//! requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A task of a thread, with its number among the reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Read(usize),
    Write(usize),
}

/// The remaining reads and writes.
#[derive(Debug)]
pub(super) struct Turns {
    reads: usize,
    writes: usize,
    /// Number of threads that prefer reads; `None` if no thread has a preference.
    readers: Option<usize>,
    next_read: AtomicUsize,
    /// Number of assigned reads and writes, if there are both.
    given: Mutex<(usize, usize)>,
    /// The next read of each thread, if each thread has a separate queue.
    dealt: Vec<AtomicUsize>,
}

impl Turns {
    pub(super) fn new(reads: usize, writes: usize, threads: usize, read_priority: bool) -> Self {
        let readers = read_priority.then(|| (threads * 3 / 4).max(1));
        Self { reads, writes, readers, next_read: AtomicUsize::new(0), given: Mutex::new((0, 0)), dealt: Vec::new() }
    }

    /// Creates a separate queue for each thread, with reads only or writes only.
    pub(super) fn dealt(reads: usize, threads: usize) -> Self {
        Self { dealt: (0..threads).map(AtomicUsize::new).collect(), ..Self::new(reads, 0, threads, false) }
    }

    /// The next task of the thread with this number; `None` if no task is left.
    pub(super) fn next(&self, thread: usize) -> Option<Turn> {
        if let Some(next) = self.dealt.get(thread) {
            let read = next.fetch_add(self.dealt.len(), Ordering::Relaxed);
            return (read < self.reads).then_some(Turn::Read(read));
        }
        if self.writes == 0 {
            let read = self.next_read.fetch_add(1, Ordering::Relaxed);
            return (read < self.reads).then_some(Turn::Read(read));
        }
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, write) = *given;
        let reads_first = match self.readers {
            Some(readers) => thread < readers,
            // Without a preference, the share of assigned writes follows the share of assigned reads.
            None => read * self.writes <= write * self.reads,
        };
        if read < self.reads && (reads_first || write >= self.writes) {
            given.0 += 1;
            Some(Turn::Read(read))
        } else if write < self.writes {
            given.1 += 1;
            Some(Turn::Write(write))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(turns: &Turns, threads: usize) -> Vec<Turn> {
        let mut taken = Vec::new();
        let mut thread = 0;
        while let Some(turn) = turns.next(thread) {
            taken.push(turn);
            thread = (thread + 1) % threads;
        }
        taken
    }

    #[test]
    fn every_read_and_every_write_is_taken_once_whatever_the_order() {
        for (reads, writes, threads) in [(0, 0, 1), (5, 0, 4), (0, 5, 4), (7, 3, 4), (3, 7, 1), (64, 64, 9)] {
            for priority in [false, true] {
                let mut taken = all(&Turns::new(reads, writes, threads, priority), threads);
                taken.sort_by_key(|turn| match turn {
                    Turn::Read(at) => (0, *at),
                    Turn::Write(at) => (1, *at),
                });
                let wanted: Vec<Turn> = (0..reads).map(Turn::Read).chain((0..writes).map(Turn::Write)).collect();
                assert_eq!(taken, wanted, "{reads} {writes} {threads} {priority}");
            }
        }
    }

    #[test]
    fn dealt_round_each_thread_has_every_nth_whatever_the_others_take() {
        let turns = Turns::dealt(8, 3);
        let queue = |thread| std::iter::from_fn(|| turns.next(thread)).collect::<Vec<_>>();
        assert_eq!(queue(1), [1, 4, 7].map(Turn::Read));
        assert_eq!(queue(0), [0, 3, 6].map(Turn::Read));
        assert_eq!(queue(2), [2, 5].map(Turn::Read));
        assert_eq!(queue(0), []);
    }

    #[test]
    fn with_priority_one_thread_reads_before_it_writes_and_one_of_four_does_not() {
        let order = |threads, priority| all(&Turns::new(6, 6, threads, priority), threads);
        let writes_before_the_last_read = |taken: &[Turn]| {
            let last = taken.iter().rposition(|turn| matches!(turn, Turn::Read(_))).unwrap_or(0);
            taken[..last].iter().filter(|turn| matches!(turn, Turn::Write(_))).count()
        };
        assert_eq!(writes_before_the_last_read(&order(1, true)), 0);
        assert_eq!(writes_before_the_last_read(&order(4, true)), 1);
        assert!((5..=6).contains(&writes_before_the_last_read(&order(1, false))));
    }
}
