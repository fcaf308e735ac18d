//! Tests of the limits of a report, see `tally.rs`.

use super::*;
use crate::watch::readings::Sum;
use crate::watch::rings::Totals;
use cufile_audit::layout::{IDENTITY_WORD, SLOTS, slot_of};
use std::time::{Duration, Instant};

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

#[test]
fn failed_calls_are_not_among_the_durations() {
    const FAILED: u64 = (-5_i64).cast_unsigned();
    let mut tally = Tally::default();
    let entry = |result| {
        let head = Record::head(kind::BATCH_EVENT, 0, 0);
        let extra = [1, u64::from(cufile_ffi::values::BATCH_COMPLETE), 0, 0, 0, 0, 0];
        Record { head, result, extra, ..Record::default() }
    };
    let head = Record::head(kind::BATCH_ENTRY, 0, 0);
    let submitted = Record { head, size: 4096, extra: [1, 0, 9, 0, 0, 0, 0], ..Record::default() };
    for result in [MIB, FAILED] {
        let mut single = read(10, 7);
        single.record.result = result;
        let mut open = called(Function::DriverOpen, 20, 0);
        open.record.result = u64::from(result == FAILED);
        let submit = batch(Function::BatchSubmit, [30, 31], vec![submitted], 0);
        let status = batch(Function::BatchGetStatus, [40, 41], vec![entry(result)], 1);
        [single, open, submit, status].iter().for_each(|group| tally.take(group));
    }
    let report = tally.report(&Totals::default());
    assert_eq!(report.sizes.iter().map(|size| size.count).sum::<u64>(), 2);
    assert_eq!(report.latencies.iter().map(|class| class.count).sum::<u64>(), 2);
    let calls = |function: &str| -> u64 {
        let paces = report.paces.iter().filter(|pace| pace.function == function);
        paces.flat_map(|pace| &pace.parts).map(|part| part.0).sum()
    };
    let names = ["cuFileRead", "cuFileDriverOpen", "batch entry", "cuFileBatchIOSubmit"];
    assert_eq!(names.map(calls), [1, 1, 1, 2]);
    assert_eq!(report.files.iter().map(|file| file.reads.errors).sum::<u64>(), 2);
}

#[test]
fn entries_of_a_cancelled_batch_are_not_unfinished() {
    let part = |kind, status, result| {
        let (head, extra) = (Record::head(kind, 0, 0), [1, status, 9, 0, 0, 0, 0]);
        Record { head, size: 4096, result, extra, ..Record::default() }
    };
    let submit = batch(Function::BatchSubmit, [10, 11], vec![part(kind::BATCH_ENTRY, 0, 0)], 0);
    let cancel = || batch(Function::BatchCancel, [20, 21], Vec::new(), 0);
    let ends = |status: u32, result| {
        let event = part(kind::BATCH_EVENT, status.into(), result);
        batch(Function::BatchGetStatus, [30, 31], vec![event], 1)
    };
    let destroy = || batch(Function::BatchDestroy, [40, 41], Vec::new(), 0);
    let seen = |later: &[Group]| {
        let mut tally = Tally::default();
        std::iter::once(&submit).chain(later).for_each(|group| tally.take(group));
        tally.put_unfinished(50);
        let report = tally.report(&Totals::default());
        let reads = report.files[0].reads;
        assert_eq!((reads.count, reads.errors, report.failures.len()), (1, 0, 0));
        (reads.cancelled, reads.moved(), reads.bytes, report.unfinished)
    };
    assert_eq!(seen(&[destroy()]), (0, 1, 0, 1));
    assert_eq!(seen(&[cancel(), destroy()]), (1, 0, 0, 0));
    assert_eq!(seen(&[cancel()]), (1, 0, 0, 0));
    assert_eq!(seen(&[cancel(), ends(cufile_ffi::values::BATCH_CANCELED, 0), destroy()]), (1, 0, 0, 0));
    assert_eq!(seen(&[cancel(), ends(cufile_ffi::values::BATCH_COMPLETE, 4096), destroy()]), (0, 1, 4096, 0));
}

