//! CUDA errors that make opening cuFile fail, and their remedies.

use crate::checks::advice::Advice;
use crate::checks::container::bring::{Lack, bring};
use crate::machine::{self, Root};

/// The remedy for a CUDA error code. `None` if the code has no specific remedy.
pub(crate) fn remedy(root: &Root, code: i32) -> Option<Advice> {
    Some(match code {
        35 => {
            "CUDA error 35: install the libcufile of the CUDA release that the driver supports, or update the driver."
                .into()
        }
        46 => "CUDA error 46: another process uses the GPU exclusively. End it, or set the compute mode to Default."
            .into(),
        100 => match machine::container(root) {
            Some(container) => format!("CUDA error 100, no GPU is visible. {}", bring(&container, Lack::Gpu)).into(),
            None => Advice::from("CUDA error 100, no GPU is visible: unset CUDA_VISIBLE_DEVICES, then run ")
                .command("nvidia-smi -L"),
        },
        101 => "CUDA error 101: CUDA_VISIBLE_DEVICES names a GPU that does not exist. Correct or unset it.".into(),
        304 | 999 => Advice::from("The CUDA driver cannot open its devices: run ")
            .command("sudo nvidia-modprobe -u -c=0")
            .text(", or reload nvidia_uvm."),
        802 => Advice::from("CUDA error 802, the system is not ready: run ")
            .command("sudo systemctl restart nvidia-fabricmanager"),
        803 => "CUDA error 803, driver and libcuda differ: reboot, or remove cuda-compat from LD_LIBRARY_PATH.".into(),
        804 => {
            "CUDA error 804, cuda-compat does not support this GPU: remove its directory from LD_LIBRARY_PATH.".into()
        }
        _ => return None,
    })
}
