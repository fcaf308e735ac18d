//! The value of each key in effect and its origin: default, /etc/cufile.json, the user's file, or the environment.

use super::known::KEYS;
use super::syntax;
use super::types::SYSTEM_FILE;
use crate::core::CufileSetting;
use crate::machine::Root;
use serde::Serialize;
use serde_json::Value;

/// The origin of a value. Later origins override earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Origin {
    /// The default of the library.
    Default {
        /// The version of the library: `libcufile 1.15`, or 1.20 if no version is installed.
        of: String,
    },
    /// A file.
    File {
        /// The path of the file.
        path: String,
        /// The line of the value.
        line: usize,
    },
    /// An environment variable.
    Variable {
        /// The name of the variable.
        name: String,
    },
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default { of } => write!(f, "default of {of}"),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Variable { name } => write!(f, "environment, {name}"),
        }
    }
}

/// The value of one key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effective {
    /// Dotted name.
    pub key: String,
    /// Its value. It is null if the library has no fixed default.
    pub value: Value,
    /// Its origin.
    pub origin: Origin,
    /// The value that the library reports, if it was opened and reports another one.
    pub library_says: Option<Value>,
}

/// All keys that the installed library knows, sorted. Rejected files are skipped. `extra` is an additional file that
/// overrides the others.
#[must_use]
pub fn effective(root: &Root, extra: Option<(&str, &str)>) -> Vec<Effective> {
    let facts = root.libcufile();
    let version = facts.version_numbers();
    let of = match (facts.version(), version) {
        (Some(text), Some(_)) => format!("libcufile {text}"),
        _ => "libcufile 1.20 (the installed one is not known)".to_owned(),
    };
    let environment = root.environment();
    let mut files: Vec<(String, String)> = Vec::new();
    let named = environment.get("CUFILE_ENV_PATH_JSON").filter(|path| !path.is_empty()).cloned();
    for path in [Some(SYSTEM_FILE.to_owned()), named].into_iter().flatten() {
        files.extend(root.read_text(&path).ok().map(|text| (path, text)));
    }
    files.extend(extra.map(|(path, text)| (path.to_owned(), text.to_owned())));
    let parsed: Vec<_> =
        files.iter().filter_map(|(path, text)| Some((path, text, syntax::parse(text).ok()?))).collect();
    let opened = facts.open.as_ref().is_some_and(|open| open.code == Some(0));
    KEYS.iter()
        .filter(|known| known.is_in(version))
        .map(|known| {
            let mut value = known.default(version);
            let mut origin = Origin::Default { of: of.clone() };
            for (path, text, document) in &parsed {
                if let Some(node) = document.top.at(known.key).filter(|node| counts(known.key, node)) {
                    value = node.value();
                    let (line, _) = syntax::place(text, node.start);
                    origin = Origin::File { path: (*path).clone(), line };
                }
            }
            if let Some(text) = environment.get(known.variable).filter(|_| speaks(known.variable, version)) {
                value = from_variable(&known.default(version), text);
                origin = Origin::Variable { name: known.variable.to_owned() };
            }
            let said = facts.parameters.get(known.parameter).filter(|_| opened && extra.is_none());
            let differs = said.filter(|said| !same(said, &value)).cloned();
            Effective { key: known.key.to_owned(), value, origin, library_says: differs }
        })
        .collect()
}

/// The keys that a file or a variable sets, and those that have the library's default; both sorted.
#[must_use]
pub fn settings(root: &Root) -> (Vec<CufileSetting>, Vec<CufileSetting>) {
    let (defaults, set): (Vec<_>, Vec<_>) =
        effective(root, None).into_iter().partition(|setting| matches!(setting.origin, Origin::Default { .. }));
    let described = |all: Vec<Effective>| {
        let one = |setting: Effective| CufileSetting {
            key: setting.key,
            value: setting.value.to_string(),
            origin: setting.origin.to_string(),
        };
        all.into_iter().map(one).collect()
    };
    (described(set), described(defaults))
}

/// Whether the library uses the value. It treats null as missing and ignores an unknown log level (rule L11).
fn counts(key: &str, node: &syntax::Node) -> bool {
    let is_unknown_level = key == "logging.level"
        && node.value().as_str().is_some_and(|level| !super::environment::LEVELS.contains(&level));
    node.kind != syntax::Kind::Null && !is_unknown_level
}

/// Whether a release reads the variable (from the strings of 1.11 to 1.20).
fn speaks(variable: &str, version: Option<(u32, u32)>) -> bool {
    let minor = super::known::minor(version);
    match variable {
        "CUFILE_ALLOW_COMPAT_MODE" => minor.is_some_and(|minor| minor <= 16),
        "CUFILE_STATS_LEVEL" | "CUFILE_LOGFILE_MAX_SIZE_MB" => minor.is_none_or(|minor| minor >= 18),
        "" => false,
        _ => true,
    }
}

fn from_variable(default: &Value, text: &str) -> Value {
    match default {
        // Only the word `true`, in upper or lower case, counts as true (measured with 1.14 and 1.20).
        Value::Bool(_) => Value::Bool(text.eq_ignore_ascii_case("true")),
        Value::Number(_) => text.trim().parse::<u64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
        _ => Value::String(text.to_owned()),
    }
}

/// Whether two values are equal: numbers, or a switch that the library reports as 0 or 1.
fn same(said: &Value, value: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Bool(on) => Some(u64::from(*on) as f64),
        Value::Number(n) => n.as_f64(),
        _ => None,
    };
    match (number(said), number(value)) {
        (Some(a), Some(b)) => (a - b).abs() < 0.5,
        _ => said == value,
    }
}

/// The default of each key that the installed library knows. It is null if there is no fixed default.
#[must_use]
pub fn defaults(root: &Root) -> Vec<(String, Value)> {
    let version = root.libcufile().version_numbers();
    let known = KEYS.iter().filter(|known| known.is_in(version));
    known.map(|known| (known.key.to_owned(), known.default(version))).collect()
}
