//! Finds the files of a model from the user's input: a file, a directory, an index, or a repository of the Hugging Face
//! cache.

use super::error::{WeightsError, name_text, path_text};
use super::header::open_regular;
use super::profile::Profile;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Maximum size of an index in bytes. It is far above the size of any real index, and an index of this size can still
/// be parsed safely.
const MAX_INDEX_BYTES: u64 = 512 << 20;

/// The usual name of an index.
pub(super) const INDEX_NAME: &str = "model.safetensors.index.json";

/// The files of a model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Located {
    /// Name of the model for titles.
    pub(super) name: String,
    /// The absolute form of the path that was named.
    pub(super) path: PathBuf,
    /// The shards in the order of reading.
    pub(super) files: Vec<PathBuf>,
    /// The shard (an index into `files`) of each tensor, if an index file lists it.
    pub(super) index: Option<(PathBuf, Vec<(String, u32)>)>,
}

/// The directories of the Hugging Face cache, in the search order of `huggingface_hub`: `$HF_HUB_CACHE`, `$HF_HOME/hub`,
/// `~/.cache/huggingface/hub`.
pub(super) fn hub_folders() -> Vec<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut folders: Vec<PathBuf> = Vec::new();
    folders.extend(set("HF_HUB_CACHE"));
    folders.extend(set("HF_HOME").map(|home| home.join("hub")));
    folders.extend(
        set("XDG_CACHE_HOME")
            .or_else(|| set("HOME").map(|home| home.join(".cache")))
            .map(|cache| cache.join("huggingface/hub")),
    );
    folders.dedup();
    folders
}

/// Finds the files of `spec`.
pub(super) fn locate(spec: &Path, hubs: &[PathBuf]) -> Result<Located, WeightsError> {
    let path = std::path::absolute(spec).map_err(|source| WeightsError::Unreadable {
        path: spec.to_owned(),
        doing: "made absolute",
        source,
    })?;
    let meta = match std::fs::metadata(&path) {
        Ok(meta) => meta,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return match repository(spec) {
                Some((id, revision)) => cached(&id, revision.as_deref(), hubs),
                None => Err(WeightsError::NotFound { hint: shape_hint(&path), path }),
            };
        }
        Err(source) => return Err(WeightsError::Unreadable { path, doing: "examined", source }),
    };
    if meta.is_dir() {
        return folder(&path, None);
    }
    let name = path.file_name().map_or_else(|| "model".to_owned(), |n| n.to_string_lossy().into_owned());
    if name.ends_with(".json") {
        return index(&path, title(path.parent().unwrap_or(&path)), path.clone());
    }
    let stem = name.strip_suffix(".safetensors").unwrap_or(&name);
    // 'model' is not a meaningful title, so the name of the directory is used.
    let title = if stem == "model" { path.parent().map_or_else(|| stem.to_owned(), title) } else { stem.to_owned() };
    Ok(Located { name: title, files: vec![path.clone()], path, index: None })
}

