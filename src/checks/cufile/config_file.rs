//! The cufile.json files in the order in which libcufile reads them: /etc, then the user's file, which overrides
//! single keys, then the environment.

use crate::checks::advice::Advice;
use crate::checks::cufile_json::{Ignored, Severity, Surroundings, ignored, is_of_user, lint};
use crate::machine::{Kept, Root, Unread, container, kept};
use crate::text::quoted;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The file that libcufile always reads.
pub(crate) const SYSTEM_FILE: &str = "/etc/cufile.json";

/// libcufile reads its files only when a program opens it.
pub(crate) const RESTART: &str = " Then start the programs again.";

/// How to edit a configuration file, up to the change. sudoedit refuses files in a directory that the user can write, and a
/// container loses the change or cannot make it.
pub(crate) fn edit(root: &Root, path: &str) -> Advice {
    let is_pod = || container(root).is_some_and(|container| container.runtime == "kubernetes");
    match kept(root, path) {
        Kept::Here if is_of_user(path) => format!("Edit {path}").into(),
        Kept::Here => Advice::run(format!("sudoedit {}", quoted(path))),
        Kept::Lost => format!("Edit {path} in the image").into(),
        Kept::Outside if is_pod() => format!("Edit {path} in the ConfigMap or on the node").into(),
        Kept::Outside => format!("Edit the file of the host that is mounted at {path}").into(),
    }
}

/// One of the configuration files.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    pub(crate) path: String,
    /// Whether `CUFILE_ENV_PATH_JSON` names it.
    pub(crate) from_environment: bool,
    pub(crate) state: FileState,
    /// Keys that libcufile ignores without a message.
    pub(crate) ignored: Vec<Ignored>,
}

impl ConfigFile {
    /// Whether a directory is in its place.
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.state, FileState::Unreadable(Unread::WrongKind))
    }
}

/// The state of a file.
#[derive(Clone, Debug)]
pub(crate) enum FileState {
    Missing,
    Unreadable(Unread),
    /// libcufile rejects the file. Each reason is a sentence with line and column.
    Broken(Vec<String>),
    Good(BTreeMap<String, Value>),
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The value is not set.
    Default,
    /// The path of a file.
    File(String),
    /// An environment variable and its text.
    Variable(&'static str, String),
}

impl Origin {
    /// The environment variable that sets the value.
    pub(crate) fn variable(&self) -> Option<&'static str> {
        match self {
            Self::Variable(name, _) => Some(name),
            Self::Default | Self::File(_) => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the library's default"),
            Self::File(path) => f.write_str(path),
            Self::Variable(name, value) => write!(f, "{name}={value}"),
        }
    }
}

/// The configuration in effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) files: Vec<ConfigFile>,
    /// The value and the origin by dotted key. Keys that are not set are missing.
    values: BTreeMap<String, (Value, Origin)>,
}

impl Config {
    pub(crate) fn load(root: &Root) -> Self {
        let mut config = Self::default();
        let environment = root.environment();
        let mut files = vec![(SYSTEM_FILE.to_owned(), false)];
        if let Some(path) = environment.get("CUFILE_ENV_PATH_JSON").filter(|path| !path.is_empty()) {
            files.push((path.clone(), true));
        }
        for (path, from_environment) in files {
            let (state, ignored) = match root.read_text(&path) {
                Err(Unread::Missing) => (FileState::Missing, Vec::new()),
                Err(why) => (FileState::Unreadable(why), Vec::new()),
                // A capture contains only the paths that a check read.
                Ok(text) => parse(&text, &|path| !root.is_live() || root.exists(path)),
            };
            if let FileState::Good(values) = &state {
                for (key, value) in values {
                    config.values.insert(key.clone(), (value.clone(), Origin::File(path.clone())));
                }
            }
            config.files.push(ConfigFile { path, from_environment, state, ignored });
        }
        for (variable, key) in [
            ("CUFILE_FORCE_COMPAT_MODE", "properties.force_compat_mode"),
            ("CUFILE_USE_PCIP2PDMA", "properties.use_pci_p2pdma"),
        ] {
            if let Some(value) = environment.get(variable) {
                // Only the word `true`, in upper or lower case, counts as true (measured with 1.14 and 1.20).
                let on = value.eq_ignore_ascii_case("true");
                config.values.insert(key.to_owned(), (Value::Bool(on), Origin::Variable(variable, value.clone())));
            }
        }
        config
    }

    /// The value of a switch and its origin, or the default if it is not set.
    pub(crate) fn switch(&self, key: &str, default: bool) -> (bool, Origin) {
        match self.values.get(key) {
            Some((Value::Bool(on), origin)) => (*on, origin.clone()),
            _ => (default, Origin::Default),
        }
    }

