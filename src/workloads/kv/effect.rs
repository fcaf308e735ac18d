//! The effect of a setting on a run. If several values have the same effect, comparing them would show noise as a
//! difference.

use super::layout::Layout;
use super::order::{KvOrder, LaneName, Method, Settings};
use super::params::KvSetting;
use super::prepare;
use super::store;
use crate::core::{KvSystem, NixlPlugin};

/// The effect of a setting on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The effective value after limits.
    Counts(u64),
    /// The setting has no effect, with the reason.
    Nothing(&'static str),
}

/// Everything about a run that is known before it starts.
pub(super) struct Settled<'a> {
    pub(super) order: &'a KvOrder,
    pub(super) lane: &'a LaneName,
    pub(super) settings: &'a Settings,
    pub(super) layout: &'a Layout,
    pub(super) cpus: usize,
}

const NO_FILES: &str = "host memory has no files";
const NO_CUFILE: &str = "it does not use cuFile";
const NO_NIXL: &str = "it does not use NIXL";
const NOT_READ: &str = "it only affects reads";
const NOT_LAYERWISE: &str = "it only affects reads layer by layer (enable_layerwise=1)";

impl Settled<'_> {
    /// The effect of a setting.
    pub(super) fn effect(&self, setting: KvSetting) -> Effect {
        let Self { order, lane, settings, layout, .. } = self;
        let value = settings.get(setting);
        let files = layout.files.len() as u64;
        let (gds, in_memory) = (lane.method == Method::Gds, lane.method == Method::Ram);
        // llm-d's method falls back to plain transfers. Whether this happens is only known during the run.
        let nixl = matches!(lane.method, Method::Nixl(_));
        let may_fall = order.kind == KvSystem::Llmd || settings.on(KvSetting::MisalignedFallback);
        let plain = lane.method == Method::Plain || (gds && may_fall);
        let writes = lane.write || settings.get(KvSetting::WritePercent) > 0;
        let only_if = |holds: bool, value: u64, why| if holds { Effect::Counts(value) } else { Effect::Nothing(why) };
        match setting {
            KvSetting::HandleCache => only_if(!in_memory, value.min(files), NO_FILES),
            KvSetting::Odirect => only_if(gds || nixl, value, NO_CUFILE),
            KvSetting::Register | KvSetting::Async => only_if(gds, value, NO_CUFILE),
            KvSetting::BatchChunks => only_if(nixl, value.min(files), NO_NIXL),
            KvSetting::NixlThreads => {
                let threads = lane.method == Method::Nixl(NixlPlugin::GdsMt);
                only_if(threads, value, "only the plugin GDS_MT has threads")
            }
            KvSetting::MaxConcurrentOps if nixl => Effect::Nothing("NIXL makes one transfer at a time"),
            KvSetting::AsyncDepth | KvSetting::StreamFlags | KvSetting::CheckResults if gds => {
                only_if(settings.on(KvSetting::Async), value, "it only affects asynchronous transfers (async=1)")
            }
            KvSetting::AsyncDepth
            | KvSetting::StreamFlags
            | KvSetting::CheckResults
            | KvSetting::OnFailure
            | KvSetting::MisalignedFallback
            | KvSetting::RegionBytes
                if !gds =>
            {
                Effect::Nothing(NO_CUFILE)
            }
            KvSetting::RegionBytes if order.kind == KvSystem::Lmcache => {
                only_if(settings.on(KvSetting::Register), value, "it divides registered memory: use gds-registered")
            }
            KvSetting::PlainOdirect
            | KvSetting::StagingBytes
            | KvSetting::Fsync
            | KvSetting::MaxCacheSizeGb
            | KvSetting::MaxCacheSizeMb
            | KvSetting::CheckPayload
                if in_memory =>
            {
                Effect::Nothing(NO_FILES)
            }
            KvSetting::PlainOdirect => only_if(plain, value, "it has no plain transfers"),
            KvSetting::StagingBytes if value == 0 => only_if(plain, layout.payload, "it has no plain transfers"),
            KvSetting::StagingBytes => only_if(plain, value.min(layout.payload), "it has no plain transfers"),
            KvSetting::Fsync => only_if(writes, value, "it only affects writes"),
            KvSetting::MaxCacheSizeGb if settings.on(KvSetting::MaxCacheSizeMb) => {
                Effect::Nothing("max_cache_size_mb is set and replaces it")
            }
            KvSetting::MaxCacheSizeGb | KvSetting::MaxCacheSizeMb => {
                let kept = store::room_files(settings, layout).map_or(files, |room| room.min(files));
                only_if(lane.write, kept, "it only affects writes")
            }
            KvSetting::CheckPayload | KvSetting::EnableLayerwise | KvSetting::WritePercent | KvSetting::RecomputeUs => {
                only_if(!lane.write, value, NOT_READ)
            }
            KvSetting::ComputeUs => only_if(layout.layerwise, value, NOT_LAYERWISE),
            KvSetting::PrefetchFactor => only_if(layout.layerwise, value.min(layout.layers()), NOT_LAYERWISE),
            KvSetting::ReadPriority if lane.write => Effect::Nothing(NOT_READ),
            KvSetting::ReadPriority => {
                only_if(writes, value, "it has an effect only on concurrent writes (write_percent)")
            }
            KvSetting::NReadThreads if lane.write => Effect::Nothing(NOT_READ),
            KvSetting::NWriteThreads if !lane.write => Effect::Nothing("it only affects writes"),
            KvSetting::StreamNumber
            | KvSetting::ThreadsPerGpu
            | KvSetting::MaxConcurrentOps
            | KvSetting::GdsStreams
            | KvSetting::NReadThreads
            | KvSetting::NWriteThreads => Effect::Counts(prepare::threads(order, settings, layout, self.cpus) as u64),
            KvSetting::BlockSize if order.kind == KvSystem::Lmcache => Effect::Counts(layout.largest),
            _ => Effect::Counts(value),
        }
    }
}

