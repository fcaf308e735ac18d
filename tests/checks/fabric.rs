//! Machines with NVSwitches. If Fabric Manager is missing, has another version or is not running, CUDA does not
//! start.

use crate::machine::*;
use gds_top::core::{FixId, Route};
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
        put("files/proc/4711/comm", "nv-fabricmanage\n"),
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
    assert_eq!((finding.status, finding.blocks.len()), (gds_top::core::Status::Warn, 0), "{}", finding.summary);
}
