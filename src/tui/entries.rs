//! Lanes as they race: repeats of one engine together, cold and hot apart, the fastest found fairly.

use crate::domain::{CacheState, Engine, Failure, LaneShare, LaneStage, RunResult, Target};
use crate::session::{Lane, LaneStatus, State};
use std::cell::OnceCell;

/// All runs of one engine in one cache state.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'s> {
    pub(crate) engine: &'s Engine,
    pub(crate) cache: CacheState,
    pub(crate) lanes: Vec<&'s Lane>,
    /// Wall times of the runs that ended well, shortest first: asked for many times in a frame, found once.
    walls: OnceCell<Vec<u64>>,
}

/// Entries that may be compared: same cache state, same target, same model; or lanes that run at the same time, each an entry of its own.
#[derive(Clone, Debug)]
pub(crate) struct Heat<'s> {
    pub(crate) cache: CacheState,
    pub(crate) target: &'s Target,
    /// What its lanes load, where the session has several models or targets.
    pub(crate) share: Option<&'s LaneShare>,
    pub(crate) entries: Vec<Entry<'s>>,
}

/// The heats of a state, in the order of their first lanes.
pub(crate) fn heats(state: &State) -> Vec<Heat<'_>> {
    let mut heats: Vec<Heat<'_>> = Vec::new();
    // Where the lanes of each kind stand: nearly every lane of a long race is the repeat of one before it.
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (number, lane) in state.lanes.iter().enumerate() {
        let kind = state.kind(number);
        if let Some((heat, entry)) = kind.and_then(|kind| places.get(kind)) {
            heats[*heat].entries[*entry].lanes.push(lane);
            continue;
        }
        let share = lane.share.as_ref();
        let at = heats.iter().position(|h| h.cache == lane.cache && h.holds(lane)).unwrap_or_else(|| {
            heats.push(Heat { cache: lane.cache, target: &lane.target, share, entries: Vec::new() });
            heats.len() - 1
        });
        let entries = &mut heats[at].entries;
        let entry = entries.iter().position(|e| e.holds(lane)).unwrap_or_else(|| {
            let (engine, cache) = (&lane.engine, lane.cache);
            entries.push(Entry { engine, cache, lanes: Vec::new(), walls: OnceCell::new() });
            entries.len() - 1
        });
        entries[entry].lanes.push(lane);
        if kind.is_some() {
            places.push((at, entry));
        }
    }
    heats
}

/// The heat of a lane.
pub(crate) fn heat_of<'h, 's>(heats: &'h [Heat<'s>], lane: &Lane) -> Option<&'h Heat<'s>> {
    heats.iter().find(|h| h.cache == lane.cache && h.holds(lane))
}

impl<'s> Entry<'s> {
    /// Whether a lane of its heat belongs to it: the same engine, and beside others the same share on the same target.
    fn holds(&self, lane: &Lane) -> bool {
        let slot = |l: &Lane| {
            l.share.as_ref().filter(|s| s.group.is_some()).map(|s| (s.model.clone(), s.part, l.target.clone()))
        };
        *self.engine == lane.engine && self.lanes.first().is_some_and(|first| slot(first) == slot(lane))
    }

    /// Its place among the lanes that run at the same time: the number of its part or model, from 1, and what to call it.
    pub(crate) fn place(&self) -> Option<(u32, String)> {
        let lane = self.lanes.first()?;
        let share = lane.share.as_ref().filter(|s| s.group.is_some())?;
        let place = match &lane.target {
            Target::Gpu { ordinal, .. } => format!("GPU {ordinal}"),
            Target::Host => "host".to_owned(),
        };
        Some(match share.part {
            Some(part) => {
                (part.index.saturating_add(1), format!("{}/{} {place}", part.index.saturating_add(1), part.of))
            }
            None => (
                lane.id.0.saturating_sub(share.group.unwrap_or(0)).saturating_add(1),
                match &lane.target {
                    Target::Gpu { .. } => format!("{} {place}", share.model),
                    Target::Host => share.model.clone(),
                },
            ),
        })
    }

    /// The engine, and the place where there are several.
    pub(crate) fn name(&self) -> String {
        match self.place() {
            Some((_, place)) => format!("{} {place}", self.engine),
            None => self.engine.to_string(),
        }
    }

