//! Infers the route of a command's reads from outside: from its mappings, the counters of nvidia-fs, and the log of
//! libcufile.

use crate::core::{NVFS_STATS, Route, RouteCounts};
use std::path::Path;

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
    /// Reads the end of the log in the run's folder.
    pub(super) fn read_log(folder: &Path) -> String {
        let bytes = std::fs::read(folder.join("cufile.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(256 << 10)..]).into_owned()
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
