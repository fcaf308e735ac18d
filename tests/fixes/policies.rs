//! Every fix has its policy. A cufile.json that libcufile rejects is edited, and a directory for its log is created.

use crate::copies::look;
use crate::machine::{build, config, without};
use gds_top::core::{FixId, FixPlan, FixPolicy, FixRisk, FixStage, Status};
use gds_top::fixes::{self, Place};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use FixPolicy::{Ask, Never, Show};

/// The policy of each fix on a machine whose direct route works: only shown, applied after consent, or never applied
/// by gds-top.
const POLICIES: &[(&str, FixPolicy)] = &[
    ("nvidia-driver-open", Show),
    ("nvidia-driver-proprietary", Show),
    ("nvidia-fabricmanager", Show),
    ("nvfs-install", Ask),
    ("nvfs-load", Ask),
    ("nvfs-dkms", Ask),
    ("secure-boot-key", Show),
    ("nvme-patch", Show),
    ("nfs-rdma-client", Show),
    ("iommu-off", Show),
    ("acs-redirect", Never),
    // Applied if /etc/fstab has a line for the mount point and it is not the root file system.
    ("ext4-ordered", Show),
    ("nvme-multipath-off", Show),
    ("p2pdma-registry-keys", Ask),
    ("initramfs", Ask),
    ("cufile-p2pdma-keys", Ask),
    ("libcufile-install", Ask),
    ("container-devices", Show),
    ("md-udev", Ask),
    ("nvfs-stats", Ask),
    ("bar1-large", Show),
    ("memlock", Ask),
    // Applied if there is something to edit and no decision is needed.
    ("cufile-config", Show),
    // A missing directory is created after consent. A variable in a user's shell can only be shown.
    ("cufile-log", Show),
    ("kernel-p2pdma", Show),
    ("gpu-near-disk", Show),
    ("move-model", Never),
];
/// Fixes for faults that this machine does not have. `fixes.rs` and `guide.rs` test them on other machines.
const ELSEWHERE: &[&str] = &["udev-record", "nvidia-repository"];

fn plan(folder: &Path, id: &str) -> FixPlan {
    let (root, report) = look(folder);
    fixes::plan_by_id(&root, &report, id.parse().unwrap()).unwrap_or_else(|| panic!("{id} has no plan"))
}

#[test]
fn every_recipe_has_its_policy_and_says_what_it_changes() {
    let folder = build("nvfs-healthy", &[]);
    for (id, policy) in POLICIES {
        let plan = plan(folder.path(), id);
        assert_eq!(plan.policy, *policy, "{id}");
        if plan.id.is_shown() {
            assert_ne!(*policy, Ask, "the advice calls {id} a list of commands");
        }
        assert!(!plan.changes.is_empty() || plan.obstacle.is_some(), "{id} changes nothing");
    }
    let covered: BTreeSet<&str> = POLICIES.iter().map(|(id, _)| *id).chain(ELSEWHERE.iter().copied()).collect();
    let known: BTreeSet<&str> = FixId::ALL.iter().map(|id| id.as_str()).collect();
    assert_eq!(covered, known, "a recipe is not in the table, or the table names one that is not");
}

