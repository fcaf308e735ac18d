//! Tests of fixes that write configuration, on copies of captured machines: apply, check again and undo. Also the
//! guided checklist, and causes from logs.

use crate::copies::Machine;
use crate::machine::{JOURNAL, said};
use crate::throwaway::{Throwaway, err};
use gds_top::core::{FixId, FixStage, Route, Status};
use gds_top::fixes;
use gds_top::fixes::guide::{self, State};
use std::fs;

#[test]
fn the_keys_of_p2pdma_are_set_in_the_file_that_is_there_and_taken_back() {
    let machine = Machine::new("p2pdma-two-steps");
    let before = "{\n\t// ours, do not touch\n\t\"logging\": { \"level\": \"ERROR\" },\n\t\"properties\": {\n\t\t\"allow_compat_mode\": true // keep\n\t}\n}\n";
    let path = machine.write("/etc/cufile.json", before);
    let plan = machine.plan("cufile-p2pdma-keys");
    let said = machine.apply(&plan);
    assert_eq!(said.last().unwrap().0, FixStage::Fixed, "{said:?}");
    let after = fs::read_to_string(&path).unwrap();
    assert!(
        after.contains("// ours, do not touch") && after.contains("true, // keep\n\t\t\"use_pci_p2pdma\": true"),
        "{after}"
    );
    assert_eq!(machine.report().finding("cfg-p2p-both").unwrap().status, Status::Pass);
    fixes::undo(FixId::CufileP2pdmaKeys, &machine.place(), &mut |_| true).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
}

#[test]
fn keys_in_a_file_that_libcufile_refuses_are_not_called_in_effect() {
    let machine = Machine::new("p2pdma-two-steps");
    machine.write("/etc/cufile.json", "{ \"properties\": { \"io_batchsize\": \"many\" } }\n");
    let plan = fixes::plan_by_id(&machine.root(), &machine.report(), FixId::CufileP2pdmaKeys).unwrap();
    let told = machine.apply(&plan);
    assert_eq!(told.last().map(|(stage, _)| *stage), Some(FixStage::StillWrong), "{told:?}");
}

#[test]
fn a_file_that_is_broken_is_not_edited() {
    let machine = Machine::new("p2pdma-two-steps");
    let path = machine.write("/etc/cufile.json", "{ \"properties\": { \"use_pci_p2pdma\": false, } }");
    let root = machine.root();
    let guided = guide::guide(&root, &machine.report());
    let plan = guided.steps.iter().flat_map(|step| &step.plans).find(|plan| plan.id == "cufile-p2pdma-keys").unwrap();
    assert!(plan.obstacle.as_deref().unwrap().contains("line 1, column"), "{:?}", plan.obstacle);
    assert_eq!(machine.apply(plan).last().unwrap().0, FixStage::Failed);
    assert!(fs::read_to_string(&path).unwrap().contains("false, }"));
}

#[test]
fn the_drivers_registry_keys_are_written_and_nothing_is_claimed_before_the_reboot() {
    let machine = Machine::new("p2pdma-two-steps");
    let plan = machine.plan("p2pdma-registry-keys");
    let said = machine.apply(&plan);
    let (stage, text) = said.last().unwrap();
    assert_eq!(*stage, FixStage::Waiting);
    assert!(text.contains("reboot"), "{text}");
    let path = machine.file("/etc/modprobe.d/nvidia-p2pdma.conf");
    assert!(fs::read_to_string(&path).unwrap().contains("RMForceStaticBar1=1"));
    fixes::undo(FixId::P2pdmaRegistryKeys, &machine.place(), &mut |_| true).unwrap();
    assert!(!path.exists() && !path.parent().unwrap().exists(), "the directory that it made is gone, too");
}

