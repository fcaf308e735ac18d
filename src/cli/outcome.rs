//! Prints results and errors, and returns the exit status.

use super::streams;
use crate::session::live::SessionError;
use crate::text::{fitted, pretty_json, sanitise, sanitise_coloured};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) use super::exit::{BAD_ANSWER, BAD_CALL, COULD_NOT_RUN, FINE, INTERRUPTED};

/// The result of a command: an exit status, or a sentence about wrong usage or input (status 2).
pub(super) type Ran = Result<u8, String>;

/// Whether screens can be shown: standard input and output are terminals.
pub(super) fn has_terminal() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Prints a sentence on standard error and returns the exit status.
pub(super) fn fail(status: u8, sentence: &str) -> u8 {
    // If standard error is closed, there is no other place for the message.
    note(sentence);
    status
}

/// The end of a command whose session could not start. A valid request that this machine cannot run is not wrong usage.
pub(super) fn not_started(error: &SessionError) -> Ran {
    let sentence = error.to_string();
    if error.is_of_the_machine() { Ok(fail(COULD_NOT_RUN, &sentence)) } else { Err(sentence) }
}

/// Prints a sentence on standard error.
pub(super) fn note(sentence: &str) {
    let text = format!("gds-top: {}\n", sanitise(sentence));
    let _ = streams::err().write_all(fitted(&text, streams::error_edge()).as_bytes());
}

/// Prints a result for a reader. It can contain text of files and other programs, which is sanitised. A broken pipe is
/// not an error.
pub(super) fn print(text: &[u8]) -> u8 {
    write_out(text, streams::out())
}

/// Like [`print`], for JSON, HTML and other files, which are always UTF-8.
pub(super) fn print_file(text: &[u8]) -> u8 {
    write_out(text, io::stdout())
}

/// Prints a result with colours. With colours, the caller must sanitise text of other programs. Without colours, all
/// text is sanitised here.
pub(super) fn print_coloured(text: &str, colour: bool) -> u8 {
    if colour { write_all(sanitise_coloured(text).as_bytes(), streams::out()) } else { print(text.as_bytes()) }
}

/// Like [`print_coloured`], for text that was not made for a width: a terminal gets lines that fit.
pub(super) fn print_fitted(text: &str, colour: bool) -> u8 {
    print_coloured(&fitted(text, streams::edge()), colour)
}

fn write_out(text: &[u8], out: impl Write) -> u8 {
    match std::str::from_utf8(text).map(sanitise) {
        Ok(text) => write_all(text.as_bytes(), out),
        Err(_) => write_all(text, out),
    }
}

fn write_all(bytes: &[u8], mut out: impl Write) -> u8 {
    written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Whether the reader of standard output has closed the pipe.
static READER_LEFT: AtomicBool = AtomicBool::new(false);

/// Whether the reader of standard output has closed the pipe. A command that prints without end then ends.
pub(super) fn reader_left() -> bool {
    READER_LEFT.load(Ordering::Relaxed)
}

/// The exit status after writing to standard output. A closed pipe is not an error.
pub(super) fn written(result: io::Result<()>) -> u8 {
    match result {
        Ok(()) => FINE,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            READER_LEFT.store(true, Ordering::Relaxed);
            FINE
        }
        Err(error) => fail(BAD_CALL, &format!("the result could not be written to standard output: {error}")),
    }
}

/// The version of the JSON forms of `print_json`, unless the value has its own version.
const SCHEMA_VERSION: u32 = 1;

/// Prints a JSON object and a line break. It gets a `schema_version` if it has none.
pub(super) fn print_json(value: &serde_json::Value) -> u8 {
    let mut value = value.clone();
    if let Some(members) = value.as_object_mut() {
        members.entry("schema_version").or_insert_with(|| SCHEMA_VERSION.into());
    }
    match pretty_json(&value) {
        Ok(text) => print_file(format!("{text}\n").as_bytes()),
        Err(error) => fail(BAD_CALL, &format!("the result could not be written as JSON: {error}")),
    }
}