/// Parses `org/name` or `org/name@revision`; `None` if the text is neither.
fn repository(spec: &Path) -> Option<(String, Option<String>)> {
    let text = spec.to_str()?;
    let (id, revision) = match text.split_once('@') {
        Some((id, revision)) => (id, Some(revision.to_owned())),
        None => (text, None),
    };
    let (org, name) = id.split_once('/')?;
    let word = |w: &str| {
        !w.is_empty() && !w.starts_with('.') && w.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    (word(org) && word(name) && revision.as_deref().is_none_or(word)).then(|| (id.to_owned(), revision))
}

fn cached(id: &str, revision: Option<&str>, hubs: &[PathBuf]) -> Result<Located, WeightsError> {
    let folder_name = format!("models--{}", id.replace('/', "--"));
    for hub in hubs {
        let path = hub.join(&folder_name);
        if path.is_dir() {
            return folder(&path, revision);
        }
    }
    Err(WeightsError::NotCached { repo: name_text(id), looked: hubs.to_vec() })
}

fn folder(path: &Path, revision: Option<&str>) -> Result<Located, WeightsError> {
    let name = title(path);
    if path.join("snapshots").is_dir() {
        let mut located = plain_folder(&snapshot(path, revision)?, name)?;
        path.clone_into(&mut located.path);
        return Ok(located);
    }
    plain_folder(path, name)
}

/// The title for a directory: its name, or the name of the repository for a directory in the Hugging Face cache.
fn title(path: &Path) -> String {
    let repo = path.components().rev().find_map(|part| {
        let text = part.as_os_str().to_string_lossy();
        text.strip_prefix("models--").map(|rest| rest.rsplit("--").next().unwrap_or(rest).to_owned())
    });
    repo.or_else(|| path.file_name().map(|n| n.to_string_lossy().into_owned())).unwrap_or_else(|| "model".to_owned())
}

/// The snapshot of a repository: the one that `refs/REVISION` (default `main`) names, or one with the name of the
/// revision, or the only one.
fn snapshot(path: &Path, revision: Option<&str>) -> Result<PathBuf, WeightsError> {
    let snapshots = path.join("snapshots");
    let bad = |problem: String| WeightsError::CacheFolder { path: path.to_owned(), problem };
    let wanted = revision.unwrap_or("main");
    let reference = path.join("refs").join(wanted);
    if let Ok((mut file, bytes)) = open_regular(&reference) {
        let mut text = String::new();
        if bytes <= 256 && file.read_to_string(&mut text).is_ok() {
            let hash = text.trim();
            if !hash.is_empty() && hash.chars().all(|c| c.is_ascii_alphanumeric()) {
                let found = snapshots.join(hash);
                return if found.is_dir() {
                    Ok(found)
                } else {
                    Err(bad(format!("its reference {wanted} names the snapshot {hash}, which does not exist")))
                };
            }
        }
        return Err(bad(format!("its reference {wanted} does not contain the name of a snapshot")));
    }
    if let Some(named) = revision {
        let found = snapshots.join(named);
        return if found.is_dir() { Ok(found) } else { Err(bad(format!("it has no revision {named}"))) };
    }
    let mut all: Vec<PathBuf> = list(&snapshots)?.into_iter().filter(|p| p.is_dir()).collect();
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => {
            Err(bad("it has several snapshots and no reference main; pass one of its snapshots".to_owned()))
        }
        (None, _) => Err(bad("it has no snapshot".to_owned())),
    }
}

fn plain_folder(path: &Path, name: String) -> Result<Located, WeightsError> {
    let usual = path.join(INDEX_NAME);
    // `exists` is not used here, because a dangling link of an interrupted download must be reported and not skipped.
    if std::fs::symlink_metadata(&usual).is_ok() {
        return index(&usual, name, path.to_owned());
    }
    let entries = list(path)?;
    let ending = |suffix: &str| -> Vec<PathBuf> {
        let is_one = |p: &&PathBuf| {
            p.file_name()
                .is_some_and(|n| n.to_string_lossy().ends_with(suffix) && !n.to_string_lossy().starts_with('.'))
        };
        entries.iter().filter(is_one).cloned().collect()
    };
    if let [only] = ending(".safetensors.index.json").as_slice() {
        return index(only, name, path.to_owned());
    }
    let files = ending(".safetensors");
    if files.is_empty() {
        return Err(WeightsError::NoWeights { path: path.to_owned() });
    }
    complete(path, &files)?;
    Ok(Located { name, path: path.to_owned(), files, index: None })
}

fn list(path: &Path) -> Result<Vec<PathBuf>, WeightsError> {
    let unreadable = |source| WeightsError::Unreadable { path: path.to_owned(), doing: "listed", source };
    let mut entries = std::fs::read_dir(path)
        .map_err(unreadable)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    entries.sort();
    Ok(entries)
}

