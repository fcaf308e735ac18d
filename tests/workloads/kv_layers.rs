//! Tests of KV-cache workloads layer by layer: prefetch, waiting, and the order of transfers.

use crate::kv::{number, run};
use crate::place::{Place, check_schema, words};
use serde_json::Value;
use std::path::PathBuf;

#[test]
fn prefetch_hides_what_no_prefetch_cannot() {
    let place = Place::host();
    let more = words(
        "--variants ram --compare prefetch_factor=0,2 --set enable_layerwise=1 --direction read --set chunk_size=64 --set compute_us=150000 --set max_concurrent_ops=1 --tokens 4096",
    );
    let (report, _) = place.report("lmcache", &more, &[]);
    // The hidden share depends on the machine, but the layers that may be read early do not. Reading takes a small
    // part of a layer's computing time, so even a busy machine has started some reads by then.
    let early = |factor: u64| {
        let run = run(&report, &format!("lmcache/ram:prefetch_factor={factor}/read"));
        let layers = run["workload"]["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 6);
        let time = |layer: &Value, name: &str| layer[name].as_u64().unwrap();
        let early = layers
            .windows(2)
            .filter(|two| {
                time(&two[1], "load_start_ns") < time(&two[0], "compute_start_ns") + time(&two[0], "compute_ns")
            })
            .count();
        (early, run["workload"]["hidden_fraction"].as_f64().unwrap())
    };
    let ((none, hidden_without), (some, hidden_with)) = (early(0), early(2));
    assert!(none == 0 && some > 0, "{none} layers of 5 were read early without prefetch, {some} with it");
    assert!(hidden_without == 0.0 && hidden_with > 0.0, "{hidden_without} {hidden_with}");
}

#[test]
fn ucm_waits_for_each_layer_or_for_all_at_the_end() {
    let place = Place::host();
    let more = words("--variants disk --compare enable_layerwise=0,1 --set block_tokens=64 --set compute_us=2000");
    let (report, status) = place.report("ucm", &more, &[]);
    assert_eq!(status, 0, "{report:#}");
    check_schema(&report);
    let layers = |on: u64| {
        run(&report, &format!("ucm/disk:enable_layerwise={on}/read"))["workload"]["layers"].as_array().unwrap().clone()
    };
    assert!(layers(0).is_empty());
    let waited = layers(1);
    assert_eq!(waited.len(), 6);
    let time = |layer: &Value, name: &str| layer[name].as_u64().unwrap();
    for (number, layer) in waited.iter().enumerate() {
        let loaded = time(layer, "load_start_ns") + time(layer, "load_ns");
        assert!(loaded <= time(layer, "compute_start_ns"), "layer {number} was computed before it was there: {layer}");
    }
    // The writes are the same in both cases, because nothing is computed while a cache is stored.
    assert!(run(&report, "ucm/disk:enable_layerwise=1/write")["workload"]["layers"].as_array().unwrap().is_empty());
}

#[test]
fn llm_ds_threads_take_reads_before_writes_or_both_as_they_come() {
    let place = Place::host();
    for variant in ["staging", "ram"] {
        let set = words("--direction read --set block_size=64 --set write_percent=100 --set threads_per_gpu=1");
        let more = [&["--variants", variant, "--compare", "read_priority=0,1"], &set[..]].concat();
        let (report, status) = place.report("llmd", &more, &[]);
        assert_eq!(status, 0, "{report:#}");
        check_schema(&report);
        let beside = |on: u64| {
            run(&report, &format!("llmd/{variant}:read_priority={on}/read"))["workload"]["concurrent_writes"].clone()
        };
        let (fair, first) = (beside(0), beside(1));
        for beside in [&fair, &first] {
            assert_eq!((number(beside, "/files"), number(beside, "/bytes")), (4, 4 * 64 * 6 * 2 * 256), "{beside}");
        }
        // With priority, a single thread writes nothing before its last read. Without priority, it writes three of
        // four files.
        assert_eq!(number(&first, "/before_last_read_operations"), 0, "{first}");
        assert!(number(&fair, "/before_last_read_operations") >= number(&fair, "/operations") / 2, "{fair}");
        assert_eq!((&first["read_priority"], &fair["read_priority"]), (&Value::Bool(true), &Value::Bool(false)));
        assert_eq!(place.files(), Vec::<PathBuf>::new());
    }
    let (report, _) = place.report("llmd", &["--variants", "staging", "--set", "block_size=64"], &[]);
    assert!(run(&report, "llmd/staging/read")["workload"].get("concurrent_writes").is_none());
}
