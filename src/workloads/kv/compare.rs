//! The variants of a run: the named variants, the compared settings, and the settings that have no effect.

use super::effect::{Effect, Settled, nothing_compared};
use super::error::PlanError;
use super::layout::Layout;
use super::order::{KvOrder, LaneName, Settings};
use super::params::{self, KvSetting};
use crate::core::Access;

/// A planned run.
pub(super) struct Planned {
    pub(super) lane: LaneName,
    pub(super) settings: Settings,
    pub(super) layout: Layout,
}

impl Planned {
    /// The run of a variant in one direction.
    pub(super) fn new(order: &KvOrder, variant: &str, direction: Access) -> Result<Self, PlanError> {
        let lane: LaneName = format!("{}/{variant}/{direction}", order.kind.name()).parse().map_err(PlanError)?;
        let settings = order.settings(&lane);
        let layout = Layout::new(order, &settings, lane.write).map_err(PlanError)?;
        Ok(Self { lane, settings, layout })
    }

    fn effect(&self, order: &KvOrder, setting: KvSetting) -> Effect {
        let Self { lane, settings, layout } = self;
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Settled { order, lane, settings, layout, cpus }.effect(setting)
    }
}

/// Each variant with each value of `NAME=A,B`. A variant on which the setting has no effect is run once, with a note.
///
/// # Errors
/// Returns a sentence if nothing is compared, a value is impossible, or no run would differ.
pub(super) fn compared(
    order: &KvOrder,
    variants: &[String],
    compare: &str,
    directions: &[Access],
) -> Result<(Vec<String>, Vec<String>), PlanError> {
    let (name, values) = compare.split_once('=').ok_or_else(|| {
        PlanError(format!("--compare needs NAME=A,B, for example handle_cache=0,65536; found '{compare}'"))
    })?;
    let mut settings: Vec<(KvSetting, u64)> = Vec::new();
    for value in values.split(',') {
        let setting = params::parse(order.kind, &format!("{name}={value}")).map_err(PlanError)?;
        if settings.contains(&setting) {
            return Err(PlanError(format!("--compare {compare} names {} twice", setting.1)));
        }
        settings.push(setting);
    }
    // `split` returns at least one value.
    let Some((compared, _)) = settings.first().copied() else { return Ok(Default::default()) };
    let (mut all, mut same) = (Vec::new(), Vec::new());
    for variant in variants {
        let each: Vec<String> =
            settings.iter().map(|(setting, value)| format!("{variant}:{setting}={value}")).collect();
        let mut why = None;
        let mut differs = settings.len() == 1;
        for direction in directions {
            let lanes = each.iter().map(|variant| Planned::new(order, variant, *direction));
            let effects: Vec<Effect> =
                lanes.map(|lane| Ok(lane?.effect(order, compared))).collect::<Result<_, PlanError>>()?;
            match nothing_compared(&effects).filter(|_| !differs) {
                // If a limit makes the values equal, this is a better reason than that the other direction does not
                // use the setting.
                Some(said) if why.is_none() || matches!(effects.first(), Some(Effect::Counts(_))) => why = Some(said),
                Some(_) => {}
                None => differs = true,
            }
        }
        match why.filter(|_| !differs) {
            Some(why) => {
                same.push((variant, why));
                all.push(variant.clone());
            }
            None => all.extend(each),
        }
    }
    let reasons: Vec<String> = same.iter().map(|(variant, why)| format!("{variant} ({why})")).collect();
    if !same.is_empty() && same.len() == variants.len() {
        return Err(PlanError(format!(
            "--compare {compare} would compare equal runs: {name} has no effect on {}",
            reasons.join(", ")
        )));
    }
    let said = (!same.is_empty())
        .then(|| format!("{name} has no effect on {}, so each of them is run once", reasons.join(", ")));
    Ok((all, said.into_iter().collect()))
}

/// The settings of `--set` that have not affected any run yet, with the reason. Settings that affect a run are
/// removed.
pub(super) struct Unused<'a> {
    order: &'a KvOrder,
    of: Vec<(KvSetting, u64, Option<&'static str>, bool)>,
}

impl<'a> Unused<'a> {
    pub(super) fn new(order: &'a KvOrder) -> Self {
        Self { order, of: order.settings.iter().map(|(name, value)| (*name, *value, None, false)).collect() }
    }

    /// Checks one more run.
    pub(super) fn see(&mut self, lane: &Planned) {
        for (name, value, why, reached) in &mut self.of {
            let reason = match lane.effect(self.order, *name) {
                Effect::Counts(_) if lane.lane.settings.contains_key(name) => {
                    "the variants that it affects set it themselves"
                }
                // This is the only setting that the name of a variant overrides.
                Effect::Counts(_) if lane.settings.get(*name) != *value => {
                    "the names of the variants determine whether buffers are registered: use gds-registered, or gds:register=N"
                }
                Effect::Counts(_) => {
                    *reached = true;
                    continue;
                }
                Effect::Nothing(reason) => reason,
            };
            why.get_or_insert(reason);
        }
    }

    /// The warnings.
    pub(super) fn said(self) -> impl Iterator<Item = String> {
        let unused = self
            .of
            .into_iter()
            .filter_map(|(name, value, why, reached)| Some((name, value, why.filter(|_| !reached)?)));
        unused.map(|(name, value, why)| format!("--set {name}={value} has no effect in this run: {why}"))
    }
}
