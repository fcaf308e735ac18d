//! Tests that a capture of the machine that runs the tests gives the same findings as the machine itself, and that
//! redaction does not change findings.

use crate::expected::expected;
use crate::machine::{build, fixture, fixtures, put};
use gds_top::checks;
use gds_top::core::{Finding, Status};
use gds_top::machine::{LiveOptions, Root};

/// Findings as text, with the redacted host name of the capture.
fn clean(findings: &[Finding]) -> Vec<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let program = std::env::current_exe().unwrap().display().to_string();
    findings
        .iter()
        .map(|finding| {
            // Advice for the live machine names the program by its path, if sudo does not find it by its name.
            let text = serde_json::to_string(finding).unwrap().replace(&program, "gds-top");
            if host.len() > 3 && host != "localhost" { text.replace(&host, "host1") } else { text }
        })
        .collect()
}

#[test]
fn folder_and_archive_answer_as_the_machine_did() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.safetensors"), vec![1_u8; 8192]).unwrap();
    let probe = r#"echo '{"found":[{"path":"/l/libcufile.so.0","version":"1.15"}],"chosen":"/l/libcufile.so.0","open":{"code":5033}}'"#;
    let live = Root::live_with(LiveOptions {
        cufile_probe: Some(vec!["sh".to_owned(), "-c".to_owned(), probe.to_owned()]),
        record: true,
        ..LiveOptions::default()
    });
    let paths = [folder.path().to_owned()];
    let there = checks::run(&live, &paths, None, &mut |_| {});
    for name in ["capture", "capture.tar.zst"] {
        let taken = folder.path().join(name);
        let written = live.write_capture(&taken, "gds-top test", 1_700_000_000).unwrap();
        assert!(written.files.iter().any(|(path, bytes)| path.ends_with("capture.json") && *bytes > 0));
        assert!(live.write_capture(&taken, "gds-top test", 0).is_err(), "it was written over");
        let captured = Root::open(&taken).unwrap();
        assert_eq!(captured.captured_paths(), paths);
        let here = checks::run(&captured, &captured.captured_paths(), None, &mut |_| {});
        assert_eq!(clean(&there.findings), clean(&here.findings), "{name}");
        assert_eq!(there.verdicts, here.verdicts, "{name}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "something was left behind: {left:?}");
}

#[test]
fn a_capture_with_the_name_of_another_archive_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let live = Root::live_with(LiveOptions { cufile_probe: None, record: true, ..LiveOptions::default() });
    for name in ["m.tar.gz", "m.tgz", "m.tar", "m.TAR.ZST", "m.zst", "m.zip"] {
        let error = live.write_capture(&folder.path().join(name), "gds-top test", 0).unwrap_err();
        assert!(matches!(error, gds_top::machine::CaptureError::OtherArchive { .. }), "{error}");
        assert!(error.to_string().contains(name) && error.to_string().contains("end the name in .tar.zst"), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_capture_is_private_whatever_the_umask_is() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let live = Root::live_with(LiveOptions { cufile_probe: None, record: true, ..LiveOptions::default() });
    live.read_text("/proc/sys/kernel/osrelease").unwrap();
    live.entries("/proc/sys/kernel").unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let archive = folder.path().join("capture.tar.zst");
    live.write_capture(&archive, "gds-top test", 0).unwrap();
    assert_eq!(mode(&archive), 0o600);
    let capture = folder.path().join("capture");
    live.write_capture(&capture, "gds-top test", 0).unwrap();
    let mut todo = vec![capture];
    let mut files = 0;
    while let Some(folder) = todo.pop() {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                todo.push(entry.path());
            } else if kind.is_file() {
                assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
                files += 1;
            }
        }
    }
    assert!(files > 7, "{files} files");
}

