//! The directory of a model's files in llm-d's connector and vLLM's file-system tier, and the description file that both
//! store next to it.

use super::keys::hex;
use super::shape::Shape;
use crate::core::KvSystem;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Computes the file paths of one model in one configuration.
#[derive(Clone, Debug)]
pub(super) struct FileMapper {
    /// `llama-3.1-8b_<12 digits>`: the model, and a digest of the description.
    base: String,
    /// The fields of the description. The digest is computed from their JSON text without spaces, with the names
    /// sorted.
    fields: Map<String, Value>,
}

impl FileMapper {
    /// The mapper of a system whose files contain blocks of the paged cache; `None` for other systems.
    pub(super) fn new(kind: KvSystem, shape: &Shape, block_tokens: u64, blocks_per_file: u64) -> Option<Self> {
        let names: Vec<String> =
            (0..shape.layers).map(|layer| format!("model.layers.{layer}.self_attn.attn")).collect();
        let (tokens, blocks, group) = match kind {
            KvSystem::Llmd => ("hash_block_size", "gpu_blocks_per_file", "block_size"),
            KvSystem::VllmFs => ("tokens_per_hash", "blocks_per_file", "tokens_per_block"),
            KvSystem::Ucm | KvSystem::Lmcache | KvSystem::LmcacheMp | KvSystem::LmcacheNixl => return None,
        };
        let fields = json!({
            "model_name": shape.name, tokens: block_tokens, blocks: blocks_per_file,
            "tp_size": 1, "pp_size": 1, "pcp_size": 1, "dcp_size": 1,
            "dtype": torch_name(&shape.dtype),
            "kv_cache_groups": [{ group: block_tokens, "layer_names": names }],
            "inference_engine": "vllm",
        });
        let Value::Object(fields) = fields else { return None };
        let digest = hex(&Sha256::digest(Value::Object(fields.clone()).to_string()));
        Some(Self { base: format!("{}_{}", shape.name.replace('/', "_"), &digest[..12]), fields })
    }

    /// The path of a file below the root, without its suffix. It consists of the rank's directory, three digits of the
    /// hash, two more digits with the group of layers, and the hash.
    pub(super) fn file(&self, hash: &str) -> PathBuf {
        let group = format!("{}_g0", &hash[3..5]);
        [format!("{}_r0", self.base).as_str(), &hash[..3], &group, hash].iter().collect()
    }

    /// Writes the description below the root, unless it exists.
    pub(super) fn write_config(&self, root: &Path) -> std::io::Result<()> {
        let folder = root.join(&self.base);
        let file = folder.join("config.json");
        if file.exists() {
            return Ok(());
        }
        std::fs::create_dir_all(&folder)?;
        std::fs::write(file, format!("{:#}", Value::Object(self.fields.clone())))
    }
}

/// The name of an element type in PyTorch.
pub(super) fn torch_name(dtype: &str) -> &str {
    match dtype {
        "BF16" => "bfloat16",
        "F16" => "float16",
        "F32" => "float32",
        "F8_E4M3" => "float8_e4m3fn",
        "F8_E5M2" => "float8_e5m2",
        other => other,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape { name: "meta/Tiny".into(), layers: 2, ..Shape::named("llama-3.1-8b").unwrap() }
    }

    #[test]
    fn names_are_those_that_llm_d_and_vllm_compute() {
        // The expected values were computed with hashlib and `json.dumps(fields, sort_keys=True, separators=(",",
        // ":"))`, as in file_mapper.py of llm-d's connector 0.22 and of vLLM.
        for (kind, base) in [(KvSystem::Llmd, "meta_Tiny_248157dddcc7"), (KvSystem::VllmFs, "meta_Tiny_b139eb3b399b")] {
            let mapper = FileMapper::new(kind, &shape(), 16, 16).unwrap();
            assert_eq!(mapper.base, base, "{}", Value::Object(mapper.fields));
            assert_eq!(
                mapper.file("0123456789abcdef").to_str().unwrap(),
                format!("{base}_r0/012/34_g0/0123456789abcdef")
            );
        }
        assert!(FileMapper::new(KvSystem::Ucm, &shape(), 16, 16).is_none());
    }

    #[test]
    fn the_description_is_written_once_and_is_json() {
        let root = tempfile::tempdir().unwrap();
        let mapper = FileMapper::new(KvSystem::Llmd, &shape(), 16, 16).unwrap();
        mapper.write_config(root.path()).unwrap();
        let file = root.path().join(&mapper.base).join("config.json");
        let read: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!((&read["gpu_blocks_per_file"], &read["dtype"]), (&json!(16), &json!("bfloat16")));
        std::fs::write(&file, "kept").unwrap();
        mapper.write_config(root.path()).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }
}
