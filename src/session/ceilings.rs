//! Finds the measured ceiling that limits a run.

use super::lane::Lane;
use super::state::State;
use super::together::Group;
use crate::core::{CacheState, Ceiling, CeilingKind, Target};

impl State {
    /// The lowest measured ceiling that applies to a load. For a cold load it is the read rate of the device; for a
    /// hot load the rate of the page cache or of pinned copies. `None` if no ceiling was measured, and for an
    /// unchanged cache, because its reads are from both the device and the page cache.
    #[must_use]
    pub fn ceiling(&self, cache: CacheState, target: &Target, model: &str) -> Option<&Ceiling> {
        self.ceilings
            .iter()
            .filter(|c| match c.kind {
                CeilingKind::PinnedCopy => copies_to(c, target) && cache != CacheState::AsIs,
                CeilingKind::DirectRead => cache == CacheState::Cold && c.model.as_deref() == Some(model),
                CeilingKind::CachedRead => cache == CacheState::Hot && c.model.as_deref() == Some(model),
            })
            .filter(|c| c.bytes_per_s.is_finite() && c.bytes_per_s > 0.0)
            .min_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))
    }

    /// The maximum total rate of runs that load together, in bytes per second, and the ceiling that causes it. Each
    /// GPU receives the bytes of its runs at its copy rate. The files of each model are read at their read rate. All
    /// of this happens at the same time, so the slowest one determines the total. `None` if the ceilings of a GPU or
    /// a model were not measured.
    #[must_use]
    pub fn group_ceiling(&self, group: &Group<'_>) -> Option<(CeilingKind, f64)> {
        let cache = group.lanes.first()?.cache;
        let read = match cache {
            CacheState::Cold => CeilingKind::DirectRead,
            CacheState::Hot => CeilingKind::CachedRead,
            CacheState::AsIs => return None,
        };
        let (mut total, mut slowest) = (0_u64, None::<(CeilingKind, f64)>);
        for (number, lane) in group.lanes.iter().enumerate() {
            total = total.saturating_add(self.bytes_of(lane));
            let model = self.model_of(lane)?.name.as_str();
            let earlier = &group.lanes[..number];
            let mut bound = |kind, same: &dyn Fn(&Lane) -> bool, applies: &dyn Fn(&Ceiling) -> bool| {
                let bytes =
                    group.lanes.iter().filter(|l| same(l)).fold(0, |sum: u64, l| sum.saturating_add(self.bytes_of(l)));
                let rates = self.ceilings.iter().filter(|c| c.kind == kind && applies(c)).map(|c| c.bytes_per_s);
                let rate = rates.filter(|rate| rate.is_finite() && *rate > 0.0).reduce(f64::min)?;
                let seconds = bytes as f64 / rate;
                if slowest.is_none_or(|(_, most)| seconds > most) {
                    slowest = Some((kind, seconds));
                }
                Some(())
            };
            if lane.target != Target::Host && !earlier.iter().any(|l| l.target == lane.target) {
                bound(CeilingKind::PinnedCopy, &|l| l.target == lane.target, &|c| copies_to(c, &lane.target))?;
            }
            let of_model = |l: &Lane| self.model_of(l).is_some_and(|m| m.name == model);
            if !earlier.iter().any(|l| of_model(l)) {
                bound(read, &of_model, &|c| c.model.as_deref() == Some(model))?;
            }
        }
        let (kind, seconds) = slowest.filter(|(_, seconds)| *seconds > 0.0)?;
        Some((kind, total as f64 / seconds))
    }

    pub(super) fn put_ceiling(&mut self, ceiling: &Ceiling) {
        let same = |c: &&mut Ceiling| (c.kind, &c.gpu, &c.model) == (ceiling.kind, &ceiling.gpu, &ceiling.model);
        match self.ceilings.iter_mut().find(same) {
            Some(known) => *known = ceiling.clone(),
            None => self.ceilings.push(ceiling.clone()),
        }
    }
}

