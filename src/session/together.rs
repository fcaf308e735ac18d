//! Lanes that ran together, as the state knows them: their whole as a run of its own, and each beside the same load alone.

use super::state::{Lane, State};
use crate::domain::{ModelInfo, RunResult, together};
use std::sync::Arc;

/// Lanes that run at the same time.
#[derive(Clone, Debug)]
pub struct Group<'s> {
    /// Its number.
    pub number: u32,
    /// Its lanes, in order; at least one.
    pub lanes: Vec<&'s Lane>,
    /// What they come to, once all have ended. An error where one failed.
    pub whole: Option<RunResult>,
}

impl Group<'_> {
    /// Whether it is one model cut over targets; otherwise it is several models at once.
    #[must_use]
    pub fn is_one_model(&self) -> bool {
        self.lanes.iter().all(|l| l.share.as_ref().is_some_and(|s| s.part.is_some()))
    }
}

impl State {
    /// The model that a lane loads.
    #[must_use]
    pub fn model_of(&self, lane: &Lane) -> Option<&Arc<ModelInfo>> {
        match &lane.share {
            Some(share) => self.models.iter().find(|m| m.name == share.model),
            None => self.model.as_ref(),
        }
    }

    /// Tensor bytes that a lane is to load; 0 where its model is not known.
    #[must_use]
    pub fn bytes_of(&self, lane: &Lane) -> u64 {
        match &lane.share {
            Some(share) => share.bytes,
            None => self.model.as_ref().map_or(0, |m| m.tensor_bytes()),
        }
    }

    /// The groups of lanes that run together, in order.
    #[must_use]
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for lane in &self.lanes {
            let Some(number) = lane.group() else { continue };
            match groups.iter_mut().find(|g| g.number == number) {
                Some(group) => group.lanes.push(lane),
                None => groups.push(Group { number, lanes: vec![lane], whole: None }),
            }
        }
        for group in &mut groups {
            group.whole = whole(&group.lanes);
        }
        groups
    }

    /// Every run that may be compared with others: those of lanes that ran alone, and the wholes of groups.
    #[must_use]
    pub fn runs(&self) -> Vec<RunResult> {
        let alone = self.lanes.iter().filter(|l| l.group().is_none()).filter_map(|l| l.result.clone());
        alone.chain(self.groups().into_iter().filter_map(|group| group.whole)).collect()
    }

    /// The median time of the same load alone: same model, engine, cache state and target, whole, in no group. `None` where none ran well.
    #[must_use]
    pub fn alone_ns(&self, lane: &Lane) -> Option<u64> {
        let share = lane.share.as_ref().filter(|s| s.part.is_none() && s.group.is_some())?;
        let same = |l: &&Lane| {
            l.group().is_none()
                && l.share.as_ref().is_some_and(|s| s.model == share.model && s.part.is_none())
                && (&l.engine, l.cache, &l.target) == (&lane.engine, lane.cache, &lane.target)
        };
        let mut walls: Vec<u64> = self
            .lanes
            .iter()
            .filter(same)
            .filter_map(|l| l.result.as_ref().filter(|r| r.error.is_none() && r.verified != Some(false)))
            .map(|r| r.wall_ns)
            .collect();
        walls.sort_unstable();
        let upper = *walls.get(walls.len() / 2)?;
        Some(if walls.len() % 2 == 1 { upper } else { walls[walls.len() / 2 - 1].midpoint(upper) })
    }
}

fn whole(lanes: &[&Lane]) -> Option<RunResult> {
    if lanes.iter().any(|l| l.ended_ns.is_none()) {
        return None;
    }
    let known: Vec<(u64, &RunResult)> =
        lanes.iter().filter_map(|l| Some((l.clock_ns.unwrap_or(l.started_ns?), l.result.as_ref()?))).collect();
    let mut whole = together(&known)?;
    // One that died or landed wrong bytes has its sentence in the lane only.
    let failed = lanes.iter().find_map(|l| match &l.status {
        super::state::LaneStatus::Failed(why) => Some(why.clone()),
        _ => None,
    });
    if whole.error.is_none() && known.len() < lanes.len() {
        whole.error = failed;
    }
    Some(whole)
}
