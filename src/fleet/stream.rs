//! Splits a text into its JSON documents, so that only one of them is in memory.

use std::io::{self, Read};

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// A document, or the rest of a text that is not JSON.
pub(super) struct Document<'a> {
    pub(super) text: &'a [u8],
    /// The JSON values in it, or a few more. A value without content takes two bytes of a text and up to 100 of memory,
    /// so the size of a text does not limit the memory that its values take.
    pub(super) values: u64,
}

/// Calls `each` with the documents of a text in order, until it returns false.
///
/// # Errors
/// When the text cannot be read, or a document has more than `largest` bytes.
pub(super) fn for_each(
    mut text: impl Read,
    largest: usize,
    mut each: impl FnMut(&Document<'_>) -> bool,
) -> io::Result<()> {
    let mut buffer: Vec<u8> = Vec::new();
    let mut begin = 0;
    let mut scan = Scan::default();
    loop {
        while let Some(length) = scan.end(buffer.get(begin..).unwrap_or_default()) {
            let document = buffer.get(begin..begin + length).unwrap_or_default();
            if !document.trim_ascii().is_empty() && !each(&Document { text: document, values: scan.values }) {
                return Ok(());
            }
            begin += length;
            scan = Scan::default();
        }
        buffer.drain(..begin);
        begin = 0;
        if buffer.len() > largest {
            return Err(io::Error::other(format!("a document has more than {largest} bytes")));
        }
        if text.by_ref().take(CHUNK as u64).read_to_end(&mut buffer)? == 0 {
            if !buffer.trim_ascii().is_empty() {
                each(&Document { text: &buffer, values: scan.values });
            }
            return Ok(());
        }
    }
}

/// The search for the end of a document. It continues at the same byte if more bytes arrive.
#[derive(Default)]
struct Scan {
    at: usize,
    depth: usize,
    in_string: bool,
    after_backslash: bool,
    values: u64,
}

impl Scan {
    /// The length of the document, if its end is known. A line that is neither an object nor an array is one document.
    fn end(&mut self, text: &[u8]) -> Option<usize> {
        for (at, byte) in text.iter().enumerate().skip(self.at) {
            self.at = at + 1;
            if self.in_string {
                match byte {
                    _ if self.after_backslash => self.after_backslash = false,
                    b'\\' => self.after_backslash = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b',' => self.values += 1,
                b'{' | b'[' => {
                    self.depth += 1;
                    self.values += 1;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(self.at);
                    }
                }
                b'\n' if self.depth == 0 => return Some(self.at),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A reader that gives one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let (Some(slot), Some((first, rest))) = (out.first_mut(), self.0.split_first()) else { return Ok(0) };
            *slot = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn split(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        let keep = |document: &Document<'_>| {
            all.push(String::from_utf8_lossy(document.text).trim().to_owned());
            true
        };
        for_each(Drops(text.as_bytes()), 1 << 20, keep).unwrap();
        all
    }

    #[test]
    fn documents_end_at_their_brackets_and_not_at_brackets_in_strings() {
        assert_eq!(split(r#" {"a":"}\"]"} [1,{"b":[]}]{}"#), [r#"{"a":"}\"]"}"#, r#"[1,{"b":[]}]"#, "{}"]);
        assert_eq!(split("garbage\n{\"a\":1}\n\n{\"b"), ["garbage", "{\"a\":1}", "{\"b"]);
        assert_eq!(split("\n \n"), Vec::<String>::new());
    }

    #[test]
    fn a_document_above_the_limit_is_refused_and_many_small_ones_are_not() {
        let many = "{\"a\":1}\n".repeat(100_000);
        let mut count = 0;
        for_each(many.as_bytes(), 1 << 10, |_| {
            count += 1;
            true
        })
        .unwrap();
        assert_eq!(count, 100_000);
        let large = format!("[{}", "1,".repeat(400_000));
        assert!(for_each(large.as_bytes(), 1 << 10, |_| true).is_err());
    }

    #[test]
    fn values_are_counted_for_each_document() {
        let mut values = Vec::new();
        for_each(&b"[[],[],[]]{}"[..], 1 << 10, |document| {
            values.push(document.values);
            true
        })
        .unwrap();
        assert_eq!(values, [6, 1]);
    }
}
