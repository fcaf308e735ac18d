//! The JSON dialect of libcufile, with positions. Comments are skipped, and text after the first value is ignored.
//!
//! The rules were found by opening libcufile 1.14 to 1.20 with 120 test files.

use serde_json::{Map, Number, Value};

/// The maximum nesting depth. Real files are less deep, and a malicious file must not exhaust the stack.
const MAX_DEPTH: usize = 100;

/// The maximum number of values. Real files have about a hundred, and some rules compare all values of a list.
const MOST_VALUES: usize = 30_000;

/// The maximum number of listed errors.
const MOST_PASSED: usize = 50;

const BYTE_ORDER_MARK: (&str, &str) = ("the file begins with a byte order mark", "Save it as UTF-8 without one.");
const BEHIND_COMMA: &str = "Remove the comma before it: none is allowed after the last element.";

/// A value and its byte range.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The kind of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    /// A number as it is written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

/// One member of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) key_start: usize,
    pub(crate) value: Node,
}

/// A complete file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    pub(crate) top: Node,
    /// The start of the text after the first value, which the library ignores.
    pub(crate) rest: Option<usize>,
}

/// Why the text cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Byte offset.
    pub(crate) at: usize,
    pub(crate) what: String,
    pub(crate) todo: String,
}

impl Node {
    pub(crate) fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }

    /// The member with this name. If there are several, the last one is in effect.
    pub(crate) fn member(&self, key: &str) -> Option<&Member> {
        self.members().iter().rev().find(|member| member.key == key)
    }

    /// The node of a dotted key.
    pub(crate) fn at(&self, dotted: &str) -> Option<&Self> {
        dotted.split('.').try_fold(self, |node, part| node.member(part).map(|member| &member.value))
    }

    /// The plain value. Numbers that JSON does not allow become text.
    pub(crate) fn value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(on) => Value::Bool(*on),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::Number(text) => number(text).map_or_else(|| Value::String(text.clone()), Value::Number),
            Kind::List(items) => Value::Array(items.iter().map(Self::value).collect()),
            Kind::Object(members) => {
                Value::Object(members.iter().map(|m| (m.key.clone(), m.value.value())).collect::<Map<_, _>>())
            }
        }
    }

    /// The kind of the value, in words.
    pub(crate) fn words(&self) -> String {
        match &self.kind {
            Kind::Null => "null".to_owned(),
            Kind::Bool(on) => on.to_string(),
            Kind::Number(text) => text.clone(),
            Kind::Text(text) => format!("the text \"{text}\""),
            Kind::List(_) => "a list".to_owned(),
            Kind::Object(_) => "an object in braces".to_owned(),
        }
    }
}

