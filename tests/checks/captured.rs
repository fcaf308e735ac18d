//! Machines that were rebuilt from reports of users: their causes, in the order of work.

use crate::fixtures::Row;
use gds_top::core::Route;

pub(crate) const TABLE: &[Row] = &[
    ("pod-image-volume", Route::Compat, Route::Compat, &["fs-type"], &[]),
    ("rdma-shared", Route::Compat, Route::Rdma, &["nvfs-peermem", "rdma-ips"], &["rdma-ips"]),
    ("gpfs-peermem-refused", Route::Compat, Route::Rdma, &["nvfs-peermem", "rdma-ips"], &["rdma-ips"]),
    (
        "beegfs-tcp",
        Route::Compat,
        Route::Nvfs,
        &["rdma-stack", "driver-flavour", "nvfs-loaded", "nvfs-registered"],
        &["rdma-stack", "driver-flavour", "nvfs-loaded", "nvfs-registered"],
    ),
    ("fsx-lustre-tcp", Route::Compat, Route::Nvfs, &["fs-type", "nvfs-loaded"], &["fs-type", "nvfs-loaded"]),
    ("vast-tcp", Route::Compat, Route::Nvfs, &["nfs-rdma", "nvfs-registered"], &["nvfs-registered", "nfs-rdma"]),
    (
        "gb200-secure-boot",
        Route::None,
        Route::C2c,
        &["gpu-present", "cfg-p2p-both"],
        &["gpu-present", "cfg-p2p-both", "lib-open-probe"],
    ),
    (
        "gh200-pass-through",
        Route::Compat,
        Route::C2c,
        &["iommu-state", "cfg-p2p-both"],
        &["iommu-state", "cfg-p2p-both"],
    ),
    (
        "rocky-8-stock-nvme",
        Route::None,
        Route::Nvfs,
        &["nvfs-nvme-symbol", "cfg-compat"],
        &["nvfs-nvme-symbol", "cfg-compat", "nvfs-registered"],
    ),
    ("sles-unsupported-module", Route::Compat, Route::Nvfs, &["nvfs-loaded"], &["nvfs-loaded"]),
    ("rhel-10-ext4-journal", Route::Compat, Route::Nvfs, &["ext4-ordered"], &["ext4-ordered"]),
    ("mig-no-instance", Route::None, Route::Nvfs, &["gpu-mig-vgpu"], &["gpu-mig-vgpu", "lib-open-probe"]),
];
