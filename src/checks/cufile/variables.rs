//! How to unset a variable of the environment for good, in the file that sets it.

use crate::checks::advice::Advice;
use crate::machine::{self, Root, VariableLine};

/// The command that finds the file with the value of LD_LIBRARY_PATH.
pub(super) const SETTERS: &str =
    "grep -rsl LD_LIBRARY_PATH ~/.bashrc ~/.profile ~/.bash_profile /etc/environment /etc/profile.d";

/// The pattern of sed for a line that sets nothing else. `None` if the line sets or does more.
fn pattern(found: &VariableLine, name: &str) -> Option<String> {
    let words = found.line.strip_prefix("export ").unwrap_or(&found.line);
    let value = words.strip_prefix(name)?;
    let is_alone = !value.contains([';', '&', '|', '`', '$', '\\']) && !value.trim_matches(['"', '\'']).contains(' ');
    let start = if words.len() < found.line.len() { "export " } else { "" };
    (is_alone && value.starts_with('=')).then(|| format!("/^{start}{name}=/d"))
}

/// How to unset a variable. It ends with a full stop.
pub(crate) fn unset(root: &Root, name: &str) -> Advice {
    let here = Advice::run(format!("unset {name}")).text(" in the shell that starts the program");
    let Some(found) = machine::variable_line(root, name) else { return here.text(".") };
    let place = format!("{}, line {}", found.file, found.number);
    if let Some(unit) = &found.unit {
        return Advice::run(format!("sudo systemctl edit {unit}"))
            .text(format!(", and add UnsetEnvironment={name} below [Service]: {place} sets it. Then run "))
            .command(format!("sudo systemctl restart {unit}"))
            .text(".");
    }
    let removed = match pattern(&found, name) {
        Some(pattern) => Advice::run(format!("sudo sed -i '{pattern}' {}", crate::text::quoted(&found.file)))
            .text(format!(", which removes it from {place}. Then run ")),
        None => Advice::from(format!("Remove it from {place}. Then run ")),
    };
    removed.command(format!("unset {name}")).text(" in each open shell, and start the programs again that have it.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_sets_one_variable_is_removed() {
        let of = |line: &str| {
            let found = VariableLine { file: String::new(), number: 1, line: line.to_owned(), unit: None };
            pattern(&found, "CUFILE_NVTX")
        };
        assert_eq!(of("CUFILE_NVTX=1").as_deref(), Some("/^CUFILE_NVTX=/d"));
        assert_eq!(of("export CUFILE_NVTX=\"1\"").as_deref(), Some("/^export CUFILE_NVTX=/d"));
        for line in ["export CUFILE_NVTX=1; A=2", "CUFILE_NVTX DEFAULT=1", "CUFILE_NVTX=1 PROGRAM"] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
