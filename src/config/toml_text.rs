//! Parses TOML and reports each error with file and line.

use crate::core::nearest::hint;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its position in the file.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// A text and the file that contains it.
#[derive(Clone, Debug)]
pub(super) struct Text<'t> {
    path: PathBuf,
    text: &'t str,
}

impl<'t> Text<'t> {
    pub(super) fn new(path: &Path, text: &'t str) -> Self {
        Self { path: path.to_owned(), text }
    }

    /// The complete document as a table.
    pub(super) fn parse(&self) -> Result<DeTable<'t>, String> {
        DeTable::parse(self.text).map(Spanned::into_inner).map_err(|error| {
            let said = error.message().trim_end_matches('.').replace('\n', ", ");
            self.wrong(&error.span().unwrap_or(0..0), &format!("this is not TOML: {said}"))
        })
    }

    /// `FILE:LINE` of a position.
    pub(super) fn place(&self, at: &Range<usize>) -> String {
        let line = self.text.as_bytes().iter().take(at.start).filter(|byte| **byte == b'\n').count() + 1;
        format!("{}:{line}", self.path.display())
    }

    /// An error message with file and line.
    pub(super) fn wrong(&self, at: &Range<usize>, sentence: &str) -> String {
        format!("{}: {sentence}", self.place(at))
    }

    /// The error message for an unknown name.
    pub(super) fn unknown(&self, at: &Range<usize>, name: &str, what: &str, known: &[&str]) -> String {
        self.wrong(at, &format!("'{name}' is not a {what}{}", hint(name, known)))
    }

    /// The error message for a value of the wrong type.
    fn unfit(&self, value: &Value<'_>, name: &str, wanted: &str) -> String {
        let found = match value.get_ref() {
            DeValue::String(text) => format!("the text \"{text}\""),
            DeValue::Integer(number) => format!("the number {}", number.as_str()),
            DeValue::Float(number) => format!("the number {}", number.as_str()),
            DeValue::Boolean(value) => format!("{value}"),
            DeValue::Datetime(_) => "a date".to_owned(),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        self.wrong(&value.span(), &format!("{name} takes {wanted}, not {found}"))
    }

    pub(super) fn text_of<'v>(&self, value: &'v Value<'_>, name: &str, wanted: &str) -> Result<&'v str, String> {
        value.get_ref().as_str().ok_or_else(|| self.unfit(value, name, wanted))
    }

    pub(super) fn flag(&self, value: &Value<'_>, name: &str) -> Result<bool, String> {
        value.get_ref().as_bool().ok_or_else(|| self.unfit(value, name, "true or false"))
    }

    /// Parses an integer in a range.
    pub(super) fn number(&self, value: &Value<'_>, name: &str, range: Range<u32>) -> Result<u32, String> {
        let number = value.get_ref().as_integer().and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok());
        number.filter(|n| range.contains(n)).ok_or_else(|| {
            self.unfit(value, name, &format!("an integer from {} to {}", range.start, range.end.saturating_sub(1)))
        })
    }

    /// Parses a string or a list of strings. Each has its position.
    pub(super) fn texts<'v>(
        &self,
        value: &'v Value<'_>,
        name: &str,
        wanted: &str,
    ) -> Result<Vec<(&'v str, Range<usize>)>, String> {
        match value.get_ref() {
            DeValue::Array(list) => {
                list.iter().map(|item| Ok((self.text_of(item, name, wanted)?, item.span()))).collect()
            }
            _ => Ok(vec![(self.text_of(value, name, wanted)?, value.span())]),
        }
    }

    pub(super) fn table<'v>(&self, value: &'v Value<'t>, name: &str) -> Result<&'v DeTable<'t>, String> {
        value.get_ref().as_table().ok_or_else(|| self.unfit(value, name, "a table"))
    }
}
