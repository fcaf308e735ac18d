//! Tests of fixes on machines whose files contain other settings. One value is added or changed, everything else is
//! kept, and undo restores every byte.

use crate::copies::Machine;
use crate::machine::{NVML, build, set};
use gds_top::checks;
use gds_top::core::{Change, FixId, FixPlan, FixPolicy, Needs};
use gds_top::fixes;
use gds_top::machine::Root;
use serde_json::json;
use std::fs;

const NVME: &str = "/etc/modprobe.d/nvme.conf";
const MULTIPATH: FixId = FixId::NvmeMultipathOff;
/// The usual content in cloud images.
const CLOUD: &str = "# keep: required by the storage team\noptions nvme poll_queues=8 write_queues=2\noptions nvme_core io_timeout=4294967295 max_retries=10\n\n\
                     # end of file, without a newline";

fn commands(plan: &FixPlan) -> Vec<String> {
    let of = |change: &Change| match change {
        Change::Run { argv } => Some(gds_top::text::quoted_line(argv)),
        Change::WriteFile { .. } => None,
    };
    plan.changes.iter().filter_map(of).collect()
}

fn files(plan: &FixPlan) -> Vec<String> {
    let of = |change: &Change| match change {
        Change::WriteFile { path, .. } => Some(path.display().to_string()),
        Change::Run { .. } => None,
    };
    plan.changes.iter().filter_map(of).collect()
}

/// Applies a plan to the copy, returns the content of a file, and undoes the plan. All bytes, modes and directories are
/// then as before.
fn applied_and_undone(machine: &Machine, plan: &FixPlan, path: &str) -> String {
    let before = machine.image();
    // Plans that are only shown are applied like a user would apply them.
    let plan = FixPlan { policy: FixPolicy::Ask, ..plan.clone() };
    fixes::apply(&plan, &machine.place(), &mut |_| true).unwrap();
    let after = fs::read_to_string(machine.file(path)).unwrap();
    assert_ne!(machine.image(), before);
    fixes::undo(plan.id, &machine.place(), &mut |_| true).unwrap();
    assert_eq!(machine.image(), before, "{}: undo restores every byte", plan.id);
    after
}

/// A machine with multipath enabled and one controller for each disk.
fn with_one_path() -> Machine {
    let machine = Machine::new("multipath-on");
    machine.write("/sys/class/nvme-subsystem/nvme-subsys0/nvme0/transport", "pcie\n");
    machine.write("/sys/class/nvme-subsystem/nvme-subsys0/nvme0n1/size", "1\n");
    machine
}

#[test]
fn multipath_is_switched_off_next_to_the_options_of_a_cloud_image() {
    let machine = with_one_path();
    machine.write(NVME, CLOUD);
    let plan = machine.plan(MULTIPATH.as_str());
    assert_eq!((plan.policy, plan.needs, plan.obstacle.as_ref()), (FixPolicy::Ask, Needs::Reboot, None));
    assert_eq!(commands(&plan), ["sudo update-initramfs -u -k all"]);
    assert_eq!(plan.remaining, ["sudo reboot"]);
    let preview = fixes::preview(&plan, usize::MAX);
    assert!(!preview.lines().any(|line| line.starts_with("-options nvme poll_queues")), "{preview}");
    let after = applied_and_undone(&machine, &plan, NVME);
    assert_eq!(after, CLOUD.replace("max_retries=10", "max_retries=10 multipath=N"));
}

#[test]
fn a_file_whose_name_comes_later_is_the_one_that_is_changed() {
    const LATER: &str = "/etc/modprobe.d/zz-storage.conf";
    let machine = with_one_path();
    machine.write(NVME, CLOUD);
    machine.write(LATER, "options nvme-core multipath=Y admin_timeout=90\noptions scsi_mod use_blk_mq=1\n");
    let plan = machine.plan(MULTIPATH.as_str());
    assert_eq!(files(&plan), [LATER]);
    let after = applied_and_undone(&machine, &plan, LATER);
    assert_eq!(after, "options nvme-core multipath=N admin_timeout=90\noptions scsi_mod use_blk_mq=1\n");
}

