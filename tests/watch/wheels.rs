//! Tests with published loaders from their wheels, on host memory with the real libcufile. Without the wheels, these
//! tests print a message and pass. kvikio is missing here: without libcuda it makes no cuFile call.

use crate::harness::{Place, Seen};
use crate::program::PROGRAM;
use crate::standins;
use std::path::PathBuf;
use std::process::Command;

/// The wheels, with the newest libcufile. `None`, with a message, if one of the files below them is missing.
fn wheels(files: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let Some(root) = std::env::var_os("GDS_TOP_TEST_WHEELS").filter(|root| !root.is_empty()) else {
        standins::skipped("GDS_TOP_TEST_WHEELS is not set (run .ci/wheels and set it to the directory)");
        return None;
    };
    let root = std::path::absolute(root).unwrap();
    let libcufile = root.join("1.20.0.107/nvidia/cu13/lib/libcufile.so.0");
    if !libcufile.is_file() || !files.iter().all(|file| root.join(file).exists()) {
        standins::skipped(&format!("the wheels hold no libcufile 1.20, or none of {files:?}"));
        return None;
    }
    Some((root, libcufile))
}

/// Lets libcufile run on a machine without udev records.
fn prepare(place: &Place, command: &mut Command) {
    let machine = place.file("machine");
    if !machine.exists() {
        standins::machine(&machine, place.folder.path());
    }
    command.env("LD_PRELOAD", &place.built.redirect).env("GDS_TOP_TEST_REDIRECT", &machine);
}

#[test]
fn reads_of_cufile_python_are_recorded() {
    let Some((root, libcufile)) = wheels(&["cufile-python/cufile"]) else { return };
    let Some(place) = Place::new() else { return };
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        standins::skipped("python3 is not installed");
        return;
    }
    // The binding opens the library by this name.
    let folder = place.file("lib");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&libcufile, folder.join("libcufile.so")).unwrap();
    let script = r"
import ctypes, mmap, sys
from cufile import CuFile
memory = mmap.mmap(-1, 1 << 20)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
with CuFile(sys.argv[1], 'r') as file:
    for part in range(8):
        got = file.read(ctypes.c_void_p(address), 65536, file_offset=part * 65536, dev_offset=0)
        assert got == 65536, got
assert memory[:65536] == open(sys.argv[1], 'rb').read(65536)
";
    std::fs::write(place.file("load.py"), script).unwrap();
    let mut command = place.watch(&["--json", "--statistics"]);
    prepare(&place, &mut command);
    command.env("LD_LIBRARY_PATH", &folder).env("PYTHONPATH", root.join("cufile-python"));
    command.arg("python3").arg(place.file("load.py")).arg(place.data());
    let seen = Seen::of(command);
    let errors = String::from_utf8_lossy(&seen.output.stderr).into_owned();
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 8), "{errors}");
    let reads = &seen.file(&place.data())["reads"];
    assert_eq!((&reads["count"], &reads["bytes"]), (&8.into(), &(8 * 65536).into()));
    assert_eq!(reads["unregistered"], 8);
    seen.assert_counts_of_libcufile("cufile-python");
}

/// NIXL's plugins make the calls. gds-top loads NIXL through its C interface, in a child process.
#[test]
fn calls_of_nixl_are_recorded() {
    let files = ["nixl/nixl_cu13", "nixl/nvidia/cu13/lib/libcudart.so.13"];
    let Some((root, libcufile)) = wheels(&files) else { return };
    let Some(place) = Place::new() else { return };
    let header = r#"{"a":{"dtype":"U8","shape":[65536],"data_offsets":[0,65536]},"b":{"dtype":"U8","shape":[65536],"data_offsets":[65536,131072]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + 131_072, 5);
    let model = place.file("model.safetensors");
    std::fs::write(&model, bytes).unwrap();
    for (engine, function) in [("nixl", "cuFileBatchIOSubmit"), ("nixl:GDS_MT", "cuFileRead")] {
        let mut command = place.watch(&["--json", "--statistics"]);
        prepare(&place, &mut command);
        command.env("GDS_TOP_NIXL", root.join("nixl")).env("PYTHONPATH", root.join("nixl"));
        command.env("GDS_TOP_LIBCUFILE", &libcufile);
        command.args([PROGRAM, "bench", "--engine", engine, "--target", "host", "--repeat", "1", "-q"]).arg(&model);
        let seen = Seen::of(command);
        let errors = String::from_utf8_lossy(&seen.output.stderr).into_owned();
        assert_eq!(seen.status(), Some(0), "{engine}: {errors}");
        assert!(seen.count(function) >= 2, "{engine}: {:?} {errors}", seen.calls());
        assert!(seen.count("cuFileBufRegister") >= 1, "{engine}: {:?}", seen.calls());
        let reads = &seen.file(&model)["reads"];
        assert_eq!((&reads["bytes"], &reads["errors"]), (&131_072.into(), &0.into()), "{engine}: {reads}");
        seen.assert_counts_of_libcufile(engine);
    }
}
