//! Finds the runs that are repeats of one another. This is done once, when a run is planned, because screens group
//! the runs several times per frame and a long race has thousands of runs.

use super::lane::Lane;

/// The kinds of runs, numbered in the order of their first runs. All runs of a kind are repeats of one another.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    /// The kind of each run.
    of: Vec<u32>,
    /// The first run of each kind.
    firsts: Vec<u32>,
}

impl Kinds {
    /// The kind of a run; `None` if it is unknown. `lanes` is the number of all runs.
    pub(super) fn get(&self, lane: usize, lanes: usize) -> Option<usize> {
        if self.of.len() != lanes {
            return None;
        }
        self.of.get(lane).map(|kind| *kind as usize)
    }

    /// Adds the run that was planned last.
    pub(super) fn add(&mut self, lanes: &[Lane]) {
        let (Some(lane), Ok(at)) = (lanes.last(), u32::try_from(lanes.len().saturating_sub(1))) else { return };
        if self.of.len() != at as usize {
            return;
        }
        let first = |first: &u32| lanes.get(*first as usize).is_some_and(|first| is_repeat(first, lane));
        let kind = self.firsts.iter().position(first);
        if kind.is_none() {
            self.firsts.push(at);
        }
        self.of.push(kind.unwrap_or(self.firsts.len() - 1) as u32);
    }

    /// Adds a run again after its share was reported, which happens directly after it is planned. If the order is
    /// different, all kinds are dropped.
    pub(super) fn add_again(&mut self, lane: usize, lanes: &[Lane]) {
        if lane + 1 != lanes.len() || self.of.len() != lanes.len() {
            self.of.clear();
            return;
        }
        self.of.pop();
        self.firsts.pop_if(|first| *first as usize == lane);
        self.add(lanes);
    }
}

fn is_repeat(first: &Lane, lane: &Lane) -> bool {
    let of = |lane: &Lane| lane.share.as_ref().map(|share| (share.group.is_some(), share.part));
    first.cache == lane.cache
        && first.engine == lane.engine
        && first.target == lane.target
        && of(first) == of(lane)
        && first.share.as_ref().map(|s| &s.model) == lane.share.as_ref().map(|s| &s.model)
}

#[cfg(test)]
mod tests {
    use crate::core::{CacheState, Engine, Event, EventBody, LaneId, LaneShare, Target};
    use crate::session::State;

    fn reduce(state: &mut State, body: EventBody) {
        state.reduce(&Event { at_ns: 0, body });
    }

    fn plan(state: &mut State, lane: u32, engine: Engine) {
        let (lane, cache) = (LaneId(lane), CacheState::Hot);
        reduce(state, EventBody::LanePlanned { lane, engine, cache, target: Target::Host, repeat: 0 });
    }

    fn share(state: &mut State, lane: u32, model: &str) {
        let share = LaneShare { group: None, model: model.into(), bytes: 1, part: None };
        reduce(state, EventBody::LaneShared { lane: LaneId(lane), share });
    }

    fn kinds(state: &State) -> Vec<Option<usize>> {
        (0..state.lanes.len()).map(|at| state.kind(at)).collect()
    }

    #[test]
    fn repeats_have_one_kind_and_an_early_share_counts() {
        let mut state = State::default();
        for (lane, engine) in [(0, Engine::Mmap), (1, Engine::Pread), (2, Engine::Mmap), (3, Engine::Pread)] {
            plan(&mut state, lane, engine);
        }
        assert_eq!(kinds(&state), [Some(0), Some(1), Some(0), Some(1)]);
        for (lane, model) in [(4, "a"), (5, "b"), (6, "a")] {
            plan(&mut state, lane, Engine::Mmap);
            share(&mut state, lane, model);
        }
        assert_eq!(kinds(&state)[4..], [Some(2), Some(3), Some(2)]);
        assert_eq!(state.kind(7), None);
    }

    #[test]
    fn a_late_share_leaves_the_kinds_open() {
        let mut state = State::default();
        plan(&mut state, 0, Engine::Mmap);
        plan(&mut state, 1, Engine::Mmap);
        share(&mut state, 0, "a");
        plan(&mut state, 2, Engine::Mmap);
        assert_eq!(kinds(&state), [None, None, None]);
    }
}
