//! Machines with NVSwitches. If Fabric Manager is missing, has another version or is not running, CUDA does not
//! start.

use crate::machine::*;
use gds_top::core::{FixId, Route, Status};
use serde_json::json;

const PROGRAM: &str = "files/usr/bin/nv-fabricmanager";
const GPU: &str = "files/sys/bus/pci/devices/0000:be:00.0";

/// Fabric Manager of this version is installed.
fn installed(version: &str) -> Vec<Edit> {
    vec![
        put(PROGRAM, ""),
        command(&["nv-fabricmanager", "--version"], &format!("Fabric Manager version is : {version}\n")),
    ]
}

fn running() -> Vec<Edit> {
    vec![
        put("files/run/nvidia-fabricmanager/nv-fabricmanager.pid", "4711\n"),
        put("files/proc/4711/status", "Name:\tnv-fabricmanage\nUmask:\t0022\nUid:\t0\t0\t0\t0\n"),
    ]
}

/// A B200, which has no NVSwitch on the PCI bus.
fn b200() -> Vec<Edit> {
    all([gpu("NVIDIA B200", "10.0"), vec![put(format!("{GPU}/device"), "0x2901\n")]])
}

fn not_ready() -> Vec<Edit> {
    vec![cuda_fails(802)]
}

fn stopped_by_fabric(name: &'static str, edits: Vec<Edit>) -> Variant {
    bad(name, P2PDMA.0, Route::None, Route::P2pdma, &["gpu-fabric"], &["gpu-fabric", "lib-open-probe"], edits)
}

#[test]
fn a_fabric_that_is_not_configured_is_the_cause_of_error_802() {
    judge(vec![
        stopped_by_fabric("not installed", all([nvswitch(), not_ready()])),
        stopped_by_fabric("of another version", all([nvswitch(), installed("580.82.07"), not_ready()])),
        stopped_by_fabric("not running", all([nvswitch(), installed("580.95.05"), not_ready()])),
        stopped_by_fabric("running in vain", all([nvswitch(), installed("580.95.05"), running(), not_ready()])),
        stopped_by_fabric("no nvlsm", all([b200(), installed("580.95.05"), running(), not_ready()])),
        stopped_by_fabric("in a container", all([nvswitch(), not_ready(), vec![put("files/run/.containerenv", "")]])),
    ]);
}

#[test]
fn a_fabric_that_works_is_no_matter_how() {
    judge(vec![
        // Fabric Manager may be in the driver container of an operator, or at another place in an image.
        fine("CUDA starts", P2PDMA, nvswitch()),
        fine("installed and running", P2PDMA, all([nvswitch(), installed("580.95.05"), running()])),
        fine("a B200 whose CUDA starts", P2PDMA, b200()),
        // A guest with some GPUs of a board sees no NVSwitch, because its host runs Fabric Manager.
        fine("a guest", P2PDMA, all([b200(), vec![set(NVML, "/gpus/0/virtualization", json!("passthrough"))]])),
    ]);
}

#[test]
fn a_version_that_differs_is_said_before_cuda_was_asked() {
    let machine = |edits: Vec<Edit>| {
        let closed = set(LIB, "/open", json!(null));
        check(build(P2PDMA.0, &all([nvswitch(), edits, vec![closed]])).path())
    };
    let report = machine(installed("580.82.07"));
    let finding = report.finding("gpu-fabric").unwrap();
    assert!(finding.summary.contains("580.82.07") && finding.summary.contains("580.95.05"), "{}", finding.summary);
    assert_eq!(finding.fix, Some(FixId::NvidiaFabricmanager));
    // The file of the process is missing. This alone blocks nothing, because CUDA was not queried.
    let report = machine(installed("580.95.05"));
    let finding = report.finding("gpu-fabric").unwrap();
    assert_eq!((finding.status, finding.blocks.len()), (Status::Warn, 0), "{}", finding.summary);
}

#[test]
fn only_a_process_of_root_or_of_the_service_is_fabric_manager() {
    let closed = || vec![set(LIB, "/open", json!(null))];
    let status = |process: Vec<Edit>| {
        let edits = all([nvswitch(), installed("580.95.05"), running(), closed(), process]);
        check(build(P2PDMA.0, &edits).path()).finding("gpu-fabric").unwrap().status
    };
    let of = |name: &str, ids: &str, group: &str| {
        vec![
            put("files/proc/4711/status", format!("Name:\t{name}\nUid:\t{ids}\n")),
            put("files/proc/4711/cgroup", format!("0::{group}\n")),
        ]
    };
    let (user, service) = ("/user.slice/user-1000.slice/session-3.scope", "/system.slice/nvidia-fabricmanager.service");
    assert_eq!(status(Vec::new()), Status::Pass);
    assert_eq!(status(of("nv-fabricmanage", "997 997 997 997", service)), Status::Pass);
    for other in [
        of("nv-fabricmanage", "1000 1000 1000 1000", user),
        // A link to a set-uid program.
        of("nv-fabricmanage", "1000 0 0 0", user),
        of("nv-fabricmanage", "1000 1000 1000 1000", &format!("/user.slice/user-1000.slice{service}")),
        of("sleep", "0 0 0 0", user),
    ] {
        assert_eq!(status(other), Status::Warn);
    }
}
