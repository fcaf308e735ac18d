//! Compares the raw layer with the real libraries and headers in NVIDIA's Python wheels, without a GPU.
//!
//! `GDS_TOP_TEST_WHEELS` names a directory with unpacked wheels, one subdirectory per version (`.ci/wheels` creates
//! it). Without it, the tests are skipped and print a message. Each library is used in a child process, because two
//! libraries in one process would share state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use cufile_ffi::raw::*;
use cufile_ffi::{Library, Search, Version, codes, values};

use common::{given, inside, must, wheels};

/// Whether cufile.h of a version exports the name, from `nm -D` of the wheels.
fn expected(name: &str, version: Version) -> bool {
    let at = |minor: i32| version >= Version::new(1, minor);
    let name = name.strip_prefix("cuFile").unwrap();
    match name {
        "GetParameterSizeT" | "SetParameterSizeT" | "GetParameterBool" | "SetParameterBool" | "GetParameterString"
        | "SetParameterString" => at(14),
        "GetBARSizeInKB"
        | "GetParameterMinMaxValue"
        | "GetParameterPosixPoolSlabArray"
        | "SetParameterPosixPoolSlabArray"
        | "SetStatsLevel"
        | "GetStatsLevel"
        | "StatsStart"
        | "StatsStop"
        | "StatsReset"
        | "GetStatsL1"
        | "GetStatsL2"
        | "GetStatsL3" => at(15),
        "DriverGetP2PFlags" | "DriverSetP2PFlags" => at(16),
        "ExportPCIeTopology" | "GetParameterGpuBounceBufferSlabArray" | "SetParameterGpuBounceBufferSlabArray" => {
            at(17)
        }
        "Readv" | "Writev" => at(19),
        _ => true,
    }
}

#[test]
fn every_version_has_exactly_the_functions_of_the_table_and_tells_its_version() {
    if let Some(path) = given() {
        let library = Library::open(&Search::only(&path)).unwrap();
        let version = library.version().unwrap();
        let mut text = String::new();
        for (symbol, present) in library.symbols().present() {
            assert_eq!(present, expected(symbol.name, version), "{} in {version}", symbol.name);
            assert_eq!(
                present,
                symbol.since <= version,
                "{} is said to be there from {} on",
                symbol.name,
                symbol.since
            );
            write!(text, "{} ", symbol.name).unwrap();
        }
        assert_eq!(library.path().unwrap(), path.canonicalize().unwrap());
        assert_eq!(std::env::var("EXPECT_VERSION").unwrap(), version.to_string());
        return;
    }
    for (version, wheel) in wheels() {
        let path = inside(&wheel, "lib/libcufile.so.0");
        must(
            "every_version_has_exactly_the_functions_of_the_table_and_tells_its_version",
            &path,
            &[("EXPECT_VERSION", &version.to_string())],
            false,
        );
    }
}

#[test]
fn every_public_function_of_each_header_is_in_the_table() {
    for (version, wheel) in wheels() {
        let header = std::fs::read_to_string(inside(&wheel, "include/cufile.h")).unwrap();
        let mut seen = 0;
        for line in header.lines().filter(|l| !l.trim_start().starts_with('*') && !l.trim_start().starts_with("/*")) {
            for (at, _) in line.match_indices("cuFile") {
                let name: String = line[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                if line[at + name.len()..].starts_with('(') {
                    seen += 1;
                    assert!(
                        cufile_ffi::symbols::SYMBOLS.iter().any(|s| s.name == name && s.since <= version),
                        "{name} of cufile.h {version} is not in the table, or with a later version"
                    );
                }
            }
        }
        assert!(seen >= 24, "cufile.h {version} seems to have {seen} functions only");
    }
}

/// Compiles C code that prints the values of C expressions for a header.
fn ask_header(include: &Path, items: &[String]) -> Option<Vec<i64>> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // cufile.h needs only two types of cuda.h, so a stand-in for cuda.h is enough.
    std::fs::write(dir.path().join("cuda.h"), "typedef int CUresult; typedef struct CUstream_st *CUstream;\n").unwrap();
    let mut source = "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <sys/types.h>\n#include <time.h>\n#include <cufile.h>\nint main(void) {\n".to_owned();
    for item in items {
        writeln!(source, "printf(\"%lld\\n\", (long long)({item}));").unwrap();
    }
    source.push_str("return 0; }\n");
    let c = dir.path().join("ask.c");
    std::fs::write(&c, source).unwrap();
    let program = dir.path().join("ask");
    let out = Command::new(std::env::var_os("GDS_TOP_TEST_CC").unwrap_or_else(|| "cc".into()))
        .arg("-w")
        .arg("-I")
        .arg(dir.path())
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&program)
        .arg(&c)
        .output();
    let out = match out {
        Ok(out) => out,
        Err(e) => {
            common::standins::skipped(&format!("no C compiler to read cufile.h with: {e}"));
            return None;
        }
    };
    assert!(out.status.success(), "cc: {}", String::from_utf8_lossy(&out.stderr));
    let out = Command::new(&program).output().unwrap();
    Some(String::from_utf8(out.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect())
}

