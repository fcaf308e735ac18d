//! A fix reports if it cannot be used: in containers, WSL, images, on other distributions, and for GPUs without a
//! direct route.

use crate::copies::look;
use crate::machine::{COMMANDS, Edit, build, put, without};
use gds_top::core::{Change, CheckId, FixId, FixPlan, Route};
use gds_top::fixes;
use gds_top::fixes::guide::{self, State};
use std::path::Path;

const RELEASE: &str = "files/etc/os-release";

fn plan_of(base: &str, edits: &[Edit], id: &str) -> FixPlan {
    let folder = build(base, edits);
    let (root, report) = look(folder.path());
    fixes::plan_by_id(&root, &report, id.parse().unwrap()).unwrap_or_else(|| panic!("{base}: {id} has no plan"))
}

fn lines(plan: &FixPlan) -> String {
    let of = |change: &Change| match change {
        Change::Run { argv } => gds_top::text::quoted_line(argv),
        Change::WriteFile { path, .. } => path.display().to_string(),
    };
    plan.changes.iter().map(of).collect::<Vec<_>>().join("\n")
}

#[test]
fn fixes_of_the_host_are_not_done_in_a_container_or_under_wsl() {
    for (base, words) in [("container-no-udev", "this is a container"), ("wsl2", "Windows Subsystem")] {
        for id in [
            "nvfs-install",
            "nvfs-load",
            "nvidia-driver-open",
            "p2pdma-registry-keys",
            "iommu-off",
            "initramfs",
            "memlock",
            "md-udev",
            "nvfs-stats",
        ] {
            let plan = plan_of(base, &[], id);
            assert!(plan.obstacle.as_ref().is_some_and(|why| why.contains(words)), "{base} {id}: {:?}", plan.obstacle);
        }
    }
    for id in ["udev-record", "cufile-p2pdma-keys"] {
        let plan = plan_of("container-no-udev", &[], id);
        assert_eq!(plan.obstacle, None, "{id} acts inside");
    }
}

#[test]
fn images_and_foreign_distributions_are_told_that_the_commands_are_not_theirs() {
    for (release, words) in [
        ("ID=arch\nPRETTY_NAME=\"Arch Linux\"\n", "but not Arch Linux"),
        ("ID=alpine\n", "but not alpine"),
        ("ID=nixos\n", "configuration.nix"),
        ("ID=flatcar\nID_LIKE=coreos\n", "GPU Operator"),
        ("ID=rhcos\nID_LIKE=\"rhel fedora\"\nOSTREE_VERSION=416\n", "OpenShift"),
        ("ID=fedora\nVERSION_ID=42\nOSTREE_VERSION=42.1\n", "rpm-ostree kargs"),
        ("ID=sl-micro\nID_LIKE=suse\nVERSION_ID=6.1\n", "transactional-update"),
    ] {
        for id in [
            "nvfs-install",
            "nvidia-driver-open",
            "initramfs",
            "p2pdma-registry-keys",
            "iommu-off",
            "libcufile-install",
            "nvidia-repository",
        ] {
            let plan = plan_of("p2pdma-two-steps", &[put(RELEASE, release)], id);
            assert!(
                plan.obstacle.as_ref().is_some_and(|why| why.contains(words)),
                "{release} {id}: {:?}",
                plan.obstacle
            );
            if words.contains("another") {
                assert!(
                    !lines(&plan).contains("apt-get") && !lines(&plan).contains("update-"),
                    "{id}: {}",
                    lines(&plan)
                );
            }
        }
        assert_eq!(
            plan_of("p2pdma-two-steps", &[put(RELEASE, release)], "cufile-p2pdma-keys").obstacle,
            None,
            "{release}"
        );
    }
}

