//! The basic view models: an answer and a table.

use crate::core::Status;
use std::borrow::Cow;

/// One answer of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: Status,
    /// The answer, at most twelve words.
    pub headline: String,
    /// The conditions of the answer, in one or two sentences. May be empty.
    pub conditions: String,
}

impl Answer {
    pub(crate) fn new(status: Status, headline: impl Into<String>, conditions: impl Into<String>) -> Self {
        Self { status, headline: headline.into(), conditions: conditions.into() }
    }

    /// The answer with its conditions.
    #[must_use]
    pub fn text(&self) -> String {
        let parts = [self.headline.as_str(), self.conditions.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// The title of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The title.
    pub title: Cow<'static, str>,
    /// Whether its cells are numbers, which are aligned to the right.
    pub right: bool,
}

/// A column of text.
pub(crate) const fn text(title: &'static str) -> Head {
    Head { title: Cow::Borrowed(title), right: false }
}

/// A column of numbers.
pub(crate) const fn number(title: &'static str) -> Head {
    Head { title: Cow::Borrowed(title), right: true }
}

/// A table that is not yet rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// One or two sentences about its content.
    pub note: String,
    /// The column titles.
    pub heads: Vec<Head>,
    /// The rows. Each row has one cell per column.
    pub rows: Vec<Vec<String>>,
}

/// The cell for an unknown value.
pub const GAP: &str = "–";

/// The value, or the cell for an unknown value.
pub(super) fn or_gap(value: Option<String>) -> String {
    value.unwrap_or_else(|| GAP.to_owned())
}
