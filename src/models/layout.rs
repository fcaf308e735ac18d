//! The layout of a synthetic model's files: all bytes except the random data.

use super::dtype;
use super::error::WeightsError;
use super::locate::INDEX_NAME;
use super::marker;
use super::profile::{Profile, Shape};
use serde_json::{Map, Value, json};

/// Maximum scale of a profile.
pub const MAX_SCALE: f64 = 4.0;

/// Layout of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLayout {
    /// File name in the directory.
    pub file_name: String,
    /// Length field and header, padded so that the data begins at a multiple of eight bytes.
    pub head: Vec<u8>,
    /// Number of tensor bytes after the header.
    pub data_bytes: u64,
}

/// Layout of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The shards in order.
    pub files: Vec<FileLayout>,
    /// Name and text of the index; `None` for a model of one file, because publishers add no index to these.
    pub index: Option<(String, String)>,
    /// The mark that each file contains.
    pub mark: String,
}

impl Layout {
    /// Total size of all files in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        let files: u64 = self.files.iter().map(|f| f.head.len() as u64 + f.data_bytes).sum();
        files + self.index.as_ref().map_or(0, |(_, text)| text.len() as u64)
    }
}

/// Creates the layout of a profile's files. `scale` multiplies the first dimension of every tensor; the product is at least 1.
/// Names, number and order of the tensors and their division into files do not change. Within a file, the tensors
/// have the order of the safetensors writer: larger element types first, then by name.
///
/// # Errors
/// Fails if the scale is not in (0, 4] or the profile is damaged.
pub fn lay_out(profile: &Profile, scale: f64, seed: u64) -> Result<Layout, WeightsError> {
    if !(scale > 0.0 && scale <= MAX_SCALE) {
        return Err(WeightsError::BadScale { scale });
    }
    let mark = marker::text(&profile.name, scale, seed);
    let shards = profile.shards()?;
    let count = shards.len();
    let mut files = Vec::with_capacity(count);
    let mut weight_map: Vec<(String, String)> = Vec::new();
    let mut total_size = 0_u64;
    for (number, shard) in shards.into_iter().enumerate() {
        let file_name = if count == 1 {
            "model.safetensors".to_owned()
        } else {
            format!("model-{:05}-of-{count:05}.safetensors", number + 1)
        };
        weight_map.extend(shard.iter().map(|t| (t.name.clone(), file_name.clone())));
        let (head, data_bytes) = head(profile, shard, scale, &mark)?;
        total_size += data_bytes;
        files.push(FileLayout { file_name, head, data_bytes });
    }
    let index = (count > 1).then(|| {
        let map: Map<String, Value> =
            weight_map.into_iter().map(|(tensor, file)| (tensor, Value::from(file))).collect();
        let index = json!({ "metadata": { marker::KEY: mark, "total_size": total_size }, "weight_map": map });
        (INDEX_NAME.to_owned(), format!("{index:#}\n"))
    });
    Ok(Layout { files, index, mark })
}

fn head(profile: &Profile, mut shard: Vec<Shape>, scale: f64, mark: &str) -> Result<(Vec<u8>, u64), WeightsError> {
    let damaged = |problem: String| WeightsError::BadProfile { name: profile.name.clone(), problem };
    shard.sort_by(|a, b| dtype::rank(&b.dtype).cmp(&dtype::rank(&a.dtype)).then_with(|| a.name.cmp(&b.name)));
    // The JSON is written without a map, so that the entries have the order of the bytes.
    let mut text = format!("{{\"__metadata__\":{}", json!({ "format": "pt", marker::KEY: mark }));
    let mut at = 0_u64;
    for tensor in shard {
        let mut shape = tensor.shape;
        if let Some(first) = shape.first_mut() {
            *first = ((*first as f64 * scale).round() as u64).max(1);
        }
        let bytes = dtype::tensor_bytes(&tensor.dtype, &shape)
            .map_err(|problem| damaged(format!("tensor {}: {problem:?}", tensor.name)))?;
        let end = at.checked_add(bytes).ok_or_else(|| damaged("its sizes overflow".to_owned()))?;
        text.push_str(&format!(
            ",{}:{}",
            Value::from(tensor.name),
            json!({ "dtype": tensor.dtype, "shape": shape, "data_offsets": [at, end] })
        ));
        at = end;
    }
    text.push('}');
    while text.len() % 8 != 0 {
        text.push(' ');
    }
    let mut head = (text.len() as u64).to_le_bytes().to_vec();
    head.extend_from_slice(text.as_bytes());
    Ok((head, at))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_outside_of_the_range_is_refused() {
        let profile = Profile::named("qwen3-0.6b").unwrap();
        for scale in [0.0, -1.0, 4.1, f64::NAN, f64::INFINITY] {
            assert!(matches!(lay_out(&profile, scale, 0), Err(WeightsError::BadScale { .. })), "{scale}");
        }
    }

    #[test]
    fn a_scale_keeps_names_number_and_files() {
        for name in ["qwen2.5-7b", "qwen3-8b-fp8"] {
            let profile = Profile::named(name).unwrap();
            for scale in [0.0001, 0.3, 2.0] {
                let layout = lay_out(&profile, scale, 0).unwrap();
                assert_eq!(layout.files.len() as u64, profile.shards_total);
                let tensors: usize =
                    layout.files.iter().map(|f| String::from_utf8_lossy(&f.head).matches("data_offsets").count()).sum();
                assert_eq!(tensors as u64, profile.tensors_total);
            }
            let data: u64 = lay_out(&profile, 1.0, 0).unwrap().files.iter().map(|f| f.data_bytes).sum();
            assert_eq!(data, profile.bytes_total);
        }
    }

    #[test]
    fn larger_element_types_come_first_in_a_file() {
        let layout = lay_out(&Profile::named("qwen3-8b-fp8").unwrap(), 0.01, 0).unwrap();
        let head = String::from_utf8_lossy(&layout.files[0].head).into_owned();
        assert!(head.rfind("\"BF16\"").unwrap() < head.find("\"F8_E4M3\"").unwrap());
    }
}
