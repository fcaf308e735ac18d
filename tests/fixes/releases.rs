//! Tests packages, kernels and files for each release of each distribution: the correct command, or a sentence with
//! the reason why there is none.

use crate::machine::*;
use gds_top::checks;
use gds_top::core::{Change, FixPlan};
use gds_top::fixes;
use gds_top::machine::Root;

const RELEASE: &str = "files/etc/os-release";
const UBUNTU_20: &str = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"20.04\"\nPRETTY_NAME=\"Ubuntu 20.04.6 LTS\"\n";
const UBUNTU_22: &str = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"22.04\"\n";
const UBUNTU_24: &str = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n";
const UBUNTU_26: &str = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"26.04\"\n";
const DEBIAN_11: &str = "ID=debian\nVERSION_ID=\"11\"\nVERSION_CODENAME=bullseye\n";
const DEBIAN_12: &str = "ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n";
const DEBIAN_13: &str = "ID=debian\nVERSION_ID=\"13\"\nVERSION_CODENAME=trixie\n";
const RHEL_8: &str = "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"8.10\"\nPLATFORM_ID=\"platform:el8\"\n";
const RHEL_9: &str = "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\nPLATFORM_ID=\"platform:el9\"\n";
const RHEL_10: &str = "ID=\"rhel\"\nID_LIKE=\"centos fedora\"\nVERSION_ID=\"10.1\"\nPLATFORM_ID=\"platform:el10\"\n";
const ROCKY_9: &str =
    "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\nPLATFORM_ID=\"platform:el9\"\n";
const ORACLE_9: &str = "ID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.6\"\n";
const SLES_15_5: &str = "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.5\"\n";
const SLES_15_6: &str = "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\n";
const SLES_16: &str = "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"16.0\"\n";
const LEAP_15_5: &str = "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"15.5\"\n";
const AMAZON: &str = "ID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\n";
const AMAZON_2: &str = "ID=\"amzn\"\nID_LIKE=\"centos rhel fedora\"\nVERSION_ID=\"2\"\n";
const AZURE: &str = "ID=azurelinux\nVERSION_ID=\"3.0\"\n";
const ALIBABA: &str =
    "ID=\"alinux\"\nID_LIKE=\"rhel fedora centos anolis\"\nVERSION_ID=\"3\"\nPLATFORM_ID=\"platform:al8\"\n";
const NOBARA: &str = "ID=nobara\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=42\nPLATFORM_ID=\"platform:f42\"\n";
const MINT: &str = "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"20.3\"\nUBUNTU_CODENAME=focal\n";

fn plan_with(release: &'static str, id: &str, mut edits: Vec<Edit>) -> FixPlan {
    edits.push(put(RELEASE, release));
    let folder = build("p2pdma-two-steps", &edits);
    let root = Root::folder(folder.path()).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    fixes::plan_by_id(&root, &report, id.parse().unwrap()).unwrap_or_else(|| panic!("{release}: {id} has no plan"))
}

fn plan(release: &'static str, id: &str) -> FixPlan {
    plan_with(release, id, Vec::new())
}

fn kernel(release: &'static str) -> Edit {
    put("files/proc/sys/kernel/osrelease", release)
}

fn lines(plan: &FixPlan) -> Vec<String> {
    let of = |change: &Change| match change {
        Change::Run { argv } => gds_top::text::quoted_line(argv),
        Change::WriteFile { path, after, .. } => format!("{}: {}", path.display(), after.trim_end()),
    };
    plan.changes.iter().map(of).collect()
}

