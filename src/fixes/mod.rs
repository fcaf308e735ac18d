//! Remedies: plan, preview, apply, verify, undo, journal. Never acts without consent.

mod advised;
mod applied;
mod apply;
mod boot;
mod command_line;
mod commands;
mod config;
mod distribution;
mod doca;
mod driver;
mod editable;
mod error;
mod fabric;
mod files;
mod fitting;
pub mod guide;
mod held;
mod hold;
mod install;
mod interrupted;
mod journal;
mod kernel;
mod limits;
mod lock;
mod merge;
mod modprobe;
mod multipath;
mod packages;
mod parts;
mod place;
mod preview;
mod recipes;
mod registry;
mod repository;
mod resume;
mod rollback;
mod secure_boot;
mod step;
mod store;
pub mod text;
mod toolkit;
mod udev;
mod undo;
mod undoable;
mod verify;

pub use apply::{apply, apply_with};
pub use commands::run_streamed;
pub use editable::may_edit;
pub use error::FixError;
pub use interrupted::{interrupted, recover, recover_with};
pub use journal::{CommandRun, CommandState, Entry, Journal, Stage, Written};
pub use place::Place;
pub use preview::preview;
pub use recipes::{RECIPES, Recipe, plan, plan_by_id};
pub use resume::take_up;
pub use step::Step;
pub use undo::{Undone, undo, undo_with};
pub use undoable::undoable;
pub use verify::{apply_and_verify, undo_and_verify};

use crate::domain::FixPlan;
use std::hash::{Hash, Hasher};

/// A number for what a plan changes, so that another process of this program can tell whether it would do what the user consented to.
#[must_use]
pub fn consent(plan: &FixPlan) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    plan.id.hash(&mut hasher);
    // Written out for debugging, for that cannot fail: what could not be written otherwise would be consented to unseen.
    format!("{:?}", plan.changes).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
