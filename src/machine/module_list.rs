//! The modules of a kernel that modprobe finds.

use super::root::Root;
use super::summary::kernel_release;

/// Whether modprobe finds a module for the running kernel. `None` if its list of modules cannot be read.
#[must_use]
pub fn has_module(root: &Root, name: &str) -> Option<bool> {
    lists_module(root, &kernel_release(root)?, name)
}

/// Whether the list of modules of a kernel has a module. `None` if it cannot be read.
pub(super) fn lists_module(root: &Root, release: &str, name: &str) -> Option<bool> {
    let folder = format!("/lib/modules/{release}");
    let listed = root.read_text(format!("{folder}/modules.dep")).ok()?;
    let built_in = root.read_text(format!("{folder}/modules.builtin")).unwrap_or_default();
    // A line is `kernel/drivers/infiniband/core/ib_umad.ko.zst: …`. File names can have a dash instead of an underscore.
    let is_named = |line: &str| {
        let file = line.split(':').next().and_then(|path| path.rsplit('/').next());
        file.and_then(|file| file.split_once(".ko")).is_some_and(|(stem, _)| stem.replace('-', "_") == name)
    };
    Some(listed.lines().chain(built_in.lines()).any(is_named))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_found_by_the_name_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/sys/kernel/osrelease", "6.14.0-37-generic\n");
        let root = Root::tree(folder.path()).unwrap();
        assert_eq!(has_module(&root, "ib_umad"), None);
        write(
            "lib/modules/6.14.0-37-generic/modules.dep",
            "kernel/drivers/infiniband/core/ib_umad.ko.zst: kernel/drivers/infiniband/core/ib_core.ko.zst\nupdates/nvidia-fs.ko:\n",
        );
        write("lib/modules/6.14.0-37-generic/modules.builtin", "kernel/drivers/nvme/host/nvme.ko\n");
        let root = Root::tree(folder.path()).unwrap();
        for (name, wanted) in
            [("ib_umad", true), ("nvidia_fs", true), ("nvme", true), ("ib_core", false), ("lustre", false)]
        {
            assert_eq!(has_module(&root, name), Some(wanted), "{name}");
        }
    }
}