#[test]
fn no_check_offers_a_fix_that_the_system_refuses() {
    for base in ["p2pdma-two-steps", "iommu-on", "multipath-on", "dkms-other-kernel", "secure-boot", "reboot-pending"] {
        for release in [
            "ID=arch\nPRETTY_NAME=\"Arch Linux\"\n",
            "ID=gentoo\n",
            "ID=flatcar\nID_LIKE=coreos\n",
            "ID=nixos\n",
            "ID=talos\n",
            "ID=bottlerocket\n",
            "ID=cos\n",
        ] {
            let folder = build(base, &[put(RELEASE, release)]);
            let (root, report) = look(folder.path());
            for plan in fixes::plan(&root, &report) {
                let why = plan.obstacle.unwrap_or_default();
                let is_refused = why.contains("supports the families") || why.contains("no lasting effect");
                assert!(!is_refused, "{base} {release}: {} is offered, but {why}", plan.id);
            }
        }
    }
}

#[test]
fn other_distributions_get_the_commands_of_their_tools() {
    let advice = |base: &str, id: CheckId, edits: &[Edit]| {
        let folder = build(base, edits);
        let (_, report) = look(folder.path());
        report.finding(id).and_then(|finding| finding.advice.clone()).unwrap_or_default()
    };
    let arch = put(RELEASE, "ID=arch\n");
    let keys = advice("p2pdma-two-steps", CheckId::GpuStaticBar1, &[arch.clone(), put("files/usr/bin/mkinitcpio", "")]);
    assert!(keys.contains("| sudo tee -a /etc/modprobe.d/nvidia-p2pdma.conf && sudo mkinitcpio -P`"), "{keys}");
    let menu = [
        arch,
        put("files/boot/grub/grub.cfg", ""),
        put("files/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"),
    ];
    let iommu = advice("iommu-on", CheckId::IommuState, &menu);
    assert!(iommu.contains("/&iommu=pt /' /etc/default/grub && sudo grub-mkconfig -o /boot/grub/grub.cfg`"), "{iommu}");
    let flatcar = advice("iommu-on", CheckId::IommuState, &[put(RELEASE, "ID=flatcar\n")]);
    assert!(flatcar.contains("sudo tee -a /usr/share/oem/grub.cfg"), "{flatcar}");
}

