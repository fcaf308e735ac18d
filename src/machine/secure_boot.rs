//! Detects whether Secure Boot is enabled in the firmware.

use super::root::Root;

/// The state of Secure Boot and its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureBoot {
    /// Whether Secure Boot is enabled, so that the kernel loads only signed modules.
    pub is_on: bool,
    /// The file or command that shows the state.
    pub source: &'static str,
    /// The text of the source.
    pub text: String,
}

/// The state of Secure Boot; `None` if it is unknown.
#[must_use]
pub fn secure_boot(root: &Root) -> Option<SecureBoot> {
    const VARIABLE: &str = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    let state = |is_on, source, text| Some(SecureBoot { is_on, source, text });
    // The value is after four bytes of attributes.
    if let Ok(bytes) = root.read_bytes(VARIABLE)
        && let Some(on) = bytes.get(4)
    {
        return state(*on == 1, VARIABLE, format!("{on}"));
    }
    // The parent directory is listed, because a capture contains only entries that exist.
    if root.entries("/sys/firmware").is_ok_and(|names| !names.iter().any(|name| name == "efi")) {
        return state(false, "/sys/firmware", "no entry 'efi', so the system was not started by EFI".to_owned());
    }
    let said = root.command(&["mokutil", "--sb-state"])?.stdout;
    let on = said.contains("SecureBoot enabled");
    if on || said.contains("SecureBoot disabled") {
        return state(on, "mokutil --sb-state", said.trim().to_owned());
    }
    None
}
