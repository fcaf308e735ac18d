//! The runs of a session as rows and groups, including runs that have not ended. A row contains the repeats of one
//! engine. A group contains the rows that may be compared.

use super::labels;
use crate::analysis::{RankedEngine, of_median_time, rank_engines};
use crate::core::{CacheState, Engine, Failure, LaneShare, RunResult, Status, Target};
use crate::session::{Lane, LaneStatus, State};
use std::cell::OnceCell;

/// All runs of one engine in one cache state.
#[derive(Clone, Debug)]
pub struct EngineRow<'s> {
    /// The engine.
    pub engine: &'s Engine,
    /// Cache state.
    pub cache: CacheState,
    /// Its runs in order. There is at least one.
    pub lanes: Vec<&'s Lane>,
    /// Its figures. They are kept, because a frame reads them many times.
    ranked: OnceCell<Option<RankedEngine>>,
}

/// Rows that may be compared: they have the same cache state, target and model. Runs that load at the same time are
/// also a group, and each of them has a row.
#[derive(Clone, Debug)]
pub struct RowGroup<'s> {
    /// Cache state.
    pub cache: CacheState,
    /// Target of the first run.
    pub target: &'s Target,
    /// The share of the first run, if the session has several models or targets.
    pub share: Option<&'s LaneShare>,
    /// The rows in the order of their first runs.
    pub rows: Vec<EngineRow<'s>>,
    /// Its ranking. It is kept, because a frame reads it many times.
    ranking: OnceCell<Vec<RankedEngine>>,
}

/// The groups of a session in the order of their first runs. The rows of a group have the order of their first runs,
/// and the order of the ranking after all runs have ended.
#[must_use]
pub fn row_groups(state: &State) -> Vec<RowGroup<'_>> {
    let mut groups: Vec<RowGroup<'_>> = Vec::new();
    // The group and the row of each kind of run. In a long session, nearly every run is a repeat of an earlier one.
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (number, lane) in state.lanes.iter().enumerate() {
        let kind = state.kind(number);
        if let Some((group, row)) = kind.and_then(|kind| places.get(kind)) {
            groups[*group].rows[*row].lanes.push(lane);
            continue;
        }
        let share = lane.share.as_ref();
        let group = groups.iter().position(|group| group.holds(lane)).unwrap_or_else(|| {
            groups.push(RowGroup {
                cache: lane.cache,
                target: &lane.target,
                share,
                rows: Vec::new(),
                ranking: OnceCell::new(),
            });
            groups.len() - 1
        });
        let rows = &mut groups[group].rows;
        let row = rows.iter().position(|row| row.holds(lane)).unwrap_or_else(|| {
            let (engine, cache) = (&lane.engine, lane.cache);
            rows.push(EngineRow { engine, cache, lanes: Vec::new(), ranked: OnceCell::new() });
            rows.len() - 1
        });
        rows[row].lanes.push(lane);
        if kind.is_some() {
            places.push((group, row));
        }
    }
    for group in groups.iter_mut().filter(|group| group.settled() && !group.together()) {
        group.sort_by_place();
    }
    groups
}

/// The group that contains a run.
#[must_use]
pub fn group_of<'g, 's>(groups: &'g [RowGroup<'s>], lane: &Lane) -> Option<&'g RowGroup<'s>> {
    groups.iter().find(|group| group.holds(lane))
}

impl<'s> EngineRow<'s> {
    /// Whether this row contains the given run of its group. The engine must be the same, and for runs that load
    /// together also the share and the target.
    fn holds(&self, lane: &Lane) -> bool {
        let slot = |l: &Lane| {
            l.share.as_ref().filter(|s| s.group.is_some()).map(|s| (s.model.clone(), s.part, l.target.clone()))
        };
        *self.engine == lane.engine && self.lanes.first().is_some_and(|first| slot(first) == slot(lane))
    }

    /// The place among the runs that load at the same time: the number of the part or model, from 1, and its name.
    /// `None` if the run loads alone.
    #[must_use]
    pub fn place(&self) -> Option<(u32, String)> {
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

    /// The engine, followed by the place if it loads together with others.
    #[must_use]
    pub fn name(&self) -> String {
        match self.place() {
            Some((_, place)) => format!("{} {place}", self.engine),
            None => self.engine.to_string(),
        }
    }

    /// The results of all completed runs.
    pub fn results(&self) -> impl Iterator<Item = &'s RunResult> + '_ {
        self.lanes.iter().filter_map(|lane| lane.result.as_deref())
    }

    /// The results of the successful runs.
    pub fn good(&self) -> impl Iterator<Item = &'s RunResult> + '_ {
        self.results().filter(|run| run.is_good())
    }

    /// The figures of the successful runs; `None` if there is no successful run. The ratio to the fastest engine is
    /// 1.
    #[must_use]
    pub fn ranked(&self) -> Option<&RankedEngine> {
        self.ranked.get_or_init(|| rank_engines(&self.results().collect::<Vec<_>>()).into_iter().next()).as_ref()
    }

    /// Number of successful runs.
    #[must_use]
    pub fn n(&self) -> usize {
        self.ranked().map_or(0, |ranked| ranked.runs)
    }

    /// The median wall time in nanoseconds.
    #[must_use]
    pub fn wall_ns(&self) -> Option<u64> {
        self.ranked().map(|ranked| ranked.wall_ns)
    }

    /// Bytes per second at the median time.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        self.ranked().filter(|ranked| ranked.moved()).map(|ranked| ranked.bytes_per_s)
    }

