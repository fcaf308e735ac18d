//! The requests of a NIXL transfer by the plugin GDS. The plugin divides each part of a transfer into requests of at most
//! `max_request_size`, and submits all of them as batches of cuFile before it waits for the first. In compat mode each
//! request in flight needs a buffer of the library's pool, and `cuFileBatchIOSubmit` never returns if none is free
//! (ai-dynamo/nixl#2070). With a direct route, the number of the plugin's batches is the limit.

use super::context::EngineContext;
use crate::core::{NixlPlugin, Setting, units};
use crate::models::plan::Block;
use cufile_ffi::{Batch, Route};

/// Defaults of the plugin GDS (`gds_backend.cpp` of NIXL 1.5): bytes of a request, requests of a batch, batches.
const REQUEST_BYTES: u64 = 16 * units::MIB;
const BATCH_LIMIT: u64 = 128;
const BATCH_POOL: u64 = 16;

/// The limit of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requests {
    /// The maximum number of requests.
    pub(crate) most: u64,
    /// The maximum bytes of a request.
    pub(crate) bytes: u64,
}

impl Requests {
    /// The limit for a load. `None` if the plugin makes no batches of cuFile.
    pub(super) fn of(context: &EngineContext<'_>, plugin: NixlPlugin) -> Option<Self> {
        let setting = |setting, default| context.order.settings.get(setting).unwrap_or(default).max(1);
        let (limit, pool) = (setting(Setting::Depth, BATCH_LIMIT), setting(Setting::Slots, BATCH_POOL));
        Self::new(context, plugin, limit.saturating_mul(pool), setting(Setting::BlockBytes, REQUEST_BYTES))
    }

    /// The limit for the default parameters of the plugin.
    pub(crate) fn by_default(context: &EngineContext<'_>, plugin: NixlPlugin) -> Option<Self> {
        Self::new(context, plugin, BATCH_LIMIT * BATCH_POOL, REQUEST_BYTES)
    }

    fn new(context: &EngineContext<'_>, plugin: NixlPlugin, most: u64, bytes: u64) -> Option<Self> {
        let cufile = context.cufile.filter(|_| plugin == NixlPlugin::Gds)?;
        let route = if context.direct_possible() { Route::Direct } else { Route::MaybeCompat };
        let most = Batch::limit_of(&cufile.driver, usize::try_from(most).unwrap_or(usize::MAX), route).max(1) as u64;
        Some(Self { most, bytes })
    }

    /// The requests of a part with these bytes.
    pub(crate) const fn count(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.bytes)
    }
}

/// Divides a block that is longer than a transfer. The second number is its place in memory.
pub(super) fn in_parts(requests: Option<Requests>, (block, place): (Block, u64)) -> Vec<(Block, u64)> {
    let longest = requests.map_or(u64::MAX, |requests| requests.most.saturating_mul(requests.bytes));
    let starts = (0..block.bytes.div_ceil(longest)).map(|number| number * longest);
    starts
        .map(|start| {
            let bytes = longest.min(block.bytes - start);
            let (file_offset, image_offset) = (block.file_offset + start, block.image_offset + start);
            (Block { file_offset, image_offset, bytes, ..block }, place + start)
        })
        .collect()
}

/// Divides blocks into transfers, each with as many blocks as it supports.
pub(super) fn together(requests: Option<Requests>, blocks: &[(Block, u64)]) -> Vec<&[(Block, u64)]> {
    let Some(requests) = requests else { return vec![blocks] };
    let mut groups = Vec::new();
    let (mut start, mut count) = (0, 0);
    for (number, (block, _)) in blocks.iter().enumerate() {
        let needs = requests.count(block.bytes);
        if count + needs > requests.most && number > start {
            groups.push(&blocks[start..number]);
            (start, count) = (number, 0);
        }
        count += needs;
    }
    if start < blocks.len() {
        groups.push(&blocks[start..]);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_have_at_most_the_supported_requests_and_all_bytes_in_order() {
        let requests = Requests { most: 4, bytes: 10 };
        let mut offset = 0;
        let blocks: Vec<(Block, u64)> = [1, 10, 11, 95, 40, 3, 20]
            .into_iter()
            .map(|bytes| {
                offset += bytes;
                (Block { shard: 0, file_offset: offset - bytes, image_offset: offset - bytes, bytes }, 2 * offset)
            })
            .flat_map(|block| in_parts(Some(requests), block))
            .collect();
        let groups = together(Some(requests), &blocks);
        assert!(groups.iter().all(|group| group.iter().map(|(b, _)| requests.count(b.bytes)).sum::<u64>() <= 4));
        let mut at = 0;
        for (block, _) in groups.iter().flat_map(|group| group.iter()) {
            assert_eq!((block.file_offset, block.image_offset), (at, at));
            at += block.bytes;
        }
        assert_eq!((at, groups.len()), (180, 6));
        assert_eq!(together(None, &blocks).len(), 1);
    }
}
