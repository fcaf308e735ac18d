//! The kernel log of this boot.

use super::command::KERNEL_MESSAGES;
use super::root::Root;

/// The command that prints the kernel log. Findings show it as the source of their evidence.
pub const KERNEL_LOG: &str = "journalctl -k -b";

/// Whether the kernel names a program in the line, as its user chose it. In audit messages such names are encoded.
fn is_of_program(line: &str) -> bool {
    const STARTS: [&str; 3] = ["traps: ", "oom-kill:", "process '"];
    line.contains(": segfault at ")
        || line.contains("Killed process ")
        || STARTS.iter().any(|start| line.starts_with(start))
}

/// The kernel log of this boot without lines that name programs; `None` if the user has no permission to read it.
#[must_use]
pub fn kernel_log(root: &Root) -> Option<String> {
    let output = root.command(&KERNEL_MESSAGES)?;
    // Without permission, journalctl prints no kernel messages but `-- No entries --`, and some versions a hint.
    let is_message = |line: &str| !line.trim().is_empty() && !line.starts_with("-- ") && !line.starts_with("Hint: ");
    let lines = || output.stdout.lines().filter(|line| !is_of_program(line));
    (output.exit_code == Some(0) && output.stdout.lines().any(is_message))
        .then(|| lines().map(|line| format!("{line}\n")).collect())
}
