//! Compares the linter with the real library on the same files (1.14 and 1.20, opened on a machine without a GPU).
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use serde_json::{Value, json};

fn problems(text: &str, version: Option<(u32, u32)>) -> Vec<Problem> {
    let around = Surroundings {
        version,
        ranges: &Value::Null,
        exists: &|path| path == "/" || path == "/dev/null",
        is_folder: &|_| true,
    };
    lint(text, &around).1
}

fn refused(text: &str, minor: u32) -> bool {
    problems(text, Some((1, minor))).iter().any(|problem| problem.severity == Severity::Error)
}

/// A key, values that both libraries accept, and values that both reject.
const MEASURED: &[(&str, &[&str], &[&str])] = &[
    ("properties.allow_compat_mode", &["null", "true"], &["1", "0", "1.0", "\"x\"", "[]", "{}"]),
    ("properties.io_batchsize", &["null", "true", "256", "3.9"], &["\"1\"", "-1", "0", "257", "99999999999", "[]"]),
    ("execution.max_io_threads", &["0", "32", "true"], &["129", "-1"]),
    ("execution.max_io_queue_depth", &["1", "256"], &["0", "257"]),
    ("execution.max_request_parallelism", &["0", "8"], &["9"]),
    ("execution.min_io_threshold_size_kb", &["4", "6"], &["0", "3", "5000000000"]),
    ("properties.max_device_cache_size_kb", &["0", "4", "1024"], &["3", "6"]),
    ("properties.per_buffer_cache_size_kb", &["64"], &["63", "100", "16448"]),
    ("properties.max_direct_io_size_kb", &["1024"], &["100", "1.5", "1e3", "512"]),
    ("properties.max_device_pinned_mem_size_kb", &["0", "64"], &["63", "66", "18014398509481985"]),
    ("properties.poll_mode_max_size_kb", &["4"], &["0", "3", "6"]),
    ("properties.max_batch_io_timeout_msecs", &["1", "1000"], &["0", "1001"]),
    ("properties.io_priority", &["\"x\"", "\"high\""], &["5"]),
    ("properties.rdma_load_balancing_policy", &["\"x\""], &["5"]),
    ("properties.rdma_dynamic_routing_order", &["[]"], &["[\"x\"]", "\"SYS_MEM\""]),
    ("properties.rdma_peer_type", &["\"dmabuf\""], &["\"x\""]),
    ("properties.rdma_dev_addr_list", &["[\"x\"]", "[\"10.0.0.1\"]"], &[]),
    ("logging.dir", &[], &["\"\"", "5", "\"/nope\""]),
    ("logging.level", &["\"info\""], &["5"]),
    ("profile.cufile_stats", &["0", "3", "4", "true"], &["-1"]),
    ("miscellaneous.api_check_aggressive", &["false"], &["1"]),
    ("denylist.mounts", &["[\"/\"]"], &["[\"\"]", "[\"/nope\"]"]),
    ("denylist.devices", &["[\"/dev/null\"]", "[]"], &["[\"/dev/nope\"]"]),
    ("denylist.filesystems", &["[\"xfs\"]"], &["\"xfs\"", "[1]"]),
    ("denylist.fsids", &["[\"x\"]"], &[]),
];

