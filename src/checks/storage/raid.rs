//! Recognises volumes of hardware RAID controllers. They hide the disks behind them, NVMe disks too.

use crate::checks::context::Context;

/// The names in the models of such volumes (pci.ids; Dell PERC, Broadcom MegaRAID, HPE and Microchip Smart Array, Lenovo
/// ThinkSystem RAID).
const MODELS: &[&str] =
    &["PERC", "MegaRAID", "MR9", "LOGICAL VOLUME", "LogicalDrv", "ServeRAID", "ThinkSystem RAID", "RAID 9"];

pub(crate) const ADVICE: &str = "The controller hides its NVMe disks from the kernel, in RAID and in non-RAID mode. Stay with compat mode, or attach NVMe disks directly (backplane or adapter card). Copy the data first, because the volume is lost.";

/// A RAID controller, by the model of its volume.
pub(crate) struct Controller {
    pub(crate) name: String,
    pub(crate) source: String,
}

/// The RAID controller of a SCSI disk. `None` for a disk that is attached directly.
pub(crate) fn controller(ctx: &Context<'_>, disk: &str) -> Option<Controller> {
    let source = format!("/sys/block/{disk}/device/model");
    let name = ctx.root.read_text(&source).ok()?.trim().to_owned();
    MODELS.iter().any(|model| name.contains(model)).then_some(Controller { name, source })
}
