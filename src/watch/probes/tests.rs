//! Tests of recorded calls, see `probes.rs`.

use super::*;
use crate::core::UNKNOWN_FILE;
use crate::watch::named_file::tests::named;
use crate::watch::tally::Tally;

/// The registration of an open file of this process.
fn registration(file: &File) -> Group {
    // The stack contains the handle and then the description of the file.
    let words = [0xabc_u64, 1, file.as_raw_fd() as u64, 0];
    let stack: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let process = std::process::id();
    let memory = Memory { process, stack_pointer: 0x7000, stack: &stack, used_current: Cell::new(false) };
    let begun = begin(Function::HandleRegister, 0, 5, [0x7000, 0x7008, 0, 0, 0, 0], &memory);
    let group = end(&begun, process, 9, (7, 0), &memory, &mut KnownFlags::default());
    assert!(!memory.used_current.get());
    group
}

#[test]
fn a_registration_is_read_from_the_stack_and_named_by_its_descriptor() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let group = registration(file.as_file());
    assert_eq!((group.record.object, group.record.extra[0]), (0xabc, file.as_file().as_raw_fd() as u64));
    let path = file.path().canonicalize().unwrap();
    assert_eq!((group.text(), group.file().0), (path.to_string_lossy().into_owned(), named(&path)));
    let memory =
        Memory { process: std::process::id(), stack_pointer: 0x7000, stack: &[], used_current: Cell::new(false) };
    // This address is outside the stack, so it is read from memory.
    let value = Box::new(0x1234_u64);
    assert_eq!(memory.word((&raw const *value).addr() as u64), 0x1234);
    assert!(memory.used_current.get());
    assert_eq!(memory.word(0), 0);
}

#[test]
fn files_that_had_the_same_path_one_after_the_other_have_two_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("data");
    let mut tally = Tally::default();
    let mut open = Vec::new();
    for _ in 0..2 {
        std::fs::write(dir.path().join("new"), "x").unwrap();
        std::fs::rename(dir.path().join("new"), &path).unwrap();
        // The file is registered twice.
        for _ in 0..2 {
            let file = File::open(&path).unwrap();
            tally.take(&registration(&file));
            open.push(file);
        }
    }
    let files = tally.report(&Totals::default()).files;
    let seen: Vec<_> = files.iter().map(|file| (file.path.clone(), file.registrations)).collect();
    let shown = path.display().to_string();
    assert_eq!(seen, [(shown.clone(), 2), (format!("{shown} (file 2)"), 2)]);
}

/// A hit of this process.
fn hit(at_ns: u64, arguments: [u64; 6]) -> Hit {
    Hit::Probe {
        probe: 0,
        process: std::process::id(),
        thread: 9,
        at_ns,
        result: 0,
        arguments,
        stack_pointer: 0,
        stack: Vec::new(),
    }
}

#[test]
fn arguments_that_may_have_changed_since_the_call_are_lost_and_not_guessed() {
    let entry = Box::new([1_u64, 0x5000, 4096, 0, 8192, 7, 0, 42]);
    let entries = entry.as_ptr().addr() as u64;
    let submit = |returned_ns, went_on| {
        let mut recorder = Recorder::new(1);
        let arguments = [3, 1, entries, 0, 0, 0];
        assert_eq!(recorder.take(0, Function::BatchSubmit, false, hit(5, arguments), went_on), None);
        let group = recorder.take(0, Function::BatchSubmit, true, hit(returned_ns, [0; 6]), false);
        (group.map(|group| (group.parts[0].offset, group.parts[0].size)), recorder.totals().lost)
    };
    // The arguments were read before the call returned, or after it.
    assert_eq!(submit(u64::MAX, true), (Some((4096, 8192)), 0));
    assert_eq!(submit(6, false), (None, 1));
    let mut recorder = Recorder::new(1);
    let mut status = |went_on| {
        let arguments = [3, 1, entries, entries, 0, 0];
        assert_eq!(recorder.take(0, Function::BatchGetStatus, false, hit(5, arguments), true), None);
        let group = recorder.take(0, Function::BatchGetStatus, true, hit(6, [0; 6]), went_on);
        (group.map(|group| group.parts.len()), recorder.totals().lost)
    };
    // The result was read before the thread made another call, or after it.
    assert_eq!((status(false), status(true)), ((Some(1), 0), (Some(0), 1)));
}

