//! The linter for one cufile.json: rules L1 to L19. Each problem has its position, the reason and the remedy.

use super::environment::LEVELS;
use super::known::{Known, MISNAMED, Takes, is_section, known, minor};
use super::nearest::nearest;
use super::syntax::{self, Document, Kind, Node};
use super::types::{Problem, Severity};
use serde_json::Value;
use std::collections::HashMap;

/// What the linter knows about the machine and the library.
pub(crate) struct Surroundings<'a> {
    /// The version of the installed library.
    pub(crate) version: Option<(u32, u32)>,
    /// The ranges that the installed library reports.
    pub(crate) ranges: &'a Value,
    /// Whether a path exists. A path that cannot be read counts as existing.
    pub(crate) exists: &'a dyn Fn(&str) -> bool,
}

pub(super) struct Linter<'a> {
    pub(super) text: &'a str,
    pub(super) around: &'a Surroundings<'a>,
    pub(super) problems: Vec<Problem>,
    /// The number of ignored keys that are not listed, and the position of the first of them.
    untold: (usize, usize),
}

/// The maximum number of listed keys without effect. A file with thousands of unknown keys is not a cufile.json.
const MOST_WITHOUT_EFFECT: usize = 100;

/// Parses and lints a file. Returns the document if it could be parsed.
pub(crate) fn lint(text: &str, around: &Surroundings<'_>) -> (Option<Document>, Vec<Problem>) {
    let mut linter = Linter::new(text, around);
    // A rejected file is parsed as far as possible, so that all problems are reported at once.
    let (document, is_accepted) = match syntax::parse(text) {
        Ok(document) => (Some(document), true),
        Err(_) => {
            let (document, mistakes) = syntax::parse_on(text);
            for mistake in mistakes {
                linter.say("L2", Severity::Error, mistake.at, "", mistake.what, FATAL, mistake.todo);
            }
            (document, false)
        }
    };
    let Some(document) = document else { return (None, linter.problems) };
    linter.whole(&document);
    linter.object("", &document.top);
    linter.together(&document.top);
    let (untold, at) = linter.untold;
    if untold > 0 {
        let what = format!("{untold} more keys without effect start here");
        linter.say(
            "L9",
            Severity::Warning,
            at,
            "",
            what,
            SILENT,
            "Remove them; this may be the file of another program.",
        );
    }
    linter.problems.sort_by_key(|problem| (problem.line, problem.column));
    (is_accepted.then_some(document), linter.problems)
}

pub(super) const FATAL: &str = "libcufile rejects the file: cuFileDriverOpen fails with 5002 (-22 up to 1.18) in every program, and only standard error has the reason.";
const ABORTS: &str =
    "libcufile aborts the process here (Json::LogicError, SIGABRT): every program that opens cuFile dies.";
pub(super) const SILENT: &str = "libcufile ignores it silently.";

impl<'a> Linter<'a> {
    pub(super) fn new(text: &'a str, around: &'a Surroundings<'a>) -> Self {
        Self { text, around, problems: Vec::new(), untold: (0, 0) }
    }

    #[allow(clippy::too_many_arguments, reason = "one problem")]
    pub(super) fn say(
        &mut self,
        rule: &'static str,
        severity: Severity,
        at: usize,
        key: &str,
        what: impl Into<String>,
        why: &str,
        todo: impl Into<String>,
    ) {
        let (line, column) = syntax::place(self.text, at);
        self.problems.push(Problem {
            rule: rule.to_owned(),
            severity,
            line,
            column,
            key: (!key.is_empty()).then(|| key.to_owned()),
            what: what.into(),
            why: why.to_owned(),
            todo: todo.into(),
        });
    }

    fn whole(&mut self, document: &Document) {
        let top = &document.top;
        match top.kind {
            Kind::Object(_) => {}
            Kind::Null | Kind::List(_) => self.say(
                "L3",
                Severity::Error,
                top.start,
                "",
                format!("the file contains {} and has no effect", top.words()),
                "libcufile opens and ignores the file.",
                "Put the keys into an object in braces.",
            ),
            _ => self.say(
                "L3",
                Severity::Error,
                top.start,
                "",
                format!("the file contains {} instead of an object in braces", top.words()),
                ABORTS,
                "Put the keys into an object in braces.",
            ),
        }
        if let Some(at) = self.text.find('\u{fffd}') {
            self.say(
                "L2",
                Severity::Warning,
                at,
                "",
                "the file is not UTF-8 here",
                "libcufile reads the bytes as they are; other programs reject the file.",
                "Save it as UTF-8.",
            );
        }
        if let Some(rest) = document.rest {
            self.say(
                "L2",
                Severity::Warning,
                rest,
                "",
                "text after the end of the file's object",
                "libcufile stops after the first object, so the rest has no effect.",
                "Move or remove the text after the '}', which may be misplaced.",
            );
        }
    }

