//! Complete machines in directories: the correct cause first, the correct verdict, and no alarm on a healthy machine.

use crate::captured;
use crate::machine::{fixture, fixtures};
use crate::spread::spread;
use gds_top::checks::{self, Report};
use gds_top::core::{CheckId, Finding, FixId, Route, Status};
use gds_top::machine::Root;
use std::sync::LazyLock;

pub(crate) fn root(name: &str) -> Root {
    Root::folder(&fixture(name)).unwrap()
}

pub(crate) fn check(name: &str) -> Report {
    let root = root(name);
    let mut emitted: Vec<Finding> = Vec::new();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |finding| emitted.push(finding));
    for finding in &report.findings {
        let last = emitted.iter().rev().find(|f| f.id == finding.id);
        assert_eq!(last, Some(finding), "{name}: the last emitted {} differs from the report", finding.id);
    }
    report
}

/// The names and reports of all fixtures.
pub(crate) fn all() -> &'static [(String, Report)] {
    static ALL: LazyLock<Vec<(String, Report)>> =
        LazyLock::new(|| spread(&fixtures(), |name| (name.clone(), check(name))));
    &ALL
}

/// Machine, current route, best possible route, causes in order, and all failed checks.
pub(crate) type Row = (&'static str, Route, Route, &'static [&'static str], &'static [&'static str]);

/// The steps to the route nvfs with the NVMe driver of the distribution.
const NVFS_STEPS: &[&str] = &["nvfs-nvme-symbol", "nvfs-loaded"];

const TABLE: &[Row] = &[
    ("h200-vm-no-udev", Route::None, Route::Compat, &["vm-type", "udev-database"], &["udev-database"]),
    ("h200-vm-udev", Route::Compat, Route::Compat, &["vm-type"], &[]),
    ("nvfs-healthy", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("p2pdma-healthy", Route::P2pdma, Route::P2pdma, &[], &[]),
    (
        "p2pdma-two-steps",
        Route::Compat,
        Route::P2pdma,
        &["gpu-static-bar1", "cfg-p2p-both"],
        &["gpu-static-bar1", "cfg-p2p-both"],
    ),
    ("no-gpu", Route::None, Route::None, &["gpu-present"], &["gpu-present"]),
    ("container-no-udev", Route::None, Route::P2pdma, &["udev-database"], &["udev-database"]),
    ("wsl2", Route::None, Route::None, &["wsl"], &["wsl"]),
    ("overlay-root", Route::Compat, Route::Compat, &["fs-type"], &[]),
    ("broken-cufile-json", Route::None, Route::Nvfs, &["cfg-parse"], &["cfg-parse", "lib-open-probe"]),
    ("forced-compat", Route::Compat, Route::Nvfs, &["cfg-compat"], &["cfg-compat"]),
    (
        "proprietary-nvfs",
        Route::Compat,
        Route::Nvfs,
        &["driver-flavour"],
        &["driver-flavour", "nvfs-loaded", "nvfs-load-errors"],
    ),
    (
        "sandbox-no-modules",
        Route::None,
        Route::P2pdma,
        &["ctr-proc-sys", "gpu-static-bar1", "cfg-p2p-both"],
        &["gpu-static-bar1", "cfg-p2p-both", "lib-open-probe", "ctr-proc-sys"],
    ),
    ("geforce", Route::Compat, Route::Compat, &["gpu-class"], &[]),
    ("lvm", Route::Compat, Route::Compat, &["dm-lvm"], &[]),
    (
        "driver-mismatch",
        Route::None,
        Route::P2pdma,
        &["driver-mismatch", "gpu-static-bar1", "cfg-p2p-both"],
        &["driver-mismatch", "lib-open-probe", "gpu-static-bar1", "cfg-p2p-both"],
    ),
    ("nfs-tcp", Route::Compat, Route::Nvfs, &["nfs-rdma", "nvfs-registered"], &["nvfs-registered", "nfs-rdma"]),
    ("unreadable-cufile-json", Route::None, Route::Nvfs, &["cfg-parse"], &["cfg-parse", "lib-open-probe"]),
    ("denylist", Route::Compat, Route::Nvfs, &["cfg-effective"], &["cfg-effective"]),
    ("reboot-pending", Route::Compat, Route::P2pdma, &["gpu-static-bar1"], &["gpu-static-bar1"]),
    ("volta", Route::Compat, Route::Compat, &["gpu-open-capable"], &[]),
    ("md-raid5", Route::Compat, Route::Compat, &["md-raid"], &[]),
    ("p2pdma-listed", Route::P2pdma, Route::P2pdma, &[], &[]),
    (
        "secure-boot",
        Route::Compat,
        Route::Nvfs,
        &["nvfs-secureboot"],
        &["nvfs-secureboot", "nvfs-load-errors", "nvfs-loaded"],
    ),
    ("grace", Route::C2c, Route::C2c, &[], &[]),
    ("iommu-on", Route::Compat, Route::Nvfs, &["iommu-state"], &["iommu-state"]),
    ("dkms-other-kernel", Route::Compat, Route::Nvfs, &["nvfs-dkms"], &["nvfs-dkms", "nvfs-loaded"]),
    (
        "headers-missing",
        Route::Compat,
        Route::Nvfs,
        &["nvfs-build-inputs"],
        &["nvfs-build-inputs", "nvfs-dkms", "nvfs-loaded"],
    ),
    ("unknown-symbol", Route::Compat, Route::Nvfs, &["nvfs-load-errors"], &["nvfs-load-errors", "nvfs-loaded"]),
    (
        "zst-symvers",
        Route::Compat,
        Route::Nvfs,
        &["nvfs-build-inputs"],
        &["nvfs-build-inputs", "nvfs-load-errors", "nvfs-loaded"],
    ),
    ("other-driver-build", Route::Compat, Route::Nvfs, &["nvfs-load-errors"], &["nvfs-load-errors", "nvfs-loaded"]),
    ("secure-boot-unsigned", Route::Compat, Route::Nvfs, &["nvfs-secureboot"], &["nvfs-secureboot", "nvfs-loaded"]),
    ("secure-boot-signed", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("vgpu", Route::Compat, Route::Compat, &["gpu-mig-vgpu"], &[]),
    ("md-raid0", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("md-raid0-no-level", Route::Compat, Route::Nvfs, &["md-raid"], &["md-raid"]),
    ("nfs-rdma", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("nfs-rdma-stock", Route::Compat, Route::Nvfs, &["nvfs-registered"], &["nvfs-registered"]),
    ("lustre", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("lustre-old", Route::Compat, Route::Nvfs, &["dfs-client-version"], &["dfs-client-version", "nvfs-registered"]),
    ("weka", Route::Compat, Route::Rdma, &["nvfs-peermem", "rdma-ips"], &["rdma-ips"]),
    ("acs", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("switch-healthy", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("two-libcufile", Route::Nvfs, Route::Nvfs, &[], &[]),
    (
        "nvme-hook-generation",
        Route::Compat,
        Route::Nvfs,
        &["nvfs-nvme-symbol"],
        &["nvfs-nvme-symbol", "nvfs-registered"],
    ),
    (
        "nvme-stock",
        Route::Compat,
        Route::P2pdma,
        &["nvfs-nvme-symbol", "gpu-static-bar1", "cfg-p2p-both"],
        &["gpu-static-bar1", "cfg-p2p-both"],
    ),
    ("nvfs-2-25-6", Route::None, Route::Nvfs, &["nvfs-version"], &["nvfs-version"]),
    ("bar1-exhausted", Route::Compat, Route::Nvfs, &["gpu-bar1-free"], &["gpu-bar1-free"]),
    ("cuda12-driver", Route::None, Route::Nvfs, &["cuda-driver-runtime"], &["cuda-driver-runtime", "lib-open-probe"]),
    ("log-folder-missing", Route::None, Route::Nvfs, &["log-location"], &["log-location", "lib-open-probe"]),
    ("multipath-on", Route::Compat, Route::P2pdma, &["nvme-multipath"], &["nvme-multipath"]),
    ("rhel-9-5", Route::Compat, Route::P2pdma, &["distro-blocklist"], &["distro-blocklist"]),
    (
        "new-kernel-no-driver",
        Route::None,
        Route::P2pdma,
        &["gpu-present", "cfg-p2p-both"],
        &["gpu-present", "lib-open-probe", "cfg-p2p-both"],
    ),
    ("slim-image", Route::None, Route::Nvfs, &["lib-deps"], &["lib-deps", "lib-open-probe"]),
    ("container-no-devices", Route::None, Route::P2pdma, &["ctr-devices"], &["ctr-devices", "lib-open-probe"]),
    ("dgx-spark", Route::Compat, Route::Compat, &["gpu-gdr-attr"], &[]),
    ("ignored-settings", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("log-tells", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("sick-gpu", Route::Nvfs, Route::Nvfs, &[], &[]),
    (
        "gpu-without-gsp",
        Route::None,
        Route::Compat,
        &["gpu-present", "gpu-open-capable"],
        &["gpu-present", "lib-open-probe"],
    ),
    (
        "driver-key-rejected",
        Route::None,
        Route::P2pdma,
        &["gpu-present", "gpu-static-bar1"],
        &["gpu-present", "gpu-static-bar1", "lib-open-probe"],
    ),
    ("gsp-not-started", Route::None, Route::P2pdma, &["gpu-present"], &["gpu-present", "lib-open-probe"]),
    ("confidential-guest", Route::Compat, Route::Compat, &["vm-confidential"], &[]),
    (
        "confidential-guest-no-driver",
        Route::None,
        Route::Compat,
        &["gpu-present", "vm-confidential"],
        &["gpu-present", "lib-open-probe"],
    ),
    ("nvme-dead", Route::None, Route::Nvfs, &["nvme-state"], &["nvme-state"]),
    ("nvme-worn", Route::Nvfs, Route::Nvfs, &[], &[]),
    (
        "memory-types",
        Route::Compat,
        Route::P2pdma,
        &["gpu-static-bar1", "cfg-p2p-both"],
        &["gpu-static-bar1", "cfg-p2p-both"],
    ),
    ("ebs-volume", Route::Compat, Route::Compat, &["vm-type"], &[]),
    ("google-disk", Route::Compat, Route::Compat, &["vm-type"], &[]),
    (
        "doca-nvme-not-loaded",
        Route::Compat,
        Route::Nvfs,
        &["nvfs-nvme-symbol"],
        &["nvfs-nvme-symbol", "nvfs-registered"],
    ),
    (
        "mlnx-ofed-nvme-not-loaded",
        Route::Compat,
        Route::Nvfs,
        &["nvfs-nvme-symbol"],
        &["nvfs-nvme-symbol", "nvfs-registered"],
    ),
    ("doca-nvme-rejected", Route::Compat, Route::Nvfs, &["nvfs-nvme-symbol"], &["nvfs-nvme-symbol", "nvfs-registered"]),
    ("slim-image-unopened", Route::None, Route::Nvfs, &["lib-deps"], &["lib-deps", "lib-open-probe"]),
    ("cuda-compat", Route::None, Route::P2pdma, &["lib-open-probe"], &["lib-open-probe"]),
    ("pod-no-udev", Route::None, Route::P2pdma, &["udev-database"], &["udev-database"]),
    (
        "no-udev-and-two-steps",
        Route::None,
        Route::P2pdma,
        &["udev-database", "gpu-static-bar1", "cfg-p2p-both"],
        &["udev-database", "gpu-static-bar1", "cfg-p2p-both"],
    ),
    ("dynamic-routing", Route::Compat, Route::Nvfs, &["cfg-rdma-routing"], &["cfg-rdma-routing"]),
    ("unrelated-file", Route::P2pdma, Route::P2pdma, &[], &[]),
    ("nvme-behind-vmd", Route::Compat, Route::P2pdma, &["kernel-p2p-rootports"], &["kernel-p2p-rootports"]),
    ("slurm-job-without-gpu", Route::None, Route::P2pdma, &["gpu-present"], &["gpu-present", "lib-open-probe"]),
    ("gpus-hidden", Route::None, Route::P2pdma, &["gpu-present"], &["gpu-present", "lib-open-probe"]),
    ("amazon-t4", Route::Compat, Route::Compat, &["gpu-p2pdma-model", "nvfs-nvme-symbol"], &[]),
    ("linux-6-17-t4", Route::Compat, Route::Nvfs, &["nvfs-nvme-symbol"], &["nvfs-nvme-symbol", "nvfs-registered"]),
    ("vgpu-ada", Route::Compat, Route::Nvfs, NVFS_STEPS, NVFS_STEPS),
    ("vgpu-ada-healthy", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("driver-550-p2pdma", Route::Compat, Route::P2pdma, &["driver-version"], &["driver-version"]),
    ("cufile-json-folder", Route::None, Route::Nvfs, &["cfg-parse"], &["cfg-parse"]),
    ("pod-empty-udev", Route::None, Route::P2pdma, &["udev-database"], &["udev-database"]),
    ("nvfs-empty-list", Route::Compat, Route::Nvfs, &["nvfs-nvme-symbol"], &["nvfs-nvme-symbol", "nvfs-registered"]),
    ("grace-pass-through", Route::Compat, Route::C2c, &["iommu-state"], &["iommu-state"]),
    ("arm-without-grace", Route::Compat, Route::Compat, &[], &[]),
    ("disk-with-two-paths", Route::Compat, Route::Nvfs, NVFS_STEPS, NVFS_STEPS),
    ("dgx-os", Route::Nvfs, Route::Nvfs, &[], &[]),
    ("rhel-9-6", Route::P2pdma, Route::P2pdma, &[], &[]),
    ("amd-p2pdma", Route::P2pdma, Route::P2pdma, &[], &[]),
    ("weka-no-peermem", Route::Compat, Route::Rdma, &["nvfs-peermem"], &[]),
    ("rdma-near", Route::Compat, Route::Rdma, &["nvfs-peermem", "rdma-ips"], &["rdma-ips"]),
    ("rdma-far", Route::Compat, Route::Rdma, &["nvfs-peermem"], &[]),
    (
        "driver-prime-select",
        Route::None,
        Route::P2pdma,
        &["gpu-present", "gpu-static-bar1"],
        &["gpu-present", "gpu-static-bar1", "lib-open-probe"],
    ),
    (
        "driver-excluded-on-command-line",
        Route::None,
        Route::P2pdma,
        &["gpu-present", "gpu-static-bar1"],
        &["gpu-present", "gpu-static-bar1", "lib-open-probe"],
    ),
    (
        "dkms-driver-too-old",
        Route::None,
        Route::P2pdma,
        &["gpu-present", "gpu-static-bar1"],
        &["gpu-present", "gpu-static-bar1", "lib-open-probe"],
    ),
    ("gpu-in-d3cold", Route::None, Route::P2pdma, &["gpu-present"], &["gpu-present", "lib-open-probe"]),
    (
        "nova-core",
        Route::None,
        Route::P2pdma,
        &["gpu-present", "gpu-static-bar1"],
        &["gpu-present", "gpu-static-bar1", "lib-open-probe"],
    ),
    ("lxc-no-uvm", Route::None, Route::P2pdma, &["ctr-devices"], &["ctr-devices", "lib-open-probe"]),
    ("pod-cgroup-denied", Route::None, Route::P2pdma, &["ctr-devices"], &["ctr-devices", "lib-open-probe"]),
    ("podman-no-permission", Route::None, Route::P2pdma, &["ctr-devices"], &["ctr-devices", "lib-open-probe"]),
    ("pod-mig-without-instance", Route::None, Route::P2pdma, &["gpu-mig-vgpu"], &["gpu-mig-vgpu", "lib-open-probe"]),
    (
        "p2pdma-refused-by-kernel",
        Route::Compat,
        Route::Nvfs,
        &["kernel-p2p-rootports", "nvfs-nvme-symbol", "nvfs-loaded"],
        NVFS_STEPS,
    ),
    ("nvme-removed", Route::None, Route::Nvfs, &["nvme-state"], &["nvme-state"]),
    ("nvfs-no-driver-source", Route::Compat, Route::Nvfs, &["nvfs-dkms"], &["nvfs-dkms", "nvfs-loaded"]),
    ("other-devices-in-d3cold", Route::P2pdma, Route::P2pdma, &[], &[]),
    ("lxc-healthy", Route::P2pdma, Route::P2pdma, &[], &[]),
];

#[test]
fn every_machine_gets_its_cause_and_its_verdict() {
    let mut wrong = Vec::new();
    for (name, route, possible, blockers, fails) in TABLE.iter().chain(captured::TABLE) {
        let report = check(name);
        assert!(!report.verdicts.is_empty(), "{name}");
        let verdict = &report.verdicts[0];
        let failing: Vec<&str> =
            report.findings.iter().filter(|f| f.status == Status::Fail).map(|f| f.id.as_str()).collect();
        let mut expected = fails.to_vec();
        let mut got = failing.clone();
        expected.sort_unstable();
        got.sort_unstable();
        if (verdict.route, verdict.possible) != (*route, *possible) || verdict.blockers != *blockers || got != expected
        {
            wrong.push(format!(
                "{name}: route {} possible {} blockers {:?} fails {failing:?}; wanted {route} {possible} {blockers:?} {fails:?}",
                verdict.route, verdict.possible, verdict.blockers
            ));
        }
        assert!(!verdict.proven, "{name}: static checks prove nothing");
        for finding in &report.findings {
            assert!(!finding.evidence.is_empty(), "{name}: {} has no evidence", finding.id);
            assert!(!finding.why.is_empty() || finding.status == Status::Na, "{name}: {} does not say why", finding.id);
            // A failure blocks a route. A warning may block one, and does if no fix can change it.
            match finding.status {
                Status::Fail => assert!(!finding.blocks.is_empty(), "{name}: {}", finding.id),
                Status::Warn => assert!(!finding.permanent || !finding.blocks.is_empty(), "{name}: {}", finding.id),
                _ => assert_eq!(finding.blocks, [], "{name}: {}", finding.id),
            }
            let known = finding.id.spec().blocks;
            assert!(
                finding.blocks.iter().all(|route| known.contains(route)),
                "{name}: {} {:?}",
                finding.id,
                finding.blocks
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn healthy_machines_give_no_warning_at_all() {
    for name in [
        "nvfs-healthy",
        "p2pdma-healthy",
        "p2pdma-listed",
        "grace",
        "secure-boot-signed",
        "md-raid0",
        "nfs-rdma",
        "lustre",
        "switch-healthy",
        "vgpu-ada-healthy",
        "dgx-os",
        "rhel-9-6",
        "amd-p2pdma",
        "lxc-healthy",
    ] {
        let report = check(name);
        let loud: Vec<String> = report
            .findings
            .iter()
            .filter(|f| matches!(f.status, Status::Fail | Status::Warn))
            .map(|f| format!("{}: {}", f.id, f.summary))
            .collect();
        assert!(loud.is_empty(), "{name}: {loud:?}");
        assert!(!report.blocks_route_in_use());
    }
}

#[test]
fn steps_of_a_verdict_are_all_open_blockers_on_the_way() {
    for (name, ..) in TABLE {
        let report = check(name);
        for verdict in &report.verdicts {
            for id in &verdict.steps {
                assert!(verdict.blockers.contains(id), "{name}: {id} is a step and no blocker");
            }
            let open =
                |f: &&Finding| f.status == Status::Fail && f.cause.is_none() && f.blocks.contains(&verdict.possible);
            for finding in report.findings.iter().filter(open).filter(|_| report.has_gpu && !verdict.route.is_direct())
            {
                assert!(verdict.steps.contains(&finding.id), "{name}: {} is open and no step", finding.id);
            }
        }
    }
}

#[test]
fn what_is_installed_is_not_advised_and_each_cause_has_its_fix() {
    for (name, id, fix) in [
        ("gpu-without-gsp", "gpu-present", Some(FixId::NvidiaDriverProprietary)),
        ("driver-key-rejected", "gpu-present", Some(FixId::SecureBootKey)),
        ("gsp-not-started", "gpu-present", None),
        ("confidential-guest-no-driver", "gpu-present", None),
        ("doca-nvme-not-loaded", "nvfs-nvme-symbol", Some(FixId::Initramfs)),
        ("mlnx-ofed-nvme-not-loaded", "nvfs-nvme-symbol", Some(FixId::Initramfs)),
        ("doca-nvme-rejected", "nvfs-nvme-symbol", Some(FixId::SecureBootKey)),
    ] {
        let finding = check(name).finding(id).unwrap().clone();
        assert_eq!(finding.fix, fix, "{name}: {}", finding.summary);
    }
}

#[test]
fn the_kernel_log_is_read_without_nvidia_fs() {
    let log = check("memory-types").finding("kernel-log").unwrap().clone();
    assert_eq!(log.status, Status::Warn);
    assert!(log.evidence.iter().any(|e| e.text.contains("memtype_reserve failed")), "{log:?}");
}

#[test]
fn a_file_that_is_no_model_causes_no_warning() {
    let report = check("unrelated-file");
    for id in ["inode-flags", "sparse-or-delalloc", "fs-space-owner"] {
        assert!(matches!(report.finding(id).unwrap().status, Status::Info | Status::Pass), "{id}");
    }
}

#[test]
fn a_pod_is_advised_in_the_words_of_kubernetes() {
    let advice = check("pod-no-udev").finding("udev-database").unwrap().advice.clone().unwrap();
    assert!(advice.contains("hostPath") && !advice.contains("-v "), "{advice}");
}

#[test]
fn consequences_point_to_their_cause() {
    for (name, id, cause) in [
        ("broken-cufile-json", "lib-open-probe", "cfg-parse"),
        ("unreadable-cufile-json", "lib-open-probe", "cfg-parse"),
        ("proprietary-nvfs", "nvfs-loaded", "driver-flavour"),
        ("proprietary-nvfs", "nvfs-load-errors", "driver-flavour"),
        ("sandbox-no-modules", "lib-open-probe", "ctr-proc-sys"),
        ("driver-mismatch", "lib-open-probe", "driver-mismatch"),
        ("secure-boot", "nvfs-load-errors", "nvfs-secureboot"),
        ("secure-boot-unsigned", "nvfs-loaded", "nvfs-secureboot"),
        ("dkms-other-kernel", "nvfs-loaded", "nvfs-dkms"),
        ("headers-missing", "nvfs-dkms", "nvfs-build-inputs"),
        ("zst-symvers", "nvfs-load-errors", "nvfs-build-inputs"),
        ("unknown-symbol", "nvfs-loaded", "nvfs-load-errors"),
        ("nvme-hook-generation", "nvfs-registered", "nvfs-nvme-symbol"),
        ("cuda12-driver", "lib-open-probe", "cuda-driver-runtime"),
        ("log-folder-missing", "lib-open-probe", "log-location"),
        ("slim-image", "lib-open-probe", "lib-deps"),
        ("container-no-devices", "lib-open-probe", "ctr-devices"),
        ("container-no-devices", "gpu-present", "ctr-devices"),
        ("new-kernel-no-driver", "nvfs-dkms", "gpu-present"),
        ("new-kernel-no-driver", "driver-version", "gpu-present"),
        ("docker-desktop", "lib-open-probe", "gpu-present"),
    ] {
        let report = check(name);
        assert_eq!(report.finding(id).unwrap().cause.map(CheckId::as_str), Some(cause), "{name} {id}");
    }
}

#[test]
fn checks_that_need_the_missing_gpu_are_its_consequences_and_have_no_row_in_the_text() {
    for name in ["no-gpu", "docker-desktop"] {
        let report = check(name);
        let implied: Vec<&str> = report.findings.iter().filter(|f| f.is_implied()).map(|f| f.id.as_str()).collect();
        assert_eq!(implied, ["driver-version", "driver-flavour", "nvfs-loaded"], "{name}");
        let is_of_gpu = |id: &&str| report.finding(*id).unwrap().cause == Some(CheckId::GpuPresent);
        assert!(implied.iter().all(is_of_gpu), "{name}");
        let text = gds_top::report::findings(&report.findings, &report.verdicts, 100, false);
        assert!(!implied.iter().any(|id| text.contains(id)), "{name}: {text}");
        let proofs: Vec<Option<&str>> = report.verdicts.iter().map(gds_top::present::verdict::proof).collect();
        assert_eq!(proofs, [None], "{name}");
    }
}

#[test]
fn what_costs_speed_or_does_nothing_is_a_warning_and_blocks_nothing() {
    for (name, id, part) in [
        ("acs", "pcie-acs", "2 bridges"),
        ("acs", "nvfs-bridges-acs", "2 PCIe bridges"),
        ("sick-gpu", "gpu-ecc", "Xid"),
        ("ignored-settings", "cfg-compat", "accepts only true"),
        ("ignored-settings", "cfg-env-path", "does not exist"),
        ("two-libcufile", "lib-found", "2 versions"),
    ] {
        let report = check(name);
        let finding = report.finding(id).unwrap_or_else(|| panic!("{name}: no {id}"));
        assert_eq!((finding.status, finding.blocks.len()), (Status::Warn, 0), "{name} {id}: {}", finding.summary);
        assert!(finding.summary.contains(part), "{name} {id}: {}", finding.summary);
    }
}

#[test]
fn a_warning_lists_the_routes_that_it_blocks() {
    for (name, id, blocks) in [
        // The goal is P2PDMA, which needs no hook.
        ("nvme-stock", "nvfs-nvme-symbol", &[Route::Nvfs][..]),
        ("ebs-volume", "vm-type", &[Route::Nvfs, Route::P2pdma]),
        ("geforce", "gpu-class", &[Route::Nvfs, Route::P2pdma]),
        ("weka", "nvfs-peermem", &[Route::Rdma]),
    ] {
        let report = check(name);
        let finding = report.finding(id).unwrap_or_else(|| panic!("{name}: no {id}"));
        assert_eq!((finding.status, finding.blocks.as_slice()), (Status::Warn, blocks), "{name} {id}");
    }
}

#[test]
fn facts_of_the_bus_are_read_where_they_are_shown() {
    let report = check("switch-healthy");
    for (id, part) in [
        ("pcie-topology", "below one switch"),
        ("pcie-acs", "no bridge"),
        ("nvme-link", "4 lanes at 32.0 GT/s"),
        ("numa-affinity", "NUMA node 1"),
        ("kernel-p2p-rootports", "share a root port"),
        ("nvfs-errors", "no errors"),
        ("nvfs-stats-on", "counts reads"),
        ("nvfs-autoload", "at boot"),
        ("nvfs-registered", "nvme is registered"),
    ] {
        let finding = report.finding(id).unwrap_or_else(|| panic!("no {id}"));
        assert_eq!(finding.status, Status::Pass, "{id}: {}", finding.summary);
        assert!(finding.summary.contains(part), "{id}: {}", finding.summary);
    }
    let told = check("log-tells");
    let log = told.finding("log-scan").unwrap();
    assert!(log.summary.contains("udev has no record") && log.evidence[0].text.contains("nvme1n1p1"), "{log:?}");
    assert!(report.finding("nvfs-peer-distance").unwrap().summary.contains("all pairs"));
}

#[test]
fn the_missing_udev_record_blocks_compat_too_and_offers_its_fix() {
    let report = check("h200-vm-no-udev");
    let finding = report.finding("udev-database").unwrap();
    assert_eq!(finding.fix, Some(FixId::UdevRecord));
    assert!(finding.blocks.contains(&Route::Compat));
    assert!(finding.evidence.iter().any(|e| e.source == "/run/udev/data/b254:0"));
    assert!(report.blocks_route_in_use());
}

#[test]
fn the_text_begins_with_the_answer_and_shows_found_why_and_fix() {
    let report = check("h200-vm-no-udev");
    insta::assert_snapshot!(gds_top::report::findings(&report.findings, &report.verdicts, 100, false));
}

#[test]
fn the_brief_text_is_the_begin_of_the_complete_text() {
    for (name, ..) in TABLE {
        let report = check(name);
        let brief = gds_top::report::verdicts(&report.findings, &report.verdicts, 100, false);
        let complete = gds_top::report::findings(&report.findings, &report.verdicts, 100, false);
        assert!(!brief.is_empty() && complete.starts_with(&brief) && complete.len() > brief.len(), "{name}: {brief}");
        assert!(!brief.ends_with("\n\n"), "{name}: {brief}");
    }
}

#[test]
fn the_text_of_a_capture_without_a_path_begins_with_the_missing_answer() {
    let report = checks::run(&root("nvfs-healthy"), &[], None, &mut |_| {});
    assert!(report.verdicts.is_empty());
    let text = gds_top::report::findings(&report.findings, &report.verdicts, 100, false);
    assert!(text.starts_with("– Not known: no path was examined. Pass a path.\n\n"), "{text}");
}

#[test]
fn no_line_of_the_text_is_much_wider_than_asked() {
    for (name, ..) in TABLE {
        let report = check(name);
        for line in gds_top::report::findings(&report.findings, &report.verdicts, 72, false).lines() {
            assert!(
                line.chars().count() <= 72
                    || !line.trim().contains("  ")
                    || line.split_whitespace().any(|w| w.len() > 40),
                "{name}: {line}"
            );
        }
    }
}