#[test]
fn a_registration_that_was_read_late_counts_unless_a_later_one_uses_its_memory() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().canonicalize().unwrap().to_string_lossy().into_owned();
    let handle = Box::new(0xabc_u64);
    let place = |words: &[u64]| words.as_ptr().addr() as u64;
    // The lower half of the first word is the type, that of the second one the descriptor.
    let seen = |form: u64, later: Option<u64>| {
        let description = Box::new([form, file.as_raw_fd() as u64, 0]);
        let arguments = [place(std::slice::from_ref(&*handle)), place(&*description), 0, 0, 0, 0];
        let mut recorder = Recorder::new(1);
        recorder.take(0, Function::HandleRegister, false, hit(5, arguments), true);
        let group = recorder.take(0, Function::HandleRegister, true, hit(6, [0; 6]), true).unwrap();
        if let Some(offset) = later {
            let arguments = arguments.map(|address| address.wrapping_add(offset));
            recorder.take(0, Function::HandleRegister, false, hit(7, arguments), false);
        }
        let whose: Vec<_> =
            recorder.take_losses(9).into_iter().map(|(process, lost)| (process, lost.release_ns)).collect();
        (group.text(), recorder.totals().lost, whose)
    };
    assert_eq!(seen(1, None), (path.clone(), 0, vec![]));
    assert_eq!(seen(1, Some(1 << 32)), (path.clone(), 0, vec![]));
    // The earlier registration may have the wrong file already.
    assert_eq!(seen(1, Some(0)), (path, 1, vec![(None, 9)]));
    // Without a description, only this registration is lost. The names of the other files stay.
    assert_eq!(seen(0x5555_0000, None), (String::new(), 1, vec![(Some(std::process::id()), 0)]));
}

#[test]
fn a_description_that_could_not_be_read_at_the_entry_is_read_at_the_return() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let stack: Vec<u8> =
        [0xabc_u64, 1, file.as_raw_fd() as u64, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let process = std::process::id();
    let memory = |stack| Memory { process, stack_pointer: 0x7000, stack, used_current: Cell::new(false) };
    // Nothing is mapped at this address.
    let begun = begin(Function::HandleRegister, 0, 5, [0x7000, 0x7008, 0, 0, 0, 0], &memory(&stack[..0]));
    let group = end(&begun, process, 9, (7, 0), &memory(&stack[..]), &mut KnownFlags::default());
    assert_eq!(group.text(), file.path().canonicalize().unwrap().to_string_lossy());
}

/// The functions that are counted after hits with these stack pointers, of 1 ms each. `true`: the function returned.
fn counted(hits: &[(Function, bool, u64)]) -> Vec<(&'static str, u64)> {
    let mut recorder = Recorder::new(1);
    for (at, (function, at_return, stack_pointer)) in hits.iter().enumerate() {
        let hit = Hit::Probe {
            probe: 0,
            process: 1,
            thread: 9,
            at_ns: at as u64 * 1_000_000,
            result: 0,
            arguments: [0; 6],
            stack_pointer: *stack_pointer,
            stack: Vec::new(),
        };
        recorder.take(0, *function, *at_return, hit, false);
    }
    let totals = recorder.totals().functions;
    let called = totals.iter().enumerate().filter(|(_, total)| total[0] > 0);
    called.map(|(function, total)| (FUNCTIONS[function].name, total[0])).collect()
}

#[test]
fn a_call_that_libcufile_makes_inside_another_one_is_not_counted() {
    use Function::{DriverClose, DriverCloseV2, DriverOpen, Read, StreamRegister};
    // The outer function ends with a jump, so both have the same stack pointer.
    let jump =
        [(DriverClose, false, 80), (DriverCloseV2, false, 80), (DriverCloseV2, true, 88), (DriverClose, true, 88)];
    assert_eq!(counted(&jump), [("cuFileDriverClose", 1)]);
    assert_eq!(counted(&[jump, jump].concat()), [("cuFileDriverClose", 2)]);
    // Two names of one function: the probes of both report the entry before the return.
    let names =
        [(DriverClose, false, 80), (DriverCloseV2, false, 80), (DriverClose, true, 88), (DriverCloseV2, true, 88)];
    assert_eq!(counted(&names), [("cuFileDriverClose", 1)]);
    let inner = [
        (StreamRegister, false, 80),
        (DriverOpen, false, 40),
        (DriverOpen, true, 48),
        (StreamRegister, true, 88),
        (Read, false, 40),
        (Read, true, 48),
    ];
    assert_eq!(counted(&inner), [("cuFileRead", 1), ("cuFileStreamRegister", 1)]);
}

