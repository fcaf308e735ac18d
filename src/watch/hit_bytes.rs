//! Creates a report from hits of kernel probes with any content. Tests of hostile input use it, because any program can
//! call functions of a file named libcufile with any arguments.

use super::probes::Recorder;
use super::routes::{MachineRoutes, decide};
use super::tally::Tally;
use crate::core::{AttachedProcess, WatchReport};
use crate::device::Hit;
use cufile_audit::layout::Function;

/// The words of a hit: function and place, time, result, six arguments, stack pointer, stack.
const WORDS: usize = 18;
const STACK_FROM: usize = 10;

/// Reads these bytes as hits of 18 words. The first word contains the function (two bytes), whether it returned, the
/// library and the thread (one byte each).
#[must_use]
pub fn read_hits(bytes: &[u8]) -> WatchReport {
    // No process has this number, so no other memory is read.
    let process = u32::MAX;
    let mut recorder = Recorder::new(process);
    let mut tally = Tally::default();
    for hit in bytes.chunks_exact(WORDS * 8) {
        let mut words = [0; WORDS];
        for (word, eight) in words.iter_mut().zip(hit.chunks_exact(8)) {
            *word = eight.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        }
        let [place, at_ns, result, a, b, c, d, e, f, stack_pointer, ..] = words;
        let function = Function::ALL[place as u16 as usize % Function::ALL.len()];
        let [at_return, library, thread] = [16, 24, 32].map(|bit| (place >> bit) as u8);
        let hit = Hit::Probe {
            probe: 0,
            process,
            thread: u32::from(thread),
            at_ns,
            result,
            arguments: [a, b, c, d, e, f],
            stack_pointer,
            stack: hit[STACK_FROM * 8..].to_vec(),
        };
        if let Some(group) = recorder.take(usize::from(library), function, at_return & 1 != 0, hit, at_return & 2 != 0)
        {
            tally.take(&group);
        }
    }
    let mut report = WatchReport {
        attached: Some(AttachedProcess { recorded: true, ..AttachedProcess::default() }),
        open_calls: recorder.open_calls(0),
        ..tally.report(&recorder.totals())
    };
    decide(&mut report, tally.requested_bytes(), MachineRoutes::look(None, None));
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_counted_once_it_returns() {
        let hit = |at_return: u64, at_ns: u64, result: u64| {
            let mut words = [0; WORDS];
            words[..7].copy_from_slice(&[Function::Read as u64 | at_return << 16, at_ns, result, 7, 0x1000, 4096, 0]);
            words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect::<Vec<u8>>()
        };
        let report = read_hits(&[hit(0, 10, 0), hit(1, 30, 4096), hit(0, 40, 0)].concat());
        let [call] = report.calls.as_slice() else { unreachable!("one function") };
        assert_eq!((call.count, call.bytes, call.total_ns, report.open_calls.len()), (1, 4096, 20, 1));
    }
}
