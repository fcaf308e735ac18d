//! The texts of facts about a watched program.

use crate::core::units::{self, bytes, count, duration, plural, plural_ies};
use crate::core::{DriverProperties, WatchReport};

/// The threads that called cuFile. The details of lost calls do not have their thread.
pub(super) fn threads(report: &WatchReport) -> String {
    let least = |is_least: bool| if is_least { "at least " } else { "" };
    let (all, reading) = (least(report.uncounted > 0), least(report.lost_events > 0));
    format!("{all}{} called cuFile, {reading}{} read with it", count(report.threads), count(report.reading_threads))
}

/// The registrations of buffers. `None` if there is none.
pub(super) fn buffers(report: &WatchReport) -> Option<String> {
    let (least, most) = if report.lost_events > 0 { ("at least ", "at times ") } else { ("", "at most ") };
    let (registrations, time) = (plural(report.buffers.registered, "registration"), duration(report.buffers.total_ns));
    let size = bytes(report.buffers.most_bytes);
    (report.buffers.registered > 0).then(|| format!("{least}{registrations} in {time}, {most}{size} at a time"))
}

/// Copies that are not calls of the recorded functions.
const UNSEEN_COPIES: &str =
    "not seen: graphs, kernels that copy, page faults of managed memory, internal calls of CUDA libraries";

/// The source of the numbers about copies to and from GPUs. `None` if no process used libcuda.
pub(super) fn gpu_copies(report: &WatchReport) -> Option<String> {
    let copies = units::sum(report.other_calls.iter().filter(|call| call.is_gpu_copy()).map(|call| call.count));
    match (copies, report.cuda_processes) {
        (0, 0) => None,
        // libcufile copies for its transfers itself.
        (0, _) if report.transfers() > 0 => None,
        (0, _) => Some(format!(
            "none recorded; libcuda is loaded ({UNSEEN_COPIES}). 'gds-top top' shows the PCIe traffic of each GPU, of all processes"
        )),
        _ => Some(format!("{} recorded at the functions of libcuda; {UNSEEN_COPIES}", plural_ies(copies, "cop"))),
    }
}

/// Bits of `dcontrolflags` and `fflags`, see cufile.h.
pub(super) fn driver(properties: &DriverProperties) -> String {
    let control = [(0, "poll mode"), (1, "compat mode allowed"), (2, "POSIX only"), (4, "fallback I/O")];
    let features = [(0, "dynamic routing"), (1, "batches"), (2, "streams"), (3, "parallel I/O"), (4, "P2P")];
    let mut parts = vec![match (properties.nvfs_major, properties.nvfs_minor) {
        (0, 0) => "without nvidia-fs".to_owned(),
        (major, minor) => format!("nvidia-fs {major}.{minor}"),
    }];
    let set = |flags: u32, names: &[(u32, &str)]| -> Vec<String> {
        names.iter().filter(|(bit, _)| flags & (1 << bit) != 0).map(|(_, name)| (*name).to_owned()).collect()
    };
    parts.extend(set(properties.control_flags, &control));
    parts.extend(set(properties.features, &features));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::SessionEnd;
    use crate::core::{CallTotal, ProcessIo, ProgramEnd};
    use crate::present::watch::answer;

    #[test]
    fn a_report_with_or_without_gpu_copies_names_those_that_are_not_seen() {
        let copies = |count: u64| {
            let call = CallTotal { function: "cuMemcpyHtoD".to_owned(), count, ..CallTotal::default() };
            WatchReport { cuda_processes: 1, other_calls: vec![call], ..WatchReport::default() }
        };
        let texts = [0, 3].map(|count| gpu_copies(&copies(count)).unwrap_or_default());
        assert!(texts.iter().all(|text| text.contains(UNSEEN_COPIES)), "{texts:?}");
        assert!(texts[0].starts_with("none recorded") && texts[1].starts_with("3 copies recorded"), "{texts:?}");
        assert_eq!(gpu_copies(&WatchReport::default()), None);
    }

    #[test]
    fn requests_of_io_uring_are_in_the_answer_if_cufile_is_not_used() {
        let of = |io_uring_requests| {
            let io = ProcessIo { io_uring_requests, ..Default::default() };
            let ended = Some(ProgramEnd::Status(0));
            let report = WatchReport { programs: 1, ended, process_io: Some(io), ..WatchReport::default() };
            answer(&report, SessionEnd::Complete).conditions
        };
        assert_eq!(of(0), "It did not load libcufile.");
        assert_eq!(of(4), "It did not load libcufile. At least 4 io_uring requests completed.");
    }
}