#[test]
fn calls_after_a_call_that_the_thread_left_by_a_jump_are_counted() {
    use Function::{BufRegister, DriverClose, Read};
    let left = (Read, false, 80_u64);
    // The next calls have the same frame, one above it, or one below it.
    let next = |function: Function, at: u64| [(function, false, at), (function, true, at + 8)];
    assert_eq!(counted(&[&[left][..], &next(Read, 80)].concat()), [("cuFileRead", 1)]);
    assert_eq!(counted(&[&[left][..], &next(BufRegister, 96)].concat()), [("cuFileBufRegister", 1)]);
    let below = [&[left][..], &next(BufRegister, 40), &next(DriverClose, 96)].concat();
    assert_eq!(counted(&below), [("cuFileDriverClose", 1), ("cuFileBufRegister", 1)]);
    let same = [&[left][..], &next(BufRegister, 80), &next(DriverClose, 80)].concat();
    assert_eq!(counted(&same), [("cuFileDriverClose", 1), ("cuFileBufRegister", 1)]);
}

/// A registration of handle 7 or a read with it, at this time in nanoseconds.
fn handled(function: Function, process: u32, at_ns: u64) -> Group {
    let head = Record::head(function as u16, 0, 0);
    let record = Record { head, start_ns: at_ns, end_ns: at_ns, object: 7, ..Record::default() };
    match function {
        Function::HandleRegister => Group::with_text(process, process, record, "/data/a"),
        _ => {
            let record = Record { size: 4096, result: 4096, ..record };
            Group { process, thread: process, is_visible: true, record, parts: Vec::new() }
        }
    }
}

/// The file of the read of a descendant, after these forks: process, parent and time.
fn file_of_read(reader: u32, forks: &[(u32, u32, u64)]) -> String {
    let mut recorder = Recorder::new(1);
    for (process, parent, at_ns) in forks {
        recorder.fork(*process, *parent, *at_ns);
    }
    let mut tally = Tally::default();
    tally.began_late = true;
    let mut groups = vec![handled(Function::HandleRegister, 1, 1000), handled(Function::Read, reader, 9000)];
    groups.append(&mut recorder.forked);
    groups.sort_by_key(Group::order);
    groups.iter().for_each(|group| tally.take(group));
    let files = tally.report(&Totals::default()).files;
    files.into_iter().find(|file| file.reads.count == 1).unwrap().path
}

#[test]
fn a_descendant_has_the_handles_that_its_parent_had_at_the_fork() {
    assert_eq!(file_of_read(5, &[(5, 1, 2000)]), "/data/a");
    assert_eq!(file_of_read(6, &[(5, 1, 2000), (6, 5, 3000)]), "/data/a");
    // It was forked before the registration, or is not known to be a child.
    assert_eq!(file_of_read(5, &[(5, 1, 500)]), UNKNOWN_FILE);
    assert_eq!(file_of_read(5, &[]), UNKNOWN_FILE);
}

#[test]
fn a_fork_is_recorded_once_until_another_process_has_the_number() {
    let mut recorder = Recorder::new(1);
    for at_ns in [2000, 2001, 1999, 2000 + SAME_FORK_NS] {
        recorder.fork(5, 1, at_ns);
    }
    // A thread, and a child of another process.
    recorder.fork(1, 1, 2000);
    recorder.fork(8, 9, 2000);
    let forked: Vec<_> = recorder.forked.iter().map(|group| (group.process, group.record.start_ns)).collect();
    assert_eq!(forked, [(5, 2000), (5, 2000 + SAME_FORK_NS)]);
    assert_eq!(recorder.processes(), 2);
    // A process that is not a descendant has the number of one that has ended, and a new descendant that of another process.
    recorder.fork(5, 9, 2000 + 3 * SAME_FORK_NS);
    recorder.belongs.insert(6, None);
    recorder.fork(6, 1, 2000);
    assert_eq!([5, 6].map(|process| recorder.belongs.get(&process).copied()), [None, Some(Some(2000))]);
}

