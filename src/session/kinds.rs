//! Which lanes are repeats of one another, found once when a lane is planned: screens group the lanes several times in every frame, and a long race has
//! thousands.

use super::state::{Lane, State};

/// The kinds of the lanes, numbered in the order of their first lanes.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    /// Of each lane.
    of: Vec<u32>,
    /// The first lane of each.
    firsts: Vec<u32>,
}

impl State {
    /// The kind of a lane by its place, from 0 in the order of their first lanes. Lanes of one kind have the same engine, cache state and target, and
    /// share a model in the same way. `None` where that is not known.
    #[must_use]
    pub fn kind(&self, lane: usize) -> Option<usize> {
        if self.kinds.of.len() != self.lanes.len() {
            return None;
        }
        self.kinds.of.get(lane).map(|kind| *kind as usize)
    }

    /// Takes in the lane that was planned last.
    pub(super) fn sort_last(&mut self) {
        let (Some(lane), Ok(at)) = (self.lanes.last(), u32::try_from(self.lanes.len().saturating_sub(1))) else {
            return;
        };
        if self.kinds.of.len() != at as usize {
            return;
        }
        let first = |first: &u32| self.lanes.get(*first as usize).is_some_and(|first| is_repeat(first, lane));
        let kind = self.kinds.firsts.iter().position(first);
        if kind.is_none() {
            self.kinds.firsts.push(at);
        }
        self.kinds.of.push(kind.unwrap_or(self.kinds.firsts.len() - 1) as u32);
    }

    /// Sorts a lane anew whose share was told. That comes right after its plan; where it does not, the kinds are given up.
    pub(super) fn sort_again(&mut self, lane: usize) {
        if lane + 1 != self.lanes.len() || self.kinds.of.len() != self.lanes.len() {
            self.kinds.of.clear();
            return;
        }
        self.kinds.of.pop();
        self.kinds.firsts.pop_if(|first| *first as usize == lane);
        self.sort_last();
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
    use super::*;
    use crate::domain::{CacheState, Engine, Event, EventBody, LaneId, LaneShare, Target};

    fn tell(state: &mut State, body: EventBody) {
        state.reduce(&Event { at_ns: 0, body });
    }

    fn plan(state: &mut State, lane: u32, engine: Engine) {
        let (lane, cache) = (LaneId(lane), CacheState::Hot);
        tell(state, EventBody::LanePlanned { lane, engine, cache, target: Target::Host, repeat: 0 });
    }

    fn share(state: &mut State, lane: u32, model: &str) {
        let share = LaneShare { group: None, model: model.into(), bytes: 1, part: None };
        tell(state, EventBody::LaneShared { lane: LaneId(lane), share });
    }

    fn kinds(state: &State) -> Vec<Option<usize>> {
        (0..state.lanes.len()).map(|at| state.kind(at)).collect()
    }

    #[test]
    fn repeats_share_a_kind_and_a_share_that_is_told_at_once_counts() {
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
    fn a_share_that_is_told_late_leaves_the_kinds_open() {
        let mut state = State::default();
        plan(&mut state, 0, Engine::Mmap);
        plan(&mut state, 1, Engine::Mmap);
        share(&mut state, 0, "a");
        plan(&mut state, 2, Engine::Mmap);
        assert_eq!(kinds(&state), [None, None, None]);
    }
}
