//! A capture of the machine that runs the tests gives the same findings as the machine itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use gds_top::checks;
use gds_top::domain::Finding;
use gds_top::host::{LiveOptions, Root};

#[test]
fn the_capture_answers_as_the_machine_did() {
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
    let taken = folder.path().join("capture");
    live.write_capture(&taken, "gds-top test", 1_700_000_000).unwrap();
    let captured = Root::folder(&taken).unwrap();
    assert_eq!(captured.captured_paths(), paths);
    let here = checks::run(&captured, &captured.captured_paths(), None, &mut |_| {});
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let clean = |findings: &[Finding]| {
        let text = serde_json::to_string(findings).unwrap();
        if host.len() > 3 { text.replace(&host, "host") } else { text }
    };
    for (a, b) in there.findings.iter().zip(&here.findings) {
        assert_eq!(clean(std::slice::from_ref(a)), clean(std::slice::from_ref(b)));
    }
    assert_eq!(there.findings.len(), here.findings.len());
    assert_eq!(there.verdicts, here.verdicts);
}

#[test]
fn a_view_that_does_not_record_cannot_be_captured() {
    let folder = tempfile::tempdir().unwrap();
    let live = Root::live_with(LiveOptions { cufile_probe: None, ..LiveOptions::default() });
    assert!(live.write_capture(folder.path(), "gds-top test", 0).is_err());
}