fn copies_to(ceiling: &Ceiling, target: &Target) -> bool {
    let Target::Gpu { ordinal, uuid, .. } = target else { return false };
    let gpu = ceiling.gpu.as_deref();
    gpu.is_some() && (gpu == uuid.as_deref() || gpu == Some(ordinal.to_string().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(kind: CeilingKind, gpu: Option<&str>, model: Option<&str>, bytes_per_s: f64) -> Ceiling {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ceiling {
            kind,
            gpu: owned(gpu),
            model: owned(model),
            bytes_per_s,
            how: String::new(),
            took_ns: 1,
            reader: None,
            passes: Vec::new(),
        }
    }

    #[test]
    fn the_lowest_that_applies_bounds_a_run() {
        let mut state = State::default();
        state.put_ceiling(&ceiling(CeilingKind::PinnedCopy, Some("GPU-a"), None, 55e9));
        state.put_ceiling(&ceiling(CeilingKind::DirectRead, None, Some("m"), 4e9));
        state.put_ceiling(&ceiling(CeilingKind::CachedRead, None, Some("m"), 60e9));
        let gpu = |uuid: &str| Target::Gpu { ordinal: 0, uuid: Some(uuid.into()), name: "H".into() };
        let rate = |cache, target: &Target, model| state.ceiling(cache, target, model).map(|c| c.bytes_per_s);
        assert_eq!(rate(CacheState::Hot, &gpu("GPU-a"), "m"), Some(55e9));
        assert_eq!(rate(CacheState::Cold, &gpu("GPU-a"), "m"), Some(4e9));
        // Ceilings of another GPU or of another model's files do not apply.
        assert_eq!(rate(CacheState::Hot, &gpu("GPU-b"), "m"), Some(60e9));
        assert_eq!(rate(CacheState::Hot, &Target::Host, "n"), None);
        assert_eq!(rate(CacheState::AsIs, &gpu("GPU-a"), "m"), None);
    }

    #[test]
    fn a_combined_run_is_limited_by_its_slowest_gpu_and_files() {
        use crate::core::{Engine, Event, EventBody, LaneId, LaneShare, ModelInfo, Part};
        let gpu = |ordinal: u32| Target::Gpu { ordinal, uuid: None, name: "H".into() };
        let session = |lanes: &[(Target, &str, u64, bool)]| {
            let mut state = State::default();
            let mut reduce = |body| state.reduce(&Event { at_ns: 0, body });
            for name in ["m", "n"] {
                reduce(EventBody::ModelOpened { model: ModelInfo { name: name.into(), ..ModelInfo::default() } });
            }
            for (number, (target, model, bytes, cut)) in (0_u32..).zip(lanes) {
                let (lane, target) = (LaneId(number), target.clone());
                reduce(EventBody::LanePlanned {
                    lane,
                    engine: Engine::Pread,
                    cache: CacheState::Hot,
                    target,
                    repeat: 0,
                });
                let part = cut.then_some(Part { index: number, of: 2 });
                let share = LaneShare { group: Some(0), model: (*model).to_owned(), bytes: *bytes, part };
                reduce(EventBody::LaneShared { lane, share });
            }
            for (ordinal, rate) in [("0", 50e9), ("1", 40e9)] {
                state.put_ceiling(&ceiling(CeilingKind::PinnedCopy, Some(ordinal), None, rate));
            }
            for (model, rate) in [("m", 200e9), ("n", 20e9)] {
                state.put_ceiling(&ceiling(CeilingKind::CachedRead, None, Some(model), rate));
            }
            state.groups().first().and_then(|group| state.group_ceiling(group))
        };
        let close = |found_ceiling: Option<(CeilingKind, f64)>, kind, rate: f64| {
            assert!(
                found_ceiling.is_some_and(|(k, r)| k == kind && (r / rate - 1.0).abs() < 1e-9),
                "{found_ceiling:?} {rate}"
            );
        };
        // Two GPUs get half of the bytes each, so the total is twice the rate of the slower GPU.
        close(session(&[(gpu(0), "m", 100, true), (gpu(1), "m", 100, true)]), CeilingKind::PinnedCopy, 80e9);
        // One GPU gets both parts.
        close(session(&[(gpu(0), "m", 100, true), (gpu(0), "m", 100, true)]), CeilingKind::PinnedCopy, 50e9);
        // Two models load at the same time, so the slower files determine the rate.
        close(session(&[(gpu(0), "m", 100, false), (gpu(1), "n", 100, false)]), CeilingKind::CachedRead, 40e9);
        close(
            session(&[(Target::Host, "m", 100, true), (Target::Host, "m", 100, true)]),
            CeilingKind::CachedRead,
            200e9,
        );
        // The copies of one GPU were not measured, so the ceiling is unknown.
        assert_eq!(session(&[(gpu(0), "m", 100, true), (gpu(2), "m", 100, true)]), None);
    }
}
