//! Tests that findings and their advice name the facts that decide: the key, the file, the value and its absence.

use crate::fixtures::check;
use crate::machine::{self, build, config, options, put};
use gds_top::core::{CheckId, Finding, Route, Status};

fn finding(name: &str, id: &str) -> Finding {
    check(name).finding(id).unwrap_or_else(|| panic!("{name}: no {id}")).clone()
}

#[test]
fn a_key_that_is_not_enrolled_has_the_command_that_enrols_it() {
    let advice = finding("nvfs-mok", "nvfs-secureboot").advice.unwrap();
    assert!(advice.contains("sudo mokutil --import /var/lib/shim-signed/mok/MOK.der"), "{advice}");
}

#[test]
fn a_translating_iommu_blocks_only_the_route_of_nvidia_fs() {
    let found = finding("iommu-on", "iommu-state");
    assert_eq!((found.status, found.blocks), (Status::Fail, vec![Route::Nvfs]));
}

#[test]
fn a_device_of_nvidia_fs_that_cannot_be_opened_has_its_path_and_the_command_of_its_group() {
    let found = finding("nvfs-device-group", "nvfs-devnodes");
    assert_eq!((found.status, found.blocks), (Status::Fail, vec![Route::Nvfs]));
    assert_eq!(found.evidence[0].source, "/dev/nvidia-fs0");
    assert_eq!(found.command.as_deref(), Some("sudo usermod -aG gds \"$USER\""));
}

#[test]
fn the_mount_option_is_set_in_the_file_that_mounts_the_disk() {
    for (fstab, wanted) in [
        ("UUID=1 / ext4 defaults 0 1\n", "its mount unit or script"),
        ("UUID=1 / ext4 defaults 0 1\nUUID=2 /data ext4 noatime 0 2\n", "to its line in /etc/fstab"),
    ] {
        let machine = build("nvfs-healthy", &[options("rw,noatime"), put("files/etc/fstab", fstab)]);
        let report = machine::check(machine.path());
        let advice = report.finding("ext4-ordered").unwrap().advice.clone().unwrap();
        assert!(advice.contains(wanted), "{advice}");
    }
}

/// The healthy machines with ext4 on a local disk, and their routes.
const LOCAL: [(&str, Route); 3] =
    [("nvfs-healthy", Route::Nvfs), ("p2pdma-healthy", Route::P2pdma), ("grace", Route::C2c)];

#[test]
fn the_journal_mode_must_be_among_the_options_for_nvidia_fs_only() {
    for (name, route) in LOCAL {
        let machine = build(name, &[options("rw,relatime")]);
        let report = machine::check(machine.path());
        let verdict = &report.verdicts[0];
        let blockers: &[CheckId] = if route == Route::Nvfs { &[CheckId::Ext4Ordered] } else { &[] };
        assert_eq!((verdict.blockers.as_slice(), verdict.possible), (blockers, route), "{name}");
    }
}

#[test]
fn a_journal_mode_of_the_superblock_is_judged_like_one_of_the_options() {
    for (name, route) in LOCAL {
        for mode in ["writeback", "journal"] {
            let by_options = build(name, &[options(&format!("rw,relatime,data={mode}"))]);
            let in_effect = put("files/proc/fs/ext4/nvme0n1p1/options", format!("rw\ndata={mode}\n"));
            let by_superblock = build(name, &[options("rw,relatime"), in_effect]);
            for machine in [by_options, by_superblock] {
                let report = machine::check(machine.path());
                let verdict = &report.verdicts[0];
                assert_eq!((verdict.route, verdict.possible), (Route::Compat, route), "{name}");
                assert_eq!(verdict.blockers, [CheckId::Ext4Ordered], "{name}");
                let found = report.finding("ext4-ordered").unwrap();
                assert_eq!(found.status, Status::Fail, "{name}");
                assert!(found.blocks.contains(&route), "{name}: {:?}", found.blocks);
                assert!(found.evidence.iter().any(|one| one.text.contains(mode)), "{name}: {:?}", found.evidence);
            }
        }
    }
}

#[test]
fn an_empty_list_of_addresses_is_not_a_missing_one() {
    for (text, wanted) in [
        ("{\"properties\": {\"rdma_dev_addr_list\": [ ]}}", "rdma_dev_addr_list is empty"),
        ("{\"properties\": {}}", "rdma_dev_addr_list is not set"),
    ] {
        let interface = put("files/sys/class/infiniband/mlx5_0/device/net/ibp153s0/operstate", "up\n");
        let machine = build("weka", &[config(text), interface]);
        let found = machine::check(machine.path()).finding("rdma-ips").unwrap().clone();
        assert!(found.summary.starts_with(wanted), "{}", found.summary);
        assert!(found.evidence[0].text.contains("rdma_dev_addr_list"), "{:?}", found.evidence);
        assert!(found.advice.unwrap().contains("ip -4 -br addr show ibp153s0"), "{text}");
    }
}

#[test]
fn a_fix_that_no_check_needs_is_not_the_first_step() {
    let advice = check("amd-p2pdma").verdicts[0].advice.clone();
    let (proof, fix) = (advice.find("gds-top bench MODEL").unwrap(), advice.find("gds-top fix iommu-off").unwrap());
    assert!(proof < fix && advice[..fix].contains("If reads fail or are slow"), "{advice}");
}

#[test]
fn the_integrated_gpu_of_a_jetson_is_not_an_absent_one() {
    let machine = build("no-gpu", &[put("files/etc/nv_tegra_release", "# R36 (release), REVISION: 4.3\n")]);
    let found = machine::check(machine.path()).finding(CheckId::GpuPresent).unwrap().clone();
    assert!(found.summary.contains("Jetson") && found.permanent, "{}", found.summary);
    assert!(found.evidence.iter().any(|one| one.source == "/etc/nv_tegra_release"), "{:?}", found.evidence);
    let advice = found.advice.unwrap();
    assert!(!advice.contains("machine with the GPU"), "{advice}");
}

#[test]
fn a_line_about_slabs_is_compared_with_the_present_file() {
    let line = " 12-11-2026 10:00:00:123 [pid=4 tid=4] WARN  cufio:1 No slabs <=16MB configured - nvidia-fs IOs will be rejected\n";
    let slabs = |sizes: &str, counts: &str| {
        format!("\"gpu_bounce_buffer_slab_config\": {{\"slab_size_kb\": [{sizes}], \"slab_count\": [{counts}]}}")
    };
    for (slabs, is_reported) in [
        (slabs("64, 1024", "128, 128"), false),
        (slabs("32768, 65536", "8, 4"), true),
        // The slabs were removed.
        (String::new(), false),
    ] {
        let text = format!("{{\"logging\": {{\"dir\": \"/var/log/gds\"}}, \"properties\": {{{slabs}}}}}");
        let machine = build("nvfs-healthy", &[config(text), put("files/var/log/gds/cufile.log", line)]);
        let found = machine::check(machine.path()).finding("log-scan").unwrap().clone();
        let has_line = found.evidence.iter().any(|evidence| evidence.text.contains("slabs <=16MB"));
        assert_eq!(has_line, is_reported, "{slabs}: {:?}", found.evidence);
        assert_eq!(found.status == Status::Warn, is_reported, "{slabs}: {}", found.summary);
    }
}
