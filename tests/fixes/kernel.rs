//! A kernel update must not break the GPU: headers are installed with it, held packages are released, and the driver
//! is verified before the reboot.

use crate::machine::*;
use gds_top::checks;
use gds_top::core::{Change, FixId, FixPlan};
use gds_top::fixes;
use gds_top::machine::Root;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const DEBIAN: &str = "ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n";
const UBUNTU: &str = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"22.04\"\n";
const ROCKY: &str = "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\n";
const SLES: &str = "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\n";

fn plan(release: &str, running: &str, edits: Vec<Edit>) -> FixPlan {
    let own = vec![put("files/etc/os-release", release), put("files/proc/sys/kernel/osrelease", running)];
    let folder = build("p2pdma-two-steps", &all([own, edits]));
    let root = Root::folder(folder.path()).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    fixes::plan_by_id(&root, &report, FixId::KernelP2pdma).unwrap()
}

fn commands(plan: &FixPlan) -> Vec<Vec<String>> {
    let of = |change: &Change| match change {
        Change::Run { argv } => Some(argv.clone()),
        Change::WriteFile { .. } => None,
    };
    plan.changes.iter().filter_map(of).collect()
}

fn lines(plan: &FixPlan) -> Vec<String> {
    commands(plan).iter().map(|argv| gds_top::text::quoted_line(argv)).collect()
}

/// Runs the scripts of a plan with tools that know these kernels and modules. Returns the calls of DKMS and whether
/// the last one succeeded.
fn dry(plan: &FixPlan, kernels: &[&str], modules: &[&str]) -> (Vec<String>, bool) {
    let tools = tempfile::tempdir().unwrap();
    let log = tools.path().join("log");
    let tool = |name: &str, body: String| {
        let path = tools.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    // The last kernel is the one that the package brings. Another one can have a higher version.
    let new = kernels.last().unwrap();
    tool("dpkg-query", format!("echo 'linux-image-{new} (= 1), linux-base'"));
    tool(
        "rpm",
        format!("case $1 in -q) echo 'kernel-core-1.x86_64  Fri Nov 28' ;; *) echo /lib/modules/{new}/vmlinuz ;; esac"),
    );
    tool("dkms", format!("echo dkms \"$@\" >> {}", log.display()));
    let known = modules.join("|");
    tool("modinfo", format!("shift 3\nfor name in \"$@\"; do case \"$name\" in {known}) ;; *) exit 1 ;; esac; done"));
    let mut ended = true;
    for argv in commands(plan) {
        if let ["sudo", "sh", "-c", script] = argv.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            let path = format!("{}:/usr/bin:/bin", tools.path().display());
            ended = Command::new("/bin/sh").args(["-c", script]).env("PATH", path).status().unwrap().success();
        }
    }
    let said = fs::read_to_string(log).unwrap_or_default();
    (said.lines().map(str::to_owned).collect(), ended)
}

#[test]
fn the_driver_is_built_and_looked_for_before_the_reboot() {
    let status =
        "nvidia-fs/2.26.6, 6.1.0-28-amd64, x86_64: installed\nnvidia/580.95.05, 6.1.0-28-amd64, x86_64: installed\n";
    let plan = plan(DEBIAN, "6.1.0-28-amd64", vec![command(&["dkms", "status"], status)]);
    assert_eq!(lines(&plan).last().unwrap(), "sudo reboot");
    let kernels = ["6.1.0-28-amd64", "6.18.0-house", "6.12.30+bpo-amd64"];
    let (told, ended) = dry(&plan, &kernels, &["nvidia", "nvidia_fs"]);
    let new = ["dkms install nvidia/580.95.05", "dkms autoinstall", "dkms status"]
        .map(|line| format!("{line} -k 6.12.30+bpo-amd64"));
    assert_eq!(told, new, "nvidia-fs is built with the symbols of the driver");
    assert!(ended);
    assert!(!dry(&plan, &kernels, &["nvidia"]).1, "nvidia-fs is in use here, so it is looked for too");
    assert!(!dry(&plan, &kernels, &["nothing"]).1);
}

/// The configuration and image of an installed kernel.
fn installed(release: &str, config: &str) -> Vec<Edit> {
    vec![
        put(format!("files/boot/config-{release}"), config),
        put(format!("files/boot/vmlinuz-{release}"), ""),
        put(format!("files/lib/modules/{release}/modules.dep"), ""),
    ]
}