    fn object(&mut self, prefix: &str, node: &Node) {
        let members = node.members();
        let last: HashMap<&str, usize> =
            members.iter().enumerate().map(|(n, member)| (member.key.as_str(), n)).collect();
        for (number, member) in members.iter().enumerate() {
            let dotted = if prefix.is_empty() { member.key.clone() } else { format!("{prefix}.{}", member.key) };
            if member.key.contains('.') && (known(&dotted).is_some() || is_section(&dotted)) {
                self.flat(&dotted, member.key_start);
                continue;
            }
            if last.get(member.key.as_str()).is_some_and(|last| *last > number) {
                if self.is_enough(member.key_start) {
                    continue;
                }
                self.say(
                    "L8",
                    Severity::Warning,
                    member.key_start,
                    &dotted,
                    format!("{dotted} is in the file twice"),
                    "The last one is in effect. If a section occurs twice, the first one is lost.",
                    "Remove one, or merge them.",
                );
                continue;
            }
            if let Some(known) = known(&dotted) {
                self.key(known, member.key_start, &member.value);
            } else if is_section(&dotted) {
                self.section(&dotted, member.key_start, &member.value);
            } else {
                self.unknown(&dotted, member.key_start);
            }
        }
    }

    fn section(&mut self, dotted: &str, key_start: usize, value: &Node) {
        match value.kind {
            Kind::Object(_) => self.object(dotted, value),
            Kind::Null => self.null(dotted, value),
            _ => self.say(
                "L3",
                Severity::Error,
                value.start,
                dotted,
                format!("{dotted} must be an object in braces, but is {}", value.words()),
                ABORTS,
                format!("Write \"{}\": {{ … }}.", dotted.rsplit('.').next().unwrap_or(dotted)),
            ),
        }
        let _ = key_start;
    }

    /// libcufile treats null as "not set" (measured with 1.14 and 1.20).
    fn null(&mut self, key: &str, node: &Node) {
        let what = format!("{key} is null, which sets nothing");
        self.say("L9", Severity::Warning, node.start, key, what, SILENT, "Write a value, or remove it.");
    }

    /// Whether this key without effect is only counted, because the list is full.
    fn is_enough(&mut self, at: usize) -> bool {
        let told = self.problems.iter().filter(|problem| matches!(problem.rule.as_str(), "L8" | "L9")).count();
        if told < MOST_WITHOUT_EFFECT {
            return false;
        }
        if self.untold.0 == 0 {
            self.untold.1 = at;
        }
        self.untold.0 += 1;
        true
    }

    fn unknown(&mut self, dotted: &str, at: usize) {
        if let Some((_, meant)) = MISNAMED.iter().find(|(wrong, _)| *wrong == dotted) {
            let (what, todo) = if meant.is_empty() {
                (format!("{dotted} has no effect any more"), "Remove it.".to_owned())
            } else {
                (format!("{dotted} has no effect; the correct name is {meant}"), format!("Rename it to {meant}."))
            };
            self.say("L10", Severity::Warning, at, dotted, what, SILENT, todo);
            return;
        }
        if self.is_enough(at) {
            return;
        }
        let todo = match nearest(dotted) {
            Some(near) => format!("Check the name; a similar one is {near}."),
            None => "Remove it, or look up its name in the release notes of a newer libcufile.".to_owned(),
        };
        self.say("L9", Severity::Warning, at, dotted, format!("{dotted} is not a key of libcufile"), SILENT, todo);
    }

    fn key(&mut self, known: &Known, at: usize, node: &Node) {
        let key = known.key;
        if !known.is_in(self.around.version) {
            let when = known.releases().unwrap_or_default();
            if key == "profile.nvtx" {
                self.say(
                    "L10",
                    Severity::Warning,
                    at,
                    key,
                    format!("{key} has no effect any more ({when} only)"),
                    SILENT,
                    "Remove it.",
                );
            } else {
                self.say(
                    "L9",
                    Severity::Warning,
                    at,
                    key,
                    format!("libcufile knows {key} only {when}"),
                    SILENT,
                    "Install a newer libcufile, or remove the key.",
                );
            }
            return;
        }
        if node.kind == Kind::Null {
            self.null(key, node);
            return;
        }
        if !known.fits(node) {
            let fix = fitting(known, node);
            self.say(
                "L3",
                Severity::Error,
                node.start,
                key,
                format!("{key} must be {}, but is {}", known.wants(), node.words()),
                FATAL,
                fix.map_or_else(|| "Correct the value.".to_owned(), |fix| format!("Write {fix}.")),
            );
            return;
        }
        self.range(known, node);
        self.words(known, node);
    }

