//! The program. Its code is in the library, so that tests and the program run the same code.

use std::process::ExitCode;

fn main() -> ExitCode {
    gds_top::device::endings::with_stack(gds_top::cli::main)
}
