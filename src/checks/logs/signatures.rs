//! Known lines of cufile.log and of the kernel log, with their meaning.

use crate::checks::logs::driver_lines;
use crate::core::{CheckId, FixId, Status};
use crate::machine::KernelLog;
use crate::text::contains_in_order;
use serde::Serialize;

use Status::{Fail, Info, Warn};

/// A known line and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signature {
    /// The parts of the line in order, in lower case.
    pieces: &'static [&'static str],
    /// The severity for the user. It does not depend on the log level.
    status: Status,
    meaning: &'static str,
    /// The remedy, or the text after the command of the fix.
    todo: &'static str,
    /// Whether the first fix of the check is the remedy.
    by_fix: bool,
    /// The check that examines the cause. `None` if there is none.
    check: Option<CheckId>,
    kind: Kind,
}

/// The value of a line for the search of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It names a cause.
    Cause,
    /// It follows every failure. It is reported only if the log contains no cause.
    Consequence,
    /// It only reports that no direct route is used. This is expected for host memory.
    NoDirect,
}

const fn sign(
    pieces: &'static [&'static str],
    status: Status,
    meaning: &'static str,
    todo: &'static str,
    check: Option<CheckId>,
) -> Signature {
    Signature { pieces, status, meaning, todo, by_fix: false, check, kind: Kind::Cause }
}

/// A known line whose remedy is the first fix of its check.
const fn fixed(
    pieces: &'static [&'static str],
    status: Status,
    meaning: &'static str,
    after: &'static str,
    check: CheckId,
) -> Signature {
    Signature { by_fix: true, ..sign(pieces, status, meaning, after, Some(check)) }
}

impl Signature {
    /// The fix that resolves the cause.
    fn fix(&self) -> Option<FixId> {
        self.check.filter(|_| self.by_fix)?.spec().fixes.first().copied()
    }

    /// The same for a line that follows from any failure.
    const fn follows(self) -> Self {
        Self { kind: Kind::Consequence, ..self }
    }
}

/// A line by which libcufile reports that it has no direct route.
const fn no_direct(pieces: &'static [&'static str]) -> Signature {
    let meaning = "no direct route is open: reads go through host memory";
    let todo = "gds-top check shows which route needs the fewest steps";
    Signature { kind: Kind::NoDirect, ..sign(pieces, Warn, meaning, todo, None) }
}

/// The meaning of a line about the sizes of the slabs on the GPU. A later cufile.json can have other sizes.
pub(crate) const NO_SMALL_SLAB: &str = "cufile.json has no GPU slab of 16 MiB or less";

const OVERLAY: &str = "the file is on an overlay or another anonymous device, unknown to udev";