#[test]
fn commands_and_addresses_are_those_of_the_release() {
    for (release, id, wanted) in [
        (
            "ID=ubuntu\nVERSION_ID=\"24.04\"\n",
            "nvidia-repository",
            "/repos/ubuntu2404/x86_64/cuda-keyring_1.1-1_all.deb",
        ),
        (
            "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"22.1\"\nUBUNTU_CODENAME=noble\n",
            "nvidia-repository",
            "/repos/ubuntu2404/",
        ),
        (
            "ID=raspbian\nID_LIKE=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n",
            "nvidia-repository",
            "/repos/debian12/",
        ),
        ("ID=debian\nVERSION_ID=\"12\"\n", "kernel-p2pdma", "-t bookworm-backports linux-image-amd64"),
        ("ID=ubuntu\nVERSION_ID=\"22.04\"\n", "kernel-p2pdma", "linux-generic-hwe-22.04"),
        (
            "ID=rocky\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\n",
            "nvidia-repository",
            "--add-repo https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/cuda-rhel9.repo",
        ),
        (
            "ID=rocky\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\n",
            "nvidia-driver-open",
            "dnf module enable -y nvidia-driver:open-dkms",
        ),
        (
            "ID=fedora\nVERSION_ID=42\n",
            "nvidia-repository",
            "addrepo --from-repofile=https://developer.download.nvidia.com/compute/cuda/repos/fedora42/",
        ),
        (
            "ID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\n",
            "nvidia-repository",
            "/repos/amzn2023/x86_64/cuda-amzn2023.repo",
        ),
        (
            "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\n",
            "nvidia-repository",
            "/repos/sles15/x86_64/cuda-sles15.repo",
        ),
        (
            "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"15.6\"\n",
            "nvidia-repository",
            "/repos/opensuse15/",
        ),
    ] {
        let mut edits = vec![put(RELEASE, release)];
        if id == "nvidia-driver-open" {
            // An installed driver is not installed again.
            edits.extend([without("files/proc/driver"), without("files/sys/module/nvidia")]);
            edits.push(put("nvml.json", r#"{"error": "libnvidia-ml.so.1 was not found"}"#));
        }
        let plan = plan_of("p2pdma-two-steps", &edits, id);
        assert!(lines(&plan).contains(wanted), "{release}: {}", lines(&plan));
        assert_eq!(plan.obstacle, None, "{release}");
    }
    for release in [
        "ID=ubuntu\nVERSION_ID=\"24.10\"\n",
        "ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\nVERSION_ID=\"20261101\"\n",
        "ID=kali\nID_LIKE=debian\n",
    ] {
        let plan = plan_of("p2pdma-two-steps", &[put(RELEASE, release)], "nvidia-repository");
        assert!(plan.obstacle.is_some(), "{release}: {}", lines(&plan));
    }
    let fedora = plan_of("p2pdma-two-steps", &[put(RELEASE, "ID=fedora\nVERSION_ID=42\n")], "nvidia-driver-open");
    assert!(!lines(&fedora).contains("module"), "{}", lines(&fedora));
}

#[test]
fn files_of_others_keep_their_lines() {
    const MODPROBE: &str = "/etc/modprobe.d/nvidia-fs.conf";
    let plan = plan_of(
        "unknown-symbol",
        &[put("files/etc/modprobe.d/nvidia-fs.conf", "options nvidia_fs dbg_enabled=1")],
        "nvfs-load",
    );
    let written = plan.changes.iter().find_map(|change| match change {
        Change::WriteFile { path, after, .. } if path == Path::new(MODPROBE) => Some(after.as_str()),
        _ => None,
    });
    assert_eq!(written, Some("options nvidia_fs dbg_enabled=1\nsoftdep nvidia_fs pre: nvidia nvme\n"));
    let done = [
        put("files/etc/modprobe.d/nvidia-fs.conf", "softdep nvidia_fs pre: nvidia nvme\n"),
        put("files/etc/modules-load.d/nvidia_fs.conf", "nvidia_fs\n"),
    ];
    assert_eq!(lines(&plan_of("unknown-symbol", &done, "nvfs-load")), "sudo modprobe nvidia-fs");

    let theirs =
        "# tuned\noptions nvidia NVreg_OpenRmEnableUnsupportedGpus=1 NVreg_RegistryDwords=\"PeerMappingOverride=1\"\n";
    let plan = plan_of("p2pdma-two-steps", &[put("files/etc/modprobe.d/nvidia.conf", theirs)], "p2pdma-registry-keys");
    let Some(Change::WriteFile { path, after, .. }) = plan.changes.first() else { panic!("{plan:?}") };
    assert_eq!(
        path,
        Path::new("/etc/modprobe.d/nvidia.conf"),
        "the driver takes the last list only, so there must be one"
    );
    assert_eq!(
        after,
        "# tuned\noptions nvidia NVreg_OpenRmEnableUnsupportedGpus=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n"
    );
    let packaged = [put("files/usr/lib/modprobe.d/nvidia.conf", theirs)];
    assert!(
        plan_of("p2pdma-two-steps", &packaged, "p2pdma-registry-keys")
            .obstacle
            .unwrap()
            .contains("/usr/lib/modprobe.d/nvidia.conf")
    );
    let twice = [put("files/etc/modprobe.d/nvidia.conf", theirs), put("files/etc/modprobe.d/a.conf", theirs)];
    let plan = plan_of("p2pdma-two-steps", &twice, "p2pdma-registry-keys");
    let written: Vec<&Path> = plan
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::WriteFile { path, .. } => Some(path.as_path()),
            _ => None,
        })
        .collect();
    assert_eq!((written, plan.obstacle), (vec![Path::new("/etc/modprobe.d/nvidia.conf")], None), "the last list");
    let argument = [put("files/proc/cmdline", "ro nvidia.NVreg_RegistryDwords=PowerMizerEnable=1\n")];
    assert!(plan_of("p2pdma-two-steps", &argument, "p2pdma-registry-keys").obstacle.unwrap().contains("command line"));

    let grub = [put("files/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n")];
    let plan = plan_of("iommu-on", &grub, "iommu-off");
    assert!(
        fixes::preview(&plan, usize::MAX).contains("+GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\""),
        "{}",
        fixes::preview(&plan, usize::MAX)
    );
    assert!(!plan_of("grace", &[], "iommu-off").obstacle.unwrap().is_empty(), "Grace wants it on");
}