#[test]
fn a_refused_cufile_json_is_edited_checked_and_taken_back() {
    let before = "{\n  // ours\n  \"logging\": { \"level\": \"ERROR\" }, # loud enough\n  \"properties\": {\n    \"allow_compat_mode\": \"true\",\n    \
                  \"io_batchsize\": 512, /* many */\n  },\n}\n";
    let after = "{\n  // ours\n  \"logging\": { \"level\": \"ERROR\" }, // loud enough\n  \"properties\": {\n    \"allow_compat_mode\": true,\n    \
                 \"io_batchsize\": 256 /* many */\n  }\n}\n";
    let machine = build("nvfs-healthy", &[config(before)]);
    let (root, found) = look(machine.path());
    assert_eq!(found.finding("cfg-parse").unwrap().status, Status::Fail);
    let plan = fixes::plan(&root, &found).into_iter().find(|plan| plan.id == "cufile-config").expect("it is offered");
    assert_eq!((plan.policy, plan.obstacle.as_ref()), (Ask, None));
    assert!(
        plan.why.contains("line 3: '#' becomes '//'") && plan.why.contains("io_batchsize becomes 256"),
        "{}",
        plan.why
    );
    let preview = fixes::preview(&plan, usize::MAX);
    assert!(preview.contains("-  },") && preview.contains("+  }"), "{preview}");
    let state = tempfile::tempdir().unwrap();
    let place = Place::below(&machine.path().join("files"), state.path());
    let mut said = Vec::new();
    let paths = root.captured_paths();
    let applied =
        fixes::apply_and_verify(&root, &plan, &plan.digest(), &place, &paths, &mut |p| said.push((p.stage, p.text)));
    assert_eq!(applied, fixes::Ended::Done);
    assert_eq!(said.last().unwrap().0, FixStage::Fixed, "{said:?}");
    let path = machine.path().join("files/etc/cufile.json");
    assert_eq!(fs::read_to_string(&path).unwrap(), after);
    fixes::undo(FixId::CufileConfig, &place, &mut |_| true).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
}

#[test]
fn a_cufile_json_that_needs_a_decision_is_only_shown() {
    let machine = build("nvfs-healthy", &[config("{ \"properties\": { \"rdma_peer_type\": \"x\", } }")]);
    let plan = plan(machine.path(), "cufile-config");
    assert_eq!(plan.policy, Show);
    assert!(plan.why.contains("\"x\" is none of peer_mem, dmabuf"), "{}", plan.why);
    let machine = build("unreadable-cufile-json", &[]);
    assert_eq!(self::plan(machine.path(), "cufile-config").policy, Show);
}

#[test]
fn a_missing_folder_of_the_log_is_made_after_consent() {
    let machine = build("log-folder-missing", &[]);
    let (root, report) = look(machine.path());
    let plan = fixes::plan(&root, &report).into_iter().find(|plan| plan.id == "cufile-log").expect("it is offered");
    assert_eq!(plan.policy, Ask);
    let preview = fixes::preview(&plan, usize::MAX);
    assert!(preview.contains("sudo mkdir -p -m 1777 /"), "{preview}");
    assert!(plan.undo_commands[0].join(" ").starts_with("sudo rmdir /"), "{:?}", plan.undo_commands);
}

#[test]
fn a_copy_of_the_model_has_a_low_risk_only_if_no_disk_gets_a_file_system() {
    let risk = |machine: &str| {
        let folder = build(machine, &[]);
        let plan = plan(folder.path(), "move-model");
        assert_eq!(fixes::preview(&plan, 80).contains("manual repair"), plan.risk == FixRisk::High);
        plan.risk
    };
    assert_eq!(risk("pod-overlay"), FixRisk::Low);
    // The user chooses the disk, or the plan names a free one.
    assert_eq!((risk("nvfs-healthy"), risk("lvm-with-free-disk")), (FixRisk::High, FixRisk::High));
}

#[test]
fn without_a_gpu_every_form_of_the_command_gives_the_same_reason() {
    let folder = build("no-gpu", &[without("files/run/udev")]);
    let run = |words: &[&str]| {
        let output =
            crate::program::gds_top().arg("fix").args(words).arg("--root").arg(folder.path()).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    const REASON: &str = "o fix helps while the machine has no GPU; by name: ";
    for (words, status) in
        [(&["--dry-run"][..], 0), (&["--list"], 0), (&["nosuch", "--dry-run"], 2), (&["nosuch", "--list"], 2)]
    {
        let (code, text) = run(words);
        assert_eq!(code, Some(status), "{words:?}: {text}");
        let ids = text.split_once(REASON).unwrap_or_else(|| panic!("{words:?}: {text}")).1;
        assert!(ids.contains("udev-record"), "{words:?}: {text}");
    }
    let (code, text) = run(&["udev-record", "--dry-run"]);
    assert!(code == Some(0) && text.contains("ID_FS_USAGE"), "{text}");
}
