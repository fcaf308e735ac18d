//! The report of the counted calls.

use super::{DURATIONS, Tally};
use crate::core::{CallTotal, LatencyClass, SizeClass, WatchReport, WatchedFailure, WatchedLibrary, os_error};
use crate::watch::classes::largest;
use crate::watch::files::File;
use crate::watch::rings::Totals;
use cufile_audit::layout::{FUNCTIONS, Function};

impl Tally {
    /// The report without the routes and without the facts of the launcher.
    pub(in crate::watch) fn report(&self, totals: &Totals) -> WatchReport {
        let calls = |cufile: bool| {
            let of = totals.functions.iter().zip(FUNCTIONS).zip(Function::ALL);
            let of = of.filter(move |((total, _), function)| total[0] > 0 && function.is_cufile() == cufile);
            of.map(|(([count, errors, bytes, total_ns], function), _)| CallTotal {
                function: function.name.to_owned(),
                count: *count,
                errors: *errors,
                bytes: *bytes,
                total_ns: *total_ns,
            })
        };
        let mut files: Vec<_> = self.files.iter().map(File::seen).collect();
        let bytes = |file: &crate::core::WatchedFile| {
            let all = [file.reads.bytes, file.writes.bytes, file.plain.bytes, file.plain.touched_bytes];
            all.into_iter().fold(0, u64::saturating_add)
        };
        files.sort_by(|a, b| bytes(b).cmp(&bytes(a)).then_with(|| a.path.cmp(&b.path)));
        WatchReport {
            libraries: (self.libraries.iter())
                .map(|(library, processes)| WatchedLibrary { processes: processes.len() as u64, ..library.clone() })
                .collect(),
            calls: calls(true).collect(),
            other_calls: calls(false).filter(|call| call.function != "cuGetProcAddress").collect(),
            properties: self.properties,
            configurations: self.settings.configurations(),
            latencies: self.latencies(),
            files,
            threads: totals.threads,
            reading_threads: self.reading_threads.len() as u64,
            lost_events: totals.lost.saturating_add(self.not_kept),
            sizes: (self.sizes.iter().enumerate())
                .filter(|(_, size)| size.count > 0)
                .map(|(class, size)| SizeClass { up_to_bytes: largest(class), ..*size })
                .collect(),
            failures: (self.failures.iter())
                .map(|((function, code, errno, after_submission), (count, file))| WatchedFailure {
                    function: function.clone(),
                    code: *code,
                    name: match *errno {
                        0 => name_of(*code),
                        // cuFile also stores its own codes in errno.
                        errno => {
                            name_of(errno.into()).or_else(|| Some(os_error(&std::io::Error::from_raw_os_error(errno))))
                        }
                    },
                    errno: Some(*errno).filter(|errno| *errno != 0),
                    count: *count,
                    file: file.map(|file| self.files[file].path.clone()),
                    after_submission: *after_submission,
                })
                .collect(),
            buffers: self.buffers,
            unfinished: self.streams.unfinished().saturating_add(self.unseen_transfers),
            paces: self.paces.report(),
            statistics: self.all_statistics(),
            ..WatchReport::default()
        }
    }

    fn latencies(&self) -> Vec<LatencyClass> {
        let mut seen = Vec::new();
        for (class, durations) in self.durations.iter().enumerate() {
            for (at, count) in durations.iter().enumerate().filter(|(_, count)| **count > 0) {
                let up_to_ns = if at + 1 == DURATIONS { u64::MAX } else { 1000 << (2 * at) };
                seen.push(LatencyClass { up_to_bytes: largest(class), up_to_ns, count: *count });
            }
        }
        seen
    }
}

/// The name of a cuFile error code. The code may be positive, or negative as in the result of a transfer.
fn name_of(code: i64) -> Option<String> {
    let code = i32::try_from(code).ok()?;
    cufile_ffi::codes::describe(code, None).map(|described| described.name.to_owned())
}
