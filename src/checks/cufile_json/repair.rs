//! Repairs a cufile.json that libcufile rejects, if the intended value is clear. The rest of the text is unchanged.

use super::edit::set_keys;
use super::known::{Takes, known};
use super::lint::{self, Linter, Surroundings};
use super::meant::{fitting, from_bytes};
use super::syntax::{self, Kind, place};
use super::types::Problem;
use crate::machine::Root;
use serde_json::Value;

/// The maximum number of repairs of one file. Files written by hand have fewer errors.
const MOST: usize = 200;

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The text after the repairs.
    pub text: String,
    /// The changes, each as a phrase with its line number.
    pub done: Vec<String>,
    /// The errors that the user must decide, one sentence each.
    pub left: Vec<String>,
}

/// Repairs the errors that make libcufile reject a file: commas, comments with '#', quotes, a byte order mark, wrong
/// types, and numbers outside of their range, which are replaced by the nearest allowed number. Unknown keys and
/// words are not changed.
#[must_use]
pub fn repair(root: &Root, text: &str) -> Repaired {
    let facts = root.libcufile();
    // The first set of rules applies to all releases, as in the check cfg-parse. The second set applies to the
    // installed release.
    let around = [
        Surroundings {
            version: facts.version_numbers(),
            ranges: &facts.ranges,
            exists: &|_| true,
            is_folder: &|_| true,
        },
        Surroundings {
            version: None,
            ranges: &Value::Null,
            exists: &|path| !root.is_live() || root.exists(path),
            is_folder: &|_| true,
        },
    ];
    let mut out = Repaired { text: text.to_owned(), ..Repaired::default() };
    for _ in 0..MOST {
        let next = match syntax::parse(&out.text) {
            Err(mistake) => {
                spelling(&out.text, mistake.at).filter(|(repaired, _)| is_further(repaired, &out.text, mistake.at))
            }
            Ok(_) => errors(&out.text, &around)
                .into_iter()
                .find_map(|(problem, which)| value(&out.text, &problem, &around[which])),
        };
        let Some((repaired, what)) = next else { break };
        out.text = repaired;
        out.done.push(what);
    }
    out.left = errors(&out.text, &around)
        .into_iter()
        .map(|(p, _)| format!("line {}, column {}: {}. {}", p.line, p.column, p.what, p.todo))
        .collect();
    out.left.dedup();
    out
}