#[test]
fn the_timeline_has_the_errno_of_a_transfer_that_returned_minus_one() {
    let mut tally = Tally::default();
    for (result, errno) in [(-1, 5019), (-1, 0), (-5008_i64, 9)] {
        let mut failed = read(10, 7);
        failed.record.result = result.cast_unsigned();
        failed.record.extra[ERRNO_WORD] = errno;
        tally.take(&failed);
    }
    let (calls, _) = tally.recent.take();
    let seen: Vec<_> = calls.iter().map(|call| (call.error, call.result)).collect();
    assert_eq!(seen, [(-5019, Some(-1)), (-1, Some(-1)), (-5008, Some(-5008))]);
}

const FILES: [&str; 2] = ["/data/a", "/data/b"];
const MIB: u64 = 1 << 20;

/// A call of process 1 that ended at this time in nanoseconds, with a handle or the address of memory.
fn called(function: Function, at_ns: u64, object: u64) -> Group {
    let record = Record {
        head: Record::head(function as u16, 0, 0),
        start_ns: at_ns,
        end_ns: at_ns,
        object,
        base: object,
        size: MIB,
        ..Record::default()
    };
    Group { process: 1, thread: 1, is_visible: true, record, parts: Vec::new() }
}

fn registered(at_ns: u64, handle: u64, path: &str) -> Group {
    let record = Record { size: 0, ..called(Function::HandleRegister, at_ns, handle).record };
    Group::with_text(1, 1, record, path)
}

fn read(at_ns: u64, handle: u64) -> Group {
    let mut read = called(Function::Read, at_ns, handle);
    read.record.result = MIB;
    read
}

fn began(process: u32, at_ns: u64, parent: u64) -> Group {
    let head = Record::head(kind::PROCESS, 0, 0);
    let record = Record { head, start_ns: at_ns, end_ns: at_ns, object: parent, offset: at_ns, ..Record::default() };
    Group { process, ..Group::with_text(process, process, record, "/bin/load") }
}

/// The number of reads of each file, by its path.
fn reads(tally: &Tally) -> Vec<(String, u64)> {
    let files = tally.report(&Totals::default()).files;
    let mut reads: Vec<_> = files.into_iter().map(|file| (file.path, file.reads.count)).collect();
    reads.retain(|(_, count)| *count > 0);
    reads.sort();
    reads
}

#[test]
fn each_file_has_its_own_entry_also_if_another_one_had_its_path() {
    let mut tally = Tally::default();
    // The last one has no identity, so it is most likely the newest one.
    for (handle, inode, birth) in [(1, 5, 100), (2, 5, 100), (3, 6, 100), (4, 5, 200), (5, 0, 0)] {
        let mut group = registered(handle, handle, FILES[0]);
        (group.record.extra[IDENTITY_WORD + 1], group.record.extra[IDENTITY_WORD + 2]) = (inode, birth);
        tally.take(&group);
        tally.take(&read(handle, handle));
    }
    let expected = [("/data/a", 2), ("/data/a (file 2)", 1), ("/data/a (file 3)", 2)];
    assert_eq!((reads(&tally), tally.known(FILES[0])), (counts(&expected), Some(2)));
}

#[test]
fn all_processes_that_map_or_call_a_library_of_an_attached_process_are_counted() {
    const LIBRARY: &str = "/no/such/libcufile.so.0";
    let processes = |began_late| {
        let mut tally = Tally { began_late, ..Tally::default() };
        let record = Record { head: Record::head(kind::LIBRARY, 0, 0), ..Record::default() };
        tally.take(&Group::with_text(1, 1, record, LIBRARY));
        for process in [1, 2, 2, 3] {
            call(&mut tally, Function::Read, process, 7);
        }
        if began_late {
            tally.maps(3, LIBRARY);
            tally.maps(4, LIBRARY);
            tally.maps(5, "/no/such/other.so");
        }
        tally.report(&Totals::default()).libraries.iter().map(|library| library.processes).collect::<Vec<_>>()
    };
    assert_eq!(processes(true), [4]);
    // Each load in a started program is recorded.
    assert_eq!(processes(false), [1]);
}

#[test]
fn a_model_in_a_new_record_is_read_before_the_record_is_processed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("m.safetensors");
    let header = br#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_slice(), &[1; 4]].concat();
    std::fs::write(&path, bytes).unwrap();
    let open = std::fs::File::open(&path).unwrap();
    let mut group = registered(10, 7, path.to_str().unwrap());
    group.process = std::process::id();
    group.record.extra[0] = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&open)).unwrap();
    let mut tally = Tally::default();
    tally.meet(&group);
    drop(open);
    std::fs::remove_file(&path).unwrap();
    tally.take(&group);
    let files = tally.report(&Totals::default()).files;
    assert_eq!((files.len(), files[0].tensors_of_file, files[0].registrations), (1, 1, 1));
    // Other files are opened at no time.
    tally.meet(&registered(20, 8, FILES[0]));
    assert_eq!(tally.files.len(), 1);
}

