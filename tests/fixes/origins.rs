//! Tests that a driver keeps its origin, that holds of packages are lifted, and that Fabric Manager follows the driver.

use crate::drivers::{DEBIAN, Machine, RHEL, SLES, UBUNTU, has, lines};
use crate::machine::*;

/// A package in the status file of dpkg.
fn deb(name: &str, version: &str, state: &str) -> String {
    format!("Package: {name}\nStatus: {state} ok installed\nVersion: {version}\n\n")
}

const STATUS: &str = "files/var/lib/dpkg/status";
const MODULE: &str = "files/etc/dnf/modules.d/nvidia-driver.module";

/// The machine's driver is one of its file.
fn module(file: &str, signer: &str) -> Edit {
    command(
        &["modinfo", "nvidia"],
        &format!("filename: {file}\nversion: 550.163.01\nlicense: Dual MIT/GPL\nsigner: {signer}\n"),
    )
}

#[test]
fn a_newer_driver_comes_from_the_origin_of_the_installed_one() {
    let stream =
        |name: &str| put(MODULE, format!("[nvidia-driver]\nname=nvidia-driver\nstream={name}\nstate=enabled\n"));
    let ubuntu = |name: &str| vec![put(STATUS, deb(name, "550.163.01-0ubuntu0.22.04.1", "install"))];
    const BUILT: &str = "/lib/modules/6.14.0-37-generic/kernel/nvidia-550srv-open/nvidia.ko";
    for (release, edits, wanted, other) in [
        (UBUNTU, ubuntu("nvidia-driver-550"), "sudo apt-get install -y nvidia-driver-580-open", "nvidia-open"),
        (UBUNTU, ubuntu("nvidia-driver-550-server-open"), "sudo apt-get install -y nvidia-driver-580-server-open", "pinning"),
        (
            UBUNTU,
            ubuntu("nvidia-headless-550-server"),
            "sudo apt-get install -y nvidia-headless-580-server-open nvidia-utils-580-server",
            "nvidia-driver",
        ),
        (
            UBUNTU,
            all([ubuntu("nvidia-driver-550-server-open"), vec![module(BUILT, "Canonical Ltd. Kernel Module Signing")]]),
            "sudo apt-get install -y linux-modules-nvidia-580-server-open-6.14.0-37-generic nvidia-driver-580-server-open",
            "pinning",
        ),
        // NVIDIA's packages for Ubuntu have the same names and other versions.
        (
            UBUNTU,
            vec![put(STATUS, deb("nvidia-driver-550-open", "550.163.01-0ubuntu1", "install"))],
            "sudo apt-get install -y nvidia-open-580",
            "-server",
        ),
        (
            DEBIAN,
            vec![put(STATUS, deb("nvidia-kernel-open-dkms", "550.163.01-1", "install"))],
            "sudo apt-get install -y nvidia-driver-pinning-580",
            "remove",
        ),
        (RHEL, vec![stream("550-open")], "sudo dnf module install -y --allowerasing nvidia-driver:580-open", "upgrade"),
        (RHEL, vec![stream("open-dkms")], "sudo dnf upgrade -y --refresh '*nvidia*'", "module"),
        (
            RHEL,
            vec![put("files/usr/src/akmods/nvidia-kmod.latest", "")],
            "sudo dnf upgrade -y --refresh akmod-nvidia",
            "nvidia-driver:",
        ),
        (
            SLES,
            vec![module("/lib/modules/6.14.0-37-generic/updates/nvidia.ko", "SUSE Linux Enterprise Secure Boot CA")],
            "sudo zypper --non-interactive update --auto-agree-with-licenses nvidia-open-driver-G06-signed-cuda-kmp-default nvidia-compute-utils-G06",
            "nvidia-open<",
        ),
    ]
    .into_iter()
    .chain([DEBIAN, UBUNTU, RHEL, SLES].map(|release| {
        let edits = vec![put("files/usr/bin/nvidia-uninstall", "")];
        (release, edits, "sudo sh ./NVIDIA-Linux-x86_64-580.95.05.run --dkms -m=kernel-open", "nvidia-open")
    })) {
        let edits = all([driver("550.163.01", "12.4"), edits]);
        let plan = Machine::new("p2pdma-two-steps", release, edits).plan("nvidia-driver-open");
        assert!(has(&plan, wanted), "{release}: {wanted}: {:?}", lines(&plan));
        let others: Vec<String> = lines(&plan).into_iter().filter(|line| line != wanted && line.contains(other)).collect();
        assert!(others.is_empty(), "{release}: {others:?}");
        assert_eq!(plan.obstacle, None, "{release}");
    }
}