#[test]
fn a_kernel_for_p2pdma_comes_with_its_headers_if_the_release_has_one() {
    const DEVEL: &str = "sudo dnf install -y kernel-devel-matched kernel-headers";
    let rows: &[(&'static str, &'static str, &[&str])] = &[
        (
            UBUNTU_22,
            "5.15.0-139-generic",
            &["sudo apt-get install -y linux-generic-hwe-22.04 linux-headers-generic-hwe-22.04"],
        ),
        (
            UBUNTU_22,
            "5.15.0-1050-generic-64k",
            &["sudo apt-get install -y linux-generic-64k-hwe-22.04 linux-headers-generic-64k-hwe-22.04"],
        ),
        (UBUNTU_22, "5.15.0-1080-aws", &["sudo apt-get install -y linux-aws linux-headers-aws"]),
        (
            UBUNTU_22,
            "5.15.0-1040-nvidia",
            &["sudo apt-get install -y linux-image-nvidia-hwe-22.04 linux-headers-nvidia-hwe-22.04"],
        ),
        (
            UBUNTU_24,
            "6.8.0-60-generic",
            &["sudo apt-get install -y linux-generic-hwe-24.04 linux-headers-generic-hwe-24.04"],
        ),
        (UBUNTU_26, "6.1.0-1-generic", &["sudo apt-get install -y linux-generic linux-headers-generic"]),
        (
            DEBIAN_12,
            "6.1.0-28-amd64",
            &[
                "/etc/apt/sources.list.d/bookworm-backports.list: deb http://deb.debian.org/debian bookworm-backports main",
                "sudo apt-get update",
                "sudo apt-get install -y -t bookworm-backports linux-image-amd64 linux-headers-amd64",
            ],
        ),
        (DEBIAN_13, "6.1.0-28-amd64", &["sudo apt-get install -y linux-image-amd64 linux-headers-amd64"]),
        (
            DEBIAN_13,
            "6.1.0-28-cloud-amd64",
            &["sudo apt-get install -y linux-image-cloud-amd64 linux-headers-cloud-amd64"],
        ),
        (RHEL_9, "5.14.0-427.13.1.el9_4.x86_64", &["sudo dnf upgrade -y --refresh", DEVEL]),
        (
            RHEL_9,
            "5.14.0-427.13.1.el9_4.aarch64+64k",
            &["sudo dnf upgrade -y --refresh", "sudo dnf install -y kernel-64k-devel-matched kernel-headers"],
        ),
        (RHEL_10, "6.12.0-55.el10.x86_64", &["sudo dnf upgrade -y kernel", DEVEL]),
        (NOBARA, "6.1.0-1.fc42.x86_64", &["sudo dnf upgrade -y kernel", DEVEL]),
        (
            ORACLE_9,
            "5.15.0-310.el9uek.x86_64",
            &[
                "sudo dnf config-manager --enable ol9_UEKR8",
                "sudo dnf upgrade -y --refresh kernel-uek",
                "sudo dnf install -y kernel-uek-devel kernel-headers",
            ],
        ),
        (
            SLES_15_5,
            "5.14.21-150500.55.100-default",
            &[
                "sudo zypper migration --non-interactive --auto-agree-with-licenses",
                "sudo zypper --non-interactive install kernel-default-devel",
            ],
        ),
        (
            SLES_16,
            "6.12.0-160000.5-default",
            &[
                "sudo zypper --non-interactive update kernel-default",
                "sudo zypper --non-interactive install kernel-default-devel",
            ],
        ),
        (
            SLES_15_6,
            "6.4.0-150600.8.8-azure",
            &[
                "sudo zypper --non-interactive update kernel-azure",
                "sudo zypper --non-interactive install kernel-azure-devel",
            ],
        ),
        (
            AMAZON,
            "6.1.150-174.273.amzn2023.x86_64",
            &[
                "sudo dnf install -y --allowerasing kernel6.12 kernel6.12-devel kernel6.12-headers kernel6.12-modules-extra",
            ],
        ),
        (
            AZURE,
            "6.6.96.2-2.azl3",
            &["sudo tdnf upgrade -y kernel", "sudo tdnf install -y kernel-devel kernel-headers"],
        ),
    ];
    for (release, running, wanted) in rows {
        let plan = plan_with(release, "kernel-p2pdma", vec![kernel(running)]);
        assert!(
            lines(&plan).starts_with(&wanted.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()),
            "{release}: {:#?}",
            lines(&plan)
        );
        assert_eq!(plan.obstacle, None, "{release}");
        assert_eq!(lines(&plan).last().unwrap(), "sudo reboot");
    }
    let arm = put("files/proc/sys/kernel/arch", "aarch64\n");
    let plan = plan_with(DEBIAN_12, "kernel-p2pdma", vec![kernel("6.1.0-28-arm64"), arm]);
    assert!(lines(&plan)[2].ends_with("linux-image-arm64 linux-headers-arm64"), "{:?}", lines(&plan));
}

