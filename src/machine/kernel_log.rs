//! The kernel log of this boot.

use super::root::Root;

/// The command that prints the kernel log. Findings show it as the source of their evidence.
pub const KERNEL_LOG: &str = "journalctl -k -b";

/// The kernel log of this boot; `None` if the user has no permission to read it.
#[must_use]
pub fn kernel_log(root: &Root) -> Option<String> {
    let output = root.command(&["journalctl", "-k", "-b", "-o", "cat"])?;
    // Without permission, journalctl prints no kernel messages but `-- No entries --`, and some versions a hint.
    let is_message = |line: &str| !line.trim().is_empty() && !line.starts_with("-- ") && !line.starts_with("Hint: ");
    (output.exit_code == Some(0) && output.stdout.lines().any(is_message)).then_some(output.stdout)
}
