//! The job of a run: its order, its settings, and the layout of its files.

use super::layout::Layout;
use super::order::{KvOrder, LaneName, Settings};
use crate::core::{Engine, LaneOrder};
use crate::engines::LoadError;
use crate::trust;

/// The error for a wrong order. Only a bug in gds-top can cause it.
pub(super) fn wrong(text: String) -> LoadError {
    LoadError::CuFile(text)
}

/// The job of a run.
pub(super) struct Job {
    pub(super) order: KvOrder,
    pub(super) lane: LaneName,
    pub(super) settings: Settings,
    pub(super) layout: Layout,
}

impl Job {
    /// Reads the order of a process, enters its directory, and computes the layout of its files.
    pub(super) fn of(lane_order: &LaneOrder) -> Result<Self, LoadError> {
        let asked =
            lane_order.workload.as_ref().ok_or_else(|| wrong("the order does not belong to a workload".to_owned()))?;
        let mut order: KvOrder = serde_json::from_value(asked.order.clone())
            .map_err(|error| wrong(format!("the workload's order is malformed: {error}")))?;
        let Engine::Workload(lane) = &lane_order.engine else {
            return Err(wrong(format!("{} is not a run of a workload", lane_order.engine)));
        };
        let lane = LaneName::new(lane.clone()).map_err(wrong)?;
        // The paths are relative to the directory that the session created. This directory is used even if another one has its
        // name now.
        let id = order.folder_id.ok_or_else(|| wrong("the order does not name its directory".to_owned()))?;
        let folder = std::mem::take(&mut order.folder);
        trust::enter(&folder, id).map_err(|why| wrong(format!("{} cannot be used: {why}", folder.display())))?;
        let settings = order.settings(&lane);
        Self::new(order, lane, settings)
    }

    /// Computes the layout of the files of an order.
    pub(super) fn new(order: KvOrder, lane: LaneName, settings: Settings) -> Result<Self, LoadError> {
        let layout = Layout::new(&order, &settings, lane.write).map_err(wrong)?;
        Ok(Self { order, lane, settings, layout })
    }
}
