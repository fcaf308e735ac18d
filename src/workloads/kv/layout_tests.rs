//! Tests of layouts: every byte is moved once, and sizes are the same as in the source systems.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::workloads::kv::shape::Shape;
use proptest::prelude::*;

/// The setting with this name.
pub(in crate::workloads::kv) fn setting(name: &str) -> KvSetting {
    let all = KvSystem::ALL.iter().flat_map(|kind| crate::workloads::kv::params::parameters(*kind));
    all.map(|p| p.setting).find(|setting| setting.name() == name).unwrap()
}

pub(in crate::workloads::kv) fn order(kind: KvSystem, tokens: u64, batch: u64, set: &[(&str, u64)]) -> KvOrder {
    let shape = Shape {
        name: "tiny".into(),
        title: "Tiny".into(),
        source: "made up".into(),
        layers: 3,
        kv_heads: 2,
        head_size: 16,
        dtype: "BF16".into(),
        dtype_bytes: 2,
        mla: kind == KvSystem::Ucm,
    };
    let settings = set.iter().map(|(name, value)| (setting(name), *value)).collect();
    KvOrder {
        kind,
        shape,
        tokens,
        batch,
        hit_rate: 1.0,
        seed: 5,
        folder: "/kv".into(),
        folder_id: None,
        settings,
        provoke: None,
        prepare: false,
    }
}

fn layout(order: &KvOrder, write: bool) -> Layout {
    let lane = format!("{}/disk/{}", order.kind.name(), if write { "write" } else { "read" });
    Layout::new(order, &order.settings(&lane.parse().unwrap()), write).unwrap()
}

proptest! {
    #[test]
    fn every_byte_is_moved_once_and_has_a_place_of_its_own(
        kind in 0..6_usize, files in 1..5_u64, batch in 1..3_u64, cut in 4096..20_000_u64, write: bool, layerwise in 0..2_u64,
    ) {
        let kind = KvSystem::ALL[kind];
        let set: &[(&str, u64)] = match kind {
            KvSystem::Ucm => &[("block_tokens", 32), ("misalign", 512), ("misalign_length", cut % 600)],
            KvSystem::Llmd | KvSystem::VllmFs => &[("block_size", 64), ("gpu_block", 16)],
            KvSystem::LmcacheMp | KvSystem::LmcacheNixl => &[("chunk_size", 64), ("gpu_block", 16)],
            KvSystem::Lmcache => &[("chunk_size", 64), ("gpu_block", 16), ("block_size", cut), ("enable_layerwise", layerwise)],
        };
        let tokens = files * if kind == KvSystem::Ucm { 32 } else { 64 } + 5;
        let order = order(kind, tokens, batch, set);
        let layout = layout(&order, write);
        let model = layout.model(&order);
        prop_assert_eq!(layout.files.len() as u64, files * batch);
        prop_assert_eq!(model.tensor_bytes(), files * batch * layout.payload);
        let mut payload = vec![vec![0_u8; layout.payload as usize]; layout.files.len()];
        let mut target = vec![0_u8; layout.target_bytes as usize];
        let bases = model.image_bases();
        for task in &layout.tasks {
            for at in task.offset..task.offset + task.bytes {
                payload[task.file as usize][at as usize] += 1;
            }
            let mut covered = 0;
            for piece in layout.place(task.file, task.offset, task.bytes) {
                prop_assert_eq!(piece.from, covered);
                covered += piece.bytes;
                for at in piece.to..piece.to + piece.bytes {
                    target[at as usize] += 1;
                }
            }
            prop_assert_eq!(covered, task.bytes);
            prop_assert_eq!(layout.image_offset(task), bases[task.file as usize] + layout.data_offset + task.offset);
            if let Some(tensor) = task.tensor {
                let tensor = &model.tensors[tensor as usize];
                prop_assert_eq!(tensor.shard, task.file);
                let from = layout.data_offset + task.offset;
                prop_assert!(tensor.file_offset <= from && from + task.bytes <= tensor.file_offset + tensor.bytes);
            }
        }
        prop_assert!(payload.iter().flatten().all(|n| *n == 1));
        prop_assert!(target[..layout.misalign as usize].iter().all(|n| *n == 0));
        prop_assert!(target[layout.misalign as usize..].iter().all(|n| *n == 1));
        let units: Vec<usize> = layout.units.iter().cloned().flatten().collect();
        prop_assert_eq!(units, (0..layout.tasks.len()).collect::<Vec<_>>());
    }
}

