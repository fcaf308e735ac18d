//! Tests of recorded calls, see `probes.rs`.

use super::*;

#[test]
fn a_registration_is_read_from_the_stack_and_named_by_its_descriptor() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(file.as_file()) as u32;
    // The stack contains the handle and then the description of the file.
    let words = [0xabc_u64, 1, u64::from(fd), 0];
    let stack: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let process = std::process::id();
    let memory = Memory { process, stack_pointer: 0x7000, stack: &stack, used_current: Cell::new(false) };
    let begun = begin(Function::HandleRegister, 0, 5, [0x7000, 0x7008, 0, 0, 0, 0], &memory);
    let group = end(&begun, process, 9, 7, 0, &memory);
    assert_eq!((group.record.object, group.record.extra[0]), (0xabc, u64::from(fd)));
    assert_eq!(group.text(), file.path().canonicalize().unwrap().to_string_lossy());
    assert!(!memory.used_current.get());
    // This address is outside the stack, so it is read from memory.
    let value = Box::new(0x1234_u64);
    assert_eq!(memory.word((&raw const *value).addr() as u64), 0x1234);
    assert!(memory.used_current.get());
    assert_eq!(memory.word(0), 0);
}

#[test]
fn arguments_that_may_have_changed_since_the_call_are_lost_and_not_guessed() {
    let entry = Box::new([1_u64, 0x5000, 4096, 0, 8192, 7, 0, 42]);
    let entries = entry.as_ptr().addr() as u64;
    let hit = |at_ns, arguments| Hit::Probe {
        probe: 0,
        process: std::process::id(),
        thread: 9,
        at_ns,
        result: 0,
        arguments,
        stack_pointer: 0,
        stack: Vec::new(),
    };
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
