//! The text of a configuration: YAML or JSON as a map of options, or a command line with environment and flags.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Reads a file that a configuration names.
pub type OpenFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Flags of early guides. vLLM has `--kv-transfer-config` instead.
const FOREIGN_FLAGS: [&str; 3] = ["kv-connector", "kv-role", "kv-connector-extra-config"];

/// The connector of vLLM that contains other ones.
pub(super) const MULTI: &str = "MultiConnector";

/// A parsed configuration and its environment.
#[derive(Clone)]
pub(super) struct Source {
    map: Value,
    flags: Vec<(String, String)>,
    environment: BTreeMap<String, String>,
    connector: Option<Value>,
}

impl Source {
    pub(super) fn new(text: &str, environment: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut source = Self {
            map: Value::Object(Map::new()),
            flags: Vec::new(),
            environment: environment.clone(),
            connector: None,
        };
        // JSON is a subset of YAML.
        match serde_saphyr::from_str::<Value>(text) {
            Ok(map @ Value::Object(_)) => source.map = map,
            // YAML joins the lines of a text and keeps the backslashes at their ends, so the original is read first.
            Ok(Value::String(line)) => source.command(text).or_else(|_| source.command(&line))?,
            Ok(_) => return Err("it is neither a map of options nor a command line".to_owned()),
            Err(error) => source.command(text).map_err(|_| format!("it is malformed: {error}"))?,
        }
        Ok(source)
    }

    /// Parses the flags of a command line and the variables in front of it.
    fn command(&mut self, text: &str) -> Result<(), String> {
        let words = shlex::split(&text.replace("\\\n", " ")).ok_or("a quote is not closed")?;
        let mut words = words.iter().peekable();
        let mut any = false;
        while let Some(word) = words.next() {
            if let Some(flag) = word.strip_prefix("--") {
                any = true;
                let (name, value) = match flag.split_once('=') {
                    Some((name, value)) => (name, value.to_owned()),
                    None => (flag, words.next_if(|next| !next.starts_with("--")).cloned().unwrap_or_default()),
                };
                self.flags.push((name.to_owned(), value));
            } else if let Some((name, value)) = word.split_once('=') {
                any |= name.starts_with("LMCACHE_");
                self.environment.insert(name.to_owned(), value.to_owned());
            }
        }
        if any { Ok(()) } else { Err("it has no flags and no options".to_owned()) }
    }

    /// The options.
    pub(super) const fn map(&self) -> &Value {
        &self.map
    }

    /// The value of a flag, the last one if it is repeated. It is empty for a flag without a value.
    pub(super) fn flag(&self, name: &str) -> Option<&str> {
        self.flag_values(name).last()
    }

    /// The values of a flag that can be repeated.
    pub(super) fn flag_values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.flags.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The environment, with the variables in front of a command.
    pub(super) const fn variables(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// The value of an environment variable.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// vLLM's `--kv-transfer-config`: the value of the flag, or the map itself. `--kv-connector` and the other flags for
    /// single keys override it, also in the form `--kv-transfer-config.kv_connector`.
    pub(super) fn transfer_config(&self) -> Result<Value, String> {
        let json = |flag: &str, text: &str| {
            serde_json::from_str::<Value>(text).map_err(|error| format!("--{flag} is malformed: {error}"))
        };
        let mut config = match self.flag("kv-transfer-config") {
            Some(text) => json("kv-transfer-config", text)?,
            None => self.map.clone(),
        };
        for (flag, value) in &self.flags {
            let name = flag.strip_prefix("kv-transfer-config.").unwrap_or(flag).replace('-', "_");
            let value = match (name.as_str(), value.split_once('=')) {
                ("kv_connector", _) => Value::String(value.clone()),
                // The form of an early guide: one entry, and no JSON.
                ("kv_connector_extra_config", Some((name, value))) if !name.contains('{') => json!({name: value}),
                ("kv_connector_extra_config", _) => json(flag, value)?,
                _ => continue,
            };
            if let Value::Object(map) = &mut config {
                map.insert(name, value);
            }
        }
        Ok(config)
    }

    /// The flags of early guides that no version of vLLM has, with their values.
    pub(super) fn foreign_flags(&self) -> impl Iterator<Item = (&str, &str)> {
        let flags = self.flags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        flags.filter(|(name, _)| FOREIGN_FLAGS.contains(name))
    }

    /// Whether the text is the content of LMCache's file: options without a connector of vLLM.
    pub(super) fn is_options_file(&self) -> bool {
        let mut names = self.map.as_object().into_iter().flat_map(|map| map.keys());
        self.map.get("kv_connector").is_none() && names.any(|name| !name.starts_with("lmcache."))
    }

    /// Whether it is vLLM's configuration with several connectors.
    pub(super) fn has_several_connectors(&self) -> bool {
        self.transfer_config().is_ok_and(|config| config.get("kv_connector").is_some_and(|name| name == MULTI))
    }

    /// Sets the options of a connector that another text contains.
    pub(super) fn set_connector(&mut self, options: Value) {
        self.connector = Some(options);
    }

    /// The options of a connector: `kv_connector_extra_config`, or the map itself.
    pub(super) fn extra_config(&self) -> Value {
        if let Some(options) = &self.connector {
            return options.clone();
        }
        let config = self.transfer_config().unwrap_or_default();
        config.get("kv_connector_extra_config").cloned().unwrap_or(config)
    }
}
