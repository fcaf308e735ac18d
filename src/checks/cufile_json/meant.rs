//! The value that was probably meant by a value of a wrong type, and the remedy that names a valid one.

use super::environment::LEVELS;
use super::known::{Known, Takes};
use super::syntax::{Kind, Node};
use serde_json::Value;

/// The error of a value that the key does not accept.
pub(super) fn error(known: &Known, node: &Node) -> String {
    let key = known.key;
    match (&known.takes, &node.kind) {
        (Takes::Whole(..), Kind::Number(text)) if text.starts_with('-') => {
            format!("{key} must not be negative, but is {text}")
        }
        (Takes::Each(_) | Takes::Texts | Takes::Paths | Takes::Wholes, Kind::List(items)) => {
            let is_wrong = |item: &&Node| match &item.kind {
                Kind::Text(_) => known.takes == Takes::Wholes,
                Kind::Number(text) => known.takes != Takes::Wholes || text.starts_with('-'),
                Kind::Bool(_) => known.takes != Takes::Wholes,
                _ => true,
            };
            let wrong = items.iter().find(is_wrong).map_or_else(|| "a wrong entry".to_owned(), Node::words);
            format!("{key} must be {}, but has {wrong} in it", known.wants())
        }
        _ => format!("{key} must be {}, but is {}", known.wants(), node.words()),
    }
}

/// The remedy for a value that the key does not accept: the value that was meant, or the valid values and an example.
pub(super) fn remedy(known: &Known, node: &Node) -> String {
    if let Some(fit) = fitting(known, node).filter(|fit| is_allowed(known, fit)) {
        return format!("Write {fit}.");
    }
    if let (Takes::Hex, Kind::Number(text)) = (known.takes, &node.kind)
        && let Ok(number) = text.parse::<u32>()
    {
        return format!("Write \"{number:#x}\", the hexadecimal form of {text}.");
    }
    let name = known.key.rsplit('.').next().unwrap_or(known.key);
    let form = format!("\"{name}\": {}", example(known));
    match known.takes {
        Takes::Switch => format!("Write true or false without quotes, as {form}."),
        Takes::Whole(low, high, step) => {
            let range = if high >= 1 << 53 { format!("of at least {low}") } else { format!("from {low} to {high}") };
            let steps = if step > 1 { format!(" in steps of {step}") } else { String::new() };
            format!("Write a number {range}{steps} without quotes, as {form}.")
        }
        Takes::Signed(low, high) => {
            format!("Write {low} (unlimited) or a number from 1 to {high} without quotes, as {form}.")
        }
        Takes::Int(low, high) => format!("Write a number from {low} to {high} without quotes, as {form}."),
        Takes::Hex => format!("Write at most eight hexadecimal digits in double quotes, as {form}."),
        Takes::Text => format!("Write text in double quotes, as {form}."),
        Takes::Folder => format!("Write an existing directory in double quotes, as {form}."),
        Takes::Level => format!("Write one of {} in double quotes, as {form}.", LEVELS.join(", ")),
        Takes::Ignored(words) | Takes::One(words) => {
            format!("Write one of {} in double quotes, as {form}.", words.join(", "))
        }
        Takes::Each(words) => format!("Write a list of {}, as {form}.", words.join(", ")),
        Takes::Texts => format!("Write a list of text, as {form}."),
        Takes::Paths => format!("Write a list of existing paths, as {form}."),
        Takes::Wholes => format!("Write a list of numbers without quotes, as {form}."),
        Takes::Table => format!("Write mount points with their network cards, as {form}."),
    }
}

