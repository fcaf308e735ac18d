//! Tests of the limits of a report, see `tally.rs`.

use super::*;
use crate::watch::rings::Totals;

fn call(tally: &mut Tally, function: Function, process: u32, object: u64) {
    let record =
        Record { head: Record::head(function as u16, 0, 0), object, base: object, size: 1, ..Record::default() };
    tally.take(&Group { process, thread: process, is_visible: false, record, parts: Vec::new() });
}

#[test]
fn handles_and_buffers_without_end_take_bounded_memory_and_are_counted_as_lost() {
    let mut tally = Tally::default();
    for number in 0..MOST_REGISTERED as u64 {
        let function = if number % 2 == 0 { Function::HandleRegister } else { Function::BufRegister };
        call(&mut tally, function, number as u32 % 7, number);
    }
    assert_eq!((tally.registered, tally.not_kept), (MOST_REGISTERED, 0));
    call(&mut tally, Function::HandleRegister, 8, 4);
    call(&mut tally, Function::BufRegister, 8, 5);
    // A handle that is registered again takes the place of the earlier one.
    call(&mut tally, Function::HandleRegister, 0, 0);
    assert_eq!((tally.registered, tally.not_kept), (MOST_REGISTERED, 2));
    assert_eq!(tally.report(&Totals::default()).lost_events, 2);
    call(&mut tally, Function::HandleDeregister, 0, 0);
    call(&mut tally, Function::BufDeregister, 1, 1);
    call(&mut tally, Function::BufDeregister, 1, 1);
    assert_eq!(tally.registered, MOST_REGISTERED - 2);
    call(&mut tally, Function::HandleRegister, 8, 4);
    assert_eq!((tally.registered, tally.not_kept), (MOST_REGISTERED - 1, 2));
}

#[test]
fn reads_after_lost_registrations_belong_to_no_file_that_was_known_before() {
    const MEMORY: u64 = 0x1000;
    let mut tally = Tally::default();
    let take = |tally: &mut Tally, function: Function, at_ns: u64| {
        let record = Record {
            head: Record::head(function as u16, 0, 0),
            start_ns: at_ns,
            end_ns: at_ns + 1,
            object: 7,
            base: MEMORY,
            size: 16,
            result: if function == Function::Read { 16 } else { 0 },
            ..Record::default()
        };
        tally.take(&Group { process: 1, thread: 1, is_visible: false, record, parts: Vec::new() });
    };
    let known = tally.file("/known".to_owned(), 7);
    take(&mut tally, Function::BufRegister, 5);
    tally.of(1).handles.insert((0, 7), (known, 10));
    take(&mut tally, Function::Read, 20);
    tally.lose_names(30, 40);
    // This read began before the loss, and arrives later.
    take(&mut tally, Function::Read, 25);
    let reads = |tally: &Tally, path: &str| tally.files[tally.by_path[path]].seen().reads;
    assert_eq!(reads(&tally, "/known").count, 2);
    assert_eq!(reads(&tally, "/known").unregistered, 0);
    for at_ns in [35, 50] {
        take(&mut tally, Function::Read, at_ns);
    }
    assert_eq!(reads(&tally, "/known").count, 2);
    let unknown = reads(&tally, "unknown file (handle 0x7)");
    assert_eq!((unknown.count, unknown.unregistered), (2, 0));
    // A later registration is known again.
    tally.of(1).handles.insert((0, 7), (known, 60));
    take(&mut tally, Function::Read, 70);
    assert_eq!(reads(&tally, "/known").count, 3);
    for second in 0..MOST_GAPS as u64 + 5 {
        tally.lose_names(100 + second * 10, 101 + second * 10);
    }
    assert_eq!(tally.names_lost.len(), MOST_GAPS);
    assert!(tally.is_certain(42, 99) && !tally.is_certain(42, 100) && !tally.is_certain(0, u64::MAX));
}

/// A submission of one entry to a batch, or a status call with one event, between two times in nanoseconds.
fn batch(function: Function, times: [u64; 2], parts: Vec<Record>, events: u64) -> Group {
    let mut record = Record {
        head: Record::head(function as u16, 0, 1),
        object: 5,
        start_ns: times[0],
        end_ns: times[1],
        ..Record::default()
    };
    record.extra[EVENTS_WORD] = events;
    let parts = parts.into_iter().map(|part| Record { object: 5, end_ns: times[1], ..part }).collect();
    Group { process: 1, thread: 1, is_visible: false, record, parts }
}

#[test]
fn entries_whose_end_was_lost_are_not_ended_by_a_later_event_with_their_cookie() {
    const COOKIE: u64 = 77;
    let entry = Record {
        head: Record::head(kind::BATCH_ENTRY, 0, 0),
        size: 4096,
        extra: [COOKIE, 0, 9, 0, 0, 0, 0],
        ..Record::default()
    };
    let event = Record {
        head: Record::head(kind::BATCH_EVENT, 0, 0),
        result: 4096,
        extra: [COOKIE, u64::from(cufile_ffi::values::BATCH_COMPLETE), 0, 0, 0, 0, 0],
        ..Record::default()
    };
    let submit = |at_ns| batch(Function::BatchSubmit, [at_ns, at_ns + 1], vec![entry], 0);
    let status = |at_ns, parts| batch(Function::BatchGetStatus, [at_ns, at_ns + 1], parts, 1);
    let longest = |groups: &[Group]| {
        let mut tally = Tally::default();
        groups.iter().for_each(|group| tally.take(group));
        let report = tally.report(&Totals::default());
        (report.files[0].reads.bytes, report.sizes.first().map_or(0, |size| size.longest_ns))
    };
    assert_eq!(longest(&[submit(100), status(200, vec![event])]), (4096, 101));
    // The events of the first status call are not known.
    let groups = [submit(100), status(200, Vec::new()), submit(1000), status(1010, vec![event])];
    assert_eq!(longest(&groups), (4096, 11));
    // The first submission is not known, and its event does not end the entry of the second one.
    let groups = [status(200, vec![event]), submit(1000), status(1010, vec![event])];
    assert_eq!(longest(&groups), (4096, 11));
}
