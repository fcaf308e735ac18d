//! Tests the commands for cufile.json: output, JSON output and exit status for files that are valid, questionable,
//! rejected, or not files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "checks/machine.rs"]
mod machine;
#[path = "program/mod.rs"]
mod program;

use crate::program::gds_top;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn config(&self, words: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = gds_top();
        command.arg("config").args(words).current_dir(self.folder.path());
        command.envs(environment.iter().copied()).output().unwrap()
    }

    fn json(&self, words: &[&str], environment: &[(&str, &str)]) -> (i32, Value) {
        let output = self.config(&[words, &["--json"]].concat(), environment);
        let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{words:?}: {e}: {output:?}"));
        (output.status.code().unwrap(), value)
    }
}

fn machine(name: &str) -> String {
    machine::fixture(name).display().to_string()
}

const FINE: &str = "{ // ours\n \"properties\": { \"allow_compat_mode\": false } }\n";
const DOUBTFUL: &str = "{ \"properties\": { \"use_compat_mode\": true } }\n";
const REFUSED: &str = "{ \"properties\": { \"io_batchsize\": 512, } }\n";

/// Files with a wrong part. libcufile opens with them, but a setting has no effect or is harmful.
const IGNORED_IN_PART: &[&str] = &[
    "{ \"propertise\": {} }",
    "{ \"properties\": { \"alow_compat_mode\": true } }",
    "{ \"properties\": { \"Allow_Compat_Mode\": true } }",
    "{ \"properties\": { \"allow_compat_mode \": true } }",
    "{ \"properties\": { \"max_io_threads\": 8 } }",
    "{ \"execution\": { \"io_batchsize\": 64 } }",
    "{ \"properties\": { \"execution\": { \"parallel_io\": true } } }",
    "{ \"allow_compat_mode\": true }",
    "{ \"properties.allow_compat_mode\": true }",
    "{ \"properties\": { \"io_batchsize\": 64, \"io_batchsize\": 128 } }",
    "{ \"execution\": {}, \"execution\": {} }",
    "{ \"properties\": { \"use_compat_mode\": true } }",
    "{ \"blacklist\": { \"drivers\": [] } }",
    "{ \"logging\": { \"level\": \"debug\" } }",
    "{ \"logging\": { \"level\": \"VERBOSE\" } }",
    "{ \"properties\": { \"io_priority\": \"HIGH\" } }",
    "{ \"properties\": { \"rdma_load_balancing_policy\": \"Fastest\" } }",
    "{ \"properties\": { \"rdma_dev_addr_list\": [\"10.0.0.300\"] } }",
    "{ \"properties\": { \"use_pci_p2pdma\": true } }",
    "{ \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }",
    "{ \"fs\": { \"lustre\": { \"use_pci_p2pdma\": true } } }",
    "{ \"properties\": { \"allow_compat_mode\": false, \"force_compat_mode\": true } }",
    "{ \"properties\": { \"io_batchsize\": 64.5 } }",
    "{ \"profile\": { \"cufile_stats\": 7 } }",
    "{} }",
    "{} { \"properties\": {} }",
    "{ \"comment\": \"ours\" }",
    "{ \"profile\": { \"nvtx\": true } }",
    "{ \"profile\": { \"cufile_stat\": 1 } }",
    "{ \"block\": { \"use_pci_p2pdma\": true } }",
    "{ \"fs\": { \"wekafs\": { \"rdma_write_support\": true } } }",
    "{ \"lustre\": { \"posix_gds_min_kb\": 4 } }",
    "{ \"denylist\": { \"mount\": [] } }",
    "{ \"cufile\": { \"properties\": {} } }",
    "{ \"CUFILE_LOGGING_LEVEL\": \"ERROR\" }",
    "{ \"properties\": { \"io_batchsize\": 064 } }",
    "{ \"properties\": { \"posix_pool_slab_count\": [0, 64, 64] } }",
    "{ \"properties\": { \"posix_pool_slab_size_kb\": [4, 1024] } }",
    "{ \"properties\": { \"force_compat_mode\": true, \"use_pci_p2pdma\": true }, \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }",
    "{ \"fs\": { \"weka\": { \"mount_table\": { \"/tmp\": {} } } } }",
    "{ \"properties\": { \"io_batchsize\": 256, \"max_device_cache_size_kb\": 131072 } }",
    "{ \"properties\": { \"rdma_dynamic_routing\": true, \"rdma_dynamic_routing_order\": [\"SYS_MEM\", \"GPU_MEM\"] } }",
    "{ \"properties\": { \"rdma_dynamic_routing\": true, \"rdma_dynamic_routing_order\": [\"SYS_MEM\"] } }",
    "{ \"properties\": { \"per_buffer_cache_size_kb\": 16384, \"max_device_cache_size_kb\": 1024 } }",
    "{ \"properties\": { \"max_device_pinned_mem_size_kb\": 99999999999996 } }",
    "{ \"properties\": { \"io_batchsize\": 1e2 } }",
    "{ \"properties\": { \"max_device_cache_size_kb\": 131072.0 } }",
    "{ \"execution\": { \"min_io_threshold_size_kb\": 4294967295 } }",
    "{ \"denylist\": { \"drivers\": [\"nvmee\"] } }",
    "{ \"denylist\": { \"drivers\": [\"nvme-rdma\"] } }",
    "{ \"denylist\": { \"filesystems\": [\"ext44\"] } }",
    "{ \"denylist\": { \"filesystems\": [\"EXT4\"] } }",
    "{ \"denylist\": { \"filesystems\": [\"\"] } }",
    "{ \"denylist\": { \"filesystems\": [\"nfs\", \"nfs\"] } }",
    "{ \"properties\": { \"force_compat_mode\": true, \"use_poll_mode\": true } }",
    "{ \"properties\": { \"force_compat_mode\": true, \"rdma_dynamic_routing\": true } }",
    "{ \"properties\": { \"force_compat_mode\": true }, \"denylist\": { \"filesystems\": [\"nfs\"] } }",
    "{ \"properties\": { \"force_compat_mode\": true, \"rdma_dev_addr_list\": [\"10.0.0.1\"] } }",
    "{ \"properties\": { \"allow_compat_mode\": false, \"gds_fallback_io\": true } }",
    "{ \"properties\": { \"vanilla_posix_io_mode\": true, \"use_pci_p2pdma\": true }, \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }",
    "{ \"properties\": { \"poll_mode_max_size_kb\": 64 } }",
    "{ \"execution\": { \"parallel_io\": true, \"max_request_parallelism\": 0 } }",
];