/// The reason why different values of a setting have the same effect, from the effect of each value. `None` if the
/// effects differ.
pub(super) fn nothing_compared(effects: &[Effect]) -> Option<String> {
    let first = effects.first()?;
    if effects.iter().any(|effect| effect != first) {
        return None;
    }
    Some(match first {
        Effect::Nothing(why) => (*why).to_owned(),
        Effect::Counts(value) => format!("all its values have the same effect as {value}"),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::KvPath;
    use crate::workloads::kv::layout::tests::{order, setting};
    use crate::workloads::kv::params::parameters;

    fn effect(kind: KvSystem, lane: &str, set: &[(&str, u64)], name: &str) -> Effect {
        let order = order(kind, 512, 1, set);
        let lane: LaneName = format!("{}/{lane}", kind.name()).parse().unwrap();
        let settings = order.settings(&lane);
        let layout = Layout::new(&order, &settings, lane.write).unwrap();
        Settled { order: &order, lane: &lane, settings: &settings, layout: &layout, cpus: 2 }.effect(setting(name))
    }

    fn is_nothing(kind: KvSystem, lane: &str, set: &[(&str, u64)], name: &str) -> bool {
        matches!(effect(kind, lane, set, name), Effect::Nothing(_))
    }

    #[test]
    fn every_setting_counts_in_some_lane() {
        for kind in KvSystem::ALL {
            let set: &[(&str, u64)] = match kind {
                KvSystem::Ucm => &[("async", 1), ("enable_layerwise", 1)],
                KvSystem::Llmd => &[("write_percent", 10)],
                KvSystem::Lmcache => &[("async", 1), ("enable_layerwise", 1)],
                KvSystem::VllmFs | KvSystem::LmcacheMp | KvSystem::LmcacheNixl => &[],
            };
            for parameter in parameters(kind) {
                let paths = KvPath::ALL.into_iter().filter(|path| kind.has(*path));
                let mut lanes =
                    paths.flat_map(|path| ["read", "write"].map(|access| format!("{}/{access}", path.name())));
                assert!(lanes.any(|lane| !is_nothing(kind, &lane, set, parameter.setting.name())), "{parameter:?}");
            }
        }
    }

    #[test]
    fn what_a_lane_does_not_use_is_nothing_to_it() {
        assert!(is_nothing(KvSystem::Ucm, "ram/read", &[], "handle_cache"));
        assert!(is_nothing(KvSystem::Ucm, "disk/read", &[], "register"));
        assert!(is_nothing(KvSystem::Ucm, "gds/read", &[], "async_depth"));
        assert!(!is_nothing(KvSystem::Ucm, "gds/read", &[("async", 1)], "async_depth"));
        assert!(is_nothing(KvSystem::Ucm, "gds/read", &[], "staging_bytes"));
        assert!(!is_nothing(KvSystem::Llmd, "gds/read", &[], "staging_bytes"));
        assert!(is_nothing(KvSystem::Llmd, "gds/read", &[], "read_priority"));
        assert!(is_nothing(KvSystem::Llmd, "gds/read", &[], "fsync"));
        assert!(!is_nothing(KvSystem::Llmd, "gds/read", &[("write_percent", 5)], "fsync"));
        assert!(is_nothing(KvSystem::Lmcache, "gds/write", &[], "prefetch_factor"));
        assert!(is_nothing(KvSystem::Lmcache, "gds/read", &[("enable_layerwise", 0)], "prefetch_factor"));
    }

    #[test]
    fn a_value_counts_as_far_as_its_limits_let_it() {
        // 512 tokens are two files of llm-d, or two files of LMCache with three layers each.
        assert_eq!(
            effect(KvSystem::Llmd, "staging/read", &[("threads_per_gpu", 64)], "threads_per_gpu"),
            Effect::Counts(2)
        );
        assert_eq!(
            effect(
                KvSystem::Lmcache,
                "gds/read",
                &[("prefetch_factor", 9), ("enable_layerwise", 1)],
                "prefetch_factor"
            ),
            Effect::Counts(3)
        );
        assert_eq!(effect(KvSystem::Lmcache, "disk/write", &[], "max_cache_size_gb"), Effect::Counts(2));
        assert!(is_nothing(KvSystem::Lmcache, "disk/write", &[("max_cache_size_mb", 1)], "max_cache_size_gb"));
        assert_eq!(effect(KvSystem::Ucm, "gds/read", &[], "handle_cache"), Effect::Counts(4));
        let same = [Effect::Counts(2), Effect::Counts(2)];
        assert_eq!(nothing_compared(&same).unwrap(), "all its values have the same effect as 2");
        assert_eq!(nothing_compared(&[Effect::Counts(0), Effect::Counts(2)]), None);
    }
}