#[test]
fn a_release_without_such_a_kernel_gets_a_sentence() {
    for (release, words) in [
        (UBUNTU_20, "Ubuntu 20.04.6 LTS has no such kernel; its newest is 5.15"),
        (MINT, "Update to Ubuntu 24.04"),
        (DEBIAN_11, "Update to Debian 13"),
        (RHEL_8, "leapp upgrade"),
        (LEAP_15_5, "--releasever=15.6 dup"),
        (AMAZON_2, "Amazon Linux 2023"),
        (ALIBABA, "gds-top does not know the kernels"),
    ] {
        let plan = plan(release, "kernel-p2pdma");
        assert!(plan.obstacle.as_ref().is_some_and(|why| why.contains(words)), "{release}: {:?}", plan.obstacle);
        assert!(plan.changes.is_empty(), "{release}: {:?}", lines(&plan));
    }
}

#[test]
fn amazons_kernel_becomes_the_default_after_its_modules_and_is_not_installed_where_it_runs() {
    let status = command(&["dkms", "status"], "nvidia/580.95.05, 6.1.150-174.273.amzn2023.x86_64, x86_64: installed\n");
    let plan = plan_with(AMAZON, "kernel-p2pdma", vec![kernel("6.1.150-174.273.amzn2023.x86_64"), status]);
    let said = lines(&plan);
    let at = |part: &str| said.iter().position(|line| line.contains(part)).unwrap();
    assert!(at("dkms autoinstall") < at("modinfo") && at("modinfo") < at("grubby --set-default"), "{said:#?}");
    assert_eq!(at("sudo reboot"), at("grubby --set-default") + 1, "{said:#?}");
    let present = plan_with(AMAZON, "kernel-p2pdma", vec![kernel("6.12.55-74.119.amzn2023.x86_64")]);
    assert!(present.changes.is_empty(), "{:#?}", lines(&present));
    assert!(present.obstacle.is_some_and(|why| why.contains("its newest is 6.12")));
}

#[test]
fn the_archive_of_debian_is_named_for_backports_that_its_server_no_longer_has() {
    let why = |release| plan(release, "kernel-p2pdma").why;
    assert!(why(DEBIAN_12).contains("http://archive.debian.org/debian"), "{}", why(DEBIAN_12));
    assert!(!why(UBUNTU_24).contains("archive.debian.org"), "{}", why(UBUNTU_24));
}

#[test]
fn the_repository_is_that_of_the_release_and_brings_dkms() {
    for (release, wanted) in [
        (
            UBUNTU_20,
            "wget https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64/cuda-keyring_1.1-1_all.deb",
        ),
        (RHEL_8, "sudo subscription-manager repos --enable=codeready-builder-for-rhel-8-x86_64-rpms"),
        (RHEL_10, "sudo dnf install -y https://dl.fedoraproject.org/pub/epel/epel-release-latest-10.noarch.rpm"),
        (ROCKY_9, "sudo dnf config-manager --set-enabled crb"),
        (ORACLE_9, "sudo dnf install -y oracle-epel-release-el9"),
        (
            SLES_16,
            "sudo zypper addrepo https://developer.download.nvidia.com/compute/cuda/repos/suse16/x86_64/cuda-suse16.repo",
        ),
        (
            AZURE,
            "sudo curl -o /etc/yum.repos.d/cuda-azl3.repo https://developer.download.nvidia.com/compute/cuda/repos/azl3/x86_64/cuda-azl3.repo",
        ),
        (
            NOBARA,
            "sudo dnf config-manager addrepo --from-repofile=https://developer.download.nvidia.com/compute/cuda/repos/fedora42/x86_64/cuda-fedora42.repo",
        ),
    ] {
        let plan = plan(release, "nvidia-repository");
        assert!(lines(&plan).iter().any(|line| line == wanted), "{release}: {:?}", lines(&plan));
        assert_eq!(plan.obstacle, None, "{release}");
    }
    for release in [ALIBABA, AMAZON_2, "ID=debian\nVERSION_ID=\"14\"\n", "ID=sles\nVERSION_ID=\"12.5\"\nID_LIKE=suse\n"]
    {
        let plan = plan(release, "nvidia-repository");
        assert!(
            plan.obstacle.as_ref().is_some_and(|why| why.contains("no repository")
                || why.contains("NVIDIA has no")
                || why.contains("only has")
                || why.contains("not known")),
            "{release}: {:?}",
            plan.obstacle
        );
    }
}

