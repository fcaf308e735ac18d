//! The kernel log of this boot.

use super::root::Root;

/// The command whose output it is, for evidence.
pub const KERNEL_LOG: &str = "journalctl -k -b";

/// The kernel log; `None` if this user may not read it.
#[must_use]
pub fn kernel_log(root: &Root) -> Option<String> {
    let output = root.command(&["journalctl", "-k", "-b", "-o", "cat"])?;
    // Without permission journalctl prints a line of help and no messages.
    (output.exit_code == Some(0) && output.stdout.lines().count() > 1).then_some(output.stdout)
}
