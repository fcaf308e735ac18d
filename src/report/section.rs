//! The sections of a report. A section has a title, sentences, and tables, lists or charts. Renderers use only these
//! types and know nothing about results.

use crate::core::{LayerTimes, PhaseTimes, Status};
use crate::present::view::GAP;
use crate::present::{Head, Table};
use crate::text::{CHANGED_IN_NAMES, sanitise_name};

/// A section of a report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    /// Its title; empty for a section without a title.
    pub(crate) title: String,
    /// Its paragraphs below the title.
    pub(crate) text: Vec<String>,
    /// Whether a page shows the section before the table of contents.
    pub(crate) leads: bool,
    /// Its blocks below the paragraphs.
    pub(crate) blocks: Vec<Block>,
}

/// A block of a section.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// A table.
    Table(Cells),
    /// A table that HTML and Markdown show when the reader opens this line. A terminal omits it.
    Folded(String, Cells),
    /// Facts with labels.
    Facts(Vec<(&'static str, String)>),
    /// A list of sentences.
    List(Vec<String>),
    /// A list of items with a status and details.
    Items(Vec<Item>),
    /// Command lines for the user.
    Commands(Vec<String>),
    /// Bars of time that are split into phases. Only HTML shows them.
    Bars(Vec<Bar>),
    /// A chart with lines or dots. Only HTML shows it.
    Chart(Chart),
    /// Tables of rates with coloured cells.
    HeatMap(Vec<HeatTable>),
    /// Loading and computing of layers over time. Only HTML shows them.
    Layers(String, Vec<LayerTimes>),
}

impl Block {
    /// Makes line ends and tabs in cells and facts visible: each of them is one line in every format.
    fn on_lines(mut self) -> Self {
        let clean = |text: &mut String| {
            if text.contains(CHANGED_IN_NAMES) {
                *text = sanitise_name(text).into_owned();
            }
        };
        match &mut self {
            Self::Table(cells) | Self::Folded(_, cells) => cells.rows.iter_mut().flatten().for_each(clean),
            Self::Facts(facts) => facts.iter_mut().for_each(|(_, value)| clean(value)),
            _ => {}
        }
        self
    }
}

/// A table without its title.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    pub(crate) heads: Vec<Head>,
    pub(crate) rows: Vec<Vec<String>>,
    /// The status of cells, with their row and column.
    pub(crate) statuses: Vec<(usize, usize, Status)>,
}

impl Cells {
    /// The table without columns that have a gap in each row.
    pub(crate) fn without_empty_columns(self) -> Self {
        let is_kept = |column: usize| {
            self.rows.is_empty() || self.rows.iter().any(|row| row.get(column).is_some_and(|cell| cell != GAP))
        };
        let kept: Vec<usize> = (0..self.heads.len()).filter(|column| is_kept(*column)).collect();
        let place = |column: usize| kept.iter().position(|one| *one == column);
        Self {
            heads: kept.iter().filter_map(|column| self.heads.get(*column).cloned()).collect(),
            rows: (self.rows.iter())
                .map(|row| kept.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect())
                .collect(),
            statuses: (self.statuses.iter())
                .filter_map(|(row, column, status)| Some((*row, place(*column)?, *status)))
                .collect(),
        }
    }
}

/// An item of a list with a status.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) status: Status,
    /// Its name; empty if it has none.
    pub(crate) name: String,
    pub(crate) text: String,
    /// Its details with labels such as `Found`, `Why` and `Fix`.
    pub(crate) details: Vec<Detail>,
    /// Whether HTML hides its details until they are opened.
    pub(crate) folded: bool,
    /// Whether only HTML shows it. Passed checks would take too much space elsewhere.
    pub(crate) minor: bool,
}

/// A detail of an item.
#[derive(Clone, Debug)]
pub(crate) struct Detail {
    pub(crate) label: &'static str,
    pub(crate) text: String,
    /// Whether it is a command.
    pub(crate) command: bool,
    /// Whether a terminal does not show it.
    pub(crate) long: bool,
}

/// A bar with its name, colour number, time, times of the single runs, label, and phases.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) colour: usize,
    pub(crate) wall_ns: u64,
    pub(crate) runs_ns: Vec<u64>,
    pub(crate) note: String,
    pub(crate) phases: PhaseTimes,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// A logarithmic scale with ticks at powers of ten.
    Log,
    /// A logarithmic scale with ticks at powers of two, for sizes.
    Log2,
}

/// An axis with its name, its scale and the format of its tick labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) name: &'static str,
    pub(crate) scale: Scale,
    pub(crate) tick: fn(f64) -> String,
}

/// Points with one colour.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) label: String,
    /// The colour number; `None` for grey.
    pub(crate) colour: Option<usize>,
    /// The marker of its dots, or on its line; `None` for a line without one.
    pub(crate) marker: Option<char>,
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether a line connects the points. Otherwise they are drawn as dots.
    pub(crate) line: bool,
    pub(crate) dashed: bool,
}

/// A chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) series: Vec<Series>,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) height: f64,
}

/// A table of rates. Its columns are grouped by transfer. Each group has one column for each number of threads.
#[derive(Clone, Debug)]
pub(crate) struct HeatTable {
    pub(crate) title: String,
    /// The title of the rows, and the title of the columns within a group.
    pub(crate) rows_title: &'static str,
    pub(crate) columns_title: &'static str,
    pub(crate) groups: Vec<String>,
    /// The columns of each group.
    pub(crate) columns: Vec<String>,
    /// The title of each row, and a cell for each group and column.
    pub(crate) rows: Vec<(String, Vec<HeatCell>)>,
}

/// A cell of such a table.
#[derive(Clone, Debug)]
pub(crate) struct HeatCell {
    pub(crate) text: String,
    /// The position between the lowest (0) and the highest value (1); `None` if there is no value.
    pub(crate) warmth: Option<f64>,
    pub(crate) tooltip: String,
}

impl Section {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    pub(crate) fn text(mut self, text: impl Into<String>) -> Self {
        self.text.push(text.into());
        self
    }

    pub(crate) fn block(mut self, block: Block) -> Self {
        self.blocks.push(block.on_lines());
        self
    }

    /// A section with a list; `None` if the list is empty.
    pub(crate) fn list(title: &str, items: Vec<String>) -> Option<Self> {
        (!items.is_empty()).then(|| Self::new(title).block(Block::List(items)))
    }
}

impl From<Table> for Section {
    fn from(table: Table) -> Self {
        let Table { title, note, heads, rows } = table;
        let text = if note.is_empty() { Vec::new() } else { vec![note] };
        let section = Self { text, ..Self::new(title) };
        // A table without rows adds nothing to its note.
        if rows.is_empty() { section } else { section.block(Block::Table(Cells { heads, rows, statuses: Vec::new() })) }
    }
}
