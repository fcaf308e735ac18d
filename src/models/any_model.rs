//! Random models for property tests of read plans and parts.

use crate::core::{ModelInfo, ShardInfo, TensorInfo};
use proptest::prelude::*;

/// A model with one file per item: the length of the header and the sizes of the tensors, in bytes.
pub(super) fn model(shards: &[(u64, Vec<u64>)]) -> ModelInfo {
    let mut model = ModelInfo::default();
    for (number, (data_offset, sizes)) in (0_u32..).zip(shards) {
        let mut at = *data_offset;
        for (index, bytes) in sizes.iter().enumerate() {
            model.tensors.push(TensorInfo {
                name: format!("{number}.{index}"),
                dtype: "U8".into(),
                shape: vec![*bytes],
                shard: number,
                file_offset: at,
                bytes: *bytes,
            });
            at += bytes;
        }
        model.shards.push(ShardInfo { path: "x".into(), file_bytes: at, data_offset: *data_offset });
    }
    model
}

/// Models of up to four files with up to eleven tensors each. Tensors are empty, small, or several pages long.
pub(super) fn any_model() -> impl Strategy<Value = ModelInfo> {
    let sizes = proptest::collection::vec(prop_oneof![Just(0_u64), 1..200_u64, 4000..90_000_u64], 0..12);
    proptest::collection::vec((10..9000_u64, sizes), 0..5).prop_map(|shards| model(&shards))
}
