//! The fault matrix of loads: every engine with a fault in every call of CUDA and cuFile. The result of a fault must
//! be correct bytes on another, reported route, or a failed run with the call and its code. Wrong bytes must never be
//! reported as verified. `--nocapture` prints the figures.

use crate::harness::{ENGINES, Outcome, folder, gpu_order, run, standin_env, with_settings};
use crate::models;
use crate::standins::{self, Standins};
use gds_top::core::{Engine, LaneOrder, ModelInfo};
use gds_top::present::notes::sentence;
use std::collections::BTreeMap;

/// Calls of cuFile with the error codes that they can return.
const CUFILE: [(&str, &[&str]); 17] = [
    ("cuFileDriverOpen", &["5001", "5011", "5030"]),
    ("cuFileHandleRegister", &["5027", "5030", "5001"]),
    ("cuFileBufRegister", &["5036", "5001"]),
    ("cuFileRead", &["5", "22", "5030"]),
    ("cuFileReadAsync", &["5", "5030"]),
    ("cuFileReadAsync.later", &["5", "5030"]),
    ("cuFileStreamRegister", &["5030"]),
    ("cuFileBatchIOSetUp", &["5040"]),
    ("cuFileBatchIOSubmit", &["5040", "5001"]),
    ("cuFileBatchIOGetStatus", &["5044"]),
    ("cuFileBatchIO.entry", &["5044", "5"]),
    ("cuFileDriverGetProperties", &["5001"]),
    ("cuFileSetStatsLevel", &["5022"]),
    ("cuFileStatsStart", &["5022"]),
    ("cuFileGetStatsL3", &["5022"]),
    ("cuFileBufDeregister", &["5035"]),
    ("cuFileDriverClose_v2", &["5001"]),
];
/// Calls of CUDA with the error codes that they can return.
const CUDA: [(&str, &[&str]); 8] = [
    ("cuInit", &["100", "999"]),
    ("cuMemAlloc_v2", &["2"]),
    ("cuMemHostAlloc", &["2"]),
    ("cuMemHostRegister_v2", &["2", "712"]),
    ("cuMemcpyHtoDAsync_v2", &["700", "719"]),
    ("cuMemcpyHtoD_v2", &["700"]),
    ("cuStreamSynchronize", &["700"]),
    ("cuStreamCreate", &["2"]),
];
/// Bytes that are changed or lost without an error, and short transfers.
const LIES: [(&str, &str); 5] = [
    ("STANDIN_CUFILE_CORRUPT", "2"),
    ("STANDIN_CUFILE_LOSE", "2"),
    ("STANDIN_CUFILE_SHORT", "1"),
    ("STANDIN_CUDA_CORRUPT", "2"),
    ("STANDIN_CUFILE_RUDE", "1"),
];

fn load(built: &Standins, order: &LaneOrder, told: &[(&str, &str)]) -> Outcome {
    let mut env = standin_env(&built.folder, told);
    let machine = folder();
    standins::machine(machine.path(), machine.path());
    standins::load_nvidia_fs(machine.path());
    env.push(("LD_PRELOAD", built.redirect.to_str().unwrap()));
    env.push(("GDS_TOP_TEST_REDIRECT", machine.path().to_str().unwrap()));
    run(order, &env)
}

/// The result of a fault as a word for the table, or the violated requirement.
fn judged(outcome: &Outcome, call: &str, code: &str) -> Result<&'static str, String> {
    if outcome.stderr.contains("panicked") {
        return Err(format!("it panicked: {}", outcome.stderr));
    }
    if !outcome.finished() {
        let killed = outcome.status.is_some_and(|status| !status.success());
        return if killed && code == "abort" {
            Ok("ended by the signal")
        } else {
            Err(format!("no result: {}", outcome.stderr))
        };
    }
    let result = outcome.result();
    match (&result.error, result.verified) {
        (Some(error), verified) => {
            if verified == Some(true) {
                return Err(format!("verified and failed: {error}"));
            }
            // The errno of a transfer is reported as text.
            let words = match code {
                "5" => "Input/output error",
                "22" => "Invalid argument",
                code => code,
            };
            let stem = call.split('.').next().unwrap_or(call);
            let named = error.contains(words) || error.contains(code) || error.contains(stem);
            if named { Ok("failed with the code") } else { Err(format!("neither {call} nor {code} in: {error}")) }
        }
        (None, Some(true)) => {
            let told = result
                .notes
                .iter()
                .map(sentence)
                .any(|note| note.contains(code) || note.contains("failed") || note.contains("refused"));
            Ok(match result.repeated_reads {
                Some(1..) => "repeated by pread",
                _ if told => "another route, noted",
                _ => "no effect",
            })
        }
        (None, Some(false)) => Ok("wrong bytes were found"),
        (None, None) => Err("not verified and no error".to_owned()),
    }
}

/// A load with one fault.
struct Cell<'a> {
    engine: &'a Engine,
    variable: &'a str,
    value: String,
    call: &'a str,
    code: &'a str,
}

#[test]
fn every_fault_is_repeated_or_reported_and_no_wrong_byte_is_verified() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model: ModelInfo = models::odd(folder.path());
    let thorough = std::env::var_os("GDS_TOP_THOROUGH").is_some();
    let engines = ENGINES;
    let mut cells: Vec<Cell<'_>> = Vec::new();
    for engine in &engines {
        let calls = CUFILE.iter().filter(|_| engine.opens_cufile()).map(|fault| ("STANDIN_CUFILE_FAIL", fault));
        for (variable, (call, codes)) in calls.chain(CUDA.iter().map(|fault| ("STANDIN_CUDA_FAIL", fault))) {
            for code in codes.iter().chain(thorough.then_some(&"abort")).take(if thorough { 9 } else { 1 }) {
                // The first call, a later call, and every call.
                for nth in if thorough { &[":1", ":3", ""][..] } else { &[":2"][..] } {
                    cells.push(Cell { engine, variable, value: format!("{call}:{code}{nth}"), call, code });
                }
            }
        }
        for (variable, value) in LIES {
            cells.push(Cell { engine, variable, value: value.to_owned(), call: variable, code: variable });
        }
    }
    let results = crate::spread::spread(&cells, |cell| {
        let is_cufile = cell.engine.opens_cufile();
        let set: &[(&str, u64)] = if is_cufile { &[("block_bytes", 65_536), ("threads", 2)] } else { &[] };
        let order = with_settings(gpu_order(cell.engine.clone(), &model), set);
        judged(&load(&built, &order, &[(cell.variable, cell.value.as_str())]), cell.call, cell.code)
    });
    let mut table: BTreeMap<String, BTreeMap<&'static str, u32>> = BTreeMap::new();
    let mut broken = Vec::new();
    for (Cell { engine, variable, value, .. }, end) in cells.iter().zip(results) {
        match end {
            Ok(word) => *table.entry(engine.to_string()).or_default().entry(word).or_default() += 1,
            Err(what) => broken.push(format!("{engine} {variable}={value}: {what}")),
        }
    }
    for (engine, ends) in &table {
        let ends: Vec<String> = ends.iter().map(|(end, count)| format!("{count} {end}")).collect();
        println!("{engine:<15} {}", ends.join(", "));
    }
    println!("loads: {} cells, {} promises kept", cells.len(), cells.len() - broken.len());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
