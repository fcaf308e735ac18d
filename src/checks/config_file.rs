//! cufile.json as libcufile reads it: JSON with `//` and `/* */` comments, /etc first, the user's file merged over it key by key, then the
//! environment (reference 2.1 to 2.4).

use crate::host::{Root, Unread};
use serde_json::Value;
use std::collections::BTreeMap;

/// The file that is always read.
pub(super) const SYSTEM_FILE: &str = "/etc/cufile.json";

/// One of the files.
#[derive(Clone, Debug)]
pub(super) struct ConfigFile {
    pub(super) path: String,
    /// Whether `CUFILE_ENV_PATH_JSON` names it.
    pub(super) from_environment: bool,
    pub(super) state: FileState,
}

/// What became of a file.
#[derive(Clone, Debug)]
pub(super) enum FileState {
    Missing,
    Unreadable(Unread),
    /// libcufile refuses it; each a sentence with its place.
    Broken(Vec<String>),
    Good(BTreeMap<String, Value>),
}

/// The configuration in effect.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub(super) files: Vec<ConfigFile>,
    /// Value and origin by dotted key; keys that nobody sets are absent.
    values: BTreeMap<String, (Value, String)>,
}

impl Config {
    pub(super) fn load(root: &Root) -> Self {
        let mut config = Self::default();
        let environment = root.environment();
        let mut files = vec![(SYSTEM_FILE.to_owned(), false)];
        if let Some(path) = environment.get("CUFILE_ENV_PATH_JSON").filter(|path| !path.is_empty()) {
            files.push((path.clone(), true));
        }
        for (path, from_environment) in files {
            let state = match root.read_text(&path) {
                Err(Unread::Missing) => FileState::Missing,
                Err(why) => FileState::Unreadable(why),
                Ok(text) => parse(&text),
            };
            if let FileState::Good(values) = &state {
                for (key, value) in values {
                    config.values.insert(key.clone(), (value.clone(), path.clone()));
                }
            }
            config.files.push(ConfigFile { path, from_environment, state });
        }
        for (variable, key) in [
            ("CUFILE_FORCE_COMPAT_MODE", "properties.force_compat_mode"),
            ("CUFILE_USE_PCIP2PDMA", "properties.use_pci_p2pdma"),
        ] {
            if let Some(value) = environment.get(variable) {
                // Only the word `true`, in any case, counts as true (measured with 1.14 and 1.20).
                let on = value.eq_ignore_ascii_case("true");
                config.values.insert(key.to_owned(), (Value::Bool(on), format!("{variable}={value}")));
            }
        }
        config
    }

    /// A switch: its value, and where it was set; the default where nobody set it.
    pub(super) fn switch(&self, key: &str, default: bool) -> (bool, String) {
        match self.values.get(key) {
            Some((Value::Bool(on), origin)) => (*on, origin.clone()),
            _ => (default, "the library's default".to_owned()),
        }
    }

    /// The strings of a list, and where it was set; empty where nobody set it.
    pub(super) fn list(&self, key: &str) -> (Vec<&str>, &str) {
        match self.values.get(key) {
            Some((Value::Array(items), origin)) => (items.iter().filter_map(Value::as_str).collect(), origin),
            _ => (Vec::new(), ""),
        }
    }

    /// Keys that libcufile passes over without a word, with their file and the name that is meant (reference 2.3, L10).
    pub(super) fn passed_over(&self) -> Vec<(&str, &str, &'static str)> {
        const WRONG: &[(&str, &str)] = &[
            ("properties.use_compat_mode", "properties.allow_compat_mode"),
            ("blacklist", "denylist"),
            ("profile.io_batchsize", "properties.io_batchsize"),
        ];
        let name = |key: &str| {
            WRONG
                .iter()
                .find(|(wrong, _)| key == *wrong || key.strip_prefix(wrong).is_some_and(|rest| rest.starts_with('.')))
        };
        self.values
            .iter()
            .filter_map(|(key, (_, origin))| Some((key.as_str(), origin.as_str(), name(key)?.1)))
            .collect()
    }

    /// Whether a file keeps every application from opening cuFile.
    pub(super) fn is_fatal(&self) -> bool {
        self.files.iter().any(|f| matches!(f.state, FileState::Broken(_) | FileState::Unreadable(_)))
    }
}

/// What a key must hold.
#[derive(Clone, Copy)]
enum Kind {
    Switch,
    Whole(i64, i64),
    Text,
}

/// Keys whose type or range libcufile insists on (reference 2.2; ranges from `cuFileGetParameterMinMaxValue` of 1.20).
const KEYS: &[(&str, Kind)] = &[
    ("logging.dir", Kind::Text),
    ("logging.level", Kind::Text),
    ("logging.max_file_size_mb", Kind::Whole(-1, 4096)),
    ("profile.cufile_stats", Kind::Whole(0, i64::MAX)),
    ("properties.allow_compat_mode", Kind::Switch),
    ("properties.force_compat_mode", Kind::Switch),
    ("properties.use_pci_p2pdma", Kind::Switch),
    ("properties.use_poll_mode", Kind::Switch),
    ("properties.max_direct_io_size_kb", Kind::Whole(64, 16384)),
    ("properties.per_buffer_cache_size_kb", Kind::Whole(64, 16384)),
    ("properties.io_batchsize", Kind::Whole(1, 256)),
    ("block.nvme.use_pci_p2pdma", Kind::Switch),
    ("block.nvmeof.use_pci_p2pdma", Kind::Switch),
    ("block.raid.use_pci_p2pdma", Kind::Switch),
    ("fs.virtiofs.use_pci_p2pdma", Kind::Switch),
    ("execution.max_io_threads", Kind::Whole(0, 128)),
    ("execution.max_io_queue_depth", Kind::Whole(1, 256)),
    ("execution.parallel_io", Kind::Switch),
    ("execution.min_io_threshold_size_kb", Kind::Whole(4, i64::MAX)),
    ("execution.max_request_parallelism", Kind::Whole(0, 8)),
    ("miscellaneous.api_check_aggressive", Kind::Switch),
    ("miscellaneous.skip_topology_detection", Kind::Switch),
];