#[test]
fn a_module_without_a_signature_is_built_again_before_its_key_is_enrolled() {
    let known = [put(
        COMMANDS,
        r#"[{"argv": ["dkms", "status"], "exit_code": 0, "stdout": "nvidia-fs/2.26.6, 6.14.0-37-generic, x86_64: installed\n", "stderr": ""},
            {"argv": ["modinfo", "nvidia_fs"], "exit_code": 0, "stdout": "filename: /lib/modules/6.14.0-37-generic/updates/dkms/nvidia-fs.ko\nversion: 2.26.6\n", "stderr": ""},
            {"argv": ["mokutil", "--sb-state"], "exit_code": 0, "stdout": "SecureBoot enabled\n", "stderr": ""}]"#,
    )];
    let folder = build("secure-boot-unsigned", &known);
    let (root, report) = look(folder.path());
    let finding = report.finding("nvfs-secureboot").unwrap();
    assert!(finding.summary.contains("not signed"), "{}", finding.summary);
    let plan = fixes::plan_by_id(&root, &report, FixId::SecureBootKey).unwrap();
    let text = lines(&plan);
    let (built, enrolled) = (text.find("dkms install --force nvidia-fs/2.26.6"), text.find("mokutil --import"));
    assert!(built.is_some() && built < enrolled, "{text}");
    assert!(
        !lines(&plan_of("secure-boot", &[], "secure-boot-key")).contains("dkms build"),
        "it is signed, only its key is not known"
    );
}

#[test]
fn the_checklist_offers_no_step_where_no_direct_route_can_be_built() {
    for (name, words) in [
        ("wsl2", "Windows Subsystem"),
        ("geforce", "GeForce"),
        ("vgpu", "vGPU"),
        ("volta", "older than Turing"),
        ("no-gpu", "no NVIDIA GPU"),
    ] {
        let folder = build(name, &[]);
        let (root, report) = look(folder.path());
        let guided = guide::guide(&root, &report);
        assert!(
            guided.reason.starts_with("No direct route is possible") && guided.reason.contains(words),
            "{name}: {}",
            guided.reason
        );
        assert!(guided.steps.iter().all(|step| step.plans.is_empty()), "{name}: {}", guide::text(&guided, usize::MAX));
        assert!(guided.steps.iter().any(|step| step.state == State::Impossible), "{name}");
    }
}

#[test]
fn permanent_blockers_are_first_unless_the_driver_is_broken() {
    for (name, place, closed, offered) in [
        ("h200-vm-no-udev", "for this path", &["vm-type"][..], &["udev-record"][..]),
        (
            "gpu-without-gsp",
            "with this GPU",
            &["gpu-open-capable"],
            &["nvidia-repository", "nvidia-driver-proprietary"],
        ),
        ("amazon-t4", "on this machine", &["gpu-p2pdma-model", "nvfs-nvme-symbol"], &[]),
        ("lvm", "for this path", &["dm-lvm"], &[]),
        ("confidential-guest-no-driver", "on this machine", &["vm-confidential"], &[]),
    ] {
        let folder = build(name, &[]);
        let (root, report) = look(folder.path());
        let verdict = &report.verdicts[0];
        // A broken driver is why no read works.
        let (first, last) = verdict.blockers.split_at(usize::from(verdict.blockers[0] == CheckId::GpuPresent));
        assert_eq!(first.is_empty(), !verdict.steps.contains(&CheckId::GpuPresent), "{name}");
        assert_eq!(last[..closed.len()], *closed, "{name}");
        assert!(!verdict.possible.is_direct() && !verdict.advice.is_empty(), "{name}");
        let answer = gds_top::present::verdict::answer(verdict).text();
        assert!(answer.contains(&format!("No direct route is possible {place} ({}).", closed.join(", "))), "{answer}");
        let guided = guide::guide(&root, &report);
        assert_eq!((guided.route, guided.steps[0].state), (Route::Compat, State::Impossible), "{name}");
        assert_eq!(guided.steps[0].checks, closed, "{name}");
        let plans: Vec<&str> = guided.steps.iter().flat_map(|step| &step.plans).map(|plan| plan.id.as_str()).collect();
        assert_eq!(plans, offered, "{name}: {}", guide::text(&guided, usize::MAX));
    }
}