    /// The name in `room` columns: of a command what tells it apart, its line.
    pub(crate) fn short_name(&self, room: u16) -> String {
        match self.place() {
            Some(_) => super::pen::cut(&self.name(), room),
            None => super::words::short_engine(self.engine, room),
        }
    }

    /// Results of the runs that ended well.
    pub(crate) fn results(&self) -> impl Iterator<Item = &'s RunResult> + '_ {
        self.lanes.iter().filter(|l| l.status == LaneStatus::Done).filter_map(|l| l.result.as_deref())
    }

    /// Number of runs that ended well.
    pub(crate) fn n(&self) -> usize {
        self.walls().len()
    }

    /// Wall times, shortest first.
    fn walls(&self) -> &[u64] {
        self.walls.get_or_init(|| {
            let mut walls: Vec<u64> = self.results().map(|r| r.wall_ns).collect();
            walls.sort_unstable();
            walls
        })
    }

    /// The median wall time.
    pub(crate) fn wall_ns(&self) -> Option<u64> {
        let walls = self.walls();
        let middle = walls.len() / 2;
        let upper = *walls.get(middle)?;
        Some(if walls.len() % 2 == 1 {
            upper
        } else {
            walls[middle - 1] / 2 + upper / 2 + (walls[middle - 1] % 2 + upper % 2) / 2
        })
    }

    /// Shortest and longest wall time.
    pub(crate) fn range_ns(&self) -> Option<(u64, u64)> {
        let walls = self.walls();
        Some((*walls.first()?, *walls.last()?))
    }

    /// The run nearest to the median: the one that stands for the entry in pictures.
    pub(crate) fn typical(&self) -> Option<&'s Lane> {
        let median = self.wall_ns()?;
        self.lanes
            .iter()
            .copied()
            .filter(|l| l.status == LaneStatus::Done)
            .filter_map(|l| Some((l, l.result.as_deref()?.wall_ns.abs_diff(median))))
            .min_by_key(|(_, distance)| *distance)
            .map(|(lane, _)| lane)
    }

    /// What `auto` took, where all its runs took the same.
    pub(crate) fn took(&self) -> Option<&'s Engine> {
        let mut all = self.results().map(RunResult::chosen_engine);
        let first = all.next()??;
        all.all(|took| took == Some(first)).then_some(first)
    }

    /// The run that is under way.
    pub(crate) fn running(&self) -> Option<&'s Lane> {
        self.lanes.iter().copied().find(|l| l.is_running())
    }

    /// The first run that failed, with the sentence; one that the user stopped has not failed.
    pub(crate) fn failed(&self) -> Option<(&'s Lane, &'s Failure)> {
        self.lanes.iter().copied().find_map(|l| match &l.status {
            LaneStatus::Failed(why) => Some((l, why)),
            _ => None,
        })
    }

    /// Whether a run was stopped by the user.
    pub(crate) fn stopped(&self) -> bool {
        self.lanes.iter().any(|l| l.status == LaneStatus::Cancelled)
    }

    /// `Some(true)` when all runs that ended well were verified, `None` when some were not compared.
    pub(crate) fn verified(&self) -> bool {
        self.n() > 0 && self.results().all(|r| r.verified == Some(true))
    }

    /// Whether nothing of it waits or runs.
    pub(crate) fn settled(&self) -> bool {
        self.lanes.iter().all(|l| matches!(l.status, LaneStatus::Done | LaneStatus::Failed(_) | LaneStatus::Cancelled))
    }

    /// The run to draw: the one under way, else the typical one, else the last.
    pub(crate) fn shown(&self) -> Option<&'s Lane> {
        self.running().or_else(|| self.typical()).or_else(|| self.lanes.last().copied())
    }
}

impl<'s> Heat<'s> {
    fn holds(&self, lane: &Lane) -> bool {
        match (self.share, &lane.share) {
            // What is written and what is read are two races.
            (None, None) => {
                *self.target == lane.target
                    && self.entries.first().is_none_or(|first| first.engine.direction() == lane.engine.direction())
            }
            // Whatever runs at the same time is one picture, wherever it lands.
            (Some(ours), Some(theirs)) if ours.group.is_some() || theirs.group.is_some() => {
                ours.group.is_some() == theirs.group.is_some()
            }
            (Some(ours), Some(theirs)) => *self.target == lane.target && ours.model == theirs.model,
            _ => false,
        }
    }

