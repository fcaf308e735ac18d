//! Texts in a cufile.json: words of a list, log levels, hexadecimal numbers, paths.

use super::environment::LEVELS;
use super::known::{Known, Takes};
use super::lint::{FATAL, Linter, SILENT};
use super::syntax::{Kind, Node};
use super::types::Severity;

impl Linter<'_> {
    pub(super) fn words(&mut self, known: &Known, node: &Node) {
        let key = known.key;
        let texts = |node: &Node| match &node.kind {
            Kind::Text(text) => vec![(node.start, text.clone())],
            Kind::List(items) => items
                .iter()
                .filter_map(|item| match &item.kind {
                    Kind::Text(text) => Some((item.start, text.clone())),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        for (at, word) in texts(node) {
            match known.takes {
                Takes::Level => self.level(key, at, &word),
                Takes::Ignored(words) if !words.contains(&word.as_str()) => self.say(
                    "L11",
                    Severity::Warning,
                    at,
                    key,
                    format!("\"{word}\" is none of {}", words.join(", ")),
                    SILENT,
                    "Write one of them.",
                ),
                Takes::One(words) | Takes::Each(words) if !words.contains(&word.as_str()) => self.say(
                    "L4",
                    Severity::Error,
                    at,
                    key,
                    format!("\"{word}\" is none of {}", words.join(", ")),
                    FATAL,
                    "Write one of them.",
                ),
                Takes::Hex if !is_hex(&word) => self.say(
                    "L4",
                    Severity::Error,
                    at,
                    key,
                    format!("\"{word}\" is not a hexadecimal number of 32 bits"),
                    FATAL,
                    "Write it as \"0x1f\".",
                ),
                Takes::Folder | Takes::Paths if word.is_empty() || !(self.around.exists)(&word) => self.say(
                    "L7",
                    Severity::Error,
                    at,
                    key,
                    format!("{key} names \"{word}\", which does not exist"),
                    FATAL,
                    if known.takes == Takes::Folder {
                        format!("mkdir -p {word}, or remove the key.")
                    } else {
                        "Remove it from the list.".to_owned()
                    },
                ),
                Takes::Folder if !(self.around.is_folder)(&word) => self.say(
                    "L7",
                    Severity::Error,
                    at,
                    key,
                    format!("{key} names \"{word}\", which is not a directory"),
                    FATAL,
                    "Name a directory, or remove the key.",
                ),
                _ => {}
            }
        }
        if let (Takes::Table, Kind::Object(members)) = (known.takes, &node.kind) {
            for member in members
                .iter()
                .filter(|member| !(self.around.exists)(&member.key) || !(self.around.is_folder)(&member.key))
            {
                self.say(
                    "L7",
                    Severity::Error,
                    member.key_start,
                    key,
                    format!("{key} names the mount point \"{}\", which is not a directory", member.key),
                    FATAL,
                    "Remove it, or mount it first.",
                );
            }
        }
        self.addresses(key, node);
        if known.takes == Takes::Table {
            self.mounts(key, node);
        }
        if let (Takes::Wholes, Kind::List(items), "properties.posix_pool_slab_size_kb") = (known.takes, &node.kind, key)
        {
            for item in items {
                if let Kind::Number(n) = &item.kind
                    && n.parse::<u64>().is_ok_and(|n| n % 4 != 0)
                {
                    self.say(
                        "L6",
                        Severity::Error,
                        item.start,
                        key,
                        format!("a slab of {n} KiB is not a multiple of 4 KiB"),
                        FATAL,
                        "Write a multiple of 4.",
                    );
                }
            }
        }
    }

    fn level(&mut self, key: &str, at: usize, word: &str) {
        if !LEVELS.contains(&word) {
            let upper = word.to_ascii_uppercase();
            let todo = if LEVELS.contains(&upper.as_str()) {
                format!("Write \"{upper}\".")
            } else {
                format!("Write one of {}.", LEVELS.join(", "))
            };
            self.say(
                "L11",
                Severity::Warning,
                at,
                key,
                format!("\"{word}\" is not a log level; levels are in upper case"),
                "The library ignores it and keeps its log level.",
                todo,
            );
        } else if matches!(word, "DEBUG" | "TRACE") {
            self.say(
                "L17",
                Severity::Note,
                at,
                key,
                format!("{key} is {word}"),
                "Writing the log slows down every read and distorts measurements.",
                "Write \"ERROR\", and set CUFILE_LOGGING_LEVEL for a single run if you need a log.",
            );
        }
    }
}

/// Whether the text is a hexadecimal number of at most 32 bits for libcufile.
fn is_hex(text: &str) -> bool {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u32::from_str_radix(digits, 16).is_ok()
}
