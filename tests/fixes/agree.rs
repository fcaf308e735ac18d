//! The checklist agrees with the checks on every machine: it has the same open steps, and its steps do not contradict each
//! other.

use crate::copies::look;
use crate::machine::fixtures;
use gds_top::checks::Report;
use gds_top::core::{Change, CheckId, FixId, FixPlan, Guide, GuideStep, Route, StepState};
use gds_top::fixes::guide;
use gds_top::machine::{Root, nvidia_fs_installed};

fn of(name: &str) -> (Root, Report, Guide) {
    let (root, report) = look(&crate::machine::fixture(name));
    let guide = guide::guide(&root, &report);
    (root, report, guide)
}

/// The checks to fix for the best route of all paths and GPUs.
fn wanted(report: &Report) -> Vec<CheckId> {
    let best = report.verdicts.iter().map(|verdict| verdict.possible).min();
    let mut out: Vec<CheckId> = Vec::new();
    for id in report.verdicts.iter().filter(|verdict| Some(verdict.possible) == best).flat_map(|one| &one.steps) {
        if !out.contains(id) {
            out.push(*id);
        }
    }
    out
}

/// The words of all commands and written lines of a plan.
fn words(plan: &FixPlan) -> Vec<String> {
    let of = |change: &Change| match change {
        Change::Run { argv } => argv.clone(),
        Change::WriteFile { before, after, .. } => {
            let before = before.clone().unwrap_or_default();
            let added = after.lines().filter(|line| !before.lines().any(|known| known == *line));
            added.flat_map(|line| line.split([' ', '"', '=', ','])).map(str::to_owned).collect()
        }
    };
    plan.changes.iter().flat_map(of).collect()
}

#[test]
fn the_open_steps_of_the_checklist_are_those_of_the_verdict() {
    for name in fixtures() {
        let (_, report, guide) = of(&name);
        let wanted = wanted(&report);
        // The proof has no check. The reboot after other steps is open, and its check passes.
        let is_open = |state: StepState| state == StepState::Open;
        let is_reboot = |step: &GuideStep| {
            step.checks.contains(&CheckId::RebootPending) && !step.checks.iter().any(|id| wanted.contains(id))
        };
        let is_counted = |step: &&GuideStep| is_open(step.state) && !step.checks.is_empty() && !is_reboot(step);
        let open: Vec<_> = guide.steps.iter().filter(is_counted).collect();
        // Without a GPU, the problems are warnings and no check is wanted. Their steps are open too.
        if guide.route.is_direct() || !wanted.is_empty() {
            assert_eq!(open.len(), wanted.len(), "{name}: {wanted:?}\n{}", guide::text(&guide, usize::MAX));
        }
        for id in wanted {
            let steps = open.iter().filter(|step| step.checks.contains(&id));
            assert_eq!(steps.clone().count(), 1, "{name}: {id}\n{}", guide::text(&guide, usize::MAX));
            assert!(
                steps.clone().all(|step| !step.plans.is_empty() || !step.advice.is_empty()),
                "{name}: {id} says nothing\n{}",
                guide::text(&guide, usize::MAX)
            );
        }
        let is_direct = report.verdicts.iter().any(|verdict| verdict.possible.is_direct());
        assert_eq!(guide.route.is_direct(), is_direct, "{name}");
        assert_eq!(guide.steps.iter().all(|step| step.state != StepState::Impossible), is_direct, "{name}");
    }
}

#[test]
fn every_fix_of_the_checklist_is_the_fix_of_an_open_check() {
    for name in fixtures() {
        let (root, report, guide) = of(&name);
        let wanted = wanted(&report);
        let plans: Vec<&FixPlan> = guide.steps.iter().flat_map(|step| &step.plans).collect();
        for plan in plans.iter().filter(|plan| plan.id != FixId::NvidiaRepository) {
            let finding = report.finding(plan.check);
            assert!(wanted.contains(&plan.check), "{name}: {} is for {}, which needs nothing", plan.id, plan.check);
            assert_eq!(finding.and_then(|finding| finding.fix), Some(plan.id), "{name}: {}", plan.check);
            // The package of an installed module is offered only if a check asks for another version.
            if plan.id == FixId::NvfsInstall && nvidia_fs_installed(&root).is_some() {
                assert_ne!(plan.check, CheckId::NvfsLoaded, "{name}: nvidia-fs is installed already");
            }
        }
        // The repository is added only for a package that comes from it.
        if plans.iter().any(|plan| plan.id == FixId::NvidiaRepository) {
            let from_it = |plan: &&&FixPlan| {
                plan.id != FixId::NvidiaRepository
                    && words(plan).iter().any(|word| ["apt-get", "dnf", "tdnf", "zypper"].contains(&word.as_str()))
            };
            assert!(plans.iter().any(|plan| from_it(&plan)), "{name}: {}", guide::text(&guide, usize::MAX));
        }
    }
}

