//! Deserializers for captures that other versions or users wrote. A field that is missing, null or of a similar type
//! is not an error.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Text from a string, a number or a list. The elements of a list are joined by commas. Any other value becomes `None`.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(as_text(&Value::deserialize(deserializer)?))
}

/// Like [`text`], but a missing value becomes an empty string.
pub(super) fn string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(as_text(&Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Like [`flag`], but a missing value becomes false.
pub(super) fn yes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(flag(deserializer)?.unwrap_or(false))
}

/// Like [`number32`], but a missing value becomes 0.
pub(super) fn index<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Ok(number32(deserializer)?.unwrap_or(0))
}

/// Deserializes a value; returns the default if the value cannot be read.
pub(super) fn part<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: serde::de::DeserializeOwned + Default,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// An integer from a number or from a string in decimal or `0x` notation. Any other value becomes `None`.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(as_number(&Value::deserialize(deserializer)?))
}

/// Like [`number`], but for 32 bits. A larger number becomes `None`.
pub(super) fn number32<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    Ok(as_number(&Value::deserialize(deserializer)?).and_then(|n| u32::try_from(n).ok()))
}

/// A signed 32-bit integer. Any other value becomes `None`.
pub(super) fn signed32<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value
        .as_i64()
        .or_else(|| value.as_str().and_then(|s| s.trim().parse().ok()))
        .and_then(|n| i32::try_from(n).ok()))
}

/// A boolean from a boolean, 0 or 1, or a word such as `yes`. Any other value becomes `None`.
pub(super) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Bool(b) => Some(b),
        Value::Number(n) => n.as_i64().map(|n| n != 0),
        Value::String(s) => match s.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "enabled" => Some(true),
            "false" | "0" | "no" | "off" | "disabled" => Some(false),
            _ => None,
        },
        _ => None,
    })
}

/// A list. Any other value becomes an empty list, and elements that cannot be read are skipped.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    Ok(match Value::deserialize(deserializer)? {
        Value::Array(items) => items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect(),
        _ => Vec::new(),
    })
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        Value::Array(items) => Some(items.iter().filter_map(as_text).collect::<Vec<_>>().join(",")),
        _ => None,
    }
}

fn as_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64(),
        Value::String(s) => {
            let s = s.trim();
            match s.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => s.parse().ok(),
            }
        }
        _ => None,
    }
}