#[test]
fn a_library_of_a_process_that_has_ended_is_tried_again() {
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let mut recorder = Recorder::new(1);
    let path = Path::new("/l/libcufile.so.0");
    let added = recorder.add(ended.id(), (0x1000, 0x2000), path, || ());
    assert!(added.is_ok_and(|group| group.is_none()) && recorder.known.is_empty());
    // This file is mapped and is not a library.
    let file = tempfile::NamedTempFile::new().unwrap();
    let page = rustix::param::page_size() as u64;
    file.as_file().set_len(page).unwrap();
    let mapping = crate::device::FileMapping::new(file.as_file()).unwrap();
    let from = mapping.bytes().as_ptr().addr() as u64;
    let added = recorder.add(std::process::id(), (from, from + page), path, || ());
    assert!(added.is_err() && recorder.known == [path]);
}

#[test]
fn the_parent_of_a_process_without_a_reported_fork_is_read_from_procfs() {
    let own = std::process::id();
    let before_ns = now_ns();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let after_ns = now_ns();
    let mut recorder = Recorder::new(own);
    let belongs = [child.id(), child.id(), 1].map(|process| recorder.belongs(process));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(belongs, [true, true, false]);
    let [started] = recorder.forked.as_slice() else { unreachable!("one child") };
    assert_eq!(
        (started.process, started.record.kind(), started.record.object),
        (child.id(), kind::PROCESS, own.into())
    );
    // The kernel stores the start in ticks of 10 ms, rounded down.
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    let began_ns = started.record.start_ns;
    assert!(
        (before_ns.saturating_sub(2 * tick_ns)..=after_ns).contains(&began_ns),
        "{before_ns} {began_ns} {after_ns}"
    );
}

/// The hits of calls of one thread of process 1, one call after another.
fn hits_of(calls: u64) -> Vec<FunctionHit> {
    let hit = |at_ns: u64| {
        let at_return = at_ns % 2 == 1;
        let stack_pointer = if at_return { 88 } else { 80 };
        let (arguments, stack) = ([0; 6], Vec::new());
        let hit = Hit::Probe { probe: 0, process: 1, thread: 9, at_ns, result: 0, arguments, stack_pointer, stack };
        FunctionHit { at_ns, library: 0, function: Function::Read, at_return, hit }
    };
    (0..2 * calls).map(hit).collect()
}

#[test]
fn each_call_is_recorded_or_lost_when_the_time_of_a_reading_is_over() {
    for taken in 0..=20 {
        let mut recorder = Recorder::new(1);
        let mut asked = 0;
        let mut elapsed = || {
            asked += 1;
            if asked > taken { ROUND } else { Duration::ZERO }
        };
        let groups = recorder.calls(hits_of(10), &[], &mut elapsed);
        let (recorded, lost) = (taken / 2, 10 - taken / 2);
        let totals = recorder.totals();
        assert_eq!((groups.len() as u64, totals.functions[Function::Read as usize][0]), (recorded, recorded));
        assert_eq!((totals.lost, recorder.uncounted(), recorder.lost_names), (lost, lost, lost > 0), "{taken} hits");
    }
}

#[test]
fn discarded_hits_of_the_watched_processes_are_lost_calls() {
    let mut recorder = Recorder::new(1);
    recorder.belongs.insert(2, None);
    let discarded = [(1, false, 5), (1, true, 6), (2, false, 7)];
    // This call has begun, and its return is among the discarded hits.
    let begun = hits_of(1).into_iter().take(1).collect();
    let groups = recorder.calls(begun, &discarded, &mut || Duration::ZERO);
    assert_eq!((groups.len(), recorder.totals().lost, recorder.open_calls(0).len()), (0, 6, 0));
    // The next calls are exact.
    let groups = recorder.calls(hits_of(3), &[], &mut || Duration::ZERO);
    assert_eq!((groups.len(), recorder.totals().lost), (3, 6));
}

#[test]
fn discarded_hits_of_other_processes_leave_the_calls_in_progress() {
    let begun = || hits_of(1).into_iter().take(1).collect::<Vec<_>>();
    let returned = || hits_of(1).into_iter().skip(1).collect::<Vec<_>>();
    let mut recorder = Recorder::new(1);
    recorder.belongs.insert(2, None);
    recorder.calls(begun(), &[(2, false, 7), (2, true, 7)], &mut || Duration::ZERO);
    // The time of this reading is over before the hit of the other process.
    let mut others = begun();
    if let Hit::Probe { process, .. } = &mut others[0].hit {
        *process = 2;
    }
    recorder.calls(others, &[], &mut || ROUND);
    let groups = recorder.calls(returned(), &[], &mut || Duration::ZERO);
    assert_eq!((groups.len(), recorder.totals().lost, recorder.lost_names), (1, 0, false));
}