#[test]
fn no_step_sets_a_kernel_argument_that_another_one_or_a_check_removes() {
    for name in fixtures() {
        let (_, report, guide) = of(&name);
        let plans = guide.steps.iter().flat_map(|step| &step.plans);
        let set: Vec<String> = plans.flat_map(words).map(|word| word.replacen("--args=", "", 1)).collect();
        let texts = report.findings.iter().flat_map(|finding| [&finding.advice, &finding.command]).flatten();
        for text in texts.filter(|text| text.contains("Remove ") || text.contains("--remove-args=")) {
            for argument in ["iommu=pt", "iommu.passthrough=1", "iommu=off"] {
                let is_set = set.iter().any(|word| word == argument);
                assert!(!is_set || !text.contains(argument), "{name}: set and removed: {argument}");
            }
        }
    }
}

/// The fixes of the open steps, in order.
fn fixes(guide: &Guide) -> Vec<&str> {
    guide.steps.iter().flat_map(|step| &step.plans).map(|plan| plan.id.as_str()).collect()
}

#[test]
fn captured_machines_get_only_the_steps_that_they_need() {
    for (name, route, wanted) in [
        ("gpfs-peermem-refused", Route::Rdma, &[][..]),
        ("beegfs-tcp", Route::Nvfs, &["nvidia-repository", "nvidia-driver-open", "nvfs-install"]),
        ("fsx-lustre-tcp", Route::Nvfs, &["nvidia-repository", "nvfs-install"]),
        ("vast-tcp", Route::Nvfs, &["nfs-rdma-client"]),
        ("gb200-secure-boot", Route::C2c, &["secure-boot-key", "cufile-p2pdma-keys"]),
        ("gh200-pass-through", Route::C2c, &["cufile-p2pdma-keys"]),
        ("rocky-8-stock-nvme", Route::Nvfs, &["nvme-patch"]),
        ("sles-unsupported-module", Route::Nvfs, &["nvfs-load"]),
        ("rhel-10-ext4-journal", Route::Nvfs, &["ext4-ordered"]),
        ("mig-no-instance", Route::Nvfs, &[]),
    ] {
        let (_, _, guide) = of(name);
        assert_eq!(
            (guide.route, fixes(&guide)),
            (route, wanted.to_vec()),
            "{name}: {}",
            guide::text(&guide, usize::MAX)
        );
    }
}

#[test]
fn commands_name_versions_and_keep_the_options_of_the_mount() {
    let advice = |name: &str, id: &str| {
        let (_, report, _) = of(name);
        report.finding(id).unwrap().advice.clone().unwrap()
    };
    let peermem = advice("gpfs-peermem-refused", "nvfs-peermem");
    let commands = ["dkms build --force nvidia/570.86.15 -k 5.15.0-124-generic", "dkms install --force", "modprobe"];
    let places: Vec<Option<usize>> = commands.iter().map(|command| peermem.find(command)).collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{peermem}");
    let mount = advice("vast-tcp", "nfs-rdma");
    for option in
        ["vers=3", "nconnect=16", "rsize=1048576", "timeo=600", "proto=rdma,port=20049 vast:/models /mnt/nfs-rdma-test"]
    {
        assert!(mount.contains(option), "{option}: {mount}");
    }
    assert!(!mount.contains("proto=tcp") || mount.contains("mountproto=tcp"), "{mount}");
    let (_, report, _) = of("vast-tcp");
    assert_eq!(
        report.verdicts[0].steps,
        [CheckId::NfsRdma, CheckId::NvfsRegistered],
        "the test of the server is first"
    );
    let next = &report.verdicts[0].advice;
    assert!(next.find("nfs-rdma-test") < next.find("nfs-rdma-client"), "the test of the server comes first: {next}");
    let remove = advice("gh200-pass-through", "iommu-state");
    assert!(remove.contains("--remove-args=") && !remove.contains("iommu=pt"), "{remove}");
}

