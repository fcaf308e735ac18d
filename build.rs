//! Builds the library that `watch` loads into other programs, so that it can be embedded in gds-top.
//!
//! Cargo cannot yet hand the cdylib of one package to another, so the sources come from the crate `cufile-audit` as text and the compiler is called
//! here. They need `core` alone, so one call is enough, from a clean clone and from a registry.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// Targets on which the dynamic linker has the audit interface and the library has its assembler.
const SUPPORTED: [&str; 2] = ["x86_64", "aarch64"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = out.join("libcufile_audit.so");
    let supported = SUPPORTED.contains(&variable("CARGO_CFG_TARGET_ARCH").as_str())
        && variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if !supported {
        // `watch` reports an empty library.
        fs::write(&library, []).expect("the folder of the build script can be written");
        return;
    }
    let sources = out.join("cufile-audit");
    fs::create_dir_all(&sources).expect("the folder of the build script can be written");
    for (name, content) in cufile_audit::SOURCES {
        fs::write(sources.join(name), content).expect("the folder of the build script can be written");
    }
    let mut compiler = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
    compiler
        .args(["--crate-type=cdylib", "--crate-name=cufile_audit", "--edition=2024", "--cfg=audit_library"])
        .args(["-Copt-level=3", "-Cpanic=abort", "-Ccodegen-units=1", "-Cstrip=symbols", "--cap-lints=allow"])
        // A thread that is cancelled inside 'read' unwinds through the recording function.
        .arg("-Cforce-unwind-tables=yes")
        .arg(format!("--target={}", variable("TARGET")))
        .arg("-o")
        .arg(&library)
        .arg(sources.join("lib.rs"));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut argument = std::ffi::OsString::from("-Clinker=");
        argument.push(linker);
        compiler.arg(argument);
    }
    let done = compiler.status().expect("the compiler can be started");
    assert!(done.success(), "the audit library could not be compiled: {compiler:?}");
}
