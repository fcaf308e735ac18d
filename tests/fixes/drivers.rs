//! Tests the driver for the GPUs, the CUDA packages for the driver, and the key for Secure Boot, on Debian, Ubuntu,
//! RHEL and SLES.

use crate::machine::*;
use gds_top::checks::{self, Report};
use gds_top::core::{Change, FixId, FixPlan, FixPolicy, Needs, Route, Status};
use gds_top::fixes::{self, guide};
use gds_top::machine::Root;
use serde_json::json;

const RELEASE: &str = "files/etc/os-release";
pub(crate) const DEBIAN: &str = "ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n";
const DEBIAN_13: &str = "ID=debian\nVERSION_ID=\"13\"\nVERSION_CODENAME=trixie\n";
pub(crate) const UBUNTU: &str = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"22.04\"\n";
const UBUNTU_24: &str = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n";
pub(crate) const RHEL: &str = "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\nPLATFORM_ID=\"platform:el9\"\n";
const RHEL_10: &str = "ID=\"rhel\"\nID_LIKE=\"centos fedora\"\nVERSION_ID=\"10.1\"\nPLATFORM_ID=\"platform:el10\"\n";
pub(crate) const SLES: &str = "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\n";
const FAMILIES: [&str; 4] = [DEBIAN, UBUNTU, RHEL, SLES];
/// The GPU of the base machines.
const GPU: &str = "files/sys/bus/pci/devices/0000:be:00.0";
const SECURE_BOOT: &str = "SecureBoot enabled\n";

/// A machine with this release, and its report.
pub(crate) struct Machine {
    _folder: tempfile::TempDir,
    root: Root,
    report: Report,
}

impl Machine {
    pub(crate) fn new(base: &str, release: &str, mut edits: Vec<Edit>) -> Self {
        edits.push(put(RELEASE, release));
        let folder = build(base, &edits);
        let root = Root::folder(folder.path()).unwrap();
        let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
        Self { _folder: folder, root, report }
    }

    pub(crate) fn plan(&self, id: &str) -> FixPlan {
        fixes::plan_by_id(&self.root, &self.report, id.parse().unwrap()).unwrap_or_else(|| panic!("{id} has no plan"))
    }

    /// The drivers that are offered.
    fn drivers(&self) -> Vec<String> {
        self.offered().into_iter().filter(|id| id.starts_with("nvidia-driver")).collect()
    }

    fn offered(&self) -> Vec<String> {
        fixes::plan(&self.root, &self.report).into_iter().map(|plan| plan.id.to_string()).collect()
    }
}

pub(crate) fn lines(plan: &FixPlan) -> Vec<String> {
    let of = |change: &Change| match change {
        Change::Run { argv } => gds_top::text::quoted_line(argv),
        Change::WriteFile { path, after, .. } => format!("{}: {}", path.display(), after.trim_end()),
    };
    plan.changes.iter().map(of).collect()
}

pub(crate) fn has(plan: &FixPlan, wanted: &str) -> bool {
    lines(plan).iter().any(|line| line == wanted)
}

/// The index of the first line that contains this text.
fn at(plan: &FixPlan, part: &str) -> usize {
    let lines = lines(plan);
    lines.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part}: {lines:?}"))
}