#[test]
fn the_driver_is_installed_with_the_headers_that_dkms_builds_it_against() {
    for (release, running, wanted) in [
        (UBUNTU_24, "6.8.0-1030-aws", "sudo apt-get install -y linux-headers-6.8.0-1030-aws"),
        (
            RHEL_9,
            "5.14.0-570.17.1.el9_6.x86_64",
            "sudo dnf install -y kernel-devel-5.14.0-570.17.1.el9_6.x86_64 kernel-headers",
        ),
        (
            ORACLE_9,
            "6.12.0-100.28.2.el9uek.x86_64",
            "sudo dnf install -y kernel-uek-devel-6.12.0-100.28.2.el9uek.x86_64 kernel-headers",
        ),
        (
            AMAZON,
            "6.1.150-174.273.amzn2023.x86_64",
            "sudo dnf install -y kernel-devel-6.1.150-174.273.amzn2023.x86_64 kernel-headers-6.1.150-174.273.amzn2023.x86_64 kernel-modules-extra-6.1.150-174.273.amzn2023.x86_64",
        ),
        (
            AMAZON,
            "6.12.46-66.121.amzn2023.x86_64",
            "sudo dnf install -y kernel6.12-devel-6.12.46-66.121.amzn2023.x86_64 kernel6.12-headers-6.12.46-66.121.amzn2023.x86_64 kernel6.12-modules-extra-6.12.46-66.121.amzn2023.x86_64",
        ),
        (AZURE, "6.6.96.2-2.azl3", "sudo tdnf install -y kernel-devel-6.6.96.2-2.azl3 kernel-headers"),
        (
            SLES_15_5,
            "5.14.21-150500.55.100-azure",
            "sudo zypper --non-interactive install kernel-azure-devel=5.14.21-150500.55.100",
        ),
    ] {
        let plan = plan_with(release, "nvidia-driver-open", vec![kernel(running)]);
        let lines = lines(&plan);
        assert_eq!(lines.iter().find(|line| *line != "sudo apt-get update").unwrap(), wanted, "{release}");
        assert_eq!(lines[0] == "sudo apt-get update", release == UBUNTU_24, "{release}: {lines:?}");
        assert_eq!(lines.last().unwrap(), "sudo reboot");
        let is_module = |line: &String| line.contains("dnf module");
        assert_eq!(lines.iter().any(is_module), [RHEL_9, ORACLE_9, AMAZON].contains(&release), "{release}");
    }
}

#[test]
fn packages_of_debian_and_sles_come_with_what_they_depend_on() {
    const CONTRIB: &str = "/etc/apt/sources.list.d/contrib.list: deb http://mirror.example/debian trixie contrib";
    const SOURCES: &str = "files/etc/apt/sources.list.d/debian.sources";
    let debian = |components: &str| {
        let text =
            format!("Types: deb\nURIs: http://mirror.example/debian/\nSuites: trixie\nComponents: {components}\n");
        lines(&plan_with(DEBIAN_13, "nvidia-repository", vec![put(SOURCES, text)]))
    };
    assert_eq!(debian("main non-free-firmware")[0], CONTRIB);
    assert!(debian("main contrib")[0].starts_with("wget "), "contrib is configured");
    let ubuntu = lines(&plan(UBUNTU_24, "nvidia-repository"));
    assert!(!ubuntu.iter().any(|line| line.contains("contrib")), "{ubuntu:?}");
    // If the repository is configured, the plan of the driver adds what is missing.
    let cuda = put("files/etc/apt/sources.list.d/cuda.list", "deb https://developer.download.nvidia.com/compute/ /\n");
    let driver = lines(&plan_with(DEBIAN_13, "nvidia-driver-open", vec![cuda]));
    assert!(driver[0].ends_with("trixie contrib") && driver[1] == "sudo apt-get update", "{driver:?}");

    let hub = |edits| lines(&plan_with(SLES_15_6, "nvidia-repository", edits))[0].clone();
    assert_eq!(hub(Vec::new()), "sudo SUSEConnect --product PackageHub/15.6/x86_64");
    let service = put("files/etc/zypp/services.d/SUSE_Package_Hub_15_SP6_x86_64.service", "");
    assert!(hub(vec![service]).starts_with("sudo zypper addrepo"));
    assert!(lines(&plan(LEAP_15_5, "nvidia-repository"))[0].starts_with("sudo zypper addrepo"));
}

