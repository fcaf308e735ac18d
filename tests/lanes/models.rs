//! Models for the tests: small synthetic ones, and ones that contain every special case of the format.

use gds_top::core::ModelInfo;
use gds_top::models::{self, Profile, SynthOptions};
use std::path::Path;

/// Four shards with 291 tensors, about 9 MB: Llama-3.1-8B with nearly all rows removed.
pub(crate) fn synthetic(folder: &Path) -> ModelInfo {
    let profile = Profile::named("llama-3.1-8b").unwrap();
    models::synthesize(&profile, folder, &SynthOptions { scale: 0.0005, seed: 7 }, &mut |_, _| true).unwrap()
}

/// A tensor to write: name, type and shape.
pub(crate) type Wanted<'a> = (&'a str, &'a str, &'a [u64]);

/// Writes one safetensors file. `pad` spaces make the header longer, which moves the data off every alignment.
pub(crate) fn write(path: &Path, tensors: &[Wanted<'_>], pad: usize) {
    let mut header = serde_json::Map::new();
    let mut at = 0_u64;
    for (name, dtype, shape) in tensors {
        let element = match *dtype {
            "U8" | "I8" | "BOOL" | "F8_E4M3" => 1,
            "F16" | "BF16" => 2,
            "F32" => 4,
            "F64" => 8,
            other => panic!("a type that these tests do not write: {other}"),
        };
        let bytes = element * shape.iter().product::<u64>();
        header.insert(
            (*name).to_owned(),
            serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [at, at + bytes]}),
        );
        at += bytes;
    }
    let mut head = serde_json::to_vec(&header).unwrap();
    head.extend(std::iter::repeat_n(b' ', pad));
    let mut file = (head.len() as u64).to_le_bytes().to_vec();
    file.extend(head);
    // The bytes come from a generator with full period (Knuth's MMIX constants), so that shifted or swapped bytes
    // always differ.
    let mut state = file.len() as u64 ^ at;
    file.extend((0..at).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    }));
    std::fs::write(path, file).unwrap();
}

/// All special cases: scalars, empty tensors, single bytes, hundreds of tiny tensors, a tensor over many blocks,
/// shards without data, and data at an odd offset.
pub(crate) fn odd(folder: &Path) -> ModelInfo {
    let tiny: Vec<String> = (0..300).map(|i| format!("tiny.{i:03}")).collect();
    let shapes: Vec<[u64; 1]> = (0..300).map(|i| [i % 7]).collect();
    let tiny: Vec<Wanted<'_>> = tiny.iter().zip(&shapes).map(|(n, s)| (n.as_str(), "U8", &s[..])).collect();
    write(&folder.join("a.safetensors"), &tiny, 3);
    write(
        &folder.join("b.safetensors"),
        &[
            ("scalar", "F32", &[]),
            ("one byte", "U8", &[1]),
            ("nothing", "BF16", &[0]),
            ("nothing of a shape", "F32", &[5, 0, 7]),
            ("odd", "U8", &[4097]),
            ("long", "U8", &[1_500_001]),
            ("last", "F64", &[3]),
        ],
        1,
    );
    write(&folder.join("c.safetensors"), &[("empty alone", "F32", &[0, 9])], 0);
    write(&folder.join("d.safetensors"), &[("page", "U8", &[4096])], 4096);
    write(&folder.join("e.safetensors"), &[("single", "I8", &[1])], 0);
    models::open(folder).unwrap()
}
