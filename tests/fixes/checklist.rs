//! The checklist leads from a bare machine to the proof, and a machine without a GPU gets no fix and no step that is done.

use crate::copies::look;
use crate::machine::{Edit, all, build, put, without};
use gds_top::core::{FixId, Route};
use gds_top::fixes::guide::{self, State};
use gds_top::fixes::{self, Place};
use std::path::Path;

const RELEASE: &str = "files/etc/os-release";

/// The offered fixes, the number of completed steps, and the route.
fn to_do(folder: &Path) -> (Vec<String>, usize, Route) {
    let (root, report) = look(folder);
    let guided = guide::guide(&root, &report);
    let plans = guided.steps.iter().flat_map(|step| &step.plans).map(|plan| plan.id.to_string()).collect();
    (plans, guided.done(), guided.route)
}

#[test]
fn the_checklist_goes_from_a_bare_machine_to_the_proof_as_steps_are_done() {
    // A new Ubuntu with the GPU on the bus and no software of NVIDIA.
    let bare: Vec<Edit> = vec![
        put(RELEASE, "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n"),
        put("files/etc/apt/sources.list.d/ubuntu.sources", "URIs: http://archive.ubuntu.com/ubuntu/\n"),
        without("files/proc/driver"),
        without("files/sys/module/nvidia"),
        put("files/proc/modules", "nvme 73728 2 - Live 0x0000000000000000\n"),
        put("nvml.json", r#"{"error": "libnvidia-ml.so.1 was not found"}"#),
        put("libcufile.json", r#"{"error": "libcufile is not installed", "tried": [], "found": []}"#),
    ];
    let (plans, done, _) = to_do(build("p2pdma-two-steps", &bare).path());
    for id in ["nvidia-driver-open", "nvidia-repository", "libcufile-install"] {
        assert!(plans.iter().any(|plan| plan == id), "{id} is not offered: {plans:?}");
    }
    assert_eq!(plans[0], "nvidia-repository", "what is installed from it comes behind it: {plans:?}");
    // The repository is added, and the driver and the library are installed.
    let installed = [
        put(RELEASE, "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n"),
        put(
            "files/etc/apt/sources.list.d/cuda.list",
            "deb https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/ /\n",
        ),
    ];
    let (plans, further, route) = to_do(build("p2pdma-two-steps", &installed).path());
    assert_eq!(
        (plans, route),
        (vec!["p2pdma-registry-keys".to_owned(), "cufile-p2pdma-keys".to_owned()], Route::P2pdma)
    );
    assert!(further > done, "{further} after {done}");
    // cufile.json was changed by a fix of gds-top. The keys of the driver wait for the reboot.
    let folder = build("p2pdma-two-steps", &all([installed.to_vec(), vec![without("capture.json")]]));
    let place = Place::folder(folder.path()).unwrap();
    for id in ["cufile-p2pdma-keys", "p2pdma-registry-keys"] {
        let (root, report) = look(folder.path());
        let plan = fixes::plan_by_id(&root, &report, id.parse().unwrap()).unwrap();
        assert_eq!(
            fixes::apply_and_verify(&root, &plan, &plan.digest(), &place, &root.captured_paths(), &mut |_| {}),
            fixes::Ended::Done,
            "{id}"
        );
    }
    let (plans, nearly, _) = to_do(folder.path());
    assert_eq!(plans, ["initramfs"], "a directory runs no commands, so the initramfs is still to be built");
    assert!(nearly >= further);
    // After the reboot, only the proof is left.
    let (plans, last, _) = to_do(build("p2pdma-healthy", &[]).path());
    assert!(plans.is_empty() && last >= nearly, "{plans:?}");
}

#[test]
fn a_step_whose_check_warns_is_not_done_on_a_machine_without_a_gpu() {
    let folder = build("no-gpu", &[without("files/run/udev")]);
    let (root, report) = look(folder.path());
    let guided = guide::guide(&root, &report);
    assert_eq!(guided.route, Route::Compat);
    for id in ["lib-found", "udev-database"] {
        let finding = report.findings.iter().find(|finding| finding.id == id).unwrap();
        assert_eq!(finding.status, gds_top::core::Status::Warn, "{id}: {}", finding.summary);
        let step = guided.steps.iter().find(|step| step.checks.iter().any(|check| *check == id)).unwrap();
        assert_eq!(step.state, State::Open, "{id}: {}", guide::text(&guided, 80));
        let names_fix = |fix| step.advice[0].contains(&format!("gds-top fix {fix}"));
        assert!(finding.fix.is_none_or(names_fix), "the fix precedes its alternatives: {:?}", step.advice);
    }
}

#[test]
fn a_permanent_blocker_is_not_below_a_done_step() {
    let no_gpu = [
        put("nvml.json", "{\"error\": \"libnvidia-ml.so.1 cannot be opened\"}"),
        without("files/sys/bus/pci/devices/0000:be:00.0"),
        without("files/proc/driver"),
        without("files/sys/module/nvidia"),
    ];
    let folder = build("h200-vm-no-udev", &no_gpu);
    let (root, report) = look(folder.path());
    assert!(!report.has_gpu);
    let guided = guide::guide(&root, &report);
    for step in &guided.steps[1..] {
        let has = |id: &str| step.checks.iter().any(|check| *check == id);
        let is_closed = has("vm-type") || has("gpu-present");
        assert_eq!(step.state == State::Impossible, is_closed, "{}", guide::text(&guided, 100));
        assert!(!is_closed || step.found.len() == 1, "only the reason is listed: {:?}", step.found);
    }
}

#[test]
fn without_a_gpu_no_fix_and_no_advice_is_offered_that_only_matters_with_one() {
    let folder = build("no-gpu", &[without("files/run/udev")]);
    let (root, report) = look(folder.path());
    assert!(!report.has_gpu);
    assert!(!fixes::plan(&root, &report).is_empty(), "a fix can be named");
    let offered = fixes::offered(&root, &report);
    assert!(offered.is_empty(), "{offered:?}");
    let text = gds_top::report::findings(&report.findings, &report.verdicts, 100, false);
    assert!(!text.contains("gds-top fix") && !text.contains("▲ warn"), "{text}");
    // The facts are listed, and the JSON form has the fixes.
    assert!(text.contains("lib-found") && text.contains("udev-database"), "{text}");
    let folder = build("h200-vm-no-udev", &[]);
    let (root, report) = look(folder.path());
    assert_eq!(fixes::offered(&root, &report), fixes::plan(&root, &report), "with a GPU everything is offered");
}

#[test]
fn the_checklist_and_the_preview_fit_the_terminal() {
    let folder = build("p2pdma-two-steps", &[]);
    let (root, report) = look(folder.path());
    let guided = guide::guide(&root, &report);
    let plan = fixes::plan_by_id(&root, &report, FixId::P2pdmaRegistryKeys).unwrap();
    let is_command = |line: &str| line.trim_start().starts_with(['$', '+', '-', '@']);
    for text in [guide::text(&guided, 60), fixes::preview(&plan, 60)] {
        let prose = text.lines().filter(|line| !is_command(line) && line.contains("  "));
        let long: Vec<&str> = prose.filter(|line| line.chars().count() > 60 && line.trim().contains(' ')).collect();
        assert!(long.is_empty(), "{long:#?}\n{text}");
    }
}