#[test]
fn an_installed_kernel_with_p2pdma_is_booted_and_no_other_is_installed() {
    const ON: &str = "CONFIG_PCI_P2PDMA=y\n";
    let status =
        |kernel: &str| command(&["dkms", "status"], &format!("nvidia/580.95.05, {kernel}, x86_64: installed\n"));
    let has = |plan: &FixPlan, part: &str| lines(plan).iter().any(|line| line.contains(part));
    for (others, built, wanted, builds) in [
        (installed("6.8.0-85-generic", ON), "6.8.0-85-generic", Some("6.8.0-85-generic"), false),
        (installed("6.8.0-85-generic", ON), "6.12.31-house", Some("6.8.0-85-generic"), true),
        // Of two, that of the distribution is taken.
        (
            all([installed("6.8.0-85-generic", ON), installed("6.9.1-house", ON)]),
            "6.8.0-85-generic",
            Some("6.8.0-85-generic"),
            false,
        ),
        (installed("6.8.0-85-generic", "# CONFIG_PCI_P2PDMA is not set\n"), "6.12.31-house", None, true),
        (installed("5.15.0-139-generic", ON), "6.12.31-house", None, true),
    ] {
        let plan = self::plan(UBUNTU, "6.12.31-house", all([others, vec![status(built)]]));
        let entry = wanted.map(|release| format!("gnulinux-{release}-advanced-$root"));
        match entry {
            Some(entry) => assert!(has(&plan, &entry) && !has(&plan, "apt-get install"), "{:?}", lines(&plan)),
            None => assert!(
                has(&plan, "apt-get install") && has(&plan, "gnulinux-$new-advanced-$root"),
                "GRUB would boot the kernel of the house again: {:?}",
                lines(&plan)
            ),
        }
        assert_eq!(has(&plan, "dkms autoinstall"), builds, "{:?}", lines(&plan));
        assert_eq!(lines(&plan).last().unwrap(), "sudo reboot");
    }
    let usual = self::plan(UBUNTU, "5.15.0-139-generic", vec![status("5.15.0-139-generic")]);
    assert!(!has(&usual, "gnulinux-"), "GRUB boots the newest kernel by itself: {:?}", lines(&usual));
}

#[test]
fn a_boot_entry_that_is_set_to_the_old_kernel_is_set_to_the_new_one() {
    const OLD: &str = "gnulinux-advanced-1>gnulinux-5.15.0-139-generic-advanced-1";
    const RHEL_9_4: &str = "5.14.0-427.13.1.el9_4.x86_64";
    let grub = |value: &str| put("files/etc/default/grub", format!("GRUB_TIMEOUT=0\nGRUB_DEFAULT={value}\n"));
    let saved =
        |folder: &str, entry: &str| put(format!("files/boot/{folder}/grubenv"), format!("saved_entry={entry}\n"));
    let updates = |value: &str| put("files/etc/sysconfig/kernel", format!("UPDATEDEFAULT={value}\n"));
    let variable = |text: &str| {
        let text: String = text.chars().flat_map(|letter| [letter, '\0']).collect();
        put(
            "files/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
            format!("\u{6}\0\0\0{text}\0\0"),
        )
    };
    let entry = |line: &str| put("files/boot/efi/loader/loader.conf", format!("timeout 0\n{line}\n"));
    let rows: Vec<(&str, &str, Vec<Edit>, Option<&str>)> = vec![
        (UBUNTU, "5.15.0-139-generic", vec![grub("0")], None),
        (UBUNTU, "5.15.0-139-generic", vec![grub("gnulinux-simple-1")], None),
        (UBUNTU, "5.15.0-139-generic", vec![grub("saved")], None),
        (UBUNTU, "5.15.0-139-generic", vec![grub(&format!("\"{OLD}\""))], Some("gnulinux-$new-advanced-$root")),
        (UBUNTU, "5.15.0-139-generic", vec![grub("saved"), saved("grub", OLD)], Some("gnulinux-$new-advanced-$root")),
        (
            ROCKY,
            RHEL_9_4,
            vec![grub("saved"), saved("grub2", "5e1f-5.14.0-427.13.1.el9_4.x86_64"), updates("yes")],
            None,
        ),
        (
            ROCKY,
            RHEL_9_4,
            vec![grub("saved"), saved("grub2", "5e1f-5.14.0-427.13.1.el9_4.x86_64"), updates("no")],
            Some("grubby --set-default"),
        ),
        (DEBIAN, "6.1.0-28-amd64", vec![variable("systemd-boot 257.9"), entry("default 5e1f-*")], None),
        (
            DEBIAN,
            "6.1.0-28-amd64",
            vec![variable("systemd-boot 257.9"), entry("default 5e1f-6.1.0-28-amd64.conf")],
            Some("bootctl set-default"),
        ),
    ];
    for (release, running, edits, wanted) in rows {
        let plan = plan(release, running, edits);
        let set: Vec<String> = lines(&plan)
            .into_iter()
            .filter(|line| line.contains("gnulinux-") || line.contains("set-default"))
            .collect();
        assert_eq!(set.len(), usize::from(wanted.is_some()), "{running}: {:?}", lines(&plan));
        assert!(set.iter().all(|line| wanted.is_some_and(|part| line.contains(part))), "{set:?}");
        assert_eq!(plan.why.contains("starts another kernel"), wanted.is_some(), "{}", plan.why);
    }
}

