//! Reads lines from a child process. The length of a line is limited.

use std::io::{BufRead, BufReader, Read};

/// Maximum length of a message from a process of this program, in bytes. A frame with spans has up to 3 MB.
const LONGEST_MESSAGE: u64 = 64 << 20;

/// The lines that a process of this program writes. The iterator ends when the pipe closes, or at a line that is too
/// long or not valid UTF-8.
pub(super) fn messages(pipe: impl Read) -> impl Iterator<Item = String> {
    let mut lines = Lines::new(pipe, LONGEST_MESSAGE);
    std::iter::from_fn(move || match lines.next()? {
        Line::Complete(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        Line::TooLong => None,
    })
}

/// A line of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// The line without its line end.
    Complete(&'a [u8]),
    /// The line was longer than the limit and was skipped.
    TooLong,
}

/// Reads lines with a limited length.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    most: u64,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(pipe: R, most: u64) -> Self {
        Self { reader: BufReader::with_capacity(1 << 16, pipe), most, line: Vec::new() }
    }

    /// The next line; `None` at the end of the stream or after an error.
    pub(super) fn next(&mut self) -> Option<Line<'_>> {
        self.line.clear();
        let read = (&mut self.reader).take(self.most + 1).read_until(b'\n', &mut self.line).ok()?;
        if read == 0 {
            return None;
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read as u64 > self.most {
            self.skip()?;
            return Some(Line::TooLong);
        }
        Some(Line::Complete(&self.line))
    }

    /// Skips the rest of a line without storing it.
    fn skip(&mut self) -> Option<()> {
        loop {
            let buffer = self.reader.fill_buf().ok()?;
            let (length, over) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.reader.consume(length);
            if over {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_skipped_and_takes_no_memory() {
        let text = [b"one\n".to_vec(), vec![b'x'; 1 << 20], b"\ntwo".to_vec()].concat();
        let mut lines = Lines::new(text.as_slice(), 16);
        assert_eq!(lines.next(), Some(Line::Complete(b"one")));
        assert_eq!(lines.next(), Some(Line::TooLong));
        assert_eq!(lines.next(), Some(Line::Complete(b"two")));
        assert_eq!(lines.next(), None);
        assert!(lines.line.capacity() < 1 << 10, "{}", lines.line.capacity());
    }

    #[test]
    fn messages_end_at_a_line_that_is_not_text() {
        let read: Vec<String> = messages(b"a\nb\n\xff\nc\n".as_slice()).collect();
        assert_eq!(read, ["a", "b"]);
    }
}
