//! Whether the firmware runs Secure Boot.

use super::root::Root;

/// The state of Secure Boot, and the source that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureBoot {
    /// Whether only signed modules are loaded.
    pub is_on: bool,
    /// The file or command.
    pub source: &'static str,
    /// Its text.
    pub text: String,
}

/// The state of Secure Boot; `None` if nothing shows it.
#[must_use]
pub fn secure_boot(root: &Root) -> Option<SecureBoot> {
    const VARIABLE: &str = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    let state = |is_on, source, text| Some(SecureBoot { is_on, source, text });
    // The value follows four bytes of attributes.
    if let Ok(bytes) = root.read_bytes(VARIABLE)
        && let Some(on) = bytes.get(4)
    {
        return state(*on == 1, VARIABLE, format!("{on}"));
    }
    // The directory is listed, because a capture contains only existing entries.
    if root.entries("/sys/firmware").is_ok_and(|names| !names.iter().any(|name| name == "efi")) {
        return state(false, "/sys/firmware", "no efi in it: not started by EFI".to_owned());
    }
    let said = root.command(&["mokutil", "--sb-state"])?.stdout;
    let on = said.contains("SecureBoot enabled");
    if on || said.contains("SecureBoot disabled") {
        return state(on, "mokutil --sb-state", said.trim().to_owned());
    }
    None
}