#[test]
fn an_option_that_is_written_already_is_not_written_again() {
    let machine = with_one_path();
    machine.write(NVME, "options nvme_core multipath=0 io_timeout=255\n");
    let root = machine.root();
    let plan = fixes::plan_by_id(&root, &machine.report(), MULTIPATH).unwrap();
    assert_eq!(files(&plan), [""; 0]);
    assert_eq!(commands(&plan), ["sudo update-initramfs -u -k all"]);
}

#[test]
fn local_disks_are_excluded_from_multipathd_before_multipath_is_switched_off() {
    const LOCAL: &str = "/etc/multipath/conf.d/local-nvme.conf";
    let machine = with_one_path();
    machine.write("/etc/multipath.conf", "defaults {\n find_multipaths no\n}\n");
    machine.write("/sys/block/nvme0n1/wwid", "eui.0025384500000001\n");
    let plan = machine.plan(MULTIPATH.as_str());
    assert_eq!((plan.obstacle.as_ref(), files(&plan)[0].as_str()), (None, LOCAL));
    let after = applied_and_undone(&machine, &plan, LOCAL);
    assert_eq!(after, "blacklist {\n wwid \"eui.0025384500000001\"\n}\n");
}

#[test]
fn multipath_that_is_in_use_is_not_switched_off_and_unknown_disks_are_left_to_a_person() {
    let ours = with_one_path();
    ours.write("/sys/class/nvme-subsystem/nvme-subsys0/nvme1/transport", "pcie\n");
    let finding = ours.report().finding("nvme-multipath").unwrap().clone();
    assert!(finding.fix.is_none() && finding.permanent, "{finding:?}");
    let other = with_one_path();
    for name in ["nvme7", "nvme8"] {
        other.write(&format!("/sys/class/nvme-subsystem/nvme-subsys7/{name}/transport"), "pcie\n");
    }
    let plan = other.plan(MULTIPATH.as_str());
    assert!(plan.obstacle.as_ref().is_some_and(|why| why.contains("nvme7, nvme8")), "{:?}", plan.obstacle);
    assert_eq!(plan.policy, FixPolicy::Show);
    assert_eq!(Machine::new("multipath-on").plan(MULTIPATH.as_str()).policy, FixPolicy::Show);
}

/// Writes a kernel configuration, and a GRUB file with words of the owner.
fn with_grub(machine: &Machine, words: &str) -> String {
    machine.write(
        "/etc/default/grub",
        &format!("# ours\nGRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"{words}\" \nGRUB_CMDLINE_LINUX=\"\"\n"),
    );
    gds_top::machine::kernel_release(&machine.root()).unwrap()
}

#[test]
fn a_driver_in_the_kernel_image_gets_a_word_of_the_command_line() {
    for words in
        ["quiet nvme_core.io_timeout=4294967295", "nvme_core.multipath=Y quiet nvme_core.io_timeout=4294967295"]
    {
        let machine = with_one_path();
        let release = with_grub(&machine, words);
        machine.write("/proc/modules", "nvidia 14000000 12 - Live 0x0\n");
        machine.write(
            &format!("/lib/modules/{release}/modules.builtin"),
            "kernel/drivers/nvme/host/nvme-core.ko\nkernel/drivers/nvme/host/nvme.ko\n",
        );
        machine.write(NVME, CLOUD);
        let finding = machine.report().finding("nvme-multipath").unwrap().clone();
        assert!(finding.advice.unwrap().contains("nvme_core.multipath=N"));
        assert!(finding.evidence.iter().any(|e| e.source.ends_with("modules.builtin")));
        let plan = machine.plan(MULTIPATH.as_str());
        assert_eq!(files(&plan), ["/etc/default/grub"]);
        assert_eq!(commands(&plan), ["sudo update-grub", "sudo reboot"]);
        let after = applied_and_undone(&machine, &plan, "/etc/default/grub");
        assert_eq!(after.matches("nvme_core.multipath=N").count(), 1, "{after}");
        assert!(!after.contains("multipath=Y") && after.contains("nvme_core.io_timeout=4294967295"), "{after}");
        assert!(
            after.starts_with("# ours\nGRUB_TIMEOUT=0\n") && after.ends_with("GRUB_CMDLINE_LINUX=\"\"\n"),
            "{after}"
        );
    }
}