#[test]
fn paths_that_differ_in_a_byte_that_is_not_utf_8_are_two_files() {
    let mut tally = Tally::default();
    for (handle, byte) in [(1, 0xff), (2, 0xfe)] {
        let mut group = registered(handle, handle, "/data/x");
        // The seventh byte of the path is in the second word of the text.
        let mut words = group.parts[0].words();
        words[1] = words[1] & !(0xff << 48) | byte << 48;
        group.parts[0] = Record::from_words(words);
        tally.take(&group);
        tally.take(&read(handle, handle));
    }
    assert_eq!(reads(&tally), counts(&[("/data/\\xfe", 1), ("/data/\\xff", 1)]));
}

fn counts(files: &[(&str, u64)]) -> Vec<(String, u64)> {
    files.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect()
}

#[test]
fn after_a_lost_release_a_handle_does_not_mean_its_earlier_file() {
    let lost = Losses { release_ns: 50, ..Losses::default() };
    let mut tally = Tally::default();
    for group in [registered(10, 7, FILES[0]), read(20, 7)] {
        tally.take(&group);
    }
    tally.lose(1, lost);
    // The registration at 40 ended before the loss, so its handle may have been released too.
    for group in [registered(40, 8, FILES[1]), read(60, 7), read(61, 8)] {
        tally.take(&group);
    }
    assert_eq!(reads(&tally), counts(&[("(unknown file)", 2), (FILES[0], 1)]));
    // The same loss is reported at each reading, and later registrations are certain.
    tally.take(&registered(70, 7, FILES[1]));
    tally.lose(1, lost);
    tally.take(&read(80, 7));
    assert_eq!(reads(&tally), counts(&[("(unknown file)", 2), (FILES[0], 1), (FILES[1], 1)]));
    assert_eq!(tally.registered, 1);
}

#[test]
fn only_processes_of_which_a_call_was_lost_lose_the_names_of_their_files() {
    let of = |process, group: Group| Group { process, ..group };
    let mut tally = Tally::default();
    for process in [5, 6] {
        tally.take(&of(process, registered(10, 7, FILES[0])));
    }
    tally.lose_in_slot(slot_of(5), 50);
    // Processes of both slots that are seen later, and may have lost their first call.
    for process in [5, 6, 5 + SLOTS as u32, 6 + SLOTS as u32] {
        if process > 6 {
            tally.take(&of(process, registered(40, 7, FILES[1])));
        }
        tally.take(&of(process, read(60, 7)));
    }
    assert_eq!(reads(&tally), counts(&[("(unknown file)", 2), (FILES[0], 1), (FILES[1], 1)]));
}

#[test]
fn after_a_lost_registration_known_handles_keep_their_files() {
    let mut tally = Tally::default();
    tally.take(&registered(10, 7, FILES[0]));
    tally.lose(1, Losses { registration_ns: 50, ..Losses::default() });
    for group in [read(60, 7), read(61, 8), called(Function::HandleDeregister, 70, 7), read(80, 7)] {
        tally.take(&group);
    }
    assert_eq!(reads(&tally), counts(&[("(unknown file)", 2), (FILES[0], 1)]));
    // After the end of the driver, the lost registration can have returned the same handle.
    for group in [registered(90, 7, FILES[0]), called(Function::DriverClose, 100, 0)] {
        tally.take(&group);
    }
    tally.lose(1, Losses { registration_ns: 110, ..Losses::default() });
    tally.take(&read(120, 7));
    assert_eq!(reads(&tally), counts(&[("(unknown file)", 3), (FILES[0], 1)]));
}

#[test]
fn after_a_loss_memory_is_not_called_registered_or_unregistered() {
    let seen = |lost: Losses| {
        let mut tally = Tally::default();
        tally.take(&called(Function::BufRegister, 10, 1 << 30));
        tally.lose(1, lost);
        for address in [1 << 30, 1 << 40] {
            let mut read = read(60, 7);
            read.record.base = address;
            tally.take(&read);
        }
        let report = tally.report(&Totals::default());
        let reads = report.files[0].reads;
        (reads.unregistered, reads.maybe_registered, report.buffers.most_bytes)
    };
    assert_eq!(seen(Losses::default()), (1, 0, MIB));
    assert_eq!(seen(Losses { registration_ns: 50, ..Losses::default() }), (0, 1, MIB));
    assert_eq!(seen(Losses { release_ns: 50, ..Losses::default() }), (0, 2, MIB));
}

