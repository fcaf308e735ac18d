//! Log lines that the checks do not search for: of the kernel, the driver, gdscheck, Docker and Python loaders.
//!
//! `checks::log_signatures` has the lines of cufile.log and of the kernel log that the checks use. That table is
//! searched first.

use super::causes::*;
use crate::core::CheckId;
use crate::text::contains_in_order;

/// The parts of the line in order and in lower case, the meaning, and the causes.
pub(super) type Row = (&'static [&'static str], &'static str, &'static [Cause]);

/// The first row that matches a line.
pub(super) fn of(line: &str) -> Option<&'static Row> {
    let line = line.to_lowercase();
    LINES.iter().find(|(parts, ..)| contains_in_order(&line, parts))
}

const UNPATCHED: &[Cause] = &[
    found(CheckId::NvfsNvmeSymbol, "The NVMe driver is not built for nvidia-fs."),
    found(CheckId::NvfsLoaded, "nvidia-fs is not loaded."),
    found(CheckId::GpuStaticBar1, "P2PDMA is not set up either: the driver does not map BAR1 statically."),
    found(CheckId::CfgP2pBoth, "P2PDMA is not enabled in cufile.json."),
];
const NO_TOOLKIT: &[Cause] = &[own(
    "The NVIDIA container toolkit is not installed or not configured.",
    "nvidia-ctk --version",
    "Install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker; restart Docker.",
)];
const GPU_LOST: &[Cause] = &[
    own(
        "Power, cooling or the PCIe connection of the GPU failed.",
        "sudo journalctl -k -b -o cat | grep -e Xid -e AER",
        "Reboot; replace or reseat the card if it happens again.",
    ),
    found(CheckId::GpuEcc, "The GPU is faulty."),
];
const START_FAILED: &[Cause] = &[
    own(
        "The firmware of the driver is missing or of another version.",
        "ls /lib/firmware/nvidia; modinfo -F version nvidia",
        "Install driver and firmware of one version, rebuild the initramfs, reboot.",
    ),
    DRIVER_MISMATCH,
    own(
        "The GPU is in a faulty state after a failed reset.",
        "sudo journalctl -k -b -o cat | grep NVRM",
        "Power the machine off and on.",
    ),
];
const DISK: &[Cause] = &[own(
    "The disk or its connection is faulty.",
    "sudo smartctl -a /dev/nvme0; sudo nvme error-log /dev/nvme0",
    "Back up the data and replace the disk.",
)];
const HMM: &[Cause] = &[own(
    "KASLR of this kernel takes the addresses (known issue in the release notes of CUDA).",
    "sudo journalctl -k -b -o cat | grep nvidia-uvm",
    "Write 'options nvidia_uvm uvm_disable_hmm=1' into /etc/modprobe.d/nvidia-uvm-hmm.conf, rebuild the initramfs and reboot. Or boot with nokaslr.",
)];
const TWO_CORES: &[Cause] = &[own(
    "Both the kernel and DOCA (or MLNX_OFED) have these modules, and the ib_core of the other one was loaded first.",
    "modinfo -F filename ib_core mlx5_ib ib_umad; lsmod | grep -e ib_core -e mlx_compat",
    "Run sudo depmod -a, rebuild the initramfs and reboot, so that all of them are of DOCA or MLNX_OFED.",
)];
const NO_SPACE: &[Cause] = &[own(
    "Above-4G decoding or Resizable BAR is off in the firmware, or a bridge has a window that is too small.",
    "sudo lspci -vv | grep -e Region -e Bridge",
    "Enable Above-4G decoding in the firmware. If that is not possible, boot with pci=realloc.",
)];
const SIGNATURE: &[Cause] = &[found(CheckId::NvfsSecureboot, "The signing key of the module is not enrolled.")];
const NOT_FITTING: &[Cause] = &[
    found(CheckId::NvfsDkms, "The module was built for another kernel or another driver."),
    found(
        CheckId::DriverFlavour,
        "The proprietary driver is loaded, and nvidia-fs is not permitted to use its symbols.",
    ),
];

