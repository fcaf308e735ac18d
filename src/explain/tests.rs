//! Tests that every code, key, check, fix and known line has an entry, and that queries find the right one.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::checks::cuda_causes::{FAULTY, HIDDEN_PROC, NO_DEVICES, NO_UVM, RESUMED};
use crate::checks::{cufile_json, xid};
use std::collections::BTreeSet;

fn kinds(query: &str) -> Vec<(Kind, Option<i32>)> {
    explain(query).unwrap_or_default().iter().map(|answer| (answer.kind, answer.code)).collect()
}

#[test]
fn every_cufile_code_has_an_entry_with_causes() {
    for (code, known) in cufile_ffi::codes::known() {
        let row = cufile_codes::CODES.iter().find(|row| row.0 == code);
        assert!(row.is_some(), "{code} {} has no entry", known.name);
        assert!(code == 0 || !row.unwrap().1.is_empty(), "{code} {} has no cause", known.name);
        if code != 0 {
            assert_eq!(kinds(&code.to_string())[0], (Kind::CufileCode, Some(code)));
            assert_eq!(kinds(known.name), [(Kind::CufileCode, Some(code))], "{}", known.name);
            assert_eq!(kinds(&format!("-{code}"))[0], (Kind::CufileCode, Some(code)));
        }
    }
    for (code, _) in cufile_codes::CODES {
        assert!(cufile_ffi::codes::describe(*code, None).is_some(), "{code} is not in cufile.h");
    }
}

#[test]
fn every_cuda_code_is_found_by_number_and_both_names() {
    let mut last = -1;
    for (code, driver, runtime, meaning, causes) in cuda_codes::CODES {
        assert!(*code > last, "{code} is out of order");
        last = *code;
        assert!(!meaning.is_empty() && (!causes.is_empty() || matches!(code, 0 | 600)), "{code}");
        for name in [driver, runtime].into_iter().filter(|name| !name.is_empty()) {
            assert!(kinds(name).contains(&(Kind::CudaCode, Some(*code))), "{name}");
        }
    }
    for code in [35, 100, 801, 802, 804] {
        assert_eq!(kinds(&code.to_string())[0], (Kind::CudaCode, Some(code)));
    }
}

#[test]
fn every_key_and_variable_has_an_entry_and_no_other_does() {
    let explained: BTreeSet<&str> = keys::KEYS.iter().map(|row| row.0).collect();
    assert_eq!(explained, cufile_json::key_names().collect::<BTreeSet<_>>());
    let explained: BTreeSet<&str> = keys::VARIABLES.iter().map(|row| row.0).collect();
    assert_eq!(explained, cufile_json::variable_names().collect::<BTreeSet<_>>());
    for key in cufile_json::key_names() {
        assert_eq!(kinds(key), [(Kind::Key, None)], "{key}");
    }
}

#[test]
fn the_sizes_of_requests_that_the_page_advises_are_accepted_by_libcufile() {
    // Compat mode, from and to, and a direct route.
    const SIZES_KIB: [i64; 3] = [1024, 4096, 16384];
    let advice = explain("max_direct_io_size_kb").unwrap()[0].advice.clone().unwrap();
    let facts = cufile_json::key_facts("properties.max_direct_io_size_kb").unwrap();
    let (low, high) = facts.range.unwrap();
    let multiple = i64::try_from(facts.multiple.unwrap()).unwrap();
    for size in SIZES_KIB {
        assert!(advice.contains(&size.to_string()), "{size}: {advice}");
        assert!((low..=high).contains(&size) && size % multiple == 0, "{size}");
    }
}

#[test]
fn variables_of_serving_systems_have_an_entry() {
    for (name, _, advice) in keys::OTHER_VARIABLES {
        assert_eq!(kinds(name), [(Kind::Variable, None)], "{name}");
        assert!(advice.ends_with('.') && !cufile_json::variable_names().any(|known| known == *name), "{name}");
    }
}

#[test]
fn variables_of_kvikio_are_explained() {
    for name in ["KVIKIO_COMPAT_MODE", "KVIKIO_GDS_THRESHOLD", "KVIKIO_NTHREADS", "KVIKIO_TASK_SIZE"] {
        assert_eq!(kinds(name), [(Kind::Variable, None)], "{name}");
    }
}

