//! The support matrix: the routes of each class of GPU and each kind of storage. The checks, the verdicts, `explain
//! matrix` and docs/matrix.md use it.
//!
//! Sources: NVIDIA's GPUDirect Storage documentation (release notes, troubleshooting guide with its P2PDMA chapter,
//! 'GDS Support for NVMe Drives Using Linux PCI P2PDMA' of September 2026, O_DIRECT requirements, page of nvidia-fs
//! 2.30), NVIDIA AI Enterprise (vGPU), the driver installation guide (open kernel modules), and the messages of
//! libcufile 1.14 to 1.20. Each row lists its source.

use crate::core::Route;
use serde::Serialize;

/// Whether a route exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "support", content = "text")]
pub enum Support {
    /// The route exists.
    Yes,
    /// The route exists under this condition.
    If(&'static str),
    /// The route does not exist for this reason.
    No(&'static str),
}

use Support::{If, No, Yes};

/// The routes of the matrix, in the order of its columns.
pub const ROUTES: [Route; 5] = [Route::Nvfs, Route::P2pdma, Route::C2c, Route::Rdma, Route::Compat];

/// A row of one of the two tables.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its stable id in JSON.
    pub id: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The routes, in the order of [`ROUTES`].
    pub routes: [Support; 5],
    /// The source of the row.
    pub source: &'static str,
}

impl Row {
    /// The support of a route.
    #[must_use]
    pub fn support(&self, route: Route) -> Support {
        ROUTES.iter().position(|known| *known == route).map_or(No("no read"), |at| self.routes[at])
    }

