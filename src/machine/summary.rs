//! Builds the summary of a machine for the top of screens and reports.

use super::container::Container;
use super::hardware;
use super::kernel_thread::is_kernel_thread;
use super::pci::pci_gpus;
use super::plain_name::is_plain_name;
use super::root::Root;
use crate::core::{Gpu, LibcufileSeen, Machine, NvidiaFsSeen};

/// The container in which this process runs, detected by the files and variables that runtimes create; `None` outside
/// a container.
#[must_use]
pub fn container(root: &Root) -> Option<Container> {
    root.kept_container(|| find_container(root))
}

fn find_container(root: &Root) -> Option<Container> {
    let environment = root.environment();
    let seen = |runtime: &str, source: &str, text: &str| {
        Some(Container { runtime: runtime.to_owned(), source: source.to_owned(), text: text.to_owned() })
    };
    if environment.contains_key("KUBERNETES_SERVICE_HOST") {
        return seen("kubernetes", "environment", "KUBERNETES_SERVICE_HOST is set");
    }
    const POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    if root.exists(POD) {
        return seen("kubernetes", POD, "exists");
    }
    // The plugin pyxis of Slurm starts Enroot for a job, with containers named pyxis_NUMBER.
    let is_job = environment.contains_key("SLURM_JOB_ID");
    let by_pyxis = |text: &str| if is_job || text.to_ascii_lowercase().contains("pyxis_") { "pyxis" } else { "enroot" };
    if let Some((name, value)) =
        environment.iter().find(|(name, _)| name.starts_with("ENROOT_") || name.starts_with("PYXIS_"))
    {
        return seen(by_pyxis(&format!("{name}={value}")), "environment", &format!("{name} is set"));
    }
    let mounts = root.read_text("/proc/self/mountinfo").unwrap_or_default();
    let top = super::mounts::parse_mountinfo(&mounts).into_iter().rfind(|m| m.point.as_os_str() == "/");
    // Enroot mounts the layers of an image below a directory with its name, or the file of a container.
    if let Some(line) = mounts.lines().find(|line| {
        line.split(' ').nth(4) == Some("/")
            && ["/enroot/", "/pyxis_", "/enroot-data/"].iter().any(|word| line.contains(word))
    }) {
        return seen(by_pyxis(line), "/proc/self/mountinfo", line);
    }
    // If a container image was unpacked onto a disk, as in small virtual machines, `/.dockerenv` still exists. The
    // root of a real container is not on a disk.
    let on_disk = top
        .as_ref()
        .is_some_and(|m| ["/dev/vd", "/dev/sd", "/dev/nvme", "/dev/xvd"].iter().any(|d| m.source.starts_with(d)));
    if root.exists("/.dockerenv") && !on_disk {
        return seen("docker", "/.dockerenv", "exists");
    }
    if root.exists("/run/.containerenv") {
        return seen("podman", "/run/.containerenv", "exists");
    }
    // Apptainer and Singularity create this directory in every image that they start.
    const APPTAINER: &str = "/.singularity.d";
    if root.exists(APPTAINER) {
        return seen("apptainer", APPTAINER, "exists");
    }
    if let Ok(cgroup) = root.read_text("/proc/self/cgroup") {
        for (word, runtime) in [("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc")]
        {
            if let Some(line) = cgroup.lines().find(|line| line.contains(word)) {
                return seen(runtime, "/proc/self/cgroup", line);
            }
        }
    }
    // systemd and LXC set this variable for the first process of a container.
    let known = |name: &str| match name {
        "lxc" | "lxc-libvirt" => "lxc",
        "systemd-nspawn" => "nspawn",
        "podman" => "podman",
        "docker" => "docker",
        _ => "container",
    };
    if let Some(value) = environment.get("container") {
        return seen(known(value), "environment", &format!("container={value}"));
    }
    // systemd writes this file if it is the first process of a container (LXC, nspawn).
    const SYSTEMD: &str = "/run/systemd/container";
    if let Some(name) = root.read_text(SYSTEMD).ok().map(|text| text.trim().to_owned()).filter(|name| !name.is_empty())
    {
        return seen(known(&name), SYSTEMD, &name);
    }
    // Nodes that boot over the network also have an overlay as root. But a container cannot see kernel threads.
    let sees_kernel = || root.read_bytes("/proc/2/stat").is_ok_and(|stat| is_kernel_thread(&stat, "kthreadd"));
    if top?.filesystem == "overlay" && !sees_kernel() {
        seen("container", "/proc/self/mountinfo", "the root is an overlay")
    } else {
        None
    }
}

/// The line of `/proc/driver/nvidia/version` with the flavour and version, if a driver is loaded.
#[must_use]
pub fn nvidia_version_line(root: &Root) -> Option<String> {
    let text = root.read_text("/proc/driver/nvidia/version").ok()?;
    text.lines().find(|line| line.contains("NVRM version")).map(str::to_owned)
}

/// Version and flavour of the loaded driver: `580.159.04 open`.
fn driver(root: &Root) -> Option<String> {
    let version = root
        .read_text("/sys/module/nvidia/version")
        .ok()
        .map(|text| text.trim().to_owned())
        .or_else(|| root.nvml().driver_version.clone());
    let Some(line) = nvidia_version_line(root) else { return version };
    let flavour = if line.to_lowercase().contains("open kernel") { "open" } else { "proprietary" };
    let version = version.or_else(|| {
        line.split_whitespace()
            .find(|w| w.contains('.') && w.starts_with(|c: char| c.is_ascii_digit()))
            .map(str::to_owned)
    })?;
    Some(format!("{version} {flavour}"))
}