#[test]
fn every_fix_has_a_page_and_pages_name_only_fixes_that_exist() {
    for page in checks::pages() {
        assert!(!page.look.is_empty() && page.why.ends_with('.'), "{}", page.id);
    }
    for id in crate::core::FixId::ALL {
        assert_eq!(kinds(id.as_str()).iter().filter(|kind| kind.0 == Kind::Fix).count(), 1, "{id}");
    }
}

#[test]
fn the_checklist_and_every_engine_are_explained() {
    let answer = &explain("nvidia-gds").unwrap()[0];
    assert_eq!((answer.kind, answer.fix.as_ref().unwrap().command.as_str()), (Kind::Fix, "gds-top fix nvidia-gds"));
    for spec in &crate::core::engine_spec::ENGINES {
        let answers = explain(spec.name).unwrap();
        let engine = answers.iter().find(|answer| answer.kind == Kind::Engine).unwrap();
        assert_eq!((engine.name.as_str(), engine.meaning.as_str()), (spec.name, spec.help));
        assert_eq!(engine.facts.is_empty(), spec.needs.is_empty(), "{}", spec.name);
    }
    assert_eq!(explain("direct").unwrap()[0].name, "odirect", "the earlier name");
}

#[test]
fn success_is_a_code_of_cufile_and_of_cuda() {
    assert_eq!(kinds("0"), [(Kind::CufileCode, Some(0)), (Kind::CudaCode, Some(0))]);
    assert_eq!(kinds("CU_FILE_SUCCESS"), [(Kind::CufileCode, Some(0))]);
    assert!(explain("cuFileRead returned CU_FILE_SUCCESS").is_err(), "a line without an error");
}

#[test]
fn no_row_of_a_page_is_repeated() {
    let page = text(&explain("udev-record").unwrap(), 100, false);
    assert_eq!(page.lines().filter(|line| line.starts_with("  Check ")).count(), 2, "{page}");
    assert!(page.contains("  Check id udev-database\n"), "{page}");
    let page = text(&explain("udev property not found for id_fs_usage").unwrap(), 100, false);
    assert_eq!(page.matches("gds-top fix udev-record").count(), 1, "{page}");
    assert!(page.contains("In a container: -v /run/udev:/run/udev:ro"), "{page}");
}

#[test]
fn causes_name_only_checks_that_have_a_page_and_say_what_to_do() {
    let of_codes = cufile_codes::CODES.iter().flat_map(|row| row.1);
    let of_cuda = cuda_codes::CODES.iter().flat_map(|row| row.4);
    let of_lines = lines::LINES.iter().flat_map(|row| row.2);
    let of_system = page::SYSTEM.iter().flat_map(|row| row.3);
    for cause in of_codes.chain(of_cuda).chain(of_lines).chain(of_system) {
        assert!(cause.check.is_some() || !cause.todo.is_empty(), "nothing to do: {}", cause.text);
        assert!(cause.text.ends_with('.'), "{}", cause.text);
    }
}

#[test]
fn every_check_is_explained_by_its_id() {
    for id in crate::core::CheckId::ALL {
        assert_eq!(kinds(id.as_str()).iter().filter(|kind| kind.0 == Kind::Check).count(), 1, "{id}");
    }
}

#[test]
fn lost_gpu_is_not_asked_for_its_errors() {
    for number in [79, 119, 120] {
        let line = format!("NVRM: Xid (PCI:0000:be:00): {number}, pid=1");
        let check = explain(&line).unwrap()[0].how_to_check.clone().unwrap();
        assert!(!check.contains("nvidia-smi"), "{check}");
    }
}

#[test]
fn every_line_of_the_table_is_found_by_its_own_parts() {
    for (parts, meaning, _) in lines::LINES {
        let line = parts.join(" ");
        assert_eq!(line, line.to_lowercase());
        assert!(lines::of(&line).is_some_and(|row| row.1 == *meaning), "{line} is taken for another line");
        assert!(explain(&format!("[12.3] {line}")).is_ok(), "{line}");
    }
    for number in xid::numbers() {
        let line = format!("NVRM: Xid (PCI:0000:be:00): {number}, pid=1234, name=python3");
        assert_eq!(xid::number(&line), Some(number));
        assert!(explain(&line).unwrap()[0].meaning.starts_with(&format!("Xid {number}:")));
    }
}