fn parse(text: &str) -> FileState {
    let plain = match without_comments(text) {
        Ok(plain) => plain,
        Err(problem) => return FileState::Broken(vec![problem]),
    };
    let value: Value = match serde_json::from_str(&plain) {
        Ok(value) => value,
        Err(error) => {
            let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or("").trim();
            let words = error.to_string();
            let words = words.split(" at line").next().unwrap_or(&words).to_owned();
            return FileState::Broken(vec![format!(
                "line {}, column {}: {words}{}",
                error.line(),
                error.column(),
                if line.is_empty() { String::new() } else { format!(" near '{line}'") }
            )]);
        }
    };
    if !value.is_object() {
        return FileState::Broken(vec!["the whole of it is no object in braces".to_owned()]);
    }
    let mut flat = BTreeMap::new();
    flatten("", &value, &mut flat);
    let problems: Vec<String> = KEYS.iter().filter_map(|(key, kind)| wrong(key, *kind, flat.get(*key)?)).collect();
    if problems.is_empty() { FileState::Good(flat) } else { FileState::Broken(problems) }
}

fn wrong(key: &str, kind: Kind, value: &Value) -> Option<String> {
    match kind {
        Kind::Switch if !value.is_boolean() => {
            Some(format!("{key} must be true or false without quotes, it is {value}"))
        }
        Kind::Text if !value.is_string() => Some(format!("{key} must be text in quotes, it is {value}")),
        Kind::Whole(low, high) => match value.as_i64() {
            None => Some(format!("{key} must be a whole number without quotes, it is {value}")),
            Some(n) if n < low || n > high => Some(format!("{key} must be from {low} to {high}, it is {n}")),
            Some(_) => None,
        },
        _ => None,
    }
}

fn flatten(prefix: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&key, value, out);
            }
        }
        other => {
            out.insert(prefix.to_owned(), other.clone());
        }
    }
}

/// Replaces comments by spaces, so that places stay what they are.
fn without_comments(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut line = 1;
    let mut in_string = false;
    while let Some(c) = chars.next() {
        if c == '\n' {
            line += 1;
        }
        if in_string {
            out.push(c);
            if c == '\\' {
                out.extend(chars.next());
            } else if c == '"' {
                in_string = false;
            }
            continue;
        }
        match (c, chars.peek()) {
            ('"', _) => {
                in_string = true;
                out.push(c);
            }
            ('/', Some('/')) => {
                out.push(' ');
                while let Some(c) = chars.next_if(|&c| c != '\n') {
                    out.extend(std::iter::repeat_n(' ', c.len_utf8()));
                }
            }
            ('/', Some('*')) => {
                let began = line;
                out.push_str("  ");
                chars.next();
                let mut star = false;
                loop {
                    match chars.next() {
                        None => return Err(format!("line {began}: a comment '/*' is never closed by '*/'")),
                        Some('/') if star => {
                            out.push(' ');
                            break;
                        }
                        Some('\n') => {
                            line += 1;
                            out.push('\n');
                            star = false;
                        }
                        Some(c) => {
                            out.push(' ');
                            star = c == '*';
                        }
                    }
                }
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        match parse(text) {
            FileState::Broken(problems) => problems,
            FileState::Good(_) => Vec::new(),
            _ => panic!("neither good nor broken"),
        }
    }

    #[test]
    fn comments_are_allowed_where_the_library_allows_them() {
        let text = "{ // line\n \"properties\": { /* block\n*/ \"use_pci_p2pdma\": true, \"a\": \"http://x/*y*/\" } }";
        let FileState::Good(values) = parse(text) else { panic!("{:?}", parse(text)) };
        assert_eq!(values["properties.use_pci_p2pdma"], Value::Bool(true));
        assert_eq!(values["properties.a"], Value::String("http://x/*y*/".to_owned()));
    }

    #[test]
    fn what_the_library_refuses_is_refused_with_its_place() {
        for (text, part) in [
            ("", "line"),
            ("# no\n{}", "line 1"),
            ("{\n \"properties\": { \"allow_compat_mode\": true, }\n}", "line 2"),
            ("{ /* open", "never closed"),
            ("[]", "no object"),
            ("{\"properties\":{\"allow_compat_mode\":\"false\"}}", "without quotes"),
            ("{\"properties\":{\"allow_compat_mode\":1}}", "true or false"),
            ("{\"properties\":{\"io_batchsize\":1000}}", "from 1 to 256"),
        ] {
            let said = problems(text).join("; ");
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn damaged_text_is_an_answer_and_never_a_crash() {
        let whole = "{ /* c */ \"a\": \"\\\"x\", // é\n \"b\": [1, 2] }";
        for (end, _) in whole.char_indices() {
            let _ = parse(&whole[..end]);
        }
    }
}
