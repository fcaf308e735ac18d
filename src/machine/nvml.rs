//! Reads facts about the driver and the GPUs from NVML. NVML needs no CUDA context. It is called in a thread with a
//! time limit.

use super::lenient;
use crate::core::units;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::time::Duration;

/// `NVML_ERROR_LIB_RM_VERSION_MISMATCH` of nvml.h.
const LIB_RM_VERSION_MISMATCH: u32 = 18;

/// The facts from NVML, in the format of `nvml.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NvmlFacts {
    /// The reason why NVML failed. The other fields are then empty.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::text")]
    pub error: Option<String>,
    /// The number of NVML's error. `None` if NVML did not answer, or in captures of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::number32")]
    pub error_code: Option<u32>,
    /// Driver version, for example `580.159.04`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub driver_version: Option<String>,
    /// CUDA version that the driver supports, for example `13.0`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub cuda_version: Option<String>,
    /// GPUs by index.
    #[serde(default, deserialize_with = "lenient::list")]
    pub gpus: Vec<NvmlGpu>,
    /// Whether NVML was not queried, because the capture has no `nvml.json`.
    #[serde(skip)]
    pub unasked: bool,
}

/// One GPU from NVML. Values that NVML does not report are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NvmlGpu {
    /// Index of the GPU in NVML.
    #[serde(default, deserialize_with = "lenient::index")]
    pub index: u32,
    /// UUID, `GPU-…`.
    #[serde(default, deserialize_with = "lenient::string")]
    pub uuid: String,
    /// Marketing name.
    #[serde(default, deserialize_with = "lenient::string")]
    pub name: String,
    /// PCI address as in sysfs, `0000:be:00.0`.
    #[serde(default, deserialize_with = "lenient::string")]
    pub pci_bus_id: String,
    /// Compute capability, for example `9.0`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub compute_capability: Option<String>,
    /// Size of the BAR1 aperture in bytes.
    #[serde(default, deserialize_with = "lenient::number")]
    pub bar1_total_bytes: Option<u64>,
    /// Used part of BAR1 in bytes.
    #[serde(default, deserialize_with = "lenient::number")]
    pub bar1_used_bytes: Option<u64>,
    /// Size of the device memory in bytes.
    #[serde(default, deserialize_with = "lenient::number")]
    pub memory_total_bytes: Option<u64>,
    /// Compute mode: `default`, `exclusive_process` or `prohibited`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub compute_mode: Option<String>,
    /// Whether persistence mode is on.
    #[serde(default, deserialize_with = "lenient::flag")]
    pub persistence: Option<bool>,
    /// MIG mode: `enabled` or `disabled`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub mig: Option<String>,
    /// ECC mode: `enabled` or `disabled`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub ecc: Option<String>,
    /// Virtualization mode: `none`, `passthrough` or `vgpu`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub virtualization: Option<String>,
    /// The PCIe link.
    #[serde(default, deserialize_with = "lenient::part")]
    pub pcie: Option<PcieLink>,
    /// CUDA attributes, if CUDA was queried.
    #[serde(default, deserialize_with = "lenient::part")]
    pub attributes: Option<GpuAttributes>,
}

/// Current and maximum state of a PCIe link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieLink {
    /// Current generation.
    #[serde(default, deserialize_with = "lenient::number32")]
    pub generation: Option<u32>,
    /// Current number of lanes.
    #[serde(default, deserialize_with = "lenient::number32")]
    pub width: Option<u32>,
    /// Maximum generation.
    #[serde(default, deserialize_with = "lenient::number32")]
    pub max_generation: Option<u32>,
    /// Maximum number of lanes.
    #[serde(default, deserialize_with = "lenient::number32")]
    pub max_width: Option<u32>,
}

/// CUDA device attributes (numbers 116, 124 and 122 in cuda.h).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuAttributes {
    /// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED`.
    #[serde(default, deserialize_with = "lenient::flag")]
    pub gpu_direct_rdma: Option<bool>,
    /// `CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED`.
    #[serde(default, deserialize_with = "lenient::flag")]
    pub dma_buf: Option<bool>,
    /// `CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS`.
    #[serde(default, deserialize_with = "lenient::flag")]
    pub stream_mem_ops: Option<bool>,
}

