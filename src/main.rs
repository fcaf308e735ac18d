//! The program. Its code is in the library, so that tests and the program run the same code.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(text) = gds_top::device::take_variable(gds_top::trust::LEFT_OUT) {
        gds_top::trust::keep_left_out(text);
    }
    let environment = gds_top::trust::leave_out_foreign_paths(
        |line| eprintln!("gds-top: {}", gds_top::text::sanitise_line(line)),
        gds_top::device::signals::keep_ignored,
    );
    if let Err(error) = environment.and_then(|()| gds_top::trust::examine_named_libraries()) {
        eprintln!("gds-top: {}", gds_top::text::sanitise_line(&error));
        return ExitCode::from(2);
    }
    if let Some(reason) = gds_top::device::endings::refusal() {
        eprintln!("gds-top: {reason}");
        return ExitCode::from(3);
    }
    gds_top::device::endings::with_stack(gds_top::cli::main)
}