    /// The text of a key. `None` if it is not set.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).and_then(|(value, _)| value.as_str())
    }

    /// The strings of a list and its origin. Both are empty if it is not set.
    pub(crate) fn list(&self, key: &str) -> (Vec<&str>, String) {
        match self.values.get(key) {
            Some((Value::Array(items), origin)) => {
                (items.iter().filter_map(Value::as_str).collect(), origin.to_string())
            }
            _ => (Vec::new(), String::new()),
        }
    }

    /// All strings of a list, or of the lists in an object, and their origin. Both are empty if it is not set.
    pub(crate) fn texts_below(&self, key: &str) -> (Vec<String>, String) {
        let mut texts = Vec::new();
        let mut from = String::new();
        for (name, (value, origin)) in &self.values {
            if name != key && !name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')) {
                continue;
            }
            let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            texts.extend(
                items.iter().filter_map(Value::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned),
            );
            from = origin.to_string();
        }
        (texts, from)
    }

    /// Keys that libcufile ignores without a message, with their file.
    pub(crate) fn passed_over(&self) -> impl Iterator<Item = (&str, &Ignored)> {
        self.files.iter().flat_map(|file| file.ignored.iter().map(|ignored| (file.path.as_str(), ignored)))
    }

    /// The value of a key and its file. If several files set the key, the last one wins.
    pub(crate) fn latest(&self, key: &str) -> Option<(Value, String)> {
        self.files.iter().rev().find_map(|file| match &file.state {
            FileState::Good(values) => values.get(key).map(|value| (value.clone(), file.path.clone())),
            _ => None,
        })
    }

    /// Whether a file makes opening cuFile fail in every program.
    pub(crate) fn is_fatal(&self) -> bool {
        self.files.iter().any(|f| matches!(f.state, FileState::Broken(_) | FileState::Unreadable(_)))
    }
}

/// The keys of a file with their values, or the reasons why libcufile rejects it, and the keys that it ignores. The installed library is not used:
/// its probe is slow, and these rules apply to all releases.
fn parse(text: &str, exists: &dyn Fn(&str) -> bool) -> (FileState, Vec<Ignored>) {
    let around = Surroundings { version: None, ranges: &Value::Null, exists, is_folder: &|_| true };
    let (document, problems) = lint(text, &around);
    let refused: Vec<String> = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .map(|problem| format!("line {}, column {}: {}. {}", problem.line, problem.column, problem.what, problem.todo))
        .map(|sentence| sentence.trim_end_matches('.').to_owned())
        .collect();
    let state = match document {
        Some(document) if refused.is_empty() => {
            let mut flat = BTreeMap::new();
            flatten("", &document.top.value(), &mut flat);
            FileState::Good(flat)
        }
        _ => FileState::Broken(refused),
    };
    (state, ignored(&problems))
}

fn flatten(prefix: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&key, value, out);
            }
        }
        // The library treats null as "not set".
        Value::Null => {}
        other => {
            out.insert(prefix.to_owned(), other.clone());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        match parse(text, &|_| true).0 {
            FileState::Broken(problems) => problems,
            FileState::Good(_) => Vec::new(),
            _ => panic!("neither good nor broken"),
        }
    }

    #[test]
    fn comments_are_allowed_where_the_library_allows_them() {
        let text = "{ // line\n \"properties\": { /* block\n*/ \"use_pci_p2pdma\": true, \"a\": \"http://x/*y*/\" } }";
        let FileState::Good(values) = parse(text, &|_| true).0 else { panic!("refused") };
        assert_eq!(values["properties.use_pci_p2pdma"], Value::Bool(true));
        assert_eq!(values["properties.a"], Value::String("http://x/*y*/".to_owned()));
    }

    #[test]
    fn rejected_configuration_is_reported_with_its_place() {
        for (text, part) in [
            ("", "empty"),
            ("# no\n{}", "line 1"),
            ("{\n \"properties\": { \"allow_compat_mode\": true, }\n}", "line 2"),
            ("{ /* open", "never closed"),
            ("[]", "has no effect"),
            ("{\"properties\":{\"allow_compat_mode\":\"false\"}}", "Write false"),
            ("{\"properties\":{\"allow_compat_mode\":1}}", "true or false"),
            ("{\"properties\":{\"io_batchsize\":1000}}", "from 1 to 256"),
        ] {
            let said = problems(text).join("; ");
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn damaged_text_never_crashes_parser() {
        let document = "{ /* c */ \"a\": \"\\\"x\", // é\n \"b\": [1, 2] }";
        for (end, _) in document.char_indices() {
            let _ = parse(&document[..end], &|_| true);
        }
    }
}
