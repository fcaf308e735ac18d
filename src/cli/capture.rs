//! Writes a redacted archive or directory with all files and command outputs that the checks read on this machine.

use super::args::OutputArgs;
use super::outcome::{INTERRUPTED, Ran, note, print_fitted, print_json};
use super::race::on_signals;
use super::view::examined;
use crate::checks::{self, cufile_json};
use crate::core::units;
use crate::device::endings;
use crate::fixes;
use crate::machine::{LiveOptions, Root, is_archive_name};
use crate::trust::Scratch;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The number of levels of the directories in the list: `files` and two of the machine.
const LEVELS: usize = 3;

/// Runs all checks, records their input, writes the capture and lists its content: each directory, or with `each_file`
/// each file.
pub(super) fn run(file: &Path, paths: &[PathBuf], each_file: bool, output: &OutputArgs) -> Ran {
    is_archive_name(file).map_err(|error| error.to_string())?;
    Scratch::examine_place()?;
    on_signals(|| {
        note("interrupted; the temporary files are removed");
        endings::sweep_and_exit(INTERRUPTED)
    });
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
    let mut text = if each_file { listed(&captured.files) } else { by_directory(&captured.files) };
    let redacted =
        if captured.redacted.is_empty() { "nothing was replaced".to_owned() } else { captured.redacted.join(", ") };
    let (count, size) = (units::plural(captured.files.len() as u64, "file"), units::bytes(total));
    let _ = writeln!(text, "\n{count}, {size}. Replaced: {redacted}.");
    let status = print_fitted(&text, false);
    note(&format!(
        "wrote {}; read it before you send it, and examine it anywhere with 'gds-top check --capture {}'",
        file.display(),
        file.display()
    ));
    Ok(status)
}

/// A line for each file with its size in bytes.
fn listed(files: &[(PathBuf, u64)]) -> String {
    let mut text = String::new();
    for (path, bytes) in files {
        let _ = writeln!(text, "{bytes:>9}  {}", path.display());
    }
    text
}

/// A line for each directory of the first two levels of the machine, with the size and the number of its files.
fn by_directory(files: &[(PathBuf, u64)]) -> String {
    let mut directories: BTreeMap<PathBuf, (u64, u64)> = BTreeMap::new();
    for (path, bytes) in files {
        let directory: PathBuf = path.parent().into_iter().flat_map(Path::components).take(LEVELS).collect();
        let (count, size) = directories.entry(directory).or_default();
        *count += 1;
        *size = size.saturating_add(*bytes);
    }
    let mut text = String::new();
    for (path, (count, size)) in directories {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path.as_path() };
        let _ = writeln!(text, "{:>10}  {:>12}  {}", units::bytes(size), units::plural(count, "file"), path.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_directory_are_one_line() {
        let files = [
            ("capture.json", 10),
            ("files/etc/fstab", 20),
            ("files/var/lib/dpkg/info/a.list", 0),
            ("files/var/lib/dpkg/status", 1 << 20),
        ]
        .map(|(path, bytes)| (PathBuf::from(path), bytes));
        let lines = |text: String| -> Vec<String> {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(
            lines(by_directory(&files)),
            ["10 B 1 file .", "20 B 1 file files/etc", "1 MiB 2 files files/var/lib"]
        );
        assert_eq!(lines(listed(&files)).len(), 4);
    }
}