impl NvmlFacts {
    /// The facts if NVML failed.
    fn failed(error: String, error_code: Option<u32>) -> Self {
        Self { error: Some(error), error_code, ..Self::default() }
    }

    /// Whether NVML failed because the loaded module and the libraries are of different versions. Captures of earlier versions have only NVML's sentence.
    #[must_use]
    pub fn is_mismatched(&self) -> bool {
        match self.error_code {
            Some(code) => code == LIB_RM_VERSION_MISMATCH,
            None => self.error.as_ref().is_some_and(|text| text.to_lowercase().contains("mismatch")),
        }
    }
}

/// Queries NVML on this machine. `GDS_TOP_NVML` can name another library, so that tests can use a stand-in.
pub(super) fn ask_live(limit: Duration) -> NvmlFacts {
    let (tx, rx) = mpsc::channel();
    // NVML can hang if a GPU is faulty, and the call cannot be cancelled. At the time limit the thread is abandoned.
    let begun = std::thread::Builder::new().spawn(move || {
        let _ = tx.send(ask());
    });
    if let Err(error) = begun {
        let error = format!("NVML was not queried: {}", units::no_thread(error));
        return NvmlFacts::failed(error, None);
    }
    match rx.recv_timeout(limit) {
        Ok(Ok(facts)) => facts,
        Ok(Err(failed)) => failed,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            NvmlFacts::failed(format!("NVML did not answer within {} s", limit.as_secs()), None)
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            NvmlFacts::failed("NVML's thread ended without an answer".to_owned(), None)
        }
    }
}

fn ask() -> Result<NvmlFacts, NvmlFacts> {
    use nvml_wrapper::{Nvml, error::NvmlError};
    let refused = |error: NvmlError| {
        let text = error.to_string();
        let text = text.strip_prefix("a libloading error occurred: ").unwrap_or(&text);
        NvmlFacts::failed(text.to_owned(), Some(u32::from(error)))
    };
    // The versioned file name is used, because only development packages contain the unversioned one.
    let library = std::env::var_os("GDS_TOP_NVML").unwrap_or_else(|| "libnvidia-ml.so.1".into());
    let nvml = Nvml::builder().lib_path(&library).init().map_err(refused)?;
    let cuda = nvml.sys_cuda_driver_version().ok().map(|v| format!("{}.{}", v / 1000, v % 1000 / 10));
    let count = nvml.device_count().map_err(refused)?;
    let mut gpus = Vec::new();
    for index in 0..count {
        match nvml.device_by_index(index) {
            Ok(device) => gpus.push(gpu(index, &device)),
            Err(error) => {
                let text = format!("GPU {index} of {count} does not answer NVML: {error}");
                return Err(NvmlFacts::failed(text, Some(u32::from(error))));
            }
        }
    }
    Ok(NvmlFacts {
        error: None,
        error_code: None,
        driver_version: nvml.sys_driver_version().ok(),
        cuda_version: cuda,
        gpus,
        unasked: false,
    })
}

