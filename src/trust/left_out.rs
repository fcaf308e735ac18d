//! The variables of the caller that root does not use. They are passed to the program that is started again, so that its
//! session has them.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

/// Contains the process id and the variables. The process that is started again has the same id, and its children have
/// others. A caller could make up the content, so it is only shown. It is removed from the environment at the start, so
/// that no child gets it.
pub const LEFT_OUT: &str = "GDS_TOP_LEFT_OUT";

/// Limits of the content: the kernel refuses variables of more than 128 KiB.
const MOST: usize = 32;
const LONGEST: usize = 300;

/// A variable of the caller that is not used, or only in part, because another user could have written a file that it
/// names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutVariable {
    /// Its name.
    pub name: String,
    /// Whether a part of its value is used.
    pub in_part: bool,
    /// The reason, as a part of a sentence.
    pub reason: String,
}

/// Passes the variables to the program that takes the place of this process.
pub(super) fn hand_over(command: &mut Command, variables: &[LeftOutVariable]) {
    let short = |text: &str| text.chars().take(LONGEST).collect();
    let kept: Vec<LeftOutVariable> = (variables.iter().take(MOST))
        .map(|of| LeftOutVariable { name: short(&of.name), in_part: of.in_part, reason: short(&of.reason) })
        .collect();
    if let Ok(text) = serde_json::to_string(&(std::process::id(), kept)) {
        command.env(LEFT_OUT, text);
    }
}

/// The content of [`LEFT_OUT`] at the start of this process.
static TAKEN: OnceLock<String> = OnceLock::new();

/// Keeps the content of [`LEFT_OUT`], which was taken out of the environment.
pub fn keep_left_out(text: OsString) {
    if let Ok(text) = text.into_string() {
        let _ = TAKEN.set(text);
    }
}

/// The variables that were left out when this process was started.
#[must_use]
pub fn left_out_variables() -> Vec<LeftOutVariable> {
    let text = TAKEN.get().filter(|_| rustix::process::geteuid().is_root());
    text.map_or_else(Vec::new, |text| of_process(text, std::process::id()))
}

fn of_process(text: &str, process: u32) -> Vec<LeftOutVariable> {
    match serde_json::from_str::<(u32, Vec<LeftOutVariable>)>(text) {
        Ok((of, mut variables)) if of == process => {
            // A caller could have made up the list.
            variables.truncate(MOST);
            for text in variables.iter_mut().flat_map(|of| [&mut of.name, &mut of.reason]) {
                *text = text.chars().take(LONGEST).collect();
            }
            variables
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_is_started_again_takes_the_variables() {
        let one =
            |length: usize| LeftOutVariable { name: "A".repeat(length), in_part: true, reason: "b".repeat(length) };
        let mut command = Command::new("true");
        hand_over(&mut command, &vec![one(100_000); 100]);
        let text = command.get_envs().find_map(|(_, value)| value?.to_str()).unwrap_or_default();
        assert!(text.len() < 64 << 10, "{}", text.len());
        assert_eq!(of_process(text, std::process::id()), vec![one(LONGEST); MOST]);
        assert_eq!(of_process(text, std::process::id() + 1), []);
        assert_eq!(of_process("nonsense", 1), []);
    }
}