    /// Whether its lanes run at the same time.
    pub(crate) fn together(&self) -> bool {
        self.share.is_some_and(|share| share.group.is_some())
    }

    /// `cold cache`, with what else tells the heat from others.
    pub(crate) fn words(&self, cache: &str) -> String {
        match self.share {
            Some(LaneShare { group: Some(_), part: Some(part), .. }) => {
                format!("{cache} cache, cut into {} parts that load at the same time", part.of)
            }
            Some(LaneShare { group: Some(_), .. }) => {
                format!("{cache} cache, all models at the same time, each against its time alone")
            }
            Some(share) => format!("{cache} cache, {} alone on {}", share.model, self.target),
            None if *self.target == Target::Host => format!("{cache} cache, into host memory"),
            None => format!("{cache} cache"),
        }
    }

    /// The entry with the shortest median.
    pub(crate) fn fastest(&self) -> Option<&Entry<'s>> {
        self.ranked().first().copied()
    }

    /// Entries with a result, fastest first; behind them commands of which nothing tells that they loaded the model.
    pub(crate) fn ranked(&self) -> Vec<&Entry<'s>> {
        let mut done: Vec<&Entry<'s>> = self.entries.iter().filter(|e| e.n() > 0).collect();
        let result = |e: &Entry<'s>| e.typical().and_then(|lane| lane.result.as_deref());
        let own = |e: &&Entry<'s>| result(e).filter(|r| r.outside.is_none()).map(|r| r.bytes);
        let whole = done.iter().filter_map(own).max().unwrap_or(0);
        done.sort_by_key(|e| (result(e).is_some_and(|r| r.in_doubt(whole)), e.wall_ns()));
        done
    }

    /// Whether nothing of it waits or runs.
    pub(crate) fn settled(&self) -> bool {
        self.entries.iter().all(Entry::settled)
    }
}

