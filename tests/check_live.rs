//! The checks on the machine that runs the tests, whatever it is: they end, and what they say is consistent.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use gds_top::checks;
use gds_top::domain::{Route, Status};
use gds_top::host::{LiveOptions, Root};

fn live() -> Root {
    // No probe: the test program is not gds-top and cannot open libcufile for it.
    Root::live_with(LiveOptions { cufile_probe: None, ..LiveOptions::default() })
}

#[test]
fn the_checks_end_here_without_root_and_without_a_gpu_and_say_so() {
    let root = live();
    let mut emitted = Vec::new();
    let report = checks::run(&root, &[std::env::current_dir().unwrap()], None, &mut |finding| emitted.push(finding));
    eprintln!("{}", checks::text::render(&report.findings, &report.verdicts, 110, false));
    eprintln!("{} ms", report.took_ns / 1_000_000);
    for finding in &report.findings {
        assert!(!finding.summary.is_empty() && !finding.evidence.is_empty(), "{} has no evidence", finding.id);
        assert_eq!(finding.blocks.is_empty(), finding.status != Status::Fail, "{}", finding.id);
        let last = emitted.iter().rev().find(|f| f.id == finding.id);
        assert_eq!(last, Some(finding), "the last emitted {} is not the one of the report", finding.id);
    }
    assert!(!report.verdicts.is_empty());
    if !report.has_gpu {
        assert!(report.verdicts.iter().all(|v| v.route == Route::None && v.blockers == ["gpu-present"]));
    }
}
