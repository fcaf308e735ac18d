//! Cases from the field, containers and clusters, and users without rights: the cause first, and nothing made up.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check_support;

use check_support::{COMMANDS, Drop, LIB, Link, NVML, Put, Set, bad, build, check, fine, judge, path, said};
use gds_top::domain::{Route, Status};
use serde_json::json;

#[test]
fn cases_from_the_field() {
    let log = |text: &str| Set(COMMANDS, "/-", said(&["journalctl", "-k", "-b", "-o", "cat"], text));
    judge(vec![
        bad(
            "an NVMe disk that fell off the bus after ACS was cleared everywhere",
            "nvfs-healthy",
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["nvfs-errors"],
            vec![log(
                "Linux version 6.14.0\nnvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff\n",
            )],
        ),
        bad(
            "a register that the driver refuses (-22)",
            "nvfs-healthy",
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["nvfs-errors"],
            vec![log("Linux version 6.14.0\nnvidia-fs: Error ret -22 invoking nvidia_p2p_get_pages_persistent\n")],
        ),
        bad(
            "nvidia-fs 2.22.3 on Linux 6.6",
            "nvfs-healthy",
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["nvfs-version"],
            vec![
                Put("files/sys/module/nvidia_fs/version", "2.22.3\n"),
                Put("files/proc/sys/kernel/osrelease", "6.6.30-generic\n"),
                Put("files/boot/config-6.6.30-generic", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "driver 570 with the nvidia-fs of its toolkit",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/module/nvidia/version", "570.86.15\n"),
                Put(
                    "files/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n",
                ),
                Set(NVML, "/driver_version", json!("570.86.15")),
                Set(NVML, "/cuda_version", json!("12.8")),
                Put("files/sys/module/nvidia_fs/version", "2.25.7\n"),
                Set(LIB, "/found/0/version", json!("1.14")),
            ],
        ),
        bad(
            "a file of one's own that is not there, and 1 for true",
            "nvfs-healthy",
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["cfg-env-path", "cfg-compat"],
            vec![Put(
                "environment.json",
                r#"{"CUFILE_ENV_PATH_JSON": "/nowhere.json", "CUFILE_FORCE_COMPAT_MODE": "1"}"#,
            )],
        ),
        bad(
            "a stray comma, with a good file of one's own",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["cfg-parse"],
            &["cfg-parse", "lib-open-probe"],
            vec![
                Put("files/etc/cufile.json", "{ \"properties\": { \"allow_compat_mode\": true, } }"),
                Put("files/home/me.json", "{}"),
                Put("environment.json", r#"{"CUFILE_ENV_PATH_JSON": "/home/me.json"}"#),
                Set(
                    LIB,
                    "/open",
                    json!({"code": 5002, "cuda_code": 0, "stdout": "", "stderr": "parsing error, invalid json config", "timed_out": false}),
                ),
            ],
        ),
        bad(
            "a second loader has used BAR1 up",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            &["gpu-bar1-free"],
            &["gpu-bar1-free"],
            vec![Set(NVML, "/gpus/0/bar1_used_bytes", json!(274_877_906_944_u64 - (1 << 20)))],
        ),
        bad(
            "a settings file that waits for the initramfs",
            "p2pdma-two-steps",
            Route::Compat,
            Route::P2pdma,
            &["gpu-static-bar1", "cfg-p2p-both"],
            &["gpu-static-bar1", "cfg-p2p-both", "reboot-pending"],
            vec![Put(
                "files/etc/modprobe.d/p2p.conf",
                "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n",
            )],
        ),
    ]);
}

#[test]
fn containers_and_clusters() {
    judge(vec![
        bad(
            "a pod without /run/udev",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["udev-database"],
            &["udev-database"],
            vec![
                Drop("files/run/udev"),
                Put("environment.json", r#"{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}"#),
                Put("files/var/run/secrets/kubernetes.io/serviceaccount/namespace", "default"),
            ],
        ),
        bad(
            "a container without the nodes of nvidia-fs",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-devnodes"],
            &["nvfs-devnodes"],
            vec![Put("files/.dockerenv", ""), Drop("files/dev/nvidia-fs0")],
        ),
        bad(
            "a node of nvidia-fs that this user may not open",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-devnodes"],
            &["nvfs-devnodes"],
            vec![Drop("files/dev/nvidia-fs0"), Put("files/dev/nvidia-fs0.denied", "Permission denied (os error 13)")],
        ),
        bad(
            "a model in the image itself",
            "container-no-udev",
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
            vec![
                path("/0/filesystem", json!("overlay")),
                path("/0/device", json!("0:383")),
                path("/0/block_device", json!([])),
                path("/0/mount_options", json!("rw,lowerdir=/a,upperdir=/b,workdir=/c")),
            ],
        ),
    ]);
}

#[test]
fn an_unprivileged_user_is_told_what_cannot_be_seen_and_no_failure_is_made_up() {
    let denied = "Permission denied (os error 13)";
    let edits = vec![
        Drop("files/proc/kallsyms"),
        Put("files/proc/kallsyms.denied", denied),
        Drop("files/boot/config-6.14.0-37-generic"),
        Put("files/boot/config-6.14.0-37-generic.denied", denied),
        Put("files/sys/kernel/security/lockdown.denied", denied),
        Put("files/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c.denied", denied),
        Set(
            COMMANDS,
            "/-",
            json!({"argv": ["journalctl", "-k", "-b", "-o", "cat"], "exit_code": 1, "stdout": "", "stderr": "No journal files were opened due to insufficient permissions."}),
        ),
        Set(
            COMMANDS,
            "/-",
            json!({"argv": ["mokutil", "--sb-state"], "exit_code": 255, "stdout": "", "stderr": "EFI variables are not supported"}),
        ),
    ];
    for base in ["nvfs-healthy", "p2pdma-healthy", "md-raid0", "nfs-rdma", "grace"] {
        let machine = build(base, &edits_for(base, &edits));
        let report = check(machine.path());
        let failing: Vec<&str> =
            report.findings.iter().filter(|f| f.status == Status::Fail).map(|f| f.id.as_str()).collect();
        assert!(failing.is_empty(), "{base}: {failing:?}");
        for finding in report.findings.iter().filter(|f| f.status == Status::Na) {
            assert!(!finding.evidence.is_empty(), "{base}: {} does not say why", finding.id);
        }
    }
}

/// The edits that fit a base: what it has not cannot be taken away.
fn edits_for(base: &str, edits: &[check_support::Edit]) -> Vec<check_support::Edit> {
    let there = |file: &str| {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(base).join(file).exists()
    };
    edits
        .iter()
        .filter_map(|edit| match edit {
            Drop(file) => there(file).then_some(Drop(file)),
            Put(file, text) => Some(Put(file, text)),
            Set(file, pointer, value) => there(file).then(|| Set(file, pointer, value.clone())),
            Link(file, to) => Some(Link(file, to)),
        })
        .collect()
}