/// Whether the first two of a ranking can be told apart: their ranges do not touch, or with a single run each they are more than 3 % apart.
pub(crate) fn is_clear(ranked: &[&Entry<'_>]) -> bool {
    match ranked {
        [first, second, ..] => match (first.range_ns(), second.range_ns()) {
            (Some((a, worst)), Some((best, _))) if first.n() > 1 || second.n() > 1 => worst < best && a > 0,
            (Some((a, _)), Some((b, _))) => b as f64 > a as f64 * 1.03,
            _ => false,
        },
        _ => true,
    }
}

/// The ranking without the second where the first two are `auto` and the engine that it took, within the noise: one way of loading measured twice is no tie.
pub(crate) fn without_twins<'a, 's>(mut ranked: Vec<&'a Entry<'s>>) -> (Vec<&'a Entry<'s>>, bool) {
    let twins = match ranked.as_slice() {
        [a, b, ..] => {
            let took = |auto: &Entry<'_>, other: &Entry<'_>| auto.took() == Some(other.engine);
            let far = a.wall_ns().zip(b.wall_ns()).is_some_and(|(a, b)| b as f64 > a as f64 * 1.05);
            // A single load of each tells nothing between them, nor do a few percent.
            (took(a, b) || took(b, a)) && !(a.n() > 1 && b.n() > 1 && far && is_clear(&ranked))
        }
        _ => false,
    };
    if twins {
        ranked.remove(1);
    }
    (ranked, twins)
}

/// Time on a lane's clock: up to now while it loads, its wall time afterwards; `None` before the clock started.
pub(crate) fn elapsed_ns(lane: &Lane, clock_ns: u64) -> Option<u64> {
    if let Some(result) = lane.result.as_deref().filter(|r| r.wall_ns > 0) {
        return Some(result.wall_ns);
    }
    let start = lane.clock_ns?;
    let end = lane.loaded_ns.or(lane.ended_ns).unwrap_or(clock_ns);
    Some(end.saturating_sub(start))
}

/// Bytes that a lane had landed at a time on its clock, between its progress points.
pub(crate) fn landed_at(lane: &Lane, on_clock_ns: u64) -> u64 {
    let Some(start) = lane.clock_ns else { return 0 };
    let wall = lane.result.as_deref().map(|r| (r.wall_ns, r.bytes)).filter(|_| lane.status == LaneStatus::Done);
    if let Some((wall_ns, bytes)) = wall
        && on_clock_ns >= wall_ns
    {
        return bytes;
    }
    let mut before = (0_u64, 0_u64);
    let points = lane.progress.iter().map(|(at, bytes)| (at.saturating_sub(start), *bytes)).chain(wall);
    for (at, bytes) in points {
        if at >= on_clock_ns {
            let (span, gain) = (at.saturating_sub(before.0).max(1) as f64, bytes.saturating_sub(before.1) as f64);
            return before.1 + (gain * on_clock_ns.saturating_sub(before.0) as f64 / span) as u64;
        }
        before = (at, bytes);
    }
    before.1
}

/// The rate of a lane under way over about the last half second.
pub(crate) fn rate_now(lane: &Lane) -> Option<f64> {
    const WINDOW_NS: u64 = 500_000_000;
    let (last_at, last) = *lane.progress.last()?;
    let (first_at, first) =
        *lane.progress.iter().rev().take_while(|(at, _)| last_at - at.min(&last_at) <= WINDOW_NS).last()?;
    let ns = last_at.checked_sub(first_at).filter(|ns| *ns > 0)?;
    Some(last.saturating_sub(first) as f64 * 1e9 / ns as f64)
}

/// What a stage is, as a phrase after the engine's name.
pub(crate) const fn stage_words(stage: LaneStage, cache: CacheState) -> &'static str {
    match (stage, cache) {
        (LaneStage::Setup, _) => "is starting: process, context, libraries",
        (LaneStage::PreparingCache, CacheState::Cold) => "waits while the page cache is made cold",
        (LaneStage::PreparingCache, CacheState::Hot) => "waits while the page cache is made hot",
        (LaneStage::PreparingCache, CacheState::AsIs) => "waits while the page cache is looked at",
        (LaneStage::Loading, _) => "is loading",
        (LaneStage::Verifying, _) => "has loaded; its bytes are compared with the file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Event, EventBody, LaneId, Part};

    fn planned(lanes: &[(u32, Option<LaneShare>)]) -> State {
        let mut state = State::default();
        for (lane, (ordinal, share)) in (0_u32..).map(LaneId).zip(lanes) {
            let target = Target::Gpu { ordinal: *ordinal, uuid: None, name: "H".into() };
            let (engine, cache) = (Engine::Pread, CacheState::Hot);
            state.reduce(&Event { at_ns: 0, body: EventBody::LanePlanned { lane, engine, cache, target, repeat: 0 } });
            if let Some(share) = share.clone() {
                state.reduce(&Event { at_ns: 0, body: EventBody::LaneShared { lane, share } });
            }
        }
        state
    }

    fn share(group: Option<u32>, model: &str, part: Option<Part>) -> Option<LaneShare> {
        Some(LaneShare { group, model: model.into(), bytes: 1, part })
    }

    #[test]
    fn lanes_that_run_together_are_one_heat_with_an_entry_each_over_all_repeats() {
        let part = |group, index| share(Some(group), "m", Some(Part { index, of: 2 }));
        let state = planned(&[(0, part(0, 0)), (1, part(0, 1)), (0, part(2, 0)), (1, part(2, 1))]);
        let heats = heats(&state);
        assert_eq!(heats.len(), 1);
        assert!(heats[0].together());
        let names: Vec<(String, usize)> = heats[0].entries.iter().map(|e| (e.name(), e.lanes.len())).collect();
        assert_eq!(names, [("pread 1/2 GPU 0".to_owned(), 2), ("pread 2/2 GPU 1".to_owned(), 2)]);
    }

    #[test]
    fn models_alone_are_heats_of_their_own_beside_the_one_in_which_they_meet() {
        let lanes = [("a", None), ("b", None), ("a", Some(2)), ("b", Some(2))];
        let state = planned(&lanes.map(|(model, group)| (0, share(group, model, None))));
        let heats = heats(&state);
        assert_eq!(
            heats.iter().map(|h| (h.together(), h.entries.len())).collect::<Vec<_>>(),
            [(false, 1), (false, 1), (true, 2)]
        );
        assert!(heat_of(&heats, &state.lanes[3]).is_some_and(Heat::together));
        assert_eq!(heats[2].entries[1].name(), "pread b GPU 0");
        assert_eq!(planned(&[(0, None), (0, None)]).lanes.len(), 2);
    }
}
