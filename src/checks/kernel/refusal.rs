//! Finds in the kernel log why nvidia-fs was not loaded.

use crate::checks::context::Context;
use crate::machine::{self, KernelLog, Message, Source};

/// Why the kernel did not load nvidia-fs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It needs symbols of proprietary modules.
    Proprietary,
    /// It was built without the symbol versions of the driver.
    NoVersions,
    /// It was built for another driver version.
    OtherDriver,
    /// It is not signed, or the key of its signature is not enrolled.
    Key,
    /// It was loaded before the NVIDIA driver.
    TooEarly,
    /// The loaded NVIDIA driver does not export a symbol that it needs.
    LacksSymbol,
    /// It was built for another kernel.
    OtherKernel,
}

/// Parts of messages about nvidia-fs. Causes are before their consequences. Messages about signatures have a separate
/// source.
const REFUSALS: &[(Refusal, &[&str])] = &[
    // Kernels before 6.2 and those of RHEL 9 do not name the symbol in this line.
    (Refusal::Proprietary, &["nvidia_fs", "from proprietary module"]),
    (Refusal::NoVersions, &["no symbol version for nvidia_p2p_"]),
    (Refusal::OtherDriver, &["disagrees about version of symbol nvidia_p2p_"]),
    (Refusal::Key, &[]),
    (Refusal::OtherKernel, &["nvidia_fs", "version magic"]),
    (Refusal::OtherKernel, &["nvidia-fs", "exec format error"]),
    (Refusal::TooEarly, &["unknown symbol nvidia_p2p_"]),
];

/// The last message about nvidia-fs that has all parts, which are in lower case.
pub(crate) fn last<'a>(log: &'a KernelLog, parts: &[&str]) -> Option<&'a Message> {
    log.of(Source::NvidiaFs).rev().find(|message| message.has(parts))
}

/// Why nvidia-fs was not loaded, and the log line. `None` if it is loaded.
pub(crate) fn refusal(ctx: &Context<'_>) -> Option<(Refusal, String)> {
    if machine::nvidia_fs_loaded(ctx.root) == Some(true) || !machine::nvidia_fs_known(ctx.root) {
        return None;
    }
    let log = machine::kernel_log(ctx.root)?;
    // A line about a signing key has no module name. If the NVIDIA driver is not loaded either, the line is about
    // that driver.
    let is_driver = !machine::Driver::of(ctx.root).is_loaded();
    let signs = REFUSALS.iter().filter(|(kind, _)| !(is_driver && *kind == Refusal::Key));
    let find = |kind: Refusal, parts: &[&str]| match kind {
        Refusal::Key => log.of(Source::Signature).next_back(),
        _ => last(&log, parts),
    };
    let (kind, line) = signs.into_iter().find_map(|(kind, parts)| Some((*kind, find(*kind, parts)?.line.clone())))?;
    let kind = if kind == Refusal::TooEarly && lacks_symbol(ctx, &log, &line) { Refusal::LacksSymbol } else { kind };
    Some((kind, line))
}

/// Whether the loaded driver does not export the symbol in the line. Otherwise the driver was loaded too late.
fn lacks_symbol(ctx: &Context<'_>, log: &KernelLog, line: &str) -> bool {
    /// The oldest driver that supports GPUDirect Storage (README of nvidia-fs).
    const OLDEST: u32 = 418;
    let driver = machine::Driver::of(ctx.root);
    if !driver.is_loaded() {
        return false;
    }
    let missing = symbol(line).unwrap_or_default();
    if let Ok(symbols) = ctx.root.symbols() {
        if symbols.contains(missing) {
            return false;
        }
        if symbols.iter().any(|name| name.starts_with("nvidia_p2p_")) {
            return machine::SYMBOLS.contains(&missing);
        }
    }
    // The log shows whether the driver was loaded before the module failed.
    let at = |is: &dyn Fn(&Message) -> bool| log.messages().position(is);
    match (at(&|message| message.has(&["nvrm: loading nvidia unix"])), at(&|message| message.line == line)) {
        (Some(driver), Some(refused)) => driver < refused,
        _ => {
            driver.version.as_deref().and_then(|v| v.split('.').next()?.parse::<u32>().ok()).is_some_and(|v| v < OLDEST)
        }
    }
}

/// The missing symbol in a line of the kernel log such as `nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)`.
pub(crate) fn symbol(line: &str) -> Option<&str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).find(|word| word.starts_with("nvidia_p2p_"))
}
