//! For each rule of the linter: one file that passes and one file that fails.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::machine::Root;
use serde_json::{Value, json};
use std::path::Path;

/// The rule, a correct file, a file with the problem, and the severity.
const RULES: &[(&str, &str, &str, Severity)] = &[
    // L1 allows comments. An unclosed comment is an error of L2.
    ("L2", "{ // line\n /* block */ }", "{ /* block ", Severity::Error),
    ("L2", "{ \"properties\": {} }", "# no\n{ \"properties\": {} }", Severity::Error),
    ("L2", "{ \"properties\": {} }", "{ \"properties\": {}, }", Severity::Error),
    ("L2", "{}", "{ 'properties': {} }", Severity::Error),
    ("L2", "{}", "", Severity::Error),
    (
        "L3",
        "{\"properties\":{\"allow_compat_mode\":false}}",
        "{\"properties\":{\"allow_compat_mode\":\"false\"}}",
        Severity::Error,
    ),
    (
        "L3",
        "{\"properties\":{\"allow_compat_mode\":true}}",
        "{\"properties\":{\"allow_compat_mode\":1}}",
        Severity::Error,
    ),
    ("L3", "{\"properties\":{\"io_batchsize\":64}}", "{\"properties\":{\"io_batchsize\":\"64\"}}", Severity::Error),
    ("L3", "{\"properties\":{\"io_batchsize\":64}}", "{\"properties\":{\"io_batchsize\":-1}}", Severity::Error),
    ("L4", "{\"properties\":{\"io_batchsize\":256}}", "{\"properties\":{\"io_batchsize\":257}}", Severity::Error),
    (
        "L4",
        "{\"properties\":{\"max_direct_io_size_kb\":1024}}",
        "{\"properties\":{\"max_direct_io_size_kb\":1030}}",
        Severity::Error,
    ),
    (
        "L4",
        "{\"properties\":{\"max_device_cache_size_kb\":131072}}",
        "{\"properties\":{\"max_device_cache_size_kb\":131073}}",
        Severity::Error,
    ),
    (
        "L5",
        "{\"properties\":{\"per_buffer_cache_size_kb\":1024,\"max_direct_io_size_kb\":1024}}",
        "{\"properties\":{\"per_buffer_cache_size_kb\":2048,\"max_direct_io_size_kb\":1024}}",
        Severity::Error,
    ),
    (
        "L6",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[4,1024],\"posix_pool_slab_count\":[1,1]}}",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[4,1024],\"posix_pool_slab_count\":[1]}}",
        Severity::Error,
    ),
    (
        "L6",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[8],\"posix_pool_slab_count\":[1]}}",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[6],\"posix_pool_slab_count\":[1]}}",
        Severity::Error,
    ),
    ("L7", "{\"logging\":{\"dir\":\"/there\"}}", "{\"logging\":{\"dir\":\"/nowhere\"}}", Severity::Error),
    ("L7", "{\"denylist\":{\"mounts\":[\"/there\"]}}", "{\"denylist\":{\"mounts\":[\"/nowhere\"]}}", Severity::Error),
    ("L8", "{\"properties\":{}}", "{\"properties\":{},\"properties\":{}}", Severity::Warning),
    (
        "L9",
        "{\"properties\":{\"use_poll_mode\":false}}",
        "{\"properties\":{\"use_pol_mode\":false}}",
        Severity::Warning,
    ),
    ("L9", "{\"execution\":{\"max_io_threads\":8}}", "{\"properties\":{\"max_io_threads\":8}}", Severity::Warning),
    (
        "L10",
        "{\"properties\":{\"allow_compat_mode\":true}}",
        "{\"properties\":{\"use_compat_mode\":true}}",
        Severity::Warning,
    ),
    ("L9", "{\"properties\":{\"io_batchsize\":64}}", "{\"properties\":{\"io_batchsize\":null}}", Severity::Warning),
    ("L9", "{\"properties\":{}}", "{\"properties\":null}", Severity::Warning),
    ("L10", "{\"denylist\":{}}", "{\"blacklist\":{}}", Severity::Warning),
    ("L10", "{\"properties\":{\"io_batchsize\":64}}", "{\"profile\":{\"io_batchsize\":64}}", Severity::Warning),
    ("L10", "{\"profile\":{}}", "{\"profile\":{\"nvtx\":true}}", Severity::Warning),
    ("L10", "{\"profile\":{}}", "{\"profile\":{\"nvtx\":false}}", Severity::Note),
    ("L15", "{\"properties\":{\"io_batchsize\":128}}", "{\"properties\":{\"io_batchsize\":256}}", Severity::Note),
    ("L11", "{\"logging\":{\"level\":\"WARN\"}}", "{\"logging\":{\"level\":\"warn\"}}", Severity::Warning),
    (
        "L11",
        "{\"properties\":{\"io_priority\":\"med\"}}",
        "{\"properties\":{\"io_priority\":\"medium\"}}",
        Severity::Warning,
    ),
    (
        "L12",
        "{\"properties\":{\"use_pci_p2pdma\":true},\"block\":{\"nvme\":{\"use_pci_p2pdma\":true}}}",
        "{\"properties\":{\"use_pci_p2pdma\":true}}",
        Severity::Warning,
    ),
    (
        "L14",
        "{\"properties\":{\"allow_compat_mode\":true,\"force_compat_mode\":true}}",
        "{\"properties\":{\"allow_compat_mode\":false,\"force_compat_mode\":true}}",
        Severity::Warning,
    ),
    (
        "L15",
        "{\"properties\":{\"max_device_cache_size_kb\":131072,\"io_batchsize\":128}}",
        "{\"properties\":{\"max_device_cache_size_kb\":65536,\"io_batchsize\":128}}",
        Severity::Warning,
    ),
    ("L9", "{\"properties\":{\"io_batchsize\":64}}", "{\"properties.io_batchsize\":64}", Severity::Warning),
    ("L9", "{\"fs\":{\"nfs\":{}}}", "{\"fs.nfs\":{}}", Severity::Warning),
    (
        "L9",
        "{\"fs\":{\"weka\":{\"mount_table\":{\"/there\":{\"rdma_dev_addr_list\":[\"10.0.0.1\"]}}}}}",
        "{\"fs\":{\"weka\":{\"mount_table\":{\"/there\":{\"rdma_dev_addrs\":[]}}}}}",
        Severity::Warning,
    ),
    (
        "L3",
        "{\"fs\":{\"weka\":{\"mount_table\":{}}}}",
        "{\"fs\":{\"weka\":{\"mount_table\":{\"/there\":\"10.0.0.1\"}}}}",
        Severity::Error,
    ),
    ("L3", "{\"properties\":{\"rdma_topN_ranks\":1}}", "{\"properties\":{\"rdma_topN_ranks\":true}}", Severity::Error),
    (
        "L3",
        "{\"properties\":{\"rdma_io_retry_count\":3}}",
        "{\"properties\":{\"rdma_io_retry_count\":\"3\"}}",
        Severity::Error,
    ),
    (
        "L3",
        "{\"properties\":{\"rdma_access_mask\":\"0x1f\"}}",
        "{\"properties\":{\"rdma_access_mask\":31}}",
        Severity::Error,
    ),
    (
        "L4",
        "{\"properties\":{\"rdma_dc_key\":\"0xffeeddcc\"}}",
        "{\"properties\":{\"rdma_dc_key\":\"secret\"}}",
        Severity::Error,
    ),
    (
        "L4",
        "{\"properties\":{\"rdma_service_level\":15}}",
        "{\"properties\":{\"rdma_service_level\":16}}",
        Severity::Error,
    ),
    (
        "L4",
        "{\"properties\":{\"rdma_transport_type\":\"EXT_RC_V1\"}}",
        "{\"properties\":{\"rdma_transport_type\":\"RC\"}}",
        Severity::Error,
    ),
    ("L4", "{\"profile\":{\"cufile_stats\":0}}", "{\"profile\":{\"cufile_stats\":5000000000}}", Severity::Error),
    (
        "L6",
        "{\"properties\":{\"gpu_bounce_buffer_slab_config\":{\"slab_size_kb\":[64,16384],\"slab_count\":[1,1]}}}",
        "{\"properties\":{\"gpu_bounce_buffer_slab_config\":{\"slab_size_kb\":[63,16384],\"slab_count\":[1,1]}}}",
        Severity::Warning,
    ),
    (
        "L6",
        "{\"properties\":{\"gpu_bounce_buffer_slab_config\":{\"slab_size_kb\":[64,1024],\"slab_count\":[128,128]}}}",
        "{\"properties\":{\"gpu_bounce_buffer_slab_config\":{\"slab_size_kb\":[32768,65536],\"slab_count\":[4,2]}}}",
        Severity::Warning,
    ),
    (
        "L6",
        "{\"properties\":{\"gpu_bounce_buffer_slab_config\":{\"slab_size_kb\":[64,1024],\"slab_count\":[1,1]}}}",
        "{\"properties\":{\"gpu_bounce_buffer_slab_config\":{\"slab_size_kb\":[64,64],\"slab_count\":[1,1]}}}",
        Severity::Warning,
    ),
    (
        "L12",
        "{\"properties\":{\"use_pci_p2pdma\":true},\"block\":{\"nvme\":{\"use_pci_p2pdma\":true}}}",
        "{\"block\":{\"nvme\":{\"use_pci_p2pdma\":true}}}",
        Severity::Warning,
    ),
    (
        "L20",
        "{\"fs\":{\"lustre\":{\"use_pci_p2pdma\":false}}}",
        "{\"fs\":{\"lustre\":{\"use_pci_p2pdma\":true}}}",
        Severity::Warning,
    ),
    (
        "L20",
        "{\"properties\":{\"gpu_bounce_buffer_slab_config\":{\"slab_size_kb\":[16384],\"slab_count\":[1]}}}",
        "{\"properties\":{\"gpu_bounce_buffer_slab_config\":{\"slab_size_kb\":[16384],\"slab_count\":[1]},\"per_buffer_cache_size_kb\":1024}}",
        Severity::Warning,
    ),
    (
        "L20",
        "{\"execution\":{\"max_io_threads\":4,\"parallel_io\":true}}",
        "{\"execution\":{\"max_io_threads\":0,\"parallel_io\":true}}",
        Severity::Warning,
    ),
    (
        "L20",
        "{\"properties\":{\"rdma_dynamic_routing_order\":[\"P2P\",\"SYS_MEM\"]}}",
        "{\"properties\":{\"rdma_dynamic_routing_order\":[\"P2P\",\"P2P\"]}}",
        Severity::Warning,
    ),
    (
        "L20",
        "{\"miscellaneous\":{\"enable_static_routing\":true,\"static_routing_filepath\":\"/there\"}}",
        "{\"miscellaneous\":{\"enable_static_routing\":true}}",
        Severity::Warning,
    ),
    (
        "L20",
        "{\"fs\":{\"weka\":{\"rdma_dev_addr_list\":[\"10.0.0.1\"]}}}",
        "{\"fs\":{\"weka\":{\"rdma_dev_addr_list\":[\"10.0.0.1\"],\"mount_table\":{\"/there\":{\"rdma_dev_addr_list\":[\"10.0.0.1\"]}}}}}",
        Severity::Warning,
    ),
    (
        "L21",
        "{\"properties\":{\"rdma_dev_addr_list\":[\"10.0.0.1\"]}}",
        "{\"properties\":{\"rdma_dev_addr_list\":[\"10.0.0.300\"]}}",
        Severity::Warning,
    ),
    ("L2", "{\"properties\":{}}", "{\"properties\":{}, // \u{fffd}\n}", Severity::Error),
    ("L2", "{ // fine\n}", "{ // \u{fffd}\n}", Severity::Warning),
    ("L2", "{\"properties\":{\"io_batchsize\":64}}", "{\"properties\":{\"io_batchsize\":064}}", Severity::Warning),
    (
        "L3",
        "{\"fs\":{\"nfs\":{\"mount_table\":{\"/there\":{\"rdma_dev_addr_list\":[\"10.0.0.1\"]}}}}}",
        "{\"fs\":{\"nfs\":{\"mount_table\":{\"/there\":{\"rdma_dev_addr_list\":\"10.0.0.1\"}}}}}",
        Severity::Error,
    ),
    (
        "L9",
        "{\"fs\":{\"nfs\":{\"mount_table\":{\"/there\":{\"rdma_dev_addr_list\":[\"10.0.0.1\"]}}}}}",
        "{\"fs\":{\"nfs\":{\"mount_table\":{\"/there\":{}}}}}",
        Severity::Warning,
    ),
    (
        "L4",
        "{\"properties\":{\"rdma_access_mask\":\"0xffffffff\"}}",
        "{\"properties\":{\"rdma_access_mask\":\"0x1ffffffff\"}}",
        Severity::Error,
    ),
    (
        "L6",
        "{\"properties\":{\"posix_pool_slab_count\":[4,8,8]}}",
        "{\"properties\":{\"posix_pool_slab_count\":[4,8]}}",
        Severity::Error,
    ),
    (
        "L6",
        "{\"properties\":{\"posix_pool_slab_count\":[4,8,8]}}",
        "{\"properties\":{\"posix_pool_slab_count\":[0,8,8]}}",
        Severity::Warning,
    ),
    (
        "L20",
        "{\"properties\":{\"force_compat_mode\":true,\"use_pci_p2pdma\":false}}",
        "{\"properties\":{\"force_compat_mode\":true,\"use_pci_p2pdma\":true},\"block\":{\"nvme\":{\"use_pci_p2pdma\":true}}}",
        Severity::Warning,
    ),
    ("L3", "{\"profile\":{\"cufile_stats\":1}}", "{\"profile\":{\"cufile_stats\":true}}", Severity::Warning),
    (
        "L6",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[4,1024,16384]}}",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[16384,1024,4]}}",
        Severity::Warning,
    ),
    (
        "L6",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[4,8,1024]}}",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[4,4,1024]}}",
        Severity::Warning,
    ),
    (
        "L6",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[4,8,1024]}}",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[0,8,1024]}}",
        Severity::Warning,
    ),
    (
        "L20",
        "{\"properties\":{\"use_pci_p2pdma\":true},\"block\":{\"nvme\":{\"use_pci_p2pdma\":true},\"nvmeof\":{\"use_pci_p2pdma\":false}}}",
        "{\"properties\":{\"use_pci_p2pdma\":true},\"block\":{\"nvmeof\":{\"use_pci_p2pdma\":true}}}",
        Severity::Warning,
    ),
    ("L17", "{\"profile\":{\"cufile_stats\":1}}", "{\"profile\":{\"cufile_stats\":3}}", Severity::Note),
    ("L17", "{\"logging\":{\"level\":\"ERROR\"}}", "{\"logging\":{\"level\":\"DEBUG\"}}", Severity::Note),
];

