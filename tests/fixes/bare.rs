//! The steps of `fix nvidia-gds` on machines of each family that have a GPU and nothing else.

use gds_top::checks;
use gds_top::core::{Change, FixId, FixPlan, Needs};
use gds_top::fixes::{self, guide};
use gds_top::machine::Root;
use std::fs;

#[test]
fn on_bare_machines_of_every_family_the_order_is_that_of_the_packages_and_nothing_is_installed_before_its_driver() {
    for (release, kernel) in [
        ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n", "5.15.0-60-generic"),
        ("ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n", "6.1.0-28-amd64"),
        ("ID=rocky\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\n", "5.14.0-427.13.1.el9_4.x86_64"),
        ("ID=sles\nID_LIKE=suse\nVERSION_ID=\"15.6\"\n", "6.4.0-150600.23.17-default"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("etc/os-release", release);
        write("proc/sys/kernel/osrelease", kernel);
        write("proc/modules", "nvme 73728 2 - Live 0x0000000000000000\n");
        for (name, value) in [("vendor", "0x10de\n"), ("device", "0x2330\n"), ("class", "0x030200\n")] {
            write(&format!("sys/bus/pci/devices/0000:17:00.0/{name}"), value);
        }
        let root = Root::tree(folder.path()).unwrap();
        let report = checks::run(&root, &[], None, &mut |_| {});
        let guided = guide::guide(&root, &report);
        assert!(guided.reason.starts_with("No path was examined"), "{}", guided.reason);
        let plans: Vec<_> = guided.steps.iter().flat_map(|step| &step.plans).collect();
        let ids: Vec<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
        assert_eq!(ids, ["nvidia-repository", "nvidia-driver-open", "nvfs-install"], "{release}");
        // One reboot loads both, and it is the last command of the last step.
        let reboots = |plan: &FixPlan| {
            plan.changes.iter().rposition(
                |change| matches!(change, Change::Run { argv } if argv.last().is_some_and(|word| word == "reboot")),
            )
        };
        assert_eq!((plans[1].obstacle.as_ref(), reboots(plans[1])), (None, None), "{release}");
        assert_eq!((plans[2].obstacle.as_ref(), plans[2].needs), (None, Needs::Reboot), "{release}");
        assert_eq!(reboots(plans[2]), Some(plans[2].changes.len() - 1), "{release}");
        let alone = fixes::plan_by_id(&root, &report, FixId::NvfsInstall).unwrap();
        assert!(alone.obstacle.is_some_and(|why| why.contains("install the driver first")), "{release}");
        // If the driver is installed, nothing blocks the step.
        write(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
        );
        let root = Root::tree(folder.path()).unwrap();
        let report = checks::run(&root, &[], None, &mut |_| {});
        let plan = fixes::plan_by_id(&root, &report, FixId::NvfsInstall).unwrap();
        assert_eq!(plan.obstacle, None, "{release}");
    }
}