    /// The routes that do not exist.
    #[must_use]
    pub fn closed(&self) -> Vec<Route> {
        ROUTES.into_iter().filter(|route| matches!(self.support(*route), No(_))).collect()
    }
}

/// Declares an enum with one variant per table row.
macro_rules! table {
    ($(#[$about:meta])* $name:ident { $($member:ident = $id:literal, $text:literal, [$($route:expr),+], $source:literal;)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(#[doc = $text] $member,)+
        }

        impl $name {
            /// All variants in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$member,)+];

            /// The table row of the variant.
            #[must_use]
            pub const fn row(self) -> Row {
                match self {
                    $(Self::$member => Row { id: $id, name: $text, routes: [$($route),+], source: $source },)+
                }
            }
        }
    };
}

const GRACE_ONLY: Support = No("only Grace has a coherent link");
const NO_P2P_PAGES: Support = No("the driver does not let other devices access its memory");
const OPEN: Support = If("open kernel modules, or nvidia-fs 2.17.4 and older");
const LISTED: Support = If("x86-64, open kernel modules 565.47 or later, static BAR1");
const UNLISTED: Support = If("not on NVIDIA's list; x86-64, open kernel modules 565.47 or later, static BAR1");
const TOO_OLD: Support = No("libcufile needs compute capability 6.0");

table! {
    /// A class of GPUs.
    GpuClass {
        Listed = "listed", "A100, A40, L4, L40, L40S, H100, H200, B100, B200, B300",
            [OPEN, LISTED, GRACE_ONLY, Yes, Yes], "troubleshooting guide, P2PDMA: supported GPUs";
        Ampere = "ampere", "other data-centre and workstation GPUs from Ampere on",
            [OPEN, UNLISTED, GRACE_ONLY, Yes, Yes], "troubleshooting guide, P2PDMA: Ampere or newer";
        Turing = "turing", "data-centre and workstation GPUs of Turing",
            [OPEN, No("P2PDMA needs Ampere or later"), GRACE_ONLY, Yes, Yes], "troubleshooting guide, P2PDMA: Ampere or newer";
        Volta = "volta", "data-centre and workstation GPUs of Pascal and Volta",
            [If("nvidia-fs 2.17.4 or older, proprietary driver, Linux before 6.2"), No("the open kernel modules need Turing or later"), GRACE_ONLY, Yes, Yes],
            "driver installation guide, kernel modules; ChangeLog of nvidia-fs 2.17.5";
        BeforePascal = "before-pascal", "GPUs before Pascal",
            [TOO_OLD, TOO_OLD, TOO_OLD, TOO_OLD, TOO_OLD], "libcufile: 'NO GDS SUPPORT - Reason: arch=(needs >=6)'";
        GeForce = "geforce", "GeForce",
            [NO_P2P_PAGES, NO_P2P_PAGES, NO_P2P_PAGES, NO_P2P_PAGES, Yes], "gds-nvidia-fs#14: nvidia_p2p_get_pages returns -22";
        Integrated = "integrated", "integrated GPUs (GB10, Jetson) and others without GPUDirect RDMA",
            [NO_P2P_PAGES, NO_P2P_PAGES, NO_P2P_PAGES, NO_P2P_PAGES, Yes], "CUDA attribute 116 is 0; sglang#32199";
        OldVgpu = "old-vgpu", "vGPU of Ampere and older",
            [No("vGPU needs Ada or later"), No("vGPU needs Ada or later"), GRACE_ONLY, No("vGPU needs Ada or later"), Yes],
            "NVIDIA AI Enterprise, GPUDirect on vGPU";
        Vgpu = "vgpu", "vGPU of Ada and later",
            [If("guest driver with open kernel modules"), No("not documented for vGPU"), GRACE_ONLY, If("guest driver with open kernel modules"), Yes],
            "NVIDIA AI Enterprise, GPUDirect on vGPU";
        Grace = "grace", "Grace Hopper and Grace Blackwell (GH200, GB200, GB300)",
            [OPEN, No("P2PDMA is for x86-64; Grace has c2c"), If("IOMMU on and translating"), Yes, Yes], "best practices guide; GDS support for NVMe drives";
    }
}

const NO_RDMA: Support = No("user-space RDMA supports only Spectrum Scale and WekaFS");
const NO_C2C: Support = No("c2c reads local NVMe disks only");
const NO_DMA: Support = No("the disk cannot write into GPU memory");
const CPU: Support = No("the CPU changes or copies the requests");
const NO_DISK: Support = No("no disk or network card is behind it that could write into GPU memory");
const HOOK: Support = If("NVMe driver built for GDS: DOCA, MLNX_OFED or a linux-nvidia kernel");
const FABRIC_HOOK: Support = If("nvme-rdma built for GDS: DOCA or MLNX_OFED");
const CLIENT: Support = If("client built for GDS");
const REFUSED: Support = No("libcufile rejects it");

table! {
    /// A kind of storage: file system and device.
    Storage {
        Nvme = "nvme", "ext4 (data=ordered) or xfs on a local NVMe disk",
            [HOOK, If("Linux 6.2 or later, NVMe multipath off"), If("Grace"), NO_RDMA, Yes], "troubleshooting guide; page of nvidia-fs";
        NvmeRaid0 = "nvme-raid0", "ext4 or xfs on md RAID 0 of local NVMe disks",
            [HOOK, If("Linux 7.1 or later"), NO_C2C, NO_RDMA, Yes], "troubleshooting guide, RAID; GDS support for NVMe drives: no RAID 0";
        NvmeRdma = "nvme-rdma", "ext4 or xfs on NVMe over RDMA",
            [FABRIC_HOOK, No("P2PDMA needs a local NVMe disk"), NO_C2C, NO_RDMA, Yes], "page of nvidia-fs; GDS support for NVMe drives: no NVMe-oF";
        VendorDisk = "vendor-disk", "ext4 or xfs on ScaleFlux or NVMesh",
            [If("the maker's driver"), No("P2PDMA supports NVMe only"), NO_C2C, NO_RDMA, Yes], "page of nvidia-fs";
        OtherDisk = "other-disk", "ext4 or xfs on SATA, SAS, a virtual disk or NVMe over TCP",
            [NO_DMA, NO_DMA, NO_DMA, NO_DMA, Yes], "O_DIRECT requirements: the storage needs a DMA engine that reaches the GPU";
        Mapped = "mapped", "LVM, encryption, multipath, loop devices, other RAID levels",
            [CPU, CPU, CPU, CPU, Yes], "O_DIRECT requirements; libcufile: 'Unsupported block device'";
        KernelClient = "kernel-client", "NFS over RDMA, Lustre, BeeGFS, ScateFS, PanFS",
            [CLIENT, No("P2PDMA needs a local NVMe disk"), NO_C2C, NO_RDMA, Yes], "page of nvidia-fs; release notes";
        Tcp = "tcp", "NFS or Lustre over TCP",
            [If("mounted over RDMA instead"), No("P2PDMA needs a local NVMe disk"), NO_C2C, NO_RDMA, Yes], "page of nvidia-fs: NFS over RDMA";
        UserRdma = "user-rdma", "IBM Spectrum Scale, WekaFS",
            [No("it goes over user-space RDMA"), No("P2PDMA needs a local NVMe disk"), NO_C2C, If("rdma_dev_addr_list, nvidia-peermem or DMA-BUF"), Yes],
            "troubleshooting guide, WekaFS and Spectrum Scale";
        Virtiofs = "virtiofs", "virtiofs",
            [No("nvidia-fs does not support virtiofs"), If("the hypervisor maps GPU memory"), NO_C2C, NO_RDMA, Yes], "libcufile: fs.virtiofs.use_pci_p2pdma";
        Layered = "layered", "overlay, tmpfs, squashfs",
            [NO_DISK, NO_DISK, NO_DISK, NO_DISK, If("libcufile 1.16 or later")], "release notes of GDS 1.16";
        CopyOnWrite = "copy-on-write", "ZFS, btrfs",
            [NO_DISK, NO_DISK, NO_DISK, NO_DISK, If("libcufile 1.17 or later")], "release notes of GDS 1.17";
        HostOnly = "host-only", "FUSE, CIFS, 9p, ext2, ext3, f2fs and others",
            [NO_DISK, NO_DISK, NO_DISK, NO_DISK, Yes], "libcufile: 'detected compat-only file system'";
        Refused = "refused", "vfat, exfat, /proc, /sys",
            [REFUSED, REFUSED, REFUSED, REFUSED, REFUSED], "libcufile: 5027 and 5008";
    }
}

/// Whether a GPU with a storage supports a route: both must support it.
#[must_use]
pub fn support(gpu: GpuClass, storage: Storage, route: Route) -> Vec<Support> {
    let both = [gpu.row().support(route), storage.row().support(route)];
    match both.iter().find(|one| matches!(one, No(_))) {
        Some(closed) => vec![*closed],
        None => both.into_iter().filter(|one| *one != Yes).collect(),
    }
}

/// Whether a route cannot exist for a GPU and a storage.
#[must_use]
pub fn is_closed(gpu: Option<GpuClass>, storage: Option<Storage>, route: Route) -> bool {
    let closed = |row: Option<Row>| row.is_some_and(|row| matches!(row.support(route), No(_)));
    closed(gpu.map(GpuClass::row)) || closed(storage.map(Storage::row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_each_row_has_its_source() {
        let mut ids: Vec<&str> =
            GpuClass::ALL.iter().map(|c| c.row().id).chain(Storage::ALL.iter().map(|s| s.row().id)).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for row in GpuClass::ALL.iter().map(|c| c.row()).chain(Storage::ALL.iter().map(|s| s.row())) {
            assert!(!row.source.is_empty() && !row.name.is_empty(), "{}", row.id);
            for support in row.routes {
                if let If(text) | No(text) = support {
                    assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", row.id);
                }
            }
        }
    }

    fn open_routes(gpu: GpuClass, storage: Storage) -> Vec<Route> {
        ROUTES.into_iter().filter(|route| !is_closed(Some(gpu), Some(storage), *route)).collect()
    }

    #[test]
    fn a_route_needs_both_the_gpu_and_the_storage() {
        assert_eq!(open_routes(GpuClass::Listed, Storage::Nvme), [Route::Nvfs, Route::P2pdma, Route::Compat]);
        assert_eq!(open_routes(GpuClass::Grace, Storage::Nvme), [Route::Nvfs, Route::C2c, Route::Compat]);
        assert_eq!(open_routes(GpuClass::GeForce, Storage::Nvme), [Route::Compat]);
        assert_eq!(open_routes(GpuClass::Turing, Storage::NvmeRdma), [Route::Nvfs, Route::Compat]);
        assert_eq!(open_routes(GpuClass::Turing, Storage::Virtiofs), [Route::Compat]);
        assert_eq!(open_routes(GpuClass::Ampere, Storage::UserRdma), [Route::Rdma, Route::Compat]);
        assert_eq!(open_routes(GpuClass::BeforePascal, Storage::Nvme), []);
        assert_eq!(open_routes(GpuClass::Listed, Storage::Refused), []);
    }

    #[test]
    fn conditions_of_both_sides_are_listed() {
        assert_eq!(support(GpuClass::Listed, Storage::Nvme, Route::P2pdma).len(), 2);
        assert_eq!(support(GpuClass::Listed, Storage::Nvme, Route::Compat), []);
        assert!(matches!(support(GpuClass::GeForce, Storage::Mapped, Route::Nvfs).as_slice(), [No(_)]));
    }
}
