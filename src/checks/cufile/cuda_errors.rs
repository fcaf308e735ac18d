//! CUDA errors that make opening cuFile fail, and their remedies.

use crate::checks::container::bring::{Lack, bring};
use crate::machine::{self, Root};

/// The remedy for a CUDA error code. `None` if the code has no specific remedy.
pub(crate) fn remedy(root: &Root, code: i32) -> Option<String> {
    let text = match code {
        35 => {
            "CUDA error 35: install the libcufile of the CUDA release that the driver supports, or update the driver."
        }
        46 => "CUDA error 46: another process uses the GPU exclusively. End it, or set the compute mode to Default.",
        100 => match machine::container(root) {
            Some(container) => {
                return Some(format!("CUDA error 100, no GPU is visible. {}", bring(&container, Lack::Gpu)));
            }
            None => "CUDA error 100, no GPU is visible: unset CUDA_VISIBLE_DEVICES, then run `nvidia-smi -L`.",
        },
        101 => "CUDA error 101: CUDA_VISIBLE_DEVICES names a GPU that does not exist. Correct or unset it.",
        304 | 999 => {
            "The CUDA driver cannot open its devices: run `sudo nvidia-modprobe -u -c=0`, or reload nvidia_uvm."
        }
        802 => "CUDA error 802, the system is not ready: run `sudo systemctl restart nvidia-fabricmanager`.",
        803 => "CUDA error 803, driver and libcuda differ: reboot, or remove cuda-compat from LD_LIBRARY_PATH.",
        804 => "CUDA error 804, cuda-compat does not support this GPU: remove its directory from LD_LIBRARY_PATH.",
        _ => return None,
    };
    Some(text.to_owned())
}
