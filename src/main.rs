//! The program. Its code is in the library, so that tests and the program run the same code.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(error) = gds_top::trust::leave_out_foreign_folders() {
        eprintln!("gds-top: {error}");
        return ExitCode::from(2);
    }
    if let Some(reason) = gds_top::device::endings::refusal() {
        eprintln!("gds-top: {reason}");
        return ExitCode::from(3);
    }
    gds_top::device::endings::with_stack(gds_top::cli::main)
}
