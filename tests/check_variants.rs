//! Machines that differ from a fixture in a few files: the cause, the verdict and no false alarm on each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use gds_top::checks::{self, Report};
use gds_top::domain::{Route, Status};
use gds_top::host::Root;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A change of a machine.
enum Edit {
    /// Writes a file below the folder of the machine.
    Put(&'static str, &'static str),
    /// Takes a file or folder away.
    Drop(&'static str),
    /// Sets a value in one of the JSON files, by pointer; the parent must be there.
    Set(&'static str, &'static str, Value),
    /// Makes a link.
    Link(&'static str, &'static str),
}
use Edit::{Drop, Link, Put, Set};

struct Variant {
    name: &'static str,
    base: &'static str,
    edits: Vec<Edit>,
    route: Route,
    possible: Route,
    /// The blockers of the first verdict, in order.
    blockers: &'static [&'static str],
    /// All findings that warn or fail, in any order.
    loud: &'static [&'static str],
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn build(base: &str, edits: &[Edit]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(base), folder.path());
    let at = |path: &str| -> PathBuf {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for edit in edits {
        match edit {
            Put(path, text) => std::fs::write(at(path), text).unwrap(),
            Drop(path) => {
                let path = at(path);
                if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
            }
            Set(file, pointer, value) => {
                let path = at(file);
                let mut whole: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                match whole.pointer_mut(parent).unwrap() {
                    Value::Object(map) => {
                        map.insert(key.to_owned(), value.clone());
                    }
                    Value::Array(items) if key == "-" => items.push(value.clone()),
                    Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
                    _ => panic!("{pointer}"),
                }
                std::fs::write(path, whole.to_string()).unwrap();
            }
            Link(path, target) => std::os::unix::fs::symlink(target, at(path)).unwrap(),
        }
    }
    folder
}

fn check(folder: &Path) -> Report {
    let root = Root::folder(folder).unwrap();
    checks::run(&root, &root.captured_paths(), None, &mut |_| {})
}

fn loud(report: &Report) -> Vec<&str> {
    let bad = |status| matches!(status, Status::Fail | Status::Warn);
    report.findings.iter().filter(|f| bad(f.status)).map(|f| f.id.as_str()).collect()
}

