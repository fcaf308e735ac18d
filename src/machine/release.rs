//! Parses versions and detects the kind of kernel.

use super::root::Root;
use super::summary::kernel_release;

/// The numbers of a dotted version. Text after the digits of a part is ignored.
#[must_use]
pub fn version_numbers(text: &str) -> Vec<u32> {
    text.trim()
        .split('.')
        .map_while(|part| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        })
        .collect()
}

/// Version of the running kernel as (major, minor).
#[must_use]
pub fn kernel_version(root: &Root) -> Option<(u32, u32)> {
    let release = kernel_release(root)?;
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().ok());
    Some((parts.next()??, parts.next()??))
}

/// Whether the machine has an Arm processor.
#[must_use]
pub fn is_aarch64(root: &Root) -> bool {
    let arch = root.read_text("/proc/sys/kernel/arch").unwrap_or_default();
    if !arch.trim().is_empty() {
        return arch.trim() == "aarch64";
    }
    let cpus = root.read_text("/proc/cpuinfo").unwrap_or_default();
    cpus.lines().any(|line| line.starts_with("CPU implementer"))
}

/// Evidence for the Windows Subsystem for Linux: a file and its text. It is the name of the kernel, or a file of
/// Windows if the kernel is a custom one. The builder of the kernel is not evidence, because Microsoft also builds
/// the kernel of Azure Linux.
#[must_use]
pub fn wsl(root: &Root) -> Option<(&'static str, String)> {
    if let Some(release) = kernel_release(root).filter(|release| release.contains("icrosoft")) {
        return Some(("/proc/sys/kernel/osrelease", release));
    }
    let mark = ["/proc/sys/fs/binfmt_misc/WSLInterop", "/run/WSL"].into_iter().find(|mark| root.exists(mark))?;
    Some((mark, "exists".to_owned()))
}