/// A wrong value of each type of key: `gds-top config lint --strict` ends with 1 for each.
#[test]
fn a_wrong_value_of_each_kind_of_key_ends_with_1() {
    let desk = Desk::new();
    let root = machine("p2pdma-listed");
    // Keys with values of the wrong type, out of range, not aligned, or of another case.
    for (key, values) in [
        ("properties.allow_compat_mode", &["1", "\"true\"", "[]", "{}", "TRUE", "null"][..]),
        ("properties.io_batchsize", &["\"128\"", "0", "-1", "257", "1e10", "[128]", "128.5", "0128"]),
        ("properties.max_direct_io_size_kb", &["100", "32", "16448", "16384.5", "\"16M\""]),
        ("properties.per_buffer_cache_size_kb", &["100", "32768"]),
        (
            "properties.max_device_cache_size_kb",
            &["1e14", "131073", "-4", "\"1G\"", "99999999999996", "99999999999997"],
        ),
        (
            "properties.posix_pool_slab_size_kb",
            &["4", "[3, 1024, 16384]", "[\"4\"]", "[-4, 8, 12]", "[16384, 1024, 4]", "[4, 4, 1024]", "[0, 4, 1024]"],
        ),
        ("fs.weka.mount_table", &["[\"/tmp\"]", "{ \"/tmp\": \"10.0.0.1\" }"]),
        ("block.nvmeof.use_pci_p2pdma", &["true", "1"]),
        ("profile.cufile_stats", &["true", "-1", "\"1\"", "4"]),
        (
            "properties.rdma_dev_addr_list",
            &["\"10.0.0.1\"", "[1]", "[\"10.0.0.300\"]", "[\"10.0.0\"]", "[\"10.0.0.1\", \"10.0.0.1\"]"],
        ),
        ("properties.rdma_load_balancing_policy", &["\"roundrobin\"", "1"]),
        ("properties.rdma_peer_type", &["\"PEER_MEM\"", "true"]),
        ("properties.rdma_service_level", &["16", "-1", "\"3\""]),
        ("properties.rdma_dc_key", &["4292730316", "\"0xg\"", "\"0x1ffeeddcc\""]),
        ("properties.io_priority", &["\"Low\"", "0"]),
        ("execution.max_io_threads", &["129", "-1", "\"8\"", "8.5"]),
        ("logging.level", &["\"error\"", "\"WARNING\"", "3"]),
        ("logging.dir", &["5", "[]", "\"\""]),
        ("denylist.drivers", &["\"nvme\"", "[1]", "{}"]),
        ("fs.lustre.mount_table", &["[]", "\"x\"", "{ \"/tmp\": { \"rdma_dev_addr_list\": \"10.0.0.1\" } }"]),
    ] {
        for value in values {
            let (name, sections) = key.rsplit_once('.').map(|(a, b)| (b, a.split('.').collect::<Vec<_>>())).unwrap();
            let inner = format!("{{ \"{name}\": {value} }}");
            let text = sections.iter().rev().fold(inner, |text, section| format!("{{ \"{section}\": {text} }}"));
            let file = desk.file("cufile.json", &text);
            let output = desk.config(&["lint", &file, "--strict", "--root", &root], &[]);
            assert_eq!(output.status.code(), Some(1), "{text}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

/// Files that libcufile opens with and of which everything has an effect.
const RIGHT: &[&str] = &[
    "{}",
    "{ /* empty */ }",
    "{ \"logging\": { \"level\": \"TRACE\", \"dir\": \"/tmp\" } }",
    "{ \"profile\": { \"cufile_stats\": 3 } }",
    "{ \"profile\": { \"nvtx\": false, \"cufile_stats\": 0 } }",
    "{ \"properties\": { \"io_batchsize\": 256 } }",
    "{ \"properties\": { \"max_direct_io_size_kb\": 16384, \"per_buffer_cache_size_kb\": 16384 } }",
    "{ \"properties\": { \"max_device_cache_size_kb\": 2097152 } }",
    "{ \"properties\": { \"rdma_dev_addr_list\": [\"192.168.0.19\"], \"rdma_dynamic_routing\": true } }",
    "{ \"properties\": { \"posix_pool_slab_size_kb\": [4, 1024, 16384], \"posix_pool_slab_count\": [128, 256, 64] } }",
    "{ \"properties\": { \"posix_pool_slab_count\": [128, 64, 32] } }",
    "{ \"properties\": { \"force_compat_mode\": true } }",
    // The examples of NVIDIA's guides, with comments and with the defaults of P2PDMA.
    "{ // keep compat mode\n  \"properties\": { \"allow_compat_mode\": true, \"use_pci_p2pdma\": false } }",
    "{ \"properties\": { \"use_poll_mode\": true, \"poll_mode_max_size_kb\": 4 } }",
    "{ \"block\": { \"nvme\": { \"use_pci_p2pdma\": false }, \"nvmeof\": { \"use_pci_p2pdma\": false } } }",
    "{ \"fs\": { \"generic\": { \"posix_unaligned_writes\": false }, \"lustre\": { \"posix_gds_min_kb\": 0 } } }",
    "{ \"denylist\": { \"drivers\": [], \"devices\": [], \"mounts\": [], \"filesystems\": [] } }",
    "{ \"miscellaneous\": { \"api_check_aggressive\": false } }",
    "{ \"properties\": { \"rdma_dynamic_routing\": true, \"rdma_dynamic_routing_order\": [\"GPU_MEM_NVLINKS\", \"GPU_MEM\", \"SYS_MEM\", \"P2P\"] } }",
    "{ \"properties\": { \"use_pci_p2pdma\": true }, \"fs\": { \"virtiofs\": { \"use_pci_p2pdma\": true } } }",
    "{ \"properties\": { \"rdma_dc_key\": \"FFEEDDCC\", \"rdma_access_mask\": \"0x1f\", \"rdma_service_level\": 3 } }",
    "{ \"execution\": { \"max_io_threads\": 32, \"parallel_io\": false, \"max_io_queue_depth\": 256 } }",
    "{ \"denylist\": { \"drivers\": [\"nvme_rdma\"], \"filesystems\": [\"lustre\"], \"mounts\": [\"/tmp\"], \"devices\": [\"/dev/null\"] } }",
    "{ \"fs\": { \"weka\": { \"rdma_write_support\": true }, \"gpfs\": { \"gds_write_support\": true } } }",
    "{ \"miscellaneous\": { \"api_check_aggressive\": true, \"skip_topology_detection\": true } }",
    "{ \"logging\": {}, \"profile\": {}, \"execution\": {}, \"properties\": {}, \"fs\": {}, \"denylist\": {} }",
];

/// Typical keys of a careful operator.
const USUAL: &str = r#"{
    // Comments like this one are allowed.
    "logging": { "level": "ERROR" },
    "profile": { "cufile_stats": 0 },
    "execution": { "max_io_queue_depth": 128, "max_io_threads": 4, "parallel_io": true, "min_io_threshold_size_kb": 8192, "max_request_parallelism": 4 },
    "properties": {
        "max_direct_io_size_kb": 16384, "max_device_cache_size_kb": 131072, "per_buffer_cache_size_kb": 1024, "io_batchsize": 128,
        "use_poll_mode": false, "poll_mode_max_size_kb": 4, "allow_compat_mode": true, "gds_rdma_write_support": true,
        "posix_pool_slab_size_kb": [4, 1024, 16384], "posix_pool_slab_count": [128, 64, 64],
        "rdma_load_balancing_policy": "RoundRobin", "rdma_dynamic_routing": false,
        "rdma_dynamic_routing_order": ["GPU_MEM_NVLINKS", "GPU_MEM", "SYS_MEM", "P2P"], "rdma_dev_addr_list": [],
        "use_pci_p2pdma": true
    },
    "block": { "nvme": { "use_pci_p2pdma": true } },
    "fs": { "generic": { "posix_unaligned_writes": false }, "lustre": { "posix_gds_min_kb": 0 }, "weka": { "rdma_write_support": false } },
    "denylist": { "drivers": [], "devices": [], "mounts": [], "filesystems": [] },
    "miscellaneous": { "api_check_aggressive": false }
}"#;

#[test]
fn strict_ends_with_1_for_everything_that_libcufile_ignores() {
    let desk = Desk::new();
    let root = machine("p2pdma-listed");
    let status = |text: &str, more: &[&str]| {
        let file = desk.file("cufile.json", text);
        desk.config(&[&["lint", &file, "--root", &root], more].concat(), &[]).status.code()
    };
    for text in IGNORED_IN_PART {
        assert_eq!((status(text, &[]), status(text, &["--strict"])), (Some(0), Some(1)), "{text}");
    }
    for text in [FINE, USUAL].iter().chain(RIGHT) {
        assert_eq!(status(text, &["--strict"]), Some(0), "{text}");
        // Without a captured machine: the rules for the installed library, or for all releases.
        let file = desk.file("cufile.json", text);
        assert_eq!(desk.config(&["lint", &file, "--strict"], &[]).status.code(), Some(0), "{text}");
    }
    assert_eq!(status(REFUSED, &["--strict"]), Some(1));
    let latin1 = desk.folder.path().join("latin1.json");
    std::fs::write(&latin1, b"{ \"properties\": {} } // \xe9").unwrap();
    let latin1 = latin1.display().to_string();
    assert_eq!(desk.config(&["lint", &latin1, "--strict", "--root", &root], &[]).status.code(), Some(1));
}

#[test]
fn lint_ends_with_1_where_libcufile_refuses_the_file_and_says_where() {
    let desk = Desk::new();
    let root = machine("p2pdma-listed");
    for (text, status, rule) in
        [(FINE, 0, None), (DOUBTFUL, 0, Some("L10")), (REFUSED, 1, Some("L2")), ("", 1, Some("L2"))]
    {
        let file = desk.file("cufile.json", text);
        let words = ["lint", &file, "--root", &root];
        let plain = desk.config(&words, &[]);
        assert_eq!(plain.status.code(), Some(status), "{text}: {plain:?}");
        let said = String::from_utf8_lossy(&plain.stdout);
        let (code, answer) = desk.json(&words, &[]);
        assert_eq!(code, status);
        assert_eq!(answer["libcufile"], "1.20");
        let problems = answer["files"][0]["problems"].as_array().unwrap();
        // The file is also checked after the invalid comma.
        let rules: Vec<_> = problems.iter().map(|problem| problem["rule"].as_str().unwrap()).collect();
        assert!(text != REFUSED || ["L4", "L2"].iter().all(|rule| rules.contains(rule)), "{rules:?}");
        match rule {
            None => assert!(problems.is_empty() && said.contains(": fine"), "{said}"),
            Some(rule) => {
                assert!(problems.iter().any(|problem| problem["rule"] == rule), "{problems:?}");
                assert!(said.contains(&format!("{file}:1:")) && said.contains("Do   "), "{said}");
            }
        }
    }
    for (words, part) in [(vec!["lint", "nowhere.json"], "cannot be read"), (vec!["lint", "."], "Is a directory")] {
        let output = desk.config(&words, &[]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(part), "{output:?}");
    }
}

#[test]
fn the_sentences_of_lint_and_tune_are_wrapped_on_a_pipe() {
    let desk = Desk::new();
    let file = desk.file("cufile.json", REFUSED);
    for words in [&["lint", &file][..], &["tune", "--kv", "lmcache-mp"]] {
        let output = desk.config(words, &[]);
        let said = String::from_utf8_lossy(&output.stdout);
        // The place of a mistake and the lines of a file are not wrapped.
        let is_text = |line: &&str| !line.starts_with(&file) && !line.trim_start().starts_with('"');
        for line in said.lines().filter(is_text) {
            assert!(line.chars().count() <= 100, "{words:?}: {line}");
        }
        assert!(said.lines().count() > 5, "{said}");
    }
}

#[test]
fn lint_without_a_file_looks_at_the_machines_files_and_variables() {
    let desk = Desk::new();
    let broken = desk.config(&["lint", "--root", &machine("broken-cufile-json")], &[]);
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    let (code, answer) =
        desk.json(&["lint"], &[("CUFILE_FORCE_COMPAT_MODE", "1"), ("CUFILE_ENV_PATH_JSON", "/no/such.json")]);
    assert_eq!(code, 1, "a named file that is missing is not in effect");
    let files = answer["files"].as_array().unwrap();
    let rules: Vec<&str> =
        files.iter().flat_map(|f| f["problems"].as_array().unwrap()).filter_map(|p| p["rule"].as_str()).collect();
    assert!(rules.contains(&"L18") && rules.contains(&"ENV"), "{answer}");
    let plain = desk.config(&["lint"], &[("CUFILE_FORCE_COMPAT_MODE", "1")]);
    let said = String::from_utf8_lossy(&plain.stdout);
    assert!(said.contains("environment: warning: CUFILE_FORCE_COMPAT_MODE=1 counts as false"), "{said}");
    assert!(said.contains("environment: 0 errors, 1 warning"), "{said}");
}

#[test]
fn show_tells_the_value_in_effect_and_where_it_comes_from() {
    let desk = Desk::new();
    let mine = desk.file("mine.json", "{\n \"properties\": { \"io_batchsize\": 64, \"force_compat_mode\": true }\n}\n");
    let environment = [("CUFILE_ENV_PATH_JSON", mine.as_str()), ("CUFILE_FORCE_COMPAT_MODE", "1")];
    let (code, answer) = desk.json(&["show"], &environment);
    assert_eq!(code, 0);
    let row = |answer: &Value, key: &str| {
        answer["keys"].as_array().unwrap().iter().find(|row| row["key"] == key).cloned().unwrap()
    };
    let batch = row(&answer, "properties.io_batchsize");
    assert_eq!(
        (&batch["value"], &batch["origin"]["kind"], &batch["origin"]["line"]),
        (&json!(64), &json!("file"), &json!(2))
    );
    let force = row(&answer, "properties.force_compat_mode");
    assert_eq!(
        (&force["value"], &force["origin"]["name"]),
        (&json!(false), &json!("CUFILE_FORCE_COMPAT_MODE")),
        "only true counts"
    );
    assert_eq!(row(&answer, "properties.allow_compat_mode")["origin"]["kind"], "default");
    let plain = desk.config(&["show"], &environment);
    let said = String::from_utf8_lossy(&plain.stdout);
    assert!(said.contains("mine.json:2") && said.contains("environment, CUFILE_FORCE_COMPAT_MODE"), "{said}");
    assert_eq!(said.matches("libcufile 1.").count(), 1, "the origin of the defaults is shown once: {said}");
    assert!(said.lines().any(|line| line.starts_with("properties.allow_compat_mode") && line.ends_with("  default")));
    // A machine with other defaults: 1.14 divides requests at 1 MiB.
    let extra = desk.file("extra.json", "{ \"execution\": { \"max_io_threads\": 2 } }");
    let (code, answer) = desk.json(&["show", &extra, "--root", &machine("p2pdma-listed")], &[]);
    assert_eq!(code, 0);
    assert_eq!(row(&answer, "execution.max_io_threads")["value"], 2);
    assert_eq!(row(&answer, "properties.use_pci_p2pdma")["origin"]["path"], "/etc/cufile.json");
    let refused = desk.file("refused.json", REFUSED);
    let output = desk.config(&["show", &refused], &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("libcufile rejects"), "{output:?}");
    assert_eq!(desk.config(&["show", "nowhere.json"], &[]).status.code(), Some(2));
}

#[test]
fn diff_tells_what_differs_from_the_defaults_and_between_two_files() {
    let desk = Desk::new();
    let a = desk.file("a.json", "{ \"properties\": { \"io_batchsize\": 64, \"allow_compat_mode\": true } }");
    let b = desk.file("b.json", "{ \"properties\": { \"io_batchsize\": 32 }, \"logging\": { \"level\": \"INFO\" } }");
    let (code, answer) = desk.json(&["diff", &a], &[]);
    assert_eq!(code, 0);
    assert_eq!(
        answer["differences"].as_array().unwrap().len(),
        1,
        "a file with the defaults has no difference: {answer}"
    );
    assert_eq!((&answer["differences"][0]["value"], &answer["differences"][0]["other"]), (&json!(64), &json!(128)));
    let (code, answer) = desk.json(&["diff", &a, &b], &[]);
    let keys: Vec<&str> = answer["differences"].as_array().unwrap().iter().filter_map(|d| d["key"].as_str()).collect();
    assert_eq!((code, keys), (0, vec!["logging.level", "properties.io_batchsize"]));
    let same = desk.config(&["diff", &a, &a], &[]);
    assert!(String::from_utf8_lossy(&same.stdout).starts_with("No difference from "), "{same:?}");
    assert_eq!(desk.config(&["diff", "nowhere.json"], &[]).status.code(), Some(2));
}

#[test]
fn a_file_is_tuned_for_the_threads_and_transfers_of_a_kv_cache() {
    let desk = Desk::new();
    let keys = |system: &str| {
        let (code, answer) = desk.json(&["tune", "--kv", system, "--root", &machine("h200-vm-no-udev")], &[]);
        assert_eq!((code, answer["model"].as_str()), (0, Some(system)), "{answer:#}");
        answer["keys"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let threads = "execution.max_io_threads".to_owned();
    assert!(keys("lmcache-mp").contains(&threads), "one stream of large transfers");
    assert!(!keys("llmd").contains(&threads), "64 threads");
    assert_eq!(desk.config(&["tune"], &[]).status.code(), Some(2));
}

#[test]
fn tune_writes_a_file_that_the_linter_passes_and_never_over_another_one() {
    let desk = Desk::new();
    let (code, answer) = desk.json(&["tune", "llama-3.1-405b", "--output", "tuned.json"], &[]);
    assert_eq!(code, 0, "{answer}");
    for key in answer["keys"].as_array().unwrap() {
        assert!(key["reason"].as_str().is_some_and(|reason| reason.len() > 10), "{key}");
    }
    let tuned = desk.folder.path().join("tuned.json");
    assert_eq!(desk.config(&["lint", tuned.to_str().unwrap()], &[]).status.code(), Some(0));
    let (_, again) = desk.json(&["tune", "llama-3.1-405b"], &[("CUFILE_ENV_PATH_JSON", tuned.to_str().unwrap())]);
    assert_eq!(again["keys"], json!([]), "tuning what is tuned sets nothing");
    let over = desk.config(&["tune", "llama-3.1-405b", "--output", "tuned.json"], &[]);
    assert_eq!(over.status.code(), Some(2), "{over:?}");
    assert_eq!(desk.config(&["tune", "no-such-model"], &[]).status.code(), Some(2));
}

#[test]
fn a_level_of_the_log_that_is_passed_over_is_not_shown_as_in_effect() {
    let desk = Desk::new();
    let file = desk.file("cufile.json", "{ \"logging\": { \"level\": \"VERBOSE\" } }\n");
    let (_, answer) = desk.json(&["show", &file, "--root", &machine("p2pdma-listed")], &[]);
    let row = answer["keys"].as_array().unwrap().iter().find(|row| row["key"] == "logging.level").unwrap();
    assert!(!row.to_string().contains("VERBOSE"), "{row}");
}

#[test]
fn tune_is_for_the_captured_machine_that_is_named_as_folder_and_as_archive() {
    let desk = Desk::new();
    let folder = machine("p2pdma-two-steps");
    let (status, answer) = desk.json(&["tune", "qwen3-0.6b", "--root", &folder], &[]);
    assert_eq!(status, 0);
    let keys: Vec<&str> = answer["keys"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"properties.use_pci_p2pdma"), "P2PDMA is possible on that machine: {answer}");
    // This machine has no GPU, so its settings differ from those of the current machine.
    let (_, other) = desk.json(&["tune", "qwen3-0.6b", "--root", &machine("no-gpu")], &[]);
    assert_ne!(answer["keys"], other["keys"], "{other}");
    let archive = desk.folder.path().join("machine.tar.zst");
    let view = gds_top::machine::Root::folder_recorded(Path::new(&folder)).unwrap();
    let report = gds_top::checks::run(&view, &view.captured_paths(), None, &mut |_| {});
    let _ = gds_top::checks::cufile_json::lint_machine(
        &view,
        &gds_top::checks::cufile_json::Hardware::of(&view, &report, None),
    );
    view.write_capture(&archive, "gds-top test", 0).unwrap();
    let (status, again) = desk.json(&["tune", "qwen3-0.6b", "--root", archive.to_str().unwrap()], &[]);
    assert_eq!((status, &again["keys"]), (0, &answer["keys"]));
    // The file was written for another machine. Its effective values are compared too.
    let out = desk.folder.path().join("user.json").display().to_string();
    let written = desk.config(&["tune", "qwen3-0.6b", "--root", &folder, "--output", &out], &[]);
    assert!(written.status.success(), "{written:?}");
    assert!(String::from_utf8_lossy(&written.stderr).contains("copy it to that machine"), "{written:?}");
    let (status, differs) = desk.json(&["diff", "--root", &machine("denylist")], &[]);
    assert_eq!(status, 0);
    assert!(differs["differences"].to_string().contains("denylist"), "{differs}");
    let refused = desk.config(&["tune", "qwen3-0.6b", "--root", "/no/such"], &[]);
    assert_eq!(refused.status.code(), Some(2));
}

/// The answer of `check --for llmd` with this argument, and its standard input.
fn check_for(desk: &Desk, argument: &str, input: &str) -> (i32, String, String) {
    use std::io::Write;
    let mut child = gds_top()
        .args(["check", "--no-probe", "--json", "--root", &machine("h200-vm-no-udev"), "--for", "llmd", argument])
        .current_dir(desk.folder.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read its input has ended by now, perhaps.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_serving_configuration_is_read_from_a_pipe_of_the_caller_and_from_nothing_else_that_waits() {
    let desk = Desk::new();
    let config = r#"{"shared_storage_path": "/data/kv", "gds_mode": "read_only", "read_preferring_ratio": 0.5}"#;
    for argument in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let (_, answer, said) = check_for(&desk, argument, config);
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{argument}: {e}: {said}"));
        assert_eq!(answer["bench"], json!("gds-top bench-kv llmd /data/kv --gds-mode read_only"));
        assert_eq!(answer["bench_left_out"][0]["option"], json!("read_preferring_ratio"));
    }
    let fifo = desk.folder.path().join("fifo");
    let owner = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, owner, 0).unwrap();
    let folder = desk.folder.path().display().to_string();
    for (argument, part) in [
        (fifo.display().to_string(), "not a regular file"),
        (folder, "directory"),
        ("/dev/fd/777".to_owned(), "there is no configuration file"),
    ] {
        let (status, _, said) = check_for(&desk, &argument, config);
        assert!(status == 2 && said.contains(part) && said.lines().count() == 1, "{argument}: {status} {said}");
    }
}