/// The known lines. The first match is used.
#[rustfmt::skip]
pub(super) const LINES: &[Row] = &[
    (&["modprobe", "unknown symbol in module"], "a module was not loaded, because the running kernel or driver lacks a symbol that it needs", &[
        found(CheckId::NvfsLoadErrors, "nvidia-fs was built for another driver or kernel; the kernel log names the symbol (sudo dmesg)."),
        found(CheckId::NvfsDkms, "The module is not built for this kernel and driver."),
    ]),
    // Lines of the NVIDIA driver in the kernel log.
    (&["nvrm: api mismatch"], "a program uses a user-space driver of another version than the kernel module", &[DRIVER_MISMATCH]),
    (&["driver/library version mismatch"], "kernel module and user-space driver have different versions", &[DRIVER_MISMATCH]),
    (&["fallen off the bus"], "the GPU no longer answers on the bus", GPU_LOST),
    (&["nv_err_reset_required"], "the driver waits until the GPU is reset", &[found(CheckId::GpuEcc, "The GPU failed; an earlier line has the number of the fault (Xid).")]),
    (&["gsp", "fail"], "the GPU System Processor did not start", START_FAILED),
    (&["gsp", "timeout"], "the GPU System Processor did not answer in time", START_FAILED),
    (&["nvrm", "no nvidia gpu found"], "the driver found no GPU that it supports", &[GPU_ABSENT]),
    (&["nvrm: loading nvidia unix"], "the driver was loaded; this is not an error", &[]),
    (&["conflicting memory types"], "a mapping of BAR1 has two memory types", &[found(CheckId::GpuStaticBar1, "RmForceDisableIomapWC is not set together with RMForceStaticBar1.")]),
    (&["memtype", "conflict"], "a mapping of BAR1 has two memory types", &[found(CheckId::GpuStaticBar1, "RmForceDisableIomapWC is not set together with RMForceStaticBar1.")]),
    (&["tsc", "snp", "guest"], "the machine is a confidential guest", &[found(CheckId::VmType, "Memory of a confidential guest is encrypted, so devices cannot write into GPU memory directly.")]),
    (&["memory encryption features active", "sev"], "the machine is a confidential guest", &[found(CheckId::VmType, "Memory of a confidential guest is encrypted, so devices cannot write into GPU memory directly.")]),
    // Lines about kernel modules.
    (&["nvidia_fs", "registered correctly with major number"], "nvidia-fs was loaded; this is not an error", &[]),
    (&["initializing nvfs driver module"], "nvidia-fs is being loaded; this is not an error", &[]),
    (&["module verification failed", "tainting kernel"], "the module is not signed with an enrolled key; without Secure Boot it is loaded anyway", &[]),
    (&["request_free_mem_region", "err -34"], "nvidia_uvm found no range of addresses for HMM, so CUDA does not start", HMM),
    (&["disagrees about version of symbol ib_"], "an InfiniBand module is of another package than the loaded ib_core", TWO_CORES),
    (&["unsigned module loading is restricted"], "kernel lockdown rejects unsigned modules", SIGNATURE),
    (&["required key not available"], "the kernel rejected a module whose signing key is not enrolled", SIGNATURE),
    (&["exec format error"], "the kernel rejected a module that was built for another kernel", NOT_FITTING),
    (&["could not insert", "unknown symbol"], "the kernel rejected a module because symbols are missing or do not match", NOT_FITTING),
    (&["could not insert", "invalid argument"], "the kernel rejected a module because symbols are missing or do not match", NOT_FITTING),
    (&["could not insert", "no such device"], "the module found no device that it supports", &[GPU_ABSENT]),
    (&["could not insert", "operation not permitted"], "the kernel or the container does not allow loading modules", SIGNATURE),
    (&["failed to find module", "nvidia_fs"], "nvidia-fs is not installed for the running kernel", &[found(CheckId::NvfsDkms, "It was built for another kernel."), found(CheckId::NvfsLoaded, "It is not installed.")]),
    (&["failed to find module", "nvidia-fs"], "nvidia-fs is not installed for the running kernel", &[found(CheckId::NvfsDkms, "It was built for another kernel."), found(CheckId::NvfsLoaded, "It is not installed.")]),
    (&["failed to open /proc/driver/nvidia-fs/devcount"], "nvidia-fs is not loaded; P2PDMA and compat mode do not need it", &[found(CheckId::NvfsLoaded, "nvidia-fs is not loaded.")]),
    (&["module nvidia-fs not found"], "nvidia-fs is not installed for the running kernel", &[found(CheckId::NvfsDkms, "It was built for another kernel."), found(CheckId::NvfsLoaded, "It is not installed.")]),
    (&["module nvidia_fs not found"], "nvidia-fs is not installed for the running kernel", &[found(CheckId::NvfsDkms, "It was built for another kernel."), found(CheckId::NvfsLoaded, "It is not installed.")]),
    (&["bad return status for module build"], "a DKMS build failed; make.log in /var/lib/dkms has the compiler's error", &[found(CheckId::NvfsBuildInputs, "Kernel headers or the driver's sources are missing, or the module is too old for the kernel.")]),
    (&["diff between built and installed module"], "another file than DKMS built is installed", &[found(CheckId::NvfsDkms, "The module was replaced, or a build is incomplete.")]),
    // Lines about disks and file systems.
    (&["csts=0x"], "an NVMe disk stopped answering", &[own("ACS was cleared on all bridges.", "grep -o disable_acs_redir=[^ ]* /proc/cmdline", "Reboot, and undo the ACS change."), DISK[0]]),
    (&["nvme", "duplicate ids"], "two NVMe disks have the same identifiers, and the kernel rejects one of them", &[own("The disk is intact, but it has no block device. Its file system is not mounted.", "ls /sys/block; findmnt --verify", "Linux 6.5 and later accepts disks with a single port: update the kernel. Otherwise update the firmware of the disk.")]),
    (&["nvme", "timeout"], "an NVMe disk did not answer in time", DISK),
    (&["critical medium error"], "a disk could not read a sector", DISK),
    (&["i/o error, dev"], "a disk reported an error", DISK),
    (&["ext4-fs error"], "the ext4 file system is damaged", &[own("The disk failed, or the machine lost power.", "sudo journalctl -k -b -o cat | grep -i ext4", "Unmount it and run e2fsck.")]),
    (&["xfs", "corruption"], "the xfs file system is damaged", &[own("The disk failed, or the machine lost power.", "sudo journalctl -k -b -o cat | grep -i xfs", "Unmount it and run xfs_repair.")]),
    (&["avc:", "denied", "nvidia-fs"], "SELinux denied a program access to nvidia-fs", &[found(CheckId::UserLsm, "The policy does not allow this type of program, often a container, to open the device.")]),
    (&["io failed :-512"], "a signal interrupted a read or write of nvidia-fs, for example the end of the program; the disk is not faulty", &[]),
    (&["bar ", "assign", "no space"], "the machine's firmware left no address space for a device", NO_SPACE),
    (&["bar ", "failed to assign"], "the machine's firmware left no address space for a device", NO_SPACE),
    (&["aer:", "pcie bus error"], "a PCIe link reported errors", &[found(CheckId::GpuPcieLink, "The link of the GPU is faulty."), found(CheckId::NvmeLink, "The link of the disk is faulty.")]),
    (&["out of memory: killed process"], "the kernel ended a process because memory was used up", &[MEMORY]),
    (&["oom-kill"], "the kernel ended a process because memory was used up", &[MEMORY]),
    // Lines of gdscheck.
    (&["nvme", "unsupported"], "gdscheck: the NVMe driver did not register with nvidia-fs, or P2PDMA is not set up", UNPATCHED),
    (&["nvme", "nvfs, compat"], "gdscheck: the NVMe driver registered with nvidia-fs; this is not an error", &[]),
    (&["nvme", "p2pdma, compat"], "gdscheck: P2PDMA is set up for NVMe; this is not an error", &[]),
    (&["nvme", ": compat"], "gdscheck: there is no direct route for NVMe", UNPATCHED),
    (&["nvme", "supported"], "gdscheck: the NVMe driver registered with nvidia-fs; this does not show which files use the route", &[]),
    (&["no gds support", "reason"], "gdscheck: cuFile does not support this GPU", &[GPU_GDR, GPU_OLD, found(CheckId::GpuComputeMode, "The GPU is in compute mode Prohibited."), BAR1_SMALL]),
    (&["model not supported"], "gdscheck: cuFile does not support this GPU", &[GPU_CLASS]),
    (&["platform verification succeeded"], "gdscheck: the platform is supported; this does not mean that a file uses a direct route", &[]),
    (&["platform verification failed"], "gdscheck: the platform is not supported", &[PLATFORM, IOMMU, GPU_ABSENT]),
    (&["supported only on (nvidia-fs version <= 2.17.4)"], "gdscheck: the proprietary driver is loaded", &[found(CheckId::DriverFlavour, "nvidia-fs 2.17.5 and later need the open kernel modules.")]),
    // Lines of programs.
    (&["assertion failure", "cufio-udev"], "libcufile aborted because it found no udev", &[found(CheckId::Wsl, "The program runs under WSL."), UDEV]),
    (&["undefined symbol: shm_open"], "libcufile needs librt, which has shm_open before glibc 2.34", &[own("The wheel of libcufile is not linked with librt.", "ldd --version", "Start programs with LD_PRELOAD=librt.so.1, or use the libcufile of the CUDA toolkit, or glibc 2.34 or later.")]),
    (&["wrong elf class"], "the file is a library for another architecture", &[own("A library of another architecture is first in the library path.", "echo $LD_LIBRARY_PATH; file FILE", "Remove its directory from LD_LIBRARY_PATH, or install the library for this architecture.")]),
    (&["invalid elf header"], "the file is not a library, or is incomplete", &[own("An installation was interrupted, or the file is a text file of the linker.", "file FILE", "Install the package of the file again.")]),
    (&["undefined symbol:"], "no loaded library has a function that the library needs", &[own("Libraries of different releases are mixed.", "ldd FILE; echo $LD_LIBRARY_PATH", "Use libraries of the same CUDA release, without older ones in LD_LIBRARY_PATH.")]),
    (&["version `glibc_", "not found"], "the library was built for a newer glibc", &[own("The distribution is older than the library supports.", "ldd --version", "Use a newer distribution or image, or an older release of the library.")]),
    (&["driver version is insufficient"], "the driver is older than the CUDA runtime (35)", &[DRIVER_OLD]),
    (&["forward compatibility was attempted"], "the forward-compatibility package does not support this GPU or driver (804)", &[own("The image has cuda-compat in its library path.", "ldd PROGRAM | grep libcuda", "Remove cuda-compat from the library path, or update the driver."), DRIVER_OLD]),
    (&["no devices were found"], "nvidia-smi found no GPU that the driver can use", &[GPU_ABSENT]),
    (&["no cuda-capable device"], "no GPU is visible (100)", &[GPU_ABSENT]),
    (&["system not yet initialized"], "the system is not ready for CUDA (802)", &[FABRIC]),
    (&["couldn't communicate with the nvidia driver"], "the NVIDIA driver is not loaded", &[own("The driver is not built for the running kernel, often after an update of the kernel.", "dkms status; modinfo nvidia", "Install the headers of the kernel, then: sudo dkms autoinstall; sudo modprobe nvidia."), GPU_ABSENT, found(CheckId::NvfsSecureboot, "Secure Boot rejected the driver."), found(CheckId::RebootPending, "The driver was installed, and the machine was not rebooted.")]),
    (&["failed to initialize nvml: unknown error"], "the container lost access to its GPUs", &[own("systemd reloaded its units and removed the device permissions of the container.", "ls -l /dev/nvidia*", "Restart the container. To avoid it, use CDI (--device nvidia.com/gpu=all), or run `sudo nvidia-ctk system create-dev-char-symlinks --create-all`.")]),
    (&["failed to initialize nvml: insufficient permissions"], "this user cannot open the devices of the GPU", &[own("The mode of /dev/nvidia* allows only a group, or SELinux denies a container.", "ls -lZ /dev/nvidia*; id", "Add the user to that group. Podman: --group-add keep-groups; with SELinux also --security-opt label=disable.")]),
    (&["failed to initialize nvml"], "NVML found no working driver", &[GPU_ABSENT, DRIVER_MISMATCH]),
    (&["could not select device driver", "gpu"], "Docker cannot give GPUs to the container", NO_TOOLKIT),
    (&["unknown or invalid runtime name: nvidia"], "Docker does not know the NVIDIA runtime", NO_TOOLKIT),
    (&["libcufile", "cannot open shared object file"], "the program found no libcufile", &[found(CheckId::LibFound, "libcufile is not installed, or not in the library path.")]),
    (&["libcuda.so", "cannot open shared object file"], "the program found no libcuda", &[NO_LIBCUDA]),
    (&["could not load dynamic library", "libcufile"], "the program found no libcufile", &[found(CheckId::LibFound, "libcufile is not installed, or not in the library path.")]),
    (&["too many open files"], "the process reached its limit of open files", &[OPEN_FILES]),
    (&["cuda out of memory"], "the GPU's memory is not sufficient", &[own("Other programs, or an earlier allocation, use the GPU's memory.", "nvidia-smi", "End them, or load a smaller part of the model.")]),
    (&["gds is not available", "fall"], "the program reads without cuFile", &[found(CheckId::LibOpenProbe, "cuFile could not be opened in the program.")]),
    (&["compat mode"], "the program reads through host memory", &[found(CheckId::FsType, "No direct route exists for the file."), found(CheckId::CfgCompat, "Compat mode is forced by a setting.")]),
];
