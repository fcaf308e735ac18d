//! Infers the route of a command's reads from outside: from its mappings, the counters of nvidia-fs, and the log of
//! libcufile.

use crate::core::{NVFS_STATS, Route, RouteCounts};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Length of the end of a log that is read.
const LOG_BYTES: u64 = 256 << 10;

/// Observations of a command.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The path of the libcufile that one of its processes had mapped.
    pub(super) cufile: Option<String>,
    /// Whether the mappings of all its processes could be read.
    pub(super) readable: bool,
    /// Number of reads that nvidia-fs counted during the run; `None` if it does not count.
    pub(super) nvfs: Option<u64>,
    /// The text of its cufile.log; empty if there is none.
    pub(super) log: String,
}

impl Seen {
    /// Reads the end of the log in the run's directory.
    pub(super) fn read_log(folder: &Path) -> String {
        Self::end_of(&folder.join("cufile.log")).unwrap_or_default()
    }

    /// The command writes the log, and could have put a FIFO or a file of any size there.
    fn end_of(log: &Path) -> std::io::Result<String> {
        let mut file = crate::trust::open_regular(log)?;
        let start = file.metadata()?.len().saturating_sub(LOG_BYTES);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.take(LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The route of a command that used cuFile, and a note about it.
    pub(super) fn route(&self) -> (Option<RouteCounts>, String) {
        let used = match (&self.cufile, self.log.is_empty()) {
            (Some(path), _) => format!("it had {path} mapped"),
            (None, false) => "it wrote a cufile.log".to_owned(),
            (None, true) if self.readable => {
                let said = "none of its processes had libcufile mapped when they were examined, so it did not read with cuFile";
                return (None, said.to_owned());
            }
            (None, true) => {
                let said = "the mappings of its processes could not be read, so it is unknown whether it used cuFile";
                return (None, said.to_owned());
            }
        };
        let counts = RouteCounts::without_libcufile;
        let log = self.log.to_ascii_lowercase();
        let compat = log.contains("compatible mode") || log.contains("compat mode");
        let evidence_counts = match self.nvfs {
            Some(reads @ 1..) => {
                let reads_text = crate::core::units::plural(reads, "read");
                let source = format!("inferred: {NVFS_STATS} counted {reads_text} of all processes during the run");
                counts(Route::Nvfs, Some(reads), source, false)
            }
            _ if compat => {
                counts(Route::Compat, self.nvfs, "inferred: its cufile.log mentions compat mode".to_owned(), false)
            }
            Some(0) => counts(
                Route::Compat,
                Some(0),
                "inferred: nvidia-fs counted no read during the run, and P2PDMA is not visible from outside".to_owned(),
                false,
            ),
            _ => {
                counts(Route::None, None, "nothing outside the process shows the route of its reads".to_owned(), false)
            }
        };
        (Some(evidence_counts), used)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_log_is_read_and_no_fifo_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("cufile.log");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &log, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(Seen::read_log(dir.path()), "");
        std::fs::remove_file(&log).unwrap();
        // A file without data blocks that is larger than the memory.
        std::fs::File::create(&log).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(Seen::read_log(dir.path()).len() as u64, LOG_BYTES);
        std::fs::write(&log, "in compatible mode").unwrap();
        assert_eq!(Seen::read_log(dir.path()), "in compatible mode");
    }

    #[test]
    fn nothing_seen_from_outside_proves_a_route() {
        let seen = Seen { readable: true, ..Seen::default() };
        assert_eq!(seen.route().0, None);
        assert!(seen.route().1.contains("did not read with cuFile"));
        let mapped = Seen { cufile: Some("/x/libcufile.so.0".into()), ..seen.clone() };
        for (nvfs, log, route, proven) in [
            (Some(5), "", Route::Nvfs, false),
            (Some(0), "", Route::Compat, false),
            (None, "NOTICE running in compatible mode", Route::Compat, false),
            (None, "", Route::None, false),
        ] {
            let (evidence_counts, said) = Seen { nvfs, log: log.to_owned(), ..mapped.clone() }.route();
            let evidence_counts = evidence_counts.unwrap();
            assert_eq!(
                (evidence_counts.route, evidence_counts.proven, evidence_counts.nvfs_reads),
                (route, proven, nvfs),
                "{evidence_counts:?}"
            );
            assert!(said.contains("libcufile.so.0"), "{said}");
        }
        let hidden = Seen::default().route();
        assert!(hidden.0.is_none() && hidden.1.contains("unknown whether"));
    }
}