fn judge(variants: Vec<Variant>) {
    let mut wrong = Vec::new();
    for variant in variants {
        let folder = build(variant.base, &variant.edits);
        let report = check(folder.path());
        let verdict = &report.verdicts[0];
        let (mut got, mut wanted) = (loud(&report), variant.loud.to_vec());
        got.sort_unstable();
        wanted.sort_unstable();
        if (verdict.route, verdict.possible) != (variant.route, variant.possible)
            || verdict.blockers != variant.blockers
            || got != wanted
        {
            let said: Vec<String> = report
                .findings
                .iter()
                .filter(|f| got.contains(&f.id.as_str()))
                .map(|f| format!("    {:?} {}: {}", f.status, f.id, f.summary))
                .collect();
            wrong.push(format!(
                "{}: route {} possible {} blockers {:?} loud {got:?}\n  wanted {} {} {:?} {wanted:?}\n{}",
                variant.name,
                verdict.route,
                verdict.possible,
                verdict.blockers,
                variant.route,
                variant.possible,
                variant.blockers,
                said.join("\n")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const COMMANDS: &str = "commands.json";
const PATHS: &str = "paths.json";
const NVML: &str = "nvml.json";
const LIB: &str = "libcufile.json";

fn said(argv: &[&str], stdout: &str) -> Value {
    json!({"argv": argv, "exit_code": 0, "stdout": stdout, "stderr": ""})
}

fn path(pointer: &'static str, value: Value) -> Edit {
    Set(PATHS, pointer, value)
}

#[test]
fn healthy_machines_with_harmless_oddities_give_no_alarm() {
    let kernel_log = "Linux version 6.14.0\nnvidia_fs: Initializing nvfs driver module\nnvidia_fs: registered correctly with major number 505\n\
                      nvme nvme0: 16/0/0 default/read/poll queues\nusb 1-1: device descriptor read/64, error -71\npcieport 0000:00:1c.0: AER: Correctable error\n\
                      nvidia-nvlink: Nvlink Core is being initialized\nACPI Error: no handler\nCould not resolve symbol [^GPP6.VGA]\n";
    let fine =
        |name, base, route, edits| Variant { name, base, edits, route, possible: route, blockers: &[], loud: &[] };
    judge(vec![
        fine(
            "a login's limits",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Put(
                "files/proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max open files            1024                 524288               files     \n\
             Max locked memory         8388608              8388608              bytes     \n",
            )],
        ),
        fine(
            "xfs",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                path("/0/filesystem", json!("xfs")),
                path("/0/mount_options", json!("rw,noatime,attr2,inode64,logbufs=8,noquota")),
                path("/0/inode_flags", json!(0)),
                path("/0/statfs_magic", json!(0x5846_5342)),
            ],
        ),
        fine(
            "a noisy kernel log",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Set(COMMANDS, "/-", said(&["journalctl", "-k", "-b", "-o", "cat"], kernel_log))],
        ),
        fine(
            "compat mode not allowed, and not needed",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Put("files/etc/cufile.json", "{ \"properties\": { \"allow_compat_mode\": false } }")],
        ),
        fine(
            "the template that the toolkit ships",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Put(
                "files/etc/cufile.json",
                "{\n // NOTE\n \"logging\": { // \"dir\": \"/home/x\",\n \"level\": \"ERROR\" },\n \"profile\": { \"nvtx\": false, \"cufile_stats\": 0 },\n \
             \"execution\": { \"max_io_queue_depth\": 128, \"max_request_parallelism\": 4, \"max_io_threads\": 4, \"parallel_io\": true, \"min_io_threshold_size_kb\": 8192 },\n \
             \"properties\": { \"max_direct_io_size_kb\": 16384, \"max_device_cache_size_kb\": 131072, \"per_buffer_cache_size_kb\": 1024, \
             \"max_device_pinned_mem_size_kb\": 33554432, \"use_poll_mode\": false, \"poll_mode_max_size_kb\": 4, \"use_pci_p2pdma\": false, \
             \"allow_compat_mode\": true, \"gds_rdma_write_support\": true, \"io_batchsize\": 128, \"io_priority\": \"default\", \"rdma_dev_addr_list\": [], \
             \"rdma_load_balancing_policy\": \"RoundRobin\", \"rdma_dynamic_routing\": false, \
             \"rdma_dynamic_routing_order\": [ \"GPU_MEM_NVLINKS\", \"GPU_MEM\", \"SYS_MEM\", \"P2P\" ] },\n \
             \"fs\": { \"generic\": { \"posix_unaligned_writes\": false }, \"lustre\": { \"posix_gds_min_kb\": 0 } },\n \
             \"denylist\": { \"drivers\": [], \"devices\": [], \"mounts\": [], \"filesystems\": [] },\n \
             \"miscellaneous\": { \"api_check_aggressive\": false }\n}\n",
            )],
        ),
        fine(
            "an old driver on bare metal with the nvidia-fs of its time",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/module/nvidia/version", "550.163.01\n"),
                Put(
                    "files/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.163.01  Release Build\n",
                ),
                Set(NVML, "/driver_version", json!("550.163.01")),
                Set(NVML, "/cuda_version", json!("12.4")),
                Put("files/sys/module/nvidia_fs/version", "2.20.5\n"),
                Set(LIB, "/found/0/version", json!("1.10")),
            ],
        ),
        fine(
            "RHEL 9.4 with a weak update of nvidia-fs",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put(
                    "files/etc/os-release",
                    "NAME=\"Red Hat Enterprise Linux\"\nID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\n",
                ),
                Put("files/proc/sys/kernel/osrelease", "5.14.0-427.13.1.el9_4.x86_64\n"),
                Set(
                    COMMANDS,
                    "/-",
                    said(
                        &["dkms", "status"],
                        "nvidia-fs/2.25.7, 5.14.0-427.13.1.el9_4.x86_64, x86_64: installed (original_module exists)\n",
                    ),
                ),
            ],
        ),
        fine(
            "SUSE",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Put("files/etc/os-release", "NAME=\"SLES\"\nVERSION_ID=\"15.6\"\nID=\"sles\"\nID_LIKE=\"suse\"\n")],
        ),
        fine(
            "persistence off, ECC off",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Set(NVML, "/gpus/0/persistence", json!(false)), Set(NVML, "/gpus/0/ecc", json!("disabled"))],
        ),
        fine(
            "an IOMMU that passes through",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/class/iommu/dmar0", ""),
                Put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro intel_iommu=on iommu=pt\n"),
            ],
        ),
        fine(
            "IOMMU asked for, and switched off in the firmware",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/class/iommu/.keep", ""),
                Drop("files/sys/class/iommu/.keep"),
                Put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro intel_iommu=on\n"),
            ],
        ),
        fine(
            "a plain user who may not read the kernel log",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Set(
                COMMANDS,
                "/-",
                json!({"argv": ["journalctl", "-k", "-b", "-o", "cat"], "exit_code": 1, "stdout": "", "stderr": "No journal files were opened due to insufficient permissions."}),
            )],
        ),
        fine(
            "the same libcufile by two names",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Set(LIB, "/found/-", json!({"path": "/usr/lib/x86_64-linux-gnu/libcufile.so.0", "version": "1.16"}))],
        ),
        fine(
            "P2PDMA whose mapping of BAR1 is the driver's own",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Put("files/proc/driver/nvidia/params", "RegistryDwords: \"\"\n"),
                Set(LIB, "/found/0/version", json!("1.20")),
                Set(LIB, "/p2p_flags", json!({"nvme": 1})),
            ],
        ),
        fine(
            "P2PDMA on an A100 with its third key",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Set(NVML, "/gpus/0/name", json!("NVIDIA A100-SXM4-80GB")),
                Set(NVML, "/gpus/0/compute_capability", json!("8.0")),
                Put(
                    "files/proc/driver/nvidia/params",
                    "RegistryDwords: \"RMForceStaticBar1=1;ForceP2P=0;RmForceDisableIomapWC=1;\"\n",
                ),
            ],
        ),
        fine(
            "P2PDMA on RHEL 9.6",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Put("files/etc/os-release", "ID=\"rhel\"\nVERSION_ID=\"9.6\"\n"),
                Put("files/proc/sys/kernel/osrelease", "5.14.0-570.12.1.el9_6.x86_64\n"),
                Put("files/boot/config-5.14.0-570.12.1.el9_6.x86_64", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "P2PDMA on Linux 6.18, for which no patched NVMe driver exists",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Put("files/proc/sys/kernel/osrelease", "6.18.2-generic\n"),
                Put("files/boot/config-6.18.2-generic", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "Grace with NVMe multipath and persistence",
            "grace",
            Route::C2c,
            vec![Put("files/sys/module/nvme_core/parameters/multipath", "Y\n")],
        ),
        fine(
            "a display GPU of another vendor beside it",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/bus/pci/devices/0000:03:00.0/vendor", "0x1a03\n"),
                Put("files/sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n"),
            ],
        ),
    ]);
}