#[test]
fn sizes_are_those_of_the_sources() {
    let mut llmd = order(KvSystem::Llmd, 512, 1, &[]);
    llmd.shape = Shape::named("llama-3.1-8b").unwrap();
    let plan = layout(&llmd, false);
    // Llama-3.1-8B with blocks of 16 tokens: 64 KiB per layer, and 16 blocks of 32 layers in a file of 256 tokens.
    assert_eq!((plan.largest, plan.tasks.len(), plan.units.len()), (64 << 10, 2 * 512, 2));
    let mut ucm = order(KvSystem::Ucm, 256, 1, &[]);
    ucm.shape = Shape::named("deepseek-v3").unwrap();
    let plan = layout(&ucm, false);
    assert_eq!((plan.largest, plan.tasks.len()), (147_456, 2 * 61));
    let mut lmcache = order(KvSystem::Lmcache, 256, 1, &[]);
    lmcache.shape = Shape::named("llama-3.1-8b").unwrap();
    let plan = layout(&lmcache, true);
    assert_eq!((plan.largest, plan.tasks.len()), (32 << 20, 1));
    // The keys and the values of a layer are half a chunk apart.
    let mut layers = order(KvSystem::Lmcache, 256, 1, &[("enable_layerwise", 1)]);
    layers.shape = lmcache.shape;
    let plan = layout(&layers, false);
    assert_eq!((plan.tasks[0].offset, plan.tasks[1].offset, plan.tasks[1].layer), (0, 16 << 20, 0));
}

#[test]
fn files_lie_where_each_source_puts_them() {
    let path = |kind| {
        let mut order = order(kind, 512, 1, &[]);
        order.shape = Shape { name: "../a b".into(), ..Shape::named("llama-3.1-8b").unwrap() };
        let plan = layout(&order, false);
        let below = plan.files[0].path.strip_prefix(order.folder.join("data")).unwrap().to_owned();
        below.iter().map(|part| part.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let hexes = |text: &str, digits: usize| text.len() == digits && text.chars().all(|c| c.is_ascii_hexdigit());
    let llmd = path(KvSystem::Llmd);
    assert_eq!(llmd.len(), 4, "{llmd:?}");
    let (model, three, two, file) = (&llmd[0], &llmd[1], &llmd[2], &llmd[3]);
    let (of, rank) = model.strip_prefix(".._a b_").and_then(|rest| rest.split_at_checked(12)).unwrap();
    assert!(hexes(of, 12) && rank == "_r0" && hexes(three, 3) && two.ends_with("_g0"), "{llmd:?}");
    assert!(file.starts_with(&format!("{three}{}", &two[..2])) && file.ends_with(".bin"), "{llmd:?}");
    assert_eq!((path(KvSystem::Ucm).len(), path(KvSystem::Lmcache).len()), (2, 3));
    assert_eq!(path(KvSystem::LmcacheMp), ["lmcache_gds_slab.bin"]);
    assert_eq!(path(KvSystem::VllmFs).len(), 4);
    let pool = path(KvSystem::LmcacheNixl);
    assert!(pool.len() == 1 && pool[0].starts_with("obj_0_") && pool[0].len() == "obj_0_abcd.bin".len(), "{pool:?}");
}

#[test]
fn a_hit_rate_stores_the_beginning_of_each_sequence() {
    let mut order = order(KvSystem::Lmcache, 640, 2, &[("chunk_size", 64)]);
    order.hit_rate = 0.75;
    let plan = layout(&order, false);
    // 7.5 of 10 files are rounded to 8.
    assert_eq!((plan.files.len(), plan.asked.len(), plan.asked[0].len()), (16, 2, 10));
    assert_eq!(plan.files[8].key, plan.asked[1][0]);
    order.hit_rate = 0.01;
    let settings = order.settings(&"lmcache/ram/read".parse().unwrap());
    let rate = Layout::new(&order, &settings, false).unwrap_err();
    assert!(rate.contains("10 files per sequence") && rate.contains("higher rate"), "{rate}");
    // A hit rate of 0 is valid. It measures the time of lookups that find nothing.
    order.hit_rate = 0.0;
    let plan = Layout::new(&order, &settings, false).unwrap();
    assert_eq!((plan.files.len(), plan.asked[1].len(), plan.tasks.len()), (0, 10, 0));
    // A higher rate does not help if the tokens of a sequence fill no file.
    (order.tokens, order.hit_rate) = (1, 1.0);
    let tokens = Layout::new(&order, &settings, false).unwrap_err();
    assert!(tokens.contains("--tokens 64") && !tokens.contains("rate"), "{tokens}");
}

#[test]
fn a_share_is_rounded_to_the_nearest_number_of_files() {
    for (files, share, stored) in [(3, 0.5, 2), (10, 0.04, 0), (10, 0.05, 1), (10, 0.7, 7), (7, 1.0, 7), (1, 0.5, 1)] {
        assert_eq!(stored_of(files, share), stored, "{share} of {files}");
    }
}

#[test]
fn what_a_file_holds_follows_from_its_key_alone() {
    let long = layout(&order(KvSystem::Lmcache, 640, 2, &[("chunk_size", 64)]), false);
    let short = layout(&order(KvSystem::Lmcache, 320, 2, &[("chunk_size", 64)]), false);
    // If sequences are shorter, the second sequence begins at another index.
    assert_eq!((short.files[5].key, short.content_of(5)), (long.files[10].key, long.content_of(10)));
    assert_ne!(long.content_of(0), long.content_of(1));
}

#[test]
fn reads_layer_by_layer_finish_a_layer_of_all_chunks_before_the_next() {
    let order = order(KvSystem::Lmcache, 256, 1, &[("chunk_size", 64), ("enable_layerwise", 1)]);
    let plan = layout(&order, false);
    assert!(plan.layerwise && plan.tasks.is_sorted_by_key(|task| task.layer));
    assert!(!layout(&order, true).layerwise);
}
