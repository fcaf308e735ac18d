//! Tests the reasons why nvidia-fs is not loaded, from the kernel log and the build of the module. Each cause has its
//! own check and fix, which the guided set-up also names.

use crate::machine::*;
use gds_top::core::Status;
use gds_top::fixes::{self, guide};
use gds_top::machine::Root;
use serde_json::{Value, json};

const MISSING: &str = "nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)\n";
const OPEN: &str = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n";
const PROPRIETARY: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 09:55:41 UTC 2025\n";

struct Case {
    name: &'static str,
    log: String,
    edits: Vec<Edit>,
    more: Vec<Value>,
    /// The check for the cause, and its fix.
    check: &'static str,
    fix: &'static str,
    /// A part of its summary.
    part: &'static str,
}

fn case(name: &'static str, log: &str, check: &'static str, fix: &'static str, part: &'static str) -> Case {
    Case { name, log: log.to_owned(), edits: Vec::new(), more: Vec::new(), check, fix, part }
}

fn cases() -> Vec<Case> {
    let dkms =
        |state: &str| said(&["dkms", "status"], &format!("nvidia-fs/2.26.6, 6.14.0-37-generic, x86_64: {state}\n"));
    vec![
        Case {
            edits: vec![put("files/proc/driver/nvidia/version", PROPRIETARY)],
            ..case(
                "cause 1: proprietary modules",
                "nvidia_fs: module using GPL-only symbols uses symbols nvidia_p2p_get_pages from proprietary module nvidia.\n\
                 nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)\n",
                "driver-flavour",
                "nvidia-driver-open",
                "proprietary",
            )
        },
        Case {
            edits: vec![put("files/proc/driver/nvidia/version", PROPRIETARY)],
            ..case(
                "cause 1: proprietary modules, as kernels put it that name no symbol",
                "nvidia_fs: module using GPL-only symbols uses symbols from proprietary module nvidia.\n\
                 nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)\n",
                "driver-flavour",
                "nvidia-driver-open",
                "proprietary",
            )
        },
        case(
            "cause 2: loaded before the driver, by the order of the log",
            &format!("{MISSING}{OPEN}"),
            "nvfs-load-errors",
            "nvfs-load",
            "loaded before the NVIDIA driver",
        ),
        Case {
            edits: vec![put(
                "files/proc/kallsyms",
                "0 T nvme_v1_register_nvfs_dma_ops [nvme]\n0 T nvidia_p2p_get_pages [nvidia]\n",
            )],
            ..case(
                "cause 2: the symbol is there now",
                MISSING,
                "nvfs-load-errors",
                "nvfs-load",
                "loaded before the NVIDIA driver",
            )
        },
        case(
            "cause 3: the driver came first",
            &format!("{OPEN}{MISSING}"),
            "nvfs-load-errors",
            "nvidia-driver-open",
            "is too old",
        ),
        Case {
            edits: vec![put(
                "files/proc/kallsyms",
                "0 T nvme_v1_register_nvfs_dma_ops [nvme]\n0 T nvidia_p2p_get_pages [nvidia]\n",
            )],
            ..case(
                "cause 3: other symbols of it are there",
                "nvidia_fs: Unknown symbol nvidia_p2p_get_pages_persistent (err -2)\n",
                "nvfs-load-errors",
                "nvidia-driver-open",
                "is too old",
            )
        },
        Case {
            more: vec![dkms("installed")],
            ..case(
                "cause 4: built without symbol versions",
                "nvidia_fs: no symbol version for nvidia_p2p_get_pages\nnvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -22)\n",
                "nvfs-load-errors",
                "nvfs-dkms",
                "without the symbol versions",
            )
        },
        Case {
            more: vec![said(
                &["modinfo", "nvidia"],
                "filename:       /lib/modules/6.14.0-37-generic/kernel/nvidia.ko.zst\nversion:        580.95.05\n",
            )],
            ..case(
                "cause 4: because the driver is a .ko.zst",
                "nvidia_fs: no symbol version for nvidia_p2p_get_pages\n",
                "nvfs-build-inputs",
                "nvfs-install",
                ".ko.zst",
            )
        },
        Case {
            edits: vec![put("files/usr/src/nvidia-580.95.05/x", ""), put("files/usr/src/nvidia-570.86.15/x", "")],
            ..case(
                "cause 4: because a stale driver source was taken",
                "nvidia_fs: no symbol version for nvidia_p2p_get_pages\n",
                "nvfs-build-inputs",
                "nvfs-dkms",
                "outdated driver source",
            )
        },
        Case {
            more: vec![dkms("installed")],
            ..case(
                "cause 5: built against another driver",
                "nvidia_fs: disagrees about version of symbol nvidia_p2p_get_pages\nnvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -22)\n",
                "nvfs-load-errors",
                "nvfs-dkms",
                "another driver version",
            )
        },
        case(
            "built against another driver, without DKMS",
            "nvidia_fs: disagrees about version of symbol nvidia_p2p_get_pages\n",
            "nvfs-load-errors",
            "nvfs-install",
            "another driver version",
        ),
        Case {
            more: vec![dkms("installed")],
            ..case(
                "another kernel",
                "nvidia_fs: version magic '6.8.0-60-generic SMP' should be '6.14.0-37-generic SMP'\n",
                "nvfs-load-errors",
                "nvfs-dkms",
                "another kernel",
            )
        },
        Case {
            more: vec![dkms("installed")],
            ..case(
                "another kernel, as insmod says it",
                "modprobe: ERROR: could not insert 'nvidia-fs': Exec format error\n",
                "nvfs-load-errors",
                "nvfs-dkms",
                "another kernel",
            )
        },
        case(
            "Secure Boot",
            "Loading of module with unavailable key is rejected\n",
            "nvfs-secureboot",
            "secure-boot-key",
            "not enrolled",
        ),
        // modprobe says the same about a module without a signature, so modinfo decides.
        Case {
            more: vec![dkms("installed")],
            ..case(
                "Secure Boot, as modprobe says it",
                "modprobe: ERROR: could not insert 'nvidia_fs': Key was rejected by service\n",
                "nvfs-secureboot",
                "secure-boot-key",
                "not signed",
            )
        },
        case(
            "Secure Boot, without DKMS",
            "Loading of unsigned module is rejected\n",
            "nvfs-secureboot",
            "nvfs-install",
            "nor built by DKMS",
        ),
        Case {
            more: vec![dkms("added")],
            edits: vec![
                put("files/lib/modules/6.14.0-37-generic/modules.dep", ""),
                put("files/usr/src/nvidia-fs-2.26.6/dkms.conf", ""),
            ],
            ..case("no headers", "Linux version 6.14.0-37-generic\nx\n", "nvfs-build-inputs", "nvfs-dkms", "headers")
        },
        Case {
            more: vec![dkms("added")],
            ..case("never built", "Linux version 6.14.0-37-generic\nx\n", "nvfs-dkms", "nvfs-dkms", "added")
        },
    ]
}

