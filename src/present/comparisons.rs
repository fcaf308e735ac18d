//! The comparison groups of a session with the runs of each engine. Results tables and winners are made from them.

use super::engine_rows::row_groups;
use super::table::ResultRow;
use super::winner::Naming;
use crate::analysis::{ComparisonGroup, compare};
use crate::core::{Engine, Metric, RunResult};
use crate::session::State;
use std::borrow::Cow;

/// A group of a session with its runs.
#[derive(Clone, Debug)]
pub struct Comparison<'s> {
    /// The group with the ranking of its engines.
    pub group: ComparisonGroup,
    /// Whether its runs loaded together: parts of one model, or several models.
    pub together: bool,
    runs: Vec<Cow<'s, RunResult>>,
}

/// The groups of a session that have a successful run. First come engines that ran alone, in the order of their first
/// runs, then runs that loaded together.
#[must_use]
pub fn comparisons(state: &State) -> Vec<Comparison<'_>> {
    let conditions = (state.pressure(Metric::CpuPressurePercent), state.ended == Some(true));
    let mut all = Vec::new();
    for group in row_groups(state).into_iter().filter(|group| !group.together()) {
        let runs: Vec<Cow<'_, RunResult>> =
            group.rows.iter().flat_map(|row| row.results()).map(Cow::Borrowed).collect();
        all.extend(Comparison::of(runs, false, conditions));
    }
    let combined_runs: Vec<Cow<'_, RunResult>> =
        state.groups().into_iter().filter_map(|group| group.combined).map(Cow::Owned).collect();
    all.extend(Comparison::of(combined_runs, true, conditions));
    all
}

/// The name parts that differ between these groups.
#[must_use]
pub fn naming(comparisons: &[Comparison<'_>]) -> Naming {
    Naming::of(&comparisons.iter().map(|comparison| &comparison.group).collect::<Vec<_>>())
}

impl<'s> Comparison<'s> {
    /// The groups of these runs. There is one group for each model. The session had this CPU pressure and may have been
    /// interrupted.
    fn of(
        runs: Vec<Cow<'s, RunResult>>,
        together: bool,
        (cpu_pressure, interrupted): (Option<f64>, bool),
    ) -> Vec<Self> {
        let groups = compare(&runs.iter().map(AsRef::as_ref).collect::<Vec<_>>());
        let held = |group: &ComparisonGroup| runs.iter().filter(|run| group.holds(run)).cloned().collect();
        let measured = |group| ComparisonGroup { cpu_pressure, interrupted, ..group };
        groups.into_iter().map(measured).map(|group| Self { runs: held(&group), group, together }).collect()
    }

    /// The successful runs of an engine.
    #[must_use]
    pub fn runs_of(&self, engine: &Engine) -> Vec<&RunResult> {
        self.runs.iter().map(AsRef::as_ref).filter(|run| run.engine == *engine && run.is_good()).collect()
    }

    /// The rows of its results table, the fastest engine first.
    #[must_use]
    pub fn rows(&self) -> Vec<ResultRow<'_>> {
        self.group.engines.iter().map(|ranked| ResultRow::new(ranked, self.runs_of(&ranked.engine))).collect()
    }

    /// The title of its results table: `Qwen3-0.6B, cold cache, NVIDIA H200 (GPU 0)`.
    #[must_use]
    pub fn title(&self) -> String {
        let direction = self.group.direction().map_or_else(String::new, |direction| format!("{direction}s, "));
        format!("{direction}{}, {} cache, {}", self.group.model, self.group.cache, self.group.target)
    }
}
