//! Recognises the KV-cache store in a directory by its file names: LMCache's chunks and slab, the files of llm-d and
//! vLLM, and UCM's blocks. Links are not followed.

use super::chunk::{DATA_SUFFIX, HEADER_BYTES, Header, METADATA_SUFFIX};
use crate::core::{KvStore, KvSystem};
use crate::trust::{open_regular, read_regular};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The suffix of LMCache's chunks on wekafs.
const WEKA_SUFFIX: &str = ".weka1";
/// Maximum number of files and directories that are examined, and maximum depth of directories.
const MOST_FILES: u64 = 200_000;
const DEEPEST: usize = 6;
/// Maximum size of a description in bytes.
const MOST_DESCRIPTION_BYTES: u64 = 1 << 20;
/// Maximum number of models that are named.
const MOST_MODELS: usize = 16;

/// A store with its models in order.
struct Found {
    store: KvStore,
    models: BTreeSet<String>,
}

/// The findings of the search so far.
struct Search {
    found: Vec<Found>,
    seen: u64,
    truncated: bool,
}

/// The stores in a directory, one for each system whose file names it contains.
#[must_use]
pub fn recognise(folder: &Path) -> Vec<KvStore> {
    let mut search = Search { found: Vec::new(), seen: 0, truncated: false };
    search.walk(folder, 0, KvSystem::Llmd);
    let truncated = search.truncated;
    let stores = search.found.into_iter().map(|found| KvStore {
        models: found.models.into_iter().take(MOST_MODELS).collect(),
        truncated,
        ..found.store
    });
    stores.filter(|store| store.files > 0).collect()
}

impl Search {
    /// `described` is the system of files in the form of llm-d and vLLM, from the description file above them.
    fn walk(&mut self, folder: &Path, depth: usize, described: KvSystem) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let described = described_by(folder).and_then(|file| self.description(&file)).unwrap_or(described);
        for entry in entries.flatten() {
            if self.seen >= MOST_FILES {
                self.truncated = true;
                return;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEEPEST {
                self.seen += 1;
                self.walk(&entry.path(), depth + 1, described);
            } else if kind.is_file() {
                self.seen += 1;
                self.file(&entry.path(), entry.metadata().map_or(0, |data| data.len()), described);
            }
        }
    }

    fn file(&mut self, path: &Path, bytes: u64, described: KvSystem) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        if name == super::layout::SLAB {
            self.add(KvSystem::LmcacheMp, bytes);
        } else if let Some(key) = [DATA_SUFFIX, WEKA_SUFFIX].iter().find_map(|suffix| name.strip_suffix(suffix)) {
            self.add(KvSystem::Lmcache, bytes);
            let found = self.of(KvSystem::Lmcache);
            if !path.with_file_name(format!("{name}{METADATA_SUFFIX}")).is_file() {
                found.store.without_metadata += 1;
            }
            found.models.extend(unquoted(key).split('@').next().map(str::to_owned));
            if found.store.shape.is_empty() {
                found.store.shape = header(path).map_or_else(Vec::new, |header| header.shape.to_vec());
            }
        } else if name.contains(DATA_SUFFIX) && name.contains(".tmp") {
            self.of(KvSystem::Lmcache).store.partial += 1;
        } else if is_pool_file(name) {
            self.add(KvSystem::LmcacheNixl, bytes);
        } else if let Some(hash) = name.strip_suffix(".bin").filter(|hash| is_hex(hash)) {
            // Two digits of the hash and the group: `de_g0`.
            let group = folder.split_once("_g").filter(|(digits, _)| hash.get(3..5) == Some(digits));
            if group.is_some() {
                self.add(described, bytes);
            }
        } else if name.ends_with(".tmp") && folder.contains("_g") {
            self.of(described).store.partial += 1;
        } else if let Some((hash, ending)) = name.split_once('.') {
            let both = [hash, folder].iter().all(|half| half.len() == 16 && is_hex(half));
            match ending {
                "dat" if both => self.add(KvSystem::Ucm, bytes),
                "act" if both => self.of(KvSystem::Ucm).store.partial += 1,
                _ => {}
            }
        }
    }

    /// The store of a system.
    fn of(&mut self, system: KvSystem) -> &mut Found {
        let at = self.found.iter().position(|found| found.store.system == system.name()).unwrap_or_else(|| {
            let store = KvStore {
                system: system.name().to_owned(),
                files: 0,
                bytes: 0,
                partial: 0,
                without_metadata: 0,
                models: Vec::new(),
                shape: Vec::new(),
                truncated: false,
            };
            self.found.push(Found { store, models: BTreeSet::new() });
            self.found.len() - 1
        });
        &mut self.found[at]
    }

    fn add(&mut self, system: KvSystem, bytes: u64) {
        let store = &mut self.of(system).store;
        store.files += 1;
        store.bytes += bytes;
    }

    /// Reads the description file that llm-d and vLLM write next to a model's files.
    fn description(&mut self, path: &Path) -> Option<KvSystem> {
        let text = read_regular(path, MOST_DESCRIPTION_BYTES).ok()?;
        let described: serde_json::Value = serde_json::from_slice(&text).ok()?;
        let system = match (described.get("gpu_blocks_per_file"), described.get("blocks_per_file")) {
            (Some(_), _) => KvSystem::Llmd,
            (None, Some(_)) => KvSystem::VllmFs,
            (None, None) => return None,
        };
        let model = described.get("model_name").and_then(|name| name.as_str()).map(str::to_owned);
        self.of(system).models.extend(model);
        Some(system)
    }
}

