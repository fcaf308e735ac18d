//! Making sudo know the user before a fix for root is applied from the screens.

use rustix::termios::{self, OptionalActions, SpecialCodeIndex};
use std::io::{self, Write};
use std::process::Command;

/// Whether a fix for root needs sudo: this process is not root.
pub(super) fn is_needed() -> bool {
    #[cfg(debug_assertions)]
    if std::env::var_os("GDS_TOP_TEST_NOT_ROOT").is_some() {
        // For the test that the terminal is lent to sudo, for any user; not in a release.
        return true;
    }
    !rustix::process::geteuid().is_root()
}

/// Lets sudo ask for the password on this terminal, which is given back to ordinary use meanwhile.
///
/// # Errors
/// A line that says why the user is not known to sudo now.
pub(super) fn authorize() -> Result<(), String> {
    let mut out = io::stdout();
    // If the terminal cannot be written to, sudo reports it.
    let _ = writeln!(
        out,
        "gds-top: this fix needs root; sudo may ask for your password. ^C goes back without applying it."
    );
    let _ = out.flush();
    // ^Z at the prompt would leave both waiting for one another: there is no shell in between.
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
        Ok(_) => Err("sudo did not accept you; nothing was applied".to_owned()),
        Err(error) => Err(format!("sudo cannot be started ({error}); run gds-top as root to apply this fix")),
    }
}
