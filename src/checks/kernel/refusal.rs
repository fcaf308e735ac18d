//! Why the kernel refused to load nvidia-fs, by its log.

use crate::checks::context::Context;
use crate::machine;

/// Why the module did not load, as the kernel put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its symbols come from proprietary modules.
    Proprietary,
    /// It was built without symbol versions.
    NoVersions,
    /// It was built against another driver.
    OtherDriver,
    /// Its key is not enrolled.
    Key,
    /// Nvidia was not loaded before it.
    TooEarly,
    /// Nvidia was loaded, and has not the symbol.
    LacksSymbol,
    /// It was built for another kernel.
    OtherKernel,
}

/// Signatures in the order of their strength: a later one may be the consequence of an earlier.
const REFUSALS: &[(Refusal, &[&str])] = &[
    // Kernels before 6.2, and those of RHEL 9, name no symbol in that line.
    (Refusal::Proprietary, &["nvidia_fs", "from proprietary module"]),
    (Refusal::NoVersions, &["no symbol version for nvidia_p2p_"]),
    (Refusal::OtherDriver, &["disagrees about version of symbol nvidia_p2p_"]),
    (Refusal::Key, &["module with unavailable key is rejected"]),
    (Refusal::Key, &["key was rejected by service"]),
    (Refusal::OtherKernel, &["nvidia_fs", "version magic"]),
    (Refusal::OtherKernel, &["nvidia-fs", "exec format error"]),
    (Refusal::TooEarly, &["unknown symbol nvidia_p2p_"]),
];

/// The last line of the log with all of these parts, letters of either case.
pub(crate) fn last<'a>(log: &'a str, parts: &[&str]) -> Option<&'a str> {
    log.lines().rev().find(|line| {
        let line = line.to_ascii_lowercase();
        parts.iter().all(|part| line.contains(part))
    })
}

/// Why the kernel refused nvidia-fs, with the line; `None` if it is loaded.
pub(crate) fn refusal(ctx: &Context<'_>) -> Option<(Refusal, String)> {
    if machine::nvidia_fs_loaded(ctx.root) == Some(true) || !machine::nvidia_fs_known(ctx.root) {
        return None;
    }
    let log = machine::kernel_log(ctx.root)?;
    // A line about a key does not name its module. As long as the driver is not loaded either, it is about the driver.
    let is_driver = !machine::Driver::of(ctx.root).is_loaded();
    let signs = REFUSALS.iter().filter(|(kind, _)| !(is_driver && *kind == Refusal::Key));
    let (kind, line) =
        signs.into_iter().find_map(|(kind, parts)| Some((*kind, last(&log, parts)?.trim().to_owned())))?;
    let kind = if kind == Refusal::TooEarly && lacks_symbol(ctx, &log, &line) { Refusal::LacksSymbol } else { kind };
    Some((kind, line))
}

/// Whether the driver that is loaded has not the symbol that the line misses; else it was not there yet.
fn lacks_symbol(ctx: &Context<'_>, log: &str, line: &str) -> bool {
    /// The oldest driver that GPUDirect Storage names (README of nvidia-fs).
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
    // Which came first in the log: the driver, or the module that missed it.
    let at = |part: &str| log.lines().position(|line| line.to_ascii_lowercase().contains(part));
    match (at("nvrm: loading nvidia unix"), log.lines().position(|l| l.trim() == line)) {
        (Some(driver), Some(refused)) => driver < refused,
        _ => {
            driver.version.as_deref().and_then(|v| v.split('.').next()?.parse::<u32>().ok()).is_some_and(|v| v < OLDEST)
        }
    }
}

/// The symbol that a line of the kernel log misses: `nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)`.
pub(crate) fn symbol(line: &str) -> Option<&str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).find(|word| word.starts_with("nvidia_p2p_"))
}