    /// The successful run with the median time. Charts show this run.
    #[must_use]
    pub fn typical(&self) -> Option<&'s Lane> {
        let good: Vec<&Lane> =
            self.lanes.iter().copied().filter(|lane| lane.result.as_deref().is_some_and(RunResult::is_good)).collect();
        of_median_time(good, |lane| lane.result.as_deref().map_or(0, |run| run.wall_ns))
    }

    /// The engine that `auto` chose, if all runs of `auto` chose the same engine.
    #[must_use]
    pub fn auto_chose(&self) -> Option<&Engine> {
        self.ranked()?.auto_chose.as_ref()
    }

    /// The run that is running now.
    #[must_use]
    pub fn running(&self) -> Option<&'s Lane> {
        self.lanes.iter().copied().find(|lane| lane.is_running())
    }

    /// The first failed run with the reason.
    #[must_use]
    pub fn failed(&self) -> Option<(&'s Lane, &'s Failure)> {
        self.lanes.iter().copied().find_map(|lane| match &lane.status {
            LaneStatus::Failed(why) => Some((lane, why)),
            _ => None,
        })
    }

    /// Whether the user stopped one of the runs.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.lanes.iter().any(|lane| lane.status == LaneStatus::Cancelled)
    }

    /// Whether all successful runs were verified.
    #[must_use]
    pub fn verified(&self) -> bool {
        self.ranked().is_some_and(|ranked| ranked.verified == Some(true))
    }

    /// Whether all runs have ended.
    #[must_use]
    pub fn settled(&self) -> bool {
        let over =
            |status: &LaneStatus| matches!(status, LaneStatus::Done | LaneStatus::Failed(_) | LaneStatus::Cancelled);
        self.lanes.iter().all(|lane| over(&lane.status))
    }

    /// The run that a chart shows: the running one, or else the one with the median time, or else the last one.
    #[must_use]
    pub fn shown(&self) -> Option<&'s Lane> {
        self.running().or_else(|| self.typical()).or_else(|| self.lanes.last().copied())
    }
}

impl<'s> RowGroup<'s> {
    fn holds(&self, lane: &Lane) -> bool {
        self.cache == lane.cache
            && match (self.share, &lane.share) {
                // Reads and writes are not compared with each other.
                (None, None) => {
                    *self.target == lane.target
                        && self.rows.first().is_none_or(|first| first.engine.direction() == lane.engine.direction())
                }
                // Runs that load at the same time are one group, even on different targets.
                (Some(ours), Some(theirs)) if ours.group.is_some() || theirs.group.is_some() => {
                    ours.group.is_some() == theirs.group.is_some()
                }
                (Some(ours), Some(theirs)) => *self.target == lane.target && ours.model == theirs.model,
                _ => false,
            }
    }

    /// Whether its runs load at the same time.
    #[must_use]
    pub fn together(&self) -> bool {
        self.share.is_some_and(|share| share.group.is_some())
    }

    /// The title of the group within its session: `cold cache, into host memory`.
    #[must_use]
    pub fn title(&self) -> String {
        let [cache, what] = self.title_parts();
        if what.is_empty() { cache } else { format!("{cache}, {what}") }
    }

    /// The two parts of the name: the cache with the direction, and the rest, which may be empty.
    #[must_use]
    pub fn title_parts(&self) -> [String; 2] {
        let cache = self.cache;
        let direction = self.rows.first().and_then(|row| row.engine.direction());
        let direction = direction.map_or_else(String::new, |direction| format!("{direction}, "));
        let what = match self.share {
            Some(LaneShare { group: Some(_), part: Some(part), .. }) => {
                format!("{} parts load at the same time", part.of)
            }
            Some(LaneShare { group: Some(_), .. }) => {
                "all models at the same time, compared with each alone".to_owned()
            }
            Some(share) => format!("{} alone on {}", share.model, self.target),
            None if *self.target == Target::Host => "into host memory".to_owned(),
            None => String::new(),
        };
        [format!("{direction}{cache} cache"), what]
    }

    /// The engines with successful runs, the fastest first. Empty for runs that load together, because these are
    /// parts of one run.
    fn ranking(&self) -> &[RankedEngine] {
        self.ranking.get_or_init(|| match self.together() {
            true => Vec::new(),
            false => rank_engines(&self.rows.iter().flat_map(EngineRow::results).collect::<Vec<_>>()),
        })
    }

