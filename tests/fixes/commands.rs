//! Tests of fixes that run commands on a running machine: order, streamed output, rollback after a failure, and
//! resuming after an interruption.

use crate::copies::recover;
use gds_top::core::CheckId;
use gds_top::core::{Change, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use gds_top::fixes::{self, CommandState, FixError, Journal, Place, Stage, Step};
use std::fs;
use std::path::Path;

/// A fix that may edit a user's file.
const ID: FixId = FixId::CufileP2pdmaKeys;

/// A plan that needs no rights: a file in the test's directory, then commands.
fn plan(folder: &Path, commands: &[&str]) -> FixPlan {
    let file = Change::WriteFile {
        path: folder.join("made/setting.json"),
        before: None,
        after: "on\n".to_owned(),
        mode: 0o644,
    };
    let argv = |text: &str| ["sh", "-c", text].map(str::to_owned).to_vec();
    FixPlan {
        id: ID,
        check: CheckId::LimMemlock,
        title: "A setting and commands".to_owned(),
        why: "for the test".to_owned(),
        changes: [file].into_iter().chain(commands.iter().map(|text| Change::Run { argv: argv(text) })).collect(),
        needs: Needs::User,
        risk: FixRisk::Low,
        policy: FixPolicy::Ask,
        verify: "by the test".to_owned(),
        undo: "by the journal".to_owned(),
        undo_commands: vec![argv("echo undone")],
        remaining: Vec::new(),
        obstacle: None,
    }
}

/// The machine itself with a journal of the test. All written files are in the test's directory.
fn place(folder: &Path) -> Place {
    Place::below(Path::new("/"), &folder.join("state"))
}

/// The real path of a temporary directory, because nothing is written through a link.
fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let keep = tempfile::tempdir().unwrap();
    let real = keep.path().canonicalize().unwrap();
    (keep, real)
}

#[test]
fn files_come_first_then_commands_in_order_and_undo_runs_its_own() {
    let (_keep, folder) = folder();
    let plan = plan(&folder, &["echo one", "echo two"]);
    let mut said = Vec::new();
    let mut run = |argv: &[String]| fixes::run_streamed(argv, &mut |line| said.push(line));
    fixes::apply_with(&plan, &place(&folder), &mut |_| true, &mut run).unwrap();
    assert_eq!(said, ["one", "two"]);
    assert_eq!(fs::read_to_string(folder.join("made/setting.json")).unwrap(), "on\n");
    let entry = Journal::open(&place(&folder)).entries().remove(0);
    assert_eq!(entry.stage, Stage::Applied);
    assert!(entry.commands.iter().all(|command| command.state == CommandState::Done));

    let mut said = Vec::new();
    let mut run = |argv: &[String]| fixes::run_streamed(argv, &mut |line| said.push(line));
    let undone = fixes::undo_with(ID, &place(&folder), &mut |_| true, &mut run).unwrap();
    assert_eq!(undone, fixes::Undone::default());
    assert_eq!(said, ["undone"]);
    assert!(!folder.join("made").exists());
}

#[test]
fn a_command_that_fails_takes_the_files_back_and_says_what_ran_before_it() {
    let (_keep, folder) = folder();
    let plan = plan(&folder, &["true", "exit 7", "echo never"]);
    let mut lines = Vec::new();
    let mut run = |argv: &[String]| fixes::run_streamed(argv, &mut |line| lines.push(line));
    let error = fixes::apply_with(&plan, &place(&folder), &mut |_| true, &mut run).unwrap_err();
    assert!(matches!(error.cause(), FixError::Command { .. }));
    let text = error.to_string();
    assert!(
        text.contains("sh -c 'exit 7' failed")
            && text.contains("the files are as they were; run before it: sh -c true"),
        "{text}"
    );
    assert!(text.contains("to undo it sh -c 'echo undone' was run"), "{text}");
    assert_eq!(lines, ["undone"], "a change that was begun is completed or undone: a file system is mounted again");
    assert!(!folder.join("made").exists());
    assert!(Journal::open(&place(&folder)).entries().is_empty());
}

#[test]
fn a_command_before_the_file_is_a_test_without_which_it_is_not_written() {
    let with_test = |folder: &Path, test: &str| {
        let mut plan = plan(folder, &["echo after"]);
        plan.changes.insert(0, Change::Run { argv: ["sh", "-c", test].map(str::to_owned).to_vec() });
        plan
    };
    let (_keep, folder) = folder();
    let is_absent = format!("test ! -e {} && echo before", folder.join("made").display());
    let mut said = Vec::new();
    let mut run = |argv: &[String]| fixes::run_streamed(argv, &mut |line| said.push(line));
    fixes::apply_with(&with_test(&folder, &is_absent), &place(&folder), &mut |_| true, &mut run).unwrap();
    assert_eq!(said, ["before", "after"]);
    fixes::undo_with(ID, &place(&folder), &mut |_| true, &mut |_| Ok(())).unwrap();

    let mut steps = Vec::new();
    let mut hook = |step| {
        steps.push(step);
        true
    };
    let mut run = |argv: &[String]| fixes::run_streamed(argv, &mut |_| {});
    let failed = fixes::apply_with(&with_test(&folder, "exit 1"), &place(&folder), &mut hook, &mut run).unwrap_err();
    assert!(failed.to_string().contains("no file was changed"), "{failed}");
    assert!(!steps.contains(&Step::Stage) && !folder.join("made").exists(), "{steps:?}");
}

