//! Runs that loaded together: their total as one run, and the comparison of each with the same load alone.

use super::lane::Lane;
use super::state::State;
use crate::core::median::median_time;
use crate::core::{ModelInfo, RunResult, Target, together};
use std::sync::Arc;

/// Runs that load at the same time.
#[derive(Clone, Debug)]
pub struct Group<'s> {
    /// Number of the group.
    pub number: u32,
    /// Its runs in order. There is at least one.
    pub lanes: Vec<&'s Lane>,
    /// Their total, after all have ended. If one run failed, the total is an error.
    pub combined: Option<RunResult>,
}

/// All repeats of one group, which have the same engine, models, targets and cache state.
#[derive(Clone, Debug)]
pub struct Together {
    /// Whether one model was divided among several targets.
    pub one_model: bool,
    /// The repeat whose time is nearest to the median.
    pub typical: RunResult,
    /// Number of successful repeats.
    pub n: usize,
    /// The median time in nanoseconds.
    pub wall_ns: u64,
    /// The shortest and the longest time in nanoseconds.
    pub range_ns: (u64, u64),
    /// Bytes per second at the median time.
    pub bytes_per_s: f64,
}

impl Group<'_> {
    /// Whether one model was divided among several targets. Otherwise several models were loaded at once.
    #[must_use]
    pub fn is_one_model(&self) -> bool {
        self.lanes.iter().all(|l| l.share.as_ref().is_some_and(|s| s.part.is_some()))
    }
}

impl State {
    /// The model that a run loads.
    #[must_use]
    pub fn model_of(&self, lane: &Lane) -> Option<&Arc<ModelInfo>> {
        match &lane.share {
            Some(share) => self.models.iter().find(|m| m.name == share.model),
            None => self.model.as_ref(),
        }
    }

    /// Number of tensor bytes that a run must load; 0 if its model is unknown.
    #[must_use]
    pub fn bytes_of(&self, lane: &Lane) -> u64 {
        match &lane.share {
            Some(share) => share.bytes,
            None => self.model.as_ref().map_or(0, |m| m.tensor_bytes()),
        }
    }

    /// The groups of runs that load together, in order.
    #[must_use]
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for lane in &self.lanes {
            let Some(number) = lane.group() else { continue };
            match groups.iter_mut().find(|g| g.number == number) {
                Some(group) => group.lanes.push(lane),
                None => groups.push(Group { number, lanes: vec![lane], combined: None }),
            }
        }
        for group in &mut groups {
            group.combined = combined(&group.lanes);
        }
        groups
    }

    /// The groups of runs that loaded together, in order. Repeats are combined.
    #[must_use]
    pub fn combined_runs(&self) -> Vec<Together> {
        let mut known: Vec<(bool, Vec<RunResult>)> = Vec::new();
        for group in self.groups() {
            let one = group.is_one_model();
            let Some(combined) = group.combined.filter(|r| r.error.is_none() && r.wall_ns > 0) else { continue };
            let same = |r: &RunResult| {
                (&r.engine, r.cache, &r.model, &r.target)
                    == (&combined.engine, combined.cache, &combined.model, &combined.target)
            };
            match known.iter_mut().find(|(_, runs)| runs.first().is_some_and(same)) {
                Some((_, runs)) => runs.push(combined),
                None => known.push((one, vec![combined])),
            }
        }
        known.into_iter().filter_map(|(one_model, runs)| Together::of(one_model, runs)).collect()
    }

    /// All runs that may be compared with others: the runs that loaded alone, and the totals of groups.
    #[must_use]
    pub fn runs(&self) -> Vec<RunResult> {
        let alone = self.lanes.iter().filter(|l| l.group().is_none()).filter_map(|l| l.result.as_deref().cloned());
        alone.chain(self.groups().into_iter().filter_map(|group| group.combined)).collect()
    }

    /// The median time in nanoseconds of the same load alone: with the same model, engine, cache state and target,
    /// without a part or group. `None` if no such load was successful.
    #[must_use]
    pub fn alone_ns(&self, lane: &Lane) -> Option<u64> {
        let share = lane.share.as_ref().filter(|s| s.part.is_none() && s.group.is_some())?;
        let same = |l: &&Lane| {
            l.group().is_none()
                && l.share.as_ref().is_some_and(|s| s.model == share.model && s.part.is_none())
                && (&l.engine, l.cache, &l.target) == (&lane.engine, lane.cache, &lane.target)
        };
        let walls: Vec<u64> = self
            .lanes
            .iter()
            .filter(same)
            .filter_map(|l| l.result.as_deref().filter(|r| r.error.is_none() && r.verified != Some(false)))
            .map(|r| r.wall_ns)
            .collect();
        median_time(&walls)
    }
}

impl Together {
    fn of(one_model: bool, mut runs: Vec<RunResult>) -> Option<Self> {
        runs.sort_by_key(|r| r.wall_ns);
        let n = runs.len();
        let wall_ns = median_time(&runs.iter().map(|r| r.wall_ns).collect::<Vec<_>>())?;
        let range_ns = (runs.first()?.wall_ns, runs.last()?.wall_ns);
        let typical = runs.into_iter().min_by_key(|r| r.wall_ns.abs_diff(wall_ns))?;
        let bytes_per_s = crate::core::units::bytes_per_s(typical.bytes, wall_ns)?;
        Some(Self { one_model, typical, n, wall_ns, range_ns, bytes_per_s })
    }
}

