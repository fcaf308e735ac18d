//! A description of the machine: the `machine` part of a report.

use super::units;
use serde::{Deserialize, Serialize};

/// A machine as the report names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name (redacted in captures).
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Distribution, `PRETTY_NAME` of os-release.
    pub distribution: String,
    /// Logical CPUs that this process may use; 0 if unknown.
    pub cpus: u32,
    /// Memory in bytes; 0 if unknown.
    pub memory_bytes: u64,
    /// GPUs by NVML index.
    pub gpus: Vec<Gpu>,
    /// NVIDIA driver version and flavour, `580.159.04 open`.
    pub driver: Option<String>,
    /// CUDA version that the driver supports, `13.0`.
    pub cuda: Option<String>,
    /// The libcufile that was chosen.
    pub libcufile: Option<LibcufileSeen>,
    /// The nvidia-fs kernel module, if it is loaded.
    pub nvidia_fs: Option<NvidiaFsSeen>,
    /// Container runtime, where the process runs in one.
    pub container: Option<String>,
    /// Name of the processor. Absent in recordings of earlier versions, as are the fields below.
    #[serde(default)]
    pub cpu: Option<String>,
    /// Words of the kernel's command line that concern devices, memory and the NVIDIA driver.
    #[serde(default)]
    pub kernel_parameters: Vec<String>,
    /// The storage below each examined path.
    #[serde(default)]
    pub storage: Vec<Storage>,
    /// Keys of cufile.json that do not have the library's default, by name. Empty in recordings of earlier versions.
    #[serde(default)]
    pub cufile_settings: Vec<CufileSetting>,
}

/// The storage below a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// The path that was examined.
    pub path: String,
    /// File-system type as the kernel names it.
    pub filesystem: Option<String>,
    /// Mount point.
    pub mount_point: Option<String>,
    /// Mount options without addresses, names and passwords.
    pub mount_options: Option<String>,
    /// The block device that is mounted; `None` for a network file system, because its source is a host name.
    pub device: Option<String>,
    /// The disks below the file system; empty for a network file system.
    pub disks: Vec<Disk>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Kernel name, `nvme0n1`.
    pub name: String,
    /// Model as the disk reports it.
    pub model: Option<String>,
    /// Firmware revision as the disk reports it.
    pub firmware: Option<String>,
    /// Kernel driver, `nvme`.
    pub driver: Option<String>,
    /// PCI address of its controller.
    pub pci_bus_id: Option<String>,
    /// NUMA node of its controller.
    pub numa_node: Option<u32>,
}

/// A key of cufile.json with the value that libcufile uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CufileSetting {
    /// Dotted name, `properties.max_direct_io_size_kb`.
    pub key: String,
    /// The value as JSON text.
    pub value: String,
    /// Its origin: a file with the line, or a variable.
    pub origin: String,
}

impl Machine {
    /// Its CPUs and its memory in words. A directory that represents a machine may have neither, and a missing value
    /// is not 0.
    #[must_use]
    pub fn size(&self) -> (String, String) {
        let cpus = if self.cpus > 0 { format!("{} CPUs", self.cpus) } else { "CPUs not known".to_owned() };
        let memory =
            if self.memory_bytes > 0 { units::bytes(self.memory_bytes) } else { "memory not known".to_owned() };
        (cpus, memory)
    }
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// NVML index.
    pub index: u32,
    /// UUID, `GPU-…`.
    pub uuid: String,
    /// Marketing name.
    pub name: String,
    /// PCI address as in sysfs.
    pub pci_bus_id: String,
    /// Compute capability, `9.0`.
    pub compute_capability: Option<String>,
    /// Memory in bytes.
    pub memory_total_bytes: Option<u64>,
    /// BAR1 aperture in bytes.
    pub bar1_total_bytes: Option<u64>,
    /// PCIe generation now and at most.
    pub pcie_generation: Option<(u32, u32)>,
    /// PCIe lanes now and at most.
    pub pcie_width: Option<(u32, u32)>,
    /// NUMA node. Absent in recordings of earlier versions.
    #[serde(default)]
    pub numa_node: Option<u32>,
}

/// The libcufile in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibcufileSeen {
    /// Its path.
    pub path: String,
    /// Its version, `1.15`.
    pub version: Option<String>,
}

/// The nvidia-fs module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvidiaFsSeen {
    /// Its version, `2.28.4`.
    pub version: Option<String>,
}