/// Lines of cufile.log and of libcufile's output. The first match is used.
#[rustfmt::skip]
const CUFILE: &[Signature] = &[
    fixed(&["udev property not found", "id_fs_usage"], Fail, "udev has no record of the disk (5027)", "; in a container: -v /run/udev:/run/udev:ro", CheckId::UdevDatabase),
    sign(&["error getting volume attributes", "dev_no: 0:"], Fail, OVERLAY, "put the model on a mounted volume", Some(CheckId::FsType)),
    fixed(&["error getting volume attributes"], Fail, "udev has no record of the disk (5027)", "; in a container: -v /run/udev:/run/udev:ro", CheckId::UdevDatabase),
    sign(&["error creating udev_device for block device dev_no: 0:"], Fail, OVERLAY, "put the model on a mounted volume", Some(CheckId::FsType)),
    sign(&["assertion failure", "cufio-udev"], Fail, "libcufile aborts without udev, as under WSL", "run on Linux with /run/udev", Some(CheckId::Wsl)),
    sign(&["parsing error, invalid json config"], Fail, "a cufile.json is not valid JSON, so no program can open cuFile", "gds-top config lint", Some(CheckId::CfgParse)),
    sign(&["json type mismatch, config read failed"], Fail, "a value of cufile.json has the wrong type, so no program can open cuFile", "gds-top config lint", Some(CheckId::CfgParse)),
    sign(&["error reading config"], Fail, "libcufile rejects a value of cufile.json, so no program can open cuFile", "gds-top config lint", Some(CheckId::CfgParse)),
    sign(&["failed to load user config"], Fail, "libcufile rejects a cufile.json, so no program can open cuFile", "gds-top config lint", Some(CheckId::CfgParse)),
    sign(&["found invalid log directory name"], Fail, "logging.dir of cufile.json does not exist, so no program can open cuFile", "create the directory, or remove the key", Some(CheckId::CfgParse)),
    sign(&["cufile configuration load error"], Fail, "a cufile.json is rejected or cannot be read", "gds-top config lint", Some(CheckId::CfgParse)),
    sign(&["nvidia-fs.ko driver access denied"], Fail, "the devices of nvidia-fs cannot be opened", "start the container with --device /dev/nvidia-fs0, and the same for the others", Some(CheckId::NvfsDevnodes)),
    sign(&["driver version mismatch"], Fail, "nvidia-fs is too old for this libcufile (5004)", "update nvidia-fs", Some(CheckId::NvfsVersion)),
    fixed(&["nvidia-fs.ko driver not loaded"], Warn, "nvidia-fs is not loaded, so the route nvfs is closed", ", or use P2PDMA", CheckId::NvfsLoaded),
    sign(&["kernel does not support pcip2pdma"], Fail, "the kernel has no P2PDMA", "boot a kernel with CONFIG_PCI_P2PDMA, 6.2 or later", Some(CheckId::KernelP2pdma)),
    fixed(&["pcip2pdma is not enabled in the configuration"], Warn, "P2PDMA is disabled in cufile.json", "", CheckId::CfgP2pBoth),
    fixed(&["not all gpus support pcip2pdma"], Fail, "one visible GPU has no static BAR1, which disables P2PDMA for all", ", or exclude the GPU in CUDA_VISIBLE_DEVICES", CheckId::GpuStaticBar1),
    fixed(&["gpu attribute pci_p2pdma not supported"], Fail, "the GPU has no static BAR1, so P2PDMA is closed (801)", "", CheckId::GpuStaticBar1),
    sign(&["nvme driver not registered with nvidia-fs"], Fail, "the NVMe driver is not built for GDS", "use P2PDMA, or a patched NVMe driver", Some(CheckId::NvfsNvmeSymbol)),
    sign(&["ext4 journal mode for device not supported"], Fail, "ext4 is mounted with data=writeback or data=journal", "mount it with data=ordered", Some(CheckId::Ext4Ordered)),
    fixed(&["mount option not found in mount table data"], Warn, "the mount options do not show data=ordered, the default", "", CheckId::Ext4Ordered),
    fixed(&["ext4 journal options not found"], Warn, "the mount options do not show data=ordered, the default", "", CheckId::Ext4Ordered),
    sign(&["detected unsupported inode flags for file"], Fail, "the file is compressed, encrypted, append-only or immutable", "copy it without these flags", Some(CheckId::InodeFlags)),
    sign(&["raid level not supported by cufile"], Fail, "this RAID level has no direct route", "use RAID 0 or a single disk", Some(CheckId::MdRaid)),
    sign(&["raid member not supported by cufile"], Fail, "a member of the RAID is not an NVMe disk", "build the RAID of local NVMe disks", Some(CheckId::MdRaid)),
    sign(&["has p2pdma flag but raid pci p2pdma is disabled"], Fail, "P2PDMA is not enabled for RAID", "set block.raid.use_pci_p2pdma", Some(CheckId::CfgP2pBoth)),
    sign(&["cufile does not support file-system type"], Fail, "cuFile does not support this file system", "put the model on ext4 or xfs", Some(CheckId::FsType)),
    sign(&["detected compat-only file system"], Warn, "this file system is read through host memory only", "put the model on ext4 or xfs", Some(CheckId::FsType)),
    sign(&["cufile support has been disabled for"], Fail, "a denylist in cufile.json excludes this file", "remove it from the denylist", Some(CheckId::CfgEffective)),
    sign(&["found acs enabled for switch"], Warn, "a PCIe switch redirects transfers between devices to the root complex (ACS)", "change ACS in the BIOS; never disable it everywhere", Some(CheckId::PcieAcs)),
    fixed(&["gds is not guaranteed to work functionally", "iommu"], Warn, "the IOMMU is on", "", CheckId::IommuState),
    sign(&["exceeds permitted bar size"], Fail, "more GPU memory is registered than BAR1 can map", "register less memory at once, or enlarge BAR1 in the BIOS", Some(CheckId::GpuBar1Free)),
    sign(&["inc-bar-usage failed"], Fail, "the limit of registered GPU memory is reached (5016)", "raise max_device_pinned_mem_size_kb: gds-top config tune", Some(CheckId::GpuBar1Free)),
    sign(&["16mb configured - nvidia-fs ios will be rejected"], Fail, NO_SMALL_SLAB, "put 16384 first in slab_size_kb, and its count first in slab_count", Some(CheckId::CfgVsHardware)),
    sign(&["setting cachesize to 50% of max bar size"], Warn, "the cache on the GPU was cut to half of BAR1", "lower max_device_cache_size_kb", Some(CheckId::CfgVsHardware)),
    sign(&["cudamallocmanaged memory", "not supported"], Fail, "managed memory cannot be registered", "allocate with cudaMalloc", None),
    sign(&["gpudirect storage not supported on gpu index"], Fail, "this GPU does not support GPUDirect", "use a data-centre or workstation GPU", Some(CheckId::GpuClass)),
    sign(&["map ioctl failed", "ioctl_return: -22"], Fail, "the driver does not map this GPU for nvidia-fs; GeForce is not permitted", "use a data-centre or workstation GPU", Some(CheckId::GpuClass)),
    sign(&["support for stream memops v1 is disabled"], Warn, "this driver does not support stream reads", "use another engine than gds-stream", None),
    sign(&["static config bar1 cache"], Warn, "cached facts about the GPUs are used and may be outdated", "gdscheck -e config -o FILE", Some(CheckId::StaticCfg)),
    sign(&["failed to initialize static routing"], Warn, "the cached topology is not usable", "gdscheck -e sysfs -o /etc/topology.json", Some(CheckId::StaticCfg)),
    sign(&["error opening log file", "logging will be disabled"], Warn, "libcufile cannot write its log, so the reasons are lost", "set CUFILE_LOGFILE_PATH to a file that you can write", Some(CheckId::LogLocation)),
    sign(&["gds file checks disabled by config"], Warn, "cuFile's checks of files are disabled", "enable them again", Some(CheckId::CfgEffective)),
    sign(&["unable to load", "libcuda.so"], Fail, "this system or container has no CUDA driver", "start the container with --gpus all", Some(CheckId::GpuPresent)),
    sign(&["cufile using p2pdma"], Info, "the route P2PDMA is open", "", None),
    sign(&["cufile enabled with p2pdma mode"], Info, "the route P2PDMA is open", "", None),
    sign(&["nvidia_fs not loaded, operating on p2p mode"], Info, "the route P2PDMA is open, without nvidia-fs", "", None),
    no_direct(&["no native gds - compat mode only"]),
    no_direct(&["running in compatible mode"]),
    sign(&["unsupported block device: /dev/dm-"], Fail, "the file is on device mapper (LVM, encryption), which has no direct route", "put the model on a separate partition or disk", Some(CheckId::DmLvm)),
    sign(&["mount options not specified for device in mount table", "/dev/dm-"], Fail, "the file is on device mapper (LVM, encryption), which has no direct route", "put the model on a separate partition or disk", Some(CheckId::DmLvm)),
    sign(&["unsupported block device:"], Fail, "this kind of block device has no direct route", "put the model on a local NVMe disk", Some(CheckId::FsType)),
    sign(&["cuinit failed", "cuda_error_no_device"], Fail, "the program found no GPU", "correct CUDA_VISIBLE_DEVICES, or start the container with --gpus all", Some(CheckId::GpuPresent)),
    sign(&["cuinit failed"], Fail, "CUDA could not start in the program", "run nvidia-smi to see whether the driver answers", Some(CheckId::LibOpenProbe)),
    sign(&["error allocating nvfs handle"], Fail, "nvidia-fs could not map GPU memory: the GPU is not permitted, or BAR1 is full", "see the kernel log: journalctl -k | grep -i nvfs", Some(CheckId::GpuClass)),
    sign(&["device pointer is not registered"], Info, "a program deregistered memory that was not registered; earlier lines have the reason", "", None),
    sign(&["pci device not present in topology device attribute table"], Warn, "libcufile finds no PCI device of this disk", "put the model on a local NVMe disk", None),
    sign(&["unable to load", "liburcu"], Info, "libcufile searches for liburcu under several names; one of them is enough", "", None),
    sign(&["nvidia_peermem.ko is not loaded"], Info, "not relevant for local disks", "", None),
    sign(&["no matching pair for network device to closest gpu"], Info, "not relevant for local disks", "", None),
    sign(&["rdma_dev_addr_list not set"], Info, "not relevant for local disks", "", None),
    sign(&["no gpus found under same root port"], Info, "disk and GPU are below different root ports, which only affects the speed", "", Some(CheckId::PcieTopology)),
    sign(&["gds not supported or disabled by config, using cufile posix"], Warn, "a file is read through host memory (compat mode)", "gds-top check shows the blockers of each route", None).follows(),
    sign(&["gpudirect storage not supported on current file"], Fail, "a file was rejected: it has no direct route, and compat mode is forbidden", "gds-top check shows the missing parts", None).follows(),
    sign(&["unable to get volume attributes"], Fail, "libcufile could not find the device of a file", "gds-top check shows the missing parts", Some(CheckId::UdevDatabase)).follows(),
    sign(&["cufile initialization failed"], Fail, "cuFile could not be opened in the program", "gds-top check shows the missing parts", None).follows(),
];