#[test]
fn a_capture_keeps_no_serial_number_address_or_user_name() {
    let folder = tempfile::tempdir().unwrap();
    let udev = folder.path().join("b259:0");
    std::fs::write(
        &udev,
        "E:ID_SERIAL=Disk_S64DNX0\nE:ID_FS_UUID=0a1b2c3d-1111-2222-3333-0a1b2c3d4e5f\nE:ID_FS_USAGE=filesystem\n",
    )
    .unwrap();
    let notes = folder.path().join("notes");
    std::fs::write(
        &notes,
        "10.20.30.40:/export /home/alice/models aa:bb:cc:dd:ee:01 nvme-Disk_S64DNX0 GDS Version: 1.17.1.22\n",
    )
    .unwrap();
    // The capture also contains the environment and accounts of this machine, so the number of a replacement is
    // unknown here.
    let live = Root::live_with(LiveOptions { cufile_probe: None, record: true, ..LiveOptions::default() });
    live.read_text(&udev).unwrap();
    live.read_text(&notes).unwrap();
    let taken = folder.path().join("capture");
    let captured = live.write_capture(&taken, "gds-top test", 0).unwrap();
    let below = |path: &std::path::Path| taken.join("files").join(path.strip_prefix("/").unwrap());
    let record = std::fs::read_to_string(below(&udev)).unwrap();
    assert!(record.contains("E:ID_FS_USAGE=filesystem") && record.contains("E:ID_SERIAL=serial"), "{record}");
    let text = std::fs::read_to_string(below(&notes)).unwrap();
    for name in ["10.20.30.40", "alice", "aa:bb:cc:dd:ee:01", "S64DNX0"] {
        assert!(!text.contains(name), "{name} is in: {text}");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    for (word, (begin, end)) in words.iter().zip([
        ("192.0.2.", ":/export"),
        ("/home/user", "/models"),
        ("02:00:00:00:", ""),
        ("nvme-serial", ""),
    ]) {
        assert!(word.starts_with(begin) && word.ends_with(end), "{word}");
    }
    assert!(text.contains("Version: 1.17.1.22"), "{text}");
    for kind in ["serial numbers", "IP addresses", "user names in paths", "hardware addresses"] {
        assert!(captured.redacted.iter().any(|said| said.starts_with(kind)), "{:?}", captured.redacted);
    }
    let capture: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(taken.join("capture.json")).unwrap()).unwrap();
    assert_eq!(capture["redacted"].as_array().unwrap().len(), captured.redacted.len());
}

#[test]
fn a_view_that_does_not_record_cannot_be_captured() {
    let folder = tempfile::tempdir().unwrap();
    let live = Root::live_with(LiveOptions { cufile_probe: None, ..LiveOptions::default() });
    assert!(live.write_capture(&folder.path().join("x"), "gds-top test", 0).is_err());
    assert!(!folder.path().join("x").exists());
}

/// The parts of a finding that redaction must not change.
pub(crate) fn answer(report: &checks::Report) -> Vec<String> {
    let findings = report.findings.iter().map(|f| {
        format!(
            "{} {:?} blocks {:?} fix {:?} cause {:?} evidence {}",
            f.id,
            f.status,
            f.blocks,
            f.fix,
            f.cause,
            f.evidence.len()
        )
    });
    let verdicts = report.verdicts.iter().map(|v| format!("{} of {} blocked by {:?}", v.route, v.possible, v.blockers));
    // Redaction renames paths, so their order can change.
    let mut verdicts: Vec<_> = verdicts.collect();
    verdicts.sort();
    findings.chain(verdicts).collect()
}

/// Tests that a machine and its redacted capture give the same findings.
fn assert_same_answer(name: &str, machine: &std::path::Path) {
    let whole = Root::folder_recorded(machine).unwrap();
    let there = checks::run(&whole, &whole.captured_paths(), None, &mut |_| {});
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("capture.tar.zst");
    whole.write_capture(&taken, "gds-top test", 0).unwrap();
    let redacted = Root::open(&taken).unwrap();
    let here = checks::run(&redacted, &redacted.captured_paths(), None, &mut |_| {});
    assert_eq!(answer(&there), answer(&here), "{name}");
}

#[test]
fn that_secure_boot_is_off_without_efi_is_known_of_the_capture_too() {
    let machine = build("h200-vm-no-udev", &[put("files/sys/firmware/acpi/tables/DSDT", "")]);
    let root = Root::open(machine.path()).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    let told = report.findings.iter().find(|finding| finding.id == "nvfs-secureboot").unwrap();
    assert_eq!((told.status, told.summary.as_str()), (Status::Pass, "Secure Boot is off"));
    assert_same_answer("without EFI", machine.path());
}

#[test]
fn the_redacted_capture_of_every_fixture_machine_answers_as_the_machine_does() {
    let names = fixtures();
    assert!(names.len() >= 59, "{} machines", names.len());
    crate::spread::spread(&names, |name| assert_same_answer(name, &fixture(name)));
}

#[test]
fn the_redacted_capture_of_every_machine_that_was_told_beforehand_answers_as_the_machine_does() {
    let machines = expected();
    assert!(machines.len() >= 90, "{} machines", machines.len());
    for machine in machines {
        assert_same_answer(machine.name, build(machine.base, &machine.edits).path());
    }
}
