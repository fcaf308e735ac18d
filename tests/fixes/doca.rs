//! The NVMe driver for GDS is installed from DOCA's repository, before nvidia-fs. nvidia-fs is rebuilt after it.

use crate::copies::Machine;
use crate::machine::*;
use gds_top::checks;
use gds_top::core::{Change, FixId, FixPlan, Route};
use gds_top::fixes::{self, guide};
use gds_top::machine::Root;

const UBUNTU: &str = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n";
const ROCKY: &str = "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\n";
const RHEL: &str = "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.6\"\n";
const SLES: &str =
    "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\nPRETTY_NAME=\"SUSE Linux Enterprise Server 15 SP6\"\n";

/// The check that the new driver of the disks is used.
const REPLACED: &str = r#"sh -c '/sbin/modinfo -n nvme | grep -E "/(updates|extra)/"'"#;

fn plan_of(base: &str, release: &str, running: &str, edits: Vec<Edit>) -> FixPlan {
    let own = vec![put("files/etc/os-release", release), put("files/proc/sys/kernel/osrelease", running)];
    let folder = build(base, &all([own, edits]));
    let root = Root::folder(folder.path()).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    fixes::plan_by_id(&root, &report, FixId::NvmePatch).unwrap()
}

/// A machine without nvidia-fs.
fn plan(release: &str, running: &str, edits: Vec<Edit>) -> FixPlan {
    plan_of("p2pdma-two-steps", release, running, edits)
}

/// The modules of a machine with the stock NVMe driver.
const STOCK_MODULES: &str = "nvidia_uvm 2000000 0 - Live 0x0\nnvidia 14000000 12 nvidia_uvm, Live 0x0\nnvme 60000 3 - Live 0x0\nnvme_core 220000 4 nvme, Live 0x0\n";

/// nvidia-fs was never installed, and these modules are loaded.
fn without_nvidia_fs(modules: &str) -> Vec<Edit> {
    vec![
        without("files/proc/driver/nvidia-fs"),
        without("files/sys/module/nvidia_fs"),
        without("files/dev/nvidia-fs0"),
        put("files/proc/modules", modules),
    ]
}

fn lines(plan: &FixPlan) -> Vec<String> {
    let of = |change: &Change| match change {
        Change::Run { argv } => gds_top::text::quoted_line(argv),
        Change::WriteFile { path, after, .. } => format!("{}: {}", path.display(), after.trim_end()),
    };
    plan.changes.iter().map(of).collect()
}

#[test]
fn the_repository_the_headers_and_the_driver_of_the_release_are_installed() {
    let ubuntu = plan(UBUNTU, "6.8.0-60-generic", Vec::new());
    let steps = lines(&ubuntu);
    assert!(steps[0].contains("https://linux.mellanox.com/public/repo/doca/GPG-KEY-Mellanox.pub"), "{steps:#?}");
    assert_eq!(
        steps[1..],
        [
            "/etc/apt/sources.list.d/doca.list: deb [signed-by=/usr/share/keyrings/nvidia-doca.gpg] https://linux.mellanox.com/public/repo/doca/latest/ubuntu24.04/x86_64/ ./",
            "sudo apt-get update",
            "sudo apt-get install -y linux-headers-6.8.0-60-generic doca-ofed mlnx-nvme-dkms",
            REPLACED,
            "sudo update-initramfs -u -k all",
            "sudo reboot",
        ]
    );
    assert_eq!(ubuntu.obstacle, None);
    let rocky = plan(ROCKY, "5.14.0-570.17.1.el9_6.x86_64", Vec::new());
    let steps = lines(&rocky);
    assert!(
        steps.iter().any(|line| line.contains(
            "baseurl=https://linux.mellanox.com/public/repo/doca/latest/rhel9/x86_64/\nenabled=1\ngpgcheck=1"
        )),
        "{steps:#?}"
    );
    assert!(steps.contains(&"sudo dnf install -y epel-release".to_owned()), "DKMS is in EPEL: {steps:#?}");
    assert!(
        steps.contains(
            &"sudo dnf install -y kernel-devel-5.14.0-570.17.1.el9_6.x86_64 kernel-headers doca-ofed mlnx-nvme-dkms"
                .to_owned()
        ),
        "{steps:#?}"
    );
    for plan in [ubuntu, rocky] {
        assert!(!plan.why.contains("not confirmed"), "{}", plan.why);
        assert!(plan.why.contains("before nvidia-fs"), "{}", plan.why);
    }
    let arm = put("files/proc/sys/kernel/arch", "aarch64\n");
    assert!(lines(&plan(UBUNTU, "6.8.0-60-generic", vec![arm]))[1].contains("/ubuntu24.04/arm64-sbsa/"));
}

