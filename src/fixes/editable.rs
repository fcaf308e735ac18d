//! The files that each fix can edit. No other file is written, and no other file is restored from the journal.

use super::spec;
use crate::core::FixId;
use std::path::{Component, Path};

/// Whether a fix can edit a file.
#[must_use]
pub fn may_edit(id: FixId, path: &Path) -> bool {
    let is_plain = path.is_absolute() && path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    is_plain && spec::of(id).edits.iter().any(|pattern| fits(pattern, path))
}

/// Whether a path matches a pattern. In `/etc/x/*.conf`, `*` matches a part of one name. `*.json` without a slash
/// matches such names in every directory. `$NAME` is the path in this environment variable.
fn fits(pattern: &str, path: &Path) -> bool {
    if let Some(variable) = pattern.strip_prefix('$') {
        return std::env::var_os(variable).is_some_and(|value| Path::new(&value) == path);
    }
    let Some(text) = path.to_str() else { return false };
    if !pattern.contains('/') {
        return text.rsplit('/').next().is_some_and(|name| fits_name(pattern, name));
    }
    let (patterns, names) = (pattern.split('/'), text.split('/'));
    patterns.clone().count() == names.clone().count()
        && patterns.zip(names).all(|(pattern, name)| fits_name(pattern, name))
}

fn fits_name(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.len() > head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fix_edits_what_it_declares_and_nothing_else() {
        for (id, path, wanted) in [
            (FixId::Memlock, "/etc/security/limits.d/99-gds.conf", true),
            (FixId::Memlock, "/etc/passwd", false),
            (FixId::Memlock, "etc/security/limits.d/99-gds.conf", false),
            (FixId::Initramfs, "/etc/security/limits.d/99-gds.conf", false),
            (FixId::UdevRecord, "/run/udev/data/b259:1", true),
            (FixId::UdevRecord, "/run/udev/data/b", false),
            (FixId::UdevRecord, "/run/udev/data/b1/../../../etc/passwd", false),
            (FixId::UdevRecord, "/run/udev/data/b1/x", false),
            (FixId::P2pdmaRegistryKeys, "/etc/modprobe.d/nvidia.conf", true),
            (FixId::P2pdmaRegistryKeys, "/etc/modprobe.d/x/nvidia.conf", false),
            (FixId::CufileP2pdmaKeys, "/home/user/my.json", true),
            (FixId::CufileP2pdmaKeys, "/home/user/my.json/../.bashrc", false),
            (FixId::CufileP2pdmaKeys, "/home/user/.ssh/authorized_keys", false),
        ] {
            assert_eq!(may_edit(id, Path::new(path)), wanted, "{id} {path}");
        }
    }
}
