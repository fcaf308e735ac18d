//! Detects whether Secure Boot is enabled in the firmware, and how a kernel module is signed.

use super::driver::module_info;
use super::kernel_log::{Source, kernel_log};
use super::packages::{Family, family};
use super::root::Root;
use super::summary::os_release;

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
    let asked = || {
        let said = root.command(&["mokutil", "--sb-state"])?.stdout;
        let on = said.contains("SecureBoot enabled");
        (on || said.contains("SecureBoot disabled")).then(|| (on, "mokutil --sb-state", said.trim().to_owned()))
    };
    // A capture can have the output of the command and lack the directory.
    if let Some((on, source, text)) = (!root.is_live()).then(asked).flatten() {
        return state(on, source, text);
    }
    // The parent directory is listed, because a capture contains only entries that exist.
    if root.entries("/sys/firmware").is_ok_and(|names| !names.iter().any(|name| name == "efi")) {
        return state(false, "/sys/firmware", "no entry 'efi', so the system was not started by EFI".to_owned());
    }
    asked().and_then(|(on, source, text)| state(on, source, text))
}

/// Why the kernel loads only signed modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforcer {
    /// Secure Boot, or an unknown reason. The kernel accepts the keys that the firmware or shim has.
    SecureBoot,
    /// Kernel lockdown without Secure Boot, and the source that the kernel log names.
    Lockdown(String),
    /// `module.sig_enforce` on the kernel command line, without Secure Boot.
    Argument,
}

/// Why the kernel loads only signed modules. Lockdown names its source in the kernel log: "EFI Secure Boot mode",
/// "command line", "Kernel configuration" or "securityfs" (security/lockdown/lockdown.c).
#[must_use]
pub fn enforcer(root: &Root) -> Enforcer {
    const LOCKED: &str = "Kernel is locked down from ";
    let log = kernel_log(root).unwrap_or_default();
    let source = log.of(Source::Lockdown).find_map(|message| message.text.strip_prefix(LOCKED)?.split(';').next());
    let line = root.read_text("/proc/cmdline").unwrap_or_default();
    let has = |name: &str| line.split_whitespace().any(|word| word.split('=').next() == Some(name));
    let is_off = secure_boot(root).is_some_and(|state| !state.is_on);
    match source {
        Some(source) if source.contains("Secure Boot") => Enforcer::SecureBoot,
        Some(source) => Enforcer::Lockdown(source.trim().to_owned()),
        None if is_off && has("lockdown") => Enforcer::Lockdown("command line".to_owned()),
        None if is_off && has("module.sig_enforce") => Enforcer::Argument,
        None => Enforcer::SecureBoot,
    }
}

/// The signature of an installed kernel module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signature {
    /// The module is not signed.
    None,
    /// DKMS signed it with the key of this machine.
    Dkms,
    /// akmods of Fedora and its relatives signed it with the key of this machine.
    Akmods,
    /// This signer signed it.
    Other(String),
}

/// The signature of a module; `None` if the module is not installed or its fields are not known.
#[must_use]
pub fn signature(root: &Root, module: &str) -> Option<Signature> {
    // The names of the keys of DKMS and of Ubuntu's update-secureboot-policy.
    let is_dkms = |signer: &str| {
        ["DKMS module signing key", "Secure Boot Module Signature key"].iter().any(|key| signer.contains(key))
    };
    // The kernel writes this line only about a module with a signature.
    let is_signed = || {
        kernel_log(root).is_some_and(|log| log.of(Source::Signature).any(|message| message.has(&["unavailable key"])))
    };
    Some(match module_info(root, module)?.signer {
        None if is_signed() && is_of_akmods(root, module) => Signature::Akmods,
        None if is_signed() => Signature::Dkms,
        None => Signature::None,
        Some(signer) if is_dkms(&signer) => Signature::Dkms,
        Some(signer) if is_key_of_akmods(&signer) => Signature::Akmods,
        Some(signer) => Signature::Other(signer),
    })
}

/// Whether DKMS treats the system as Ubuntu (`distro_version` in dkms), because of its id or the first id in ID_LIKE.
#[must_use]
pub fn signs_as_ubuntu(root: &Root) -> bool {
    family(root) == Family::Debian
        && match os_release(root, "ID").as_deref() {
            None | Some("ubuntu") => true,
            Some(_) => os_release(root, "ID_LIKE").is_some_and(|like| like.starts_with("ubuntu")),
        }
}

/// The certificate with which DKMS signs modules, on Ubuntu and on other systems (`prepare_mok` in dkms 3.0.10 and
/// 3.2.2).
#[must_use]
pub fn dkms_certificate(root: &Root) -> &'static str {
    if signs_as_ubuntu(root) { "/var/lib/shim-signed/mok/MOK.der" } else { "/var/lib/dkms/mok.pub" }
}

/// The certificate with which akmods signs modules; a link to the key that `kmodgenca` created.
pub const AKMODS_CERTIFICATE: &str = "/etc/pki/akmods/certs/public_key.der";

/// Whether a signer is a key of `kmodgenca`. It names its keys `HOST_SECONDS_RANDOM`.
fn is_key_of_akmods(signer: &str) -> bool {
    let mut parts = signer.rsplit('_');
    let is_of =
        |part: Option<&str>, is: fn(char) -> bool| part.is_some_and(|part| part.len() >= 8 && part.chars().all(is));
    is_of(parts.next(), |c| c.is_ascii_hexdigit())
        && is_of(parts.next(), |c| c.is_ascii_digit())
        && parts.next().is_some()
}

/// Whether akmods builds a module of this machine. DKMS and akmods both install modules in `extra`.
#[must_use]
pub fn is_of_akmods(root: &Root, module: &str) -> bool {
    let has_akmods = || ["/etc/pki/akmods", "/usr/sbin/akmods", "/usr/bin/akmods"].iter().any(|path| root.exists(path));
    let file = module_info(root, module).and_then(|info| info.file).unwrap_or_default();
    file.contains("/extra/")
        && !file.contains("/drivers/video/")
        && has_akmods()
        && !super::dkms::dkms_rows(root).iter().any(super::dkms::DkmsRow::is_driver)
}