/// The errors of a text, each with the index of its rules. The errors for the installed release are first.
fn errors(text: &str, around: &[Surroundings<'_>; 2]) -> Vec<(Problem, usize)> {
    let mut out: Vec<(Problem, usize)> = Vec::new();
    for (which, around) in around.iter().enumerate() {
        for problem in lint::errors(text, around) {
            let is_new = !out.iter().any(|(known, _)| (known.line, known.column) == (problem.line, problem.column));
            if is_new {
                out.push((problem, which));
            }
        }
    }
    out
}

/// Whether a repair removed the error. A repair can also just move it.
fn is_further(repaired: &str, before: &str, at: usize) -> bool {
    let grown = repaired.len().saturating_sub(before.len());
    syntax::parse(repaired).map_or_else(|mistake| mistake.at > at + grown, |_| true)
}

/// Whether a text consists of spaces and comments only.
fn is_blank(text: &str) -> bool {
    syntax::parse(&format!("{text}0")).is_ok_and(|document| document.top.start == text.len())
}

fn splice(text: &str, start: usize, end: usize, with: &str) -> String {
    format!("{}{with}{}", &text[..start], &text[end..])
}

/// The repair of a syntax error, and its description.
fn spelling(text: &str, at: usize) -> Option<(String, String)> {
    let line = place(text, at).0;
    let say = |what: &str| format!("line {line}: {what}");
    if text.trim().is_empty() {
        return Some(("{\n}\n".to_owned(), say("the empty file gets an empty object")));
    }
    let rest = &text[at..];
    match rest.chars().next()? {
        '#' => Some((splice(text, at, at + 1, "//"), say("'#' becomes '//'"))),
        mark @ '\u{feff}' => Some((splice(text, at, at + mark.len_utf8(), ""), say("the byte order mark is removed"))),
        '\'' => {
            let inner = rest[1..].split(['\'', '\n']).next()?;
            let closed = rest[1 + inner.len()..].starts_with('\'');
            (closed && !inner.contains(['"', '\\'])).then(|| {
                (
                    splice(text, at, at + inner.len() + 2, &format!("\"{inner}\"")),
                    say("single quotes become double ones"),
                )
            })
        }
        // Word processors and web pages replace straight quotes.
        mark @ '\u{201c}'..='\u{201f}' => {
            let is_mark = |c: char| matches!(c, '"' | '\u{201c}'..='\u{201f}');
            let start = at + mark.len_utf8();
            let inner = text[start..].split(|c: char| c == '\n' || is_mark(c)).next()?;
            let end = start + inner.len();
            let close = text[end..].chars().next().filter(|c| is_mark(*c))?;
            (!inner.contains('\\')).then(|| {
                (
                    splice(text, at, end + close.len_utf8(), &format!("\"{inner}\"")),
                    say("typographic quotes become straight ones"),
                )
            })
        }
        '}' | ']' => {
            let comma =
                text[..at].rmatch_indices(',').map(|(comma, _)| comma).find(|comma| is_blank(&text[comma + 1..at]))?;
            Some((splice(text, comma, comma + 1, ""), say("the comma after the last element is removed")))
        }
        '"' | '{' | '[' => {
            // A comma is missing between elements on separate lines.
            let end = text[..at].trim_end().len();
            let own_line = text[end..at].contains('\n');
            let behind = text[..end].chars().next_back()?;
            (own_line && (behind.is_alphanumeric() || matches!(behind, '"' | '}' | ']')))
                .then(|| (splice(text, end, end, ","), say("a comma between two elements")))
        }
        _ => None,
    }
}

/// The repair of a rejected value, and its description.
fn value(text: &str, problem: &Problem, around: &Surroundings<'_>) -> Option<(String, String)> {
    let key = problem.key.as_deref()?;
    let known = known(key)?;
    let document = syntax::parse(text).ok()?;
    let say = |value: &str| format!("line {}: {key} becomes {value}", problem.line);
    match problem.rule.as_str() {
        "L5" => {
            let direct = document.top.at("properties.max_direct_io_size_kb").and_then(super::together::number)?;
            let value = direct.to_string();
            Some((set_keys(text, &[(key, &value)]).ok()?, say(&value)))
        }
        "L3" => {
            let node = document.top.at(key)?;
            let value = fitting(known, node)?;
            Some((splice(text, node.start, node.end, &value), say(&value)))
        }
        "L4" => {
            let node = document.top.at(key)?;
            let (Takes::Whole(low, high, multiple), Kind::Number(written)) = (known.takes, &node.kind) else {
                return None;
            };
            let number = written.parse::<f64>().ok()?.trunc();
            let (low, high, _) = Linter::new(text, around).limits(known, low, high);
            // The cast from a float saturates.
            let near = (number as u64).clamp(low, high.max(low));
            let step = multiple.max(1);
            let nearest = (near / step * step).max(low.next_multiple_of(step));
            let in_bytes = from_bytes(known, number).filter(|(meant, _)| number > high as f64 && *meant <= high);
            let value = in_bytes.map_or(nearest, |(meant, _)| meant).to_string();
            Some((splice(text, node.start, node.end, &value), say(&value)))
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn nowhere() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("files")).unwrap();
        let root = Root::folder(folder.path()).unwrap();
        (folder, root)
    }

    #[test]
    fn repair_corrects_obvious_mistakes_only() {
        let (_keep, root) = nowhere();
        for (before, after) in [
            ("", "{\n}\n"),
            ("\u{feff}{}\n", "{}\n"),
            ("# ours\n{ }\n", "// ours\n{ }\n"),
            ("{ 'properties': {} }", "{ \"properties\": {} }"),
            ("{ “properties”: {} }", "{ \"properties\": {} }"),
            ("{ „logging“: { “level”: “ERROR\" } }", "{ \"logging\": { \"level\": \"ERROR\" } }"),
            ("{\n \"a\": [1, 2, ], // x, y\n}\n", "{\n \"a\": [1, 2 ] // x, y\n}\n"),
            (
                "{\n \"properties\": { \"allow_compat_mode\": true, /* a, b */ },\n}\n",
                "{\n \"properties\": { \"allow_compat_mode\": true /* a, b */ }\n}\n",
            ),
            (
                "{ \"properties\": { \"allow_compat_mode\": \"False\", \"io_batchsize\": 512 } }",
                "{ \"properties\": { \"allow_compat_mode\": false, \"io_batchsize\": 256 } }",
            ),
            (
                "{\"properties\":{\"max_direct_io_size_kb\":1100, \"per_buffer_cache_size_kb\": 2048}}",
                "{\"properties\":{\"max_direct_io_size_kb\":1088, \"per_buffer_cache_size_kb\": 1088}}",
            ),
            (
                "{\"properties\":{\"max_direct_io_size_kb\":\"2M\", \"per_buffer_cache_size_kb\": 1048576}}",
                "{\"properties\":{\"max_direct_io_size_kb\":2048, \"per_buffer_cache_size_kb\": 1024}}",
            ),
            (
                "{\n \"logging\": { \"level\": \"ERROR\" }\n \"properties\": {}\n}",
                "{\n \"logging\": { \"level\": \"ERROR\" },\n \"properties\": {}\n}",
            ),
        ] {
            let repaired = repair(&root, before);
            assert_eq!(repaired.text, after);
            assert!(repaired.left.is_empty() && !repaired.done.is_empty(), "{repaired:?}");
            assert_eq!(repair(&root, after).done, Vec::<String>::new(), "a good file is left alone");
        }
    }

    #[test]
    fn an_unusual_value_is_kept_and_its_place_reported() {
        let (_keep, root) = nowhere();
        for text in [
            "{ \"properties\": { \"rdma_peer_type\": \"x\" } }",
            "{ \"properties\": { \"posix_pool_slab_size_kb\": [4, 8], \"posix_pool_slab_count\": [1] } }",
            "{ \"properties\": { \"allow_compat_mode\": maybe } }",
            "{ \"properties\": { ",
            "[]",
            "{ \"a\": 'x\"y' }",
        ] {
            let repaired = repair(&root, text);
            assert!(repaired.left[0].starts_with("line 1, column"), "{repaired:?}");
        }
        // A slash inside a string is not a comment, and no comma is inserted into the string.
        let text = "{ \"a\": \"http://x\"\n \"b\": 1 }";
        assert_eq!(repair(&root, text).text, "{ \"a\": \"http://x\",\n \"b\": 1 }");
    }

    proptest::proptest! {
        #[test]
        fn every_text_is_handled_and_repaired_text_is_accepted(text in "[{}\\[\\]\",:#'a1/* \\n]{0,40}") {
            let (_keep, root) = nowhere();
            let repaired = repair(&root, &text);
            if repaired.left.is_empty() {
                proptest::prop_assert!(syntax::parse(&repaired.text).is_ok());
            }
        }
    }

    /// Each of these files took half a minute or more without a limit.
    #[test]
    fn a_file_with_thousands_of_values_or_problems_takes_little_time() {
        let many = |number: usize, one: &dyn Fn(usize) -> String| (0..number).map(one).collect::<Vec<_>>().join(",");
        let table = many(3_000, &|n| format!("\"{n}\":{{\"rdma_dev_addr_list\":[1]}}"));
        let wrong = many(200, &|n| format!("\"{}{n}\":1", "k".repeat(70)));
        let texts = [
            format!("{{\"fs\":{{\"lustre\":{{\"mount_table\":{{{table}}}}}}}}}"),
            format!("{{\"denylist\":{{\"mounts\":[{}]}}}}", many(29_000, &|n| format!("\"/{n}\""))),
            format!(
                "{{{wrong},\"properties\":{{\"io_batchsize\":\"x\"}},{}}}",
                many(300, &|_| "\"logging\":{\"level\":5}".to_owned())
            ),
        ];
        let (_keep, root) = nowhere();
        let began = std::time::Instant::now();
        for text in &texts {
            let around = Surroundings { version: None, ranges: &Value::Null, exists: &|_| true, is_folder: &|_| true };
            let problems = lint::lint(text, &around).1;
            assert!(problems.len() < 400, "{} problems", problems.len());
            let _ = repair(&root, text);
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
    }
}