#[test]
fn modules_of_dkms_are_allowed_on_sles_only() {
    const FILE: &str = "/etc/modprobe.d/10-unsupported-modules.conf";
    let change = |release, edits| {
        let plan = plan_with(release, "nvfs-install", edits);
        lines(&plan).into_iter().find(|line| line.starts_with(FILE))
    };
    assert_eq!(change(SLES_15_6, Vec::new()), Some(format!("{FILE}: allow_unsupported_modules 1")));
    let denied = put(format!("files{FILE}"), "# ours\nallow_unsupported_modules 0\n");
    assert_eq!(change(SLES_16, vec![denied]), Some(format!("{FILE}: # ours\nallow_unsupported_modules 1")));
    assert_eq!(change(SLES_16, vec![put(format!("files{FILE}"), "allow_unsupported_modules 1\n")]), None);
    assert_eq!([change(LEAP_15_5, Vec::new()), change(UBUNTU_24, Vec::new())], [None, None]);
}

#[test]
fn modules_for_uek_8_are_built_by_its_compiler() {
    const UEK_8: &str = "6.12.0-100.28.2.el9uek.x86_64";
    let build = format!("sudo sh -c '. /opt/rh/gcc-toolset-14/enable; dkms autoinstall -k {UEK_8}'");
    for id in ["nvidia-driver-open", "nvfs-install", "nvme-patch"] {
        let plan = plan_with(ORACLE_9, id, vec![kernel(UEK_8)]);
        let at = |part: &str| lines(&plan).iter().position(|line| line.contains(part));
        assert!(at(&build) > at("dnf"), "{id}: {:#?}", lines(&plan));
        assert!(plan.why.contains("gcc-toolset-14"), "{id}: {}", plan.why);
        let older = plan_with(ORACLE_9, id, vec![kernel("5.15.0-310.184.5.2.el9uek.x86_64")]);
        assert!(!lines(&older).iter().any(|line| line.contains("gcc-toolset")), "{id}: {:#?}", lines(&older));
    }
    let status = said(&["dkms", "status"], "nvidia/580.95.05, 5.15.0-310.el9uek.x86_64, x86_64: installed\n");
    let plan =
        plan_with(ORACLE_9, "kernel-p2pdma", vec![kernel("5.15.0-310.el9uek.x86_64"), set(COMMANDS, "/-", status)]);
    assert!(
        lines(&plan).iter().any(|line| line.contains("/opt/rh/gcc-toolset-14/enable; dkms autoinstall -k \"$new\"")),
        "{:#?}",
        lines(&plan)
    );
}

#[test]
fn the_output_of_dkms_2_is_parsed() {
    let status = said(&["dkms", "status"], "nvidia-fs, 2.17.5, 5.15.0-130-generic, x86_64: installed\n");
    let plan = plan_with(UBUNTU_20, "nvfs-dkms", vec![kernel("5.15.0-139-generic"), set(COMMANDS, "/-", status)]);
    assert_eq!(plan.obstacle, None);
    assert!(lines(&plan).iter().any(|line| line == "sudo dkms install --force nvidia-fs/2.17.5 -k 5.15.0-139-generic"));
}

#[test]
fn a_line_of_grub_that_a_later_file_sets_anew_is_extended_there() {
    const CLOUD: &str = "files/etc/default/grub.d/50-cloudimg-settings.cfg";
    let edits = || {
        vec![
            put("files/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"),
            put(CLOUD, "GRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1 console=ttyS0\"\n"),
        ]
    };
    // A line in another form is not edited.
    let unusual = vec![put("files/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\" # ours\n")];
    for edits in [edits(), unusual] {
        assert_eq!(
            lines(&plan_with(UBUNTU_24, "iommu-off", edits))[0],
            "/etc/default/grub.d/zz-gds-top.cfg: GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt\""
        );
    }
    let mut other = edits();
    other[1] = put(CLOUD, "GRUB_TIMEOUT=0\n");
    assert!(lines(&plan_with(UBUNTU_24, "iommu-off", other))[0].starts_with("/etc/default/grub: "));
}

