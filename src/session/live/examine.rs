//! Checks and fixes on behalf of the session.

use super::bus::Bus;
use std::path::PathBuf;

pub(super) struct Examiner;
impl Examiner {
    pub(super) fn new(_bus: Bus, _exe: PathBuf, _path: PathBuf) -> Self {
        Self
    }
    pub(super) fn machine(&mut self) {}
    pub(super) fn check(&mut self) {}
    pub(super) fn apply(&mut self, _id: &str) {}
    pub(super) fn dry_run(&mut self, _id: &str) {}
    pub(super) fn undo(&mut self, _id: &str) {}
}