#[test]
fn a_word_that_overrules_modprobe_is_changed_where_it_is() {
    let machine = with_one_path();
    with_grub(&machine, "quiet nvme_core.multipath=Y");
    machine.write("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/nvme0n1p2 ro quiet nvme_core.multipath=Y\n");
    let plan = machine.plan(MULTIPATH.as_str());
    assert_eq!(files(&plan), ["/etc/default/grub"]);
    assert!(plan.why.contains("nvme_core.multipath=Y"), "{}", plan.why);
    let after = applied_and_undone(&machine, &plan, "/etc/default/grub");
    assert!(after.contains("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet nvme_core.multipath=N\""), "{after}");
}

#[test]
fn a_driver_whose_modules_are_listed_is_not_taken_for_built_in() {
    let machine = with_one_path();
    let release = gds_top::machine::kernel_release(&machine.root()).unwrap();
    machine.write(&format!("/lib/modules/{release}/modules.builtin"), "kernel/fs/ext4/ext4.ko\n");
    assert_eq!(files(&machine.plan(MULTIPATH.as_str())), [NVME]);
    // If there is no list, the kernel configuration is used.
    let machine = with_one_path();
    machine.write("/proc/modules", "nvidia 14000000 12 - Live 0x0\n");
    machine.write(&format!("/boot/config-{release}"), "CONFIG_PCI_P2PDMA=y\nCONFIG_NVME_CORE=m\n");
    assert_eq!(files(&machine.plan(MULTIPATH.as_str())), [NVME]);
    machine.write(&format!("/boot/config-{release}"), "CONFIG_PCI_P2PDMA=y\nCONFIG_NVME_CORE=y\n");
    assert!(!files(&machine.plan(MULTIPATH.as_str())).contains(&NVME.to_owned()));
}

#[test]
fn keys_of_the_driver_join_a_list_that_is_broken_over_lines() {
    const FILE: &str = "/etc/modprobe.d/nvidia.conf";
    let machine = Machine::new("p2pdma-two-steps");
    machine.write(FILE, "# ours\noptions nvidia NVreg_EnableResizableBar=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;\\\nForceP2P=0x11;\" NVreg_Bar=2\nblacklist nouveau\n");
    let after = applied_and_undone(&machine, &machine.plan("p2pdma-registry-keys"), FILE);
    assert_eq!(
        after,
        "# ours\noptions nvidia NVreg_EnableResizableBar=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;ForceP2P=0x11;RMForceStaticBar1=1;\
         RmForceDisableIomapWC=1;\" NVreg_Bar=2\nblacklist nouveau\n"
    );
}

fn plan_by_id(machine: &Machine, id: FixId) -> FixPlan {
    fixes::plan_by_id(&machine.root(), &machine.report(), id).unwrap()
}

#[test]
fn nvidia_fs_is_loaded_after_what_a_softdep_lists_already_and_only_once() {
    const SOFTDEP: &str = "/etc/modprobe.d/nvidia-fs.conf";
    let machine = Machine::new("unknown-symbol");
    machine.write("/etc/modules-load.d/gpu.conf", "# ours\nnvidia-fs\nnvidia-uvm\n");
    machine.write(SOFTDEP, "options nvidia_fs max_peer=8\nsoftdep nvidia_fs pre: nvidia post: weka\n");
    let plan = plan_by_id(&machine, FixId::NvfsLoad);
    assert_eq!(files(&plan), [SOFTDEP], "modules-load.d has the module");
    let after = applied_and_undone(&machine, &plan, SOFTDEP);
    assert_eq!(after, "options nvidia_fs max_peer=8\nsoftdep nvidia_fs pre: nvme nvidia post: weka\n");
}