#[test]
fn only_the_child_of_a_fork_has_the_handles_of_its_parent() {
    let mut tally = Tally::default();
    tally.take(&registered(10, 7, FILES[0]));
    let reads_in = |process, at_ns, handle| Group { process, ..read(at_ns, handle) };
    for group in [began(2, 20, 1), began(3, 21, 0), reads_in(2, 30, 7), reads_in(3, 31, 7)] {
        tally.take(&group);
    }
    assert_eq!(reads(&tally), counts(&[("(unknown file)", 1), (FILES[0], 1)]));
    // A later registration of the parent is not that of the child.
    tally.take(&called(Function::HandleDeregister, 40, 7));
    tally.take(&registered(41, 7, FILES[1]));
    tally.take(&reads_in(2, 50, 7));
    assert_eq!(reads(&tally), counts(&[("(unknown file)", 2), (FILES[0], 1)]));
}

#[test]
fn no_child_has_the_handles_of_a_later_program_with_the_number_of_its_parent() {
    let mut tally = Tally::default();
    let forked = |process, at_ns, parent, since_ns| {
        let mut group = began(process, at_ns, parent);
        group.record.base = since_ns;
        group
    };
    let reads_in = |process, at_ns| Group { process, ..read(at_ns, 7) };
    // The parent of process 3 made no call, so its record names the process before it.
    for group in [began(1, 5, 0), registered(10, 7, FILES[0]), forked(3, 20, 1, 5), reads_in(3, 21)] {
        tally.take(&group);
    }
    assert_eq!(reads(&tally), counts(&[(FILES[0], 1)]));
    // Process 4 was forked before and makes its first call after the number has another program.
    for group in [began(1, 30, 0), registered(40, 7, FILES[1]), forked(4, 50, 1, 5), reads_in(4, 51)] {
        tally.take(&group);
    }
    tally.take(&forked(5, 60, 1, 30));
    tally.take(&reads_in(5, 61));
    assert_eq!(reads(&tally), counts(&[("(unknown file)", 1), (FILES[0], 1), (FILES[1], 1)]));
}

#[test]
fn a_child_has_the_memory_that_its_parent_registered_before_the_fork() {
    let read_in = |process, at_ns, address| {
        let mut read = Group { process, ..read(at_ns, 7) };
        read.record.base = address;
        read
    };
    // The transfers with memory that is not registered, and those of which it is not known.
    let seen = |groups: &[Group]| {
        let mut tally = Tally::default();
        let before = [called(Function::BufRegister, 10, 1 << 30), began(2, 20, 1), began(3, 21, 0), began(4, 22, 2)];
        before.iter().chain(groups).for_each(|group| tally.take(group));
        let reads = tally.report(&Totals::default()).files[0].reads;
        (reads.unregistered, reads.maybe_registered)
    };
    let read = |process| read_in(process, 60, 1 << 30);
    let in_child = |group: Group| Group { process: 2, ..group };
    assert_eq!([1, 2, 3, 4].map(|process| seen(&[read(process)])), [(0, 0), (0, 0), (1, 0), (0, 0)]);
    // The parent registered it after the fork, or has released something since.
    let later = called(Function::BufRegister, 30, 1 << 40);
    assert_eq!(seen(&[later, read_in(2, 60, 1 << 40)]), (1, 0));
    let release = || called(Function::BufDeregister, 40, 1 << 30);
    assert_eq!(seen(&[release(), read(2)]), (0, 1));
    // The child released it, and registered it again. Its own child was forked before.
    assert_eq!(seen(&[in_child(release()), read(2)]), (0, 1));
    assert_eq!(seen(&[in_child(release()), read(4)]), (0, 1));
    assert_eq!(seen(&[in_child(release()), in_child(called(Function::BufRegister, 50, 1 << 30)), read(2)]), (0, 0));
}