/// The version of the loaded nvidia-fs, with the patch level if it is known.
#[must_use]
pub fn nvidia_fs_version(root: &Root) -> Option<String> {
    let full = root.read_text("/sys/module/nvidia_fs/version").ok().map(|text| text.trim().to_owned());
    full.or_else(|| {
        let stats = root.read_text(crate::core::NVFS_STATS).ok()?;
        Some(stats.split("NVFS Driver(version:").nth(1)?.split(')').next()?.trim().to_owned())
    })
    .or_else(|| {
        let text = root.read_text("/proc/driver/nvidia-fs/version").ok()?;
        Some(text.trim().strip_prefix("version:")?.trim().to_owned())
    })
    .filter(|version| !version.is_empty())
}

/// The summary of the machine. It waits for NVML. It contains libcufile only if that was already probed, so call it
/// again after the checks.
#[must_use]
pub fn machine(root: &Root) -> Machine {
    let trimmed = |path: &str| root.read_text(path).ok().map(|text| text.trim().to_owned());
    let nvml = root.nvml();
    let mut gpus: Vec<Gpu> = nvml
        .gpus
        .iter()
        .map(|gpu| Gpu {
            index: gpu.index,
            uuid: gpu.uuid.clone(),
            name: gpu.name.clone(),
            pci_bus_id: gpu.pci_bus_id.clone(),
            compute_capability: gpu.compute_capability.clone(),
            memory_total_bytes: gpu.memory_total_bytes,
            bar1_total_bytes: gpu.bar1_total_bytes,
            pcie_generation: gpu.pcie.as_ref().and_then(|p| Some((p.generation?, p.max_generation?))),
            pcie_width: gpu.pcie.as_ref().and_then(|p| Some((p.width?, p.max_width?))),
            numa_node: hardware::numa_node(root, &gpu.pci_bus_id),
        })
        .collect();
    if gpus.is_empty() {
        gpus = (0..)
            .zip(pci_gpus(root).unwrap_or_default())
            .map(|(index, gpu)| bare_gpu(root, index, &gpu.address))
            .collect();
    }
    let libcufile = root.libcufile_if_known().and_then(|facts| {
        let path = facts.chosen.clone()?;
        Some(LibcufileSeen { path, version: facts.version().map(str::to_owned) })
    });
    let fs_loaded = root.exists("/sys/module/nvidia_fs") || root.exists("/proc/driver/nvidia-fs/version");
    Machine {
        host: trimmed("/proc/sys/kernel/hostname").unwrap_or_default(),
        kernel: kernel_release(root).unwrap_or_default(),
        distribution: os_release(root, "PRETTY_NAME").unwrap_or_default(),
        cpus: cpus(root).unwrap_or(0),
        memory_bytes: memory_bytes(root).unwrap_or(0),
        gpus,
        driver: driver(root),
        cuda: nvml.cuda_version.clone(),
        libcufile,
        nvidia_fs: fs_loaded.then(|| NvidiaFsSeen { version: nvidia_fs_version(root) }),
        container: container(root).map(|c| c.runtime),
        cpu: hardware::cpu_model(root),
        kernel_parameters: hardware::kernel_parameters(root),
        // The storage is added later, because only the checks know the paths.
        storage: Vec::new(),
        cufile_settings: Vec::new(),
        cufile_defaults: Vec::new(),
        numa_nodes: hardware::numa_nodes(root),
    }
}

/// A GPU that NVML does not list, with facts from the kernel module and the PCI bus.
fn bare_gpu(root: &Root, index: u32, address: &str) -> Gpu {
    let information = root.read_text(format!("/proc/driver/nvidia/gpus/{address}/information")).unwrap_or_default();
    let field = |name: &str| {
        information
            .lines()
            .find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name))
            .map(|(_, value)| value.trim().to_owned())
    };
    let on_bus = || super::pci::pci_gpus(root)?.into_iter().find(|gpu| gpu.address == address);
    let unnamed = || if on_bus().is_some_and(|gpu| gpu.is_geforce()) { "NVIDIA GeForce GPU" } else { "NVIDIA GPU" };
    Gpu {
        index,
        uuid: field("GPU UUID").unwrap_or_else(|| address.to_owned()),
        name: field("Model").unwrap_or_else(|| unnamed().to_owned()),
        pci_bus_id: address.to_owned(),
        numa_node: hardware::numa_node(root, address),
        ..Gpu::default()
    }
}

/// The release of the running kernel, as `uname -r` prints it.
#[must_use]
pub fn kernel_release(root: &Root) -> Option<String> {
    root.read_text("/proc/sys/kernel/osrelease")
        .ok()
        .or_else(|| root.command(&["uname", "-r"]).map(|output| output.stdout))
        .or_else(|| root.read_text("/proc/version").ok()?.split_whitespace().nth(2).map(str::to_owned))
        .map(|text| text.trim().to_owned())
        .filter(|text| is_plain_name(text))
}

/// A field of os-release without quotes.
#[must_use]
pub fn os_release(root: &Root, key: &str) -> Option<String> {
    let text = root.read_text("/etc/os-release").or_else(|_| root.read_text("/usr/lib/os-release")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .map(|v| v.trim().trim_matches(['"', '\'']).to_owned())
}

/// Number of CPUs on which the process may run. The source is `/proc/self/status`, because captures contain it.
fn cpus(root: &Root) -> Option<u32> {
    let status = root.read_text("/proc/self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(
        list.trim()
            .split(',')
            .filter_map(|range| {
                let (from, to) = range.split_once('-').unwrap_or((range, range));
                let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
                Some(to.checked_sub(from)?.saturating_add(1))
            })
            .fold(0, u32::saturating_add),
    )
}

/// The memory of the machine in bytes.
#[must_use]
pub fn memory_bytes(root: &Root) -> Option<u64> {
    let meminfo = root.read_text("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}
