//! Decides which existing files an export may replace: empty files, and files of an earlier export. The first bytes
//! of a file show which program wrote it.

use crate::trust::Destination;
use std::ffi::OsStr;
use std::io::{self, Read};

/// The tag in every HTML page that gds-top writes.
pub const PAGE_MARK: &str = "<meta name=\"generator\" content=\"gds-top\">";

/// Number of bytes at the beginning of a file that are searched for the mark.
const HEAD_BYTES: u64 = 4 << 10;

/// For each file name: the text that must be near the beginning of the file.
const MARKS: [(&str, &str); 20] = [
    ("report.json", "{\"schema_version\":2,\"tool\":\""),
    ("report.json", "{\"schema_version\":1,\"tool\":\""),
    ("report.schema.json", "\"urn:gds-top:report"),
    ("report.md", "# gds-top report"),
    ("report.html", "<title>gds-top report</title>"),
    ("runs.csv", "lane,share,engine,model,cache,"),
    ("tensors.csv", "lane,engine,cache,repeat,name,shard,"),
    ("samples.csv", "at_ns,lane"),
    ("results.csv", "model,target,cache,engine,"),
    ("workloads.csv", "lane,cache,repeat,"),
    ("layers.csv", "lane,cache,repeat,"),
    ("grid.csv", "transfer,access,pattern,block_bytes,"),
    ("program.csv", "command,exit_status,"),
    ("calls.csv", "function,calls,"),
    ("files.csv", "path,route,route_proven,"),
    ("file_tensors.csv", "path,tensor,bytes,"),
    ("timeline.csv", "function,process,thread,"),
    ("trace.json", "\"tool\":\"gds-top"),
    ("gds-top.prom", "gds_top_"),
    ("junit.xml", "<testsuites name=\"gds-top\">"),
];

/// Checks that the file `name` in `folder` may be replaced, because an export wrote it.
///
/// # Errors
/// Fails if the name belongs to another file.
pub(super) fn may_replace(folder: &Destination, name: &str) -> io::Result<()> {
    let marks: Vec<&str> = MARKS.iter().filter(|(known, _)| *known == name).map(|(_, mark)| *mark).collect();
    may_replace_any(folder, OsStr::new(name), if marks.is_empty() { &["gds-top"] } else { &marks })
}

/// Like [`may_replace`], but for any file name, with the given mark.
///
/// # Errors
/// See [`may_replace`].
pub(super) fn may_replace_marked(folder: &Destination, name: &OsStr, mark: &str) -> io::Result<()> {
    may_replace_any(folder, name, &[mark])
}

fn may_replace_any(folder: &Destination, name: &OsStr, marks: &[&str]) -> io::Result<()> {
    let refused = |why: &str| {
        let text = format!("{why} and is not replaced; move it away or pass another path");
        Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
    };
    let file = match folder.read(name) {
        Ok(None) => return Ok(()),
        Ok(Some(file)) => file,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return refused(&error.to_string()),
        Err(error) => return Err(error),
    };
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head)?;
    let has = |mark: &&str| head.windows(mark.len()).any(|part| part == mark.as_bytes());
    if head.is_empty() || marks.iter().any(has) {
        return Ok(());
    }
    refused("it was not written by gds-top")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{Format, export, prepare, write_page};
    use super::*;
    use crate::session::State;
    use std::fs;
    use std::path::Path;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn each_form_of_an_earlier_export_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        export(&State::default(), folder.path(), &Format::ALL).unwrap();
        let held = Destination::open(folder.path()).unwrap();
        for name in names(folder.path()) {
            may_replace(&held, &name).unwrap_or_else(|error| unreachable!("{name}: {error}"));
        }
        fs::write(folder.path().join("report.json"), "{\"schema_version\":1,\"tool\":\"gds-top\"}").unwrap();
        prepare(folder.path(), &Format::ALL).unwrap();
        export(&State::default(), folder.path(), &Format::ALL).unwrap();
    }

    #[test]
    fn a_file_of_somebody_else_is_left_alone_by_every_form() {
        for (name, _) in MARKS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            fs::write(&path, "years,of,work\n").unwrap();
            let early = prepare(folder.path(), &Format::ALL).unwrap_err().to_string();
            assert!(early.contains(name) && early.contains("was not written by gds-top"), "{early}");
            // This session has no workload and no grid, so their files are not written.
            let _ = export(&State::default(), folder.path(), &Format::ALL);
            assert_eq!(fs::read(&path).unwrap(), b"years,of,work\n", "{name}");
        }
    }

    #[test]
    fn links_and_folders_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.md");
        let victim = folder.path().join("victim");
        fs::write(&victim, "# gds-top report\n").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let held = Destination::open(folder.path()).unwrap();
        assert!(may_replace(&held, "report.md").is_err());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(may_replace(&held, "report.md").is_err());
    }

    #[test]
    fn a_page_replaces_an_empty_file_and_a_page_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lesson.html");
        fs::write(&path, "").unwrap();
        let page = format!("<!doctype html><html><head>{PAGE_MARK}</head></html>");
        write_page(&path, &page).unwrap();
        write_page(&path, &page).unwrap();
        fs::write(&path, "<!doctype html><p>years of work</p>").unwrap();
        let said = write_page(&path, &page).unwrap_err().to_string();
        assert!(said.contains("was not written by gds-top"), "{said}");
        assert_eq!(fs::read(&path).unwrap(), b"<!doctype html><p>years of work</p>");
        assert_eq!(names(folder.path()), ["lesson.html"]);
    }
}