/// The description file of a directory with files: `MODEL_DIGEST/config.json` for `MODEL_DIGEST_r0`.
fn described_by(folder: &Path) -> Option<PathBuf> {
    let (base, rank) = folder.file_name()?.to_str()?.rsplit_once("_r")?;
    rank.bytes().all(|digit| digit.is_ascii_digit()).then(|| folder.with_file_name(base).join("config.json"))
}

/// Whether this is the name of a file in the pool of LMCache's back end on NIXL: `obj_17_9f3c.bin`.
fn is_pool_file(name: &str) -> bool {
    let middle = name.strip_prefix("obj_").and_then(|rest| rest.strip_suffix(".bin"));
    middle.and_then(|middle| middle.split_once('_')).is_some_and(|(number, digits)| {
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) && digits.len() == 4 && is_hex(digits)
    })
}

/// Decodes the percent encoding of a file name. Invalid parts stay as they are.
fn unquoted(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok()).filter(|two| is_hex(two));
        match digits.filter(|_| *first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn header(path: &Path) -> Option<Header> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
    open_regular(path).ok()?.take(HEADER_BYTES).read_to_end(&mut bytes).ok()?;
    Header::decode(&bytes).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::workloads::kv::layout::{Layout, tests::order};
    use crate::workloads::kv::store;

    #[test]
    fn each_store_is_recognised_by_the_files_that_bench_kv_writes() {
        for kind in KvSystem::ALL {
            let folder = tempfile::tempdir().unwrap();
            let set: &[(&str, u64)] = match kind {
                KvSystem::Ucm => &[("block_tokens", 64)],
                KvSystem::Llmd | KvSystem::VllmFs => &[("block_size", 64)],
                KvSystem::Lmcache | KvSystem::LmcacheMp | KvSystem::LmcacheNixl => &[("chunk_size", 64)],
            };
            let mut order = order(kind, 256, 1, set);
            order.folder = folder.path().to_owned();
            let settings = order.settings(&format!("{}/disk/write", kind.name()).parse().unwrap());
            let layout = Layout::new(&order, &settings, true).unwrap();
            if layout.is_slab() {
                store::make_slab(&layout).unwrap();
            }
            let headers = store::headers(&order, &layout, 0..layout.files.len()).unwrap();
            for (index, header) in headers.iter().enumerate() {
                let header = (kind == KvSystem::Lmcache).then_some(header.as_slice());
                store::write_plainly(&layout, index, header).unwrap();
            }
            if let Some(mapper) = &layout.mapper {
                mapper.write_config(&folder.path().join("data")).unwrap();
            }
            let found = recognise(folder.path()).remove(0);
            let files = if layout.is_slab() { 1 } else { 4 };
            assert_eq!((found.system.as_str(), found.files, found.partial), (kind.name(), files, 0), "{found:?}");
            assert_eq!(found.bytes, 4 * layout.file_bytes(), "{kind:?}");
            if kind == KvSystem::Lmcache {
                assert_eq!((found.shape, found.models), (vec![2, 3, 64, 32], vec!["tiny".to_owned()]));
            }
        }
    }

    #[test]
    fn each_store_below_a_folder_is_listed_with_its_own_figures() {
        let folder = tempfile::tempdir().unwrap();
        let hash = "0123456789abcdef";
        for (place, name) in [
            ("slab".to_owned(), crate::workloads::kv::layout::SLAB.to_owned()),
            ("chunks/12/34".to_owned(), "tiny%401%400%40ff%40half.weka1".to_owned()),
            (format!("ucm/{hash}"), format!("{hash}.dat")),
            ("llmd/m_1_r0/abc/34_g0".to_owned(), "abc34ff.bin".to_owned()),
            ("vllm/m_1_r0/abc/34_g0".to_owned(), "abc34ff.bin".to_owned()),
        ] {
            let at = folder.path().join(place);
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join(name), "12").unwrap();
        }
        fs::create_dir(folder.path().join("vllm/m_1")).unwrap();
        fs::write(folder.path().join("vllm/m_1/config.json"), r#"{"blocks_per_file":1,"model_name":"v"}"#).unwrap();
        let mut found = recognise(folder.path());
        found.sort_by(|a, b| a.system.cmp(&b.system));
        let systems: Vec<(&str, u64, usize)> =
            found.iter().map(|store| (store.system.as_str(), store.bytes, store.models.len())).collect();
        assert_eq!(
            systems,
            [("llmd", 2, 0), ("lmcache", 2, 1), ("lmcache-mp", 2, 0), ("ucm", 2, 0), ("vllm-fs", 2, 1)]
        );
    }

    #[test]
    fn names_of_chunks_are_decoded() {
        assert_eq!(unquoted("meta%2FTiny%20model%401"), "meta/Tiny model@1");
        assert_eq!(unquoted("a%zz%4"), "a%zz%4");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a%2Fb%401%400%40ff%40half.weka1"), "x").unwrap();
        let found = recognise(folder.path()).remove(0);
        assert_eq!((found.system.as_str(), found.models), ("lmcache", vec!["a/b".to_owned()]));
    }

    #[test]
    fn other_folders_and_links_are_not_taken_for_stores() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.safetensors"), "x").unwrap();
        fs::write(folder.path().join("pytorch_model.bin"), "x").unwrap();
        fs::write(folder.path().join("config.json"), "{}").unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("root")).unwrap();
        assert_eq!(recognise(folder.path()), []);
    }
}
