//! Tests every format that strangers write: an example of the format is taken apart, and the string is put into each
//! value, key, word and line. The examples are those of the mutations in `tests/fuzz`.

use crate::{HOSTILE, csv, plain};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// The commands that read a format, with FILE for its file. They are run in a directory with that file only.
struct Reads {
    file: &'static str,
    commands: &'static [&'static [&'static str]],
}

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/recordings/h200-io.gdsrec");
const SHARD: &str = "model-00001-of-00002.safetensors";

/// The commands for a format of `tests/fuzz`. `None` for formats that other tests of this program cover, or that are
/// not text.
fn reads(format: &str) -> Option<Reads> {
    let (file, commands): (_, &[&[&str]]) = match format {
        "safetensors-header" => ("header.json", &[&["inspect", "model.safetensors"]]),
        "safetensors-index" => ("model.safetensors.index.json", &[&["inspect", "FILE"]]),
        "cufile-json" => (
            "cufile.json",
            &[&["config", "lint", "FILE"], &["config", "show", "FILE"], &["config", "diff", "FILE", "--json"]],
        ),
        "settings" => ("config.toml", &[&["config", "diff", "--config", "FILE"]]),
        "theme" => ("theme.toml", &[&["config", "diff", "--config", "settings.toml"]]),
        "fleet-report" => (
            "report.json",
            &[&["report", RECORDING, "--baseline", "FILE"], &["inspect", "qwen3-0.6b", "--predict", "--from", "FILE"]],
        ),
        "kv-shape" => {
            ("shape.json", &[&["bench-kv", "ucm", ".", "--shape", "FILE", "--target", "host", "--tokens", "1"]])
        }
        "kv-store" => ("config.json", &[&["inspect", "."]]),
        "serving-config" => (
            "serving",
            &[
                &["check", "--no-probe", "--for", "lmcache", "FILE"],
                &["check", "--no-probe", "--json", "--for", "nixl", "FILE"],
                &["check", "--no-probe", "--for", "llmd", "FILE"],
            ],
        ),
        "logs" => ("log", &[&["explain", "-"]]),
        // `recordings.rs` and `captures.rs` plant in each of their fields, and `files.rs` in the lines of commands.
        "recording" | "recording-file" | "run-frames" | "capture-archive" | "capture-tar" | "capture-folder"
        | "line-protocol" => return None,
        // Names of files and of processes are the only text in them, see `names.rs`.
        "audit-ring" | "probe-hits" | "mapped-library" | "kv-chunk" => return None,
        other => panic!("{other} has no commands"),
    };
    Some(Reads { file, commands })
}

/// The string before and after a text.
fn planted(text: &str) -> [String; 2] {
    [format!("{HOSTILE}{text}"), format!("{text}{HOSTILE}")]
}

/// Copies of a JSON value, each with the string in one place. Entries of a list have the same place.
fn in_json(value: &Value) -> Vec<String> {
    fn walk(
        value: &Value,
        path: &mut Vec<String>,
        places: &mut BTreeSet<String>,
        found: &mut Vec<(Vec<String>, bool)>,
    ) {
        let shape: Vec<&str> =
            path.iter().map(|part| if part.parse::<usize>().is_ok() { "*" } else { part.as_str() }).collect();
        if !matches!(value, Value::Null) && places.insert(shape.join("/")) {
            found.push((path.clone(), false));
            found.push((path.clone(), true));
        }
        let members: Vec<(String, &Value)> = match value {
            Value::Array(list) => list.iter().take(3).enumerate().map(|(n, entry)| (n.to_string(), entry)).collect(),
            Value::Object(map) => map.iter().map(|(key, entry)| (key.clone(), entry)).collect(),
            _ => Vec::new(),
        };
        for (name, entry) in members {
            path.push(name);
            walk(entry, path, places, found);
            path.pop();
        }
    }
    let (mut places, mut found) = (BTreeSet::new(), Vec::new());
    walk(value, &mut Vec::new(), &mut places, &mut found);
    let mut all = Vec::new();
    for (path, is_key) in found {
        let pointer = |path: &[String]| {
            path.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect::<String>()
        };
        let Some((last, above)) = path.split_last() else { continue };
        for before in [0, 1] {
            let mut copy = value.clone();
            match (copy.pointer_mut(&pointer(above)), is_key) {
                (Some(Value::Object(map)), true) => {
                    let moved = map.remove(last).unwrap();
                    map.insert(planted(last)[before].clone(), moved);
                }
                (Some(_), false) => {
                    let place = copy.pointer_mut(&pointer(&path)).unwrap();
                    *place = Value::String(planted(place.as_str().unwrap_or_default())[before].clone());
                }
                _ => continue,
            }
            all.push(copy.to_string());
        }
    }
    all
}

/// Copies of a text, each with the string at one word or as one line.
fn in_text(text: &str) -> Vec<String> {
    let is_word = |c: char| !c.is_whitespace() && !"=:\"',[]{}".contains(c);
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(from) = text[at..].find(is_word).map(|found| at + found) {
        let to = text[from..].find(|c| !is_word(c)).map_or(text.len(), |length| from + length);
        all.extend(planted(&text[from..to]).map(|word| format!("{}{word}{}", &text[..from], &text[to..])));
        at = to;
    }
    all.push(format!("{HOSTILE}\n{text}"));
    all
}

/// The planted copies of an example. A comment in a cufile.json makes it a text.
fn copies(example: &str) -> Vec<String> {
    serde_json::from_str::<Value>(example).map_or_else(|_| in_text(example), |value| in_json(&value))
}

fn escaped(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii() && !c.is_ascii_control();
    text.chars().map(|c| if is_plain(c) { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }).collect()
}

fn run(folder: &Path, words: &[&str], file: &str, text: &str) -> bool {
    let words = words.iter().map(|word| if *word == "FILE" { file } else { word });
    let mut command = crate::program::gds_top();
    command.args(words).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The command may not read its input.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!said.contains("panicked"), "{command:?}: {said}");
    plain(&format!("{command:?}"), &String::from_utf8(out.stdout).unwrap()) | plain(&format!("{command:?}"), &said)
}