/// Lines of the kernel log. The first match is used.
#[rustfmt::skip]
const KERNEL: &[Signature] = &[
    fixed(&["nvidia_fs", "from proprietary module"], Fail, "nvidia-fs cannot load next to the proprietary driver modules", "", CheckId::DriverFlavour),
    sign(&["no symbol version for nvidia_p2p_"], Fail, "nvidia-fs was built without the driver's symbol versions", "rebuild it: nvidia-fs 2.29 or later, or KBUILD_EXTRA_SYMBOLS", Some(CheckId::NvfsBuildInputs)),
    sign(&["disagrees about version of symbol nvidia_p2p_"], Fail, "nvidia-fs was built against another driver version", "build it again for the loaded driver: gds-top fix nvfs-dkms", Some(CheckId::NvfsDkms)),
    sign(&["unknown symbol nvidia_p2p_"], Fail, "nvidia-fs was loaded before the NVIDIA driver", "write 'softdep nvidia_fs pre: nvidia nvme' into /etc/modprobe.d/nvidia-fs.conf and reboot", Some(CheckId::NvfsAutoload)).follows(),
    sign(&["nvidia_fs", "version magic", "should be"], Fail, "nvidia-fs was built for another kernel", "build it for this kernel: gds-top fix nvfs-dkms", Some(CheckId::NvfsDkms)),
    fixed(&["unavailable key is rejected"], Fail, "Secure Boot rejects a module whose key is not enrolled", "", CheckId::NvfsSecureboot),
    fixed(&["key was rejected by service"], Fail, "Secure Boot rejects a module whose key is not enrolled", "", CheckId::NvfsSecureboot),
    fixed(&["unsigned module is rejected"], Fail, "Secure Boot rejects a module that is not signed", "", CheckId::NvfsSecureboot),
    fixed(&["unsigned module loading is restricted"], Fail, "Secure Boot rejects a module that is not signed", "", CheckId::NvfsSecureboot),
    sign(&["nvfs modules probe failed with error"], Fail, "nvidia-fs could not register with the storage drivers", "see nvfs-registered and nvfs-nvme-symbol", Some(CheckId::NvfsRegistered)),
    sign(&["failing symbol_get of non-gplonly symbol", "_register_nvfs_dma_ops"], Fail, "the kernel does not give nvidia-fs the symbol of a storage driver", "update that driver: its symbol must be exported for the GPL", Some(CheckId::NvfsRegistered)),
    sign(&["error ret -22 invoking nvidia_p2p_get_pages"], Fail, "nvidia-fs got no GPU memory from the driver: the GPU is not permitted, or BAR1 is full", "see gpu-class and gpu-bar1-free", Some(CheckId::GpuClass)),
    fixed(&["unable to obtain dma_mapping"], Fail, "the IOMMU or ACS blocks the disk's access to GPU memory", "", CheckId::IommuState),
    sign(&["incompatible page table version"], Fail, "nvidia-fs was built for a driver with other page tables", "build it again for the loaded driver (dkms build --force), then reboot", Some(CheckId::NvfsDkms)),
    sign(&["kernel bug at", "nvfs-"], Fail, "the kernel crashed in nvidia-fs, which is unusable until a reboot", "reboot, and update nvidia-fs before the next read: build it for the loaded driver (dkms build --force)", Some(CheckId::NvfsErrors)),
    sign(&["rip: ", "+0x", "[nvidia_fs"], Warn, "nvidia-fs is the place of a crash or a warning; the lines before show which", "after a crash, reboot and update nvidia-fs before the next read", Some(CheckId::NvfsErrors)).follows(),
    sign(&["pc : ", "+0x", "[nvidia_fs"], Warn, "nvidia-fs is the place of a crash or a warning; the lines before show which", "after a crash, reboot and update nvidia-fs before the next read", Some(CheckId::NvfsErrors)).follows(),
    sign(&["rip: ", "+0x", "[nvidia"], Warn, "the NVIDIA driver is the place of a crash or a warning; the lines before show which", "after a crash, reboot and update the driver if it happens again", Some(CheckId::KernelLog)).follows(),
    sign(&["pc : ", "+0x", "[nvidia"], Warn, "the NVIDIA driver is the place of a crash or a warning; the lines before show which", "after a crash, reboot and update the driver if it happens again", Some(CheckId::KernelLog)).follows(),
    sign(&["rip: ", "+0x", "[nvme"], Warn, "the NVMe driver is the place of a crash or a warning; the lines before show which", "after a crash, reboot and update the kernel or DOCA if it happens again", Some(CheckId::KernelLog)).follows(),
    sign(&["pc : ", "+0x", "[nvme"], Warn, "the NVMe driver is the place of a crash or a warning; the lines before show which", "after a crash, reboot and update the kernel or DOCA if it happens again", Some(CheckId::KernelLog)).follows(),
    sign(&["unable to pin shadow buffer pages", "-14"], Fail, "nvidia-fs cannot pin its buffers on this kernel, so reads go through host memory", "update nvidia-fs to 2.26.6 or later", Some(CheckId::NvfsVersion)),
    sign(&["rw_verify_area failed with -14"], Fail, "nvidia-fs 2.25.6 is broken", "update to 2.25.7 or later", Some(CheckId::NvfsVersion)),
    sign(&["nvidia", "o_direct flag is not set"], Warn, "a program reads without the required O_DIRECT", "open with O_DIRECT, or update libcufile", Some(CheckId::OdirectOpen)),
    sign(&["offset =", "size =", "not sector aligned"], Warn, "an unaligned request reached the driver", "align reads to 4096 bytes", None),
    sign(&["cannot handle mixed segments"], Fail, "the kernel merged requests for CPU and GPU memory", "update nvidia-fs or the kernel", Some(CheckId::NvfsErrors)),
    sign(&["mixed cpu/gpu pages"], Fail, "the kernel merged requests for CPU and GPU memory", "update nvidia-fs or the kernel", Some(CheckId::NvfsErrors)),
    sign(&["cannot handle gpu request with integrity metadata"], Fail, "the disk is formatted with protection information", "nvme format with another LBA format, which erases it", Some(CheckId::NvmeIntegrity)),
    sign(&["nvidia_p2p_dma_map_pages() cannot be invoked"], Fail, "a fault of the driver", "update driver and nvidia-fs", None),
    sign(&["unable to flush dirty pages"], Warn, "the file was changed and is not on the disk yet", "run sync, then load again", None),
    sign(&["nvidia", "file", "mismatch"], Warn, "a file was replaced while it was registered", "open it again", None),
    sign(&["nvfs_pci", "exceeds device table limits"], Warn, "nvidia-fs was built for fewer devices", "build it with a larger NVFS_MAX_PEER_DEVS", None),
    sign(&["nvrm: xid"], Warn, "the GPU reported a fault", "examine the GPU first", None),
    fixed(&["event logged [io_page_fault"], Warn, "the IOMMU stopped a transfer", "", CheckId::IommuState),
    fixed(&["dmar:", "fault"], Warn, "the IOMMU stopped a transfer", "", CheckId::IommuState),
    sign(&["nvme", "disabling device after reset failure"], Fail, "the kernel removed an NVMe disk, because its reset failed", "power the machine off and on; replace the disk if it fails again", Some(CheckId::NvmeState)),
    sign(&["nvme", "removing after probe failure"], Fail, "the kernel removed an NVMe disk, because it did not start", "power the machine off and on; replace the disk if it fails again", Some(CheckId::NvmeState)),
    sign(&["nvme", "device not ready; aborting reset"], Fail, "an NVMe disk did not become ready after a reset", "power the machine off and on; replace the disk if it fails again", Some(CheckId::NvmeState)),
    sign(&["cannot be used for peer-to-peer dma"], Fail, "the kernel rejects P2PDMA between this disk and the GPU, which share no bridge", "put both below one PCIe switch, or use nvidia-fs", Some(CheckId::KernelP2pRootports)),
    sign(&["nvme", "controller is down; will reset", "csts="], Fail, "an NVMe disk fell off the bus", "power the machine off and on, and undo recent changes to ACS", Some(CheckId::NvmeState)),
    fixed(&["conflicting memory types"], Fail, "BAR1 has two memory types, so P2PDMA cannot map GPU memory", ", which sets RmForceDisableIomapWC=1", CheckId::GpuStaticBar1),
    fixed(&["memtype_reserve failed"], Fail, "BAR1 has two memory types, so P2PDMA cannot map GPU memory", ", which sets RmForceDisableIomapWC=1", CheckId::GpuStaticBar1),
];

