//! Tests all string literals, comments and documents for constructions that read like a translation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use regex::{Regex, RegexSet};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A forbidden construction, and the plain words to use instead.
const FORBIDDEN: &[(&str, &str)] = &[
    (r"\b(is|are|was|were) no\b( longer| more than| less than| later than| different)?", "'is not a', 'there is no'"),
    (r"\b([Tt]ells?|[Tt]old|[Tt]elling)\b", "shows, reports, lists"),
    (r"\b(stands|stood|standing)\b( in for)?|\bstand (in|on|at|there|below|above|next)\b", "is in, is"),
    (r"\b(lies|lay)\b|\blie (in|on|under|behind|below|above|apart|at|there|between|next)\b", "is in, is"),
    (r"(?i)\bmend(s|ed|ing|able)?\b", "fix, fixed"),
    (r"(?i)\bbesides?\b", "next to, compared with"),
    (r"\bof (its|their|our|your|his|her|one's) own\b", "custom, separate"),
    (r"(?i)\b(anew|in turn|at hand)\b", "again, alternating, available"),
    (r"(?i)(\bas a )?\bwholes?\b( number)?", "complete, all of"),
    (r"(?i)\b(nobody|whoever|whomever|everybody|somebody|anybody|whom|somebody's|nobody's)\b", "name the thing"),
    (r"(?i)\bunder way\b", "running"),
    (r"\b(does|do) not mind\b|\bminds\b", "is not affected"),
    (r"\b(the|a|this|each|its|other|every) (room|house|door)s?\b", "the module, the code base, the command line"),
    (
        r"(^|[.;:!?] +)Where (there|a|an|the|it|that|no|nothing|this|one|both|all|each|any|they|some|its|his|several|neither|only|not|such)\b",
        "if, when",
    ),
    (
        r"(, |; | )where (there is|there are|it is|it has|it can|nothing|no |one is|they are|none|it was|neither|that is|that leaves)",
        "if, when",
    ),
    (r"(^|[.;:!?] +|, (and|but|or) |[;,] )([Ww]hat|[Ww]ho|[Ww]hose) [a-z]+ ", "name the thing"),
    (r"\b(of|to|for|by|with|than|on|from|against|behind|before|after) (what|who|whose)\b", "name the thing"),
    (r"(?i)\bbears?\b", "supports, accepts"),
    (r"\b(can|could|may|cannot) (not )?be had\b|\bto be had\b", "is available"),
    (r"\bcosts? (a|each|every) (tensor|load|run)\b|\bwhat (looking|it) costs\b", "overhead per tensor"),
    (
        r"\bfor want of\b|\bis wanting\b|\bas to\b|\bin so far\b|\bof itself\b|\bsays so\b|\bthe one of\b",
        "say it plainly",
    ),
    (r"(?i)\b(ways?) (of|to) (a byte|load|loading)\b|\bgo(es)? another way\b|\btook another way\b", "paths, methods"),
];

/// Maximum number of matches per thousand texts of a directory. A few matches are allowed, because a pattern also
/// matches some plain sentences.
const TOLERATED: usize = 3;

/// The directories with Rust sources.
const FOLDERS: [&str; 7] = ["src", "cufile-ffi", "nixl-ffi", "cufile-audit", "tests", "benches", "examples"];

/// A string literal or a comment block, with the line on which it starts.
struct Text {
    line: usize,
    text: String,
}

