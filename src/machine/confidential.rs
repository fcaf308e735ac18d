//! Detects confidential virtual machines: AMD SEV and Intel TDX.

use super::kernel_log::{KERNEL_LOG, Source, kernel_log};
use super::root::Root;

/// Evidence for a virtual machine with encrypted memory: the source and its text.
#[must_use]
pub fn confidential_guest(root: &Root) -> Option<(String, String)> {
    let marks = ["/dev/sev-guest", "/dev/tdx_guest", "/dev/tdx-guest", "/sys/devices/platform/sev-guest"];
    if let Some(mark) = marks.into_iter().find(|mark| root.exists(mark)) {
        return Some((mark.to_owned(), "exists".to_owned()));
    }
    let cpus = root.read_text("/proc/cpuinfo").unwrap_or_default();
    if cpus.lines().any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "tdx_guest")) {
        return Some(("/proc/cpuinfo".to_owned(), "tdx_guest".to_owned()));
    }
    let log = kernel_log(root)?;
    let message = log.of(Source::Confidential).next()?;
    Some((KERNEL_LOG.to_owned(), message.line.clone()))
}