macro_rules! layout {
    ($list:ident, $c:literal, $t:ty $(, $($field:ident).+ = $c_field:literal)*) => {
        $list.push((format!("sizeof({})", $c), size_of::<$t>() as i64));
        $($list.push((format!("offsetof({}, {})", $c, $c_field), std::mem::offset_of!($t, $($field).+) as i64));)*
    };
}

#[test]
fn layouts_and_values_are_those_of_every_header() {
    for (version, wheel) in wheels() {
        let at = |minor: i32| version >= Version::new(1, minor);
        let mut list: Vec<(String, i64)> = Vec::new();
        layout!(list, "CUfileError_t", CUfileError, err = "err", cu_err = "cu_err");
        layout!(list, "CUfileDescr_t", CUfileDescr, handle_type = "type", handle = "handle", fs_ops = "fs_ops");
        layout!(
            list,
            "CUfileFSOps_t",
            CUfileFSOps,
            fs_type = "fs_type",
            get_rdma_device_list = "getRDMADeviceList",
            get_rdma_device_priority = "getRDMADevicePriority",
            read = "read",
            write = "write"
        );
        layout!(
            list,
            "cufileRDMAInfo_t",
            CUfileRdmaInfo,
            version = "version",
            desc_len = "desc_len",
            desc_str = "desc_str"
        );
        layout!(
            list,
            "CUfileDrvProps_t",
            CUfileDrvProps,
            nvfs.major_version = "nvfs.major_version",
            nvfs.minor_version = "nvfs.minor_version",
            nvfs.poll_thresh_size = "nvfs.poll_thresh_size",
            nvfs.max_direct_io_size = "nvfs.max_direct_io_size",
            nvfs.dstatusflags = "nvfs.dstatusflags",
            nvfs.dcontrolflags = "nvfs.dcontrolflags",
            fflags = "fflags",
            max_device_cache_size = "max_device_cache_size",
            per_buffer_cache_size = "per_buffer_cache_size",
            max_device_pinned_mem_size = "max_device_pinned_mem_size",
            max_batch_io_size = "max_batch_io_size",
            max_batch_io_timeout_msecs = "max_batch_io_timeout_msecs"
        );
        layout!(
            list,
            "CUfileIOParams_t",
            CUfileIOParams,
            mode = "mode",
            dev_ptr_base = "u.batch.devPtr_base",
            file_offset = "u.batch.file_offset",
            dev_ptr_offset = "u.batch.devPtr_offset",
            size = "u.batch.size",
            fh = "fh",
            opcode = "opcode",
            cookie = "cookie"
        );
        layout!(list, "CUfileIOEvents_t", CUfileIOEvents, cookie = "cookie", status = "status", ret = "ret");
        if at(19) {
            layout!(list, "CUfileIOVec_t", CUfileIOVec, base = "base", len = "len");
        }
        for (code, description) in codes::known() {
            let since_15 = (5039..=5049).contains(&code);
            if code < 6000 && (at(15) || !since_15) {
                list.push((description.name.to_owned(), i64::from(code)));
            }
        }
        list.push(("CU_FILE_IO_MAX_ERROR".to_owned(), if at(15) { 5050 } else { 5039 }));
        let known = |name: &str, value: u32| (name.to_owned(), i64::from(value));
        list.push(known("CU_FILE_HANDLE_TYPE_OPAQUE_FD", values::HANDLE_TYPE_OPAQUE_FD));
        list.push(known("CUFILE_BATCH", values::BATCH_MODE));
        list.push(known("CUFILE_READ", values::OPCODE_READ));
        list.push(known("CUFILE_WRITE", values::OPCODE_WRITE));
        list.push(known("CUFILE_WAITING", values::BATCH_WAITING));
        list.push(known("CUFILE_COMPLETE", values::BATCH_COMPLETE));
        list.push(known("CUFILE_FAILED", values::BATCH_FAILED));
        list.push(known("CU_FILE_STREAM_PAGE_ALIGNED_INPUTS", values::STREAM_PAGE_ALIGNED_INPUTS));
        list.push(known("CU_FILE_BEEGFS_SUPPORTED", values::TRANSPORT_BEEGFS));
        list.push(known("CU_FILE_ALLOW_COMPAT_MODE", values::CONTROL_ALLOW_COMPAT_MODE));
        list.push(known("CU_FILE_PARALLEL_IO_SUPPORTED", values::FEATURE_PARALLEL_IO));
        if at(14) {
            list.push(known("CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS", values::PARAM_BATCH_IO_TIMEOUT_MS));
            list.push(known("CUFILE_PARAM_STREAM_MEMOPS_BYPASS", values::PARAM_STREAM_MEMOPS_BYPASS));
            list.push(known("CUFILE_PARAM_LOG_DIR", values::PARAM_LOG_DIR));
        }
        if at(15) {
            let (l1, l2, l3) = if at(19) { (624, 1136, 5112) } else { (512, 1024, 5000) };
            list.push(("sizeof(CUfileStatsLevel1_t)".to_owned(), l1));
            list.push(("sizeof(CUfileStatsLevel2_t)".to_owned(), l2));
            list.push(("sizeof(CUfileStatsLevel3_t)".to_owned(), l3));
            list.push(("sizeof(CUfilePerGpuStats_t)".to_owned(), 248));
            for (structure, fields) in cufile_ffi::stats::offsets(at(19)) {
                for (field, offset) in fields {
                    list.push((format!("offsetof({structure}, {field})"), offset as i64));
                }
            }
        }
        if at(16) {
            list.push(known("CU_FILE_SCATEFS_SUPPORTED", values::TRANSPORT_SCATEFS));
            list.push(known("CU_FILE_VIRTIOFS_SUPPORTED", values::TRANSPORT_VIRTIOFS));
            list.push(known("CUFILE_NVIDIA_PEERMEM", values::P2P_NVIDIA_PEERMEM));
        }
        if at(20) {
            list.push(known("CU_FILE_PANFS_SUPPORTED", values::TRANSPORT_PANFS));
            list.push(known("CU_FILE_FALLBACK_IO_MODE", values::CONTROL_FALLBACK_IO));
            list.push(known("CUFILE_PARAM_GDS_FALLBACK_IO", values::PARAM_GDS_FALLBACK_IO));
            list.push(known("CUFILE_PARAM_RDMA_TRANSPORT", values::PARAM_RDMA_TRANSPORT));
        }
        let items: Vec<String> = list.iter().map(|(item, _)| item.clone()).collect();
        let header = inside(&wheel, "include/cufile.h");
        let Some(answers) = ask_header(header.parent().unwrap(), &items) else { return };
        assert_eq!(answers.len(), list.len());
        for ((item, ours), theirs) in list.iter().zip(answers) {
            assert_eq!(*ours, theirs, "{item} of cufile.h {version}");
        }
    }
}