#[test]
fn no_driver_is_replaced_for_a_gpu_next_to_one_with_p2pdma() {
    for machine in ["display-gpu-hidden", "display-gpu-unordered", "display-gpu-visible"] {
        let folder = build(machine, &[]);
        let (root, report) = look(folder.path());
        let guide = guide::guide(&root, &report);
        assert_eq!(guide.route, Route::P2pdma, "{machine}");
        let plans: Vec<FixId> = guide.steps.iter().flat_map(|step| &step.plans).map(|plan| plan.id).collect();
        assert!(plans.is_empty(), "{machine}: {plans:?}");
    }
}

#[test]
fn a_step_is_done_only_if_its_check_has_a_result() {
    let is_done = |base: &str, edits: &[Edit], title: &str| {
        let folder = build(base, edits);
        let (root, report) = look(folder.path());
        let guided = guide::guide(&root, &report);
        let step = guided.steps.iter().find(|step| step.title.contains(title));
        step.map(|step| step.state)
    };
    for base in ["p2pdma-healthy", "nvfs-healthy"] {
        let no_sys = [without("files/sys")];
        for title in ["IOMMU", "BAR1"] {
            let state = is_done(base, &no_sys, title);
            assert!(state != Some(State::Done) || title == "BAR1", "{base} without /sys: {title} {state:?}");
            assert!(matches!(is_done(base, &[], title), Some(State::Done) | None), "{base}: {title}");
        }
        assert_eq!(is_done(base, &[without("libcufile.json")], "libcufile opens"), Some(State::Unknown), "{base}");
    }
    assert_eq!(is_done("p2pdma-healthy", &[without("files/sys")], "multipath"), Some(State::Unknown));
    assert_eq!(is_done("p2pdma-healthy", &[without("files/proc/driver")], "BAR1 mapped"), Some(State::Unknown));
}

#[test]
fn the_rejected_module_is_the_one_that_is_signed() {
    for (name, part) in [
        ("driver-key-rejected", "NVIDIA driver"),
        ("doca-nvme-rejected", "DOCA's NVMe driver"),
        ("secure-boot", "nvidia-fs"),
    ] {
        let plan = plan_of(name, &[], "secure-boot-key");
        assert!(plan.title.contains(part) && plan.obstacle.is_none(), "{name}: {} {:?}", plan.title, plan.obstacle);
    }
    // A key cannot help a module without a signature that DKMS does not build.
    let folder = build("secure-boot-unsigned", &[]);
    let (root, report) = look(folder.path());
    let finding = report.finding("nvfs-secureboot").unwrap();
    assert_eq!(finding.fix, Some(FixId::NvfsInstall), "{}", finding.summary);
    let plan = fixes::plan_by_id(&root, &report, FixId::NvfsInstall).unwrap();
    let text = lines(&plan);
    assert!(text.find("mokutil --import") < text.find("nvidia-fs-dkms") && plan.obstacle.is_none(), "{text}");
}