/// The string literals and comments of a Rust source. The lines of a comment block are joined.
fn texts(source: &str) -> Vec<Text> {
    let bytes = source.as_bytes();
    let mut out: Vec<Text> = Vec::new();
    let (mut at, mut line) = (0, 1);
    // The line after the last comment, if only spaces may follow it.
    let mut block_continues_on = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        if bytes[at] == b'\n' {
            line += 1;
            at += 1;
        } else if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            let text = rest[..end].trim_start_matches(['/', '!']).trim();
            let alone = source[..at].rsplit('\n').next().is_some_and(|before| before.trim().is_empty());
            match out.last_mut() {
                Some(last) if alone && block_continues_on == line => {
                    last.text.push(' ');
                    last.text.push_str(text);
                }
                _ => out.push(Text { line, text: text.to_owned() }),
            }
            block_continues_on = line + 1;
            at += end;
        } else if let Some(hashes) = raw_string(source, at) {
            let start = at + rest.find('"').unwrap() + 1;
            let close = format!("\"{}", "#".repeat(hashes));
            let length = source[start..].find(&close).unwrap();
            let text = &source[start..start + length];
            out.push(Text { line, text: text.to_owned() });
            line += text.matches('\n').count();
            at = start + length + close.len();
        } else if bytes[at] == b'"' {
            let mut end = at + 1;
            while bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            let text = &source[at + 1..end];
            out.push(Text { line, text: unfolded(text) });
            line += text.matches('\n').count();
            at = end + 1;
        } else if bytes[at] == b'\'' {
            at += char_literal(rest);
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    out
}

/// The paragraphs, list items, headings and table cells of a Markdown page, without code blocks.
fn paragraphs(page: &str) -> Vec<Text> {
    let mut out: Vec<Text> = Vec::new();
    let (mut in_code, mut joins) = (false, false);
    for (number, line) in page.lines().enumerate() {
        let (line_number, text) = (number + 1, line.trim());
        if text.starts_with("```") {
            in_code = !in_code;
        }
        if in_code || text.is_empty() || text.starts_with("```") {
            joins = false;
        } else if text.starts_with('|') {
            let cells = text.split('|').map(str::trim).filter(|cell| !cell.is_empty());
            out.extend(cells.map(|cell| Text { line: line_number, text: cell.to_owned() }));
            joins = false;
        } else if text.starts_with(['#', '-']) || !joins {
            out.push(Text { line: line_number, text: text.trim_start_matches(['#', '-', ' ']).to_owned() });
            joins = !text.starts_with('#');
        } else if let Some(last) = out.last_mut() {
            last.text.push(' ');
            last.text.push_str(text);
        }
    }
    out
}

/// The number of `#` of a raw string that starts here.
fn raw_string(source: &str, at: usize) -> Option<usize> {
    let before = source[..at].chars().next_back();
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let rest = source[at..].strip_prefix('b').unwrap_or(&source[at..]).strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// The length of a character literal or a lifetime's quote.
fn char_literal(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(1, |end| end + 4),
        Some((_, c)) if rest[1 + c.len_utf8()..].starts_with('\'') => 2 + c.len_utf8(),
        _ => 1,
    }
}

/// A string literal without the line breaks after trailing backslashes.
fn unfolded(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or("").to_owned();
    lines.fold(first, |joined, line| joined + line.trim_start())
}

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            out.push(path);
        }
    }
}

/// The directory of a file: `src/tui/app.rs` belongs to `src/tui`, and `tests/pty/main.rs` to `tests`.
fn folder_of(path: &Path) -> String {
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    match parts.as_slice() {
        [src, folder, _, ..] if src == "src" => format!("src/{folder}"),
        [page] if page.ends_with(".md") => "docs".to_owned(),
        [first, ..] => first.clone(),
        [] => String::new(),
    }
}

/// Phrases in plain English that a forbidden pattern also matches.
fn is_allowed(text: &str, start: usize, found: &str) -> bool {
    let before = text[..start].trim_end();
    let is_question = || {
        let rest = &text[start..];
        let end = rest[1..].find(['.', '?', '!']).map_or(rest.len(), |end| end + 1);
        rest[end..].starts_with('?')
    };
    let negation = found.contains(" no");
    let idiom =
        [" number", "as a whole", " longer", " more than", " less than", " later than", " different", " in for"];
    (negation && (before.ends_with("here") || before.ends_with("Here")))
        || idiom.iter().any(|end| found.ends_with(end))
        || (found.trim_start_matches([' ', '.', ';', ':', ',']).to_lowercase().starts_with("wh") && is_question())
}

