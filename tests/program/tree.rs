//! A machine's files in a directory, for tests of fixes.

use std::fs;
use std::path::{Path, PathBuf};

/// A tree with a file that a fix edits.
pub(crate) fn tree(folder: &Path) -> PathBuf {
    let top = folder.join("root");
    for name in ["etc/modprobe.d", "proc/sys/kernel/random"] {
        fs::create_dir_all(top.join(name)).unwrap();
    }
    fs::write(top.join("etc/os-release"), "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n").unwrap();
    fs::write(top.join("proc/sys/kernel/random/boot_id"), "first\n").unwrap();
    fs::write(top.join("etc/modprobe.d/nvidia-p2pdma.conf"), "options nvidia NVreg_OpenRmEnableUnsupportedGpus=1\n")
        .unwrap();
    top
}