#[test]
fn no_field_of_any_format_commands_a_terminal() {
    crate::spread::spread(crate::targets::TARGETS, |target| {
        let Some(Reads { file, commands }) = reads(target.name) else { return };
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("settings.toml"), "theme = \"theme.toml\"\n").unwrap();
        let (mut tried, mut arrived) = (0, 0);
        for example in crate::seeds::of(target.name) {
            let Ok(example) = String::from_utf8(example) else { continue };
            // Large examples repeat their fields.
            if example.len() > 64 << 10 && target.name != "fleet-report" {
                continue;
            }
            let all = copies(&example);
            // At most 40 copies of an example are read.
            let step = all.len().div_ceil(40).max(1);
            for text in all.iter().step_by(step) {
                // TOML allows control characters in escaped form only.
                let is_toml = file.ends_with(".toml");
                let text = &if is_toml { text.replace(HOSTILE, &escaped(HOSTILE)) } else { text.clone() };
                fs::write(at(file), text).unwrap();
                if target.name == "safetensors-header" {
                    let length = (text.len() as u64).to_le_bytes();
                    fs::write(at("model.safetensors"), [&length, text.as_bytes(), &[0; 68]].concat()).unwrap();
                }
                if target.name == "safetensors-index" {
                    fs::write(at(SHARD), "x").unwrap();
                }
                for words in commands {
                    arrived += usize::from(run(folder.path(), words, file, text));
                    tried += 1;
                }
            }
        }
        // The text of a KV store is compared with known words and never shown.
        let is_shown = arrived > 0 || target.name == "kv-store";
        assert!(tried >= 5 && is_shown, "{}: the string arrived in {arrived} of {tried} outputs", target.name);
    });
}

/// All planted copies of a report are one fleet, so each output has all of them.
#[test]
fn no_field_of_a_node_commands_a_terminal_or_is_a_formula() {
    let folder = tempfile::tempdir().unwrap();
    let example = String::from_utf8(crate::seeds::of("fleet-report").pop().unwrap()).unwrap();
    let all = copies(&example);
    assert!(all.len() > 300, "{}", all.len());
    // A version that is not known is an error for the complete fleet.
    let is_report = |text: &&String| serde_json::from_str::<Value>(text).unwrap()["schema_version"].is_number();
    for (number, text) in all.iter().filter(is_report).enumerate() {
        fs::write(folder.path().join(format!("{number}.json")), text).unwrap();
    }
    crate::spread::spread(&["text", "html", "json", "csv"], |&format| {
        let out = crate::program::gds_top().args(["fleet", "--format", format]).arg(folder.path()).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let arrived = if format == "csv" { csv(format, &text) } else { plain(format, &text) };
        assert!(arrived, "{format}: {}", String::from_utf8_lossy(&out.stderr));
        plain(format, &String::from_utf8(out.stderr).unwrap());
    });
}
