//! Tests untrusted text with a hostile string in every field of every input. No output may contain a character that
//! sends commands to a terminal or changes the direction of text. No cell of a CSV file may be a formula.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod captures;
mod files;
mod formats;
mod names;
#[path = "../program/mod.rs"]
mod program;
mod recordings;
#[path = "../fuzz/seeds.rs"]
mod seeds;
#[path = "../program/spread.rs"]
mod spread;
#[path = "../fuzz/targets.rs"]
#[allow(dead_code, reason = "the mutations use the rest")]
mod targets;

/// The string contains a formula, a hidden word, a clear-screen command in one byte, characters that change the
/// direction of text, line separators, DEL, a carriage return, and a bell.
pub(crate) const HOSTILE: &str = "=1+1 \u{1b}[8mhidden\u{1b}[35m \u{9b}2J\u{2028}\u{2029}\u{202e}\u{2066}\u{61c}\u{7f}\rover\u{7} \u{1b}]0;title\u{7}";

/// A part of [`HOSTILE`] that outputs may show. It proves that the string reached the output.
pub(crate) const SHOWN: &str = "hidden";

/// Control characters, line separators, and the characters with Unicode's property `Bidi_Control`.
fn commands(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Fails if the text sends commands to a terminal. Returns whether it contains the hostile string.
pub(crate) fn plain(what: &str, text: &str) -> bool {
    if let Some(at) = text.find(commands) {
        let from = text[..at].char_indices().rev().nth(60).map_or(0, |(start, _)| start);
        let to = text[at..].char_indices().nth(30).map_or(text.len(), |(end, _)| at + end);
        panic!("{what}: {:?}", &text[from..to]);
    }
    text.contains(SHOWN)
}

/// Like [`plain`], for text with the colours of the program.
pub(crate) fn coloured(what: &str, text: &str) -> bool {
    let mut text = text.to_owned();
    for code in ["0", "1", "2", "31", "32", "33", "34", "36"] {
        text = text.replace(&format!("\u{1b}[{code}m"), "");
    }
    plain(what, &text)
}

/// Like [`plain`], for CSV, in which no cell may be a formula.
pub(crate) fn csv(what: &str, text: &str) -> bool {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    for row in reader.records() {
        for cell in &row.unwrap() {
            let formula = cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err();
            assert!(!formula, "{what}: {cell:?} is a formula");
        }
    }
    plain(what, &text.replace("\r\n", "\n"))
}

/// The content of all files of an export.
pub(crate) fn exported(what: &str, folder: &std::path::Path) -> Vec<String> {
    let mut arrived = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let what = format!("{what}: {name}");
        if if name.ends_with(".csv") { csv(&what, &text) } else { plain(&what, &text) } {
            arrived.push(name);
        }
    }
    arrived
}

/// Checks standard output and standard error of the program. Returns whether they contain the hostile string.
pub(crate) fn run(arguments: &[&str]) -> bool {
    let out = program::gds_top().args(arguments).stdin(std::process::Stdio::null()).output().unwrap();
    let what = format!("gds-top {}", arguments.join(" "));
    let shown = |bytes: &[u8]| plain(&what, std::str::from_utf8(bytes).unwrap());
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!error.contains("panicked"), "{what}: {error}");
    // Both streams must be checked, so `|` is used instead of `||`.
    shown(&out.stdout) | shown(&out.stderr)
}