fn combined(lanes: &[&Lane]) -> Option<RunResult> {
    if lanes.iter().any(|l| l.ended_ns.is_none()) {
        return None;
    }
    let known: Vec<(u64, &RunResult)> =
        lanes.iter().filter_map(|l| Some((l.clock_ns.unwrap_or(l.started_ns?), l.result.as_deref()?))).collect();
    let mut combined = together(&known)?;
    combined.target = places(lanes).into();
    // If a run died or landed wrong bytes, the sentence about it is only in the run.
    let failed = lanes.iter().find_map(|l| l.error());
    if combined.error.is_none() && known.len() < lanes.len() {
        combined.error = failed;
    }
    Some(combined)
}

/// The targets as text: `2 × NVIDIA H200` or `host memory`. Each part has a separate target, but several models can
/// share a GPU.
fn places(lanes: &[&Lane]) -> String {
    let parts = lanes.iter().all(|l| l.share.as_ref().is_some_and(|s| s.part.is_some()));
    let mut seen: Vec<(String, usize)> = Vec::new();
    for (number, lane) in lanes.iter().enumerate() {
        let again = lanes.iter().take(number).any(|earlier| earlier.target == lane.target);
        let name = match &lane.target {
            Target::Gpu { name, .. } => name.clone(),
            Target::Host => lane.target.to_string(),
        };
        match seen.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += usize::from(parts || !again),
            None => seen.push((name, 1)),
        }
    }
    let words = |(name, n): &(String, usize)| if *n == 1 { name.clone() } else { format!("{n} × {name}") };
    seen.iter().map(words).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{CacheState, Engine, Event, EventBody, LaneId, LaneShare, LaneStage, Part};

    fn gpu(ordinal: u32) -> Target {
        Target::Gpu { ordinal, uuid: None, name: "H200".into() }
    }

    /// A session whose runs had these targets, shares and times in nanoseconds.
    fn session(lanes: &[(Target, LaneShare, u64)]) -> State {
        let mut state = State::default();
        let mut reduce = |at_ns, body| state.reduce(&Event { at_ns, body });
        for (number, (target, share, wall_ns)) in (0_u32..).zip(lanes) {
            let lane = LaneId(number);
            let (engine, cache) = (Engine::Pread, CacheState::Hot);
            reduce(0, EventBody::LanePlanned { lane, engine, cache, target: target.clone(), repeat: 0 });
            reduce(0, EventBody::LaneShared { lane, share: share.clone() });
            reduce(10, EventBody::LaneStarted { lane, pid: 1 });
            reduce(100, EventBody::LaneStage { lane, stage: LaneStage::Loading });
            let (model, bytes, wall_ns) = (&share.model, share.bytes, *wall_ns);
            let result = serde_json::json!({
                "engine": "pread", "model": model, "cache": "hot", "cache_resident_before_fraction": 1.0, "target": "H200", "repeat": 0,
                "bytes": bytes, "wall_ns": wall_ns, "setup_ns": 1, "bytes_per_s": 1.0, "verified": true, "route": null, "phases": {},
                "slots": 1, "host_peak_bytes": null, "pinned_peak_bytes": null, "gpu_peak_bytes": null, "cpu_ns": null, "settings": {},
                "setup_parts_ns": {}, "notes": [], "error": null,
            });
            let result = serde_json::from_value(result).unwrap();
            reduce(100 + wall_ns, EventBody::LaneFinished { lane, result });
        }
        state
    }

    fn share(group: Option<u32>, model: &str, part: Option<Part>) -> LaneShare {
        LaneShare { group, model: model.into(), bytes: 1000, part }
    }

    #[test]
    fn parts_are_one_run_and_are_not_compared_alone() {
        let part = |index| share(Some(0), "m", Some(Part { index, of: 2 }));
        let state = session(&[(gpu(0), part(0), 500), (gpu(1), part(1), 700)]);
        let groups = state.groups();
        assert!(groups.len() == 1 && groups[0].is_one_model());
        let runs = state.runs();
        assert_eq!(runs.len(), 1);
        assert_eq!((runs[0].wall_ns, runs[0].bytes, runs[0].target.as_str()), (700, 2000, "2 × H200"));
    }

    #[test]
    fn models_on_one_gpu_are_held_against_their_time_alone() {
        let lanes = [("a", None, 100), ("b", None, 200), ("a", Some(2), 150), ("b", Some(2), 220)];
        let lanes: Vec<_> = lanes.map(|(model, group, ns)| (gpu(0), share(group, model, None), ns)).into();
        let state = session(&lanes);
        let group = &state.groups()[0];
        assert!(!group.is_one_model());
        assert_eq!(group.combined.as_ref().unwrap().target.as_str(), "H200");
        let alone: Vec<Option<u64>> = group.lanes.iter().map(|l| state.alone_ns(l)).collect();
        assert_eq!(alone, [Some(100), Some(200)]);
        assert_eq!(state.alone_ns(&state.lanes[0]), None, "a run that loaded alone is compared with itself");
        assert_eq!(state.runs().iter().map(|r| r.model.as_str()).collect::<Vec<_>>(), ["a", "b", "a + b"]);
    }
}