#[test]
fn a_part_of_a_key_is_enough_and_several_keys_are_all_explained() {
    assert_eq!(kinds("io_batchsize"), [(Kind::Key, None)]);
    assert!(explain("use_pci_p2pdma").unwrap().len() > 5);
    assert_eq!(explain("use_compat_mode").unwrap()[0].name, "properties.allow_compat_mode");
    assert_eq!(explain("profile.io_batchsize").unwrap()[0].name, "properties.io_batchsize");
    assert_eq!(kinds("CUFILE_FORCE_COMPAT_MODE"), [(Kind::Variable, None)]);
}

#[test]
fn names_that_libcufile_ignores_are_answered_with_the_right_name() {
    for (written, name, meant) in [
        ("use_compat_mode", "properties.allow_compat_mode", "properties.allow_compat_mode"),
        ("properties.use_compat_mode", "properties.allow_compat_mode", "properties.allow_compat_mode"),
        ("\"use_compat_mode\": true", "properties.allow_compat_mode", "properties.allow_compat_mode"),
        ("properties.use_p2pdma", "properties.use_pci_p2pdma", "properties.use_pci_p2pdma"),
        ("execution.io_batchsize", "properties.io_batchsize", "properties.io_batchsize"),
        ("poll_thresh_size_kb", "properties.poll_mode_max_size_kb", "properties.poll_mode_max_size_kb"),
        ("blacklist", "denylist.devices", "denylist"),
        ("fs.wekafs", "fs.weka.mount_table", "fs.weka"),
    ] {
        let answer = &explain(written).unwrap()[0];
        assert_eq!(answer.name, name, "{written}");
        let fact = &answer.facts[0];
        assert!(fact.name == "Ignored" && fact.value.ends_with(&format!("; the right name is {meant}")), "{answer:?}");
    }
    for known in ["properties.allow_compat_mode", "io_batchsize", "fs.weka", "CUFILE_FORCE_COMPAT_MODE"] {
        assert!(explain(known).unwrap()[0].facts.iter().all(|fact| fact.name != "Ignored"), "{known}");
    }
}

#[test]
fn codes_in_lines_are_found_and_other_numbers_are_not() {
    let found = |line: &str| kinds(line).iter().filter_map(|(_, code)| *code).collect::<Vec<_>>();
    assert_eq!(found("cuFileHandleRegister failed: 5027"), [5027]);
    assert_eq!(found("RuntimeError: cuFileDriverOpen error (5011, 801)"), [5011, 801]);
    assert_eq!(found("gpu attribute pci_p2pdma not supported errornum:801"), [801]);
    assert_eq!(found("raise CUDA_ERROR_SYSTEM_NOT_READY"), [802]);
    assert_eq!(found("cudaErrorNoDevice: something"), [100]);
    assert_eq!(kinds("modprobe: ERROR: Unknown symbol in module"), [(Kind::Line, None)]);
    assert_eq!(kinds("nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)"), [(Kind::Line, None)]);
    assert!(found("[pid=5030 tid=5030] ERROR cufio-fs:268 Unsupported block device: /dev/dm-0").is_empty());
}

#[test]
fn a_position_in_a_source_file_is_not_a_code() {
    let line = "CUDA error 804 at main.cu:12: forward compatibility was attempted on non supported HW";
    assert_eq!(kinds(line).iter().filter_map(|(_, code)| *code).collect::<Vec<_>>(), [804]);
    assert_eq!(kinds("load.py:999: CUDA error 100 (cudaErrorNoDevice)")[0].1, Some(100));
}

#[test]
fn pasted_lines_of_tools_and_configurations_are_known() {
    for line in [
        "No devices were found",
        "systemd-modules-load[412]: Failed to find module 'nvidia_fs'",
        "ERROR  cufio-drv:716 failed to open /proc/driver/nvidia-fs/devcount  error: No such file or directory",
    ] {
        assert!(explain(line).is_ok(), "{line}");
    }
    for line in ["\"max_device_pinned_mem_size_kb\" : 33554432,", "\"io_batchsize\": 128"] {
        assert_eq!(kinds(line), [(Kind::Key, None)], "{line}");
    }
}

