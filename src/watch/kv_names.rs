//! Recognises files of KV-cache systems by their names.

use crate::core::KvName;
use std::path::Path;

/// Minimum number of digits of a key. Shorter names are ambiguous.
const DIGITS: usize = 12;

/// The chunk that a file of LMCache, llm-d or UCM contains; `None` for other files.
pub(super) fn of(path: &str) -> Option<KvName> {
    let path = Path::new(path);
    lmcache(path).or_else(|| llmd(path)).or_else(|| ucm(path))
}

fn is_key(text: &str) -> bool {
    text.len() >= DIGITS && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The names of the file and of its parent directories, with the nearest one first.
fn names(path: &Path) -> Vec<&str> {
    path.iter().rev().filter_map(|name| name.to_str()).take(4).collect()
}

/// Parses `ab/cd/KEY.kvcache` and `.kvcache.safetensors` of the GDS back end, and `KEY.pt` of the local disk. KEY is a
/// hash (not for `.pt`), or `MODEL@WORLD@RANK@HASH` with an optional `@DTYPE` and `@LAYER`. Earlier versions began it with
/// `vllm@`.
fn lmcache(path: &Path) -> Option<KvName> {
    let name = *names(path).first()?;
    let of_gds = name.split_once(".kvcache").map(|(key, _)| key);
    let parts: Vec<&str> = of_gds.or_else(|| name.strip_suffix(".pt"))?.split('@').collect();
    if let [chunk] = parts[..] {
        return (of_gds.is_some() && is_key(chunk)).then(|| named("lmcache", chunk));
    }
    let is_number = |at: usize| parts.get(at).is_some_and(|part| part.parse::<u32>().is_ok());
    let world = [1, 2].into_iter().find(|at| is_number(*at) && is_number(at + 1))?;
    let chunk = *parts.get(world + 2).filter(|chunk| is_hex(chunk.trim_start_matches('-').trim_start_matches("0x")))?;
    let is_layer = |part: &&&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let layer = parts.iter().skip(world + 3).find(is_layer);
    Some(KvName {
        layer: layer.map(|layer| (*layer).to_owned()),
        model: parts.get(world - 1).map(|model| (*model).to_owned()),
        ..named("lmcache", chunk)
    })
}

/// Parses `MODEL_DIGEST_rRANK/abc/de_gGROUP/KEY.bin`.
fn llmd(path: &Path) -> Option<KvName> {
    let [name, group, start, model] = names(path)[..] else { return None };
    let key = name.strip_suffix(".tmp").unwrap_or(name).strip_suffix(".bin").filter(|key| is_key(key))?;
    let (two, group) = group.split_once("_g")?;
    let belongs = key.starts_with(start) && key.get(3..5) == Some(two);
    belongs.then(|| KvName {
        layer: Some(format!("group {group}")),
        model: Some(model.to_owned()),
        ..named("llmd", key)
    })
}

/// Parses `FIRST/SECOND.dat`, in which a key of 32 digits is divided into two halves. The extension is `.act` while
/// the file is being written.
fn ucm(path: &Path) -> Option<KvName> {
    let [name, first, ..] = names(path)[..] else { return None };
    let second = name.strip_suffix(".dat").or_else(|| name.strip_suffix(".act"))?;
    let are_halves = first.len() == 16 && second.len() == 16 && is_hex(first) && is_hex(second);
    are_halves.then(|| named("ucm", &format!("{first}{second}")))
}

fn named(system: &str, chunk: &str) -> KvName {
    KvName { system: system.to_owned(), chunk: chunk.to_owned(), ..KvName::default() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn files_of_three_systems_are_named_and_others_are_not() {
        let seen = |path: &str| of(path).map(|kv| (kv.system, kv.chunk, kv.layer, kv.model));
        let own = |text: &str| text.to_owned();
        let key = "0123456789abcdef0123456789abcdef";
        assert_eq!(seen(&format!("/c/data/01/23/{key}.kvcache")), Some((own("lmcache"), own(key), None, None)));
        assert_eq!(
            seen("/c/ab/cd/vllm@meta_Llama@1@0@9f3ac01@bfloat16@17.kvcache.safetensors"),
            Some((own("lmcache"), own("9f3ac01"), Some(own("17")), Some(own("meta_Llama"))))
        );
        for (file, layer) in [
            ("vllm@meta-Llama@1@0@9f3ac01@bfloat16.pt", None),
            ("meta-Llama@1@0@9f3ac01@bfloat16.pt", None),
            ("meta-Llama@1@0@9f3ac01@half@17.kvcache.safetensors", Some(own("17"))),
        ] {
            let name = Some((own("lmcache"), own("9f3ac01"), layer, Some(own("meta-Llama"))));
            assert_eq!(seen(&format!("/c/{file}")), name, "{file}");
        }
        assert_eq!(
            seen("/c/llama-3.1-8b_0123456789ab_r0/012/34_g0/0123456789abcdef.bin"),
            Some((
                own("llmd"),
                own("0123456789abcdef"),
                Some(own("group 0")),
                Some(own("llama-3.1-8b_0123456789ab_r0"))
            ))
        );
        assert_eq!(seen("/c/data/0123456789abcdef/0123456789abcdef.dat"), Some((own("ucm"), own(key), None, None)));
        for other in [
            "/m/model.safetensors",
            "/m/pytorch_model.bin",
            "/m/0123456789abcdef.pt",
            "/x/abc.dat",
            "",
            "/a/b/c_g0/0123456789ab.bin",
        ] {
            assert_eq!(seen(other), None, "{other}");
        }
    }
}
