//! Runs the checks on the machine that runs the tests, whichever it is. They must end, and their results must be
//! consistent.

use gds_top::checks;
use gds_top::core::CheckId;
use gds_top::core::{Finding, Route, Status};
use gds_top::machine::{LiveOptions, Root};
use std::time::Duration;

fn live() -> Root {
    // There is no probe, because the test program is not gds-top and cannot open libcufile.
    Root::live_with(LiveOptions { cufile_probe: None, ..LiveOptions::default() })
}

#[test]
fn the_checks_end_here_without_root_and_without_a_gpu_and_say_so() {
    let root = live();
    let mut emitted = Vec::new();
    let report = checks::run(&root, &[std::env::current_dir().unwrap()], None, &mut |finding| emitted.push(finding));
    eprintln!("{}", gds_top::report::findings(&report.findings, &report.verdicts, 110, false));
    eprintln!("{} ms", report.took_ns / 1_000_000);
    for finding in &report.findings {
        assert!(!finding.summary.is_empty() && !finding.evidence.is_empty(), "{} has no evidence", finding.id);
        let may_block = matches!(finding.status, Status::Fail | Status::Warn);
        assert!(may_block || finding.blocks.is_empty(), "{}", finding.id);
        assert!(finding.status != Status::Fail || !finding.blocks.is_empty(), "{}", finding.id);
        let last = emitted.iter().rev().find(|f| f.id == finding.id);
        assert_eq!(last, Some(finding), "the last emitted {} differs from the report", finding.id);
    }
    assert!(!report.verdicts.is_empty());
    if !report.has_gpu {
        assert!(report.verdicts.iter().all(|v| v.route == Route::None && v.blockers == ["gpu-present"]));
    }
}

#[test]
fn quick_findings_do_not_wait_for_a_probe_that_hangs() {
    const ANSWER: &str =
        r#"{"found":[{"path":"/l/libcufile.so.0","version":"1.15"}],"chosen":"/l/libcufile.so.0","open":{"code":0}}"#;
    const QUICK: [&str; 5] = ["fs-resolve", "odirect-open", "wsl", "ctr-detect", "cfg-compat"];
    let folder = tempfile::tempdir().unwrap();
    let (begun, told) = (folder.path().join("begun"), folder.path().join("told"));
    // The probe ends after the quick findings are there. If they waited for it, it would end at its limit.
    let waits =
        format!(": > {}; until [ -e {} ]; do sleep 0.01; done; echo '{ANSWER}'", begun.display(), told.display());
    let asked = |script: &str, limit: u64, emit: &mut dyn FnMut(Finding)| {
        let root = Root::live_with(LiveOptions {
            cufile_probe: Some(["sh", "-c", script].map(str::to_owned).to_vec()),
            probe_limit: Duration::from_secs(limit),
            ..LiveOptions::default()
        });
        checks::run(&root, &[std::env::current_dir().unwrap()], None, emit)
    };
    let mut early: Vec<CheckId> = Vec::new();
    // If /proc/modules cannot be read, gds-top waits at most 3 s.
    if std::fs::read("/proc/modules").is_ok() {
        let report = asked(&waits, 300, &mut |finding| {
            early.push(finding.id);
            if QUICK.iter().all(|id| early.iter().any(|e| e == id)) {
                std::fs::write(&told, "").unwrap();
            }
        });
        let probe = report.finding("lib-open-probe").unwrap();
        assert!(begun.exists() && !probe.summary.contains("did not return"), "{}: {early:?}", probe.summary);
    }
    // A probe that never ends is killed, and its finding comes after the findings that do not need it.
    early.clear();
    let report = asked("exec sleep 86400", 1, &mut |finding| early.push(finding.id));
    let at =
        |id: &str| early.iter().position(|e| *e == id).unwrap_or_else(|| panic!("{id} was not reported: {early:?}"));
    assert!(QUICK.iter().all(|id| at(id) < at("lib-open-probe")), "{early:?}");
    let probe = report.finding("lib-open-probe").unwrap();
    assert!(probe.summary.contains("did not return"), "{}", probe.summary);
}