#[test]
fn each_fault_is_named_as_the_cause() {
    let bad = |name, base, edits, route, possible, blockers, loud| Variant {
        name,
        base,
        edits,
        route,
        possible,
        blockers,
        loud,
    };
    judge(vec![
        bad(
            "tmpfs with a library that copies from it",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("tmpfs")),
                path("/0/device", json!("0:25")),
                path("/0/block_device", json!([])),
            ],
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "tmpfs with a library before 1.16",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("tmpfs")),
                path("/0/device", json!("0:25")),
                path("/0/block_device", json!([])),
                Set(LIB, "/found/0/version", json!("1.14")),
            ],
            Route::None,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "btrfs before 1.17",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("btrfs")),
                path("/0/device", json!("0:41")),
                path("/0/mount_options", json!("rw,compress=zstd")),
            ],
            Route::None,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "zfs with 1.17",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("zfs")),
                path("/0/device", json!("0:41")),
                path("/0/block_device", json!([])),
                Set(LIB, "/found/0/version", json!("1.17")),
            ],
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "9p",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("9p")),
                path("/0/device", json!("0:41")),
                path("/0/block_device", json!([])),
            ],
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "a file system that nobody lists",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("ceph")),
                path("/0/device", json!("0:41")),
                path("/0/block_device", json!([])),
            ],
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "LVM on md raid0",
            "md-raid0",
            vec![path(
                "/0/block_device",
                json!([
                    {"name": "dm-0", "kind": "dm", "uuid": "LVM-abc"}, {"name": "md0", "kind": "md", "level": "raid0"},
                    {"name": "nvme0n1", "kind": "disk"}, {"name": "nvme1n1", "kind": "disk"},
                ]),
            )],
            Route::Compat,
            Route::Compat,
            &["dm-lvm"],
            &["dm-lvm"],
        ),
        bad(
            "dm-crypt",
            "nvfs-healthy",
            vec![path("/0/block_device/-", json!({"name": "dm-1", "kind": "dm", "uuid": "CRYPT-LUKS2-x"}))],
            Route::Compat,
            Route::Compat,
            &["dm-lvm"],
            &["dm-lvm"],
        ),
        bad(
            "md raid1",
            "md-raid0",
            vec![path(
                "/0/block_device",
                json!([
                    {"name": "md0", "kind": "md", "level": "raid1"}, {"name": "nvme0n1", "kind": "disk"}, {"name": "nvme1n1", "kind": "disk"},
                ]),
            )],
            Route::Compat,
            Route::Compat,
            &["md-raid"],
            &["md-raid"],
        ),
        bad(
            "a SATA disk",
            "nvfs-healthy",
            vec![path(
                "/0/block_device",
                json!([{"name": "sda1", "kind": "partition"}, {"name": "sda", "kind": "disk"}]),
            )],
            Route::Compat,
            Route::Compat,
            &["nvme-transport"],
            &["nvme-transport"],
        ),
        bad(
            "NVMe over TCP",
            "nvfs-healthy",
            vec![Put("files/sys/class/nvme/nvme0/transport", "tcp\n")],
            Route::Compat,
            Route::Compat,
            &["nvme-transport"],
            &["nvme-transport"],
        ),
        bad(
            "an NVMe disk made up by QEMU",
            "nvfs-healthy",
            vec![Put("files/sys/class/nvme/nvme0/model", "QEMU NVMe Ctrl                          \n")],
            Route::Compat,
            Route::Compat,
            &["vm-type"],
            &["vm-type"],
        ),
        bad(
            "integrity metadata",
            "nvfs-healthy",
            vec![Put("files/sys/block/nvme0n1/integrity/device_is_integrity_capable", "1\n")],
            Route::Compat,
            Route::Nvfs,
            &["nvme-integrity"],
            &["nvme-integrity"],
        ),
        bad(
            "an encrypted file",
            "nvfs-healthy",
            vec![path("/0/inode_flags", json!(0x80800))],
            Route::Compat,
            Route::Nvfs,
            &["inode-flags"],
            &["inode-flags"],
        ),
        bad(
            "an inode without extents",
            "nvfs-healthy",
            vec![path("/0/inode_flags", json!(0))],
            Route::Compat,
            Route::Nvfs,
            &["ext4-extents"],
            &["ext4-extents"],
        ),
        bad(
            "data=writeback",
            "nvfs-healthy",
            vec![path("/0/mount_options", json!("rw,relatime,data=writeback"))],
            Route::Compat,
            Route::Nvfs,
            &["ext4-ordered"],
            &["ext4-ordered"],
        ),
        bad(
            "AMD's IOMMU, on by default",
            "nvfs-healthy",
            vec![
                Put("files/sys/class/iommu/ivhd0", ""),
                Link("files/sys/bus/pci/devices/0000:be:00.0/iommu_group", "../../../../kernel/iommu_groups/31"),
                Put("files/sys/kernel/iommu_groups/31/type", "DMA-FQ\n"),
            ],
            Route::Compat,
            Route::Nvfs,
            &["iommu-state"],
            &["iommu-state"],
        ),
        bad(
            "IOMMU known from the command line only",
            "nvfs-healthy",
            vec![Put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro intel_iommu=on,sm_on\n")],
            Route::Compat,
            Route::Nvfs,
            &["iommu-state"],
            &["iommu-state"],
        ),
        bad(
            "Grace with a passed-through IOMMU",
            "grace",
            vec![Put("files/proc/cmdline", "ro iommu.passthrough=1\n")],
            Route::Compat,
            Route::C2c,
            &["iommu-state"],
            &["iommu-state"],
        ),
        bad(
            "P2PDMA on an A100 without its third key",
            "p2pdma-healthy",
            vec![
                Set(NVML, "/gpus/0/name", json!("NVIDIA A100-SXM4-80GB")),
                Set(NVML, "/gpus/0/compute_capability", json!("8.0")),
            ],
            Route::Compat,
            Route::P2pdma,
            &["gpu-static-bar1"],
            &["gpu-static-bar1"],
        ),
        bad(
            "a T4 beside the H200 switches P2PDMA off",
            "p2pdma-healthy",
            vec![Set(
                NVML,
                "/gpus/-",
                json!({
                    "index": 1, "uuid": "GPU-t4", "name": "Tesla T4", "pci_bus_id": "0000:5e:00.0", "compute_capability": "7.5",
                    "bar1_total_bytes": 268_435_456_u64, "memory_total_bytes": 16_106_127_360_u64,
                }),
            )],
            Route::Compat,
            Route::P2pdma,
            &["gpu-p2pdma-model"],
            &["gpu-p2pdma-model", "gpu-bar1-size", "nvfs-loaded", "nvfs-nvme-symbol"],
        ),
        bad(
            "the second key of P2PDMA is missing",
            "p2pdma-healthy",
            vec![Put("files/etc/cufile.json", "{\"properties\":{\"use_pci_p2pdma\":true}}")],
            Route::Compat,
            Route::P2pdma,
            &["cfg-p2p-both"],
            &["cfg-p2p-both"],
        ),
        bad(
            "an old kernel for P2PDMA",
            "p2pdma-healthy",
            vec![
                Put("files/proc/sys/kernel/osrelease", "5.15.0-100-generic\n"),
                Put("files/boot/config-5.15.0-100-generic", "CONFIG_PCI_P2PDMA=y\n"),
            ],
            Route::Compat,
            Route::P2pdma,
            &["kernel-version"],
            &["kernel-version"],
        ),
        bad(
            "Rocky 9.5",
            "p2pdma-healthy",
            vec![Put("files/etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.5\"\n")],
            Route::Compat,
            Route::P2pdma,
            &["distro-blocklist"],
            &["distro-blocklist"],
        ),
        bad(
            "nvidia-fs did not take the hook of a newer NVMe driver",
            "nvfs-healthy",
            vec![
                Put("files/sys/module/nvidia_fs/version", "2.28.4\n"),
                Put("files/proc/driver/nvidia-fs/modules", "wekafsio: 1\n"),
                Put("files/proc/kallsyms", "0000000000000000 T nvme_v2_register_nvfs_dma_ops\t[nvme]\n"),
            ],
            Route::Compat,
            Route::Nvfs,
            &["nvfs-nvme-symbol"],
            &["nvfs-nvme-symbol", "nvfs-registered"],
        ),
        bad(
            "the kernel changed and the old nvidia-fs does not build on it",
            "dkms-other-kernel",
            vec![
                Put("files/proc/sys/kernel/osrelease", "6.5.0-17-generic\n"),
                Put(
                    COMMANDS,
                    r#"[{"argv":["dkms","status"],"exit_code":0,"stdout":"nvidia-fs/2.18.3, 6.2.0-39-generic, x86_64: installed\nnvidia/580.95.05, 6.5.0-17-generic, x86_64: installed\n","stderr":""}]"#,
                ),
            ],
            Route::Compat,
            Route::Nvfs,
            &["nvfs-dkms"],
            &["nvfs-dkms", "nvfs-loaded"],
        ),
        bad(
            "RHEL without kernel-devel",
            "headers-missing",
            vec![
                Put("files/proc/sys/kernel/osrelease", "5.14.0-503.el9.x86_64\n"),
                Put("files/lib/modules/5.14.0-503.el9.x86_64/modules.dep", ""),
                Link("files/lib/modules/5.14.0-503.el9.x86_64/build", "/usr/src/kernels/5.14.0-503.el9.x86_64"),
                Put("files/usr/src/kernels/5.14.0-427.el9.x86_64/Makefile", ""),
                Put(
                    COMMANDS,
                    r#"[{"argv":["dkms","status"],"exit_code":0,"stdout":"nvidia-fs/2.26.6: added\n","stderr":""}]"#,
                ),
            ],
            Route::Compat,
            Route::Nvfs,
            &["nvfs-build-inputs"],
            &["nvfs-build-inputs", "nvfs-dkms", "nvfs-loaded"],
        ),
        bad(
            "the log still tells of the proprietary modules that are gone",
            "proprietary-nvfs",
            vec![Put(
                "files/proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
            )],
            Route::Compat,
            Route::Nvfs,
            &["nvfs-load-errors"],
            &["nvfs-load-errors", "nvfs-loaded"],
        ),
        bad(
            "a value that only the library refuses",
            "nvfs-healthy",
            vec![Set(
                LIB,
                "/open",
                json!({"code": 5002, "cuda_code": 0, "stdout": "", "stderr": "error reading config properties.new_key\n", "timed_out": false}),
            )],
            Route::None,
            Route::Nvfs,
            &["cfg-parse"],
            &["cfg-parse", "lib-open-probe"],
        ),
        bad(
            "no fabric manager",
            "nvfs-healthy",
            vec![Set(
                LIB,
                "/open",
                json!({"code": 5011, "cuda_code": 802, "stdout": "", "stderr": "", "timed_out": false}),
            )],
            Route::None,
            Route::Nvfs,
            &["lib-open-probe"],
            &["lib-open-probe"],
        ),
        bad(
            "a crash under WSL",
            "wsl2",
            vec![Put(
                LIB,
                r#"{"found":[{"path":"/l","version":"1.14"}],"chosen":"/l","open":{"code":null,"stdout":"","stderr":"Assertion failure, file index :cufio-udev  line :143","timed_out":false}}"#,
            )],
            Route::None,
            Route::None,
            &["wsl"],
            &["wsl", "lib-open-probe", "nvme-transport"],
        ),
        bad(
            "nvidia-fs older than the library takes",
            "nvfs-healthy",
            vec![
                Put("files/sys/module/nvidia_fs/version", "2.11.0\n"),
                Set(
                    LIB,
                    "/open",
                    json!({"code": 5004, "cuda_code": 0, "stdout": "", "stderr": "", "timed_out": false}),
                ),
            ],
            Route::None,
            Route::Nvfs,
            &["nvfs-version"],
            &["nvfs-version", "lib-open-probe"],
        ),
        bad(
            "a vGPU of Ampere",
            "vgpu",
            vec![Set(NVML, "/gpus/0/compute_capability", json!("8.7"))],
            Route::Compat,
            Route::Compat,
            &["gpu-mig-vgpu"],
            &["gpu-mig-vgpu"],
        ),
        bad(
            "libraries of another version, told by NVML's error only",
            "driver-mismatch",
            vec![Drop("files/sys/module/nvidia")],
            Route::None,
            Route::P2pdma,
            &["driver-mismatch"],
            &["driver-mismatch", "lib-open-probe", "gpu-static-bar1", "cfg-p2p-both"],
        ),
        bad(
            "two different libraries",
            "nvfs-healthy",
            vec![Set(
                LIB,
                "/found/-",
                json!({"path": "/opt/venv/nvidia/cufile/lib/libcufile.so.0", "version": "1.14"}),
            )],
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["lib-found"],
        ),
        bad(
            "GPU prohibited",
            "nvfs-healthy",
            vec![Set(NVML, "/gpus/0/compute_mode", json!("prohibited"))],
            Route::None,
            Route::Nvfs,
            &["gpu-compute-mode"],
            &["gpu-compute-mode"],
        ),
    ]);
}

/// The lists of parts that a capture may lack; whatever is missing, nothing fails that did not fail before.
#[test]
fn what_a_capture_lacks_never_becomes_a_failure() {
    let parts = [NVML, LIB, COMMANDS, "environment.json", PATHS];
    let mut wrong = Vec::new();
    for base in
        ["nvfs-healthy", "p2pdma-healthy", "p2pdma-listed", "grace", "nfs-rdma", "lustre", "md-raid0", "switch-healthy"]
    {
        for part in parts {
            if !Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(base).join(part).exists() {
                continue;
            }
            let folder = build(base, &[Drop(part)]);
            let report = check(folder.path());
            let bad = |f: &&gds_top::domain::Finding| f.status == Status::Fail;
            let failing: Vec<String> =
                report.findings.iter().filter(bad).map(|f| format!("{}: {}", f.id, f.summary)).collect();
            if !failing.is_empty() {
                wrong.push(format!("{base} without {part}: {failing:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
