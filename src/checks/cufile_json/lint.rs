//! The linter for one cufile.json: rules L1 to L19. Each problem has its position, the reason and the remedy.

use super::known::{Known, MISNAMED, is_section, known};
use super::meant;
use super::nearest::{nearest, of_path, without_similar};
use super::syntax::{self, Document, Kind, Node};
use super::types::{Problem, Severity};
use serde_json::Value;
use std::collections::HashMap;

/// The linter's facts about the machine and the library.
pub(crate) struct Surroundings<'a> {
    /// The version of the installed library.
    pub(crate) version: Option<(u32, u32)>,
    /// The ranges that the installed library reports.
    pub(crate) ranges: &'a Value,
    /// Whether a path exists. A path that cannot be read counts as existing.
    pub(crate) exists: &'a dyn Fn(&str) -> bool,
    /// Whether a path that exists is a directory, or cannot be read.
    pub(crate) is_folder: &'a dyn Fn(&str) -> bool,
}

pub(super) struct Linter<'a> {
    pub(super) text: &'a str,
    pub(super) around: &'a Surroundings<'a>,
    pub(super) problems: Vec<Problem>,
    /// The number of ignored keys that are not listed, and the position of the first of them.
    untold: (usize, usize),
    /// Whether names are suggested for unknown keys. The search takes longer than all other rules.
    suggests: bool,
    /// The number of problems of any kind that are not listed, the position of the first, and the worst severity.
    more: Option<(usize, usize, Severity)>,
}

/// The maximum number of listed problems.
const MOST_PROBLEMS: usize = 250;

/// The maximum number of listed keys without effect. A file with thousands of unknown keys is not a cufile.json.
const MOST_WITHOUT_EFFECT: usize = 100;

/// Parses and lints a file. Returns the document if it could be parsed.
pub(crate) fn lint(text: &str, around: &Surroundings<'_>) -> (Option<Document>, Vec<Problem>) {
    let (document, mut linter) = linted(Linter::new(text, around));
    if let Some((number, at, severity)) = linter.more.take() {
        let (line, column) = syntax::place(text, at);
        linter.problems.push(Problem {
            rule: "L2".to_owned(),
            severity,
            line,
            column,
            key: None,
            what: format!("{number} more problems are not listed; the first is here"),
            why: "Only the first problems of a file are listed.".to_owned(),
            todo: "Correct the listed ones first.".to_owned(),
        });
    }
    linter.problems.sort_by_key(|problem| (problem.line, problem.column));
    (document, linter.problems)
}

/// The listed problems that make libcufile reject a file.
pub(super) fn errors(text: &str, around: &Surroundings<'_>) -> Vec<Problem> {
    let (_, mut linter) = linted(Linter { suggests: false, ..Linter::new(text, around) });
    linter.problems.retain(|problem| problem.severity == Severity::Error);
    linter.problems.sort_by_key(|problem| (problem.line, problem.column));
    linter.problems
}

fn linted(mut linter: Linter<'_>) -> (Option<Document>, Linter<'_>) {
    let text = linter.text;
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
    let Some(document) = document else { return (None, linter) };
    linter.document(&document);
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
    (is_accepted.then_some(document), linter)
}

/// The only key that a release removed and whose old files are still in use.
const NVTX: &str = "profile.nvtx";

pub(super) const FATAL: &str = "libcufile rejects the file: cuFileDriverOpen fails with 5002 (-22 up to 1.18) in every program, and only standard error has the reason.";
pub(super) const ABORTS: &str =
    "libcufile aborts the process here (Json::LogicError, SIGABRT): every program that opens cuFile dies.";
pub(super) const SILENT: &str = "libcufile ignores it silently.";

impl<'a> Linter<'a> {
    pub(super) fn new(text: &'a str, around: &'a Surroundings<'a>) -> Self {
        Self { text, around, problems: Vec::new(), untold: (0, 0), suggests: true, more: None }
    }

    /// Reports a warning about a node.
    pub(super) fn warn(
        &mut self,
        rule: &'static str,
        node: &Node,
        key: &str,
        what: impl Into<String>,
        why: &str,
        todo: impl Into<String>,
    ) {
        self.say(rule, Severity::Warning, node.start, key, what, why, todo);
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
        if self.problems.len() >= MOST_PROBLEMS {
            let (number, first, worst) = self.more.unwrap_or((0, at, severity));
            self.more = Some((number + 1, first.min(at), worst.min(severity)));
            return;
        }
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

    fn document(&mut self, document: &Document) {
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
                "the file has invalid UTF-8 at this position",
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
        self.warn("L9", node, key, what, SILENT, "Write a value, or remove it.");
    }

    /// Whether this key without effect is only counted, because the list is full.
    fn is_enough(&mut self, at: usize) -> bool {
        let ignored = self.problems.iter().filter(|problem| matches!(problem.rule.as_str(), "L8" | "L9")).count();
        if ignored < MOST_WITHOUT_EFFECT {
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
        let todo = of_path(dotted).unwrap_or_else(|| match self.suggests.then(|| nearest(dotted)).flatten() {
            Some(near) => format!("Check the name; a similar one is {near}."),
            None => without_similar(dotted),
        });
        self.say("L9", Severity::Warning, at, dotted, format!("{dotted} is not a key of libcufile"), SILENT, todo);
    }

    fn key(&mut self, known: &Known, at: usize, node: &Node) {
        let key = known.key;
        if !known.is_in(self.around.version) {
            let when = known.releases().unwrap_or_default();
            if key == NVTX {
                self.nvtx(at, node);
            } else {
                self.say(
                    "L9",
                    Severity::Warning,
                    at,
                    key,
                    format!("libcufile has {key} only {when}"),
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
        if key == NVTX && self.around.version.is_none() && known.fits(node) {
            self.nvtx(at, node);
            return;
        }
        if !known.fits(node) {
            let (what, todo) = (meant::error(known, node), meant::remedy(known, node));
            self.say("L3", Severity::Error, node.start, key, what, FATAL, todo);
            return;
        }
        self.range(known, node);
        self.words(known, node);
    }

    /// The key that newer releases do not have. Older files of NVIDIA contain it with the value false.
    fn nvtx(&mut self, at: usize, node: &Node) {
        let severity = if node.kind == Kind::Bool(false) { Severity::Note } else { Severity::Warning };
        let what = format!("{NVTX} has no effect from libcufile 1.16 on");
        self.say("L10", severity, at, NVTX, what, SILENT, "Remove it.");
    }
}
