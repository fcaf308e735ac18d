//! Consent is for one plan. If a file or the machine changed since the preview, the fix is rejected and nothing is
//! changed.

use crate::copies::Machine;
use crate::throwaway::{Throwaway, UBUNTU, err, out};
use gds_top::core::{FixId, FixPlan, FixStage};
use gds_top::fixes;
use std::fs;
use std::path::Path;

const ID: FixId = FixId::P2pdmaRegistryKeys;
const REGISTRY: &str = "etc/modprobe.d/nvidia-p2pdma.conf";
const OTHER: &str = "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\"\n";
/// Another distribution, which rebuilds its initramfs with another command.
const ROCKY: &str = "ID=rocky\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\n";

/// A change of the machine between the preview and the consent.
type Change = fn(&Path);

const CHANGES: [(&str, Change); 3] = [
    ("a file was edited", |files| fs::write(files.join("etc/modprobe.d/nvidia.conf"), OTHER).unwrap()),
    ("a file came", |files| fs::write(files.join(REGISTRY), OTHER).unwrap()),
    ("the machine is another", |files| fs::write(files.join("etc/os-release"), ROCKY).unwrap()),
];

fn previewed(root: &Throwaway) -> FixPlan {
    let shown = root.fix(&[ID.as_str(), "--dry-run", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&out(&shown)).unwrap();
    serde_json::from_value(told["plans"][0].clone()).unwrap()
}

#[test]
fn a_digest_of_another_plan_is_refused_by_the_program() {
    for (what, change) in CHANGES {
        let root = Throwaway::tree(UBUNTU);
        let digest = previewed(&root).digest();
        change(&root.files());
        let before = root.image();
        let refused = root.fix(&[ID.as_str(), "--yes", "--consent", &digest]);
        assert_eq!(refused.status.code(), Some(1), "{what}: {}", err(&refused));
        assert!(err(&refused).contains("nothing was changed"), "{what}: {}", err(&refused));
        assert_eq!(root.image(), before, "{what}");
    }
    let root = Throwaway::tree(UBUNTU);
    let digest = previewed(&root).digest();
    assert!(root.fix(&[ID.as_str(), "--yes", "--consent", &digest]).status.success(), "the same plan is applied");
    assert!(root.files().join(REGISTRY).exists());
}

#[test]
fn a_plan_that_is_made_again_is_compared_with_the_previewed_one() {
    let machine = Machine::new("p2pdma-two-steps");
    let plan = machine.plan(ID.as_str());
    machine.write("/etc/modprobe.d/nvidia.conf", OTHER);
    let (root, before) = (machine.root(), machine.image());
    let now = fixes::plan_by_id(&root, &machine.report(), ID).unwrap();
    let mut stages = Vec::new();
    let place = machine.place();
    let applied = fixes::apply_and_verify(&root, &now, &plan.digest(), &place, &root.captured_paths(), &mut |p| {
        stages.push(p.stage)
    });
    assert_eq!(applied, fixes::Ended::Failed);
    assert_eq!(stages, [FixStage::Failed]);
    assert_eq!(machine.image(), before);
}

#[test]
fn a_digest_covers_all_that_a_plan_does() {
    let plan = Machine::new("p2pdma-two-steps").plan(ID.as_str());
    let more = vec!["true".to_owned()];
    for other in [
        FixPlan { id: FixId::Memlock, ..plan.clone() },
        FixPlan { changes: plan.changes[..1].to_vec(), ..plan.clone() },
        FixPlan { undo_commands: vec![more], ..plan.clone() },
    ] {
        assert_ne!(other.digest(), plan.digest(), "{other:?}");
    }
    assert_eq!(FixPlan { title: "another wording".to_owned(), ..plan.clone() }.digest(), plan.digest());
}

#[test]
fn a_change_while_the_question_is_open_is_noticed() {
    for (what, change) in CHANGES {
        let root = Throwaway::tree(UBUNTU);
        let mut before = Vec::new();
        let (status, said) = root.on_terminal(&[ID.as_str()], |_| {
            change(&root.files());
            before = root.image();
            "y"
        });
        assert_eq!(status, 1, "{what}: {said}");
        assert!(said.contains("nothing was changed"), "{what}: {said}");
        assert_eq!(root.image(), before, "{what}");
    }
}
