//! Writes a redacted archive or directory with all files and command outputs that the checks read on this machine.

use super::args::OutputArgs;
use super::outcome::{Ran, note, print_fitted, print_json};
use super::view::examined;
use crate::checks::{self, cufile_json};
use crate::fixes;
use crate::machine::{LiveOptions, Root, is_archive_name};
use crate::trust::Scratch;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Runs all checks, records their input, writes the capture and lists its content.
pub(super) fn run(file: &Path, paths: &[PathBuf], output: &OutputArgs) -> Ran {
    is_archive_name(file).map_err(|error| error.to_string())?;
    Scratch::examine_place()?;
    let view = Root::live_with(LiveOptions { record: true, ..LiveOptions::default() });
    let paths = examined(&view, paths)?;
    let report = checks::run(&view, &paths, None, &mut |_| {});
    // The capture must also contain the hardware that a report names.
    let _ = checks::machine(&view, &report.paths);
    // `config lint --root` and `config show --root` need their input too.
    let _ = cufile_json::lint_machine(&view, &cufile_json::Hardware::of(&view, &report, None));
    // The plans of fixes and the checklist need their input too.
    let _ = (fixes::plan(&view, &report), fixes::guide::guide(&view, &report));
    let tool = concat!("gds-top ", env!("CARGO_PKG_VERSION"));
    let unix_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let captured = view.write_capture(file, tool, unix_s).map_err(|error| error.to_string())?;
    let total: u64 = captured.files.iter().map(|(_, bytes)| bytes).sum();
    if output.json {
        let files: Vec<_> =
            captured.files.iter().map(|(path, bytes)| serde_json::json!({"path": path, "bytes": bytes})).collect();
        return Ok(print_json(&serde_json::json!({
            "capture": file, "files": files, "bytes": total, "redacted": captured.redacted,
        })));
    }
    let mut text = String::new();
    for (path, bytes) in &captured.files {
        let _ = writeln!(text, "{bytes:>9}  {}", path.display());
    }
    let redacted =
        if captured.redacted.is_empty() { "nothing was replaced".to_owned() } else { captured.redacted.join(", ") };
    let _ = writeln!(text, "\n{} files, {total} bytes. Replaced: {redacted}.", captured.files.len());
    let status = print_fitted(&text, false);
    note(&format!(
        "wrote {}; read it before you send it, and examine it anywhere with 'gds-top check --capture {}'",
        file.display(),
        file.display()
    ));
    Ok(status)
}
