//! A section of a report: a title, sentences, and tables, lists or charts. Renderers know these and nothing about results.

use crate::domain::{LayerTimes, PhaseTimes, Status};
use crate::present::{Head, Table};

/// A section.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    /// Its title; empty for the one that needs none.
    pub(super) title: String,
    /// Sentences below the title, a paragraph each.
    pub(super) text: Vec<String>,
    /// What follows.
    pub(super) blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Clone, Debug)]
pub(super) enum Block {
    /// A table.
    Table(Cells),
    /// Labelled facts.
    Facts(Vec<(&'static str, String)>),
    /// Sentences, an item each.
    List(Vec<String>),
    /// Items with a status, which have details.
    Items(Vec<Item>),
    /// Bars of time, split into phases. Only HTML draws them.
    Bars(Vec<Bar>),
    /// Lines or dots on two axes. Only HTML draws them.
    Chart(Chart),
    /// Tables of rates whose cells are coloured by their value.
    Heat(Vec<HeatTable>),
    /// Loading and computing of layers over time. Only HTML draws them.
    Layers(String, Vec<LayerTimes>),
}

/// A table without its title.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    pub(super) heads: Vec<Head>,
    pub(super) rows: Vec<Vec<String>>,
    /// Cells that are judgements, by row and column.
    pub(super) statuses: Vec<(usize, usize, Status)>,
}

/// An item of a list with a status.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) status: Status,
    /// Its name, if it has one.
    pub(super) name: String,
    pub(super) text: String,
    /// Labelled details: `found`, `why`, `fix`.
    pub(super) details: Vec<Detail>,
    /// Whether HTML folds its details.
    pub(super) folded: bool,
    /// Whether only HTML shows it: passed checks need room.
    pub(super) minor: bool,
}

/// A detail of an item.
#[derive(Clone, Debug)]
pub(super) struct Detail {
    pub(super) label: &'static str,
    pub(super) text: String,
    /// Whether it is a command.
    pub(super) command: bool,
    /// Whether a terminal leaves it out.
    pub(super) long: bool,
}

/// A bar: a name, the number of its colour, its time, its label, and its phases.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) wall_ns: u64,
    pub(super) note: String,
    pub(super) phases: PhaseTimes,
}

/// How an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Log,
}

/// An axis: its name, its scale and the label of a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) scale: Scale,
    pub(super) tick: fn(f64) -> String,
}

/// Points of one colour.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) label: String,
    /// The number of its colour; grey without one.
    pub(super) colour: Option<usize>,
    pub(super) points: Vec<(f64, f64)>,
    /// A line through the points, rather than dots.
    pub(super) line: bool,
    pub(super) dashed: bool,
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) caption: String,
    pub(super) series: Vec<Series>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) height: f64,
}

/// A table of rates. Its columns are in groups: each transfer has one for each number of threads.
#[derive(Clone, Debug)]
pub(super) struct HeatTable {
    pub(super) title: String,
    /// The title of the rows and that of the columns within a group.
    pub(super) rows_title: &'static str,
    pub(super) columns_title: &'static str,
    pub(super) groups: Vec<String>,
    /// The columns of each group.
    pub(super) columns: Vec<String>,
    /// Each row: its title, and a cell for each group and column.
    pub(super) rows: Vec<(String, Vec<HeatCell>)>,
}

/// A cell of a heat table.
#[derive(Clone, Debug)]
pub(super) struct HeatCell {
    pub(super) text: String,
    /// Its place between the lowest and the highest value, 0 to 1; `None` without a value.
    pub(super) warmth: Option<f64>,
    pub(super) tooltip: String,
}

impl Section {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    pub(super) fn text(mut self, text: impl Into<String>) -> Self {
        self.text.push(text.into());
        self
    }

    pub(super) fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    /// A list; `None` if it is empty.
    pub(super) fn list(title: &str, items: Vec<String>) -> Option<Self> {
        (!items.is_empty()).then(|| Self::new(title).block(Block::List(items)))
    }
}

impl From<Table> for Section {
    fn from(table: Table) -> Self {
        let Table { title, note, heads, rows } = table;
        Self::new(title).text(note).block(Block::Table(Cells { heads, rows, statuses: Vec::new() }))
    }
}
