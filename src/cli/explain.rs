//! The command `explain` for a code, a key, an id or the lines of a log.

use super::args::OutputArgs;
use super::outcome::{BAD_CALL, Ran, fail, note, print_coloured, print_json};
use super::terminal::{columns, headless_options};
use crate::explain::{self, Answer};
use serde_json::{Value, json};
use std::io::Read as _;

/// The maximum length of a query in characters. A line of a log has some hundred.
const LONGEST_QUERY: usize = 4_000;
/// The maximum size in bytes of a log on standard input.
const MAX_BYTES: u64 = 16 << 20;

/// Prints the explanation of a query. `-` reads a log from standard input.
pub(super) fn run(words: &[String], output: &OutputArgs) -> Ran {
    let query: String = words.join(" ").chars().take(LONGEST_QUERY).collect();
    let found = if query.trim() == "-" {
        let answers = explain::explain_log(&log()?);
        if answers.is_empty() { Err(("gds-top knows no line of this log".to_owned(), Vec::new())) } else { Ok(answers) }
    } else {
        explain::explain(&query).map_err(|unknown| (unknown.to_string(), unknown.nearest))
    };
    match found {
        Ok(answers) => Ok(show(&query, &answers, output)),
        Err((sentence, nearest)) => {
            if output.json {
                print_json(&object(&query, &[], &nearest));
            }
            Ok(fail(BAD_CALL, &sentence))
        }
    }
}

fn show(query: &str, answers: &[Answer], output: &OutputArgs) -> u8 {
    if output.json {
        return print_json(&object(query, answers, &[]));
    }
    let colour = headless_options(output, None).colour;
    print_coloured(&explain::text(answers, usize::from(columns()), colour), colour)
}

fn object(query: &str, answers: &[Answer], nearest: &[String]) -> Value {
    json!({ "query": query, "answers": answers, "nearest": nearest })
}

fn log() -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot read the log from standard input: {error}"))?;
    if bytes.len() as u64 == MAX_BYTES {
        note("only the first 16 MiB of the log are explained");
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