#[test]
fn lines_about_any_module_name_it_in_the_command() {
    for (line, command) in [
        ("modprobe: FATAL: Module mlx5_ib not found in directory /lib/modules/6.8.0", "modinfo mlx5_ib; uname -r"),
        ("modprobe: FATAL: Module nvidia-uvm not found.", "modinfo nvidia-uvm; uname -r"),
        ("systemd-modules-load[412]: Failed to find module 'nvme_rdma'", "modinfo nvme_rdma; uname -r"),
        ("softdep nvidia_fs pre: nvidia nvme", "modinfo nvidia nvme nvidia_fs"),
        ("softdep nvidia post: nvidia-fs", "modinfo nvidia nvidia-fs"),
    ] {
        assert_eq!(explain(line).unwrap()[0].how_to_check.as_deref(), Some(command), "{line}");
    }
    for line in ["modprobe: FATAL: Module $(id) not found", "softdep nvidia_fs", "softdep a pre: b;c"] {
        assert!(explain(line).is_err(), "{line}");
    }
}

/// A remedy must fit its cause: the page of a check can have the remedy of another cause.
#[test]
fn the_causes_of_a_forbidden_transfer_have_their_own_remedies() {
    for (code, check, words) in [
        ("5001", "cfg-compat", "allow_compat_mode to true"),
        ("5034", "cfg-compat", "allow_compat_mode to true"),
        ("5034", "cfg-effective", "denylist"),
        ("5033", "lib-deps", "--gpus all"),
    ] {
        let answers = explain(code).unwrap();
        let cause = answers[0].causes.iter().find(|cause| cause.check == Some(check)).unwrap();
        assert!(cause.advice.as_ref().is_some_and(|advice| advice.contains(words)), "{code}: {cause:?}");
    }
    for answer in (5001..=5050).filter_map(|code| explain(&code.to_string()).ok()).flatten() {
        let begins = |cause: &super::Cause| cause.advice.as_ref().is_some_and(|advice| advice.starts_with("Or "));
        assert!(!answer.causes.iter().any(begins), "{answer:?}");
    }
}

#[test]
fn a_negative_number_is_an_error_of_the_system_and_not_of_cuda() {
    for code in 1..=133 {
        // Linux has no errors with these numbers.
        let expected = if matches!(code, 41 | 58) { vec![] } else { vec![(Kind::SystemError, Some(code))] };
        assert_eq!(kinds(&format!("-{code}")), expected);
    }
    for (code, name) in [(4, "EINTR"), (9, "EBADF"), (11, "EAGAIN"), (30, "EROFS"), (116, "ESTALE")] {
        let answer = &explain(&format!("-{code}")).unwrap()[0];
        assert_eq!((answer.name.as_str(), answer.causes.is_empty()), (name, false));
    }
    assert_eq!(explain("-71").unwrap()[0].meaning, "Protocol error");
}

#[test]
fn a_number_is_explained_in_the_order_of_likelihood() {
    assert_eq!(kinds("801"), [(Kind::CudaCode, Some(801))]);
    assert_eq!(kinds("-22")[0], (Kind::SystemError, Some(22)));
    assert_eq!(kinds("5039")[0].0, Kind::CufileCode);
    let causes = &explain("5027").unwrap()[0].causes;
    assert_eq!(causes[0].check, Some("udev-database"));
    assert_eq!(causes[0].fix.as_ref().map(|fix| fix.id.as_str()), Some("udev-record"));
}

#[test]
fn routes_are_explained_by_their_names() {
    use crate::core::Route;
    for route in Route::ALL {
        let answers = explain(route.as_str()).unwrap();
        assert_eq!((answers.len(), answers[0].kind, answers[0].meaning.as_str()), (1, Kind::Route, route.meaning()));
    }
    let all = explain("route").unwrap();
    assert_eq!(all[0].facts.iter().map(|fact| fact.name).collect::<Vec<_>>(), Route::ALL.map(Route::as_str));
}