#[test]
fn an_address_that_was_not_seen_is_called_not_confirmed_and_none_is_made_up() {
    for release in [
        SLES,
        "ID=ubuntu\nVERSION_ID=\"26.04\"\n",
        "ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n",
        "ID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.6\"\n",
        "ID=\"almalinux\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\n",
    ] {
        let plan = plan(release, "6.4.0-150600.23.17-default", Vec::new());
        assert!(plan.why.contains("not confirmed"), "{release}: {}", plan.why);
        assert!(
            lines(&plan).iter().any(|line| line.contains("doca-ofed mlnx-nvme-dkms")),
            "{release}: {:?}",
            lines(&plan)
        );
    }
    let sles = plan(SLES, "6.4.0-150600.23.17-default", Vec::new());
    assert_eq!(
        lines(&sles),
        [
            "sudo SUSEConnect --product PackageHub/15.6/x86_64",
            "sudo rpm -Uvh 'doca-host-*.rpm'",
            "sudo zypper --gpg-auto-import-keys refresh",
            "sudo zypper --non-interactive install kernel-default-devel=6.4.0-150600.23.17 doca-ofed mlnx-nvme-dkms",
            "/etc/modprobe.d/10-unsupported-modules.conf: allow_unsupported_modules 1",
            REPLACED,
            "sudo dracut -f",
            "sudo reboot",
        ]
    );
    for release in [
        "ID=fedora\nVERSION_ID=42\n",
        "ID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\n",
        "ID=azurelinux\nVERSION_ID=\"3.0\"\n",
    ] {
        let plan = plan(release, "6.12.1", Vec::new());
        assert!(plan.changes.is_empty() && plan.obstacle.is_some_and(|why| why.contains("not confirmed")), "{release}");
    }
}

#[test]
fn a_repository_that_is_there_keeps_its_lines_and_is_not_added_again() {
    let list = put(
        "files/etc/apt/sources.list.d/nvidia.list",
        "deb [signed-by=/etc/k.gpg] https://mirror.example/public/repo/doca/3.4.1/ubuntu24.04/x86_64/ ./\n",
    );
    let steps = lines(&plan(UBUNTU, "6.8.0-60-generic", vec![list]));
    assert!(steps[0] == "sudo apt-get update" && steps[1].starts_with("sudo apt-get install"), "{steps:#?}");
    let machine = Machine::new("p2pdma-two-steps");
    machine.write("/etc/os-release", RHEL);
    let repo = machine.write("/etc/yum.repos.d/doca.repo", "[ours]\nname=ours\nbaseurl=https://mirror.example/ours");
    let before = machine.image();
    let plan = fixes::plan_by_id(&machine.root(), &machine.report(), FixId::NvmePatch).unwrap();
    let plan = FixPlan { policy: gds_top::core::FixPolicy::Ask, obstacle: None, ..plan };
    fixes::apply(&plan, &machine.place(), &mut |_| true).unwrap();
    let text = std::fs::read_to_string(repo).unwrap();
    assert!(text.starts_with("[ours]\nname=ours\nbaseurl=https://mirror.example/ours\n[doca]\n"), "{text}");
    fixes::undo(plan.id, &machine.place(), &mut |_| true).unwrap();
    assert_eq!(machine.image(), before);
}