#[test]
fn limits_of_other_resources_and_groups_stay() {
    const OWN: &str = "/etc/security/limits.d/99-gds.conf";
    let machine = Machine::new("p2pdma-two-steps");
    machine.write(OWN, "* soft nofile 1048576\n* soft memlock 65536 # old\n@hpc hard memlock 8388608");
    let plan = plan_by_id(&machine, FixId::Memlock);
    assert!(plan.why.contains("@hpc"), "{}", plan.why);
    let after = applied_and_undone(&machine, &plan, OWN);
    assert_eq!(
        after,
        "* soft nofile 1048576\n* soft memlock unlimited # old\n@hpc hard memlock 8388608\n* - memlock unlimited\n"
    );
}

#[test]
fn a_rule_of_udev_is_added_to_the_rules_that_are_there() {
    const RULES: &str = "/etc/udev/rules.d/64-md-level-gds.rules";
    let machine = Machine::new("md-raid0-no-level");
    let own = "# ours\nKERNEL==\"md0\", SYMLINK+=\"models\"\n";
    machine.write(RULES, own);
    let after = applied_and_undone(&machine, &machine.plan("md-udev"), RULES);
    assert!(after.starts_with(own) && after.lines().count() == 3 && after.contains("--detail --export"), "{after}");
    machine.write(RULES, &after);
    assert_eq!(files(&plan_by_id(&machine, FixId::MdUdev)), [""; 0]);
}

#[test]
fn words_of_the_command_line_are_joined_and_none_is_lost() {
    let machine = Machine::new("iommu-on");
    machine.write(
        "/etc/default/grub",
        "GRUB_CMDLINE_LINUX_DEFAULT='quiet iommu=nobypass console=ttyS0,115200'\nGRUB_DISABLE_OS_PROBER=true\n",
    );
    let after = applied_and_undone(&machine, &plan_by_id(&machine, FixId::IommuOff), "/etc/default/grub");
    assert_eq!(
        after,
        "GRUB_CMDLINE_LINUX_DEFAULT='quiet iommu=nobypass,pt console=ttyS0,115200'\nGRUB_DISABLE_OS_PROBER=true\n"
    );
    // Tools that can only add get an extra command to remove the old value.
    let machine = Machine::new("multipath-on");
    machine.write("/proc/modules", "nvidia 14000000 12 - Live 0x0\n");
    machine.write("/sys/module/nvme_core/parameters/io_timeout", "255\n");
    machine.write("/proc/cmdline", "root=/dev/sda2 nvme_core.multipath=Y splash=silent\n");
    for (release, lines) in [
        (
            "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\n",
            &[
                "sudo pbl --del-option nvme_core.multipath=Y",
                "sudo pbl --add-option nvme_core.multipath=N",
                "sudo pbl --config",
                "sudo reboot",
            ] as &[&str],
        ),
        (
            "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\n",
            &["sudo grubby --update-kernel=ALL --args=nvme_core.multipath=N", "sudo reboot"],
        ),
    ] {
        machine.write("/etc/os-release", release);
        assert_eq!(commands(&plan_by_id(&machine, MULTIPATH)), lines);
    }
}

#[test]
fn undo_takes_only_its_word_out_of_a_line_that_was_changed_since() {
    let machine = with_one_path();
    let path = machine.write(NVME, CLOUD);
    let plan = machine.plan(MULTIPATH.as_str());
    fixes::apply(&plan, &machine.place(), &mut |_| true).unwrap();
    let changed = fs::read_to_string(&path).unwrap().replace("io_timeout=4294967295", "io_timeout=30");
    fs::write(&path, &changed).unwrap();
    fixes::undo(MULTIPATH, &machine.place(), &mut |_| true).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), CLOUD.replace("io_timeout=4294967295", "io_timeout=30"));
}

/// With these keys the driver rejects a GPU whose BAR1 does not cover its memory, so the GPU is lost at the next boot.
#[test]
fn the_registry_keys_are_refused_if_bar1_is_smaller_than_the_memory() {
    let obstacle = |bar1: u64| {
        let folder = build("p2pdma-two-steps", &[set(NVML, "/gpus/0/bar1_total_bytes", json!(bar1))]);
        let root = Root::folder(folder.path()).unwrap();
        let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
        fixes::plan_by_id(&root, &report, FixId::P2pdmaRegistryKeys).unwrap().obstacle
    };
    assert_eq!(obstacle(256 << 30), None);
    assert!(obstacle(256 << 20).is_some());
}
