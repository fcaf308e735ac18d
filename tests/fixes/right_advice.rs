//! The advice for a machine works there: the key of its builder, the driver of its provider, the tool of its container,
//! and no route that is not known to work.

use crate::copies::look;
use crate::machine::{build, put};
use gds_top::core::{Change, CheckId, FixId, FixRisk, Needs, Route, Status};
use gds_top::fixes::{guide, plan_by_id, preview};

/// The verdict's advice and the checklist as text, and the best possible route.
fn advice(name: &str) -> (String, Route) {
    let (root, report) = look(&crate::machine::fixture(name));
    let verdict = &report.verdicts[0];
    let text = format!("{}\n{}", verdict.advice, guide::text(&guide::guide(&root, &report), usize::MAX));
    (text, verdict.possible)
}

fn summary(name: &str, id: CheckId) -> (Status, String) {
    let (_, report) = look(&crate::machine::fixture(name));
    let finding = report.finding(id).unwrap();
    (finding.status, finding.summary.clone())
}

#[test]
fn advice_fits_the_machine() {
    for (name, route, wanted, unwanted) in [
        (
            "akmods-key",
            Route::P2pdma,
            &["mokutil --import /etc/pki/akmods/certs/public_key.der"][..],
            &["/var/lib/dkms", "MOK.der", "FILE"][..],
        ),
        (
            "cuda-compat-old-driver",
            Route::Nvfs,
            &["remove /usr/local/cuda-13.0/compat from LD_LIBRARY_PATH, also in the file"],
            &["caused by cuda-driver-runtime", "export LD_LIBRARY_PATH=/opt/lib"],
        ),
        (
            "lxc-no-uvm",
            Route::P2pdma,
            &["incus config device add NAME nvidia-uvm unix-char source=/dev/nvidia-uvm path=/dev/nvidia-uvm"],
            &["source=/run/udev"],
        ),
        (
            "lxc-no-uvm-proxmox",
            Route::P2pdma,
            &["sudo pct set ID --dev64 /dev/nvidia-uvm --dev65 /dev/nvidia-uvm-tools"],
            &["/run/udev,mp"],
        ),
        ("gpus-hidden-for-all", Route::P2pdma, &["unset CUDA_VISIBLE_DEVICES", "/etc/environment"], &[]),
        (
            "akmods-unsigned",
            Route::P2pdma,
            &["kmodgenca -a", "akmods --force --rebuild", "--import /etc/pki/akmods/certs/public_key.der"],
            &["/var/lib/dkms", "sign-file"],
        ),
        ("driver-key-rejected", Route::P2pdma, &["--import /var/lib/shim-signed/mok/MOK.der"], &["akmods"]),
        (
            "unlisted-gpu-no-driver",
            Route::P2pdma,
            &["public_key.der", "multipath=N"],
            &["MOK.der", "not known to work"],
        ),
        (
            "vgpu-ada-proprietary",
            Route::Nvfs,
            &["from the provider of this machine", "NVIDIA-Linux-x86_64-550.127.05-grid.run -m=kernel-open --dkms"],
            &["nvidia-driver-", "nvidia-open", "cuda-keyring"],
        ),
        (
            "ec2-p2pdma",
            Route::Compat,
            &["P2PDMA in virtual machines of Amazon EC2 is not documented"],
            &["RMForceStaticBar1", "mlnx-nvme-dkms"],
        ),
        ("azure-p2pdma", Route::Compat, &["Azure is not documented"], &["linux-nvidia", "mlnx-nvme-dkms"]),
        (
            "weka-inbox-rdma",
            Route::Rdma,
            &["doca-ofed", "dkms build --force nvidia/580.95.05 -k 6.14.0-37-generic", "dmabuf"],
            &["Run `sudo modprobe nvidia-peermem`"],
        ),
        (
            "openshift-pod-multipath",
            Route::P2pdma,
            &[
                "kernelArguments:\\n  - nvme_core.multipath=N",
                "\"kernelModuleConfig\":{\"name\":\"kernel-module-params\"}",
            ],
            &["/etc/modprobe.d", "initramfs"],
        ),
        (
            "gpfs-no-peerdirect",
            Route::Rdma,
            &["dkms build --force nvidia-fs/2.24.3", "modprobe -r nvidia_fs", "mmshutdown"],
            &[],
        ),
        (
            "nfs-rdma-other-kernel",
            Route::Nvfs,
            &[
                "dkms install mlnx-ofed-kernel/24.10.OFED.24.10.1.1.4.1 -k 6.14.0-37-generic && sudo dkms install mlnx-nfsrdma/",
                "dkms build --force nvidia-fs/2.26.6",
            ],
            &["Install an NFS client"],
        ),
        (
            "workstation-bar1",
            Route::Nvfs,
            &["small buffers only", "displaymodeselector --gpumode physical_display_disabled"],
            &["Nothing blocks"],
        ),
        (
            "modprobe-no-suffix",
            Route::P2pdma,
            &["sudo mv /etc/modprobe.d/nvidia-p2pdma /etc/modprobe.d/nvidia-p2pdma.conf"],
            &[],
        ),
        (
            "nvfs-excluded-twice",
            Route::Nvfs,
            &["'install nvidia_fs /bin/false' from /etc/modprobe.d/cis.conf and 'blacklist nvidia_fs' from"],
            &[],
        ),
        (
            "slurm-pyxis-no-udev",
            Route::P2pdma,
            &["srun --container-mounts=/run/udev:/run/udev:ro", "/etc/enroot/mounts.d"],
            &["docker", "-v /run/udev", "--device"],
        ),
        ("apptainer-no-udev", Route::P2pdma, &["--bind /run/udev:/run/udev:ro"], &["docker", "--device"]),
        ("arch-lts", Route::P2pdma, &["sudo pacman -S --needed linux-lts-headers && sudo dkms install"], &["apt"]),
        (
            "jammy-hwe",
            Route::P2pdma,
            &["apt-get install --install-recommends linux-generic-hwe-22.04"],
            &["mlnx-nvme-dkms", "linux-nvidia"],
        ),
    ] {
        let (text, possible) = advice(name);
        assert_eq!(possible, route, "{name}: {text}");
        for words in wanted {
            assert!(text.contains(words), "{name} lacks '{words}': {text}");
        }
        for words in unwanted {
            assert!(!text.contains(words), "{name} has '{words}': {text}");
        }
    }
}