/// Without an index, the file names show missing shards. For example, `model-00002-of-00004.safetensors` requires
/// three other files.
fn complete(folder: &Path, files: &[PathBuf]) -> Result<(), WeightsError> {
    let mut sets: BTreeMap<(String, usize), Vec<usize>> = BTreeMap::new();
    for file in files {
        let text = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some((prefix, number, count)) = numbered(&text) {
            sets.entry((prefix, count)).or_default().push(number);
        }
    }
    for ((prefix, count), numbers) in sets {
        if let Some(missing) = (1..=count).find(|n| !numbers.contains(n)) {
            return Err(WeightsError::MissingShard {
                shard: name_text(&format!("{prefix}-{missing:05}-of-{count:05}.safetensors")),
                folder: folder.to_owned(),
                why: format!("the names of the others show that there are {count}"),
            });
        }
    }
    Ok(())
}

/// The parts of a name `PREFIX-NNNNN-of-MMMMM.safetensors`.
pub(super) fn numbered(name: &str) -> Option<(String, usize, usize)> {
    let (rest, count) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let five = |digits: &str| (digits.len() == 5).then(|| digits.parse().ok())?;
    Some((prefix.to_owned(), five(number)?, five(count)?))
}

#[derive(serde::Deserialize)]
struct RawIndex {
    weight_map: WeightMap,
}

/// The map as written. It is a vector, so that duplicate names can be found.
struct WeightMap(Vec<(String, String)>);

impl<'de> serde::Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = WeightMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensor names and file names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(WeightMap(entries))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

fn index(path: &Path, name: String, named: PathBuf) -> Result<Located, WeightsError> {
    let bad = |problem: String| WeightsError::BadIndex { path: path.to_owned(), problem };
    let (mut file, bytes) = open_regular(path)?;
    if bytes == 0 {
        return Err(bad("it is empty; download it again".to_owned()));
    }
    if bytes > MAX_INDEX_BYTES {
        return Err(bad(format!("it has {bytes} bytes, over the limit of {MAX_INDEX_BYTES}; it is not an index")));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(|source| WeightsError::Unreadable {
        path: path.to_owned(),
        doing: "read",
        source,
    })?;
    let raw: RawIndex = serde_json::from_slice(&text).map_err(|error| {
        bad(if error.is_data() {
            format!("it has no weight_map of tensor names and file names: {error}; pass a model.safetensors.index.json")
        } else {
            format!("it is not valid JSON: {error}; download it again")
        })
    })?;
    if raw.weight_map.0.is_empty() {
        return Err(bad("its weight_map is empty; download it again".to_owned()));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut shards: BTreeMap<&str, u32> = BTreeMap::new();
    for (tensor, shard) in &raw.weight_map.0 {
        let inside = !shard.is_empty() && Path::new(shard).components().all(|c| matches!(c, Component::Normal(_)));
        if !inside {
            return Err(bad(format!(
                "it assigns tensor {} to {}, which is not a file in its directory; do not use an index from a source that you do not trust",
                name_text(tensor),
                name_text(shard)
            )));
        }
        shards.entry(shard).or_default();
    }
    let mut files = Vec::with_capacity(shards.len());
    for (number, (shard, place)) in (0_u32..).zip(shards.iter_mut()) {
        *place = number;
        let file = folder.join(shard);
        if let Err(error) = std::fs::metadata(&file)
            && error.kind() == std::io::ErrorKind::NotFound
        {
            return Err(WeightsError::MissingShard {
                shard: name_text(shard),
                folder: folder.to_owned(),
                why: format!("the index {} names it", path_text(Path::new(path.file_name().unwrap_or_default()))),
            });
        }
        files.push(file);
    }
    let mut places: Vec<(String, u32)> =
        raw.weight_map.0.iter().map(|(tensor, shard)| (tensor.clone(), shards[shard.as_str()])).collect();
    places.sort();
    if let Some(twice) = places.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(bad(format!("it names tensor {} twice; download it again", name_text(&twice[0].0))));
    }
    Ok(Located { name, path: named, files, index: Some((path.to_owned(), places)) })
}
/// Returns `; did you mean the shape 'qwen3-0.6b'?` if the name is similar to the name of a shape, otherwise an empty
/// text.
fn shape_hint(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    Profile::names()
        .into_iter()
        .map(|shape| (strsim::jaro_winkler(&name, shape), shape))
        .filter(|(likeness, _)| *likeness > 0.9)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, shape)| format!("; did you mean the shape '{shape}'?"))
}