#[test]
fn bridges_are_quoted_for_grub_and_keys_of_ampere_are_named() {
    // GRUB ends a command at an unquoted semicolon.
    let grub = put("files/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"\"\n");
    let plan = plan_of("acs", &[grub], "acs-redirect");
    let quoted = r#"GRUB_CMDLINE_LINUX_DEFAULT="… \"pci=disable_acs_redir=0000:b2:00.0;0000:b2:04.0\"""#;
    assert!(plan.why.contains(quoted), "{}", plan.why);
    assert!(plan.verify.starts_with("/proc/cmdline has all bridges"), "{}", plan.verify);
    let keys = |of: &str| format!("options nvidia NVreg_RegistryDwords=\"{of}\"\n");
    for (now, wanted) in [("OverrideMaxPerf=0x1", true), ("ForceP2P=0x11", true), ("ForceP2P=0", false)] {
        let folder = build(
            "p2pdma-two-steps",
            &[
                put("files/etc/modprobe.d/a.conf", keys("RMForceStaticBar1=1;RmForceDisableIomapWC=1")),
                put("files/etc/modprobe.d/b.conf", keys(now)),
                put("files/sys/bus/pci/devices/0000:be:00.0/device", "0x20b5\n"),
                crate::machine::set("nvml.json", "/gpus/0/compute_capability", serde_json::json!("8.0")),
            ],
        );
        let (_, report) = look(folder.path());
        let advice = report.finding("gpu-static-bar1").unwrap().advice.clone().unwrap();
        assert_eq!(
            advice.contains(";ForceP2P=0 to NVreg_RegistryDwords in /etc/modprobe.d/b.conf"),
            wanted,
            "{advice}"
        );
    }
}

#[test]
fn an_unreadable_configuration_is_made_readable_as_its_check_advises() {
    let folder = build("unreadable-cufile-json", &[]);
    let (root, report) = look(folder.path());
    let advice = report.finding("cfg-parse").unwrap().advice.clone().unwrap();
    let plan = fixes::plan_by_id(&root, &report, FixId::CufileConfig).unwrap();
    assert_eq!(lines(&plan), "sudo chmod a+r /etc/cufile.json");
    assert!(advice.contains(&lines(&plan)), "{advice}");
}

#[test]
fn undo_removes_no_package_that_the_fix_did_not_name() {
    for (release, wanted) in [
        ("ID=debian\nVERSION_ID=12\n", "'sudo apt-get remove nvidia-fs-dkms'"),
        ("ID=rocky\nVERSION_ID=9.6\n", "'sudo dnf remove --setopt=clean_requirements_on_remove=False nvidia-fs-dkms'"),
        ("ID=azurelinux\nVERSION_ID=3.0\n", "'sudo tdnf remove --noautoremove nvidia-fs-dkms'"),
        ("ID=sles\nVERSION_ID=15.6\n", "'sudo zypper remove nvidia-fs-dkms'"),
    ] {
        let plan = plan_of("p2pdma-two-steps", &[put(RELEASE, release)], "nvfs-install");
        assert!(plan.undo.contains(wanted) && plan.undo.contains("keeps its dependencies"), "{}", plan.undo);
    }
}

#[test]
fn a_step_that_waits_for_something_shows_what_it_waits_for() {
    for (name, words) in [
        ("container-no-devices", "docker run --gpus all"),
        ("slim-image", "lib-deps"),
        ("new-kernel-no-driver", "dkms install nvidia/580.95.05"),
    ] {
        let folder = build(name, &[]);
        let (root, report) = look(folder.path());
        let guided = guide::guide(&root, &report);
        let text = guide::text(&guided, usize::MAX);
        assert!(text.contains(words), "{name}: {text}");
        assert!(guided.steps.iter().all(|step| step.state != State::Impossible), "{name}: {text}");
    }
}

#[test]
fn a_limit_that_is_set_is_not_written_again() {
    let line = [put("files/etc/security/limits.d/99-gds.conf", "* - memlock unlimited\n")];
    let plan = plan_of("p2pdma-two-steps", &line, "memlock");
    assert!(plan.changes.is_empty() && plan.obstacle.unwrap().contains("already"));
}