#[test]
fn an_open_driver_that_is_too_old_gets_a_plan_about_its_version() {
    let edits = vec![
        put(MODULE, "[nvidia-driver]\nname=nvidia-driver\nstream=560-open\nstate=enabled\n"),
        put("files/lib/modules/6.14.0-37-generic/build/Makefile", ""),
    ];
    let edits = all([driver("560.35.05", "12.6"), edits]);
    let plan = Machine::new("p2pdma-two-steps", RHEL, edits).plan("nvidia-driver-open");
    assert_eq!(plan.title, "Install a newer NVIDIA driver with the open kernel modules");
    assert!(plan.undo.contains("driver 560.35.05"), "{}", plan.undo);
    assert!(plan.why.contains("stream 560-open") && !plan.why.contains("nvidia-fs"), "{}", plan.why);
    // The headers of this kernel are installed.
    assert!(!lines(&plan).iter().any(|line| line.contains("kernel-devel")), "{:?}", lines(&plan));
}

#[test]
fn modules_of_the_other_flavour_are_removed_in_the_command_that_installs_the_open_ones() {
    let names = [
        "nvidia-driver-580-server",
        "linux-modules-nvidia-580-server-6.14.0-37-generic",
        "linux-modules-nvidia-580-server-generic-hwe-24.04",
        "linux-objects-nvidia-580-server-6.14.0-37-generic",
        "linux-modules-nvidia-580-server-6.14.0-33-generic",
        "linux-modules-nvidia-fs-6.14.0-37-generic",
    ];
    let status: String = names.map(|name| deb(name, "580.95.05-0ubuntu0.24.04.1", "install")).concat();
    let plan = Machine::new("proprietary-nvfs", UBUNTU, vec![put(STATUS, status)]).plan("nvidia-driver-open");
    let wanted = "sudo apt-get install -y linux-modules-nvidia-580-server-open-6.14.0-37-generic linux-modules-nvidia-580-server-open-generic-hwe-24.04 nvidia-driver-580-server-open linux-modules-nvidia-580-server-6.14.0-37-generic- linux-modules-nvidia-580-server-generic-hwe-24.04- linux-objects-nvidia-580-server-6.14.0-37-generic-";
    assert!(lines(&plan).iter().any(|line| line == wanted), "{:?}", lines(&plan));
}

#[test]
fn holds_of_the_packages_are_lifted_before_they_stop_a_plan() {
    let nvidia = || {
        vec![put(
            "files/etc/yum.repos.d/cuda.repo",
            "[cuda]\nbaseurl=https://developer.download.nvidia.com/x\nexcludepkgs=nvidia*\n",
        )]
    };
    let pin = |text: &str| vec![put("files/etc/apt/preferences.d/gpu", text)];
    let held = |name: &str| vec![put(STATUS, deb(name, "550.163.01-0ubuntu1", "hold"))];
    for (release, edits, id, wanted) in [
        (
            UBUNTU,
            held("libnvidia-compute-550"),
            "nvidia-driver-open",
            Some("sudo apt-mark unhold libnvidia-compute-550"),
        ),
        (UBUNTU, held("nvidia-fs-dkms"), "nvfs-install", Some("sudo apt-mark unhold nvidia-fs-dkms")),
        (UBUNTU, held("nvidia-container-toolkit"), "nvidia-driver-open", None),
        (UBUNTU, held("nvidia-driver-550"), "nvfs-install", None),
        (
            UBUNTU,
            pin("Package: *\nPin: origin developer.download.nvidia.com\nPin-Priority: -1\n"),
            "nvfs-install",
            Some("sudoedit /etc/apt/preferences.d/gpu"),
        ),
        (
            UBUNTU,
            pin("Package: nvidia-*\nPin: version 550.*\nPin-Priority: 1001\n"),
            "nvidia-driver-open",
            Some("sudoedit /etc/apt/preferences.d/gpu"),
        ),
        // These pins are those of NVIDIA's repository, and of the branch that is installed.
        (UBUNTU, pin("Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"), "nvfs-install", None),
        (UBUNTU, pin("Package: nvidia-*\nPin: version 580.*\nPin-Priority: 1001\n"), "nvidia-driver-open", None),
        (
            RHEL,
            vec![put("files/etc/dnf/plugins/versionlock.list", "nvidia-driver-3:550.90.07-1.el9.*\n")],
            "nvidia-driver-open",
            Some("sudo dnf versionlock delete nvidia-driver"),
        ),
        (
            RHEL,
            vec![put("files/etc/dnf/versionlock.toml", "version = \"1.0\"\n[[packages]]\nname = \"nvidia-driver\"\n")],
            "nvidia-driver-open",
            Some("sudo dnf versionlock delete nvidia-driver"),
        ),
        (RHEL, nvidia(), "nvfs-install", Some("sudoedit /etc/yum.repos.d/cuda.repo")),
        (
            SLES,
            vec![put("files/etc/zypp/locks", "type: package\nmatch_type: glob\nsolvable_name: nvidia*\n")],
            "nvidia-driver-open",
            Some("sudo zypper removelock 'nvidia*'"),
        ),
    ] {
        let edits = all([driver("550.163.01", "12.4"), edits]);
        let plan = Machine::new("p2pdma-two-steps", release, edits).plan(id);
        let lifts = |line: &String| {
            ["unhold", "sudoedit", "versionlock delete", "removelock"].iter().any(|word| line.contains(word))
        };
        let first = lines(&plan).into_iter().next().filter(lifts);
        assert_eq!(first.as_deref(), wanted, "{release} {id}: {:?}", lines(&plan));
        assert_eq!(plan.why.contains("are held here"), wanted.is_some(), "{}", plan.why);
    }
}

