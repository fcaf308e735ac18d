//! The record of a guided set-up in the journal, from which it is resumed after a reboot. It contains the route, the
//! paths and the completed steps. The state of the machine determines the remaining steps.

use super::error::FixError;
use super::journal::Journal;
use super::place::Place;
use super::resume::boot_id;
use crate::core::{FixId, Route};
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

    /// Adds a step and writes the record.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn record(&mut self, place: &Place, id: FixId, worked: bool) -> Result<(), FixError> {
        let boot_id = place.open_root().ok().and_then(|root| boot_id(&root));
        self.done.push(Done { id, boot_id, worked });
        self.save(place)
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
