//! Machines rebuilt from reports: the steps, their order and the commands of the advice.

use crate::fixtures::check;
use crate::machine::{self, build, put};
use gds_top::core::{CheckId, Finding, FixId, Route, Status};

/// Machine, current route, best possible route, and the steps in order.
type Row = (&'static str, Route, Route, &'static [&'static str]);

const TABLE: &[Row] = &[
    ("nvfs-page-tables", Route::None, Route::Nvfs, &["nvfs-errors"]),
    ("h20-stock-nvme", Route::Compat, Route::P2pdma, &["gpu-static-bar1", "cfg-p2p-both"]),
    ("unlisted-host-bridges", Route::None, Route::Nvfs, &["nvfs-nvme-symbol", "iommu-state"]),
    ("azure-remote-disk", Route::Compat, Route::Compat, &[]),
    ("google-local-ssd", Route::Compat, Route::Compat, &[]),
    ("amazon-a10g-ebs", Route::Compat, Route::Compat, &[]),
    ("vgpu-virtio", Route::Compat, Route::Compat, &[]),
    ("tumbleweed-btrfs", Route::None, Route::Compat, &["fs-type"]),
    ("beegfs-tcp", Route::Compat, Route::Nvfs, &["rdma-stack", "driver-flavour", "nvfs-loaded", "nvfs-registered"]),
    ("beegfs-not-built", Route::Compat, Route::Nvfs, &["nvfs-registered"]),
    ("vast-tcp", Route::Compat, Route::Nvfs, &["nfs-rdma", "nvfs-registered"]),
    ("rocky-8-stock-nvme", Route::None, Route::Nvfs, &["nvfs-nvme-symbol"]),
    ("misspelt-keys", Route::None, Route::P2pdma, &["cfg-p2p-both"]),
    ("pod-overlay", Route::None, Route::Compat, &["cuda-driver-runtime"]),
    ("docker-overlay", Route::None, Route::Compat, &["fs-type", "udev-database"]),
    ("nvfs-build-fails", Route::Compat, Route::P2pdma, &["gpu-static-bar1", "nvme-multipath", "cfg-p2p-both"]),
    ("nvfs-mok", Route::Compat, Route::P2pdma, &["gpu-static-bar1", "nvme-multipath", "cfg-p2p-both"]),
    ("nvfs-old-for-driver", Route::Compat, Route::Nvfs, &["nvfs-dkms"]),
    ("gb200-secure-boot", Route::None, Route::C2c, &["gpu-present", "cfg-p2p-both"]),
    ("fsx-lustre-tcp", Route::Compat, Route::Nvfs, &["fs-type", "nvfs-loaded"]),
    ("gpfs-foreign-address", Route::Compat, Route::Rdma, &["rdma-ips"]),
];

#[test]
fn the_steps_are_counted_and_ordered() {
    let mut wrong = Vec::new();
    for (name, route, possible, steps) in TABLE {
        let report = check(name);
        let verdict = &report.verdicts[0];
        if (verdict.route, verdict.possible) != (*route, *possible) || verdict.steps != *steps {
            wrong.push(format!("{name}: {} to {}, steps {:?}", verdict.route, verdict.possible, verdict.steps));
        }
        for finding in &report.findings {
            let known = finding.id.spec().blocks;
            assert!(finding.blocks.iter().all(|route| known.contains(route)), "{name}: {}", finding.id);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn finding(name: &str, id: &str) -> Finding {
    check(name).finding(id).unwrap_or_else(|| panic!("{name}: no {id}")).clone()
}

fn advice(name: &str, id: &str) -> String {
    finding(name, id).advice.unwrap_or_default()
}

#[test]
fn a_crash_of_nvidia_fs_blocks_reads_and_names_the_build_for_the_driver() {
    let crash = finding("nvfs-page-tables", "nvfs-errors");
    assert_eq!((crash.status, crash.fix), (Status::Fail, Some(FixId::NvfsDkms)));
    assert!(crash.blocks.contains(&Route::Compat), "{:?}", crash.blocks);
    assert!(crash.advice.unwrap().contains("dkms build --force nvidia-fs/2.26.6"));
    let versions = finding("h20-stock-nvme", "nvfs-load-errors");
    assert_eq!(versions.status, Status::Warn, "{}", versions.summary);
    assert!(versions.advice.unwrap().contains("nvidia-fs 2.29 or later"));
}

#[test]
fn a_gpu_that_nvidia_does_not_list_has_a_caveat_only_for_p2pdma() {
    let caveat = |name: &str| check(name).verdicts[0].caveat.clone();
    assert!(caveat("h20-stock-nvme").is_some_and(|text| text.contains("H20")));
    assert_eq!(caveat("workstation-bar1"), None, "it reads by nvfs");
    assert_eq!(caveat("p2pdma-two-steps"), None, "NVIDIA lists it");
}

/// The list of NVIDIA changes the words of the verdict, but no route and no step.
#[test]
fn each_machine_has_the_same_steps_with_a_gpu_that_nvidia_does_not_list() {
    for name in [
        "p2pdma-healthy",
        "p2pdma-two-steps",
        "multipath-on",
        "nvme-stock",
        "keys-wait-incomplete",
        "openeuler-p2pdma",
        "arch-without-modconf",
        "nixos-two-steps",
        "iommu-on",
        "nvfs-healthy",
    ] {
        let answer = |model: &str| {
            let folder = machine::build(name, &machine::gpu(model, "8.9"));
            let verdict = machine::check(folder.path()).verdicts[0].clone();
            (verdict.route, verdict.possible, verdict.steps)
        };
        assert_eq!(answer("NVIDIA L40S"), answer("NVIDIA RTX 6000 Ada Generation"), "{name}");
    }
}

#[test]
fn a_host_bridge_that_is_not_on_the_kernels_list_blocks_p2pdma() {
    let bridges = finding("unlisted-host-bridges", "kernel-p2p-rootports");
    assert_eq!(bridges.status, Status::Warn, "another route is possible");
    let patch = advice("unlisted-host-bridges", "nvfs-nvme-symbol");
    assert!(!patch.contains("P2PDMA"), "{patch}");
    assert!(bridges.evidence.iter().any(|e| e.text.contains("8086:6f00")), "{:?}", bridges.evidence);
}

#[test]
fn virtual_disks_have_advice_that_their_cloud_allows() {
    for (name, word) in [
        ("amazon-a10g-ebs", "instance store"),
        ("azure-remote-disk", "NVMe Direct Disk"),
        ("google-local-ssd", "compat mode"),
    ] {
        let text = advice(name, "vm-type");
        assert!(text.contains(word) && !text.contains("VFIO"), "{name}: {text}");
        let report = check(name);
        assert_eq!(report.verdicts[0].blockers, ["vm-type"], "{name}: only the disk is a blocker");
        assert!(
            report.finding("nvfs-nvme-symbol").is_none_or(|f| f.status <= Status::Info && f.advice.is_none()),
            "{name}"
        );
    }
    for name in ["amazon-a10g-ebs", "azure-remote-disk"] {
        let text = advice(name, "vm-type");
        assert!(text.contains("stays in compat mode"), "{name}: no direct route is documented there: {text}");
    }
    assert!(advice("vgpu-virtio", "vm-type").contains("VFIO"));
    assert_eq!(check("tumbleweed-btrfs").verdicts[0].blockers, ["fs-type"]);
}

#[test]
fn a_client_is_built_on_the_host_and_a_mount_keeps_its_options() {
    let beegfs = advice("beegfs-not-built", "nvfs-registered");
    for word in [
        "NVFS_INCLUDE_PATH",
        "NVIDIA_INCLUDE_PATH",
        "OFED_INCLUDE_PATH",
        "beegfs-client-autobuild.conf",
        "beegfs-client rebuild",
    ] {
        assert!(beegfs.contains(word), "{beegfs}");
    }
    let steps = ["&& sudo ./configure", "buildArgs", "Stop the programs", "beegfs-client rebuild && ", "restart"];
    let places: Vec<Option<usize>> = steps.iter().map(|step| beegfs.find(step)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {beegfs}");
    let mount = advice("vast-tcp", "nfs-rdma");
    for word in ["vers=3", "nconnect=16", "proto=rdma,port=20049", "/etc/fstab"] {
        assert!(mount.contains(word), "{mount}");
    }
    assert!(!mount.contains(",proto=tcp"), "{mount}");
    let client = advice("vast-tcp", "nvfs-registered");
    for word in ["./build.sh bin", "sudo apt-get install ./dist/vastnfs-*.deb", "vastnfs-ctl status"] {
        assert!(client.contains(word), "{client}");
    }
    let in_container = advice("vast-in-container", "nvfs-registered");
    assert!(in_container.contains("vastnfs.vastdata.com"), "{in_container}");
    assert!(!in_container.contains("apt-get"), "{in_container}");
    assert!(advice("gpfs-foreign-address", "rdma-ips").contains("verbsGPUDirectStorage"));
}

#[test]
fn misspelt_keys_are_found_and_renamed() {
    let ignored = finding("misspelt-keys", "cfg-effective");
    assert_eq!(ignored.status, Status::Warn, "{}", ignored.summary);
    let found: Vec<&str> = ignored.evidence.iter().map(|e| e.text.as_str()).collect();
    assert!(found.iter().any(|text| text.contains("block.nvme.use_p2pdma")), "{found:?}");
    assert!(found.iter().any(|text| text.contains("properties.max_direct_io_size")), "{found:?}");
    let step = advice("misspelt-keys", "cfg-p2p-both");
    assert!(step.contains("block.nvme.use_p2pdma") && step.contains("block.nvme.use_pci_p2pdma"), "{step}");
}

#[test]
fn a_container_gets_one_command_and_a_pod_no_options_of_docker() {
    let docker = advice("docker-overlay", "fs-type");
    for option in ["`sudo docker cp CONTAINER:/", "-v HOST_FOLDER/", "-v /run/udev:/run/udev:ro", "--device"] {
        assert!(docker.contains(option), "{docker}");
    }
    let pod = advice("pod-overlay", "fs-type");
    assert!(!pod.contains("-v ") && pod.contains("hostPath"), "{pod}");
}

#[test]
fn a_lustre_mount_gets_the_commands_that_move_it_to_efa() {
    const SCRIPT: &str = "sudo umount /data && sudo lustre_rmmod && curl -O https://docs.aws.amazon.com/fsx/latest/LustreGuide/samples/configure-efa-fsx-lustre-client.zip && unzip -o configure-efa-fsx-lustre-client.zip && (cd configure-efa-fsx-lustre-client && sudo ./setup.sh --optimized-for-gds)";
    let of_fstab = put("files/etc/fstab", "10.0.1.5@tcp:/abcdbev /data lustre noatime,flock,_netdev 0 0\n");
    for (edits, mount) in [
        (vec![], "sudo mount -t lustre -o rw,noatime,flock,lazystatfs,encrypt 10.0.1.5@tcp:/abcdbev /data"),
        (vec![of_fstab], "sudo mount /data"),
    ] {
        let folder = build("fsx-lustre-tcp", &edits);
        let advice = machine::check(folder.path()).finding("fs-type").unwrap().advice.clone().unwrap();
        assert!(advice.contains(&format!("`{SCRIPT} && {mount}`")), "{advice}");
        assert!(advice.contains("stop the programs that use /data"), "{advice}");
    }
    let other = build("fsx-lustre-tcp", &[put("files/sys/class/dmi/id/product_name", "p4d.24xlarge\n")]);
    let verdict = machine::check(other.path()).verdicts.swap_remove(0);
    assert_eq!((verdict.possible, verdict.blockers), (Route::Compat, vec![CheckId::FsType]));
}

#[test]
fn a_module_that_does_not_build_or_load_is_a_warning_on_the_way_to_another_route() {
    let build = finding("nvfs-build-fails", "nvfs-dkms");
    let key = finding("nvfs-mok", "nvfs-secureboot");
    assert_eq!((build.status, key.status), (Status::Warn, Status::Warn));
    assert!(build.advice.is_some_and(|advice| advice.contains("nvidia-fs 2.28.2 or later")));
    let old = finding("nvfs-old-for-driver", "nvfs-dkms");
    assert!(old.summary.contains("driver 580.95.05"), "{}", old.summary);
    assert_eq!(old.fix, Some(FixId::NvfsInstall));
}

#[test]
fn a_cloud_has_a_cause_and_a_reason_against_each_route() {
    for (name, cloud) in [("azure-p2pdma", "Azure"), ("ec2-p2pdma", "Amazon EC2")] {
        let verdict = check(name).verdicts.swap_remove(0);
        assert_eq!((verdict.possible, verdict.blockers), (Route::Compat, vec![CheckId::NvfsNvmeSymbol]), "{name}");
        for reason in [
            format!("NVIDIA documents only compat mode in virtual machines of {cloud}."),
            format!("P2PDMA in virtual machines of {cloud} is not documented"),
        ] {
            assert!(verdict.advice.contains(&reason), "{name}: {}", verdict.advice);
        }
    }
}

#[test]
fn grub_starts_its_first_entry_unless_a_setting_selects_another_one() {
    for (grub, is_first) in [
        ("GRUB_DEFAULT=0\n", true),
        ("GRUB_DEFAULT='0'\n", true),
        ("  GRUB_DEFAULT=\"0\" # the newest\n", true),
        ("#GRUB_DEFAULT=2\nGRUB_TIMEOUT=0\n", true),
        ("GRUB_DEFAULT=2\nGRUB_DEFAULT=0\n", true),
        ("GRUB_DEFAULT=saved\n", false),
        ("GRUB_DEFAULT='1>2'\n", false),
        ("GRUB_DEFAULT=0\nGRUB_DEFAULT='gnulinux-6.14.0-37-generic-advanced-1'\n", false),
    ] {
        let machine = build("first-entry-without-driver", &[put("files/etc/default/grub", grub)]);
        let report = machine::check(machine.path());
        let finding = report.finding("reboot-pending");
        assert_eq!(finding.is_some_and(|finding| finding.status == Status::Warn), is_first, "{grub}: {finding:?}");
    }
}

#[test]
fn a_file_system_on_a_disk_without_a_namespace_is_mounted_after_one_is_attached() {
    let advice = check("nvme-without-namespace").finding("fs-resolve").unwrap().advice.clone().unwrap();
    for command in ["`sudo mount /data`", "`sudo nvme list-ns /dev/nvme1 --all`"] {
        assert!(advice.contains(command), "{advice}");
    }
}
