//! Fixes that write configuration, on copies of captured machines: applied, checked again, undone; the guided checklist; and logs read into causes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use gds_top::checks::{self, Report};
use gds_top::domain::{FixPlan, FixStage, Route, Status};
use gds_top::fixes::guide::{self, State};
use gds_top::fixes::{self, Place};
use gds_top::host::Root;
use std::fs;
use std::path::{Path, PathBuf};

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(name), &folder.path().join("machine"));
        Self { folder }
    }

    fn root(&self) -> Root {
        Root::open(&self.folder.path().join("machine")).unwrap()
    }

    fn file(&self, path: &str) -> PathBuf {
        self.folder.path().join("machine/files").join(path.trim_start_matches('/'))
    }

    fn place(&self) -> Place {
        Place::below(&self.file("/"), &self.folder.path().join("state"))
    }

    fn report(&self) -> Report {
        let root = self.root();
        checks::run(&root, &root.captured_paths(), None, &mut |_| {})
    }

    fn plan(&self, id: &str) -> FixPlan {
        let plans = fixes::plan(&self.root(), &self.report());
        plans.into_iter().find(|plan| plan.id == id).expect("the fix is offered")
    }

    fn apply(&self, plan: &FixPlan) -> Vec<(FixStage, String)> {
        let root = self.root();
        let mut said = Vec::new();
        let paths = root.captured_paths();
        fixes::apply_and_verify(&root, plan, &self.place(), &paths, &mut |p| said.push((p.stage, p.text)));
        said
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&source, &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source).unwrap(), &target).unwrap();
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}

#[test]
fn the_keys_of_p2pdma_are_set_in_the_file_that_is_there_and_taken_back() {
    let machine = Machine::new("p2pdma-two-steps");
    let before = "{\n\t// ours, do not touch\n\t\"logging\": { \"level\": \"ERROR\" },\n\t\"properties\": {\n\t\t\"allow_compat_mode\": true // keep\n\t}\n}\n";
    let path = machine.file("/etc/cufile.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, before).unwrap();
    let plan = machine.plan("cufile-p2pdma-keys");
    let said = machine.apply(&plan);
    assert_eq!(said.last().unwrap().0, FixStage::Mended, "{said:?}");
    let after = fs::read_to_string(&path).unwrap();
    assert!(
        after.contains("// ours, do not touch") && after.contains("true, // keep\n\t\t\"use_pci_p2pdma\": true"),
        "{after}"
    );
    assert_eq!(machine.report().finding("cfg-p2p-both").unwrap().status, Status::Pass);
    fixes::undo("cufile-p2pdma-keys", &machine.place(), &mut |_| true).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
}

#[test]
fn keys_in_a_file_that_libcufile_refuses_are_not_called_in_effect() {
    let machine = Machine::new("p2pdma-two-steps");
    let file = machine.file("/etc/cufile.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{ \"properties\": { \"io_batchsize\": \"many\" } }\n").unwrap();
    let plan = fixes::plan_by_id(&machine.root(), &machine.report(), "cufile-p2pdma-keys").unwrap();
    let told = machine.apply(&plan);
    assert_eq!(told.last().map(|(stage, _)| *stage), Some(FixStage::StillWrong), "{told:?}");
}

#[test]
fn a_file_that_is_broken_is_not_edited() {
    let machine = Machine::new("p2pdma-two-steps");
    let path = machine.file("/etc/cufile.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{ \"properties\": { \"use_pci_p2pdma\": false, } }").unwrap();
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
    fixes::undo("p2pdma-registry-keys", &machine.place(), &mut |_| true).unwrap();
    assert!(!path.exists() && !path.parent().unwrap().exists(), "the folder that it made is gone, too");
}

#[test]
fn the_checklist_knows_what_is_done_and_takes_the_shorter_way() {
    let two = Machine::new("p2pdma-two-steps");
    let guided = guide::guide(&two.root(), &two.report());
    assert_eq!(guided.route, Route::P2pdma);
    let open: Vec<&str> = guided.steps.iter().filter(|s| s.state == State::Open).map(|s| s.title.as_str()).collect();
    assert_eq!(
        open,
        ["The GPU's BAR1 mapped statically", "P2PDMA switched on in cufile.json", "The proof: reads counted on p2pdma"]
    );
    let text = guide::text(&guided);
    assert!(text.contains("✔  2. The NVIDIA driver, with the open kernel modules (done)"), "{text}");
    assert!(text.contains("gds-top fix cufile-p2pdma-keys does it") && !text.contains("nvidia-fs built"), "{text}");

    let boot = Machine::new("secure-boot");
    let guided = guide::guide(&boot.root(), &boot.report());
    assert_eq!(guided.route, Route::Nvfs);
    let module = guided.steps.iter().find(|s| s.title.contains("built for this kernel")).unwrap();
    assert_eq!(module.state, State::Open);
    assert!(guide::text(&guided).contains("mokutil --import"), "{}", guide::text(&guided));

    let proprietary = Machine::new("proprietary-nvfs");
    let guided = guide::guide(&proprietary.root(), &proprietary.report());
    let driver = guided.steps.iter().find(|s| s.title.contains("NVIDIA driver")).unwrap();
    assert_eq!(driver.plans.iter().map(|plan| plan.id.as_str()).collect::<Vec<_>>(), ["nvidia-driver-open"]);
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
        ("h200-vm-udev", Status::Info, "its check finds it in order now"),
    ] {
        let machine = Machine::new(name);
        let log = machine.file("/var/log/cufile.log");
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        fs::write(
            &log,
            " 20-11-2026 14:32:16:1 [pid=1 tid=1] ERROR  cufio-udev:85 udev property not found: ID_FS_USAGE vda\n",
        )
        .unwrap();
        fs::write(
            machine.folder.path().join("machine/environment.json"),
            r#"{"CUFILE_LOGFILE_PATH": "/var/log/cufile.log"}"#,
        )
        .unwrap();
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
    let path = machine.folder.path().join("machine/commands.json");
    let mut commands: Vec<serde_json::Value> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let journal = ["journalctl", "-k", "-b", "-o", "cat"];
    commands.retain(|command| command["argv"] != serde_json::json!(journal));
    let log = "nvidia_fs: registered correctly with major number 505\n\
               nvidia-fs: rw_verify_area failed with -14\nNVRM: Xid (PCI:0000:be:00): 79\n";
    commands.push(serde_json::json!({"argv": journal, "exit_code": 0, "stdout": log, "stderr": ""}));
    fs::write(&path, serde_json::to_string(&commands).unwrap()).unwrap();
    let report = machine.report();
    let telling = |part: &str| -> Vec<&str> {
        let tells = |f: &&gds_top::domain::Finding| f.evidence.iter().any(|e| e.text.contains(part));
        report.findings.iter().filter(tells).map(|f| f.id.as_str()).collect()
    };
    assert_eq!(telling("rw_verify_area"), ["nvfs-errors"]);
    assert_eq!(telling("Xid").len(), 1, "{:?}", telling("Xid"));
}
