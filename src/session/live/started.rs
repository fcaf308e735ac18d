//! The first event of a session: the program, the time, the command line.

use crate::core::{EventBody, LeftOutVariable};
use crate::machine;
use crate::text::quoted_line;
use crate::trust::{LeftOutVariable as Variable, left_out_variables};
use std::time::{SystemTime, UNIX_EPOCH};

/// The first event of this process's session.
#[must_use]
pub fn started() -> EventBody {
    EventBody::SessionStarted {
        tool: concat!("gds-top ", env!("CARGO_PKG_VERSION")).to_owned(),
        unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
        command: command(std::env::args_os().map(|word| word.to_string_lossy().into_owned())),
        directory: std::env::current_dir().map_or_else(|_| String::new(), |path| path.display().to_string()),
        left_out_variables: left_out_variables().into_iter().map(left_out).collect(),
    }
}

fn left_out(variable: Variable) -> LeftOutVariable {
    let Variable { name, in_part, reason } = variable;
    LeftOutVariable { name, in_part, reason }
}

/// The command line as a user would type it. Secrets are removed, because the command line of a loader may contain a
/// token.
fn command(words: impl Iterator<Item = String>) -> String {
    // The path of the program may contain a user name, so it is replaced.
    let words: Vec<String> = std::iter::once("gds-top".to_owned()).chain(words.skip(1)).collect();
    machine::without_secrets(&quoted_line(&words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_no_secret_and_no_path_of_the_program() {
        let words = ["/home/anna/bin/gds-top", "bench", "my model", "--cache", "cold", "--token=hf_abcdefgh12345678"];
        let command = command(words.into_iter().map(str::to_owned));
        assert!(command.starts_with("gds-top bench 'my model' --cache cold"), "{command}");
        assert!(!command.contains("hf_abcdefgh") && !command.contains("anna"), "{command}");
    }
}
