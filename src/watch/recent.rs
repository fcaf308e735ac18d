//! The calls since the last report, for timelines. Their number is limited.

use super::files::Transfer;
use super::group::Group;
use crate::core::WatchedCall;
use cufile_audit::layout::{Answer, FUNCTIONS, Function};

/// Maximum number of calls between two reports. If a program makes more, its timeline shows the first calls of each
/// second.
const MOST: usize = 1000;
/// The number of calls of a program that are kept beyond [`MOST`], so that the timeline of one load is complete.
const BURST: usize = 20_000;

/// The calls since the last report.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Start time of the program in nanoseconds.
    pub(super) origin_ns: u64,
    calls: Vec<WatchedCall>,
    left_out: u64,
    /// The number of calls that were kept beyond [`MOST`].
    beyond: usize,
}

/// The facts about a call that its record alone does not contain.
#[derive(Debug, Default)]
pub(super) struct Details<'a> {
    pub(super) file: Option<&'a str>,
    pub(super) transfer: Option<Transfer>,
    pub(super) error: i64,
}

/// A transfer from its submission until its end was seen.
#[derive(Debug)]
pub(super) struct Submitted<'a> {
    pub(super) function: &'static str,
    pub(super) process: u32,
    pub(super) thread: u32,
    /// The times in nanoseconds of the submission and of the end.
    pub(super) times: [u64; 2],
    pub(super) file: &'a str,
    pub(super) transfer: Transfer,
    /// The number of bytes or a negative error code. `None` if it did not end.
    pub(super) result: Option<i64>,
}

impl Recent {
    /// Adds a call.
    pub(super) fn put(&mut self, function: Function, group: &Group, details: &Details<'_>) {
        if self.is_full() {
            return;
        }
        let record = &group.record;
        let is_cufile_transfer = details.transfer.is_some();
        let reads_file = FUNCTIONS[function as usize].answer == Answer::Bytes;
        let is_mapping = matches!(function, Function::LibcMmap | Function::LibcMmap64);
        let call = WatchedCall {
            process: group.process,
            thread: group.thread,
            function: FUNCTIONS[function as usize].name.to_owned(),
            start_ns: record.start_ns.saturating_sub(self.origin_ns),
            duration_ns: record.end_ns.saturating_sub(record.start_ns),
            bytes: bytes(function, group),
            file: details.file.map(str::to_owned),
            error: details.error,
            offset: (is_cufile_transfer || reads_file).then_some(record.offset.cast_signed()),
            flags: flags(function, group),
            result: (reads_file && !is_mapping).then_some(record.result.cast_signed()),
            ..WatchedCall::default()
        };
        self.calls.push(with(call, details.transfer.as_ref()));
    }

    /// Adds a transfer that a call submitted.
    pub(super) fn put_submitted(&mut self, submitted: &Submitted<'_>) {
        if self.is_full() {
            return;
        }
        let [from_ns, to_ns] = submitted.times;
        let call = WatchedCall {
            process: submitted.process,
            thread: submitted.thread,
            function: submitted.function.to_owned(),
            start_ns: from_ns.saturating_sub(self.origin_ns),
            duration_ns: to_ns.saturating_sub(from_ns),
            bytes: submitted.transfer.size,
            file: Some(submitted.file.to_owned()),
            error: submitted.result.unwrap_or(0).min(0),
            offset: Some(submitted.transfer.offset.cast_signed()),
            result: submitted.result,
            ..WatchedCall::default()
        };
        self.calls.push(with(call, Some(&submitted.transfer)));
    }

    /// Counts a call that is not kept.
    fn is_full(&mut self) -> bool {
        if self.calls.len() < MOST {
            return false;
        }
        let is_full = self.beyond >= BURST;
        self.beyond += usize::from(!is_full);
        self.left_out += u64::from(is_full);
        is_full
    }

    /// The calls since the last report, and the number of further calls.
    pub(super) fn take(&mut self) -> (Vec<WatchedCall>, u64) {
        (std::mem::take(&mut self.calls), std::mem::take(&mut self.left_out))
    }
}

/// The call with the facts about its memory.
fn with(call: WatchedCall, transfer: Option<&Transfer>) -> WatchedCall {
    let Some(transfer) = transfer else { return call };
    WatchedCall {
        alignment: Some(transfer.alignment()),
        registered: transfer.registered,
        write: transfer.write,
        ..call
    }
}

