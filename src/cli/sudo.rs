//! Lets sudo authenticate the user before the screens apply a fix as root.

use rustix::termios::{self, OptionalActions, SpecialCodeIndex};
use std::io::{self, Write};
use std::process::Command;

/// Whether a fix of this machine needs sudo, because this process is not root. Fixes of a directory never do.
pub(super) fn is_needed(directory: bool) -> bool {
    #[cfg(debug_assertions)]
    if std::env::var_os("GDS_TOP_TEST_NOT_ROOT").is_some() {
        // Tests of sudo on the terminal use this as any user. Release builds do not contain it.
        return true;
    }
    !directory && !rustix::process::geteuid().is_root()
}

/// Lets sudo ask for the password on this terminal. The screens are closed during this time.
///
/// # Errors
/// A line with the reason why sudo rejected the user.
pub(super) fn authorize() -> Result<(), String> {
    let mut out = io::stdout();
    // If the terminal cannot be written to, sudo reports the error.
    let _ = writeln!(
        out,
        "gds-top: this fix needs root; sudo may ask for your password. ^C goes back without applying it."
    );
    let _ = out.flush();
    // ^Z at the prompt would stop both processes, and there is no shell to resume them.
    let before = termios::tcgetattr(io::stdin()).ok();
    if let Some(mut modes) = before.clone() {
        modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
    let asked = Command::new("sudo").arg("-v").status();
    if let Some(modes) = before {
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
    match asked {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("sudo rejected you; nothing was applied".to_owned()),
        Err(error) => Err(format!("sudo cannot be started ({error}); run gds-top as root to apply this fix")),
    }
}