fn gpu(index: u32, device: &nvml_wrapper::Device<'_>) -> NvmlGpu {
    use nvml_wrapper::enum_wrappers::device::{ComputeMode, GpuVirtualizationMode};
    let bar1 = device.bar1_memory_info().ok();
    let on_off = |on: bool| if on { "enabled".to_owned() } else { "disabled".to_owned() };
    NvmlGpu {
        index,
        uuid: device.uuid().unwrap_or_default(),
        name: device.name().unwrap_or_default(),
        pci_bus_id: device.pci_info().map(|p| sysfs_address(p.domain, &p.bus_id)).unwrap_or_default(),
        compute_capability: device.cuda_compute_capability().ok().map(|c| format!("{}.{}", c.major, c.minor)),
        bar1_total_bytes: bar1.as_ref().map(|b| b.total),
        bar1_used_bytes: bar1.as_ref().map(|b| b.used),
        memory_total_bytes: device.memory_info().ok().map(|m| m.total),
        compute_mode: device.compute_mode().ok().map(|mode| {
            match mode {
                ComputeMode::Default => "default",
                ComputeMode::Prohibited => "prohibited",
                _ => "exclusive_process",
            }
            .to_owned()
        }),
        persistence: device.is_in_persistent_mode().ok(),
        mig: device.mig_mode().ok().map(|m| on_off(m.current == 1)),
        ecc: device.is_ecc_enabled().ok().map(|e| on_off(e.currently_enabled)),
        virtualization: device.virtualization_mode().ok().map(|mode| {
            match mode {
                GpuVirtualizationMode::Bare => "none",
                GpuVirtualizationMode::PassThrough => "passthrough",
                _ => "vgpu",
            }
            .to_owned()
        }),
        pcie: Some(PcieLink {
            generation: device.current_pcie_link_gen().ok(),
            width: device.current_pcie_link_width().ok(),
            max_generation: device.max_pcie_link_gen().ok(),
            max_width: device.max_pcie_link_width().ok(),
        }),
        // Only CUDA reports these attributes, and this process never opens CUDA.
        attributes: None,
    }
}

/// Converts an address of NVML, `00000000:BE:00.0`, to the format of sysfs, `0000:be:00.0`.
fn sysfs_address(domain: u32, bus_id: &str) -> String {
    let rest = bus_id.split_once(':').map_or(bus_id, |(_, rest)| rest).to_lowercase();
    format!("{domain:04x}:{rest}")
}

/// Words in the names of GPUs whose display mode sets the size of BAR1 (developer.nvidia.com/displaymodeselector).
const WITH_DISPLAY_MODE: &[&str] = &[
    "A40",
    "L40",
    "L40S",
    "RTX A5000",
    "RTX A5500",
    "RTX A6000",
    "RTX 5000 Ada",
    "RTX 5880 Ada",
    "RTX 6000 Ada",
    "RTX PRO 6000 Blackwell",
];

/// Whether NVIDIA's Display Mode Selector Tool can enlarge the BAR1 of a GPU with this name.
#[must_use]
pub fn has_display_mode(name: &str) -> bool {
    let name = format!(" {name} ");
    WITH_DISPLAY_MODE.iter().any(|known| name.contains(&format!(" {known} ")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_error_decides_and_old_captures_have_only_its_sentence() {
        let facts = |json| serde_json::from_value::<NvmlFacts>(json).unwrap();
        assert!(facts(serde_json::json!({"error": "in any language", "error_code": 18})).is_mismatched());
        assert!(!facts(serde_json::json!({"error": "a mismatch of another kind", "error_code": 9})).is_mismatched());
        assert!(facts(serde_json::json!({"error": "Driver/library version mismatch"})).is_mismatched());
        assert!(!facts(serde_json::json!({"error": "driver not loaded"})).is_mismatched());
    }

    #[test]
    fn an_address_is_written_as_in_sysfs() {
        assert_eq!(sysfs_address(0, "00000000:BE:00.0"), "0000:be:00.0");
    }

    #[test]
    fn a_foreign_capture_with_gaps_and_near_types_is_read() {
        let facts: NvmlFacts = serde_json::from_str(
            r#"{"driver_version":"580.1","gpus":[{"index":0,"uuid":"GPU-1","name":"H200","persistence":"enabled","ecc":null,
                "pcie":{"generation":"5"},"compute_capability":9.0,"unknown":[1]}]}"#,
        )
        .unwrap();
        assert_eq!(facts.gpus[0].persistence, Some(true));
        assert_eq!(facts.gpus[0].compute_capability.as_deref(), Some("9.0"));
        assert_eq!(facts.gpus[0].pcie.as_ref().unwrap().generation, Some(5));
        assert_eq!(facts.gpus[0].bar1_total_bytes, None);
    }
}