fn number(text: &str) -> Option<Number> {
    if let Ok(n) = text.parse::<u64>() {
        return Some(n.into());
    }
    if let Ok(n) = text.parse::<i64>() {
        return Some(n.into());
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

/// The line and the column of a byte offset. Both count from 1, and columns are characters.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

/// Parses a file as libcufile does.
pub(crate) fn parse(text: &str) -> Result<Document, Mistake> {
    Reader { text, bytes: text.as_bytes(), at: 0, values: 0, passed: None }.document()
}

/// Parses a file that libcufile rejects, as far as possible. Returns all errors in order, and the content without
/// them. Parsing can stop at the last error.
pub(crate) fn parse_on(text: &str) -> (Option<Document>, Vec<Mistake>) {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, values: 0, passed: Some(Vec::new()) };
    let document = reader.document();
    let mut mistakes = reader.passed.unwrap_or_default();
    match document {
        Ok(document) => (Some(document), mistakes),
        Err(last) => {
            mistakes.push(last);
            (None, mistakes)
        }
    }
}

/// The name of the encoding for iconv, if a text is UTF-16. Its bytes were read as UTF-8, with U+FFFD for invalid ones.
fn utf_16(text: &str) -> Option<&'static str> {
    let mut start = text.chars();
    match (start.next()?, start.next()?) {
        // The byte order mark is removed by this name only.
        ('\u{fffd}', '\u{fffd}') if text.contains('\0') => Some("UTF-16"),
        ('\0', second) if second != '\0' => Some("UTF-16BE"),
        (first, '\0') if first != '\0' => Some("UTF-16LE"),
        _ => None,
    }
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// The number of values so far.
    values: usize,
    /// The errors so far. `None` if parsing stops at the first error.
    passed: Option<Vec<Mistake>>,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Document, Mistake> {
        let text = self.text;
        if let Some(encoding) = utf_16(text) {
            let todo = format!("Save it as UTF-8: iconv -f {encoding} -t UTF-8 OLD > NEW.");
            return self.wrong(0, "the file is UTF-16, but libcufile reads only UTF-8", todo);
        }
        if let Some(rest) = text.strip_prefix('\u{feff}').filter(|_| self.passed.is_some()) {
            self.forgive(0, BYTE_ORDER_MARK.0, BYTE_ORDER_MARK.1)?;
            self.at = text.len() - rest.len();
        }
        let top = self.value(0)?;
        let after = self.at;
        // The rest of the text has no errors, because libcufile ignores it.
        let passed = self.passed.take();
        let rest = match self.blanks() {
            Ok(()) => (self.at < text.len()).then_some(self.at),
            Err(_) => Some(after),
        };
        self.passed = passed;
        Ok(Document { top, rest })
    }

    /// Records an error, or returns it if parsing stops at the first error.
    fn forgive(&mut self, at: usize, what: &str, todo: &str) -> Result<(), Mistake> {
        let mistake = Mistake { at, what: what.to_owned(), todo: todo.to_owned() };
        match &mut self.passed {
            Some(passed) if passed.len() < MOST_PASSED => {
                passed.push(mistake);
                Ok(())
            }
            _ => Err(mistake),
        }
    }

    fn wrong<T>(&self, at: usize, what: impl Into<String>, todo: impl Into<String>) -> Result<T, Mistake> {
        Err(Mistake { at: at.min(self.text.len()), what: what.into(), todo: todo.into() })
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) -> Result<(), Mistake> {
        loop {
            match (self.peek(), self.bytes.get(self.at + 1)) {
                (Some(b' ' | b'\t' | b'\r' | b'\n'), _) => self.at += 1,
                (Some(b'/'), Some(b'/')) => {
                    let end = self.text[self.at..].find('\n');
                    self.at = end.map_or(self.text.len(), |end| self.at + end);
                }
                (Some(b'/'), Some(b'*')) => match self.text[self.at + 2..].find("*/") {
                    Some(end) => self.at += end + 4,
                    None => return self.wrong(self.at, "a comment '/*' is never closed", "Close it by '*/'."),
                },
                (Some(b'#'), _) => {
                    let todo = "Write '//' instead, or remove the line.";
                    self.forgive(self.at, "'#' does not begin a comment", todo)?;
                    let end = self.text[self.at..].find('\n');
                    self.at = end.map_or(self.text.len(), |end| self.at + end);
                }
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Mistake> {
        self.blanks()?;
        if depth > MAX_DEPTH {
            return self.wrong(
                self.at,
                format!("nested deeper than {MAX_DEPTH} levels"),
                "No key of cufile.json is that deep.",
            );
        }
        self.values += 1;
        if self.values > MOST_VALUES {
            return self.wrong(
                self.at,
                format!("more than {MOST_VALUES} values"),
                "No cufile.json needs that many; this is probably the file of another program.",
            );
        }
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Kind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Node { kind, start, end: self.at })
    }

    fn word(&mut self) -> Result<Kind, Mistake> {
        for (word, kind) in [("true", Kind::Bool(true)), ("false", Kind::Bool(false)), ("null", Kind::Null)] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(kind);
            }
        }
        let Some(next) = self.text[self.at..].chars().next() else {
            return if self.text.trim().is_empty() {
                self.wrong(0, "the file is empty", "Write at least {} into it, or remove the file.")
            } else {
                self.wrong(
                    self.at,
                    "the file ends, but a value is expected",
                    "Complete the file, which may be truncated.",
                )
            };
        };
        match next {
            '\'' => {
                self.forgive(self.at, "text in single quotes", "Use double quotes.")?;
                self.string().map(Kind::Text)
            }
            '}' | ']' => self.wrong(self.at, format!("found '{next}', but a value is expected"), BEHIND_COMMA),
            '\u{feff}' => self.wrong(self.at, BYTE_ORDER_MARK.0, BYTE_ORDER_MARK.1),
            _ => {
                let word: String = self.text[self.at..].chars().take_while(|c| c.is_alphanumeric()).take(20).collect();
                let word = if word.is_empty() { next.to_string() } else { word };
                self.wrong(
                    self.at,
                    format!("'{word}' is not a value"),
                    "Values are true, false, null, a number, \"text\", [a list] or {an object}.",
                )
            }
        }
    }

    /// Leading zeros are accepted, as in the library.
    fn number(&mut self) -> Result<Kind, Mistake> {
        let start = self.at;
        let part = |c: &u8| c.is_ascii_digit() || matches!(c, b'-' | b'+' | b'.' | b'e' | b'E');
        self.at += self.bytes[start..].iter().take_while(|c| part(c)).count();
        let text = &self.text[start..self.at];
        if text.parse::<f64>().is_err() {
            return self.wrong(start, format!("'{text}' is not a number"), "Write digits only.");
        }
        Ok(Kind::Number(text.to_owned()))
    }

    fn string(&mut self) -> Result<String, Mistake> {
        let start = self.at;
        let quote = char::from(self.bytes[start]);
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(c) = self.text[self.at..].chars().next() else {
                return self.wrong(start, "text without a closing quote", "Close it by '\"'.");
            };
            self.at += c.len_utf8();
            match c {
                c if c == quote => return Ok(out),
                '\\' => out.push(self.escape()?),
                // The library accepts line breaks and tabs in text.
                c => out.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Mistake> {
        let at = self.at - 1;
        let Some(c) = self.text[self.at..].chars().next() else {
            return self.wrong(at, "the file ends in the middle of text", "Complete it.");
        };
        self.at += c.len_utf8();
        Ok(match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let code = self.text.get(self.at..self.at + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                let Some(code) = code else {
                    return self.wrong(at, "'\\u' needs four hexadecimal digits", "Write the character itself.");
                };
                self.at += 4;
                // Half of a surrogate pair is not a character. No key or path of cufile.json needs one.
                char::from_u32(code).unwrap_or('\u{fffd}')
            }
            _ => return self.wrong(at, format!("'\\{c}' is not an escape"), "Double the backslash, if you need one."),
        })
    }

    fn list(&mut self, depth: usize) -> Result<Kind, Mistake> {
        let start = self.at;
        self.at += 1;
        let mut items = Vec::new();
        self.blanks()?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Kind::List(items));
        }
        loop {
            if !items.is_empty() {
                self.blanks()?;
                if self.peek() == Some(b']') {
                    self.forgive(self.at, "found ']', but a value is expected", BEHIND_COMMA)?;
                    self.at += 1;
                    return Ok(Kind::List(items));
                }
            }
            items.push(self.value(depth + 1)?);
            if self.comma(b']', start)? {
                return Ok(Kind::List(items));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Kind, Mistake> {
        let start = self.at;
        self.at += 1;
        let mut members = Vec::new();
        self.blanks()?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Object(members));
        }
        loop {
            self.blanks()?;
            let key_start = self.at;
            match self.peek() {
                Some(b'"') => {}
                Some(b'}') => {
                    let todo = "Remove the comma: none is allowed after the last key.";
                    self.forgive(key_start, "there is a comma before this '}'", todo)?;
                    self.at += 1;
                    return Ok(Kind::Object(members));
                }
                Some(b'\'') => self.forgive(key_start, "a key in single quotes", "Use double quotes.")?,
                None => return self.wrong(start, "this '{' is never closed", "Close it by '}'."),
                Some(_) => {
                    return self.wrong(
                        key_start,
                        "a key in double quotes is expected",
                        "Keys look like \"properties\":.",
                    );
                }
            }
            let key = self.string()?;
            self.blanks()?;
            if self.peek() != Some(b':') {
                return self.wrong(
                    self.at,
                    format!("':' is missing after the key \"{key}\""),
                    "Write ':' and the value.",
                );
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            members.push(Member { key, key_start, value });
            if self.comma(b'}', start)? {
                return Ok(Kind::Object(members));
            }
        }
    }

    /// Parses the text between two elements. Returns whether the list or object has ended.
    fn comma(&mut self, end: u8, start: usize) -> Result<bool, Mistake> {
        self.blanks()?;
        let open = self.bytes[start] as char;
        let close = end as char;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(true)
            }
            None => self.wrong(start, format!("this '{open}' is never closed"), format!("Close it by '{close}'.")),
            Some(next) => {
                let (what, todo) = (
                    format!("',' or '{close}' is expected here"),
                    "Put a comma between elements, possibly at the end of the previous line.",
                );
                // A missing comma is assumed only in front of an element.
                if !matches!(next, b'"' | b'{' | b'[') {
                    return self.wrong(self.at, what, todo);
                }
                self.forgive(self.at, &what, todo)?;
                Ok(false)
            }
        }
    }
}
