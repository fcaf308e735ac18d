//! The order of the tensors that a watched program read. It is computed when the report or the choice changes, and not
//! in every frame.

use crate::core::{WatchReport, WatchedFile, WatchedTensor};
use crate::present::watch::{TENSOR_FILE, TENSOR_HEADS, is_complete_tensor, read_rate, tensor_count};
use crate::tui::pen::width;
use std::cmp::Reverse;

/// The order of each column of [`TENSOR_HEADS`].
const ORDERS: [&str; TENSOR_HEADS.len()] = [
    "name",
    "incomplete first",
    "file and offset",
    "size",
    "number of reads",
    "bytes read",
    "time of reads",
    "rate, slowest first",
];

/// The inputs from which an order is computed: the time and the number of tensors of the report, the end of the program,
/// and the choice.
type Key = (u64, usize, bool, usize, bool, String);

/// The order of the tensors, and their names' widths.
#[derive(Debug)]
pub(super) struct WatchedOrder {
    /// The index of the column by which the tensors are sorted.
    pub(super) sort: usize,
    /// The shown tensors as indices of the file and of its tensor.
    pub(super) order: Vec<(usize, usize)>,
    /// Width of the longest name in columns.
    pub(super) longest_name: u16,
    /// The number of files with tensors that were read.
    pub(super) files: usize,
    key: Option<Key>,
}

impl Default for WatchedOrder {
    fn default() -> Self {
        Self { sort: TENSOR_FILE, order: Vec::new(), longest_name: 0, files: 0, key: None }
    }
}

impl WatchedOrder {
    pub(super) fn sort_by_next(&mut self) {
        self.sort = (self.sort + 1) % ORDERS.len();
    }

    /// The order in words.
    pub(super) fn word(&self) -> &'static str {
        ORDERS.get(self.sort).copied().unwrap_or_default()
    }

    /// A shown tensor with its file.
    pub(super) fn tensor<'r>(
        &self,
        report: &'r WatchReport,
        at: usize,
    ) -> Option<(&'r WatchedFile, &'r WatchedTensor)> {
        let (file, tensor) = self.order.get(at)?;
        let file = report.files.get(*file)?;
        Some((file, file.tensors.get(*tensor)?))
    }

    pub(super) fn prepare(&mut self, report: &WatchReport, filter: &str, reversed: bool) {
        let count = tensor_count(report);
        let filter = filter.to_lowercase();
        let key = (report.wall_ns, count, report.ended.is_some(), self.sort, reversed, filter);
        if self.key.as_ref() == Some(&key) {
            return;
        }
        let filter = &key.5;
        let contains = |text: &str| text.to_lowercase().contains(filter);
        // Tensors without a rate are last.
        let rate = |tensor: &WatchedTensor| read_rate(tensor).unwrap_or(f64::INFINITY);
        let mut all: Vec<(usize, usize, &WatchedTensor)> = Vec::with_capacity(count);
        for (at, file) in report.files.iter().enumerate() {
            let is_all = filter.is_empty() || contains(&file.path);
            let tensors = file.tensors.iter().enumerate();
            let found = tensors.filter(|(_, tensor)| is_all || contains(&tensor.name));
            all.extend(found.map(|(number, tensor)| (at, number, tensor)));
        }
        match self.sort {
            0 => all.sort_by(|(.., a), (.., b)| a.name.cmp(&b.name)),
            1 => all.sort_by_key(|(.., tensor)| match is_complete_tensor(tensor) {
                Some(false) => 0,
                None => 1,
                Some(true) => 2,
            }),
            3 => all.sort_by_key(|(.., tensor)| Reverse(tensor.size)),
            4 => all.sort_by_key(|(.., tensor)| Reverse(tensor.reads)),
            5 => all.sort_by_key(|(.., tensor)| Reverse(tensor.bytes)),
            6 => all.sort_by_key(|(.., tensor)| Reverse(tensor.read_ns)),
            7 => all.sort_by(|(.., a), (.., b)| rate(a).total_cmp(&rate(b))),
            _ => {}
        }
        if reversed {
            all.reverse();
        }
        self.longest_name = all.iter().map(|(.., tensor)| width(&tensor.name)).max().unwrap_or(0).min(500) as u16;
        self.files = report.files.iter().filter(|file| !file.tensors.is_empty()).count();
        self.order = all.into_iter().map(|(file, tensor, _)| (file, tensor)).collect();
        self.key = Some(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{PlainReads, Route, RouteProof, Transfers};

    fn report() -> WatchReport {
        let tensor = |name: &str, size, covered, read_ns| WatchedTensor {
            name: name.to_owned(),
            size,
            reads: 1,
            bytes: size,
            touched_bytes: 0,
            covered_bytes: Some(covered),
            read_ns,
        };
        let file = |path: &str, tensors: Vec<WatchedTensor>| WatchedFile {
            path: path.to_owned(),
            route: Route::None,
            proven: false,
            proof: RouteProof::Nothing,
            reads: Transfers::default(),
            writes: Transfers::default(),
            registrations: 1,
            failed_registrations: 0,
            o_direct: None,
            tensors_of_file: 2,
            tensors,
            tensors_unknown: None,
            kv: None,
            plain: PlainReads::default(),
            cached_fraction: None,
        };
        let files = vec![
            file("/one", vec![tensor("c", 8, 8, None), tensor("a", 32, 16, Some(40))]),
            file("/two", vec![tensor("b.Weight", 16, 16, Some(30))]),
        ];
        WatchReport { files, ..WatchReport::default() }
    }

    fn names(sort: usize, filter: &str, reversed: bool) -> String {
        let report = report();
        let mut order = WatchedOrder { sort, ..WatchedOrder::default() };
        order.prepare(&report, filter, reversed);
        let names = (0..order.order.len()).filter_map(|at| Some(order.tensor(&report, at)?.1.name.as_str()));
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_tensors_are_sorted_by_the_chosen_column() {
        assert_eq!(names(TENSOR_FILE, "", false), "c a b.Weight");
        assert_eq!(names(0, "", false), "a b.Weight c");
        assert_eq!(names(1, "", false), "a c b.Weight");
        assert_eq!(names(3, "", false), "a b.Weight c");
        assert_eq!(names(3, "", true), "c b.Weight a");
        assert_eq!((names(6, "", false), names(7, "", false)), ("a b.Weight c".to_owned(), "b.Weight a c".to_owned()));
    }

    #[test]
    fn the_filter_finds_tensors_by_their_name_and_by_their_file() {
        assert_eq!(names(TENSOR_FILE, "weight", false), "b.Weight");
        assert_eq!(names(TENSOR_FILE, "/ONE", false), "c a");
        assert_eq!(names(TENSOR_FILE, "nothing", false), "");
    }
}
