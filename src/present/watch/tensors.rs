//! The tensors that a watched program read: the cells of their table, and how many were read.

use super::file::{name, unknown_tensors};
use crate::core::units::{self, bytes, bytes_per_s, count, duration, plural, rate, verb};
use crate::core::{WatchReport, WatchedFile, WatchedTensor};
use crate::present::view::or_gap;
use crate::text::capitalised;

/// The headings of [`tensor_cells`].
pub const TENSOR_HEADS: [&str; 8] = ["tensor", "complete", "file", "size", "reads", "read", "time", "rate"];
/// The index of the column with the file.
pub const TENSOR_FILE: usize = 2;

/// The cells of a tensor.
#[must_use]
pub fn tensor_cells(file: &WatchedFile, tensor: &WatchedTensor) -> [String; TENSOR_HEADS.len()] {
    let bound = if is_touched(tensor) { "≤ " } else { "" };
    let complete = match is_complete_tensor(tensor) {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not known",
    };
    let read = format!("{bound}{}", bytes(tensor.bytes));
    let time = or_gap(tensor.read_ns.map(duration));
    let rate = or_gap(read_rate(tensor).map(rate));
    let (size, reads) = (bytes(tensor.size), count(tensor.reads));
    [tensor.name.clone(), complete.to_owned(), name(file), size, reads, read, time, rate]
}

/// The bytes per second of a tensor's reads. `None` if the time is not known, or if the bytes are those in touched
/// pages.
#[must_use]
pub fn read_rate(tensor: &WatchedTensor) -> Option<f64> {
    tensor.read_ns.filter(|_| !is_touched(tensor)).and_then(|ns| bytes_per_s(tensor.bytes, ns))
}

/// The tensors that were read, with their files, in the order of files and offsets.
pub(super) fn read_tensors(report: &WatchReport) -> impl Iterator<Item = (&WatchedFile, &WatchedTensor)> {
    report.files.iter().flat_map(|file| file.tensors.iter().map(move |tensor| (file, tensor)))
}

/// The number of tensors that were read.
#[must_use]
pub fn tensor_count(report: &WatchReport) -> usize {
    report.files.iter().map(|file| file.tensors.len()).sum()
}

/// The share of a tensor's bytes that were read or touched, and whether it is only an upper bound.
#[must_use]
pub fn read_share(tensor: &WatchedTensor) -> (f64, bool) {
    let share = |of: u64| (of as f64 / tensor.size.max(1) as f64).min(1.0);
    match tensor.covered_bytes {
        Some(covered) if covered >= tensor.touched_bytes => (share(covered), false),
        covered => (share(covered.unwrap_or(tensor.bytes).max(tensor.touched_bytes)), true),
    }
}

/// Whether a tensor counts as read only because its pages are in a page table.
pub(super) fn is_upper_bound(report: &WatchReport) -> bool {
    read_tensors(report).any(|(_, tensor)| is_touched(tensor))
}

/// Whether the bytes of a tensor are those in touched pages of a mapping.
const fn is_touched(tensor: &WatchedTensor) -> bool {
    tensor.touched_bytes > 0 && tensor.touched_bytes >= tensor.bytes
}

/// Whether each byte of a tensor was read. `None` if it is not known: earlier recordings do not have the parts that were
/// read, and touched pages can be other ones.
#[must_use]
pub fn is_complete_tensor(tensor: &WatchedTensor) -> Option<bool> {
    let most = tensor.covered_bytes.unwrap_or(tensor.bytes).saturating_add(tensor.touched_bytes);
    match tensor.covered_bytes {
        _ if most < tensor.size => Some(false),
        Some(covered) if covered >= tensor.size => Some(true),
        _ => None,
    }
}