#[test]
fn the_package_fits_the_configured_release_of_doca() {
    let on_rocky = |address: &str| {
        let text = format!("[doca]\nname=DOCA\nbaseurl={address}\nenabled=1\n");
        let repo = put("files/etc/yum.repos.d/doca.repo", text);
        plan(ROCKY, "5.14.0-570.17.1.el9_6.x86_64", vec![repo])
    };
    for address in [
        "https://linux.mellanox.com/public/repo/doca/3.1.0/rhel9.6/x86_64/",
        "https://mirror.example/repo/doca/2.9.1/rhel9/x86_64/",
        "file:///usr/share/doca-host-3.1.0-091000-25.07-rhel96/repo",
    ] {
        let plan = on_rocky(address);
        let steps = lines(&plan);
        assert!(steps.contains(&"sudo dnf install -y doca-ofed kmod-mlnx-nvme".to_owned()), "{address}: {steps:#?}");
        assert!(steps.iter().any(|line| line.contains("/(updates|extra|weak-updates)/")), "{address}: {steps:#?}");
        assert!(!plan.why.contains("dkms") && plan.undo.contains("kmod-mlnx-nvme"), "{}\n{}", plan.why, plan.undo);
    }
    for address in [
        "https://linux.mellanox.com/public/repo/doca/3.2.0/rhel9.6/x86_64/",
        "https://linux.mellanox.com/public/repo/doca/latest/rhel9/x86_64/",
    ] {
        let steps = lines(&on_rocky(address));
        assert!(steps.iter().any(|line| line.ends_with("doca-ofed mlnx-nvme-dkms")), "{address}: {steps:#?}");
        assert!(steps.contains(&REPLACED.to_owned()), "{address}: {steps:#?}");
    }
    // Debian's packages always used DKMS.
    let list = "deb https://linux.mellanox.com/public/repo/doca/3.1.0/ubuntu24.04/x86_64/ ./\n";
    let steps = lines(&plan(UBUNTU, "6.8.0-60-generic", vec![put("files/etc/apt/sources.list.d/doca.list", list)]));
    assert!(steps.iter().any(|line| line.ends_with("doca-ofed mlnx-nvme-dkms")), "{steps:#?}");
}