#[test]
fn strings_and_comments_are_plain_english() {
    let set = RegexSet::new(FORBIDDEN.iter().map(|(pattern, _)| pattern)).unwrap();
    let each: Vec<Regex> = FORBIDDEN.iter().map(|(pattern, _)| Regex::new(pattern).unwrap()).collect();
    let mut files = Vec::new();
    for folder in FOLDERS {
        if Path::new(folder).is_dir() {
            sources(Path::new(folder), &mut files);
        }
    }
    files.retain(|path| !path.ends_with("house_style.rs"));
    let pages = fs::read_dir("docs").unwrap().map(|entry| entry.unwrap().path());
    files.extend(pages.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    files.extend(["README.md", "CONTRIBUTING.md"].map(PathBuf::from));
    files.sort();
    let mut by_folder: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for path in &files {
        let entry = by_folder.entry(folder_of(path)).or_default();
        let source = fs::read_to_string(path).unwrap();
        let is_page = path.extension().is_some_and(|ending| ending == "md");
        for text in if is_page { paragraphs(&source) } else { texts(&source) } {
            if text.text.split_whitespace().nth(2).is_none() {
                continue;
            }
            entry.0 += 1;
            let found = set.matches(&text.text).into_iter().find_map(|at| {
                let hit = each[at].find_iter(&text.text).find(|m| !is_allowed(&text.text, m.start(), m.as_str()))?;
                Some((hit.as_str().trim().to_owned(), FORBIDDEN[at].1))
            });
            if let Some((words, instead)) = found {
                entry.1.push(format!("{}:{}: '{words}' (write: {instead}): {}", path.display(), text.line, text.text));
            }
        }
    }
    let shown = std::env::var("GDS_TOP_HOUSE_STYLE").unwrap_or_default();
    let mut over = Vec::new();
    for (folder, (count, hits)) in &by_folder {
        if !shown.is_empty() && (shown == "all" || folder.starts_with(&shown)) {
            println!("{}\n{folder}: {} of {count} texts", hits.join("\n"), hits.len());
        }
        if hits.len() * 1000 > count * TOLERATED {
            over.push(format!("{folder}: {} of {count} texts:\n{}", hits.len(), hits.join("\n")));
        }
    }
    assert!(
        over.is_empty(),
        "GDS_TOP_HOUSE_STYLE=FOLDER cargo test --test house_style -- --nocapture lists them all\n{}",
        over.join("\n")
    );
}

#[test]
fn the_reader_of_sources_sees_strings_and_comments_and_nothing_else() {
    let source = "//! One\n//! block.\nlet a = 'x'; let b: &'static str = \"two \\\n    words\"; // three\nlet c = r#\"raw \"text\"\"#;\n";
    let found: Vec<(usize, String)> = texts(source).into_iter().map(|t| (t.line, t.text)).collect();
    let expected = [(1, "One block."), (3, "two words"), (4, "three"), (5, "raw \"text\"")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn plain_english_passes_and_its_translation_does_not() {
    let set = RegexSet::new(FORBIDDEN.iter().map(|(pattern, _)| pattern)).unwrap();
    for text in [
        "DIR is no directory",
        "which is told by the log",
        "What is given back when the clock stopped",
        "Where nothing is set, the default counts",
        "it lies in memory",
        "a thread of its own",
        "the race is under way",
        "a fix that mends it",
    ] {
        assert!(set.is_match(text), "{text}");
    }
    for text in
        ["DIR is not a directory", "the log shows it", "If nothing is set, the default is used", "it is in memory"]
    {
        assert!(!set.is_match(text), "{text}");
    }
}

#[test]
fn the_reader_of_pages_joins_lines_and_leaves_out_code() {
    let page = "# One title\n\nTwo\nlines.\n- three\n  more\n| four | five |\n|---|---|\n```sh\nsix\n```\n";
    let found: Vec<(usize, String)> = paragraphs(page).into_iter().map(|t| (t.line, t.text)).collect();
    let expected =
        [(1, "One title"), (3, "Two lines."), (5, "three more"), (7, "four"), (7, "five"), (8, "---"), (8, "---")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
}
