//! The file names of libcufile.

use std::path::Path;

/// Whether the file name is that of libcufile: `libcufile.so.0`, possibly with the hash that wheels add.
/// `libcufile_rdma.so.1` is another library. The kernel appends ` (deleted)` to the path of a removed file.
#[must_use]
pub fn is_libcufile(path: &Path) -> bool {
    let rest = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("libcufile"));
    rest.is_some_and(|rest| rest.starts_with(['.', '-']) && rest.contains(".so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libcufile_is_known_by_its_file_name() {
        for yes in [
            "/usr/lib/libcufile.so.0",
            "/a/libcufile.so.1.20.0",
            "/w/libcufile-1a2b3c.so.0",
            "/a/libcufile.so (deleted)",
        ] {
            assert!(is_libcufile(Path::new(yes)), "{yes}");
        }
        for no in
            ["", "/a/libcufile_rdma.so.1", "/libcufile.so.0/libc.so.6", "/a/libcufile_audit.so", "/a/mylibcufile.so.0"]
        {
            assert!(!is_libcufile(Path::new(no)), "{no}");
        }
    }
}