/// How many tensors were read.
#[must_use]
pub fn tensor_summary(report: &WatchReport) -> String {
    let all = || report.files.iter().flat_map(|file| &file.tensors);
    let complete = all().filter(|tensor| is_complete_tensor(tensor) != Some(false)).count() as u64;
    let is_known = all().all(|tensor| is_complete_tensor(tensor).is_some());
    let of: u64 = units::sum(report.files.iter().map(|file| file.tensors_of_file));
    let unknown = unknown_tensors(report).map(|unknown| format!("Tensors are {unknown}."));
    match (tensor_count(report) as u64, of) {
        (0, 0) => unknown.unwrap_or_else(|| "The program used no safetensors file.".to_owned()),
        (read, of) => {
            let were = verb(read, "was", "were");
            let bound = |is_most: bool| match (is_most, report.lost_events > 0) {
                (true, true) => "about ",
                (true, false) => "at most ",
                (false, true) => "at least ",
                (false, false) => "",
            };
            let is_most = is_upper_bound(report);
            let (first, second) = (bound(is_most), bound(is_most || !is_known));
            let (read, of, complete) = (count(read), plural(of, "tensor"), count(complete));
            capitalised(&format!("{first}{read} of {of} {were} read, {second}{complete} of them completely."))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::present::watch::{answer::tests::file_without_route, tables};

    fn tensor(name: &str, covered: u64) -> WatchedTensor {
        WatchedTensor {
            name: name.to_owned(),
            size: 1000,
            reads: 2,
            bytes: 1000,
            touched_bytes: 0,
            covered_bytes: Some(covered),
            read_ns: Some(500),
        }
    }

    fn table_of(files: Vec<WatchedFile>, full: bool) -> crate::present::Table {
        let report = WatchReport { files, ..WatchReport::default() };
        tables(&report, full).into_iter().find(|table| table.title == "Tensors").unwrap()
    }

    #[test]
    fn a_tensor_that_was_read_twice_in_part_is_not_complete() {
        let file = WatchedFile { tensors: vec![tensor("a", 500), tensor("b", 1000)], ..file_without_route() };
        let table = table_of(vec![file.clone()], true);
        let row = |name, complete| [name, complete, "1000 B", "2", "1000 B", "500 ns", "2.00 GB/s"];
        assert_eq!(table.rows, [row("a", "no"), row("b", "yes")]);
        // With a second file, each row has its file.
        let other = WatchedFile { path: "/other".to_owned(), ..file };
        let table = table_of(vec![file_without_route(), other.clone(), other.clone()], true);
        assert_eq!(table.rows[0].len(), 7);
        let table = table_of(vec![WatchedFile { path: "/first".to_owned(), ..other.clone() }, other], true);
        assert_eq!((table.rows[0][2].as_str(), table.rows[3][2].as_str()), ("/first", "/other"));
    }

    #[test]
    fn a_short_list_of_many_tensors_begins_with_the_incomplete_ones() {
        let mut tensors: Vec<_> = (0..40).map(|n| tensor(&n.to_string(), 1000)).collect();
        tensors[33].covered_bytes = Some(999);
        let file = WatchedFile { tensors, ..file_without_route() };
        assert_eq!(table_of(vec![file.clone()], false).rows[0][..2], ["33", "no"]);
        assert_eq!(table_of(vec![file], true).rows[0][..2], ["0", "yes"]);
    }

    #[test]
    fn a_tensor_without_a_known_time_has_no_rate_and_a_mapped_one_has_neither() {
        let untimed = WatchedTensor { read_ns: None, ..tensor("untimed", 1000) };
        let mapped = WatchedTensor { reads: 0, touched_bytes: 1000, read_ns: None, ..tensor("mapped", 0) };
        // It is not known how many of the bytes the reads moved.
        let both = WatchedTensor { touched_bytes: 1000, ..tensor("both", 10) };
        let tensors = vec![untimed, mapped, both];
        let file = WatchedFile { tensors, ..file_without_route() };
        let table = table_of(vec![file.clone()], true);
        let cells: Vec<_> = table.rows.iter().map(|row| (row[5].as_str(), row[6].as_str())).collect();
        assert_eq!(cells, [("–", "–"), ("–", "–"), ("500 ns", "–")]);
        assert!(table.note.contains("is shared by bytes"), "{}", table.note);
        let without = WatchedFile { tensors: file.tensors[..2].to_vec(), ..file };
        assert!(!table_of(vec![without], true).note.contains("is shared by bytes"));
    }

    #[test]
    fn the_table_of_tensors_says_that_details_of_calls_were_lost() {
        let note = |lost_events| {
            let files = vec![WatchedFile { tensors: vec![tensor("a", 1000)], ..file_without_route() }];
            let report = WatchReport { files, lost_events, ..WatchReport::default() };
            tables(&report, true).into_iter().find(|table| table.title == "Tensors").unwrap().note
        };
        assert!(note(3).contains("recorded details") && !note(0).contains("recorded details"));
    }

    #[test]
    fn the_share_that_was_read_does_not_count_a_byte_twice() {
        assert_eq!(read_share(&tensor("a", 500)), (0.5, false));
        let touched = WatchedTensor { touched_bytes: 800, ..tensor("a", 0) };
        assert_eq!(read_share(&touched), (0.8, true));
        assert_eq!(read_share(&WatchedTensor { covered_bytes: None, ..tensor("a", 0) }), (1.0, true));
    }
}
