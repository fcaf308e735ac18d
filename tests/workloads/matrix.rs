//! The fault matrix of KV workloads and of the storage grid: variants and transfers with a fault in every call. The
//! result of a fault must be a transfer on another, listed route, or a failed run with a sentence. Wrong bytes must
//! never be reported as verified. `--nocapture` prints the figures.

use crate::kv::WORKLOADS;
use crate::place::Place;
use serde_json::Value;
use std::collections::BTreeMap;

const FAULTS: [&str; 14] = [
    "cuFileDriverOpen:5011",
    "cuFileHandleRegister:5027:2",
    "cuFileHandleRegister:5030",
    "cuFileBufRegister:5036",
    "cuFileRead:5:2",
    "cuFileRead:5030",
    "cuFileWrite:5:2",
    "cuFileWrite:28",
    "cuFileReadAsync:5:2",
    "cuFileWriteAsync:5:2",
    "cuFileReadAsync.later:5:2",
    "cuFileBatchIOSubmit:5040:2",
    "cuFileRead:abort:2",
    "cuFileWrite:abort:2",
];
const LIES: [(&str, &str); 4] = [
    ("STANDIN_CUFILE_CORRUPT", "3"),
    ("STANDIN_CUFILE_LOSE", "3"),
    ("STANDIN_CUFILE_SHORT", "1"),
    ("STANDIN_CUDA_CORRUPT", "2"),
];

/// The result of one run or cell, or the violated requirement.
fn judged(run: &Value) -> Result<&'static str, String> {
    let falls = run["workload"]["fallbacks"].as_array().is_some_and(|falls| !falls.is_empty());
    match (run["error"].as_str(), run["verified"].as_bool()) {
        (Some(error), verified) => {
            let wrong = error.contains("differ") || verified == Some(false);
            match error {
                _ if verified == Some(true) => Err(format!("verified and failed: {error}")),
                _ if wrong => Ok("wrong bytes were found"),
                error if error.len() > 15 => Ok("failed with a sentence"),
                error => Err(format!("no sentence: {error}")),
            }
        }
        (None, Some(false)) => Ok("wrong bytes were found"),
        (None, Some(true)) if falls => Ok("another route, listed"),
        (None, Some(true)) => Ok("right bytes"),
        // A grid compares a part of the bytes and does not call the cell verified.
        (None, None) => Ok("right bytes in the compared part"),
    }
}

#[test]
fn every_fault_is_another_route_or_a_failed_run_and_no_wrong_byte_is_verified() {
    let Some(place) = Place::gpu() else { return };
    let thorough = std::env::var_os("GDS_TOP_THOROUGH").is_some();
    let faults = FAULTS.iter().map(|fault| ("STANDIN_CUFILE_FAIL", *fault)).chain(LIES);
    let faults: Vec<(&str, &str)> =
        faults.enumerate().filter(|(at, _)| thorough || at % 3 == 1).map(|(_, fault)| fault).collect();
    let (mut cells, mut broken) = (0, Vec::new());
    let mut table: BTreeMap<String, BTreeMap<&'static str, u32>> = BTreeMap::new();
    let mut take = |name: &str, fault: &str, entries: &[Value], status: i32| {
        cells += entries.len();
        let mut bad = false;
        for entry in entries {
            // A variant that was not named may fail with a sentence, if others run. It may not crash.
            bad |= entry["error"].as_str().is_some_and(|error| error.contains("signal"));
            bad |= entry["verified"] == Value::Bool(false);
            match judged(entry) {
                Ok(word) => *table.entry(name.to_owned()).or_default().entry(word).or_default() += 1,
                Err(what) => broken.push(format!("{name} {fault}: {what}")),
            }
        }
        bad |= entries.iter().all(|entry| !entry["error"].is_null());
        if bad && status == 0 {
            broken.push(format!("{name} {fault}: status 0 after wrong bytes, a crash, or although all failed"));
        }
    };
    for (variable, value) in &faults {
        for (workload, set) in WORKLOADS {
            let more = [set, &["--batch", "2"][..]].concat();
            let (report, status) = place.report(workload, &more, &[(variable, value)]);
            take(workload, value, report["runs"].as_array().unwrap(), status);
        }
        let dir = place.dir();
        let words =
            ["io", dir.to_str().unwrap(), "--file-size", "1M", "--seconds", "0.01", "--size", "64K", "--threads", "1"];
        let (report, status) = place.json(&words, &[(variable, value)]);
        take("grid", value, report["grid"]["cells"].as_array().unwrap(), status);
    }
    for (name, ends) in &table {
        let ends: Vec<String> = ends.iter().map(|(end, count)| format!("{count} {end}")).collect();
        println!("{name:<10} {}", ends.join(", "));
    }
    println!("KV and grid: {} faults, {cells} runs and cells, {} promises kept", faults.len(), cells - broken.len());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