#[test]
fn a_word_that_a_later_file_takes_out_of_effect_is_told_so() {
    let folder = build(
        "p2pdma-two-steps",
        &[
            put(
                "files/etc/default/grub",
                "GRUB_CMDLINE_LINUX=\"nokaslr\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"\n",
            ),
            put("files/etc/default/grub.d/50-cloudimg-settings.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"console=ttyS0\"\n"),
            put(
                "files/etc/default/grub.d/60-ours.cfg",
                "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT amd_iommu=off\"\n",
            ),
        ],
    );
    let root = Root::folder(folder.path()).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    let said: Vec<&str> = report.finding("reboot-pending").unwrap().evidence.iter().map(|e| e.text.as_str()).collect();
    assert_eq!(said[0], "nokaslr");
    assert!(said[1].starts_with("iommu=pt, without effect: /etc/default/grub.d/50-cloudimg-settings.cfg"), "{said:?}");
    assert_eq!(said[2], "amd_iommu=off");
}

#[test]
fn an_ubuntu_with_dracut_alone_rebuilds_with_it() {
    let dracut = put("files/usr/bin/dracut", "");
    let plan = plan_with(UBUNTU_26, "initramfs", vec![dracut]);
    assert_eq!(lines(&plan), ["sudo dracut -f --regenerate-all"]);
    let both = vec![put("files/usr/bin/dracut", ""), put("files/usr/sbin/update-initramfs", "")];
    assert_eq!(lines(&plan_with(UBUNTU_26, "initramfs", both)), ["sudo update-initramfs -u -k all"]);
}

#[test]
fn nothing_is_written_to_an_etc_that_is_made_of_something_else() {
    for (release, words) in
        [("ID=nixos\n", "configuration.nix"), ("ID=talos\n", "GPU Operator"), ("ID=bottlerocket\n", "GPU Operator")]
    {
        for id in ["nvfs-load", "memlock", "md-udev"] {
            let plan = plan(release, id);
            assert!(
                plan.obstacle.as_ref().is_some_and(|why| why.contains(words)),
                "{release} {id}: {:?}",
                plan.obstacle
            );
        }
        assert!(!lines(&plan(release, "kernel-p2pdma")).iter().any(|line| line.contains("apt-get")), "{release}");
    }
    assert_eq!(plan("ID='flatcar'\nID_LIKE='coreos'\n", "nvfs-load").obstacle, None, "its /etc lasts");
}

#[test]
fn a_module_that_somebody_keeps_out_is_not_loaded_behind_their_back() {
    const FILE: &str = "files/etc/modprobe.d/hardening.conf";
    let plan = plan_with(UBUNTU_24, "nvfs-load", vec![put(FILE, "install nvidia_fs /bin/false\n")]);
    assert!(
        plan.obstacle.as_ref().is_some_and(|why| why.contains("hardening.conf disables modprobe")),
        "{:?}",
        plan.obstacle
    );
    let plan = plan_with(UBUNTU_24, "nvfs-load", vec![put(FILE, "blacklist nvidia-fs\n")]);
    assert_eq!(plan.obstacle, None);
    assert!(
        plan.remaining.iter().any(|left| left.contains("remove 'blacklist nvidia-fs' from")),
        "{:?}",
        plan.remaining
    );
}

#[test]
fn a_link_in_the_place_of_os_release_is_followed_inside_the_machine() {
    let folder = build(
        "p2pdma-two-steps",
        &[
            crate::machine::without(RELEASE),
            put("files/usr/lib/os-release", "ID='debian'\nVERSION_ID='13'\n"),
            link(RELEASE, "../usr/lib/os-release"),
        ],
    );
    let root = Root::folder(folder.path()).unwrap();
    assert_eq!(gds_top::machine::os_release(&root, "ID").as_deref(), Some("debian"));
}
