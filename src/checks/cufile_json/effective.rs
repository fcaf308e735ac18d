//! The value of every key and its origin: default, /etc/cufile.json, the user's file, the environment.

use super::known::KEYS;
use super::syntax;
use super::types::SYSTEM_FILE;
use crate::core::CufileSetting;
use crate::machine::Root;
use serde::Serialize;
use serde_json::Value;

/// The origin of a value; later ones win.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Origin {
    /// The library's default.
    Default {
        /// The library: `libcufile 1.15`, or 1.20 if the installed one is not known.
        of: String,
    },
    /// A file.
    File {
        /// Which.
        path: String,
        /// Line of the value.
        line: usize,
    },
    /// The environment.
    Variable {
        /// The variable.
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

/// One key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effective {
    /// Dotted name.
    pub key: String,
    /// Its value; null if the library has no value that can be named.
    pub value: Value,
    /// Its origin.
    pub origin: Origin,
    /// The value that the library reports, if it was opened and differs.
    pub library_says: Option<Value>,
}

/// All keys that the installed library knows, sorted. Rejected files add nothing. `extra` is another file that
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

/// The keys with another value than the library's default, sorted.
#[must_use]
pub fn settings(root: &Root) -> Vec<CufileSetting> {
    effective(root, None)
        .into_iter()
        .filter(|setting| !matches!(setting.origin, Origin::Default { .. }))
        .map(|setting| CufileSetting {
            key: setting.key,
            value: setting.value.to_string(),
            origin: setting.origin.to_string(),
        })
        .collect()
}

/// Whether the library uses the value: null counts as missing, and an unknown log level is ignored (rule L11).
fn counts(key: &str, node: &syntax::Node) -> bool {
    let is_unknown_level = key == "logging.level"
        && node.value().as_str().is_some_and(|level| !super::environment::LEVELS.contains(&level));
    node.kind != syntax::Kind::Null && !is_unknown_level
}

/// Whether a release reads the variable (strings of 1.11 to 1.20).
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
        // Only the word true, in any case, counts (measured with 1.14 and 1.20).
        Value::Bool(_) => Value::Bool(text.eq_ignore_ascii_case("true")),
        Value::Number(_) => text.trim().parse::<u64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
        _ => Value::String(text.to_owned()),
    }
}

/// Whether the values of a parameter and of a key are equal: numbers, or a switch that is reported as 0 or 1.
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

/// The default of every key that the installed library knows; null if it has none that can be named.
#[must_use]
pub fn defaults(root: &Root) -> Vec<(String, Value)> {
    let version = root.libcufile().version_numbers();
    let known = KEYS.iter().filter(|known| known.is_in(version));
    known.map(|known| (known.key.to_owned(), known.default(version))).collect()
}