fn no_library() -> Edit {
    put(LIB, r#"{"error": "libcufile is not installed", "tried": [], "found": []}"#)
}

/// No driver is loaded or installed. The GPU on the bus has this device id.
fn no_driver(device: &str) -> Vec<Edit> {
    vec![
        without("files/proc/driver"),
        without("files/sys/module/nvidia"),
        put("files/proc/modules", "nvme 73728 2 - Live 0x0000000000000000\n"),
        put(NVML, r#"{"error": "libnvidia-ml.so.1 was not found"}"#),
        no_library(),
        put(format!("{GPU}/device"), format!("{device}\n")),
    ]
}

fn proprietary(version: &str, cuda: &str) -> Vec<Edit> {
    let mut edits = driver(version, cuda);
    edits.push(put(
        "files/proc/driver/nvidia/version",
        format!("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Release Build\n"),
    ));
    edits
}

#[test]
fn from_cuda_13_4_on_nvidia_fs_is_a_separate_package() {
    for (cuda, wanted) in [("13.3", "nvidia-gds-13-3"), ("13.4", "nvidia-gds-13-4 nvidia-fs")] {
        let machine = Machine::new("nvfs-healthy", UBUNTU, all([driver("615.20.01", cuda), vec![no_library()]]));
        let plan = machine.plan("nvfs-install");
        assert!(has(&plan, &format!("sudo apt-get install -y {wanted}")), "{:?}", lines(&plan));
    }
}

#[test]
fn next_to_a_libcufile_only_the_module_is_installed() {
    for (release, wanted) in [
        (UBUNTU, &["sudo apt-get update", "sudo apt-get install -y nvidia-fs-dkms", "sudo modprobe nvidia-fs"][..]),
        (RHEL, &["sudo dnf install -y nvidia-fs-dkms"]),
    ] {
        let plan = Machine::new("p2pdma-two-steps", release, Vec::new()).plan("nvfs-install");
        assert!(wanted.iter().all(|line| has(&plan, line)), "{release}: {:?}", lines(&plan));
        assert!(plan.why.contains("libcufile is already installed"), "{}", plan.why);
        assert!(!plan.why.contains("the packages are those") && plan.obstacle.is_none(), "{}", plan.why);
    }
    // The archives of Debian and Ubuntu have an old version.
    let archive = put("files/etc/apt/sources.list.d/ubuntu.sources", "URIs: http://archive.ubuntu.com/ubuntu\n");
    let plan = Machine::new("p2pdma-two-steps", UBUNTU, vec![archive]).plan("nvfs-install");
    assert!(plan.obstacle.is_some_and(|why| why.contains("gds-top fix nvidia-repository")));
}

#[test]
fn a_driver_of_cuda_12_stays_and_gets_the_packages_of_its_cuda() {
    for (release, library, gds) in [
        (DEBIAN, "sudo apt-get install -y libcufile-12-4", "sudo apt-get install -y nvidia-gds-12-4"),
        (UBUNTU, "sudo apt-get install -y libcufile-12-4", "sudo apt-get install -y nvidia-gds-12-4"),
        (RHEL, "sudo dnf install -y libcufile-12-4", "sudo dnf install -y nvidia-gds-12-4"),
        (
            SLES,
            "sudo zypper --non-interactive install --auto-agree-with-licenses libcufile-12-4",
            "sudo zypper --non-interactive install --auto-agree-with-licenses nvidia-gds-12-4",
        ),
    ] {
        let machine = Machine::new("cuda12-driver", release, Vec::new());
        assert_eq!(machine.offered(), ["libcufile-install"], "{release}");
        let plan = machine.plan("libcufile-install");
        assert_eq!((lines(&plan), plan.obstacle.clone()), (vec![library.to_owned()], None), "{release}");
        assert!(plan.remaining[0].contains("/usr/local/cuda-12.4/lib64"), "{:?}", plan.remaining);
        assert!(has(&machine.plan("nvfs-install"), gds), "{release}");
        let obstacle = machine.plan("nvidia-driver-open").obstacle;
        assert!(obstacle.as_deref().is_some_and(|why| why.contains("is already installed")), "{release}: {obstacle:?}");
        let guided = guide::guide(&machine.root, &machine.report);
        let ids: Vec<_> = guided.steps.iter().flat_map(|step| &step.plans).map(|plan| plan.id.as_str()).collect();
        assert!(!ids.contains(&"nvidia-driver-open"), "{release}: {ids:?}");
        assert!(ids.contains(&"libcufile-install"), "{release}: {ids:?}");
    }
}

#[test]
fn packages_are_those_of_the_newest_cuda_that_driver_and_repository_have() {
    let package = |release: &str, edits: Vec<Edit>| {
        let plan = Machine::new("p2pdma-two-steps", release, all([edits, vec![no_library()]])).plan("nvfs-install");
        (lines(&plan)[1].clone(), plan.obstacle)
    };
    for (version, cuda, wanted) in [
        ("535.183.01", "12.2", "nvidia-gds-12-2"),
        // CUDA 12.7 was not released.
        ("565.57.01", "12.7", "nvidia-gds-12-6"),
        ("580.95.05", "13.0", "nvidia-gds-13-0"),
        ("595.45.04", "13.2", "nvidia-gds-13-2"),
    ] {
        let (line, obstacle) = package(UBUNTU, driver(version, cuda));
        assert!(line.ends_with(wanted), "{version}: {line}");
        assert_eq!(obstacle, None, "{version}");
    }
    // Without NVML, the CUDA version is derived from the driver branch.
    let blind = all([driver("550.163.01", "12.4"), vec![put(NVML, r#"{"error": "not found"}"#)]]);
    assert!(package(UBUNTU, blind).0.ends_with("nvidia-gds-12-4"));
    // The repository of Ubuntu 24.04 begins with 12.5, which a driver for CUDA 12 supports.
    let (line, obstacle) = package(UBUNTU_24, driver("550.163.01", "12.4"));
    assert!(line.ends_with("nvidia-gds-12-5") && obstacle.is_none(), "{line} {obstacle:?}");
    // The repository of Debian 13 begins with CUDA 13, which such a driver does not support.
    // Its nvidia-fs works, and the library comes from elsewhere.
    let machine = Machine::new("p2pdma-two-steps", DEBIAN_13, driver("550.163.01", "12.4"));
    let plan = machine.plan("nvfs-install");
    assert_eq!((lines(&plan)[1].as_str(), plan.obstacle.clone()), ("sudo apt-get install -y nvidia-fs-dkms", None));
    assert!(plan.why.contains("error 35") && plan.why.contains("nvidia-cufile-cu12"), "{}", plan.why);
    assert!(machine.plan("libcufile-install").obstacle.is_some_and(|why| why.contains("error 35")));
}

#[test]
fn a_library_that_fits_the_driver_is_not_installed_again() {
    let plan = Machine::new("p2pdma-healthy", UBUNTU, Vec::new()).plan("libcufile-install");
    assert!(plan.obstacle.as_deref().is_some_and(|why| why.contains("is already installed")), "{:?}", plan.obstacle);
}

#[test]
fn a_wheel_of_a_newer_cuda_is_replaced_by_a_wheel() {
    const WHEEL: &str = "/opt/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcufile.so.0";
    let edits =
        vec![set(LIB, "/found", json!([{"path": WHEEL, "version": "1.16"}])), set(LIB, "/chosen", json!(WHEEL))];
    let plan = Machine::new("cuda12-driver", DEBIAN_13, edits).plan("libcufile-install");
    assert_eq!(
        lines(&plan),
        [
            "/opt/venv/bin/python3 -m pip uninstall -y nvidia-cufile",
            "/opt/venv/bin/python3 -m pip install nvidia-cufile-cu12"
        ]
    );
    assert_eq!((plan.needs, plan.policy, plan.obstacle), (Needs::User, FixPolicy::Show, None));
}

#[test]
fn proprietary_modules_are_replaced_by_the_open_ones_of_the_same_branch() {
    let plan = |release: &str, edits: Vec<Edit>| {
        let edits = all([proprietary("570.133.20", "12.8"), edits]);
        Machine::new("proprietary-nvfs", release, edits).plan("nvidia-driver-open")
    };
    for (release, edits, wanted) in [
        (DEBIAN, vec![], "sudo apt-get install -y 'nvidia-kernel-open-dkms=570.133.20*'"),
        (
            DEBIAN,
            vec![put("files/var/lib/dpkg/info/nvidia-alternative.list", "")],
            "sudo apt-get install -y nvidia-open-kernel-dkms",
        ),
        (UBUNTU, vec![], "sudo apt-get install -y nvidia-open-570"),
        (
            UBUNTU,
            vec![put("files/var/lib/dpkg/info/nvidia-driver-570-server.list", "")],
            "sudo apt-get install -y nvidia-driver-570-server-open",
        ),
        (RHEL, vec![], "sudo dnf module install -y --allowerasing nvidia-driver:570-open"),
        (RHEL_10, vec![], "sudo dnf versionlock '*nvidia*570*'"),
        (SLES, vec![], "sudo zypper --non-interactive install --auto-agree-with-licenses 'nvidia-open<571'"),
    ] {
        let plan = plan(release, edits);
        assert!(has(&plan, wanted), "{release}: {:?}", lines(&plan));
        assert_eq!(plan.obstacle, None, "{release}");
        assert!(plan.why.contains("keeps its branch"), "{}", plan.why);
    }
}

#[test]
fn a_driver_that_is_too_old_for_p2pdma_becomes_one_with_long_support() {
    for (release, wanted) in [
        (DEBIAN, "sudo apt-get install -y nvidia-driver-pinning-580"),
        (UBUNTU, "sudo apt-get install -y nvidia-open-580"),
        (RHEL, "sudo dnf module install -y --allowerasing nvidia-driver:580-open"),
        (SLES, "sudo zypper --non-interactive install --auto-agree-with-licenses 'nvidia-open<581'"),
    ] {
        let machine = Machine::new("p2pdma-two-steps", release, driver("550.163.01", "12.4"));
        assert_eq!(machine.report.verdicts[0].possible, Route::P2pdma);
        let plan = machine.plan("nvidia-driver-open");
        assert!(has(&plan, wanted), "{release}: {:?}", lines(&plan));
        assert_eq!(plan.obstacle, None);
    }
}

#[test]
fn secure_boot_puts_the_key_before_the_driver_and_the_signature_before_the_reboot() {
    for (release, certificate, new_key) in [
        (DEBIAN, "/var/lib/dkms/mok.pub", "|| openssl req"),
        (UBUNTU, "/var/lib/shim-signed/mok/MOK.der", "|| update-secureboot-policy --new-key"),
        (RHEL, "/var/lib/dkms/mok.pub", "|| openssl req"),
        (SLES, "/var/lib/dkms/mok.pub", "|| openssl req"),
    ] {
        for (id, device) in [("nvidia-driver-open", "0x2335"), ("nvidia-driver-proprietary", "0x1db6")] {
            let edits = all([no_driver(device), vec![command(&["mokutil", "--sb-state"], SECURE_BOOT)]]);
            let plan = Machine::new("p2pdma-two-steps", release, edits).plan(id);
            let import = format!("sudo mokutil --import {certificate}");
            assert!(has(&plan, &import), "{release} {id}: {:?}", lines(&plan));
            let driver = lines(&plan)
                .iter()
                .rposition(|line| {
                    line.contains("nvidia-open") || line.contains("cuda-drivers") || line.contains("nvidia-driver:")
                })
                .unwrap();
            assert!(at(&plan, new_key) < at(&plan, &import), "{release} {id}");
            assert!(at(&plan, &import) < driver, "{release} {id}: {:?}", lines(&plan));
            assert!(driver < at(&plan, "modinfo -F signer nvidia"), "{release} {id}");
            assert_eq!(lines(&plan).last().unwrap(), "sudo reboot");
            assert!(
                plan.why.contains("the GPU does not work after the reboot") && plan.why.contains("Enroll MOK"),
                "{}",
                plan.why
            );
            assert_eq!(plan.obstacle, None, "{release} {id}");
        }
        // An existing key is not replaced.
        let edits = all([
            no_driver("0x2335"),
            vec![command(&["mokutil", "--sb-state"], SECURE_BOOT), put(format!("files{certificate}"), "key")],
        ]);
        let plan = Machine::new("p2pdma-two-steps", release, edits).plan("nvidia-driver-open");
        assert!(!lines(&plan).iter().any(|line| line.contains(new_key)), "{release}: {:?}", lines(&plan));
    }
    // Without Secure Boot, it is not mentioned.
    let edits = all([no_driver("0x2335"), vec![command(&["mokutil", "--sb-state"], "SecureBoot disabled\n")]]);
    let plan = Machine::new("p2pdma-two-steps", UBUNTU, edits).plan("nvidia-driver-open");
    assert!(!lines(&plan).iter().any(|line| line.contains("mokutil")) && !plan.why.contains("Secure Boot"));
}

#[test]
fn nvidia_fs_is_signed_too_unless_the_key_of_dkms_is_enrolled() {
    let signer = |name: &str| {
        vec![
            command(&["mokutil", "--sb-state"], SECURE_BOOT),
            command(&["modinfo", "nvidia"], &format!("version:        580.95.05\nsigner:         {name}\n")),
        ]
    };
    for release in FAMILIES {
        let plan = Machine::new("p2pdma-two-steps", release, signer("Canonical Ltd. Kernel Module Signing"))
            .plan("nvfs-install");
        assert!(at(&plan, "mokutil --import") < at(&plan, "nvidia-fs-dkms"), "{release}: {:?}", lines(&plan));
        // mokutil asks on the terminal, but gds-top does not hand the terminal over to it.
        assert_eq!((plan.needs, plan.policy), (Needs::Reboot, FixPolicy::Show), "{release}");
        let plan = Machine::new("p2pdma-two-steps", release, signer("DKMS module signing key")).plan("nvfs-install");
        assert!(!lines(&plan).iter().any(|line| line.contains("mokutil")), "{release}: {:?}", lines(&plan));
        assert_eq!((plan.needs, plan.policy), (Needs::Root, FixPolicy::Ask), "{release}");
    }
}

#[test]
fn an_unsigned_driver_under_secure_boot_is_signed_and_not_installed_again() {
    let edits = all([
        no_driver("0x2335"),
        vec![
            command(&["mokutil", "--sb-state"], SECURE_BOOT),
            command(&["modinfo", "nvidia"], "version:        580.95.05\nlicense:        Dual MIT/GPL\n"),
            command(&["dkms", "status"], "nvidia/580.95.05, 6.14.0-37-generic, x86_64: installed\n"),
        ],
    ]);
    let machine = Machine::new("p2pdma-two-steps", UBUNTU, edits);
    let finding = machine.report.finding("gpu-present").unwrap();
    assert_eq!((finding.status, finding.fix), (Status::Fail, Some(FixId::SecureBootKey)), "{}", finding.summary);
    let plan = machine.plan("secure-boot-key");
    assert!(at(&plan, "dkms install --force nvidia/580.95.05") < at(&plan, "mokutil --import"), "{:?}", lines(&plan));
    assert!(!machine.offered().iter().any(|id| id == "nvidia-driver-open"), "{:?}", machine.offered());
    // The module is signed but not loaded for another reason. So the fix loads it and does not install it.
    let edits = all([
        no_driver("0x2335"),
        vec![command(&["modinfo", "nvidia"], "version:        580.95.05\nlicense:        Dual MIT/GPL\nsigner: x\n")],
    ]);
    let machine = Machine::new("p2pdma-two-steps", UBUNTU, edits);
    let finding = machine.report.finding("gpu-present").unwrap();
    assert_eq!((finding.status, finding.fix), (Status::Fail, None));
    assert!(finding.advice.as_deref().unwrap().contains("modprobe nvidia"));
}

#[test]
fn gpus_before_turing_get_the_proprietary_driver_of_their_last_branch_by_their_pci_id() {
    for (release, wanted) in [
        (DEBIAN, vec!["sudo apt-get install -y nvidia-driver-pinning-580", "sudo apt-get install -y cuda-drivers"]),
        (UBUNTU, vec!["sudo apt-get install -y nvidia-driver-pinning-580", "sudo apt-get install -y cuda-drivers-580"]),
        (RHEL, vec!["sudo dnf module install -y --allowerasing nvidia-driver:580-dkms"]),
        (
            RHEL_10,
            vec![
                "sudo dnf versionlock '*nvidia*580*'",
                "sudo dnf install -y --allowerasing kmod-nvidia-latest-dkms nvidia-driver nvidia-driver-cuda",
            ],
        ),
        (SLES, vec!["sudo zypper --non-interactive install --auto-agree-with-licenses 'cuda-drivers<581'"]),
    ] {
        // V100, P100 and P4.
        for device in ["0x1db1", "0x15f8", "0x1bb3"] {
            let machine = Machine::new("p2pdma-two-steps", release, no_driver(device));
            assert_eq!(machine.drivers(), ["nvidia-driver-proprietary"], "{release} {device}");
            let plan = machine.plan("nvidia-driver-proprietary");
            for line in &wanted {
                assert!(has(&plan, line), "{release} {device}: {:?}", lines(&plan));
            }
            assert_eq!(plan.obstacle, None, "{release} {device}");
            let obstacle = machine.plan("nvidia-driver-open").obstacle.unwrap_or_default();
            assert!(obstacle.contains("do not support it"), "{release} {device}: {obstacle}");
            let finding = machine.report.finding("gpu-open-capable").expect("it is said without NVML too");
            assert!(finding.summary.contains("older than Turing"), "{}", finding.summary);
            assert!(machine.report.verdicts.iter().all(|verdict| !verdict.possible.is_direct()), "{release} {device}");
        }
    }
}

#[test]
fn no_driver_is_offered_for_a_kepler_gpu_or_for_two_gpus_that_share_none() {
    let kepler = Machine::new("p2pdma-two-steps", UBUNTU, no_driver("0x102d"));
    assert!(kepler.drivers().is_empty(), "{:?}", kepler.drivers());
    assert_eq!(kepler.report.finding("gpu-compute-cap").unwrap().status, Status::Fail);
    const OTHER: &str = "files/sys/bus/pci/devices/0000:b0:03.0";
    let second = |device: &str| {
        all([
            no_driver("0x1db6"),
            vec![
                put(format!("{OTHER}/vendor"), "0x10de\n"),
                put(format!("{OTHER}/device"), format!("{device}\n")),
                put(format!("{OTHER}/class"), "0x030200\n"),
            ],
        ])
    };
    // A V100 and an A100 can share the proprietary driver. No driver supports both a V100 and a B200.
    let shared = Machine::new("p2pdma-two-steps", UBUNTU, second("0x20b2")).plan("nvidia-driver-proprietary");
    assert_eq!(shared.obstacle, None);
    let none = Machine::new("p2pdma-two-steps", UBUNTU, second("0x2901")).plan("nvidia-driver-proprietary");
    assert!(none.obstacle.as_deref().is_some_and(|why| why.contains("no driver supports both")), "{:?}", none.obstacle);
}

#[test]
fn gpus_that_need_different_modules_get_a_choice_and_no_plain_driver() {
    const OTHER: &str = "files/sys/bus/pci/devices/0000:b0:03.0";
    let second = |device: &str| {
        vec![
            put(format!("{OTHER}/vendor"), "0x10de\n"),
            put(format!("{OTHER}/device"), format!("{device}\n")),
            put(format!("{OTHER}/class"), "0x030200\n"),
        ]
    };
    let h100 = json!({"index": 1, "uuid": "GPU-H100", "name": "NVIDIA H100 NVL", "pci_bus_id": "0000:b0:03.0", "compute_capability": "9.0"});
    for (name, base, edits) in [
        ("no driver for a V100 and an A100", "p2pdma-two-steps", all([no_driver("0x1db6"), second("0x20b2")])),
        ("proprietary modules that refuse a Blackwell GPU", "volta", second("0x2bb5")),
        (
            "proprietary modules for a V100 and an H100",
            "volta",
            all([second("0x2330"), vec![set(NVML, "/gpus/-", h100)]]),
        ),
    ] {
        let machine = Machine::new(base, UBUNTU, edits);
        assert!(machine.drivers().is_empty(), "{name}: {:?}", machine.drivers());
        let chooses = |advice: &Option<String>| {
            advice.as_ref().is_some_and(|advice| advice.contains("gds-top fix nvidia-driver-open --dry-run"))
        };
        let choices: Vec<_> = machine.report.findings.iter().filter(|finding| chooses(&finding.advice)).collect();
        assert_eq!(choices.len(), 1, "{name}: {choices:?}");
        assert!(choices[0].fix.is_none() && choices[0].command.is_none(), "{name}: {choices:?}");
        assert_eq!(machine.plan("nvidia-driver-open").obstacle, None, "{name}");
    }
    // The open modules serve the H200, so the V100 is no reason for another driver.
    let machine = Machine::new("p2pdma-healthy", UBUNTU, second("0x1db6"));
    let finding = machine.report.finding("gpu-present").unwrap();
    assert_eq!((finding.status, finding.fix), (Status::Info, None), "{}", finding.summary);
    assert!(machine.offered().is_empty(), "{:?}", machine.offered());
    assert_eq!(machine.report.verdicts[0].route, Route::P2pdma);
    // No current driver has GPUDirect Storage for a Kepler GPU, so the newer one decides.
    let kepler = all([no_driver("0x102d"), second("0x20b2")]);
    assert_eq!(Machine::new("p2pdma-two-steps", UBUNTU, kepler).drivers(), ["nvidia-driver-open"]);
}

#[test]
fn a_module_that_the_kernel_rejects_is_not_loaded_by_its_name_either() {
    const OTHER: &str = "files/sys/bus/pci/devices/0000:b0:03.0";
    let h100 = json!({"index": 1, "uuid": "GPU-H100", "name": "NVIDIA H100 NVL", "pci_bus_id": "0000:b0:03.0", "compute_capability": "9.0"});
    let second = vec![
        put(format!("{OTHER}/vendor"), "0x10de\n"),
        put(format!("{OTHER}/device"), "0x2330\n"),
        put(format!("{OTHER}/class"), "0x030200\n"),
        set(NVML, "/gpus/-", h100),
    ];
    let module = |version: &str| {
        let text = format!("filename: /lib/modules/x/nvidia-fs.ko\nversion: {version}\nlicense: GPL v2\n");
        vec![command(&["modinfo", "nvidia_fs"], &text)]
    };
    for (name, edits) in [("a V100", module("2.26.6")), ("a V100 and an H100", all([second, module("2.26.6")]))] {
        let machine = Machine::new("volta", UBUNTU, edits);
        let obstacle = machine.plan("nvfs-load").obstacle.unwrap_or_default();
        let said = &machine.report.finding("gpu-open-capable").unwrap().summary;
        assert_eq!(obstacle, format!("{said}; nvidia-fs 2.26.6 needs the open kernel modules"), "{name}");
    }
    assert_eq!(Machine::new("nvfs-healthy", UBUNTU, Vec::new()).plan("nvfs-load").obstacle, None);
}

#[test]
fn a_volta_gpu_keeps_its_proprietary_driver_and_its_cuda_12_packages() {
    for release in FAMILIES {
        let machine = Machine::new("volta", release, Vec::new());
        assert!(machine.offered().is_empty(), "{release}: {:?}", machine.offered());
        assert_eq!(machine.report.finding("driver-flavour").unwrap().status, Status::Pass);
        for id in ["nvidia-driver-open", "nvfs-install"] {
            assert!(machine.plan(id).obstacle.is_some(), "{release} {id}");
        }
        let already = machine.plan("nvidia-driver-proprietary").obstacle.unwrap_or_default();
        assert!(already.contains("is already installed"), "{release}: {already}");
        // The driver supports CUDA 13, which removed this GPU.
        let library = lines(&machine.plan("libcufile-install"));
        assert!(library[0].ends_with("libcufile-12-9"), "{library:?}");
    }
}

#[test]
fn open_modules_next_to_a_volta_gpu_are_replaced() {
    let edits = vec![
        put(format!("{GPU}/device"), "0x1db6\n"),
        put(NVML, r#"{"error": "NVML found no GPU"}"#),
        put(LIB, r#"{"error": "libcufile is not installed", "tried": [], "found": []}"#),
    ];
    let machine = Machine::new("p2pdma-two-steps", RHEL, edits);
    let finding = machine.report.finding("gpu-present").unwrap();
    assert_eq!(finding.fix, Some(FixId::NvidiaDriverProprietary), "{}", finding.summary);
    assert_eq!(machine.plan("nvidia-driver-proprietary").obstacle, None);
}

#[test]
fn a_machine_with_nvswitches_gets_fabric_manager_with_its_driver() {
    for (release, newest, of_driver) in [
        (
            DEBIAN,
            "apt-get install -y --allow-downgrades \"nvidia-fabricmanager=$(modinfo -F version nvidia)*\"",
            "sudo apt-get install -y --allow-downgrades 'nvidia-fabricmanager=580.95.05*'",
        ),
        (
            UBUNTU,
            "apt-get install -y --allow-downgrades \"nvidia-fabricmanager=$(modinfo -F version nvidia)*\"",
            "sudo apt-get install -y --allow-downgrades 'nvidia-fabricmanager-580=580.95.05*'",
        ),
        (
            RHEL,
            "dnf install -y \"nvidia-fabricmanager-$(modinfo -F version nvidia)\"",
            "sudo dnf install -y nvidia-fabricmanager-580.95.05",
        ),
        (
            SLES,
            "zypper --non-interactive install --auto-agree-with-licenses --oldpackage \"nvidia-fabricmanager=$(modinfo -F version nvidia)\"",
            "sudo zypper --non-interactive install --auto-agree-with-licenses --oldpackage nvidia-fabricmanager=580.95.05",
        ),
    ] {
        // The archive of Ubuntu contains a package for each branch.
        let archive =
            || vec![put("files/etc/apt/sources.list.d/ubuntu.sources", "URIs: http://archive.ubuntu.com/ubuntu/\n")];
        let bare = Machine::new("p2pdma-two-steps", release, all([no_driver("0x2330"), nvswitch()]))
            .plan("nvidia-driver-open");
        let newest = gds_top::text::quoted_line(&["sudo", "sh", "-c", newest].map(str::to_owned));
        assert!(has(&bare, &newest), "{release}: {:?}", lines(&bare));
        assert!(at(&bare, "nvidia-open") < at(&bare, &newest), "{release}");
        assert!(at(&bare, "systemctl enable nvidia-fabricmanager") < at(&bare, "sudo reboot"), "{release}");
        assert!(bare.why.contains("802") && bare.why.contains("same repository"), "{}", bare.why);
        let edits = all([nvswitch(), archive(), vec![cuda_fails(802)]]);
        let machine = Machine::new("p2pdma-two-steps", release, edits);
        assert_eq!(machine.offered()[0], "nvidia-fabricmanager", "{release}: {:?}", machine.offered());
        let plan = machine.plan("nvidia-fabricmanager");
        assert!(has(&plan, of_driver), "{release}: {:?}", lines(&plan));
        assert_eq!(plan.obstacle, None, "{release}");
    }
    // Without NVSwitches it is not offered.
    let machine = Machine::new("p2pdma-two-steps", UBUNTU, no_driver("0x2330"));
    assert!(!lines(&machine.plan("nvidia-driver-open")).iter().any(|line| line.contains("fabric")));
    assert!(machine.plan("nvidia-fabricmanager").obstacle.is_some());
}

#[test]
fn a_board_with_nvlink_5_gets_its_subnet_manager_too() {
    for (release, wanted) in [
        (DEBIAN, "sudo apt-get install -y nvlsm infiniband-diags libibumad3"),
        (UBUNTU, "sudo apt-get install -y nvlsm infiniband-diags libibumad3 linux-modules-extra-6.14.0-37-generic"),
        (RHEL, "sudo dnf install -y nvlsm infiniband-diags libibumad"),
        (SLES, "sudo zypper --non-interactive install --auto-agree-with-licenses nvlsm infiniband-diags libibumad3"),
    ] {
        for device in ["0x2901", "0x3182"] {
            let plan = Machine::new("p2pdma-two-steps", release, no_driver(device)).plan("nvidia-driver-open");
            assert!(has(&plan, wanted), "{release} {device}: {:?}", lines(&plan));
            assert!(has(&plan, "/etc/modules-load.d/ib_umad.conf: ib_umad"), "{release} {device}");
        }
    }
}

#[test]
fn a_driver_that_the_plan_replaces_is_not_in_a_step_that_is_done() {
    let edits = vec![
        put(
            "files/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX aarch64 Kernel Module  580.95.05  Tue Sep 23 09:41:36 UTC 2025\n",
        ),
        put(NVML, r#"{"driver_version": "580.95.05", "cuda_version": "13.0", "gpus": []}"#),
        command(
            &["journalctl", "-k", "-b", "-o", "cat"],
            "Linux version 6.14.0\nNVRM: installed in this system requires use of the NVIDIA open kernel modules.\n",
        ),
    ];
    let machine = Machine::new("grace", RHEL, edits);
    assert_eq!(machine.report.finding("gpu-present").unwrap().fix, Some(FixId::NvidiaDriverOpen));
    assert_eq!(machine.report.finding("driver-flavour").unwrap().status, Status::Info);
    let guided = guide::guide(&machine.root, &machine.report);
    let is_listed = |step: &gds_top::core::GuideStep| step.checks.iter().any(|id| *id == "driver-flavour");
    assert!(!guided.steps.iter().any(is_listed), "{}", guide::text(&guided, usize::MAX));
}

#[test]
fn the_plan_that_excludes_nouveau_names_it_and_is_verified_by_the_gpu() {
    let plan = Machine::new("nouveau-not-excluded", UBUNTU_24, Vec::new()).plan("initramfs");
    assert_eq!(plan.title, "Exclude nouveau and rebuild the initramfs");
    assert!(plan.verify.ends_with("gpu-present"), "{}", plan.verify);
    let plan = Machine::new("reboot-pending", UBUNTU_24, Vec::new()).plan("initramfs");
    assert!(plan.title.starts_with("Rebuild the initramfs") && plan.verify.ends_with("reboot-pending"), "{plan:?}");
}