#[test]
fn the_memory_of_a_child_is_that_at_the_fork_and_not_at_its_first_call() {
    // The fork was after the call at 10 and before that at 30. The child makes its first call later.
    let seen = |groups: &[Group]| {
        let mut child = began(2, 50, 1);
        child.record.offset = 10;
        let mut read = Group { process: 2, ..read(60, 7) };
        read.record.base = 1 << 30;
        let mut tally = Tally::default();
        groups.iter().chain([&child, &read]).for_each(|group| tally.take(group));
        let reads = tally.report(&Totals::default()).files[0].reads;
        (reads.unregistered, reads.maybe_registered)
    };
    let register = |at_ns| called(Function::BufRegister, at_ns, 1 << 30);
    let release = |at_ns| called(Function::BufDeregister, at_ns, 1 << 30);
    assert_eq!([seen(&[register(10)]), seen(&[register(30)])], [(0, 0), (1, 0)]);
    assert_eq!([seen(&[register(10), release(30)]), seen(&[register(5), release(10)])], [(0, 1), (1, 0)]);
}

#[test]
fn only_calls_that_enable_p2pdma_prevent_that_compat_is_inferred() {
    use cufile_ffi::values::{PARAM_FORCE_COMPAT_MODE, PARAM_USE_PCIP2PDMA};
    let reason = |function, object: u32, value, result| {
        let mut set = called(function, 10, object.into());
        (set.record.extra[0], set.record.result) = (value, result);
        let mut tally = Tally::default();
        tally.take(&set);
        tally.p2pdma(false)
    };
    let (parameter, flags) = (Function::SetParameterBool, Function::DriverSetP2pFlags);
    assert_eq!(reason(parameter, PARAM_USE_PCIP2PDMA, 1, 0), Some(RouteProof::ParameterEnablesP2pdma));
    assert_eq!(reason(flags, 8, 1, 0), Some(RouteProof::FlagsEnableP2pdma));
    for (function, object, value, result) in [
        (parameter, PARAM_FORCE_COMPAT_MODE, 1, 0),
        // Only the lowest byte of the register is the value.
        (parameter, PARAM_USE_PCIP2PDMA, 0xff00, 0),
        (parameter, PARAM_USE_PCIP2PDMA, 1, 5026),
        (flags, 8, 0, 0),
    ] {
        assert_eq!(reason(function, object, value, result), None, "{function:?} {object} {value} {result}");
    }
}

#[test]
fn a_new_program_in_a_process_has_nothing_of_the_former_one() {
    let mut tally = Tally::default();
    for group in [registered(10, 7, FILES[0]), called(Function::BufRegister, 11, 1 << 30), began(1, 20, 0), read(30, 7)]
    {
        tally.take(&group);
    }
    assert_eq!((reads(&tally), tally.registered), (counts(&[("(unknown file)", 1)]), 0));
}

#[test]
fn reads_of_libc_whose_path_was_lost_have_no_file_of_another() {
    let mut tally = Tally::default();
    let read = |inode| {
        let mut read = called(Function::LibcPread, 10, 3);
        (read.record.result, read.record.extra[1]) = (MIB, inode);
        read
    };
    let record = Record { head: Record::head(kind::FILE, 0, 0), extra: [0, 5, 0, 0, 0, 0, 0], ..Record::default() };
    for group in [read(5), read(6), Group::with_text(1, 1, record, FILES[0])] {
        tally.take(&group);
    }
    tally.end_waiting();
    let files = tally.report(&Totals::default()).files;
    let seen: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.plain.bytes)).collect();
    assert_eq!(seen, [("(unknown file)", MIB), (FILES[0], MIB)]);
}

#[test]
fn a_reading_of_the_counters_is_compared_with_the_transfers_until_then() {
    let sum = |transfers| [Sum { transfers, bytes: transfers * MIB }, Sum::default()];
    let lasting = |thread, start_ns, end_ns| {
        let mut read = read(end_ns, 7);
        (read.thread, read.record.start_ns) = (thread, start_ns);
        read
    };
    let counters = |start_ns, end_ns| {
        let head = Record::head(kind::STATISTICS, 0, 0);
        Group { record: Record { head, start_ns, end_ns, ..Record::default() }, ..read(0, 0) }
    };
    let mut tally = Tally::default();
    for group in [lasting(1, 10, 20), lasting(2, 15, 60), counters(50, 55)] {
        tally.take(&group);
    }
    tally.take(&lasting(1, 70, 80));
    let bounds = tally.take_reading().map(|reading| reading.bounds);
    assert_eq!(bounds, Some(Bounds { least: sum(1), most: sum(2), certain: sum(0) }));
    assert!(tally.take_reading().is_none());
    tally.take(&counters(100, 105));
    let bounds = tally.take_reading().map(|reading| reading.bounds);
    assert_eq!(bounds, Some(Bounds { least: sum(3), most: sum(3), certain: sum(1) }));
}

