//! Removes variables from the environment of this process, so that no child gets them.

use std::ffi::OsString;

/// Takes a variable out of the environment. It stays there if this process has more than one thread, because another
/// thread may read the environment.
#[must_use]
pub fn take_variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1) {
        // SAFETY: no other thread of this process can read or change the environment at the same time.
        unsafe { std::env::remove_var(name) };
    }
    Some(value)
}
