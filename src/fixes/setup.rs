//! The record of a guided set-up in the journal, from which it is resumed after a reboot. It contains the route, the
//! paths and the completed steps. The state of the machine determines the remaining steps.

use super::error::FixError;
use super::journal::Journal;
use super::place::Place;
use super::resume::boot_id;
use crate::core::{Change, FixId, FixPlan, Route};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A completed step of a guided set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The fix.
    pub id: FixId,
    /// The boot in which it was applied.
    pub boot_id: Option<String>,
    /// Whether its check passed, or it waits for a reboot.
    pub worked: bool,
    /// The rebuild of the initramfs that it left to a later step before the same reboot, until that step is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_rebuild: Option<Vec<String>>,
}

/// The record of a guided set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetUp {
    /// The version of the format.
    schema_version: u32,
    /// The route that it configures.
    pub route: Route,
    /// The paths for which reads must work.
    pub paths: Vec<PathBuf>,
    /// The completed steps in order.
    pub done: Vec<Done>,
}

const VERSION: u32 = 1;

impl SetUp {
    /// A new set-up.
    #[must_use]
    pub fn new(route: Route, paths: Vec<PathBuf>) -> Self {
        Self { schema_version: VERSION, route, paths, done: Vec::new() }
    }

    /// The set-up that was started on this machine. `None` if there is none or this version cannot read it.
    #[must_use]
    pub fn load(place: &Place) -> Option<Self> {
        let bytes = Journal::open(place).read_setup()?;
        serde_json::from_slice(&bytes).ok().filter(|set_up: &Self| set_up.schema_version == VERSION)
    }

    /// Adds a step and writes the record. `left_rebuild` is the rebuild of the initramfs that the plan leaves to a later
    /// step.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn record(
        &mut self,
        place: &Place,
        plan: &FixPlan,
        left_rebuild: Option<&[String]>,
        worked: bool,
    ) -> Result<(), FixError> {
        let boot_id = place.open_root().ok().and_then(|root| boot_id(&root));
        self.add(plan, left_rebuild, worked, boot_id);
        self.save(place)
    }

    fn add(&mut self, plan: &FixPlan, left_rebuild: Option<&[String]>, worked: bool, boot_id: Option<String>) {
        let runs = |rebuild: &Vec<String>| {
            worked && plan.changes.iter().any(|change| matches!(change, Change::Run { argv } if argv == rebuild))
        };
        for step in &mut self.done {
            if step.left_rebuild.as_ref().is_some_and(runs) {
                step.left_rebuild = None;
            }
        }
        let left_rebuild = left_rebuild.filter(|_| worked).map(<[String]>::to_vec);
        self.done.push(Done { id: plan.id, boot_id, worked, left_rebuild });
    }

    /// The rebuild of the initramfs that one of these fixes still needs before the next reboot.
    #[must_use]
    pub fn left_rebuild(&self, waiting: &[FixId]) -> Option<&[String]> {
        let waits = |step: &&Done| waiting.contains(&step.id);
        self.done.iter().rev().filter(waits).find_map(|step| step.left_rebuild.as_deref())
    }

    /// Writes the record.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn save(&self, place: &Place) -> Result<(), FixError> {
        place.writable()?;
        let bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        Journal::make(place)?.write_setup(&bytes)
    }

    /// Whether the machine was rebooted since a step was completed. `None` if this is unknown.
    #[must_use]
    pub fn was_rebooted(&self, place: &Place) -> Option<bool> {
        let now = boot_id(&place.open_root().ok()?)?;
        Some(self.done.last()?.boot_id.as_ref()? != &now)
    }

    /// Removes the record.
    pub fn forget(place: &Place) {
        if let Ok(Some(journal)) = Journal::existing(place) {
            journal.forget_setup();
            journal.tidy(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::{empty, run, words};
    use super::*;
    use crate::core::{FixPolicy, FixRisk, Needs};

    #[test]
    fn a_rebuild_is_left_until_a_step_that_works_runs_it() {
        const REBUILD: &str = "sudo update-initramfs -u -k all";
        const KEYS: FixId = FixId::P2pdmaRegistryKeys;
        let rebuild = words(REBUILD);
        let plan = |id, commands: &[&str]| FixPlan {
            changes: commands.iter().map(|line| run(line)).collect(),
            ..empty(id, Needs::Reboot, FixRisk::Medium, FixPolicy::Ask)
        };
        let paths = plan(FixId::NvmeMultipathOff, &[REBUILD]);
        let mut set_up = SetUp::new(Route::P2pdma, Vec::new());
        set_up.add(&plan(KEYS, &[]), Some(rebuild.as_slice()), false, None);
        assert_eq!(set_up.left_rebuild(&[KEYS]), None, "it was not applied");
        set_up.add(&plan(KEYS, &[]), Some(rebuild.as_slice()), true, None);
        set_up.add(&paths, None, false, None);
        assert_eq!(set_up.left_rebuild(&[KEYS]), Some(rebuild.as_slice()));
        assert_eq!(set_up.left_rebuild(&[]), None, "the machine was rebooted, or the fix was undone");
        set_up.add(&paths, None, true, None);
        assert_eq!(set_up.left_rebuild(&[KEYS, paths.id]), None);
    }
}
