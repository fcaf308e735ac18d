//! Guests with a vGPU.

use super::root::Root;

/// Whether this is a guest with a vGPU. Its driver belongs to the vGPU release of the host. NVML reports a vGPU; if no
/// driver is loaded, the configuration of the guest driver's service shows it.
#[must_use]
pub fn is_vgpu_guest(root: &Root) -> bool {
    let gpus = &root.nvml().gpus;
    let is_configured =
        || ["gridd.conf", "gridd.conf.template"].iter().any(|name| root.exists(format!("/etc/nvidia/{name}")));
    gpus.iter().any(|gpu| gpu.virtualization.as_deref() == Some("vgpu")) || (gpus.is_empty() && is_configured())
}
