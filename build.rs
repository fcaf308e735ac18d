//! Compiles the audit library, which `watch` loads into other programs, and embeds it in gds-top.
//!
//! Cargo cannot yet pass the cdylib of one package to another package. So this script takes the sources of the crate
//! `cufile-audit` as text and runs the compiler itself. The sources depend only on `core`, so one compiler call is
//! enough, both in a clone and for a package from a registry.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Targets whose dynamic linker has the audit interface and for which the library has assembler code.
const SUPPORTED: [&str; 2] = ["x86_64", "aarch64"];

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?);
    let library = out.join("libcufile_audit.so");
    let supported = SUPPORTED.contains(&variable("CARGO_CFG_TARGET_ARCH").as_str())
        && variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if !supported {
        // On other targets the embedded library is empty, and `watch` reports this as an error.
        return write(&library, "");
    }
    let sources = out.join("cufile-audit");
    fs::create_dir_all(&sources).map_err(|error| format!("cannot make {}: {error}", sources.display()))?;
    for (name, content) in cufile_audit::SOURCES {
        write(&sources.join(name), content)?;
    }
    let mut compiler = Command::new(env::var_os("RUSTC").ok_or("cargo did not set RUSTC")?);
    compiler
        .args(["--crate-type=cdylib", "--crate-name=cufile_audit", "--edition=2024", "--cfg=audit_library"])
        .args(["-Copt-level=3", "-Cpanic=abort", "-Ccodegen-units=1", "-Cstrip=symbols", "--cap-lints=allow"])
        // If a thread is cancelled during `read`, the stack is unwound through the recording function.
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
    let done = compiler.status().map_err(|error| format!("cannot start {compiler:?}: {error}"))?;
    if done.success() { Ok(()) } else { Err(format!("the audit library could not be compiled: {compiler:?}")) }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
