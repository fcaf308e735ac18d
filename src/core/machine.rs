//! A description of the machine: the `machine` part of a report.

use super::units;
use serde::{Deserialize, Serialize};

/// The machine that a report describes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The host name. Captures contain a placeholder instead.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// The distribution, `PRETTY_NAME` of os-release.
    pub distribution: String,
    /// The logical CPUs that this process can use. 0 if unknown.
    pub cpus: u32,
    /// The memory in bytes. 0 if unknown.
    pub memory_bytes: u64,
    /// GPUs by NVML index.
    pub gpus: Vec<Gpu>,
    /// NVIDIA driver version and flavour, `580.159.04 open`.
    pub driver: Option<String>,
    /// CUDA version that the driver supports, `13.0`.
    pub cuda: Option<String>,
    /// The libcufile that gds-top uses.
    pub libcufile: Option<LibcufileSeen>,
    /// The nvidia-fs kernel module, if it is loaded.
    pub nvidia_fs: Option<NvidiaFsSeen>,
    /// The container runtime. `None` outside of containers.
    pub container: Option<String>,
    /// The name of the processor. Recordings of earlier versions do not have this field and the fields below.
    #[serde(default)]
    pub cpu: Option<String>,
    /// The kernel parameters that affect devices, memory and the NVIDIA driver.
    #[serde(default)]
    pub kernel_parameters: Vec<String>,
    /// The storage below each examined path.
    #[serde(default)]
    pub storage: Vec<Storage>,
    /// The keys of cufile.json whose value is not the default of the library, by name. It is empty in recordings of
    /// earlier versions.
    #[serde(default)]
    pub cufile_settings: Vec<CufileSetting>,
    /// The other keys that the library supports, with their defaults, by name. It is empty in recordings of earlier
    /// versions.
    #[serde(default)]
    pub cufile_defaults: Vec<CufileSetting>,
    /// The NUMA nodes by number. It is empty in recordings of earlier versions and on kernels without NUMA.
    #[serde(default)]
    pub numa_nodes: Vec<NumaNode>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number.
    pub node: u32,
    /// Its CPUs as the kernel lists them, `0-15,32-47`. It is empty for a node that has only memory.
    pub cpus: String,
}

/// The storage below a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// The path that was examined.
    pub path: String,
    /// The type of the file system, as the kernel names it.
    pub filesystem: Option<String>,
    /// Mount point.
    pub mount_point: Option<String>,
    /// The mount options without addresses, names and passwords.
    pub mount_options: Option<String>,
    /// The mounted block device. `None` for a network file system, because its source is a host name.
    pub device: Option<String>,
    /// The disks below the file system. It is empty for a network file system.
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
    /// The name of its kernel driver, `nvme`.
    pub driver: Option<String>,
    /// PCI address of its controller.
    pub pci_bus_id: Option<String>,
    /// NUMA node of its controller.
    pub numa_node: Option<u32>,
}

/// A key of cufile.json with the value that libcufile uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CufileSetting {
    /// The name with dots between levels, `properties.max_direct_io_size_kb`.
    pub key: String,
    /// The value as JSON text.
    pub value: String,
    /// The origin of the value: a file and line, an environment variable, or the library.
    pub origin: String,
}

impl CufileSetting {
    /// The value. `None` for the JSON value null, which means that the key has no value.
    #[must_use]
    pub fn given(&self) -> Option<&str> {
        (self.value != "null").then_some(self.value.as_str())
    }
}

impl Machine {
    /// The CPUs and the memory in words. A missing value is shown as unknown, because a capture can lack it.
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
    /// The index in NVML.
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
    /// The current and the highest PCIe generation.
    pub pcie_generation: Option<(u32, u32)>,
    /// The current and the highest number of PCIe lanes.
    pub pcie_width: Option<(u32, u32)>,
    /// The NUMA node. `None` in recordings of earlier versions.
    #[serde(default)]
    pub numa_node: Option<u32>,
}

/// The libcufile that gds-top uses.
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
