//! The calls since the last report, for timelines. Their number is limited.

use super::group::Group;
use crate::core::WatchedCall;
use cufile_audit::layout::{FUNCTIONS, Function};

/// Maximum number of calls between two reports. If a program makes more, its timeline shows the first calls of each
/// second.
const MOST: usize = 1000;

/// The calls since the last report.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Start time of the program in nanoseconds.
    pub(super) origin_ns: u64,
    calls: Vec<WatchedCall>,
    left_out: u64,
}

impl Recent {
    pub(super) fn put(&mut self, function: Function, group: &Group, file: Option<&str>, error: i64) {
        if self.calls.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let record = &group.record;
        self.calls.push(WatchedCall {
            process: group.process,
            thread: group.thread,
            function: FUNCTIONS[function as usize].name.to_owned(),
            start_ns: record.start_ns.saturating_sub(self.origin_ns),
            duration_ns: record.end_ns.saturating_sub(record.start_ns),
            bytes: bytes(function, group),
            file: file.map(str::to_owned),
            error,
        });
    }

    /// The calls since the last report, and the number of further calls.
    pub(super) fn take(&mut self) -> (Vec<WatchedCall>, u64) {
        (std::mem::take(&mut self.calls), std::mem::take(&mut self.left_out))
    }
}

fn bytes(function: Function, group: &Group) -> u64 {
    match function {
        Function::BatchSubmit => group.parts.iter().fold(0, |sum, part| sum.saturating_add(part.size)),
        Function::BatchSetUp => 0,
        _ => group.record.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cufile_audit::layout::Record;

    #[test]
    fn calls_beyond_the_limit_are_counted() {
        let record = Record { start_ns: 150, end_ns: 170, size: 4096, ..Record::default() };
        let group = Group { process: 1, thread: 2, is_visible: true, record, parts: Vec::new() };
        let mut recent = Recent { origin_ns: 100, ..Recent::default() };
        for _ in 0..MOST + 3 {
            recent.put(Function::Read, &group, Some("/f"), 0);
        }
        let (calls, left_out) = recent.take();
        assert_eq!((calls.len(), left_out), (MOST, 3));
        assert_eq!((calls[0].start_ns, calls[0].duration_ns, calls[0].bytes), (50, 20, 4096));
        assert_eq!(calls[0].function, "cuFileRead");
        assert_eq!(recent.take(), (Vec::new(), 0));
    }
}