#[test]
fn nvidia_fs_is_built_again_after_the_driver_and_before_the_reboot() {
    let status = "nvidia-fs/2.28.4, 6.8.0-60-generic, x86_64: installed\nnvidia/580.95.05, 6.8.0-60-generic, x86_64: installed\n";
    let steps = lines(&plan_of("nvme-stock", UBUNTU, "6.8.0-60-generic", vec![command(&["dkms", "status"], status)]));
    let at =
        |part: &str| steps.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {steps:#?}"));
    assert!(at("mlnx-nvme-dkms") < at("dkms build --force nvidia-fs/2.28.4 -k 6.8.0-60-generic"));
    assert!(
        at("dkms build") < at("dkms install --force nvidia-fs/2.28.4") && at("dkms install") < at("update-initramfs")
    );
    // DKMS does not list it.
    for (release, running, again) in [
        (UBUNTU, "6.8.0-60-generic", "apt-get install -y --reinstall nvidia-fs-dkms"),
        (RHEL, "5.14.0-570.17.1.el9_6.x86_64", "dnf reinstall -y $(rpm -qa"),
        (SLES, "6.4.0-150600.23.17-default", "zypper --non-interactive install --force $(rpm -qa"),
    ] {
        let unknown = lines(&plan_of("nvme-stock", release, running, Vec::new()));
        let at = |part: &str| unknown.iter().position(|line| line.contains(part)).unwrap();
        assert!(at("mlnx-nvme-dkms") < at(again) && at(again) < at("sudo reboot"), "{unknown:#?}");
    }
}

#[test]
fn the_source_of_dkms_is_added_before_the_driver_that_needs_it() {
    const ORACLE: &str = "ID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.6\"\n";
    const ROCKY_8: &str = "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"8.10\"\n";
    for (release, running, source, driver) in [
        (ORACLE, "5.15.0-313.189.5.3.el9uek.x86_64", "dnf install -y oracle-epel-release-el9", "mlnx-nvme-dkms"),
        (SLES, "6.4.0-150600.23.17-default", "SUSEConnect --product PackageHub/15.6/x86_64", "mlnx-nvme-dkms"),
        (ROCKY_8, "4.18.0-553.16.1.el8_10.x86_64", "dnf install -y epel-release", "./mlnxofedinstall"),
    ] {
        let said = lines(&plan(release, running, Vec::new()));
        let at = |part: &str| said.iter().position(|line| line.contains(part));
        assert!(at(source).is_some() && at(source) < at(driver), "{said:#?}");
        let present = lines(&plan(release, running, vec![put("files/usr/sbin/dkms", "")]));
        assert!(!present.iter().any(|line| line.contains(source)), "{present:#?}");
    }
}

#[test]
fn mlnx_ofed_is_not_mixed_with_doca() {
    let ofed = put("files/usr/bin/ofed_info", "#!/bin/sh\necho MLNX_OFED_LINUX-24.10-1.1.4.0:\n");
    let plan = plan(UBUNTU, "6.8.0-60-generic", vec![ofed]);
    assert!(lines(&plan)[0].starts_with("sudo ./mlnxofedinstall"), "{:?}", lines(&plan));
    assert!(!lines(&plan).iter().any(|line| line.contains("doca")), "{:?}", lines(&plan));
    assert!(plan.why.contains("MLNX_OFED_LINUX-24.10-1.1.4.0"), "{}", plan.why);
    // Its own repository completes it, and only without DOCA's.
    let (list, own) = ("files/etc/apt/sources.list.d/mlnx_ofed.list", "deb file:/opt/MLNX_OFED_LINUX-24.10/DEBS ./");
    let with = |text: &str| {
        let ofed = put("files/usr/bin/ofed_info", "#!/bin/sh\necho MLNX_OFED_LINUX-24.10-1.1.4.0:\n");
        lines(&self::plan(UBUNTU, "6.8.0-60-generic", vec![ofed, put(list, text)]))
    };
    assert_eq!(
        with(own)[..2],
        ["sudo apt-get update", "sudo apt-get install -y linux-headers-6.8.0-60-generic mlnx-nvme-dkms"]
    );
    let both = format!("{own}\ndeb https://linux.mellanox.com/public/repo/doca/latest/ubuntu24.04/x86_64/ ./\n");
    assert!(with(&both)[0].starts_with("sudo ./mlnxofedinstall"), "{:?}", with(&both));
    // DOCA has a program with the same name.
    let doca = put("files/usr/bin/ofed_info", "#!/bin/sh\necho OFED-internal-26.04-1.1.0:\n");
    assert!(lines(&self::plan(UBUNTU, "6.8.0-60-generic", vec![doca])).iter().any(|line| line.contains("doca-ofed")));
}

#[test]
fn a_kernel_on_which_the_driver_cannot_work_is_an_obstacle() {
    let plan = |running: &str, edits| self::plan(UBUNTU, running, edits).obstacle;
    assert!(plan("6.17.0-8-generic", Vec::new()).is_some_and(|why| why.contains("6.17")));
    assert!(plan("7.0.0-8-generic", Vec::new()).is_some());
    assert_eq!(plan("6.16.0-8-generic", Vec::new()), None);
    let built_in = vec![
        put("files/proc/modules", "nvidia 14000000 12 - Live 0x0\n"),
        put("files/lib/modules/6.8.0-60-generic/modules.builtin", "kernel/drivers/nvme/host/nvme.ko\n"),
    ];
    assert!(plan("6.8.0-60-generic", built_in).is_some_and(|why| why.contains("built into")));
    let secure = vec![command(&["mokutil", "--sb-state"], "SecureBoot enabled\n")];
    let plan = self::plan(UBUNTU, "6.8.0-60-generic", secure);
    let at = |part: &str| lines(&plan).iter().position(|line| line.contains(part)).unwrap();
    assert!(at("mokutil --import") < at("mlnx-nvme-dkms"), "{:?}", lines(&plan));
    assert!(at("modinfo -F signer nvme") < at("sudo reboot") && plan.why.contains("Enroll MOK"), "{}", plan.why);
}

#[test]
fn the_checklist_has_the_storage_driver_before_nvidia_fs() {
    // A T4 does not support P2PDMA. nvidia-fs was never installed, and the NVMe driver is the stock driver.
    let edits = all([gpu("Tesla T4", "7.5"), without_nvidia_fs(STOCK_MODULES)]);
    let folder = build("nvme-stock", &edits);
    let root = Root::folder(folder.path()).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    let guided = guide::guide(&root, &report);
    assert_eq!(guided.route, Route::Nvfs);
    let ids: Vec<&str> = guided.steps.iter().flat_map(|step| &step.plans).map(|plan| plan.id.as_str()).collect();
    let at = |id: &str| ids.iter().position(|known| *known == id).unwrap_or_else(|| panic!("{id}: {ids:?}"));
    assert!(at("nvme-patch") < at("nvfs-install"), "{ids:?}");
    let nvidia_fs = fixes::plan_by_id(&root, &report, FixId::NvfsInstall).unwrap();
    assert!(nvidia_fs.why.contains("run gds-top fix nvme-patch first"), "{}", nvidia_fs.why);
}

#[test]
fn a_mount_over_tcp_is_tested_before_it_is_changed_and_the_client_is_before_nvidia_fs() {
    const FSTAB: &str = "server:/models /data nfs4 rw,vers=4.2,hard,_netdev 0 0\n";
    const MODULES: &str = "nvidia_uvm 2000000 0 - Live 0x0\nnvidia 14000000 12 nvidia_uvm, Live 0x0\n";
    for (loaded, has_doca) in [("mlx_compat 98304 0 - Live 0x0\n", true), ("", false)] {
        let own = vec![
            put("files/etc/os-release", ROCKY),
            put("files/proc/sys/kernel/osrelease", "5.14.0-570.17.1.el9_6.x86_64"),
            put(
                "files/etc/yum.repos.d/doca.repo",
                "[doca]\nbaseurl=https://linux.mellanox.com/public/repo/doca/3.1.0/rhel9.6/x86_64/\n",
            ),
            put("files/etc/fstab", FSTAB),
        ];
        let folder = build("nfs-tcp", &all([own, without_nvidia_fs(&format!("{MODULES}{loaded}"))]));
        let root = Root::folder(folder.path()).unwrap();
        let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
        let guided = guide::guide(&root, &report);
        let text = guide::text(&guided, usize::MAX);
        let has = |fixes: &[FixId]| {
            guided
                .steps
                .iter()
                .position(|step| step.plans.iter().any(|plan| fixes.contains(&plan.id)))
                .unwrap_or_else(|| panic!("{text}"))
        };
        let client = has(&[FixId::NfsRdmaClient]);
        let module = has(&[FixId::NvfsInstall, FixId::NvfsDkms, FixId::NvfsLoad]);
        let is_mount = |step: &gds_top::core::GuideStep| step.checks.iter().any(|id| *id == "nfs-rdma");
        let mount = guided.steps.iter().position(is_mount).unwrap_or_else(|| panic!("{text}"));
        // The client of the kernel cannot be loaded next to the modules of DOCA.
        assert!(if has_doca { client < mount } else { mount < client }, "{has_doca}: {text}");
        assert!(client < module && mount < module, "{has_doca}: {text}");
        let plan = fixes::plan_by_id(&root, &report, FixId::NfsRdmaClient).unwrap();
        let steps = lines(&plan);
        assert!(steps.iter().any(|line| line.ends_with("doca-ofed kmod-mlnx-nfsrdma")), "{steps:#?}");
        assert!(!steps.iter().any(|line| line.contains("umount") || line.contains("/etc/fstab")), "{steps:#?}");
        let verdict = &report.verdicts[0].advice;
        assert_eq!(verdict.find("nfs-rdma-test") < verdict.find("an NFS client"), !has_doca, "{verdict}");
    }
}

#[test]
fn the_undo_of_an_update_installs_the_earlier_release() {
    let release = |system: &str| vec![put("files/etc/os-release", system)];
    let undo = |edits: Vec<Edit>| {
        let folder = build("doca-wrong-hook", &edits);
        let root = Root::folder(folder.path()).unwrap();
        let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
        fixes::plan_by_id(&root, &report, FixId::NvmePatch).unwrap().undo
    };
    let debian = undo(release(UBUNTU));
    assert!(debian.contains("restore /etc/apt/sources.list.d/doca.list") && debian.contains("downgrades"), "{debian}");
    let repo = "[doca]\nbaseurl=https://linux.mellanox.com/public/repo/doca/3.3.0/rhel9.4/x86_64/\nenabled=1\n";
    let red_hat = undo(all([release(ROCKY), vec![put("files/etc/yum.repos.d/doca.repo", repo)]]));
    assert!(red_hat.contains("restore /etc/yum.repos.d/doca.repo") && red_hat.contains("dnf downgrade"), "{red_hat}");
    for undo in [debian, red_hat] {
        assert!(!undo.contains("remove"), "{undo}");
    }
}

#[test]
fn a_kernel_argument_is_set_before_a_reboot_that_is_needed_anyway() {
    // nvidia-fs waits for the open driver, so the reboot before it is needed.
    let edits = all([
        gpu("Tesla T4", "7.5"),
        vec![
            put("files/proc/kallsyms", "0000000000000000 T pci_enable_device\n"),
            put(
                "files/proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Release Build  (dvs-builder@U16)\n",
            ),
        ],
        without_nvidia_fs(STOCK_MODULES),
    ]);
    let folder = build("iommu-on", &edits);
    let root = Root::folder(folder.path()).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    let guided = guide::guide(&root, &report);
    let text = guide::text(&guided, usize::MAX);
    let at = |id: FixId| {
        guided
            .steps
            .iter()
            .position(|step| step.plans.iter().any(|plan| plan.id == id))
            .unwrap_or_else(|| panic!("{id}: {text}"))
    };
    assert!(at(FixId::IommuOff) < at(FixId::NvmePatch) && at(FixId::NvmePatch) < at(FixId::NvfsInstall), "{text}");
    let plans = guided.steps.iter().flat_map(|step| &step.plans);
    let reboots: Vec<FixId> = plans
        .filter(|plan| plan.obstacle.is_none() && lines(plan).contains(&"sudo reboot".to_owned()))
        .map(|plan| plan.id)
        .collect();
    assert_eq!(reboots, [FixId::NvmePatch], "{text}");
}

#[test]
fn the_initramfs_with_an_older_nvme_driver_is_explained_and_verified_by_the_check_of_that_driver() {
    let folder = build("doca-nvme-not-loaded", &[]);
    let root = Root::folder(folder.path()).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    let plan = fixes::plan(&root, &report).into_iter().find(|plan| plan.id == FixId::Initramfs).unwrap();
    assert!(plan.verify.ends_with("nvfs-nvme-symbol"), "{}", plan.verify);
    assert!(plan.why.contains("NVMe driver") && !plan.why.contains("modprobe.d"), "{}", plan.why);
}