    fn range(&mut self, known: &Known, node: &Node) {
        let key = known.key;
        let Kind::Number(written) = &node.kind else { return };
        let Ok(number) = written.parse::<f64>() else { return };
        match known.takes {
            Takes::Whole(low, high, multiple) => {
                let (low, high, source) = self.limits(known, low, high);
                if high == u64::from(u32::MAX) && number > f64::from(u32::MAX) {
                    self.say(
                        "L4",
                        Severity::Error,
                        node.start,
                        key,
                        format!("{key} is {written}, which does not fit into 32 bits"),
                        ABORTS,
                        format!("Write a number from {low} to {high}."),
                    );
                    return;
                }
                // The library ignores digits after the decimal point.
                let effective = number.trunc();
                // Some keys accept 0 outside of their range. 0 then disables the bounce buffers or the limit.
                let zero = effective == 0.0
                    && (key == "properties.max_device_pinned_mem_size_kb"
                        || (key == "properties.per_buffer_cache_size_kb"
                            && minor(self.around.version).is_some_and(|minor| minor < 20)));
                if !zero && (effective < low as f64 || effective > high as f64) {
                    let range = if high >= 18_014_398_509_481_980 {
                        format!("at least {low}")
                    } else {
                        format!("from {low} to {high}")
                    };
                    self.say(
                        "L4",
                        Severity::Error,
                        node.start,
                        key,
                        format!("{key} must be {range} ({source}), but is {written}"),
                        FATAL,
                        format!("Write a number {range}."),
                    );
                } else if multiple > 1 && effective % multiple as f64 != 0.0 {
                    let below = (effective / multiple as f64).floor() * multiple as f64;
                    self.say(
                        "L4",
                        Severity::Error,
                        node.start,
                        key,
                        format!("{key} must be a multiple of {multiple}, but is {written}"),
                        FATAL,
                        format!("Write {} or {}.", below.max(low as f64), below + multiple as f64),
                    );
                } else if number != effective {
                    self.say(
                        "L3",
                        Severity::Warning,
                        node.start,
                        key,
                        format!("{key} is {written}, and {effective} is in effect"),
                        "libcufile cuts off digits after the point.",
                        format!("Write {effective}."),
                    );
                }
                if key == "profile.cufile_stats" && effective > 3.0 {
                    self.say(
                        "L4",
                        Severity::Warning,
                        node.start,
                        key,
                        format!("{key} is {written}; levels go from 0 to 3"),
                        "The library accepts it, but its effect is not documented.",
                        "Write 3 for everything.",
                    );
                }
            }
            Takes::Int(low, high) if number < low as f64 || number > high as f64 => self.say(
                "L4",
                Severity::Error,
                node.start,
                key,
                format!("{key} must be from {low} to {high}, but is {written}"),
                FATAL,
                format!("Write a number from {low} to {high}."),
            ),
            Takes::Signed(low, high) if number == 0.0 || number < low as f64 || number > high as f64 => {
                self.say(
                    "L4",
                    Severity::Error,
                    node.start,
                    key,
                    format!("{key} must be {low} (unlimited) or from 1 to {high}, but is {written}"),
                    FATAL,
                    "Write 32, the default.",
                );
            }
            _ => {}
        }
    }

    /// The range of a key: from the installed library if it reports one, otherwise from the table.
    pub(super) fn limits(&self, known: &Known, low: u64, high: u64) -> (u64, u64, &'static str) {
        let said = self
            .around
            .ranges
            .get(known.parameter)
            .and_then(|pair| Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_u64()?)));
        match said {
            // Before the driver is open, the library reports no upper bound for some keys: [64, 0] or [0, 0].
            Some((0, 0)) => (low, high, "documented"),
            Some((low, 0)) => (low, high, "reported by the installed library"),
            Some((low, high)) => (low, high, "reported by the installed library"),
            None if known.key == "execution.max_io_threads" && minor(self.around.version).is_some_and(|m| m < 16) => {
                (0, 32, "measured with 1.14 and 1.15")
            }
            None => (low, high, "measured with libcufile 1.20, not with the installed one"),
        }
    }

    fn words(&mut self, known: &Known, node: &Node) {
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
                    format!("\"{word}\" is not a hexadecimal number"),
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
                _ => {}
            }
        }
        if let (Takes::Table, Kind::Object(members)) = (known.takes, &node.kind) {
            for member in members.iter().filter(|member| !(self.around.exists)(&member.key)) {
                self.say(
                    "L7",
                    Severity::Error,
                    member.key_start,
                    key,
                    format!("{key} names the mount point \"{}\", which does not exist", member.key),
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
                Severity::Warning,
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
    u64::from_str_radix(digits, 16).is_ok()
}

/// A value of the required type that was probably meant.
pub(super) fn fitting(known: &Known, node: &Node) -> Option<String> {
    match (&known.takes, &node.kind) {
        (Takes::Switch, Kind::Text(text)) if matches!(text.to_ascii_lowercase().as_str(), "true" | "false") => {
            Some(text.to_ascii_lowercase())
        }
        (Takes::Switch, Kind::Number(text)) => Some(if text == "0" { "false" } else { "true" }.to_owned()),
        (Takes::Whole(..) | Takes::Signed(..) | Takes::Int(..), Kind::Text(text)) => {
            text.trim().parse::<i64>().ok().map(|n| n.to_string())
        }
        (Takes::Texts | Takes::Paths | Takes::Each(_), Kind::Text(text)) => Some(format!("[\"{text}\"]")),
        (Takes::Text | Takes::Folder | Takes::Level, Kind::Number(text)) => Some(format!("\"{text}\"")),
        _ => None,
    }
}