#[test]
fn the_journal_mode_in_fstab_is_replaced() {
    let (root, report, _) = of("rhel-10-ext4-journal");
    let plan = gds_top::fixes::plan_by_id(&root, &report, FixId::Ext4Ordered).unwrap();
    let Some(Change::WriteFile { before: Some(before), after, .. }) = plan.changes.first() else {
        panic!("{:?}", plan.changes)
    };
    assert_eq!(*after, before.replace("data=journal", "data=ordered"));
    // Without a line, the mount command has the device, the type and the other options.
    let folder = crate::machine::build("rhel-10-ext4-journal", &[crate::machine::put("files/etc/fstab", "# none\n")]);
    let (root, report) = look(folder.path());
    let plan = gds_top::fixes::plan_by_id(&root, &report, FixId::Ext4Ordered).unwrap();
    let Some(Change::Run { argv }) = plan.changes.last() else { panic!("{:?}", plan.changes) };
    assert_eq!(argv[..4], ["sudo", "mount", "-t", "ext4"]);
    assert!(argv[5].contains("data=ordered") && !argv[5].contains("data=journal"), "{argv:?}");
    assert!(argv[6].starts_with("/dev/") && argv[7] == "/data", "{argv:?}");
}

#[test]
fn an_unsigned_driver_is_signed_before_its_key_is_enrolled() {
    let (root, report, _) = of("gb200-secure-boot");
    let finding = report.finding(CheckId::GpuPresent).unwrap();
    assert_eq!(finding.fix, Some(FixId::SecureBootKey));
    let plan = gds_top::fixes::plan_by_id(&root, &report, FixId::SecureBootKey).unwrap();
    assert_eq!(plan.obstacle, None);
    let text = words(&plan).join(" ");
    let (signed, enrolled) = (text.find("sign-file"), text.find("--import"));
    assert!(signed.is_some() && signed < enrolled, "{text}");
}

#[test]
fn a_version_that_a_step_removes_is_neither_built_nor_a_step_that_is_done() {
    let (_, report, guide) = of("volta-rhel8-nvfs-rejected");
    let at = |is_meant: &dyn Fn(&GuideStep) -> bool| guide.steps.iter().position(is_meant).unwrap();
    let driver = at(&|step| step.plans.iter().any(|plan| plan.id == FixId::NvmePatch));
    let module = at(&|step| step.checks.contains(&CheckId::GpuOpenCapable));
    // The replacement is built with the symbols of the new NVMe driver.
    assert!(driver < module, "{}", guide::text(&guide, usize::MAX));
    let words: Vec<String> = guide.steps.iter().flat_map(|step| &step.plans).flat_map(words).collect();
    assert!(words.iter().any(|word| word == "./mlnxofedinstall"), "{words:?}");
    assert!(!words.iter().any(|word| word.contains("nvidia-fs")), "{words:?}");
    let of_module = &guide.steps[module];
    assert_eq!(of_module.state, StepState::Open);
    for id in [CheckId::NvfsDkms, CheckId::NvfsLoadErrors, CheckId::NvfsLoaded] {
        assert!(of_module.checks.contains(&id), "{id} is in another step");
    }
    // The command that loads the module fails until then, so it is not offered.
    let loaded = report.finding(CheckId::NvfsLoaded).unwrap();
    assert_eq!((loaded.cause, loaded.fix), (Some(CheckId::GpuOpenCapable), None));
    assert_eq!((&loaded.command, &loaded.advice), (&None, &None));
}

#[test]
fn data_ordered_is_written_only_for_an_ext4_that_has_a_journal() {
    let plan = |name: &str, edits: &[crate::machine::Edit]| {
        let folder = crate::machine::build(name, edits);
        let (root, report) = look(folder.path());
        gds_top::fixes::plan_by_id(&root, &report, FixId::Ext4Ordered).unwrap()
    };
    let plain = || crate::machine::options("rw,relatime");
    let of_kernel = |text: &str| crate::machine::put("files/proc/fs/ext4/nvme0n1p1/options", text);
    let is_test =
        |change: &Change| matches!(change, Change::Run { argv } if argv.join(" ").contains("grep -q has_journal"));
    let unknown = plan("nvfs-healthy", &[plain()]);
    assert!(unknown.changes.first().is_some_and(is_test), "{:?}", unknown.changes);
    let ordered = plan("nvfs-healthy", &[plain(), of_kernel("rw\ndata=ordered\n")]);
    assert!(ordered.obstacle.is_none() && !ordered.changes.iter().any(is_test), "{:?}", ordered.changes);
    let without = plan("ext4-without-journal", &[]);
    assert!(without.obstacle.is_some() && without.changes.is_empty(), "{:?}", without.changes);
    let log = "Linux version 6.14.0\nEXT4-fs (nvme0n1p1): mounted filesystem without journal. Quota mode: none.\n";
    let logged = plan("nvfs-healthy", &[plain(), crate::machine::kernel_log(log)]);
    assert!(logged.obstacle.is_some(), "{:?}", logged.changes);
}
