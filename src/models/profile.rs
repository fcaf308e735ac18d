//! Shape profiles: the tensor shapes of published models, as data that is compiled into the program.

use super::dtype;
use super::error::{WeightsError, name_text};
use serde::Deserialize;

/// Names and texts of the profiles.
const EMBEDDED: [(&str, &str); 11] = [
    ("qwen3-0.6b", include_str!("../../profiles/models/qwen3-0.6b.json")),
    ("qwen2.5-7b", include_str!("../../profiles/models/qwen2.5-7b.json")),
    ("llama-3.1-8b", include_str!("../../profiles/models/llama-3.1-8b.json")),
    ("llama-3.1-70b", include_str!("../../profiles/models/llama-3.1-70b.json")),
    ("llama-3.1-405b", include_str!("../../profiles/models/llama-3.1-405b.json")),
    ("qwen3-30b-a3b", include_str!("../../profiles/models/qwen3-30b-a3b.json")),
    ("qwen3-8b-fp8", include_str!("../../profiles/models/qwen3-8b-fp8.json")),
    ("odd-sizes", include_str!("../../profiles/models/odd-sizes.json")),
    ("tiny-tensors", include_str!("../../profiles/models/tiny-tensors.json")),
    ("one-huge", include_str!("../../profiles/models/one-huge.json")),
    ("many-shards", include_str!("../../profiles/models/many-shards.json")),
];

/// The names, shapes and types of a published model's tensors, and their division into files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name on the command line, for example `qwen3-0.6b`.
    pub name: String,
    /// Name in the publisher's spelling.
    pub title: String,
    /// The checkpoint with these shapes.
    pub source: String,
    /// Number of tensors of the checkpoint.
    pub tensors_total: u64,
    /// Number of tensor bytes of the checkpoint.
    pub bytes_total: u64,
    /// Number of files of the checkpoint.
    pub shards_total: u64,
    /// Maximum file size in bytes that the publisher's tool used. A file is complete if the next tensor would exceed
    /// this size.
    pub max_shard_bytes: u64,
    /// The tensors in the order in which the model registers them. The files are cut in this order.
    pub tensors: Vec<Template>,
}

/// A tensor, or a group of tensors that is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Template {
    /// One tensor. `{layer}` in the name is replaced by the number of the surrounding repetition with that name.
    Tensor {
        /// Name.
        name: String,
        /// Element type.
        dtype: String,
        /// Shape.
        shape: Vec<u64>,
    },
    /// A group of tensors that is repeated.
    Repeat {
        /// The word in braces that is replaced by the number of the repetition.
        repeat: String,
        /// The number of repetitions. They are numbered from 0.
        count: u64,
        /// The repeated tensors.
        tensors: Vec<Template>,
    },
}

/// A tensor of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Shape.
    pub shape: Vec<u64>,
}

impl Profile {
    /// The names of all profiles.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        EMBEDDED.iter().map(|(name, _)| *name).collect()
    }

    /// The profile with this name.
    ///
    /// # Errors
    /// Fails if no profile has this name. The error lists the existing names.
    pub fn named(name: &str) -> Result<Self, WeightsError> {
        let wanted = name.trim().to_ascii_lowercase();
        let Some((name, text)) = EMBEDDED.iter().find(|(known, _)| *known == wanted) else {
            return Err(WeightsError::UnknownProfile {
                name: name_text(name).trim_matches('\'').to_owned(),
                known: Self::names(),
            });
        };
        serde_json::from_str(text)
            .map_err(|error| WeightsError::BadProfile { name: (*name).to_owned(), problem: error.to_string() })
    }

    /// All tensors in the order of registration, with the repetitions expanded.
    #[must_use]
    pub fn expand(&self) -> Vec<Shape> {
        let mut out = Vec::with_capacity(usize::try_from(self.tensors_total).unwrap_or(0).min(1 << 20));
        expand(&self.tensors, &mut Vec::new(), &mut out);
        out
    }

    /// The tensors of each file, divided as the publisher's tool divides them.
    ///
    /// # Errors
    /// Fails if the profile contains an unknown type or an invalid size.
    pub fn shards(&self) -> Result<Vec<Vec<Shape>>, WeightsError> {
        let mut shards: Vec<Vec<Shape>> = vec![Vec::new()];
        let mut filled = 0_u64;
        for tensor in self.expand() {
            let bytes =
                dtype::tensor_bytes(&tensor.dtype, &tensor.shape).map_err(|problem| WeightsError::BadProfile {
                    name: self.name.clone(),
                    problem: format!("tensor {}: {problem:?}", tensor.name),
                })?;
            if filled > 0 && filled.saturating_add(bytes) > self.max_shard_bytes {
                shards.push(Vec::new());
                filled = 0;
            }
            filled = filled.saturating_add(bytes);
            if let Some(last) = shards.last_mut() {
                last.push(tensor);
            }
        }
        Ok(shards)
    }
}