#[test]
fn an_installed_kernel_of_red_hat_is_booted_instead_of_uek_7() {
    const ORACLE: &str = "ID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.6\"\n";
    const UEK: &str = "5.15.0-313.189.5.1.el9uek.x86_64";
    const RED_HAT: &str = "5.14.0-570.62.1.0.1.el9_6.x86_64";
    let status = || command(&["dkms", "status"], &format!("nvidia-open/580.95.05, {UEK}, x86_64: installed\n"));
    let with = |config: &str| plan(ORACLE, UEK, all([installed(RED_HAT, config), vec![status()]]));
    let plan = with("CONFIG_PCI_P2PDMA=y\n");
    let lines = lines(&plan);
    assert!(lines[0].contains("install -y kernel-devel-5.14.0-570.62.1.0.1.el9_6.x86_64"), "{lines:?}");
    assert_eq!(lines[1], format!("sudo dkms autoinstall -k {RED_HAT}"));
    assert!(lines.iter().any(|line| line.contains(&format!("/boot/vmlinuz-{RED_HAT}"))), "{lines:?}");
    assert!(plan.why.contains("DEFAULTKERNEL"), "{}", plan.why);
    // The driver cannot be built for a real-time kernel.
    let real_time = with("CONFIG_PCI_P2PDMA=y\nCONFIG_PREEMPT_RT=y\n");
    assert!(!real_time.title.contains(RED_HAT), "{}", real_time.title);
}

#[test]
fn a_driver_that_dkms_does_not_build_gets_its_package_or_a_warning() {
    let ready = |file: &str| {
        vec![command(&["modinfo", "nvidia"], &format!("filename:       {file}\nversion:        580.95.05\n"))]
    };
    let plan = self::plan(
        UBUNTU,
        "5.15.0-139-generic",
        ready("/lib/modules/5.15.0-139-generic/kernel/nvidia-580srv-open/nvidia.ko"),
    );
    assert!(
        lines(&plan)
            .contains(&"sudo apt-get install -y linux-modules-nvidia-580-server-open-generic-hwe-22.04".to_owned()),
        "{:?}",
        lines(&plan)
    );
    assert!(plan.why.contains("not built by DKMS"), "{}", plan.why);
    let rocky = self::plan(
        ROCKY,
        "5.14.0-427.13.1.el9_4.x86_64",
        ready("/lib/modules/5.14.0-427.13.1.el9_4.x86_64/extra/drivers/video/nvidia/nvidia.ko"),
    );
    assert!(rocky.why.contains("not built by DKMS"), "{}", rocky.why);
    for plan in [&plan, &rocky] {
        let (told, _) = dry(plan, &["6.8.0-60-generic"], &["nvidia"]);
        assert_eq!(told, [""; 0], "DKMS is not asked");
        assert!(dry(plan, &["6.8.0-60-generic"], &["nvidia"]).1 && !dry(plan, &["6.8.0-60-generic"], &["other"]).1);
    }
}

#[test]
fn an_nvidia_kernel_gets_its_precompiled_modules_and_dkms_builds_what_it_built_before() {
    let module = |name: &str, file: &str| command(&["modinfo", name], &format!("filename: {file}\n"));
    let driver = module("nvidia", "/lib/modules/6.8.0-1030-nvidia/kernel/nvidia-580-open/nvidia.ko");
    let ready =
        vec![driver.clone(), module("nvidia_fs", "/lib/modules/6.8.0-1030-nvidia/kernel/nvidia-fs/nvidia-fs.ko")];
    let plan = self::plan(UBUNTU, "6.8.0-1030-nvidia", ready);
    let modules = "sudo apt-get install -y linux-modules-nvidia-580-open-nvidia-hwe-22.04 linux-modules-nvidia-fs-nvidia-hwe-22.04";
    assert!(lines(&plan).contains(&modules.to_owned()), "{:?}", lines(&plan));
    let status = command(&["dkms", "status"], "nvidia-fs/2.28.4, 6.8.0-1030-nvidia, x86_64: installed\n");
    let mixed = self::plan(UBUNTU, "6.8.0-1030-nvidia", vec![driver, status]);
    let (told, ended) = dry(&mixed, &["6.11.0-1000-nvidia"], &["nvidia", "nvidia_fs"]);
    assert_eq!(told[0], "dkms autoinstall -k 6.11.0-1000-nvidia");
    assert!(ended && !dry(&mixed, &["6.11.0-1000-nvidia"], &["nvidia"]).1);
}

