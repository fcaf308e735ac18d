//! The heights of the panes if they are in one column.

/// Minimum height of the rate in lines, with its frame.
const LEAST_CHART: u16 = 7;
/// Minimum height of the threads or the files in lines, with their frame.
const LEAST_LIST: u16 = 4;
/// Minimum height of the latencies in lines, with their frame.
const LEAST_LATENCIES: u16 = 5;
/// The index of the threads in the order in which panes grow.
const THREADS: usize = 2;

/// The lines that the panes can use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// The latencies, with their frame.
    pub(super) latencies: u16,
    /// Whether latencies are known. Otherwise their pane has the reason.
    pub(super) has_latencies: bool,
    pub(super) threads: u16,
    pub(super) files: u16,
    /// The text with the newest rates. It is shown if the chart has no space. 0 if there are no rates.
    pub(super) newest: u16,
}

/// The heights of the panes in lines; 0 for a pane without space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heights {
    pub(super) newest: u16,
    /// The line that names the panes without space.
    pub(super) names: u16,
    pub(super) rate: u16,
    pub(super) latencies: u16,
    pub(super) threads: u16,
    pub(super) files: u16,
}

impl Heights {
    /// The heights in `room` lines. Threads and files are the most useful panes: they show what the program does now and
    /// what it has read. Latencies are before the chart of rates, because a line can show the newest rates.
    pub(super) fn new(room: u16, needs: Needs) -> Self {
        let spare = room.saturating_sub(2 * LEAST_LIST);
        let least = LEAST_LATENCIES.min(needs.latencies);
        let has_latencies = match needs.has_latencies {
            true => spare >= least + needs.newest,
            false => spare >= least + LEAST_CHART,
        };
        let left = spare - if has_latencies { least } else { 0 };
        let mut names = u16::from(needs.has_latencies && !has_latencies);
        let has_rate = left >= LEAST_CHART + names;
        let has_newest = !has_rate && needs.newest > 0 && left >= needs.newest + names;
        names = names.max(u16::from(!has_rate && !has_newest));
        let newest = if has_newest { needs.newest } else { 0 };
        let rate = if has_rate { LEAST_CHART } else { 0 };
        let latencies = if has_latencies { least } else { 0 };
        let lists = room.saturating_sub(newest + names + rate + latencies);
        let threads = LEAST_LIST.min(lists / 2);
        let files = LEAST_LIST.min(lists - threads);
        let mut all = Self { newest, names, rate, latencies, threads, files };
        all.grow(lists - threads - files, needs);
        all
    }

    /// Gives the lines to the panes that can use them, one after another. Without space for the chart of rates, further
    /// threads get lines last: sizes and files say more.
    fn grow(&mut self, mut lines: u16, needs: Needs) {
        while lines > 0 {
            let before = lines;
            let has_rate = self.rate > 0;
            let panes = [
                (&mut self.latencies, needs.latencies),
                (&mut self.files, needs.files),
                (&mut self.threads, needs.threads),
                (&mut self.rate, u16::MAX),
            ];
            for (pane, (height, need)) in panes.into_iter().enumerate() {
                let waits = pane == THREADS && !has_rate && lines < before;
                // A pane without space gets no line.
                if lines > 0 && *height > 0 && *height < need && !waits {
                    *height += 1;
                    lines -= 1;
                }
            }
            if lines == before && !has_rate {
                self.files += lines;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: Needs = Needs { latencies: 8, has_latencies: true, threads: 5, files: 9, newest: 1 };

    fn sum(of: Heights) -> u16 {
        of.newest + of.names + of.rate + of.latencies + of.threads + of.files
    }

    #[test]
    fn the_panes_fill_the_column() {
        for room in 0..80 {
            for has_latencies in [false, true] {
                for (newest, threads) in [(0, 4), (1, 5), (2, 70)] {
                    let heights = Heights::new(room, Needs { has_latencies, threads, newest, ..NEEDS });
                    assert!(sum(heights) == room || room == 0, "{room}: {heights:?}");
                }
            }
        }
    }

    #[test]
    fn sizes_and_files_get_lines_before_further_threads() {
        let heights = Heights::new(17, Needs { threads: 10, ..NEEDS });
        assert_eq!((heights.latencies, heights.files, heights.threads, heights.rate), (7, 5, 4, 0));
        let heights = Heights::new(40, Needs { threads: 10, ..NEEDS });
        assert!(heights.rate > 0 && heights.threads > LEAST_LIST, "{heights:?}");
    }

    #[test]
    fn latencies_are_kept_before_the_chart_of_rates() {
        let heights = Heights::new(15, NEEDS);
        assert_eq!((heights.newest, heights.names, heights.rate), (1, 0, 0));
        assert!(heights.latencies >= 5 && heights.threads >= 4 && heights.files >= 4, "{heights:?}");
        let heights = Heights::new(22, NEEDS);
        assert!(heights.rate >= LEAST_CHART && heights.latencies >= 5 && heights.names == 0, "{heights:?}");
        // In a small terminal, a line names them.
        let heights = Heights::new(12, NEEDS);
        assert_eq!((heights.newest, heights.names, heights.latencies), (1, 1, 0));
        // Without latencies, the chart is more useful than the reason.
        let heights = Heights::new(16, Needs { has_latencies: false, latencies: 4, ..NEEDS });
        assert_eq!((heights.names, heights.rate, heights.latencies), (0, 7, 0));
    }
}
