//! Paths and captures of which parts are missing, several paths, and routes that reads prove.

use crate::fixtures::{check, root};
use gds_top::checks;
use gds_top::core::{Route, RouteCounts, Status};
use gds_top::machine::Root;
use std::path::{Path, PathBuf};

#[test]
fn a_path_that_was_not_captured_is_said_to_be_so() {
    let root = root("nvfs-healthy");
    let report = checks::run(&root, &[PathBuf::from("/elsewhere")], None, &mut |_| {});
    assert_eq!(report.finding("fs-resolve").unwrap().status, Status::Na);
    assert!(!report.verdicts[0].route.is_direct(), "nothing is called direct that was not looked at");
}

#[test]
fn several_paths_give_a_verdict_each_and_one_finding_for_each_check() {
    let root = root("nvfs-healthy");
    let paths = [PathBuf::from("/data/models"), PathBuf::from("/elsewhere")];
    let report = checks::run(&root, &paths, None, &mut |_| {});
    assert_eq!(report.verdicts.len(), 2);
    assert_eq!(report.verdicts[0].route, Route::Nvfs);
    let mut ids: Vec<&str> = report.findings.iter().map(|f| f.id.as_str()).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn parts_missing_from_a_capture_are_answers_and_no_errors() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("files")).unwrap();
    let root = Root::folder(folder.path()).unwrap();
    let report = checks::run(&root, &[PathBuf::from("/data")], None, &mut |_| {});
    assert!(
        report
            .findings
            .iter()
            .all(|f| f.status != Status::Pass || f.id == "wsl" || f.id == "ctr-detect" || f.id == "cfg-compat"),
        "{:?}",
        report.findings.iter().filter(|f| f.status == Status::Pass).map(|f| &f.id).collect::<Vec<_>>()
    );
}

#[test]
fn counted_reads_prove_the_route_and_uncounted_ones_change_nothing() {
    let verdict = check("h200-vm-udev").verdicts.remove(0);
    let mut counts = RouteCounts {
        route: Route::Compat,
        nvfs_reads: Some(0),
        p2p_reads: Some(0),
        posix_reads: Some(1434),
        source: "cuFile level-3 statistics".to_owned(),
        proven: true,
    };
    let proven = checks::with_counts(&verdict, &counts);
    assert!(proven.proven && proven.route == Route::Compat && proven.proof.contains("1434 POSIX reads"));
    assert_eq!(proven.blockers, verdict.blockers);
    counts.proven = false;
    assert_eq!(checks::with_counts(&verdict, &counts), verdict);
}

#[test]
fn captures_made_by_hand_with_nulls_and_near_types_are_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("files")).unwrap();
    for (name, text) in [
        (
            "nvml.json",
            r#"{"driver_version":"580.1","gpus":[{"index":null,"uuid":"GPU-1","name":"NVIDIA L4","pcie":"x16","attributes":null,"mig":null}]}"#,
        ),
        (
            "libcufile.json",
            r#"{"tried":null,"found":[{"path":"/l","version":1.16}],"chosen":"/l","open":{"code":0,"stdout":null,"timed_out":null},"p2p_flags":null}"#,
        ),
        ("commands.json", r#"[{"argv":["uname","-r"],"exit_code":0,"stdout":"6.8.0\n","stderr":null}]"#),
        ("environment.json", r#"{"CUFILE_STATS_LEVEL":3,"CUDA_VISIBLE_DEVICES":null}"#),
        (
            "paths.json",
            r#"[{"path":"/data","real_path":"/data","filesystem":"ext4","device":"259:1","mount_options":["rw","data=ordered"],"block_device":[{"name":"nvme0n1","kind":null}]}]"#,
        ),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let root = Root::folder(folder.path()).unwrap();
    assert_eq!(root.variable("CUFILE_STATS_LEVEL").as_deref(), Some("3"));
    assert_eq!(root.nvml().gpus.len(), 1);
    assert_eq!(root.libcufile().version(), Some("1.16"));
    let facts = root.path_facts(Path::new("/data")).unwrap();
    assert_eq!(facts.option_value("data"), Some("ordered"));
    assert_eq!(facts.block_device.len(), 1);
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    assert_eq!(report.verdicts[0].gpu.as_deref(), Some("GPU-1"));
    assert!(report.finding("kernel-version").unwrap().summary.contains("6.8.0"));
}