#[test]
fn a_cause_is_a_finding_of_its_own() {
    for (name, id, words) in [
        ("gpfs-no-peerdirect", CheckId::NvfsPeerdirect, "built before DOCA or MLNX_OFED"),
        ("nfs-rdma-other-kernel", CheckId::NvfsRegistered, "not built for the running kernel"),
        ("modprobe-no-suffix", CheckId::GpuStaticBar1, "modprobe ignores /etc/modprobe.d/nvidia-p2pdma"),
        ("modprobe-no-suffix", CheckId::NvmeMultipath, "does not end in .conf"),
        ("akmods-key", CheckId::GpuPresent, "the key of akmods is not enrolled"),
        ("jammy-hwe", CheckId::KernelVersion, "older than 6.2"),
    ] {
        let (status, text) = summary(name, id);
        assert!(status == Status::Fail && text.contains(words), "{name}: {status:?} {text}");
    }
}

#[test]
fn a_vgpu_guest_gets_no_packages_of_a_driver() {
    let (root, report) = look(&crate::machine::fixture("vgpu-ada-proprietary"));
    for id in [FixId::NvidiaDriverOpen, FixId::NvidiaDriverProprietary] {
        let plan = plan_by_id(&root, &report, id).unwrap();
        assert!(plan.changes.is_empty(), "{}", preview(&plan, usize::MAX));
        assert!(plan.obstacle.unwrap().contains("this is a vGPU"));
    }
}

#[test]
fn bar1_of_a_workstation_card_is_enlarged_by_its_display_mode() {
    let commands = |name: &str| {
        let (root, report) = look(&crate::machine::fixture(name));
        preview(&plan_by_id(&root, &report, FixId::Bar1Large).unwrap(), usize::MAX)
    };
    assert!(commands("workstation-bar1").contains("displaymodeselector --gpumode physical_display_disabled"));
    assert!(commands("nvfs-healthy").contains("systemctl reboot --firmware-setup"));
}

#[test]
fn the_plan_for_the_nearest_gpu_names_it() {
    let (root, report) = look(&crate::machine::fixture("switch-healthy"));
    let plan = plan_by_id(&root, &report, FixId::GpuNearDisk).unwrap();
    let Some(Change::Run { argv }) = plan.changes.last() else { panic!("{:?}", plan.changes) };
    let uuid = &root.nvml().gpus[0].uuid;
    assert!(argv.contains(&format!("CUDA_VISIBLE_DEVICES={uuid}")), "{argv:?}");
}