    /// The figures of a row in its group; `None` if it has no successful run.
    #[must_use]
    pub fn ranked_engine<'g>(&'g self, row: &'g EngineRow<'s>) -> Option<&'g RankedEngine> {
        self.ranking().iter().find(|ranked| ranked.engine == *row.engine).or_else(|| row.ranked())
    }

    /// The rows with a successful run, the fastest first. Commands for which there is no evidence that they loaded
    /// the model are last.
    #[must_use]
    pub fn ranked(&self) -> Vec<&EngineRow<'s>> {
        let mut done: Vec<&EngineRow<'s>> = self.rows.iter().filter(|row| row.n() > 0).collect();
        done.sort_by_key(|row| (self.ranking().iter().position(|ranked| ranked.engine == *row.engine), row.wall_ns()));
        done
    }

    /// Sorts the rows by their places. Rows without a successful run are last.
    fn sort_by_place(&mut self) {
        let order: Vec<Engine> = self.ranked().into_iter().map(|row| row.engine.clone()).collect();
        self.rows.sort_by_key(|row| order.iter().position(|engine| engine == row.engine).unwrap_or(usize::MAX));
    }

    /// The fastest row.
    #[must_use]
    pub fn fastest(&self) -> Option<&EngineRow<'s>> {
        self.ranked().first().copied()
    }

    /// Whether all runs have ended.
    #[must_use]
    pub fn settled(&self) -> bool {
        self.rows.iter().all(EngineRow::settled)
    }
}

/// The status and text of a row without a successful run. `over` is whether the session has ended.
#[must_use]
pub fn without_run(row: &EngineRow<'_>, over: bool) -> (Status, String) {
    match row.failed() {
        Some((_, why)) => (Status::Fail, format!("{} failed: {why}", Status::Fail.mark())),
        None if row.cancelled() => (Status::Na, format!("{} stopped before it had loaded", Status::Na.mark())),
        None if over => (Status::Na, "never started".to_owned()),
        None => (Status::Na, "waits".to_owned()),
    }
}

/// Engines that cannot run, grouped by reason: `gds-slab`, `gds-batch`, and `cannot run here: …`.
#[must_use]
pub fn unavailable(state: &State) -> Vec<(Vec<String>, String)> {
    let mut reasons: Vec<(Vec<String>, &str)> = Vec::new();
    for (engine, why) in &state.unavailable {
        let name = labels::engine(engine);
        match reasons.iter_mut().find(|(_, known)| known == why) {
            // A variant that can neither write nor read is listed once.
            Some((names, _)) if names.contains(&name) => {}
            Some((names, _)) => names.push(name),
            None => reasons.push((vec![name], why)),
        }
    }
    reasons.into_iter().map(|(names, why)| (names, cannot_run(why))).collect()
}

/// The reason why no engine of the session can run, if it is the same for all.
#[must_use]
pub fn common_obstacle(state: &State) -> Option<&str> {
    let (_, why) = state.unavailable.first().filter(|_| state.lanes.is_empty())?;
    state.unavailable.iter().all(|(_, other)| other == why).then_some(why.as_str())
}

/// The text that follows the name of an engine if an earlier line has its reason.
pub const SAME_OBSTACLE: &str = "cannot run here for the same reason";

/// The text that follows the name of an engine that cannot run.
#[must_use]
pub fn cannot_run(why: &str) -> String {
    format!("cannot run here: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Event, EventBody, LaneId, Part};

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
    fn lanes_that_run_together_are_one_group_with_a_row_each_over_all_repeats() {
        let part = |group, index| share(Some(group), "m", Some(Part { index, of: 2 }));
        let state = planned(&[(0, part(0, 0)), (1, part(0, 1)), (0, part(2, 0)), (1, part(2, 1))]);
        let groups = row_groups(&state);
        assert_eq!(groups.len(), 1);
        assert!(groups[0].together());
        let names: Vec<(String, usize)> = groups[0].rows.iter().map(|e| (e.name(), e.lanes.len())).collect();
        assert_eq!(names, [("pread 1/2 GPU 0".to_owned(), 2), ("pread 2/2 GPU 1".to_owned(), 2)]);
    }

    #[test]
    fn models_alone_are_groups_of_their_own() {
        let lanes = [("a", None), ("b", None), ("a", Some(2)), ("b", Some(2))];
        let state = planned(&lanes.map(|(model, group)| (0, share(group, model, None))));
        let groups = row_groups(&state);
        assert_eq!(
            groups.iter().map(|h| (h.together(), h.rows.len())).collect::<Vec<_>>(),
            [(false, 1), (false, 1), (true, 2)]
        );
        assert!(group_of(&groups, &state.lanes[3]).is_some_and(RowGroup::together));
        assert_eq!(groups[2].rows[1].name(), "pread b GPU 0");
        assert_eq!(planned(&[(0, None), (0, None)]).lanes.len(), 2);
    }
}