#[test]
fn each_rule_has_a_file_that_passes_and_one_that_does_not() {
    let around = Surroundings {
        version: Some((1, 20)),
        ranges: &Value::Null,
        exists: &|path| path == "/there",
        is_folder: &|_| true,
    };
    let mut wrong = Vec::new();
    for (rule, good, bad, severity) in RULES {
        let passed = lint(good, &around).1;
        if passed.iter().any(|p| p.rule == *rule || p.severity == Severity::Error) {
            wrong.push(format!("{rule}: {good} does not pass: {passed:?}"));
        }
        let said = lint(bad, &around).1;
        if !said.iter().any(|p| p.rule == *rule && p.severity == *severity && !p.todo.is_empty() && p.line > 0) {
            wrong.push(format!("{rule}: {bad} is not reported: {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let covered: Vec<String> = (2..=17).map(|n| format!("L{n}")).collect();
    for rule in covered.iter().filter(|rule| !matches!(rule.as_str(), "L13" | "L16")) {
        assert!(RULES.iter().any(|row| row.0 == rule), "{rule} has no row");
    }
}

#[test]
fn rules_that_look_at_the_machine_have_both_sides_too() {
    let ready = Hardware {
        version: Some((1, 20)),
        bar1_bytes: Some(256 << 30),
        gpu_memory_bytes: Some(141 << 30),
        model_bytes: Some(60 << 30),
        ..Hardware::default()
    };
    let unready = Hardware {
        p2pdma_blockers: vec![crate::core::CheckId::GpuStaticBar1, crate::core::CheckId::KernelP2pdma],
        ..ready.clone()
    };
    let said = |text: &str, hardware: &Hardware| together::against(text, &syntax::parse(text).unwrap().top, hardware);
    let p2p = "{\"properties\":{\"use_pci_p2pdma\":true}}";
    assert!(said(p2p, &ready).is_empty());
    let problems = said(p2p, &unready);
    assert!(problems[0].rule == "L13" && problems[0].what.contains("gpu-static-bar1, kernel-p2pdma"), "{problems:?}");
    let pinned = |kib: u64| format!("{{\"properties\":{{\"max_device_pinned_mem_size_kb\":{kib}}}}}");
    assert!(said(&pinned(80 << 20), &ready).is_empty());
    assert_eq!(said(&pinned(32 << 20), &ready)[0].rule, "L16");
}

#[test]
fn entries_of_a_mount_table_need_a_mount_of_that_file_system() {
    let mounts = [("/", "ext4"), ("/mnt/weka", "wekafs"), ("/mnt/nfs", "nfs4")];
    let here = Hardware {
        mounts: Some(mounts.iter().map(|(point, kind)| ((*point).to_owned(), (*kind).to_owned())).collect()),
        ..Hardware::default()
    };
    let text = |section: &str, point: &str| {
        format!(
            "{{\"fs\":{{\"{section}\":{{\"mount_table\":{{\"{point}\":{{\"rdma_dev_addr_list\":[\"10.0.0.1\"]}}}}}}}}}}"
        )
    };
    let count = |section: &str, point: &str, hardware: &Hardware| {
        let text = text(section, point);
        let said = together::against(&text, &syntax::parse(&text).unwrap().top, hardware);
        assert!(said.iter().all(|problem| problem.rule == "L16" && problem.severity == Severity::Warning), "{said:?}");
        said.len()
    };
    assert_eq!([count("weka", "/mnt/weka", &here), count("nfs", "/mnt/nfs/", &here)], [0, 0]);
    assert_eq!(
        [count("weka", "/mnt", &here), count("weka", "/mnt/nfs", &here), count("lustre", "/", &here)],
        [1, 1, 1]
    );
    // The table of mounts is not known.
    assert_eq!(count("weka", "/mnt", &Hardware::default()), 0);
}

#[test]
fn the_similar_key_is_in_the_same_section() {
    for (wrong, meant) in [
        ("fs.lustre.posix_gds_min_size_kb", Some("fs.lustre.posix_gds_min_kb")),
        ("nfs", Some("fs.nfs")),
        ("use_pci_p2pdma", Some("properties.use_pci_p2pdma")),
        ("properties.parallel_io", Some("execution.parallel_io")),
        ("Properties", Some("properties")),
        ("fs.gpfs.gds_write_suport", Some("fs.gpfs.gds_write_support")),
    ] {
        assert_eq!(nearest::nearest(wrong), meant, "{wrong}");
    }
}

/// A capture with these variables and files. Files whose name ends in `.denied` exist but cannot be read.
fn machine(environment: &Value, files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("files")).unwrap();
    std::fs::write(folder.path().join("environment.json"), environment.to_string()).unwrap();
    for (path, text) in files {
        let path = folder.path().join("files").join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let root = Root::folder(folder.path()).unwrap();
    (folder, root)
}

#[test]
fn broken_missing_and_unreadable_system_files_are_reported() {
    let named = json!({"CUFILE_ENV_PATH_JSON": "/home/me/cufile.json"});
    let all = |environment: &Value, files: &[(&str, &str)]| {
        lint_machine(&machine(environment, files).1, &Hardware::default())
    };
    assert!(all(&json!({}), &[]).is_empty());
    let fine = all(&named, &[("etc/cufile.json", "{}"), ("home/me/cufile.json", "{}")]);
    assert!(fine.iter().all(|file| file.problems.is_empty()), "{fine:?}");
    let broken = all(&named, &[("etc/cufile.json", "{,}"), ("home/me/cufile.json", "{}")]);
    assert!(broken[0].is_bad() && broken[0].problems[0].why.contains("(L18)"), "{broken:?}");
    let missing = all(&named, &[("etc/cufile.json", "{}")]);
    assert_eq!((missing[1].problems[0].rule.as_str(), missing[1].is_bad()), ("L18", true));
    let denied = all(&json!({}), &[("etc/cufile.json.denied", "Permission denied")]);
    assert_eq!((denied[0].problems[0].rule.as_str(), denied[0].is_bad()), ("L19", true));
    assert!(denied[0].problems[0].todo.contains("chmod 644"));
}

/// The variable, a release, a valid value, and an invalid value.
const VARIABLES: &[(&str, u32, &str, &str)] = &[
    ("CUFILE_FORCE_COMPAT_MODE", 20, "TRUE", "1"),
    ("CUFILE_USE_PCIP2PDMA", 20, "true", "yes"),
    ("CUFILE_ALLOW_COMPAT_MODE", 14, "false", "0"),
    ("CUFILE_LOGGING_LEVEL", 20, "ERROR", "error"),
    ("CUFILE_LOGGING_LEVEL", 20, "INFO", "TRACE"),
    ("CUFILE_STATS_LEVEL", 20, "3", "high"),
    ("CUFILE_STATS_LEVEL", 20, "0", "4"),
    ("CUFILE_IO_PRIORITY", 20, "high", "highest"),
    ("CUFILE_MAX_DEVICE_CACHE_SIZE", 14, "131072", "128M"),
    ("CUFILE_PER_BUFFER_CACHE_SIZE", 14, "1024", "1m"),
    ("CUFILE_RDMA_ALLOW_RDMA_TOKEN_RESET", 20, "1", "on"),
    ("CUFILE_RDMA_TOKEN_RESET_TIMEOUT_SECS", 20, "30", "0"),
    ("CUFILE_LOGFILE_PATH", 20, "/var/log/cufile.log", "/var/log"),
];

#[test]
fn each_variable_is_linted_by_its_type() {
    for (name, minor, good, bad) in VARIABLES {
        for (value, expected) in [(good, false), (bad, true)] {
            let (_keep, root) = machine(&json!({ *name: value }), &[("var/log/x", "")]);
            let said = environment::lint_environment(&root, Some((1, *minor)));
            assert_eq!(said.is_some(), expected, "{name}={value} with 1.{minor}: {said:?}");
            if let Some(linted) = said {
                assert!(linted.problems[0].key.as_deref() == Some(name) && !linted.is_bad(), "{linted:?}");
            }
        }
    }
}

#[test]
fn unread_and_misspelt_variables_are_reported() {
    let said = |name: &str, value: &str, minor: u32| {
        let (_keep, root) = machine(&json!({ name: value }), &[]);
        let linted = environment::lint_environment(&root, Some((1, minor)));
        linted.map(|linted| format!("{} {}", linted.problems[0].what, linted.problems[0].todo)).unwrap_or_default()
    };
    assert!(said("CUFILE_ALLOW_COMPAT_MODE", "false", 20).contains("only up to 1.16"));
    assert!(said("CUFILE_NVTX", "true", 20).contains("has no effect"));
    assert_eq!(said("CUFILE_NVTX", "true", 14), "");
    assert!(said("CUFILE_STATS_LEVEL", "3", 14).contains("only from 1.18 on"));
    assert!(said("CUFILE_VISIBLE_DEVICES", "0", 14).contains("only from 1.20 on"));
    assert!(said("CUFILE_USE_PCI_P2PDMA", "true", 20).contains("CUFILE_USE_PCIP2PDMA"));
    assert!(said("CUFILE_DEBUG", "1", 20).ends_with("Use CUFILE_LOGGING_LEVEL=DEBUG."));
    let (_keep, root) = machine(&json!({"CUFILE_VISIBLE_DEVICES": "0,5", "CUDA_VISIBLE_DEVICES": "0,1"}), &[]);
    let linted = environment::lint_environment(&root, Some((1, 20))).unwrap();
    assert!(linted.problems[0].what.contains("names 5"), "{linted:?}");
    let (_keep, root) = machine(&json!({"CUFILE_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0,1"}), &[]);
    assert_eq!(environment::lint_environment(&root, Some((1, 20))), None);
}