#[test]
fn the_undo_of_a_setting_names_modules_that_the_fix_builds_for_the_next_kernel() {
    for (name, builds) in [("next-kernel-without-driver", true), ("p2pdma-two-steps", false)] {
        let (root, report) = look(&crate::machine::fixture(name));
        let alone = plan_by_id(&root, &report, FixId::P2pdmaRegistryKeys).unwrap();
        let guide = guide::guide(&root, &report);
        let guided = guide.steps.iter().flat_map(|step| &step.plans).find(|plan| plan.id == alone.id).unwrap();
        for plan in [&alone, guided] {
            let is_build =
                |change: &Change| matches!(change, Change::Run { argv } if argv.iter().any(|word| word == "dkms"));
            assert_eq!(plan.changes.iter().any(is_build), builds, "{name}: {:?}", plan.changes);
            assert_eq!(
                plan.undo.contains("Not restored: installed packages and built modules"),
                builds,
                "{}",
                plan.undo
            );
        }
    }
}

#[test]
fn a_container_of_roots_podman_is_started_by_root() {
    for (line, wanted, needs) in [
        ("rootless=0", "sudo podman run ", Needs::Root),
        ("rootless=1", "podman run ", Needs::User),
        ("", "podman run ", Needs::User),
    ] {
        let of_podman = put("files/run/.containerenv", format!("engine=\"podman-5.4\"\n{line}\n"));
        let folder = build("podman-two-parts", &[of_podman]);
        let (root, report) = look(folder.path());
        let plan = plan_by_id(&root, &report, FixId::ContainerDevices).unwrap();
        let runs = |change: &Change| match change {
            Change::Run { argv } => argv.join(" ").starts_with(wanted),
            Change::WriteFile { .. } => false,
        };
        assert!(plan.changes.iter().any(runs) && plan.needs == needs, "{line}: {plan:?}");
        assert_eq!(plan.why.contains("run podman as root"), line.is_empty(), "{}", plan.why);
    }
}

#[test]
fn a_copy_from_a_container_needs_root_and_makes_no_file_system() {
    for (name, file, copy, needs) in [
        ("docker-overlay", None, "sudo docker cp CONTAINER:", Needs::Root),
        ("podman-two-parts", Some("rootless=0\n"), "sudo podman cp CONTAINER:", Needs::Root),
        ("podman-two-parts", Some("rootless=1\n"), "podman cp CONTAINER:", Needs::User),
        ("podman-two-parts", None, "podman cp CONTAINER:", Needs::User),
    ] {
        let folder =
            build(name, &file.map(|text| put("files/run/.containerenv", text)).into_iter().collect::<Vec<_>>());
        let (root, report) = look(folder.path());
        let plan = plan_by_id(&root, &report, FixId::MoveModel).unwrap();
        assert_eq!((plan.risk, plan.needs), (FixRisk::Low, needs), "{name} {file:?}");
        let text = preview(&plan, usize::MAX);
        assert!(text.contains(&format!("$ {copy}")) && !text.contains("mkfs"), "{name} {file:?}: {text}");
        assert!(!text.contains("with care"), "{text}");
        let is_unknown = name == "podman-two-parts" && file.is_none();
        assert_eq!(plan.why.contains("run podman as root"), is_unknown, "{}", plan.why);
    }
}

#[test]
fn a_docker_daemon_of_a_user_gets_commands_without_sudo() {
    let folder = build("docker-overlay", &[put("files/proc/self/uid_map", "0 1000 1\n1 100000 65536\n")]);
    let (root, report) = look(folder.path());
    let plan = plan_by_id(&root, &report, FixId::MoveModel).unwrap();
    let text = preview(&plan, usize::MAX);
    assert!(text.contains("$ docker cp CONTAINER:") && !text.contains("sudo docker"), "{text}");
    assert!(plan.why.contains("run docker as root"), "{}", plan.why);
}

#[test]
fn the_package_of_nvidia_fs_is_described_for_its_distribution() {
    for (release, wanted, unwanted) in [
        ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n", "archives of Debian and Ubuntu", "grubby"),
        ("ID=rocky\nID_LIKE=rhel\nVERSION_ID=\"9.6\"\n", "grubby", "archives of Debian and Ubuntu"),
    ] {
        let folder = build("p2pdma-two-steps", &[put("files/etc/os-release", release)]);
        let (root, report) = look(folder.path());
        let why = plan_by_id(&root, &report, FixId::NvfsInstall).unwrap().why;
        assert!(why.contains(wanted) && !why.contains(unwanted), "{why}");
    }
}
