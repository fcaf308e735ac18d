//! The checklist of a machine that lacks everything, followed from its first step to its last.

use crate::copies::look;
use crate::machine::*;
use gds_top::core::check::Step as Row;
use gds_top::core::{Change, FixId, FixPlan, Guide, Needs};
use gds_top::fixes::guide;
use gds_top::fixes::guided::{self, Next};

const RHEL_8: (&str, &str) = (
    "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"8.10\"\nPLATFORM_ID=\"platform:el8\"\n",
    "4.18.0-553.83.1.el8_10.x86_64",
);
const DEBIAN_12: (&str, &str) = ("ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n", "6.1.0-41-amd64");

/// A machine of a release without a driver, nvidia-fs and an NVMe driver for GDS, with an IOMMU that translates.
fn bare((release, kernel): (&str, &str), secure_boot: &str) -> Guide {
    let edits = vec![
        put("files/etc/os-release", release),
        put("files/proc/sys/kernel/osrelease", format!("{kernel}\n")),
        put(format!("files/boot/config-{kernel}"), "CONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n"),
        put("files/proc/modules", "nvme 60000 3 - Live 0x0\nnvme_core 220000 4 nvme, Live 0x0\n"),
        put("files/proc/kallsyms", "0 T x\n"),
        put("files/sys/class/iommu/dmar0/version", "1\n"),
        put("files/sys/kernel/iommu_groups/7/type", "DMA-FQ\n"),
        without("files/proc/driver"),
        without("files/sys/module/nvidia"),
        without("files/sys/module/nvidia_fs"),
        put(NVML, r#"{"error": "libnvidia-ml.so.1 was not found"}"#),
        put(LIB, r#"{"error": "libcufile is not installed", "tried": [], "found": []}"#),
        command(&["mokutil", "--sb-state"], secure_boot),
    ];
    let folder = build("nvme-stock", &edits);
    let (root, report) = look(folder.path());
    guide::guide(&root, &report)
}

fn plans(guide: &Guide) -> Vec<&FixPlan> {
    guide.steps.iter().flat_map(|step| &step.plans).collect()
}

fn lines(plan: &FixPlan) -> Vec<String> {
    let of = |change: &Change| match change {
        Change::Run { argv } => gds_top::text::quoted_line(argv),
        Change::WriteFile { path, .. } => path.display().to_string(),
    };
    plan.changes.iter().map(of).collect()
}

#[test]
fn the_key_for_secure_boot_is_created_once_for_all_modules() {
    for release in [RHEL_8, DEBIAN_12] {
        let guide = bare(release, "SecureBoot enabled\n");
        let said = guide::text(&guide, usize::MAX);
        let of = |part: &str| -> Vec<FixId> {
            let has = |plan: &&FixPlan| lines(plan).iter().any(|line| line.contains(part));
            plans(&guide).into_iter().filter(has).map(|plan| plan.id).collect()
        };
        let signed = [FixId::NvidiaDriverOpen, FixId::NvmePatch, FixId::NvfsInstall];
        assert_eq!(of("modinfo -F signer"), signed, "{said}");
        for once in ["openssl req", "mokutil --import"] {
            assert_eq!(of(once), [FixId::NvidiaDriverOpen], "{once}: {said}");
        }
        // The same command in a plan that is followed alone keeps a key that exists.
        let keeps = "test -s /var/lib/dkms/mok.key && test -s /var/lib/dkms/mok.pub || openssl req";
        assert_eq!(of(keeps), [FixId::NvidiaDriverOpen], "{said}");
    }
}

#[test]
fn nvidia_fs_follows_its_driver_in_the_same_reboot() {
    for release in [RHEL_8, DEBIAN_12] {
        for secure_boot in ["SecureBoot enabled\n", "SecureBoot disabled\n"] {
            let guide = bare(release, secure_boot);
            let said = guide::text(&guide, usize::MAX);
            assert!(!said.contains("install the driver first") && !said.contains("not as it is"), "{said}");
            let all = plans(&guide);
            let reboots = |plan: &&&FixPlan| lines(plan).iter().any(|line| line == "sudo reboot");
            let rebooting: Vec<FixId> = all.iter().filter(reboots).map(|plan| plan.id).collect();
            // Its own step or a later one has the only reboot.
            let place = |id| all.iter().position(|plan| plan.id == id);
            assert_eq!(rebooting.len(), 1, "{said}");
            assert!(place(rebooting[0]) >= place(FixId::NvfsInstall), "{said}");
            let last = all.iter().find(|plan| plan.id == FixId::NvfsInstall).unwrap();
            assert_eq!(last.needs, Needs::Reboot);
            assert!(!lines(last).iter().any(|line| line == "sudo modprobe nvidia-fs"), "{said}");
        }
    }
}

#[test]
fn a_postponed_reboot_names_the_step_that_has_it() {
    let own = |name: &str| {
        let (root, report) = look(&fixture(name));
        guide::guide(&root, &report)
    };
    let guides =
        [bare(RHEL_8, "SecureBoot enabled\n"), bare(DEBIAN_12, "SecureBoot disabled\n"), own("debian-12-p2pdma-keys")];
    let mut found = 0;
    for guide in &guides {
        for (number, step) in guide.steps.iter().enumerate() {
            for place in step.plans.iter().filter_map(|plan| guide::later_reboot(&guide.steps, number, plan)) {
                found += 1;
                let target = &guide.steps[place];
                let has_reboot = target.plans.iter().flat_map(lines).any(|line| line == "sudo reboot");
                assert!(
                    place > number && (has_reboot || target.title == Row::InEffect.title()),
                    "{number}: {guide:#?}"
                );
            }
        }
    }
    assert!(found >= 4, "{found}");
}

#[test]
fn a_step_by_hand_begins_with_its_downloads() {
    const ORACLE_9: &str = "ID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.6\"\n";
    const SLES: &str = "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\n";
    for (release, kernel, address, command, setting) in [
        (RHEL_8.0, RHEL_8.1, "https://network.nvidia.com/products/infiniband-drivers", "./mlnxofedinstall", ""),
        (ORACLE_9, "5.15.0-313.189.5.3.el9uek.x86_64", "https://developer.nvidia.com/doca-downloads", "doca-host-", ""),
        (
            SLES,
            "6.4.0-150600.23.73-default",
            "https://developer.nvidia.com/doca-downloads",
            "doca-host-",
            "+allow_unsupported_modules 1",
        ),
    ] {
        let edits = [
            put("files/etc/os-release", release),
            put("files/proc/sys/kernel/osrelease", format!("{kernel}\n")),
            put(format!("files/boot/config-{kernel}"), "CONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n"),
        ];
        let folder = build("nvme-stock", &edits);
        let (root, report) = look(folder.path());
        let guide = guide::guide(&root, &report);
        let Next::ByHand(_, by_hand) = guided::next(&guide, &[], &[]) else { panic!("{guide:?}") };
        for said in [by_hand.join("\n"), guide::text(&guide, usize::MAX)] {
            let at = |part: &str| said.find(part).unwrap_or_else(|| panic!("{part}: {said}"));
            assert!(at(address) < at(command) && said.contains(setting), "{said}");
        }
    }
}

#[test]
fn a_package_source_is_added_once() {
    let guide = bare(RHEL_8, "SecureBoot disabled\n");
    let lines: Vec<String> = plans(&guide).into_iter().flat_map(lines).collect();
    for source in ["codeready-builder-for-rhel-8", "epel-release-latest-8"] {
        assert_eq!(lines.iter().filter(|line| line.contains(source)).count(), 1, "{source}: {lines:#?}");
    }
}

#[test]
fn the_checklist_names_the_mode_of_the_iommu_that_nvidia_prefers() {
    const PREFERRED: &str = "NVIDIA prefers iommu=off";
    for (name, is_named) in [("iommu-on", true), ("nvfs-healthy", false)] {
        let (root, report) = look(&fixture(name));
        let guide = guide::guide(&root, &report);
        let said = guide::text(&guide, usize::MAX);
        assert_eq!(said.matches(PREFERRED).count(), usize::from(is_named), "{name}: {said}");
    }
    let (root, report) = look(&fixture("iommu-on"));
    let plan = gds_top::fixes::plan_by_id(&root, &report, FixId::IommuOff).unwrap();
    assert!(plan.why.contains(PREFERRED), "{}", plan.why);
}