#[test]
fn what_is_unknown_names_the_nearest() {
    let near = |query: &str| explain(query).unwrap_err().nearest;
    assert_eq!(near("io_batchsise")[0], "properties.io_batchsize");
    let says = |query: &str| explain(query).unwrap_err().to_string();
    assert!(says("io_batchsise").ends_with("libcufile ignores unknown keys without a message"));
    assert!(!says("udev-databse").contains("libcufile"));
    assert_eq!(near("udev-databse")[0], "udev-database");
    assert!(near("5999").is_empty());
    assert!(explain("the quick brown fox").is_err());
    assert!(explain("").is_err());
    assert!(explain(&"x".repeat(100_000)).is_err());
}

#[test]
fn a_log_is_explained_every_meaning_once() {
    let log = "NOTICE  cufio-drv:1063 running in compatible mode\nERROR  cufio-udev:85 udev property not found: ID_FS_USAGE vda\n\
               ERROR  cufio-udev:85 udev property not found: ID_FS_USAGE vda\nnothing\n";
    assert_eq!(explain_log(log).len(), 2);
}

#[test]
fn text_keeps_the_width_and_hides_control_characters() {
    let answers = explain("udev property not found: ID_FS_USAGE \u{1b}[2J vda").unwrap();
    let shown = text(&answers, 60, false);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let long = shown.lines().filter(|line| line.chars().count() > 60 && line.split_whitespace().count() > 2).count();
    assert_eq!(long, 0, "{shown}");
}

#[test]
fn matrix_is_shown_complete_by_row_and_by_pair() {
    use crate::checks::matrix::{GpuClass, Storage};
    let all = explain("matrix").unwrap();
    assert_eq!(all.len(), GpuClass::ALL.len() + Storage::ALL.len());
    assert!(all.iter().all(|answer| answer.facts.len() == 6 && answer.facts[5].name == "Source"));
    assert_eq!(kinds("matrix geforce"), [(Kind::GpuClass, None)]);
    let pair = explain("matrix TURING nvme-rdma").unwrap();
    assert_eq!((pair.len(), pair[0].kind), (1, Kind::Pair));
    let fact = |name: &str| pair[0].facts.iter().find(|fact| fact.name == name).unwrap().value.clone();
    assert!(fact("p2pdma").starts_with("no: ") && fact("nvfs").matches("if: ").count() == 2, "{pair:?}");
    assert_eq!(fact("compat"), "yes");
    assert!(explain("matrix nonsense").is_err());
}

