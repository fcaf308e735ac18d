//! Starts the program for tests, without the settings, models and variables of the user who runs the tests.
#![allow(dead_code, reason = "each test program uses a part")]

use std::process::Command;

/// The path of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_gds-top");

/// A home directory that does not exist and that even root cannot create.
const HOME: &str = "/proc/no-home";

/// The variables of this process that the program must not inherit.
pub(crate) fn foreign_variables() -> impl Iterator<Item = std::ffi::OsString> {
    const PREFIXES: [&str; 7] = ["CLICOLOR", "CUDA_", "CUFILE_", "GDS_TOP_", "LC_", "NVIDIA_", "XDG_"];
    const NAMES: [&str; 12] = [
        "COLORTERM",
        "COLUMNS",
        "HF_HOME",
        "HF_HUB_CACHE",
        "LD_PRELOAD",
        "LINES",
        "LOGNAME",
        "NO_COLOR",
        "PYTHONPATH",
        "SUDO_USER",
        "TZ",
        "USER",
    ];
    std::env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name.as_ref())
    })
}

/// The variables that the program gets instead.
pub(crate) const VARIABLES: [(&str, &str); 3] = [("HOME", HOME), ("LANG", "C.UTF-8"), ("TERM", "xterm-256color")];

/// A command for the program, to which a test adds arguments and variables.
pub(crate) fn gds_top() -> Command {
    started_by(PROGRAM)
}

/// A command that starts the program, with the same variables.
pub(crate) fn started_by(name: &str) -> Command {
    let mut command = Command::new(name);
    for name in foreign_variables() {
        command.env_remove(name);
    }
    command.envs(VARIABLES);
    command
}