fn bytes(function: Function, group: &Group) -> u64 {
    match function {
        Function::BatchSubmit => group.parts.iter().fold(0, |sum, part| sum.saturating_add(part.size)),
        Function::BatchSetUp => 0,
        _ => group.record.size,
    }
}

/// The flags argument. For the registration of a file, the flags of its descriptor.
fn flags(function: Function, group: &Group) -> Option<u64> {
    let [first, second, ..] = group.record.extra;
    match function {
        Function::HandleRegister => Some(second).filter(|flags| *flags != u64::MAX),
        Function::BufRegister | Function::StreamRegister => Some(first & 0xffff_ffff),
        Function::BatchSubmit | Function::Readv | Function::Writev => Some(second & 0xffff_ffff),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::BATCH_ENTRY;
    use crate::watch::files::How;
    use cufile_audit::layout::Record;

    fn group(record: Record) -> Group {
        Group { process: 1, thread: 2, is_visible: true, record, parts: Vec::new() }
    }

    #[test]
    fn calls_beyond_the_limits_are_counted() {
        let group = group(Record { start_ns: 150, end_ns: 170, size: 4096, ..Record::default() });
        let mut recent = Recent { origin_ns: 100, ..Recent::default() };
        let mut put = |count: usize| {
            for _ in 0..count {
                recent.put(Function::Read, &group, &Details { file: Some("/f"), ..Details::default() });
            }
            recent.take()
        };
        let (calls, left_out) = put(MOST + BURST / 2);
        assert_eq!((calls.len(), left_out), (MOST + BURST / 2, 0));
        assert_eq!((calls[0].start_ns, calls[0].duration_ns, calls[0].bytes), (50, 20, 4096));
        assert_eq!(calls[0].function, "cuFileRead");
        let (calls, left_out) = put(MOST + BURST);
        assert_eq!((calls.len(), left_out), (MOST + BURST / 2, BURST as u64 / 2));
        // Nothing is left of the calls beyond the limit of a report.
        let (calls, left_out) = put(MOST + 3);
        assert_eq!((calls.len(), left_out), (MOST, 3));
        assert_eq!(put(0), (Vec::new(), 0));
    }

    #[test]
    fn a_call_has_its_offset_memory_flags_and_result() {
        let mut recent = Recent::default();
        let transfer = Transfer {
            write: false,
            how: How::Single,
            offset: 512,
            size: 8192,
            address: 4096,
            registered: Some(false),
        };
        let read = Record { offset: 512, size: 8192, result: 100, ..Record::default() };
        recent.put(Function::Read, &group(read), &Details { transfer: Some(transfer), ..Details::default() });
        let with_flags = Record { extra: [9, 0x4000, 0, 0, 0, 0, 0], ..Record::default() };
        recent.put(Function::HandleRegister, &group(with_flags), &Details::default());
        recent.put(Function::BatchSubmit, &group(with_flags), &Details::default());
        recent.put(Function::BufRegister, &group(with_flags), &Details::default());
        recent.put(Function::DriverOpen, &group(with_flags), &Details::default());
        let times = [30, 80];
        let transfer = Transfer { write: true, how: How::Batch, registered: None, ..transfer };
        let (function, process, thread, file) = (BATCH_ENTRY, 1, 2, "/f");
        let failed = Submitted { function, process, thread, times, file, transfer, result: Some(-5) };
        recent.put_submitted(&failed);
        let (calls, _) = recent.take();
        let first = &calls[0];
        assert_eq!((first.offset, first.alignment, first.registered), (Some(512), Some(512), Some(false)));
        assert_eq!((first.flags, first.result), (None, Some(100)));
        let flags: Vec<_> = calls[1..5].iter().map(|call| (call.flags, call.offset, call.result)).collect();
        assert_eq!(
            flags,
            [(Some(0x4000), None, None), (Some(0x4000), None, None), (Some(9), None, None), (None, None, None)]
        );
        let entry = &calls[5];
        assert_eq!((entry.start_ns, entry.duration_ns, entry.bytes, entry.offset), (30, 50, 8192, Some(512)));
        assert_eq!((entry.error, entry.result, entry.write, entry.registered), (-5, Some(-5), true, None));
        assert!(entry.is_submitted() && !first.is_submitted());
    }
}