#[test]
fn the_checklist_knows_what_is_done_and_takes_the_shorter_way() {
    let two = Machine::new("p2pdma-two-steps");
    let guided = guide::guide(&two.root(), &two.report());
    assert_eq!(guided.route, Route::P2pdma);
    let open: Vec<&str> = guided.steps.iter().filter(|s| s.state == State::Open).map(|s| s.title.as_str()).collect();
    assert_eq!(
        open,
        [
            "The GPU's BAR1 mapped statically",
            "The changes in effect",
            "P2PDMA enabled in cufile.json",
            "The proof: reads counted on p2pdma"
        ]
    );
    let driver = guided.steps.iter().find(|s| s.title.starts_with("The NVIDIA driver")).unwrap();
    assert_eq!(driver.state, State::Done);
    let text = guide::text(&guided, usize::MAX);
    assert!(text.contains("gds-top fix cufile-p2pdma-keys applies it") && !text.contains("nvidia-fs built"), "{text}");

    let boot = Machine::new("secure-boot");
    let guided = guide::guide(&boot.root(), &boot.report());
    assert_eq!(guided.route, Route::Nvfs);
    let module = guided.steps.iter().find(|s| s.title.contains("built for this kernel")).unwrap();
    assert_eq!(module.state, State::Open);
    assert!(guide::text(&guided, usize::MAX).contains("mokutil --import"), "{}", guide::text(&guided, usize::MAX));

    let proprietary = Machine::new("proprietary-nvfs");
    let guided = guide::guide(&proprietary.root(), &proprietary.report());
    let driver = guided.steps.iter().find(|s| s.title.contains("NVIDIA driver")).unwrap();
    let plans: Vec<FixId> = driver.plans.iter().map(|plan| plan.id).collect();
    assert_eq!(plans, [FixId::NvidiaRepository, FixId::NvidiaDriverOpen], "the packages come from the repository");
}

#[test]
fn no_checklist_calls_a_healthy_machine_unfinished_but_for_the_proof() {
    for name in ["nvfs-healthy", "p2pdma-healthy", "grace"] {
        let machine = Machine::new(name);
        let guided = guide::guide(&machine.root(), &machine.report());
        let open: Vec<&str> = guided
            .steps
            .iter()
            .filter(|step| matches!(step.state, State::Open | State::Impossible))
            .map(|step| step.title.as_str())
            .collect();
        assert_eq!(open, [format!("The proof: reads counted on {}", guided.route)], "{name}");
    }
}

#[test]
fn a_log_is_explained_and_old_lines_are_no_alarm_where_the_check_passes_now() {
    for (name, status, part) in [
        ("h200-vm-no-udev", Status::Warn, "udev has no record"),
        ("h200-vm-udev", Status::Info, "its check passes now"),
    ] {
        let machine = Machine::new(name);
        machine.write(
            "/var/log/cufile.log",
            " 20-11-2026 14:32:16:1 [pid=1 tid=1] ERROR  cufio-udev:85 udev property not found: ID_FS_USAGE vda\n",
        );
        fs::write(machine.top().join("environment.json"), r#"{"CUFILE_LOGFILE_PATH": "/var/log/cufile.log"}"#).unwrap();
        let report = machine.report();
        let finding = report.finding("log-scan").unwrap();
        assert_eq!(finding.status, status, "{name}: {}", finding.summary);
        assert!(finding.summary.contains(part), "{name}: {}", finding.summary);
        assert!(finding.evidence[0].text.contains("cufio-udev:85"));
    }
}

#[test]
fn a_line_of_the_kernel_log_is_told_by_one_finding_only() {
    let machine = Machine::new("nvfs-healthy");
    let path = machine.top().join("commands.json");
    let mut commands: Vec<serde_json::Value> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    commands.retain(|command| command["argv"] != serde_json::json!(JOURNAL));
    let log = "nvidia_fs: registered correctly with major number 505\n\
               nvidia-fs: rw_verify_area failed with -14\nNVRM: Xid (PCI:0000:be:00): 79\n";
    commands.push(said(&JOURNAL, log));
    fs::write(&path, serde_json::to_string(&commands).unwrap()).unwrap();
    let report = machine.report();
    let telling = |part: &str| -> Vec<&str> {
        let tells = |f: &&gds_top::core::Finding| f.evidence.iter().any(|e| e.text.contains(part));
        report.findings.iter().filter(tells).map(|f| f.id.as_str()).collect()
    };
    assert_eq!(telling("rw_verify_area"), ["nvfs-errors"]);
    assert_eq!(telling("Xid").len(), 1, "{:?}", telling("Xid"));
}

/// The copy has the answer of libcufile from before the repair: it rejected the file.
#[test]
fn a_repaired_file_is_verified_without_the_older_answer_of_the_library() {
    let root = Throwaway::captured("broken-cufile-json");
    let repaired = root.fix(&["cufile-config", "--yes"]);
    assert_eq!(repaired.status.code(), Some(0), "{}", err(&repaired));
    assert!(err(&repaired).contains("cufile-config fixed"), "{}", err(&repaired));
}