#[test]
fn fabric_manager_gets_the_version_of_the_driver_that_the_next_boot_loads() {
    let edits = all([
        nvswitch(),
        vec![cuda_fails(802), command(&["modinfo", "nvidia"], "version: 580.105.08\nlicense: Dual MIT/GPL\n")],
    ]);
    let plan = Machine::new("p2pdma-two-steps", RHEL, edits).plan("nvidia-fabricmanager");
    assert!(has(&plan, "sudo dnf install -y nvidia-fabricmanager-580.105.08"), "{:?}", lines(&plan));
    assert_eq!(lines(&plan).last().unwrap(), "sudo reboot");
}

#[test]
fn the_kernel_of_the_next_boot_gets_the_driver_before_the_reboot() {
    const NEXT: &str = "5.14.0-570.62.1.el9_6.x86_64";
    let saved = vec![
        put("files/boot/grub2/grub.cfg", ""),
        put("files/boot/grub2/grubenv", format!("saved_entry=5e1f-{NEXT}\n")),
        put(format!("files/boot/loader/entries/5e1f-{NEXT}.conf"), format!("version {NEXT}\n")),
    ];
    let first = vec![
        put("files/boot/grub/grub.cfg", ""),
        put("files/etc/default/grub", "GRUB_DEFAULT=0\n"),
        put("files/boot/vmlinuz-6.14.0-37-generic", ""),
        put("files/boot/vmlinuz-6.14.0-39-generic", ""),
    ];
    let installed = vec![put(STATUS, deb("nvidia-driver-550-server-open", "550.163.01-0ubuntu0.22.04.1", "install"))];
    let built = vec![module("/lib/modules/6.14.0-37-generic/kernel/nvidia-550srv-open/nvidia.ko", "Canonical Ltd.")];
    let stream = "[nvidia-driver]\nname=nvidia-driver\nstream=open-dkms\nstate=enabled\n";
    for (release, edits, wanted) in [
        (RHEL, all([vec![put(MODULE, stream)], saved]), format!("sudo dkms autoinstall -k {NEXT}")),
        (UBUNTU, all([installed.clone(), first.clone()]), "sudo dkms autoinstall -k 6.14.0-39-generic".to_owned()),
        // DKMS does not build this driver.
        (UBUNTU, all([installed, built, first]), "gnulinux-6.14.0-37-generic-advanced".to_owned()),
    ] {
        let edits = all([driver("550.163.01", "12.4"), edits]);
        let lines = lines(&Machine::new("p2pdma-two-steps", release, edits).plan("nvidia-driver-open"));
        let place = |part: &str| lines.iter().position(|line| line.contains(part));
        let reboot = lines.iter().position(|line| line == "sudo reboot");
        assert!(reboot.is_some() && place(&wanted).map(|at| at + 1) == reboot, "{release}: {wanted}: {lines:?}");
        if wanted.contains(NEXT) {
            assert!(place(&format!("kernel-devel-{NEXT}")) < reboot, "{lines:?}");
        }
    }
}
