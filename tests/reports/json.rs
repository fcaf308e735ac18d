//! Tests that the JSON report matches its schema, for a realistic race and for random states.

use crate::any::any_state;
use crate::race::race;
use gds_top::report;
use proptest::prelude::*;
use serde_json::Value;

fn schema() -> Value {
    serde_json::from_str(include_str!("../../schema/report.schema.json")).unwrap()
}

fn faults(validator: &jsonschema::Validator, report: &Value) -> Vec<String> {
    validator.iter_errors(report).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

#[test]
fn the_schema_is_a_schema_and_rejects_what_is_no_report() {
    jsonschema::draft202012::meta::validate(&schema()).unwrap();
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    assert!(!validator.is_valid(&serde_json::json!({})));
    let mut report = report::json(&race());
    assert_eq!(faults(&validator, &report), Vec::<String>::new());
    for (place, wrong) in [
        ("/schema_version", serde_json::json!(1)),
        ("/runs/0/wall_ns", serde_json::json!("1.2 s")),
        ("/runs/0/cache", serde_json::json!("warm")),
        ("/runs/0/phases", serde_json::json!({"thinking": 5})),
        ("/verdicts/0/route", serde_json::json!("gds")),
        ("/tensors/0/aligned", Value::Null),
    ] {
        let right = std::mem::replace(report.pointer_mut(place).unwrap(), wrong);
        assert!(!validator.is_valid(&report), "{place}");
        *report.pointer_mut(place).unwrap() = right;
    }
}

#[test]
fn every_field_of_the_contract_is_there() {
    let report = report::json(&race());
    for place in ["tool", "machine", "checks", "verdicts", "plan", "runs", "tensors", "samples", "analysis"] {
        assert!(!report[place].is_null(), "{place}");
    }
    assert_eq!(report["schema_version"], 2);
    let run = &report["runs"][6];
    assert_eq!((run["engine"].as_str(), run["repeat"].as_u64()), (Some("gds-per-tensor"), Some(0)));
    assert_eq!(run["route"]["posix_reads"], 21);
    let phases: u64 = run["phases"].as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum();
    assert_eq!(Some(phases), run["wall_ns"].as_u64(), "phases add up to the wall time");
    assert_eq!(report["runs"].as_array().unwrap().len(), 15);
    assert_eq!(report["tensors"].as_array().unwrap().len(), 15 * 21);
    assert_eq!(report["samples"][0]["values"]["pcie_rx_bytes_per_s"], 3.1e9);
}

#[test]
fn the_analysis_finds_what_the_race_was_made_of() {
    let report = report::json(&race());
    let engine = |name: &str, cache: &str| {
        let engines = report["analysis"]["engines"].as_array().unwrap();
        engines.iter().find(|e| e["engine"] == name && e["cache"] == cache).unwrap().clone()
    };
    let per_tensor = engine("gds-per-tensor", "hot");
    assert!((per_tensor["per_tensor_overhead_ns"].as_f64().unwrap() / 2.7e6 - 1.0).abs() < 0.03, "{per_tensor}");
    assert!((per_tensor["bandwidth_bytes_per_s"].as_f64().unwrap() / 8e9 - 1.0).abs() < 0.05, "{per_tensor}");
    assert!(engine("mmap", "hot")["fit_r2"].as_f64().unwrap() > 0.99);
    // 2.68 ms / (1/6 - 1/8 ns per byte) = 64.3 MB.
    let crossovers = report["analysis"]["crossovers"].as_array().unwrap();
    let cross = crossovers.iter().find(|c| c["faster_below"] == "mmap" && c["cache"] == "hot").unwrap();
    assert!((cross["bytes"].as_f64().unwrap() / 64.3e6 - 1.0).abs() < 0.15, "{cross}");
    for told in report["analysis"]["predictions"].as_array().unwrap() {
        let (wall, measured) = (told["wall_ns"].as_f64().unwrap(), told["measured_ns"].as_f64().unwrap());
        assert!((wall / measured - 1.0).abs() < 0.05, "{told}");
    }
    let fastest = &report["analysis"]["comparisons"][0]["standings"][0];
    assert_eq!((fastest["engine"].as_str(), fastest["ratio_to_fastest"].as_f64()), (Some("pread"), Some(1.0)));
}

#[test]
fn an_empty_state_is_a_valid_report_of_nothing() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let report = report::json(&gds_top::session::State::default());
    assert_eq!(faults(&validator, &report), Vec::<String>::new());
    assert_eq!(report["runs"], serde_json::json!([]));
    assert!(report["machine"].is_null());
}

#[test]
fn writing_gives_the_same_as_the_value() {
    let mut out = Vec::new();
    report::write_json(&race(), &mut out).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), report::json(&race()));
}

proptest! {
    #[test]
    fn any_state_makes_a_report_that_validates(seed in any::<u64>()) {
        let validator = jsonschema::draft202012::new(&schema()).unwrap();
        let report = report::json(&any_state(seed));
        prop_assert_eq!(faults(&validator, &report), Vec::<String>::new());
    }
}