/// A known line that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The text of the last such line.
    pub line: String,
    /// The number of such lines.
    pub count: usize,
    /// The severity.
    pub status: Status,
    /// The meaning.
    pub meaning: String,
    /// The remedy. It is empty if no action is needed.
    pub todo: String,
    /// The fix that `todo` begins with, and the text after it.
    #[serde(skip)]
    pub(crate) fix: Option<(FixId, &'static str)>,
    /// The check that examines the cause. `None` if there is none.
    pub check: Option<CheckId>,
    /// Whether it is expected if data goes to host memory.
    #[serde(skip)]
    pub needs_gpu: bool,
    /// Whether it follows from any failure.
    #[serde(skip)]
    is_consequence: bool,
}

impl Explained {
    /// The meaning and the remedy as one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        if self.todo.is_empty() { self.meaning.clone() } else { format!("{}; {}", self.meaning, self.todo) }
    }
}

/// The known lines of a check: the parts of each line, and its meaning.
pub fn lines_of(check: CheckId) -> impl Iterator<Item = (String, &'static str)> {
    let all = CUFILE.iter().chain(KERNEL).filter(move |signature| signature.check == Some(check));
    let of_driver = driver_lines::LINES.iter().filter(move |_| check == CheckId::GpuPresent);
    all.map(|signature| (signature.pieces.join(" … "), signature.meaning))
        .chain(of_driver.map(|line| (line.pieces.join(" … "), line.meaning)))
}

