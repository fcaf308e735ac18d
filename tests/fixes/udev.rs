//! Tests the fix of the missing udev record completely: plan, preview, apply, verify, undo, and interruption at every
//! step.

use crate::copies::{Machine, look, recover};
use crate::machine::{fixture, fixtures};
use gds_top::checks;
use gds_top::core::{Change, FixId, FixPlan, FixRisk, FixStage, Route, Status};
use gds_top::fixes::{self, FixError, Step};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

const RECORD: &str = "run/udev/data/b254:0";

#[test]
fn the_fault_is_fixed_proven_and_taken_back_without_a_trace() {
    let machine = Machine::new("h200-vm-no-udev");
    let before = machine.image();
    let plan = machine.plan("udev-record");
    assert_eq!(plan.risk, FixRisk::Low);
    let root = machine.root();
    let mut news = Vec::new();
    let (place, paths) = (machine.place(), root.captured_paths());
    let applied = fixes::apply_and_verify(&root, &plan, &plan.digest(), &place, &paths, &mut |p| news.push(p));
    assert_eq!(applied, fixes::Ended::Done);
    let stages: Vec<FixStage> = news.iter().map(|p| p.stage).collect();
    assert_eq!(stages, [FixStage::Applying, FixStage::Verifying, FixStage::Fixed]);
    assert_eq!(news.last().unwrap().finding.as_ref().unwrap().status, Status::Pass);
    assert_eq!(fs::read_to_string(machine.file(RECORD)).unwrap(), "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n");
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    assert_eq!(report.verdicts[0].route, Route::Compat);
    assert!(fixes::plan(&root, &report).is_empty(), "nothing is left to fix");
    assert!(matches!(fixes::apply(&plan, &machine.place(), &mut |_| true), Err(FixError::AlreadyApplied { .. })));

    let mut news = Vec::new();
    let undone = fixes::undo_and_verify(&root, FixId::UdevRecord, &place, &paths, &mut |p| news.push(p));
    assert_eq!(undone, fixes::Ended::Done);
    assert_eq!(news.last().unwrap().finding.as_ref().unwrap().status, Status::Fail);
    assert_eq!(machine.image(), before, "undo leaves no trace, neither file nor directory");
    assert!(matches!(
        fixes::undo(FixId::UdevRecord, &machine.place(), &mut |_| true),
        Err(FixError::NotApplied { .. })
    ));
}

#[test]
fn the_preview_is_a_diff() {
    let text = fixes::preview(&Machine::new("h200-vm-no-udev").plan("udev-record"), usize::MAX);
    insta::assert_snapshot!(text);
}

#[test]
fn an_existing_record_keeps_its_lines_its_mode_and_comes_back_byte_for_byte() {
    let machine = Machine::new("h200-vm-no-udev");
    let path = machine.write(RECORD, "I:77\nE:ID_SERIAL=disk");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let before = machine.image();
    let plan = machine.plan("udev-record");
    fixes::apply(&plan, &machine.place(), &mut |_| true).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "I:77\nE:ID_SERIAL=disk\nE:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"
    );
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    fixes::undo(FixId::UdevRecord, &machine.place(), &mut |_| true).unwrap();
    assert_eq!(machine.image(), before);
}

/// The number of steps at which the work can be interrupted.
fn steps_of(work: impl Fn(&mut dyn FnMut(Step) -> bool)) -> usize {
    let mut count = 0;
    work(&mut |_| {
        count += 1;
        true
    });
    count
}

#[test]
fn a_cut_at_any_step_of_applying_is_finished_or_rolled_back_at_the_next_start() {
    for existing in [false, true] {
        let prepare = || {
            let machine = Machine::new("h200-vm-no-udev");
            if existing {
                machine.write(RECORD, "I:77\n");
            }
            machine
        };
        let whole = prepare();
        let plan = whole.plan("udev-record");
        let steps = steps_of(|hook| fixes::apply(&plan, &whole.place(), hook).unwrap());
        assert!(steps >= 4);
        for cut in 0..steps {
            let machine = prepare();
            let before = machine.image();
            let plan = machine.plan("udev-record");
            let mut at = 0;
            let stopped = fixes::apply(&plan, &machine.place(), &mut |_| {
                at += 1;
                at <= cut
            });
            assert!(matches!(stopped, Err(FixError::Stopped { .. })), "cut {cut}");
            recover(&machine.place());
            let written = fs::read_to_string(machine.file(RECORD)).unwrap_or_default();
            if written.contains("ID_FS_USAGE") {
                fixes::undo(FixId::UdevRecord, &machine.place(), &mut |_| true).unwrap();
            }
            assert_eq!(machine.image(), before, "cut {cut}, existing {existing}");
            assert!(recover(&machine.place()).is_empty(), "nothing is left to recover");
        }
    }
}

#[test]
fn a_cut_at_any_step_of_undoing_is_finished_at_the_next_start() {
    let whole = Machine::new("h200-vm-no-udev");
    fixes::apply(&whole.plan("udev-record"), &whole.place(), &mut |_| true).unwrap();
    let steps = steps_of(|hook| fixes::undo(FixId::UdevRecord, &whole.place(), hook).unwrap());
    for cut in 0..steps {
        let machine = Machine::new("h200-vm-no-udev");
        let before = machine.image();
        fixes::apply(&machine.plan("udev-record"), &machine.place(), &mut |_| true).unwrap();
        let applied = machine.image();
        let mut at = 0;
        let stopped = fixes::undo(FixId::UdevRecord, &machine.place(), &mut |_| {
            at += 1;
            at <= cut
        });
        assert!(matches!(stopped, Err(FixError::Stopped { .. })), "cut {cut}");
        recover(&machine.place());
        let expected = if cut == 0 { &applied } else { &before };
        assert_eq!(&machine.image(), expected, "cut {cut}");
    }
}