#[test]
fn each_line_of_the_log_leads_to_its_cause_and_the_fix_of_that_cause() {
    let mut wrong = Vec::new();
    for case in cases() {
        let mut commands = vec![
            said(&["modinfo", "nvidia_fs"], "version:        2.26.6\n"),
            said(&JOURNAL, &format!("Linux version 6.14.0-37-generic\n{}", case.log)),
        ];
        commands.extend(case.more);
        let mut edits = vec![put(COMMANDS, json!(commands).to_string())];
        edits.extend(case.edits);
        let folder = build("unknown-symbol", &edits);
        let report = check(folder.path());
        let root = Root::folder(folder.path()).unwrap();
        let cause = report.verdicts[0].blockers.first().map_or("", |id| id.as_str());
        let summary = report.finding(case.check).map_or("", |f| f.summary.as_str());
        let plans: Vec<String> = fixes::plan(&root, &report).into_iter().map(|plan| plan.id.to_string()).collect();
        let guided: Vec<String> = guide::guide(&root, &report)
            .steps
            .into_iter()
            .flat_map(|step| step.plans)
            .map(|plan| plan.id.to_string())
            .collect();
        if cause != case.check
            || !summary.contains(case.part)
            || plans.first().map(String::as_str) != Some(case.fix)
            || !guided.iter().any(|id| id == case.fix)
        {
            wrong.push(format!(
                "{}: cause {cause}, wanted {}; '{summary}' wanted '{}'; plans {plans:?}, guide {guided:?}, wanted {}",
                case.name, case.check, case.part, case.fix
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_taint_notice_without_secure_boot_is_no_refusal() {
    let log = "nvidia_fs: module verification failed: signature and/or required key missing - tainting kernel\n\
               nvidia_fs: Initializing nvfs driver module\nnvidia_fs: registered correctly with major number 505\n";
    let folder = build("nvfs-healthy", &[kernel_log(log)]);
    let report = check(folder.path());
    assert_eq!(loud(&report), Vec::<&str>::new());
    assert_eq!(report.finding("nvfs-load-errors").unwrap().status, Status::Pass);
}
