//! The shape of a model's KV cache, which determines the bytes per token and layer.

use crate::trust::read_regular;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Maximum size of a shape file in bytes.
const MOST_BYTES: u64 = 64 << 10;
/// Maximum length of a name in characters.
const MOST_NAME: usize = 64;

const EMBEDDED: [(&str, &str); 6] = [
    ("qwen3-0.6b", include_str!("../../../profiles/kv/qwen3-0.6b.json")),
    ("qwen2.5-7b", include_str!("../../../profiles/kv/qwen2.5-7b.json")),
    ("qwq-32b", include_str!("../../../profiles/kv/qwq-32b.json")),
    ("llama-3.1-8b", include_str!("../../../profiles/kv/llama-3.1-8b.json")),
    ("llama-3.1-70b", include_str!("../../../profiles/kv/llama-3.1-70b.json")),
    ("deepseek-v3", include_str!("../../../profiles/kv/deepseek-v3.json")),
];

/// The fields of a shape file.
const FIELDS: [&str; 9] = ["name", "title", "source", "layers", "kv_heads", "head_size", "dtype", "dtype_bytes", "mla"];

/// The shape of a KV cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Name on the command line, for example `qwen2.5-7b`.
    pub name: String,
    /// Name in the publisher's spelling.
    pub title: String,
    /// The source of the numbers.
    pub source: String,
    /// Number of layers.
    pub layers: u64,
    /// Number of key and value heads (after grouping); 1 with MLA.
    pub kv_heads: u64,
    /// Number of elements per head. With MLA, number of elements in the single vector of a token.
    pub head_size: u64,
    /// Name of the element type.
    pub dtype: String,
    /// Size of an element in bytes.
    pub dtype_bytes: u64,
    /// Whether the model has multi-head latent attention (MLA): a single vector per token instead of keys and values.
    pub mla: bool,
}

impl Shape {
    /// The names of the shipped shapes.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        EMBEDDED.iter().map(|(name, _)| *name).collect()
    }

    /// A shipped shape by name, or a shape from a JSON file with the same format.
    ///
    /// # Errors
    /// Returns a sentence if there is no such name or file, or if its numbers are invalid.
    pub fn named(name: &str) -> Result<Self, String> {
        let text = match EMBEDDED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => (*text).to_owned(),
            None if Path::new(name).is_file() => {
                let bytes = read_regular(Path::new(name), MOST_BYTES);
                let bytes = bytes.map_err(|error| format!("the shape {name} cannot be read: {error}"))?;
                String::from_utf8(bytes).map_err(|_| format!("the shape {name} is not UTF-8 text"))?
            }
            None => {
                return Err(format!(
                    "'{name}' is not a shape or a file; known shapes: {}; a JSON file of the same form is accepted",
                    Self::names().join(", ")
                ));
            }
        };
        let malformed = |e: serde_json::Error| format!("the shape {name} is malformed: {e}");
        let value: serde_json::Value = serde_json::from_str(&text).map_err(malformed)?;
        let missing: Vec<&str> = FIELDS.into_iter().filter(|field| value.get(field).is_none()).collect();
        if value.is_object() && !missing.is_empty() {
            return Err(format!("the shape {name} has no {}", missing.join(", ")));
        }
        // The text gives an error with its line.
        let shape: Self = serde_json::from_str(&text).map_err(malformed)?;
        shape.check()?;
        Ok(shape)
    }

    fn check(&self) -> Result<(), String> {
        let within = |what: &str, value: u64, most: u64| match value {
            1.. if value <= most => Ok(()),
            _ => Err(format!("the shape {}: {what} is {value}, but must be 1 to {most}", self.name)),
        };
        // Both appear in reports, on terminals and in a chunk's header.
        for (what, text) in [("name", &self.name), ("dtype", &self.dtype)] {
            let plain = text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
            if text.trim().is_empty() || text.len() > MOST_NAME || !plain {
                return Err(format!(
                    "the {what} of a shape must have 1 to {MOST_NAME} plain characters, but is {text:.80?}"
                ));
            }
        }
        within("layers", self.layers, 1000)?;
        within("kv_heads", self.kv_heads, 1024)?;
        within("head_size", self.head_size, 65_536)?;
        match self.dtype_bytes {
            1 | 2 | 4 | 8 => Ok(()),
            other => Err(format!("the shape {}: dtype_bytes is {other}, but must be 1, 2, 4 or 8", self.name)),
        }
    }

    /// Vectors per token and layer: two for key and value, or one for MLA.
    #[must_use]
    pub const fn vectors(&self) -> u64 {
        if self.mla { 1 } else { 2 }
    }

    /// Bytes of one vector of a token in one layer.
    #[must_use]
    pub const fn vector_bytes(&self) -> u64 {
        self.kv_heads * self.head_size * self.dtype_bytes
    }

    /// Bytes per token in one layer.
    #[must_use]
    pub const fn layer_token_bytes(&self) -> u64 {
        self.vectors() * self.vector_bytes()
    }

    /// Bytes per token in all layers.
    #[must_use]
    pub const fn token_bytes(&self) -> u64 {
        self.layers * self.layer_token_bytes()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_shapes_have_the_published_sizes() {
        let token = |name: &str| Shape::named(name).unwrap().token_bytes();
        // Llama-3.1-8B in bf16: 4 KiB per token and layer, 128 KiB per token.
        assert_eq!(token("llama-3.1-8b"), 128 << 10);
        assert_eq!(token("qwen2.5-7b"), 56 << 10);
        assert_eq!(token("llama-3.1-70b"), 320 << 10);
        // MLA has one vector of 576 elements: 1152 bytes per token and layer, 147 456 bytes per block of 128 tokens.
        assert_eq!(token("deepseek-v3"), 61 * 1152);
        for name in Shape::names() {
            assert_eq!(Shape::named(name).unwrap().name, name);
        }
    }

    #[test]
    fn all_missing_fields_of_a_shape_file_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shape.json");
        std::fs::write(&file, r#"{"name":"a","title":"A","source":"s","layers":2,"kv_heads":1}"#).unwrap();
        let said = Shape::named(file.to_str().unwrap()).unwrap_err();
        assert!(said.ends_with("has no head_size, dtype, dtype_bytes, mla"), "{said}");
    }

    #[test]
    fn unknown_and_impossible_shapes_are_refused_with_a_sentence() {
        assert!(Shape::named("gpt-9").unwrap_err().contains("known shapes: qwen3-0.6b"));
        let mut shape = Shape::named("qwen3-0.6b").unwrap();
        shape.layers = 0;
        assert!(shape.check().unwrap_err().contains("layers is 0"));
        (shape.layers, shape.dtype_bytes) = (1, 3);
        assert!(shape.check().unwrap_err().contains("1, 2, 4 or 8"));
        shape.dtype_bytes = 2;
        assert_eq!(shape.check(), Ok(()));
        for name in [
            String::new(),
            "a".repeat(65),
            "\u{1b}[31mred".to_owned(),
            "a\u{202e}b".to_owned(),
            "two\nlines".to_owned(),
        ] {
            shape.name = name;
            let said = shape.check().unwrap_err();
            assert!(said.contains("plain characters") && !said.contains('\u{1b}') && said.len() < 200, "{said}");
        }
        let long = tempfile::NamedTempFile::new().unwrap();
        long.as_file().set_len(MOST_BYTES + 1).unwrap();
        assert!(Shape::named(long.path().to_str().unwrap()).unwrap_err().contains("longer than"));
    }
}
