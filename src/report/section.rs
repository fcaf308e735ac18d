//! A section of a report: a title, sentences, and tables, lists or charts. Renderers know these and nothing about results.

use crate::core::{LayerTimes, PhaseTimes, Status};
use crate::present::{Head, Table};

/// A section.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    /// Its title; empty for the one that needs none.
    pub(crate) title: String,
    /// Sentences below the title, a paragraph each.
    pub(crate) text: Vec<String>,
    /// What follows.
    pub(crate) blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// A table.
    Table(Cells),
    /// Labelled facts.
    Facts(Vec<(&'static str, String)>),
    /// Sentences, an item each.
    List(Vec<String>),
    /// Items with a status, which have details.
    Items(Vec<Item>),
    /// Command lines to be typed.
    Commands(Vec<String>),
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
pub(crate) struct Cells {
    pub(crate) heads: Vec<Head>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Cells that are judgements, by row and column.
    pub(crate) statuses: Vec<(usize, usize, Status)>,
}

/// An item of a list with a status.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) status: Status,
    /// Its name, if it has one.
    pub(crate) name: String,
    pub(crate) text: String,
    /// Labelled details: `found`, `why`, `fix`.
    pub(crate) details: Vec<Detail>,
    /// Whether HTML folds its details.
    pub(crate) folded: bool,
    /// Whether only HTML shows it: passed checks need room.
    pub(crate) minor: bool,
}

/// A detail of an item.
#[derive(Clone, Debug)]
pub(crate) struct Detail {
    pub(crate) label: &'static str,
    pub(crate) text: String,
    /// Whether it is a command.
    pub(crate) command: bool,
    /// Whether a terminal leaves it out.
    pub(crate) long: bool,
}

/// A bar: a name, the number of its colour, its time, the times of the single runs, its label, and its phases.
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
    /// Ticks at powers of ten.
    Log,
    /// Ticks at powers of two, for sizes.
    Log2,
}

/// An axis: its name, its scale and the label of a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) name: &'static str,
    pub(crate) scale: Scale,
    pub(crate) tick: fn(f64) -> String,
}

/// Points of one colour.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) label: String,
    /// The number of its colour; grey without one.
    pub(crate) colour: Option<usize>,
    pub(crate) points: Vec<(f64, f64)>,
    /// A line through the points, rather than dots.
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

/// A table of rates. Its columns are in groups: each transfer has one for each number of threads.
#[derive(Clone, Debug)]
pub(crate) struct HeatTable {
    pub(crate) title: String,
    /// The title of the rows and that of the columns within a group.
    pub(crate) rows_title: &'static str,
    pub(crate) columns_title: &'static str,
    pub(crate) groups: Vec<String>,
    /// The columns of each group.
    pub(crate) columns: Vec<String>,
    /// Each row: its title, and a cell for each group and column.
    pub(crate) rows: Vec<(String, Vec<HeatCell>)>,
}

/// A cell of a heat table.
#[derive(Clone, Debug)]
pub(crate) struct HeatCell {
    pub(crate) text: String,
    /// Its place between the lowest and the highest value, 0 to 1; `None` without a value.
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
        self.blocks.push(block);
        self
    }

    /// A list; `None` if it is empty.
    pub(crate) fn list(title: &str, items: Vec<String>) -> Option<Self> {
        (!items.is_empty()).then(|| Self::new(title).block(Block::List(items)))
    }
}

impl From<Table> for Section {
    fn from(table: Table) -> Self {
        let Table { title, note, heads, rows } = table;
        Self::new(title).text(note).block(Block::Table(Cells { heads, rows, statuses: Vec::new() }))
    }
}
