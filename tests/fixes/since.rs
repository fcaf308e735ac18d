//! Tests files that were changed after a fix, and file attributes other than their bytes.

use crate::copies::{Machine, recover};
use gds_top::core::FixId;
use gds_top::fixes::{self, FixError, Step};
use std::fs;
use std::path::PathBuf;

const CUFILE: &str = "{\n  // mine\n  \"properties\": {\n    \"use_pci_p2pdma\": false, // off\n    \"allow_compat_mode\": true\n  },\n  \"block\": { \"nvme\": { } }\n}\n";

/// A machine whose cufile.json got both keys of P2PDMA, and that file.
fn with_keys(before: &str) -> (Machine, PathBuf) {
    let machine = Machine::new("p2pdma-two-steps");
    let path = machine.write("/etc/cufile.json", before);
    machine.apply(&machine.plan("cufile-p2pdma-keys"));
    assert_ne!(fs::read_to_string(&path).unwrap(), before);
    (machine, path)
}

#[test]
fn undo_takes_only_the_lines_of_the_fix_out_of_a_file_that_was_changed_since() {
    let (machine, path) = with_keys(CUFILE);
    let theirs = |text: &str| format!("// theirs, above\n{text}// and below\n");
    fs::write(&path, theirs(&fs::read_to_string(&path).unwrap())).unwrap();
    let mut run = |_: &[String]| Ok(());
    let undone = fixes::undo_with(FixId::CufileP2pdmaKeys, &machine.place(), &mut |_| true, &mut run).unwrap();
    assert!(undone.kept[0].contains("/etc/cufile.json") && undone.kept[0].contains("only the lines"), "{undone:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), theirs(CUFILE));
    assert!(!machine.place().state.exists(), "the fix is forgotten");
}

#[test]
fn such_an_undo_that_is_interrupted_anywhere_ends_the_same() {
    let wanted = format!("{CUFILE}// below\n");
    for stop in 1.. {
        let (machine, path) = with_keys(CUFILE);
        let changed = format!("{}// below\n", fs::read_to_string(&path).unwrap());
        fs::write(&path, &changed).unwrap();
        let mut at = 0;
        let ended = fixes::undo(FixId::CufileP2pdmaKeys, &machine.place(), &mut |_: Step| {
            at += 1;
            at != stop
        });
        if ended.is_ok() {
            assert!(stop > 5, "{stop}");
            break;
        }
        recover(&machine.place());
        // If nothing was written to the journal, the fix has not begun.
        let now = fs::read_to_string(&path).unwrap();
        assert_eq!(now, if stop == 1 { &*changed } else { &*wanted }, "step {stop}");
    }
}

#[test]
fn lines_that_were_changed_themselves_are_left_to_a_person_who_is_told_where_the_old_text_is() {
    let (machine, path) = with_keys(CUFILE);
    let changed = fs::read_to_string(&path).unwrap().replace("\"nvme\": {", "\"nvme\": { /* hm */");
    fs::write(&path, &changed).unwrap();
    let said = fixes::undo(FixId::CufileP2pdmaKeys, &machine.place(), &mut |_| true).unwrap_err();
    assert!(matches!(said, FixError::ChangedSince { .. }), "{said}");
    let entry = machine.place().state.join("journal/cufile-p2pdma-keys.json");
    assert!(said.to_string().contains(entry.to_str().unwrap()) && entry.exists(), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), changed);
    // The keys were removed manually, and something else was changed. Then the fix is only removed from the journal.
    let by_hand = CUFILE.replace("// mine", "// hers");
    fs::write(&path, &by_hand).unwrap();
    fixes::undo(FixId::CufileP2pdmaKeys, &machine.place(), &mut |_| true).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), by_hand);
    assert!(!entry.exists());
}

#[test]
fn attributes_of_a_file_outlive_a_fix_and_its_undo() {
    let machine = Machine::new("p2pdma-two-steps");
    let path = machine.write("/etc/cufile.json", CUFILE);
    let set = rustix::fs::setxattr(&path, "user.origin", b"ansible", rustix::fs::XattrFlags::empty());
    if set.is_err() {
        eprintln!("skipped: the file system does not support attributes");
        return;
    }
    let is_there = || {
        let mut value = [0_u8; 16];
        rustix::fs::getxattr(&path, "user.origin", &mut value[..]).is_ok_and(|n| value[..n] == *b"ansible")
    };
    machine.apply(&machine.plan("cufile-p2pdma-keys"));
    assert!(is_there(), "after the fix");
    fixes::undo(FixId::CufileP2pdmaKeys, &machine.place(), &mut |_| true).unwrap();
    assert!(is_there(), "after its undo");
    assert_eq!(fs::read_to_string(&path).unwrap(), CUFILE);
}