/// A reading of counters of process 1 between two times in nanoseconds that has this number of reads.
fn counters_of(times: [u64; 2], reads: u64) -> Group {
    let head = Record::head(kind::STATISTICS, 0, 0);
    let record = Record {
        head,
        start_ns: times[0],
        end_ns: times[1],
        extra: [reads, 0, 0, reads * MIB, 0, 0, 0],
        ..Record::default()
    };
    Group { record, ..read(0, 0) }
}

/// The reads that libcufile counted according to these records, which are in the order of time.
fn counted_reads(groups: &[Group]) -> u64 {
    assert!(groups.is_sorted_by_key(Group::order));
    let mut tally = Tally::default();
    groups.iter().for_each(|group| tally.take(group));
    tally.report(&Totals::default()).statistics.map_or(0, |seen| seen.reads)
}

#[test]
fn an_older_reading_that_ends_later_is_no_new_begin_of_the_counters() {
    let overlapping = [counters_of([50, 60], 100), counters_of([40, 70], 80), counters_of([65, 75], 90)];
    assert_eq!(counted_reads(&overlapping), 100);
    let later = counters_of([80, 90], 120);
    assert_eq!(counted_reads(&[&overlapping[..], &[later][..]].concat()), 120);
    // The readings of 40 threads, of which each ends after the next one begins.
    let storm: Vec<_> = (0..40).map(|n| counters_of([n * 10, n * 10 + 15], 1000 - (n % 7) * 20)).collect();
    assert_eq!(counted_reads(&storm), 1000);
}

#[test]
fn a_process_in_which_only_one_copy_of_libcufile_has_counters_is_partial() {
    let read_by = |process, library| {
        let mut read = Group { process, ..read(10, 7) };
        read.record.head = Record::head(Function::Read as u16, library, 0);
        read
    };
    let seen = |groups: &[Group]| {
        let mut tally = Tally::default();
        groups.iter().for_each(|group| tally.take(group));
        let statistics = tally.report(&Totals::default()).statistics;
        statistics.map(|seen| (seen.processes, seen.missing_processes, seen.partial_processes))
    };
    let (first, second, child) = (read_by(1, 0), read_by(1, 1), read_by(2, 0));
    let counters = counters_of([20, 30], 1);
    assert_eq!(seen(&[first.clone(), counters.clone()]), Some((1, 0, 0)));
    assert_eq!(seen(&[first.clone(), second.clone(), counters.clone()]), Some((1, 1, 1)));
    assert_eq!(seen(&[first.clone(), child, counters.clone()]), Some((1, 1, 0)));
    // Another program starts in the process.
    assert_eq!(seen(&[first, second, counters, began(1, 40, 0)]), Some((1, 1, 1)));
}

#[test]
fn counters_that_begin_again_are_added_to_the_former_ones() {
    let before = counters_of([10, 20], 100);
    // Without a reason in the records, only the order of the readings shows it.
    assert_eq!(counted_reads(&[before.clone(), counters_of([20, 30], 7)]), 107);
    for function in [Function::DriverClose, Function::StatsReset] {
        let mut again = called(function, 40, 0);
        again.record.end_ns = 45;
        let groups = [before.clone(), again, counters_of([35, 50], 100), counters_of([46, 55], 7)];
        assert_eq!(counted_reads(&groups), 107, "a reading during the call belongs to the former counters");
    }
    let mut loaded = called(Function::Read, 40, 0);
    loaded.record.head = Record::head(kind::LIBRARY, 0, 0);
    assert_eq!(counted_reads(&[before.clone(), loaded, counters_of([38, 50], 100), counters_of([46, 55], 7)]), 107);
    // A reading of the former counters that ends after the first one of the new counters.
    assert_eq!(counted_reads(&[before, counters_of([30, 40], 7), counters_of([25, 50], 100)]), 107);
}

#[test]
fn an_answer_about_a_started_program_may_take_a_second() {
    let mut tally = Tally::of_own_program();
    let start = Instant::now();
    // On a stalled machine, the answer can be too late.
    while tally.examine(std::process::id(), |_| std::thread::sleep(Duration::from_millis(1200))).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