fn expand(templates: &[Template], numbers: &mut Vec<(String, u64)>, out: &mut Vec<Shape>) {
    for template in templates {
        match template {
            Template::Tensor { name, dtype, shape } => {
                let mut name = name.clone();
                for (word, number) in numbers.iter() {
                    name = name.replace(word, &number.to_string());
                }
                out.push(Shape { name, dtype: dtype.clone(), shape: shape.clone() });
            }
            Template::Repeat { repeat, count, tensors } => {
                for number in 0..*count {
                    numbers.push((format!("{{{repeat}}}"), number));
                    expand(tensors, numbers, out);
                    numbers.pop();
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_profile_has_the_totals_of_the_published_checkpoint() {
        for (name, tensors, bytes, shards) in [
            ("qwen3-0.6b", 311, 1_503_264_768, 1),
            ("qwen2.5-7b", 339, 15_231_233_024, 4),
            ("llama-3.1-8b", 291, 16_060_522_496, 4),
            ("llama-3.1-70b", 723, 141_107_412_992, 30),
            ("llama-3.1-405b", 1137, 811_706_777_600, 191),
            ("qwen3-30b-a3b", 18_867, 61_064_245_248, 16),
            ("qwen3-8b-fp8", 651, 9_436_551_168, 2),
        ] {
            let profile = Profile::named(name).unwrap();
            let all = profile.expand();
            let sum: u64 = all.iter().map(|t| dtype::tensor_bytes(&t.dtype, &t.shape).unwrap()).sum();
            let files = profile.shards().unwrap().len() as u64;
            assert_eq!((all.len() as u64, sum, files), (tensors, bytes, shards), "{name}");
            assert_eq!(
                (profile.tensors_total, profile.bytes_total, profile.shards_total),
                (tensors, bytes, shards),
                "{name}: the totals in the profile"
            );
            assert_eq!(profile.name, name);
            let distinct: BTreeSet<&str> = all.iter().map(|t| t.name.as_str()).collect();
            assert_eq!(distinct.len(), all.len(), "{name}: a name occurs twice");
            assert!(!all.iter().any(|t| t.name.contains(['{', '}'])), "{name}: a word was not replaced");
        }
    }

    #[test]
    fn the_cut_gives_the_files_of_the_published_checkpoint() {
        // Sizes of the published files minus their headers. Llama-3.1-8B has files of 4976698672, 4999802720,
        // 4915916176 and 1168138808 bytes.
        let sizes = |name: &str| -> Vec<u64> {
            let shards = Profile::named(name).unwrap().shards().unwrap();
            let bytes = |t: &Shape| dtype::tensor_bytes(&t.dtype, &t.shape).unwrap();
            shards.iter().map(|shard| shard.iter().map(bytes).sum()).collect()
        };
        assert_eq!(sizes("llama-3.1-8b"), [4_976_689_152, 4_999_790_592, 4_915_904_512, 1_168_138_240]);
        assert_eq!(sizes("qwen2.5-7b"), [3_945_417_728, 3_864_715_264, 3_864_715_264, 3_556_384_768]);
    }

    #[test]
    fn an_unknown_profile_is_answered_with_the_known_ones() {
        let said = Profile::named("gpt-5\u{1b}[2J").unwrap_err().to_string();
        assert!(said.contains("qwen3-0.6b") && said.contains("llama-3.1-70b"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }

    #[test]
    fn repeats_nest_and_every_word_is_replaced() {
        let profile = Profile::named("qwen3-30b-a3b").unwrap();
        let names: BTreeSet<String> = profile.expand().into_iter().map(|t| t.name).collect();
        assert!(names.contains("model.layers.47.mlp.experts.127.down_proj.weight"));
        assert!(!names.contains("model.layers.48.mlp.gate.weight"));
    }
}