/// A plan with a command before its file and others after it.
fn with_first(folder: &Path, before: &str, after: &[&str]) -> FixPlan {
    let mut plan = plan(folder, after);
    plan.changes.insert(0, Change::Run { argv: ["sh", "-c", before].map(str::to_owned).to_vec() });
    plan
}

#[test]
fn undo_commands_are_run_only_after_a_command_behind_the_files() {
    // In the second case the command writes the file, as another process could.
    for (before, after, is_undone) in [
        ("exit 1", "true", false),
        ("mkdir made && echo theirs > made/setting.json", "true", false),
        ("true", "exit 7", true),
    ] {
        let (_keep, folder) = folder();
        let before = format!("cd {} && {before}", folder.display());
        let mut lines = Vec::new();
        let mut run = |argv: &[String]| fixes::run_streamed(argv, &mut |line| lines.push(line));
        let plan = with_first(&folder, &before, &[after]);
        let error = fixes::apply_with(&plan, &place(&folder), &mut |_| true, &mut run).unwrap_err();
        assert_eq!(lines == ["undone"], is_undone, "{before}: {lines:?}: {error}");
        assert_eq!(error.to_string().contains("to undo it"), is_undone, "{error}");
    }
    for (commands, is_undone) in [(&["exit 7"][..], false), (&["true", "exit 7"], true)] {
        let (_keep, folder) = folder();
        let mut plan = plan(&folder, commands);
        plan.changes.remove(0);
        let mut lines = Vec::new();
        let mut run = |argv: &[String]| fixes::run_streamed(argv, &mut |line| lines.push(line));
        fixes::apply_with(&plan, &place(&folder), &mut |_| true, &mut run).unwrap_err();
        assert_eq!(lines == ["undone"], is_undone, "{commands:?}: {lines:?}");
    }
}

#[test]
fn an_interrupted_fix_names_its_undo_commands_only_after_a_command_behind_the_files() {
    for cut in 0..20 {
        let (_keep, folder) = folder();
        let (mut at, mut commands) = (0, 0);
        let mut hook = |step: Step| {
            at += 1;
            commands += usize::from(at <= cut && step == Step::Command);
            at <= cut && step != Step::Finish
        };
        let plan = with_first(&folder, "true", &["true", "true"]);
        fixes::apply_with(&plan, &place(&folder), &mut hook, &mut |_| Ok(())).unwrap_err();
        let said = recover(&place(&folder)).join("\n");
        // After its last command it is completed.
        let is_complete = folder.join("made/setting.json").exists();
        assert_eq!(said.contains("to make it effective"), commands > 1 && !is_complete, "cut {cut}: {said}");
    }
}

/// The journal of the machine, like that of root in /var/lib: a fix that is refused or undone leaves no directory.
#[test]
fn a_fix_that_is_refused_or_undone_leaves_no_journal() {
    let (_keep, folder) = folder();
    fs::create_dir(folder.join("made")).unwrap();
    fs::write(folder.join("made/setting.json"), "changed since the plan\n").unwrap();
    let refused = fixes::apply_with(&plan(&folder, &[]), &place(&folder), &mut |_| true, &mut |_| Ok(()));
    assert!(matches!(refused.unwrap_err().cause(), FixError::Changed { .. } | FixError::File { .. }));
    assert!(!folder.join("state").exists());
    fs::remove_dir_all(folder.join("made")).unwrap();
    fixes::apply_with(&plan(&folder, &[]), &place(&folder), &mut |_| true, &mut |_| Ok(())).unwrap();
    assert!(folder.join("state/journal").exists());
    fixes::undo_with(ID, &place(&folder), &mut |_| true, &mut |_| Ok(())).unwrap();
    assert!(!folder.join("state").exists());
}

#[test]
fn a_cut_at_any_step_is_finished_or_rolled_back_and_started_commands_are_named() {
    let mut steps = Vec::new();
    {
        let (_keep, folder) = folder();
        let mut note = |step| {
            steps.push(step);
            true
        };
        fixes::apply_with(&plan(&folder, &["true", "true"]), &place(&folder), &mut note, &mut |_| Ok(())).unwrap();
    }
    assert_eq!(steps.iter().filter(|step| **step == Step::Command).count(), 2);
    for cut in 0..steps.len() {
        let (_keep, folder) = folder();
        let plan = plan(&folder, &["true", "true"]);
        let mut at = 0;
        let mut hook = |_| {
            at += 1;
            at <= cut
        };
        let stopped = fixes::apply_with(&plan, &place(&folder), &mut hook, &mut |_| Ok(())).unwrap_err();
        assert!(matches!(stopped, FixError::Stopped { .. }), "cut {cut}");
        let said = recover(&place(&folder)).join("\n");
        let finished = steps[cut] == Step::Finish;
        assert_eq!(folder.join("made/setting.json").exists(), finished, "cut {cut}: {said}");
        if !finished {
            assert!(!folder.join("made").exists(), "cut {cut}");
        }
        let second = steps[..cut].contains(&Step::Command) && !finished;
        assert_eq!(said.contains("of these started commands stay"), second, "cut {cut}: {said}");
    }
}

#[test]
fn a_plan_of_commands_alone_says_that_it_is_undone_by_hand() {
    let (_keep, folder) = folder();
    let mut plan = plan(&folder, &["true"]);
    plan.changes.remove(0);
    plan.undo_commands.clear();
    fixes::apply_with(&plan, &place(&folder), &mut |_| true, &mut |_| Ok(())).unwrap();
    let error = fixes::undo(ID, &place(&folder), &mut |_| true).unwrap_err();
    assert!(matches!(error, FixError::UndoByHand { .. }), "{error}");
}