/// The causes in cufile.log or in the output of libcufile. Each cause is listed once, the most severe first.
#[must_use]
pub fn explain_cufile(text: &str) -> Vec<Explained> {
    explain(text.lines().map(|line| (line, line)), CUFILE)
}

/// The causes about GPU, disks and nvidia-fs in lines that a user copied from a kernel log. The lines can begin with
/// times and names. Each cause is listed once, the most severe first.
#[must_use]
pub fn explain_kernel(text: &str) -> Vec<Explained> {
    explain(text.lines().map(|line| (line, line)), KERNEL)
}

/// The same for the kernel log of this machine, of which only messages of known parts of the kernel count.
#[must_use]
pub fn explain_messages(log: &KernelLog) -> Vec<Explained> {
    explain(log.messages().map(|message| (message.line.as_str(), message.text.as_str())), KERNEL)
}

/// The causes in lines, each with the text for the search.
fn explain<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>, table: &[Signature]) -> Vec<Explained> {
    let mut out: Vec<Explained> = Vec::new();
    for (line, text) in lines {
        let lower = text.to_ascii_lowercase();
        let Some(signature) = table.iter().find(|signature| contains_in_order(&lower, signature.pieces)) else {
            continue;
        };
        match out.iter_mut().find(|known| known.meaning == signature.meaning) {
            Some(known) => {
                known.count += 1;
                line.trim().clone_into(&mut known.line);
            }
            None => out.push(Explained {
                line: line.trim().to_owned(),
                count: 1,
                status: signature.status,
                meaning: signature.meaning.to_owned(),
                todo: match signature.fix() {
                    Some(fix) => format!("gds-top fix {fix}{}", signature.todo),
                    None => signature.todo.to_owned(),
                },
                fix: signature.fix().map(|fix| (fix, signature.todo)),
                check: signature.check,
                needs_gpu: signature.check == Some(CheckId::GpuPresent) || signature.kind == Kind::NoDirect,
                is_consequence: signature.kind == Kind::Consequence,
            }),
        }
    }
    let is_cause = |known: &Explained| known.status == Fail && !known.is_consequence;
    if out.iter().any(is_cause) {
        out.retain(|known| !known.is_consequence);
    }
    out.sort_by_key(|explained| std::cmp::Reverse(explained.status));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_found_by_its_own_pieces_and_written_in_lower_case() {
        for table in [CUFILE, KERNEL] {
            for signature in table {
                let line = signature.pieces.join(" something ");
                assert_eq!(line, line.to_ascii_lowercase());
                let upper = line.to_ascii_uppercase();
                let found = explain(std::iter::once((upper.as_str(), upper.as_str())), table);
                assert_eq!(found.len(), 1, "{line}");
                assert_eq!(found[0].meaning, signature.meaning, "{line} matches another row");
            }
        }
    }

    #[test]
    fn real_lines_are_explained_worst_first_and_each_cause_once() {
        let log = " 20-11-2026 14:32:15:112 [pid=17695 tid=17695] NOTICE  cufio-drv:1063 running in compatible mode\n \
                   20-11-2026 14:32:16:1 [pid=1 tid=1] ERROR  cufio-udev:85 udev property not found: ID_FS_USAGE vda\n \
                   20-11-2026 14:32:16:2 [pid=1 tid=1] ERROR  cufio-fs:764 error getting volume attributes error for device: dev_no: 254:0\n \
                   20-11-2026 14:32:16:3 [pid=1 tid=1] DEBUG  cufio:1 nothing of note\n";
        let said = explain_cufile(log);
        assert_eq!(said.len(), 2);
        assert_eq!((said[0].status, said[0].count, said[0].check), (Fail, 2, Some(CheckId::UdevDatabase)));
        assert!(said[0].line.contains("dev_no: 254:0"));
        assert_eq!(said[1].status, Warn);
        let kernel = "nvidia_fs: module using GPL-only symbols uses symbols nvidia_p2p_dma_map_pages from proprietary module nvidia.\n\
                      nvidia_fs: Unknown symbol nvidia_p2p_dma_map_pages (err -2)\nusb 1-1: new device\n";
        let said = explain_kernel(kernel);
        assert_eq!(said[0].check, Some(CheckId::DriverFlavour));
    }

    /// Published lines of libcufile 1.0 to 1.16, and the expected first cause.
    #[test]
    fn logs_of_real_cases_name_their_cause_first() {
        for (log, check, meaning) in [
            // NVIDIA/gds-nvidia-fs#62: a third-party network file system.
            (
                "ERROR  cufio-fs:328 error creating udev_device for block device dev_no: 0:53\nERROR  cufio-fs:767 error getting volume attributes error for device: dev_no: 0:53\n\
              NOTICE  cufio:294 cuFileHandleRegister GDS not supported or disabled by config, using cuFile posix read/write with compat mode enabled\n\
              ERROR  cufio-obj:242 unable to get volume attributes for fd 56\n",
                Some(CheckId::FsType),
                OVERLAY,
            ),
            (
                "ERROR  cufio-fs:268 Unsupported block device: /dev/dm-0\nERROR  cufio-fs:68 mount options not specified for device in mount table /dev/dm-0\n",
                Some(CheckId::DmLvm),
                "device mapper",
            ),
            // LMCache#795: a container without udev.
            (
                "NOTICE  cufio-drv:830 running in compatible mode\nERROR  cufio-udev:67 udev property not found: ID_FS_USAGE dm-0\n\
              ERROR  cufio-fs:759 error getting volume attributes error for device: dev_no: 251:0\n",
                Some(CheckId::UdevDatabase),
                "udev has no record",
            ),
            // NVIDIA/gds-nvidia-fs#19 and #31.
            (
                "ERROR  cufio-fs:204 NVMe Driver not registered with nvidia-fs!!!\nERROR  cufio:339 cuFileHandleRegister error: GPUDirect Storage not supported on current file\n",
                Some(CheckId::NvfsNvmeSymbol),
                "NVMe driver",
            ),
            (
                "ERROR  cufio:480 cuInit Failed, error CUDA_ERROR_NO_DEVICE\nERROR  cufio:583 cuFile initialization failed\n",
                Some(CheckId::GpuPresent),
                "no GPU",
            ),
            (
                "ERROR  cufio-obj:101 error allocating nvfs handle, size: 131072\nERROR  cufio:1185 cuFileBufRegister error, object allocation failed\n\
              ERROR  cufio:1275 cuFileBufDeregister error, object for device pointer is not registered\n",
                Some(CheckId::GpuClass),
                "BAR1",
            ),
            // tinygrad/open-gpu-kernel-modules#50.
            (
                "ERROR  0:522 nvidia-fs MAP ioctl failed : ioctl_return: -22 ioctl_ret: -1\nERROR  cufio-obj:156 error allocating nvfs handle, size: 2097152\n",
                Some(CheckId::GpuClass),
                "GeForce",
            ),
            // If there is no cause, the consequence is reported.
            (
                "NOTICE  cufio:293 cuFileHandleRegister GDS not supported or disabled by config, using cuFile posix read/write with compat mode enabled\n",
                None,
                "a file is read through host memory (compat mode)",
            ),
        ] {
            let said = explain_cufile(log);
            assert_eq!(said[0].check, check, "{log}: {said:?}");
            assert!(said[0].meaning.contains(meaning), "{log}: {said:?}");
            assert!(said.len() == 1 || said[1..].iter().all(|more| !more.is_consequence), "{said:?}");
        }
        let harmless = "NOTICE  cufio-rdma:175 nvidia_peermem.ko is not loaded. Disabling UserSpace RDMA access.\n\
                        ERROR  cufio-dr:229 No matching pair for network device to closest GPU found in the platform\nERROR  0:140 unable to load,  liburcu-bp.so.6\n";
        assert!(explain_cufile(harmless).iter().all(|said| said.status == Info), "{:?}", explain_cufile(harmless));
        // NVIDIA/gds-nvidia-fs#34 and #41: these kernels do not name the symbol in the first line.
        let kernel = "nvidia_fs: module using GPL-only symbols uses symbols from proprietary module nvidia.\nnvidia_fs: Unknown symbol nvidia_p2p_dma_unmap_pages (err -2)\n";
        let said = explain_kernel(kernel);
        assert_eq!((said.len(), said[0].check), (1, Some(CheckId::DriverFlavour)), "{said:?}");
    }

    #[test]
    fn ordinary_logs_say_nothing() {
        assert!(explain_kernel("Linux version 6.8.0\nnvidia_fs: Initializing nvfs driver module\nnvidia_fs: registered correctly with major number 505\n").is_empty());
        assert!(explain_cufile("").is_empty());
    }
}