/// A valid value as JSON text. It is the default if there is one.
fn example(known: &Known) -> String {
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let default = known.default(None);
    if !is_empty(&default) {
        return default.to_string().replace(',', ", ");
    }
    let name = known.key.rsplit('.').next().unwrap_or(known.key);
    match (known.takes, name) {
        (Takes::Switch, _) => "true",
        (Takes::Hex, "rdma_dc_key") => "\"0xffeeddcc\"",
        (Takes::Hex, _) => "\"0x1f\"",
        (Takes::Folder, _) => "\"/var/log\"",
        (Takes::Paths, "devices") => "[\"/dev/nvme0n1\"]",
        (Takes::Paths, _) => "[\"/mnt/data\"]",
        (Takes::Texts, "drivers") => "[\"nvme\"]",
        (Takes::Texts, "filesystems") => "[\"ext4\"]",
        (Takes::Texts, "rdma_dev_addr_list") => "[\"10.0.0.1\"]",
        (Takes::Texts | Takes::Each(_), _) => "[\"…\"]",
        (Takes::Wholes, "slab_size_kb") => "[1024, 16384]",
        (Takes::Wholes, _) => "[64, 16]",
        (Takes::Table, _) => "{\"/mnt/data\": {\"rdma_dev_addr_list\": [\"10.0.0.1\"]}}",
        (Takes::Whole(..) | Takes::Signed(..) | Takes::Int(..), _) => "1",
        (Takes::Text | Takes::Level | Takes::Ignored(_) | Takes::One(_), _) => "\"…\"",
    }
    .to_owned()
}

/// Whether a number is in the range of its key. Values of other types are.
fn is_allowed(known: &Known, value: &str) -> bool {
    let Ok(number) = value.parse::<i64>() else { return true };
    match known.takes {
        Takes::Whole(low, high, step) => {
            u64::try_from(number).is_ok_and(|number| (low..=high).contains(&number) && number.is_multiple_of(step))
        }
        Takes::Int(low, high) => (low..=high).contains(&number),
        Takes::Signed(low, high) => number != 0 && (low..=high).contains(&number),
        _ => true,
    }
}

/// A value of the required type that was probably meant. Numbers can be outside of the range of their key.
pub(super) fn fitting(known: &Known, node: &Node) -> Option<String> {
    match (&known.takes, &node.kind) {
        (Takes::Switch, Kind::Text(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some("true".to_owned()),
            "false" | "no" | "off" | "0" => Some("false".to_owned()),
            _ => None,
        },
        (Takes::Switch, Kind::Number(text)) => Some(if text == "0" { "false" } else { "true" }.to_owned()),
        (Takes::Whole(..), Kind::Text(text)) => {
            text.trim().parse::<u64>().ok().or_else(|| in_unit(known.key, bytes(text)?)).map(|n| n.to_string())
        }
        (Takes::Signed(..) | Takes::Int(..), Kind::Text(text)) => {
            let plain = text.trim().parse::<i64>().ok();
            plain.or_else(|| i64::try_from(in_unit(known.key, bytes(text)?)?).ok()).map(|n| n.to_string())
        }
        (Takes::Texts | Takes::Paths | Takes::Each(_), Kind::Text(text)) => {
            // Several entries are often written into one text.
            let entries: Vec<&str> = text.split(',').map(str::trim).collect();
            if let Takes::Each(words) = known.takes
                && !entries.iter().all(|entry| words.contains(entry))
            {
                return None;
            }
            Some(format!("[{}]", entries.iter().map(|entry| format!("\"{entry}\"")).collect::<Vec<_>>().join(", ")))
        }
        (Takes::Text, Kind::Number(text)) => Some(format!("\"{text}\"")),
        _ => None,
    }
}

/// The bytes of a size with a unit: `16M`, `128 MB`, `1GiB`. As in cufile.json, K, M and G are powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let scale = match unit.trim_start() {
        "b" | "bytes" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

/// The unit in the name of a key, and its bytes.
fn unit(key: &str) -> Option<(&'static str, u64)> {
    match () {
        () if key.ends_with("_kb") => Some(("KiB", 1 << 10)),
        () if key.ends_with("_mb") => Some(("MiB", 1 << 20)),
        () => None,
    }
}

/// A number of bytes in the unit of a key. `None` if the key is not a size, or the bytes are not a multiple of its unit.
fn in_unit(key: &str, bytes: u64) -> Option<u64> {
    let (_, unit) = unit(key)?;
    bytes.is_multiple_of(unit).then(|| bytes / unit)
}

/// The number in the unit of its key, if a number that is too large was written in bytes, and the name of the unit.
pub(super) fn from_bytes(known: &Known, number: f64) -> Option<(u64, &'static str)> {
    // Larger numbers are not exact.
    if !(1.0..9e15).contains(&number) || number.fract() != 0.0 {
        return None;
    }
    let number = in_unit(known.key, number as u64)?;
    is_allowed(known, &number.to_string()).then_some((number, unit(known.key)?.0))
}
