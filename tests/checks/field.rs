//! Reported cases, containers, clusters and users without rights. The cause must be named first, and nothing may be
//! invented.

use crate::machine::*;
use gds_top::core::{Route, Status};
use serde_json::json;

#[test]
fn cases_from_the_field() {
    judge(vec![
        warned(
            "an NVMe disk that fell off the bus after ACS was cleared everywhere",
            NVFS,
            &["nvme-state"],
            vec![kernel_log(
                "Linux version 6.14.0\nnvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff\n",
            )],
        ),
        warned(
            "a register that the driver refuses (-22)",
            NVFS,
            &["nvfs-errors"],
            vec![kernel_log(
                "Linux version 6.14.0\nnvidia-fs: Error ret -22 invoking nvidia_p2p_get_pages_persistent\n",
            )],
        ),
        warned(
            "nvidia-fs 2.22.3 on Linux 6.6",
            NVFS,
            &["nvfs-version"],
            all([vec![put("files/sys/module/nvidia_fs/version", "2.22.3\n")], kernel("6.6.30-generic")]),
        ),
        fine(
            "driver 570 with the nvidia-fs of its toolkit",
            NVFS,
            all([
                driver("570.86.15", "12.8"),
                vec![put("files/sys/module/nvidia_fs/version", "2.25.7\n"), libcufile("1.14")],
            ]),
        ),
        warned(
            "a custom file that does not exist, and 1 for true",
            NVFS,
            &["cfg-env-path", "cfg-compat"],
            vec![put(
                "environment.json",
                r#"{"CUFILE_ENV_PATH_JSON": "/nowhere.json", "CUFILE_FORCE_COMPAT_MODE": "1"}"#,
            )],
        ),
        bad(
            "a stray comma, with a good custom file",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["cfg-parse"],
            &["cfg-parse", "lib-open-probe"],
            vec![
                config("{ \"properties\": { \"allow_compat_mode\": true, } }"),
                put("files/home/me.json", "{}"),
                put("environment.json", r#"{"CUFILE_ENV_PATH_JSON": "/home/me.json"}"#),
                open_fails(5002, "parsing error, invalid json config"),
            ],
        ),
        slowed(
            "a second loader has used BAR1 up",
            NVFS,
            &["gpu-bar1-free"],
            vec![set(NVML, "/gpus/0/bar1_used_bytes", json!(274_877_906_944_u64 - (1 << 20)))],
        ),
        bad(
            "a settings file that waits for the initramfs",
            "p2pdma-two-steps",
            Route::Compat,
            Route::P2pdma,
            &["gpu-static-bar1", "cfg-p2p-both"],
            &["gpu-static-bar1", "cfg-p2p-both", "reboot-pending"],
            vec![put(
                "files/etc/modprobe.d/p2p.conf",
                "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n",
            )],
        ),
    ]);
}

#[test]
fn containers_and_clusters() {
    judge(vec![
        stopped(
            "a pod without /run/udev",
            NVFS,
            &["udev-database"],
            vec![
                without("files/run/udev"),
                put("environment.json", r#"{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}"#),
                put("files/var/run/secrets/kubernetes.io/serviceaccount/namespace", "default"),
            ],
        ),
        slowed(
            "a container without the nodes of nvidia-fs",
            NVFS,
            &["nvfs-devnodes"],
            vec![put("files/.dockerenv", ""), without("files/dev/nvidia-fs0")],
        ),
        slowed(
            "a node of nvidia-fs that this user may not open",
            NVFS,
            &["nvfs-devnodes"],
            vec![
                without("files/dev/nvidia-fs0"),
                put("files/dev/nvidia-fs0.denied", "Permission denied (os error 13)"),
            ],
        ),
        barred(
            "a model in the image itself",
            ("container-no-udev", Route::Compat),
            &["fs-type"],
            all([unbacked("overlay"), vec![options("rw,lowerdir=/a,upperdir=/b,workdir=/c")]]),
        ),
    ]);
}

#[test]
fn an_unprivileged_user_is_told_what_cannot_be_seen_and_no_failure_is_made_up() {
    let denied = "Permission denied (os error 13)";
    let edits = vec![
        without("files/proc/kallsyms"),
        put("files/proc/kallsyms.denied", denied),
        without("files/boot/config-6.14.0-37-generic"),
        put("files/boot/config-6.14.0-37-generic.denied", denied),
        put("files/sys/kernel/security/lockdown.denied", denied),
        put("files/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c.denied", denied),
        set(
            COMMANDS,
            "/-",
            json!({"argv": ["journalctl", "-k", "-b", "-o", "cat"], "exit_code": 1, "stdout": "", "stderr": "No journal files were opened due to insufficient permissions."}),
        ),
        set(
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

/// The edits that are possible on a base. A file that the base does not have cannot be removed.
fn edits_for(base: &str, edits: &[Edit]) -> Vec<Edit> {
    let fits = |edit: &&Edit| match edit {
        Edit::Drop(file) | Edit::Set(file, ..) | Edit::Unset(file, _) => fixture(base).join(file).exists(),
        Edit::Put(..) | Edit::Link(..) => true,
    };
    edits.iter().filter(fits).cloned().collect()
}
