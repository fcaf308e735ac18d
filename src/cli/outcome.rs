//! Saying things on the way out: results, errors, exit statuses.

use std::io::{self, Write};

/// Fine.
pub(super) const FINE: u8 = 0;
/// The answer is bad.
pub(super) const BAD_ANSWER: u8 = 1;
/// The call or the input is wrong.
pub(super) const BAD_CALL: u8 = 2;
/// Nothing could be run.
pub(super) const NOTHING_RAN: u8 = 3;

/// Says a sentence on standard error and hands back the exit status.
pub(super) fn fail(status: u8, sentence: &str) -> u8 {
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(io::stderr(), "gds-top: {sentence}");
    status
}

/// Says a sentence on standard error.
pub(super) fn note(sentence: &str) {
    let _ = writeln!(io::stderr(), "gds-top: {sentence}");
}

/// Prints a result. A broken pipe is quiet and fine.
pub(super) fn print(text: &[u8]) -> u8 {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => FINE,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => FINE,
        Err(error) => fail(BAD_CALL, &format!("the result could not be written to standard output: {error}")),
    }
}

/// Prints a JSON value with a line end.
pub(super) fn print_json(value: &serde_json::Value) -> u8 {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(format!("{text}\n").as_bytes()),
        Err(error) => fail(BAD_CALL, &format!("the result could not be written as JSON: {error}")),
    }
}
