//! Tests with the real libcufile of its public wheels, on host memory, which it supports since 1.16. Without the
//! wheels, these tests print a message and pass.

use crate::harness::{Place, Seen};
use crate::standins;
use cufile_audit::layout::FUNCTIONS;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The versions of libcufile in the wheels that support host memory.
fn libraries() -> Vec<PathBuf> {
    let Some(root) = std::env::var_os("GDS_TOP_TEST_WHEELS").filter(|root| !root.is_empty()) else {
        standins::skipped("GDS_TOP_TEST_WHEELS is not set (run .ci/wheels and set it to the directory)");
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap().flatten() {
        let minor: Option<u32> = entry.file_name().to_string_lossy().split('.').nth(1).and_then(|m| m.parse().ok());
        let file = entry.path().join("nvidia/cu13/lib/libcufile.so.0");
        if minor.is_some_and(|minor| minor >= 16) && file.is_file() {
            found.push(std::path::absolute(file).unwrap());
        }
    }
    found
}

/// Functions that libcufile exports for its parts. cufile.h does not declare them.
const INTERNAL: [&str; 10] = [
    "cuFileCopyGpu",
    "cuFileCopyGpuPosixIORetry",
    "cuFileCopyGpuWrap",
    "cuFileCopyGpuWrapPosixIORetry",
    "cuFileGpuWaitValue32",
    "cuFileInlineGpu",
    "cuFileSparseGpu",
    "cuFileStreamHandleInline",
    "cuFileStreamHandleSparse",
    "cuFileStreamWaitValue32",
];

#[test]
fn every_exported_function_of_the_real_library_is_recorded() {
    use object::{Object, ObjectSymbol};
    for library in libraries() {
        let bytes = std::fs::read(&library).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let names = file.dynamic_symbols().filter(|symbol| symbol.is_definition()).filter_map(|s| s.name().ok());
        let exported: BTreeSet<&str> = names.filter(|name| name.starts_with("cuFile")).collect();
        let recorded = FUNCTIONS.iter().map(|function| function.name);
        let known: BTreeSet<&str> = recorded.chain(INTERNAL).collect();
        let missing: Vec<_> = exported.difference(&known).collect();
        assert_eq!((missing, exported.len() > 50), (Vec::new(), true), "{}", library.display());
        let header = library.parent().unwrap().with_file_name("include").join("cufile.h");
        let header = std::fs::read_to_string(header).unwrap();
        let declared: Vec<_> = INTERNAL.iter().filter(|name| header.contains(&format!("{name}("))).collect();
        assert_eq!(declared, Vec::<&&str>::new(), "{}", library.display());
    }
}

#[test]
fn calls_of_the_real_library_are_counted_as_it_counts_them() {
    let Some(place) = Place::new() else { return };
    let machine = place.file("machine");
    standins::machine(&machine, place.folder.path());
    for library in libraries() {
        for options in [["--json"].as_slice(), &["--json", "--statistics"]] {
            let mut command = place.watch(options);
            command.env("LD_PRELOAD", &place.built.redirect).env("GDS_TOP_TEST_REDIRECT", &machine);
            command.env("LIBRARY", &library);
            command.arg(place.file("loaded")).arg(place.data());
            command.args(["version", "register", "read", "40", "batch", "8", "fork", "0", "read", "2", "deregister"]);
            let seen = Seen::of(command);
            let errors = String::from_utf8_lossy(&seen.output.stderr).into_owned();
            assert_eq!(seen.status(), Some(0), "{}: {errors}", library.display());
            assert_eq!((seen.count("cuFileRead"), seen.count("cuFileBatchIOSubmit")), (42, 1), "{}", library.display());
            let reads = &seen.file(&place.data())["reads"];
            assert_eq!((&reads["count"], &reads["bytes"]), (&50.into(), &(50 * 4096).into()), "{}", library.display());
            assert_eq!((&reads["errors"], &reads["unregistered"]), (&0.into(), &0.into()));
            let loaded = &seen.report["program"]["libraries"][0]["path"];
            assert_eq!(loaded, &*library.to_string_lossy());
            if options.len() > 1 {
                assert_eq!(seen.report["program"]["statistics"]["reads"], 42, "{}", library.display());
                // libcufile counts routes for GPUs, and these transfers use host memory.
                let counted = &seen.report["program"]["statistics"];
                assert_eq!(
                    (&counted["nvfs"], &counted["p2pdma"], &counted["posix"]),
                    (&0.into(), &0.into(), &0.into())
                );
                assert!(seen.advice().contains(&"route-unknown"), "{:?}", seen.advice());
                let mut command = place.watch(options);
                command.env("LD_PRELOAD", &place.built.redirect).env("GDS_TOP_TEST_REDIRECT", &machine);
                command.env("LIBRARY", &library).arg(place.file("loaded")).arg(place.data());
                // The registration of the file opens the driver.
                let seen = Seen::of({
                    command
                        .args(["implicit", "read", "7", "register", "batch", "4", "write", "5", "threads", "3", "2"]);
                    command
                });
                assert_eq!((seen.status(), seen.count("cuFileDriverOpen")), (Some(0), 0), "{}", library.display());
                let counted = &seen.report["program"]["statistics"];
                assert_eq!((&counted["reads"], &counted["writes"]), (&13.into(), &5.into()), "{}", library.display());
                seen.assert_counts_of_libcufile(&library.display().to_string());
            }
        }
    }
}
