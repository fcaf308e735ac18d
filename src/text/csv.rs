//! Writes rows of CSV (RFC 4180). A spreadsheet shows the cells as text and does not evaluate them as formulas.

use super::sanitise::{sanitise_name, visible};
use csv::{Terminator, Writer, WriterBuilder};
use std::borrow::Cow;
use std::io::{self, Write};

/// A writer for rows. Cells can contain untrusted text: names of files, models and tensors, and error messages of
/// other programs.
pub struct CsvRows<W: Write>(Writer<W>);

impl<W: Write> CsvRows<W> {
    /// Creates a writer. Rows can have different lengths and end with CR LF.
    pub fn new(out: W) -> Self {
        Self(WriterBuilder::new().terminator(Terminator::CRLF).flexible(true).from_writer(out))
    }

    /// Writes one row.
    ///
    /// # Errors
    /// Returns the error of the underlying writer.
    pub fn put<T: AsRef<str>>(&mut self, cells: &[T]) -> io::Result<()> {
        for cell in cells {
            self.0.write_field(csv_cell(cell.as_ref()).as_bytes())?;
        }
        Ok(self.0.write_record(None::<&[u8]>)?)
    }

    /// Flushes the buffered rows.
    ///
    /// # Errors
    /// Returns the error of the underlying writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Sanitised text for one cell, on one line. A spreadsheet evaluates a cell that starts like a formula, and a formula
/// can send data to another machine. So an apostrophe is added before such text. Numbers are kept, because `-1.5` is
/// not a formula.
#[must_use]
pub fn csv_cell(text: &str) -> Cow<'_, str> {
    let clean = sanitise_name(text);
    let is_space = |c: char| c.is_whitespace() || ['\t', '\n', '\r'].map(visible).contains(&c);
    // The last four characters are full-width forms. Some spreadsheets treat them like the normal ones.
    let is_formula = clean
        .trim_start_matches(is_space)
        .starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    if is_formula && clean.parse::<f64>().is_err() { Cow::Owned(format!("'{clean}")) } else { clean }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_text_and_a_number_stays_a_number() {
        for formula in
            ["=1+1", "+1+1", "-2+3", "@SUM(A1)", " =1", "\t=1", "\n=1", "\u{ff1d}1", "=HYPERLINK(\"http://x\")"]
        {
            assert!(csv_cell(formula).starts_with('\''), "{formula:?}");
        }
        for text in ["", "12", "-1.5", "+3", "1e-9", "mmap", "a=b", "x-y"] {
            assert_eq!(csv_cell(text), text);
        }
        assert_eq!(csv_cell("a\u{1b}[31m\u{202e}b\nc"), "a\u{fffd}[31m\u{fffd}b␊c");
    }

    #[test]
    fn rows_are_quoted_as_rfc_4180_wants_and_may_differ_in_length() {
        let mut out = Vec::new();
        let mut rows = CsvRows::new(&mut out);
        rows.put(&["a", "b,c"]).unwrap();
        rows.put(&["\"x\"", "", "-1"]).unwrap();
        rows.put(&[""]).unwrap();
        rows.flush().unwrap();
        drop(rows);
        assert_eq!(String::from_utf8(out).unwrap(), "a,\"b,c\"\r\n\"\"\"x\"\"\",,-1\r\n\"\"\r\n");
    }
}