#[test]
fn a_log_of_any_length_is_explained_in_bounded_time() {
    let began = std::time::Instant::now();
    let again: String = (0..300_000).map(|n| format!("[ {n}.1] cuFileHandleRegister error 5027\n")).collect();
    assert_eq!(explain_log(&again), explain_log("cuFileHandleRegister error 5027"));
    let long = "x".repeat(8 << 20) + " error 5027";
    assert!(explain_log(&long).is_empty());
    // The codes of all lines are found.
    assert_eq!(explain_log("[1] call failed: error 5027\n[2] call failed: error 5030\n").len(), 2);
    assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn each_cause_of_a_code_has_an_action() {
    for code in cufile_codes::CODES.iter().map(|row| row.0).chain(cuda_codes::CODES.iter().map(|row| row.0)) {
        for answer in explain(&code.to_string()).unwrap_or_default() {
            for cause in &answer.causes {
                assert!(cause.fix.is_some() || cause.advice.is_some(), "{code}: {}", cause.cause);
            }
        }
    }
    for number in xid::numbers() {
        let answer = &explain(&format!("NVRM: Xid (PCI:0000:be:00): {number}, pid=1")).unwrap()[0];
        assert!(answer.advice.as_deref().is_some_and(|advice| advice.contains([' ', '`'])), "{number}");
    }
}

#[test]
fn errors_of_an_nvswitch_and_of_two_infiniband_packages_are_explained() {
    let switch = "nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 24007, Fatal, Link 42 sourcetrack timeout error (First)";
    let answer = &explain(switch).unwrap()[0];
    assert!(answer.meaning.starts_with("SXid 24007") && answer.advice.is_some(), "{answer:?}");
    let core = &explain("mlx5_ib: disagrees about version of symbol ib_register_device").unwrap()[0];
    assert!(core.meaning.contains("ib_core"), "{core:?}");
    let hmm =
        explain("nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:92821] request_free_mem_region() err -34");
    let hmm = hmm.unwrap();
    assert!(hmm[0].causes[0].advice.as_deref().is_some_and(|advice| advice.contains("uvm_disable_hmm=1")), "{hmm:?}");
    assert_eq!(hmm.len(), 1, "{hmm:?}");
}

#[test]
fn a_driver_that_cuda_cannot_open_has_the_causes_of_the_checks() {
    for code in ["304", "999"] {
        let causes = &explain(code).unwrap()[0].causes;
        let others = if code == "999" { &[RESUMED][..] } else { &[] };
        for shared in [FAULTY, HIDDEN_PROC, NO_DEVICES, NO_UVM].iter().chain(others) {
            assert!(causes.iter().any(|cause| cause.cause == shared.text), "{code}: {}", shared.text);
        }
    }
}

#[test]
fn a_position_in_the_library_is_explained() {
    for query in ["cufio-fs:79", "cufio:1185", "cufio-new:1", "cufio-drv:1063:"] {
        let answer = &explain(query).unwrap()[0];
        assert_eq!(answer.kind, Kind::Line, "{query}");
        assert!(answer.advice.as_deref().is_some_and(|advice| advice.contains("complete line")), "{query}");
    }
    assert!(explain("cufio-fs:x").is_err() && explain("nonsense:79").is_err());
}

#[test]
fn lines_about_the_driver_have_the_check_a_command_and_a_remedy() {
    for (line, part) in [
        (
            "nvidia: version magic '6.8.0-90 SMP' should be '6.14.0-37 SMP'",
            "NVIDIA driver was built for another kernel",
        ),
        ("NVRM: BAR1 is 0M @ 0x0 (PCI:0000:be:00.0)", "no address space"),
        ("nvidia 0000:be:00.0: Unable to change power state from D3cold to D0, device inaccessible", "D3cold"),
        ("Module nvidia is blacklisted", "excludes the NVIDIA driver"),
        ("NVRM: GPU 0000:be:00.0: GPU has fallen off the bus.", "fell off the bus"),
        ("NVRM: The NVIDIA probe routine was not called for 1 device(s).", "another driver uses the GPU"),
    ] {
        let answer = &explain(line).unwrap()[0];
        assert!(answer.meaning.contains(part), "{line}: {}", answer.meaning);
        assert!(answer.facts.iter().any(|fact| fact.value == "gpu-present"), "{line}");
        assert!(answer.how_to_check.is_some() && answer.advice.is_some(), "{line}");
    }
    for (line, part) in [
        ("cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'", "compiler is older"),
        ("fatal error: error writing to /tmp/ccX.s: No space left on device", "file system is full"),
        ("nvfs-p2p.h:29:10: fatal error: nv-p2p.h: No such file or directory", "without the source"),
    ] {
        let answer = &explain(line).unwrap()[0];
        assert!(answer.meaning.contains(part) && answer.advice.is_some(), "{line}: {}", answer.meaning);
    }
    // The same words about nvidia-fs are not about the driver.
    let answer = &explain("nvidia_fs: version magic '6.8.0' should be '6.14.0'").unwrap()[0];
    assert!(answer.facts.iter().any(|fact| fact.value == "nvfs-dkms"), "{answer:?}");
    let answer = &explain("nvme nvme0: Disabling device after reset failure: -19").unwrap()[0];
    assert!(answer.facts.iter().any(|fact| fact.value == "nvme-state"), "{answer:?}");
}

#[test]
fn a_build_for_a_real_time_kernel_is_explained() {
    let answer = explain("*** Failed PREEMPT_RT sanity check. Bailing out! ***").unwrap()[0].clone();
    assert!(answer.advice.is_some_and(|advice| advice.contains("sudo pro disable realtime-kernel")));
}

#[test]
fn a_gpu_that_vfio_reserves_is_explained() {
    let answer = explain("NVRM: GPU 0000:41:00.0 is already bound to vfio-pci.").unwrap()[0].clone();
    assert!(answer.meaning.contains("virtual machines") && answer.advice.is_some(), "{answer:?}");
}