#[test]
fn a_file_that_changed_since_the_preview_is_left_alone() {
    let machine = Machine::new("h200-vm-no-udev");
    let plan = machine.plan("udev-record");
    let path = machine.write(RECORD, "another writer was here\n");
    let said = fixes::apply(&plan, &machine.place(), &mut |_| true).unwrap_err();
    assert!(matches!(said.cause(), FixError::Changed { .. }), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "another writer was here\n");
}

#[test]
fn a_change_between_the_two_looks_is_seen_and_left_alone() {
    let machine = Machine::new("h200-vm-no-udev");
    let plan = machine.plan("udev-record");
    let path = machine.file(RECORD);
    let said = fixes::apply(&plan, &machine.place(), &mut |step| {
        if step == Step::Commit {
            fs::write(&path, "quick\n").unwrap();
        }
        true
    });
    assert!(said.is_err_and(|error| matches!(error.cause(), FixError::Changed { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "quick\n");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file stays behind");
}

#[test]
fn undo_does_not_destroy_what_somebody_wrote_since() {
    let machine = Machine::new("h200-vm-no-udev");
    fixes::apply(&machine.plan("udev-record"), &machine.place(), &mut |_| true).unwrap();
    let written = fs::read_to_string(machine.file(RECORD)).unwrap();
    // One of its two lines exists and the other was changed. So it is unknown which program wrote the rest.
    let half = format!("{}E:OTHER=1\n", written.split_inclusive('\n').next().unwrap());
    let path = machine.write(RECORD, &half);
    let said = fixes::undo(FixId::UdevRecord, &machine.place(), &mut |_| true).unwrap_err();
    assert!(
        matches!(said, FixError::ChangedSince { .. }) && said.to_string().contains("journal/udev-record.json"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), half);
    // None of its lines exists any more. The fix is removed from the journal, and the file is kept.
    machine.write(RECORD, "E:OTHER=1\n");
    fixes::undo(FixId::UdevRecord, &machine.place(), &mut |_| true).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "E:OTHER=1\n");
    assert!(!machine.place().state.exists());
}

#[test]
fn nothing_is_written_through_a_symbolic_link() {
    let outside = tempfile::tempdir().unwrap();
    // A parent directory is a link.
    let machine = Machine::new("h200-vm-no-udev");
    let plan = machine.plan("udev-record");
    fs::create_dir_all(machine.files().join("run")).unwrap();
    symlink(outside.path(), machine.files().join("run/udev")).unwrap();
    let said = fixes::apply(&plan, &machine.place(), &mut |_| true).unwrap_err();
    assert!(matches!(said.cause(), FixError::Symlink { .. }), "{said}");
    // The file itself is a link.
    let machine = Machine::new("h200-vm-no-udev");
    let plan = machine.plan("udev-record");
    let path = machine.file(RECORD);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(outside.path().join("target"), &path).unwrap();
    let said = fixes::apply(&plan, &machine.place(), &mut |_| true).unwrap_err();
    assert!(matches!(said.cause(), FixError::Symlink { .. }), "{said}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_write_that_fails_leaves_everything_as_it_was() {
    let machine = Machine::new("h200-vm-no-udev");
    let mut plan = machine.plan("udev-record");
    // A second file cannot be written, because a directory has its temporary name.
    fs::create_dir_all(machine.file("run/udev/data/.gds-top-b1:2")).unwrap();
    let before = machine.image();
    plan.changes.push(Change::WriteFile {
        path: PathBuf::from("/run/udev/data/b1:2"),
        before: None,
        after: "x".to_owned(),
        mode: 0o644,
    });
    let said = fixes::apply(&plan, &machine.place(), &mut |_| true).unwrap_err().to_string();
    assert!(said.ends_with("; the files are as they were"), "{said}");
    assert_eq!(machine.image(), before);
}

#[test]
fn plans_that_are_only_shown_are_never_applied() {
    let machine = Machine::new("proprietary-nvfs");
    let (root, report) = look(&machine.top());
    let plans = fixes::plan(&root, &report);
    let shown: Vec<&FixPlan> = plans.iter().filter(|plan| !plan.applies()).collect();
    assert_eq!(shown.iter().map(|plan| plan.id.as_str()).collect::<Vec<_>>(), ["nvidia-driver-open"]);
    let before = machine.image();
    for plan in shown {
        assert!(matches!(fixes::apply(plan, &machine.place(), &mut |_| true), Err(FixError::OnlyShown { .. })));
        assert!(!fixes::preview(plan, usize::MAX).is_empty());
    }
    assert_eq!(machine.image(), before);
}

#[test]
fn the_list_says_who_does_what() {
    let machine = Machine::new("p2pdma-two-steps");
    let (root, report) = look(&machine.top());
    let plans = fixes::plan(&root, &report);
    let ids: Vec<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
    assert_eq!(ids, ["p2pdma-registry-keys", "cufile-p2pdma-keys"]);
    insta::assert_snapshot!(fixes::text::list(&plans, None, &[], &[], false, 100));
}

#[test]
fn every_failing_check_of_the_fixtures_says_what_to_do() {
    for name in fixtures() {
        let (root, report) = look(&fixture(&name));
        let plans = fixes::plan(&root, &report);
        for finding in report.findings.iter().filter(|f| f.status == Status::Fail) {
            let planned = plans.iter().any(|plan| finding.fix == Some(plan.id));
            assert!(
                planned || finding.advice.is_some() || finding.cause.is_some(),
                "{}: {} fails and leaves one alone",
                name,
                finding.id
            );
            assert_eq!(finding.fix.is_some(), planned, "{}: {} names a fix that is not there", name, finding.id);
        }
    }
}