#[test]
fn values_are_rejected_exactly_if_the_library_rejects_them() {
    let mut wrong = Vec::new();
    for (key, taken, not_taken) in MEASURED {
        let (section, name) = key.split_once('.').unwrap();
        for (values, expected) in [(taken, false), (not_taken, true)] {
            for value in *values {
                let text = format!("{{\"{section}\":{{\"{name}\":{value}}}}}");
                for minor in [14, 20] {
                    if refused(&text, minor) != expected {
                        wrong.push(format!("1.{minor}: {text} refused: {}", !expected));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn releases_differ_where_they_were_seen_to_differ() {
    for (text, old, new) in [
        (r#"{"execution":{"max_io_threads":128}}"#, true, false),
        (r#"{"properties":{"per_buffer_cache_size_kb":0}}"#, false, true),
        (r#"{"properties":{"per_buffer_cache_size_kb":16384}}"#, true, false),
        (r#"{"logging":{"max_file_size_mb":0}}"#, false, true),
        (r#"{"logging":{"max_file_size_mb":4097}}"#, false, true),
        (r#"{"block":{"nvme":{"use_pci_p2pdma":1}}}"#, false, true),
        (r#"{"miscellaneous":{"rdma_token_reset_timeout_secs":0}}"#, false, true),
    ] {
        assert_eq!((refused(text, 14), refused(text, 20)), (old, new), "{text}");
    }
}

#[test]
fn the_dialect_is_that_of_the_library() {
    for text in [
        "{ // c\n /* x */ }",
        "{} // end",
        "{} x",
        "{\"a\":1}}",
        "{\"a\":01}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\u00e9\"}",
        "{/**/}",
        "{\"properties\":null}",
        "{\"properties\":{\"allow_compat_mode\":1,\"allow_compat_mode\":true}}",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[1024,4],\"posix_pool_slab_count\":[1,1]}}",
    ] {
        assert!(!refused(text, 20), "{text}: {:?}", problems(text, None));
    }
    for text in [
        "",
        " ",
        "{'a':1}",
        "{a:1}",
        "{\"a\":NaN}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":\"\\x\"}",
        "\u{feff}{}",
        "# c\n{}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":tru}",
        "{\"a\":1,}",
        "{\"a\":[1,]}",
        "{\"a\":[1,2}",
        "{ /* open",
        "{\"a\":1;}",
        "5",
        "\"x\"",
        "{\"properties\":[]}",
        "{\"properties\":\"x\"}",
        "{\"fs\":{\"lustre\":5}}",
        "{\"properties\":{\"allow_compat_mode\":false},\"properties\":{\"io_batchsize\":300}}",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[4,1024],\"posix_pool_slab_count\":[1]}}",
        "{\"properties\":{\"posix_pool_slab_size_kb\":[5],\"posix_pool_slab_count\":[1]}}",
        // The file opens but has no effect.
        "[]",
        "null",
    ] {
        assert!(refused(text, 20), "{text}");
    }
}

#[test]
fn problems_have_their_place_rule_and_remedy() {
    let find = |text: &str, rule: &str| {
        let all = problems(text, Some((1, 20)));
        all.iter().find(|p| p.rule == rule).cloned().unwrap_or_else(|| panic!("{text}: no {rule} in {all:?}"))
    };
    let comma = find("{\n  \"properties\": {\n    \"allow_compat_mode\": true,\n  }\n}", "L2");
    assert_eq!((comma.line, comma.column), (4, 3));
    assert!(comma.todo.contains("comma"));
    let quoted = find("{\"properties\":{\"allow_compat_mode\":\"False\"}}", "L3");
    assert_eq!((quoted.column, quoted.todo.as_str()), (36, "Write false."));
    assert!(find("{\"properties\":{\"max_direct_io_size_kb\":1000}}", "L4").todo.contains("960 or 1024"));
    assert!(find("{\"properties\":{\"use_p2pdma\":true}}", "L9").todo.contains("use_pci_p2pdma"));
    assert!(find("{\"execution\":{\"allow_compat_mode\":true}}", "L9").todo.contains("properties.allow_compat_mode"));
    assert!(find("{\"propertys\":{}}", "L9").todo.contains("properties"));
    assert!(find("{\"properties\":{\"use_compat_mode\":true}}", "L10").todo.contains("allow_compat_mode"));
    assert!(find("{\"blacklist\":{}}", "L10").todo.contains("denylist"));
    assert!(find("{\"logging\":{\"level\":\"debug\"}}", "L11").todo.contains("DEBUG"));
    assert!(find("{\"properties\":{\"use_pci_p2pdma\":true}}", "L12").todo.contains("nvme"));
    assert_eq!(
        find("{\"properties\":{\"allow_compat_mode\":false,\"force_compat_mode\":true}}", "L14").severity,
        Severity::Warning
    );
    assert!(find("{\"properties\":{\"max_device_cache_size_kb\":1024}}", "L15").what.contains("holds 1 "));
    assert_eq!(find("{\"logging\":{\"level\":\"TRACE\"}}", "L17").severity, Severity::Note);
    assert_eq!(find("{\"a\":1,\n\"a\":2}", "L8").line, 1);
}

#[test]
fn before_1_16_the_transports_switch_is_neither_asked_for_nor_known() {
    let text = "{\"properties\":{\"use_pci_p2pdma\":true}}";
    assert!(problems(text, Some((1, 14))).is_empty());
    let text = "{\"block\":{\"nvme\":{\"use_pci_p2pdma\":true}}}";
    assert_eq!(problems(text, Some((1, 14)))[0].rule, "L9");
}

#[test]
fn the_installed_librarys_ranges_come_first() {
    let ranges = json!({"max_io_threads": [0, 32], "max_device_cache_size_kb": [0, 0]});
    let around = Surroundings { version: Some((1, 18)), ranges: &ranges, exists: &|_| true, is_folder: &|_| true };
    let said = lint("{\"execution\":{\"max_io_threads\":64}}", &around).1;
    assert!(said[0].what.contains("from 0 to 32 (reported by the installed library)"), "{said:?}");
    assert!(lint("{\"properties\":{\"max_device_cache_size_kb\":1048576}}", &around).1.is_empty());
}

#[test]
fn values_that_contradict_the_machine_are_said() {
    let hardware = Hardware {
        mounts: None,
        version: Some((1, 20)),
        bar1_bytes: Some(256 << 20),
        gpu_memory_bytes: Some(141 << 30),
        host_memory_bytes: Some(2 << 30),
        model_bytes: Some(60 << 30),
        p2pdma_blockers: vec![crate::core::CheckId::GpuStaticBar1],
        own_addresses: Some(vec!["10.0.0.1".to_owned()]),
        possible: None,
    };
    let text = r#"{"properties":{"use_pci_p2pdma":true,"max_device_pinned_mem_size_kb":33554432,"max_device_cache_size_kb":524288,
        "posix_pool_slab_size_kb":[16384],"posix_pool_slab_count":[64],"rdma_dev_addr_list":["10.0.0.1","10.0.0.9"]}}"#;
    let top = syntax::parse(text).unwrap().top;
    let said: Vec<String> = together::against(text, &top, &hardware).into_iter().map(|p| p.what).collect();
    let all = said.join("\n");
    for part in [
        "gpu-static-bar1",
        "32 GiB, but the model has 60 GiB",
        "larger than BAR1",
        "compat mode pin ",
        "10.0.0.9 is not an address",
    ] {
        assert!(all.contains(part), "{part} is not in:\n{all}");
    }
    assert!(!all.contains("10.0.0.1 is not"));
    assert!(together::against(text, &top, &Hardware::default()).is_empty(), "unknown values contradict nothing");
}

#[test]
fn damaged_text_never_crashes_parser() {
    let document = "{ /* c */ \"a\": \"\\\"x\", // é\n \"b\": [1, 2.5e3], \"c\": {\"d\": null} }";
    for (end, _) in document.char_indices() {
        let _ = problems(&document[..end], None);
        let _ = problems(&document[end..], None);
    }
    assert!(refused(&"[".repeat(100_000), 20));
}

#[test]
fn a_tuned_file_is_accepted_and_has_only_values_that_differ() {
    let hardware = Hardware {
        version: Some((1, 14)),
        model_bytes: Some(60 << 30),
        possible: Some(crate::core::Route::P2pdma),
        ..Hardware::default()
    };
    let current = |key: &str| (key == "properties.max_device_pinned_mem_size_kb").then(|| json!(33_554_432));
    let tuned = tune(&hardware, &current, TunedFor::default());
    let keys: Vec<&str> = tuned.iter().map(|row| row.key.as_str()).collect();
    assert!(keys.contains(&"properties.use_pci_p2pdma") && keys.contains(&"execution.parallel_io"));
    assert!(keys.contains(&"properties.max_device_pinned_mem_size_kb"));
    assert!(!keys.contains(&"block.nvme.use_pci_p2pdma"), "1.14 does not know it");
    let values: Vec<String> = tuned.iter().map(|row| row.value.to_string()).collect();
    let pairs: Vec<(&str, &str)> = keys.iter().copied().zip(values.iter().map(String::as_str)).collect();
    let text = set_keys("{\n}\n", &pairs).unwrap();
    assert!(problems(&text, Some((1, 14))).is_empty(), "{text}: {:?}", problems(&text, Some((1, 14))));
    let set = |key: &str| tuned.iter().find(|row| row.key == key).map(|row| row.value.clone()).or_else(|| current(key));
    assert!(tune(&hardware, &set, TunedFor::default()).is_empty(), "tuning what is tuned changes nothing");
}

#[test]
fn for_a_program_with_many_threads_the_threads_of_the_library_stay_as_they_are() {
    let hardware =
        Hardware { version: Some((1, 20)), possible: Some(crate::core::Route::Compat), ..Hardware::default() };
    let keys = |program| {
        let rows = tune(&hardware, &|_| None, program);
        rows.into_iter().map(|row| (row.key, row.value)).collect::<Vec<_>>()
    };
    let many = TunedFor { threads: 64, transfer_bytes: 64 << 10, ..TunedFor::default() };
    assert_eq!(keys(many), [("properties.max_direct_io_size_kb".to_owned(), json!(1024))]);
    let more = keys(TunedFor { threads: 128, ..many });
    assert!(more.contains(&("properties.posix_pool_slab_count".to_owned(), json!([128, 128, 64]))), "{more:?}");
    let one = keys(TunedFor { threads: 1, ..many });
    assert!(one.iter().any(|(key, _)| key == "execution.max_io_threads"), "{one:?}");
}

#[test]
fn where_reads_are_staged_a_registration_is_tuned_to_pin_less() {
    let tuned = |version, possible, kib: Option<u64>| {
        let hardware =
            Hardware { version: Some(version), possible, bar1_bytes: Some(128 << 30), ..Hardware::default() };
        let current = |key: &str| kib.filter(|_| key == "properties.max_direct_io_size_kb").map(|kib| json!(kib));
        let rows = tune(&hardware, &current, TunedFor { unregistered: true, ..TunedFor::default() });
        let value =
            |name: &str| rows.iter().find(|row| row.key == format!("properties.{name}")).map(|row| row.value.clone());
        (value("max_direct_io_size_kb"), value("per_buffer_cache_size_kb"))
    };
    let (compat, direct) = (Some(crate::core::Route::Compat), Some(crate::core::Route::Nvfs));
    assert_eq!(tuned((1, 20), compat, None), (Some(json!(4096)), Some(json!(4096))));
    assert_eq!(
        tuned((1, 15), compat, Some(16384)),
        (Some(json!(4096)), Some(json!(4096))),
        "as NVIDIA's own cufile.json has it"
    );
    // Smaller values are kept. The bounce buffers are kept too, because they must not be larger.
    assert_eq!(tuned((1, 20), compat, Some(1024)), (None, None));
    assert_eq!(tuned((1, 15), compat, None), (None, None), "releases before 1.20 have 1024 by themselves");
    assert_eq!(tuned((1, 15), direct, None), (Some(json!(16384)), Some(json!(16384))));
    assert_eq!(tuned((1, 20), direct, None), (None, Some(json!(16384))));
}

#[test]
fn file_of_another_program_is_reported_briefly() {
    let keys: Vec<String> = (0..20_000).map(|n| format!("\"k{n}\": {n}")).collect();
    let found = problems(&format!("{{ \"properties\": {{ {} }} }}", keys.join(",")), Some((1, 20)));
    assert_eq!(found.len(), 101);
    assert!(found.last().unwrap().what.starts_with("19900 more keys "), "{found:?}");
    let twice = vec!["\"io_batchsize\": 7"; 5_000].join(",");
    assert_eq!(problems(&format!("{{ \"properties\": {{ {twice} }} }}"), Some((1, 20))).len(), 101);
}

#[test]
fn capitals_do_not_hide_the_key_that_is_meant() {
    let found = problems("{ \"properties\": { \"Use_PCI_P2PDMA\": true } }", Some((1, 20)));
    assert!(found[0].todo.contains("properties.use_pci_p2pdma"), "{found:?}");
}

#[test]
fn all_errors_of_a_rejected_file_are_reported_with_their_place() {
    let text = "\u{feff}{\n# ours\n 'logging': { \"level\": 'INFO', },\n \"execution\": { \"max_io_threads\": 999 }\n \"properties\": \
                {\"alow_compat_mode\": true, \"rdma_dev_addr_list\": [\"10.0.0.1\", ] },\n}\n";
    let found: Vec<(usize, usize, String)> =
        problems(text, None).into_iter().map(|p| (p.line, p.column, format!("{} {}", p.rule, p.what))).collect();
    let wanted = [
        (1, 1, "L2 the file begins with a byte order mark"),
        (2, 1, "L2 '#' does not begin a comment"),
        (3, 2, "L2 a key in single quotes"),
        (3, 24, "L2 text in single quotes"),
        (3, 32, "L2 there is a comma before this '}'"),
        (4, 35, "L4 "),
        (5, 2, "L2 ',' or '}' is expected here"),
        (5, 17, "L9 properties.alow_compat_mode"),
        (5, 78, "L2 found ']', but a value is expected"),
        (6, 1, "L2 there is a comma before this '}'"),
    ];
    for (line, column, begin) in wanted {
        assert!(
            found.iter().any(|(l, c, what)| (*l, *c) == (line, column) && what.starts_with(begin)),
            "{line}:{column}: {begin} in {found:#?}"
        );
    }
    // If the rest cannot be parsed, the errors before it are still reported.
    let cut = problems("{ \"a\": [1, ],\n \"b\": maybe }", None);
    assert_eq!(
        cut.iter().map(|p| p.what.as_str()).collect::<Vec<_>>(),
        ["found ']', but a value is expected", "'maybe' is not a value"]
    );
    assert!(problems(&format!("[{}", ",".repeat(10)), None).len() == 1);
    assert!(problems(&"{'a':[1,],'b':".repeat(5_000), None).len() <= 51);
}

#[test]
fn interfaces_and_ipv6_addresses_are_known_to_newer_libraries_only() {
    let warns = |address: &str, minor: u32| {
        let text = format!("{{\"properties\":{{\"rdma_dev_addr_list\":[\"{address}\"]}}}}");
        problems(&text, Some((1, minor)))
            .iter()
            .any(|problem| problem.rule == "L21" && problem.severity == Severity::Warning)
    };
    for (address, minor, is_wrong) in [
        ("10.0.0.1", 11, false),
        ("mlx5_0", 15, true),
        ("mlx5_0", 16, false),
        ("fd00::2", 16, true),
        ("fd00::2", 18, false),
        ("10.0.0.300", 20, true),
        ("10.0.0.1/24", 20, true),
    ] {
        assert_eq!(warns(address, minor), is_wrong, "{address} 1.{minor}");
    }
}

#[test]
fn several_entries_in_one_text_become_a_list() {
    let text = "{\"properties\":{\"rdma_dev_addr_list\":\"10.0.0.1,10.0.0.2\"}}";
    let todo: Vec<_> = problems(text, Some((1, 20))).into_iter().map(|problem| problem.todo).collect();
    assert!(todo.iter().any(|todo| todo.contains("[\"10.0.0.1\", \"10.0.0.2\"]")), "{todo:?}");
}

/// The value that a remedy names.
fn named(todo: &str) -> &str {
    let todo = todo.trim_end_matches('.');
    match todo.rsplit_once(", as \"") {
        Some((_, form)) => form.split_once("\": ").unwrap().1,
        None => todo.strip_prefix("Write ").unwrap().split(", the hexadecimal").next().unwrap(),
    }
}

#[test]
fn each_value_that_the_remedy_of_a_wrong_type_names_is_accepted() {
    const WRONG: [&str; 14] = [
        "-1", "0.5", "31", "true", "\"x\"", "\"-1\"", "\"512\"", "\"yes\"", "\"4,8\"", "[]", "[-1]", "[[]]", "{}",
        "[true]",
    ];
    let errors = |text: &str| {
        let around =
            Surroundings { version: Some((1, 20)), ranges: &Value::Null, exists: &|_| true, is_folder: &|_| true };
        let mut problems = lint(text, &around).1;
        problems.retain(|problem| problem.severity == Severity::Error);
        problems
    };
    let mut remedies = 0;
    for known in known::KEYS {
        for wrong in WRONG {
            let text = set_keys("{}", &[(known.key, wrong)]).unwrap();
            for problem in errors(&text).into_iter().filter(|problem| problem.rule == "L3") {
                let text = set_keys("{}", &[(known.key, named(&problem.todo))]).unwrap();
                // These rules compare the value with another key.
                let left: Vec<_> =
                    errors(&text).into_iter().filter(|left| !matches!(left.rule.as_str(), "L5" | "L6")).collect();
                assert!(left.is_empty(), "{} = {wrong}: {}: {left:?}", known.key, problem.todo);
                remedies += 1;
            }
        }
    }
    assert!(remedies > 500, "{remedies}");
}

#[test]
fn negative_numbers_are_named_with_the_range() {
    let problem = &problems("{\"properties\":{\"io_batchsize\":-1}}", None)[0];
    assert_eq!(problem.what, "properties.io_batchsize must not be negative, but is -1");
    assert_eq!(problem.todo, "Write a number from 1 to 256 without quotes, as \"io_batchsize\": 128.");
    let problem = &problems("{\"properties\":{\"posix_pool_slab_count\":[4, -1, 8]}}", None)[0];
    assert!(problem.what.ends_with("but has -1 in it"), "{}", problem.what);
}

#[test]
fn no_key_of_another_file_system_is_suggested() {
    for (section, key, meant) in [
        ("nfs", "posix_gds_min_kb", None),
        ("weka", "posix_gds_min_kb", None),
        ("weka", "rdma_write_suport", Some("fs.weka.rdma_write_support")),
        ("gpfs", "gds_write_suport", Some("fs.gpfs.gds_write_support")),
        ("scatefs", "posix_gds_min_size_kb", Some("fs.scatefs.posix_gds_min_kb")),
        ("nfs", "io_batchsize", Some("properties.io_batchsize")),
    ] {
        let text = format!("{{\"fs\":{{\"{section}\":{{\"{key}\":4}}}}}}");
        let problem = &problems(&text, None)[0];
        let todo = match meant {
            Some(meant) => format!("Check the name; a similar one is {meant}."),
            None => format!("Remove it; the keys of fs.{section} are mount_table, rdma_dev_addr_list, "),
        };
        assert!(problem.rule == "L9" && problem.todo.starts_with(&todo), "{text}: {problem:?}");
    }
}

#[test]
fn sizes_in_another_unit_are_answered_with_the_number_that_was_meant() {
    for (key, value, meant) in [
        ("max_direct_io_size_kb", "\"16M\"", "Write 16384."),
        ("max_direct_io_size_kb", "\"1 MiB\"", "Write 1024."),
        ("max_device_cache_size_kb", "\"128MB\"", "Write 131072."),
        ("per_buffer_cache_size_kb", "\"1048576 bytes\"", "Write 1024."),
        ("max_direct_io_size_kb", "16777216", "Write 16384, because the unit of the key is KiB, not bytes."),
        ("per_buffer_cache_size_kb", "1048576", "Write 1024, because the unit of the key is KiB, not bytes."),
        ("max_device_cache_size_kb", "134217728", "Write 131072, because the unit of the key is KiB, not bytes."),
        ("max_direct_io_size_kb", "\"16T\"", "Write a number from 64 to 16384 in steps of 64 without quotes, as "),
        ("max_direct_io_size_kb", "16777217", "Write a number from 64 to 16384."),
        ("io_batchsize", "\"16M\"", "Write a number from 1 to 256 without quotes, as "),
    ] {
        let found = problems(&format!("{{\"properties\":{{\"{key}\":{value}}}}}"), Some((1, 20)));
        assert!(found.iter().any(|problem| problem.todo.starts_with(meant)), "{key} {value}: {found:?}");
    }
    let found = problems("{\"logging\":{\"max_file_size_mb\":\"32M\"}}", Some((1, 20)));
    assert_eq!(found[0].todo, "Write 32.");
}

#[test]
fn misplaced_file_systems_and_mount_points_are_answered_with_their_place() {
    for (text, meant) in [
        ("{\"fs\":{\"wekafs\":{}}}", "Rename it to fs.weka."),
        ("{\"nfs4\":{}}", "Rename it to fs.nfs."),
        (
            "{\"fs\":{\"lustre\":{\"/mnt/a.b\":{}}}}",
            "Move it into fs.lustre.mount_table: \"mount_table\": { \"/mnt/a.b\": { \"rdma_dev_addr_list\": [\"10.0.0.1\"] } }.",
        ),
        ("{\"fs\":{\"/mnt\":{}}}", "Move it into the mount_table of its file system, as fs.lustre.mount_table."),
        ("{\"/mnt\":{}}", "Move it into the mount_table of its file system, as fs.lustre.mount_table."),
    ] {
        assert_eq!(problems(text, None)[0].todo, meant, "{text}");
    }
}

#[test]
fn files_in_utf_16_are_named_as_such() {
    let text = "{ \"properties\": {} }";
    let lossy = |mark: &[u8], order: fn(u16) -> [u8; 2]| {
        let bytes: Vec<u8> = mark.iter().copied().chain(text.encode_utf16().flat_map(order)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    for (file, encoding) in [
        (lossy(&[0xff, 0xfe], u16::to_le_bytes), "UTF-16"),
        (lossy(&[0xfe, 0xff], u16::to_be_bytes), "UTF-16"),
        (lossy(&[], u16::to_le_bytes), "UTF-16LE"),
        (lossy(&[], u16::to_be_bytes), "UTF-16BE"),
    ] {
        let found = problems(&file, None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].what, "the file is UTF-16, but libcufile reads only UTF-8");
        assert_eq!(found[0].todo, format!("Save it as UTF-8: iconv -f {encoding} -t UTF-8 OLD > NEW."));
    }
}