#[test]
fn a_machine_without_a_driver_has_none_to_lose() {
    let bare = vec![
        without("files/proc/driver"),
        without("files/sys/module/nvidia"),
        put("nvml.json", r#"{"error": "libnvidia-ml.so.1 was not found"}"#),
    ];
    let plan = plan(ROCKY, "5.14.0-427.13.1.el9_4.x86_64", bare);
    let said = lines(&plan);
    assert_eq!(
        said[..2],
        ["sudo dnf upgrade -y --refresh", "sudo dnf install -y kernel-devel-matched kernel-headers"],
        "{said:?}"
    );
    assert!(said[2].contains("echo 5.14.0-570") && !said[2].contains("modinfo"), "{said:?}");
    assert_eq!(said[3..], ["sudo reboot"], "{said:?}");
}

#[test]
fn the_commands_stop_before_the_reboot_if_no_kernel_with_p2pdma_was_installed() {
    let status =
        |kernel: &str| vec![command(&["dkms", "status"], &format!("nvidia/580.95.05, {kernel}, x86_64: installed\n"))];
    for (release, old, new) in [
        (UBUNTU, "5.15.0-139-generic", "6.8.0-60-generic"),
        (ROCKY, "5.14.0-427.13.1.el9_4.x86_64", "5.14.0-570.12.1.el9_6.x86_64"),
    ] {
        let plan = plan(release, old, status(old));
        assert!(dry(&plan, &[new], &["nvidia"]).1, "{new}");
        let (told, ended) = dry(&plan, &[old], &["nvidia"]);
        assert_eq!((told, ended), (Vec::new(), false), "{old}");
    }
}

#[test]
fn kernels_that_are_held_back_are_released_first() {
    let status = "Package: linux-image-amd64\nStatus: hold ok installed\nVersion: 6.1\n\nPackage: bash\nStatus: hold ok installed\n\nPackage: linux-headers-amd64\nStatus: install ok installed\n";
    for (release, edits, wanted) in [
        (DEBIAN, vec![put("files/var/lib/dpkg/status", status)], "sudo apt-mark unhold linux-image-amd64"),
        (
            DEBIAN,
            vec![put(
                "files/etc/apt/preferences.d/kernel",
                "Package: linux-image-*\nPin: version 6.1*\nPin-Priority: 1001\n",
            )],
            "sudoedit /etc/apt/preferences.d/kernel",
        ),
        (
            ROCKY,
            vec![put("files/etc/dnf/plugins/versionlock.list", "# lock\nkernel-core-0:5.14.0-427.13.1.el9_4.*\n")],
            "sudo dnf versionlock delete 'kernel*'",
        ),
        (ROCKY, vec![put("files/etc/dnf/dnf.conf", "[main]\nexclude=kernel* nvidia*\n")], "sudoedit /etc/dnf/dnf.conf"),
        (
            SLES,
            vec![put("files/etc/zypp/locks", "\ntype: package\nmatch_type: glob\nsolvable_name: kernel-default\n")],
            "sudo zypper removelock kernel-default",
        ),
    ] {
        let plan = plan(release, "6.1.0-28-amd64", edits);
        assert_eq!(lines(&plan)[0], wanted, "{release}");
        assert!(plan.why.contains("Kernels are held"), "{}", plan.why);
    }
    assert!(!plan(DEBIAN, "6.1.0-28-amd64", Vec::new()).why.contains("Kernels are held"));
}

#[test]
fn backports_that_are_there_are_not_added_again() {
    for path in ["files/etc/apt/sources.list", "files/etc/apt/sources.list.d/debian.sources"] {
        let edit = put(path, "Suites: bookworm bookworm-backports\n");
        let plan = plan(DEBIAN, "6.1.0-28-amd64", vec![edit]);
        assert!(!plan.changes.iter().any(|change| matches!(change, Change::WriteFile { .. })), "{path}");
    }
    let edit = put(
        "files/etc/apt/sources.list.d/bookworm-backports.list",
        "# deb http://x bookworm-backports main\ndeb http://mirror/ours bookworm main",
    );
    let plan = plan(DEBIAN, "6.1.0-28-amd64", vec![edit]);
    let Some(Change::WriteFile { before: Some(before), after, .. }) = plan.changes.first() else { panic!("{plan:?}") };
    assert_eq!(after, &format!("{before}\ndeb http://deb.debian.org/debian bookworm-backports main\n"));
}
