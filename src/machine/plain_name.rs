//! Names in a capture that may become parts of commands.

/// Whether a name has only the characters that releases of kernels and versions of packages have. A capture can have any
/// name, and only such a one is put into commands for root.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+~-".contains(&byte);
    name.bytes().all(is_plain) && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_characters_of_the_shell_are_not_plain() {
        for name in ["6.14.0-1015-nvidia-64k", "5.14.0-570.el9.aarch64+64k", "6.1~rc2_x", "nvidia-fs", "24.10.OFED.1"] {
            assert!(is_plain_name(name), "{name}");
        }
        for name in ["", "6.8$(x)", "6.8`x`", "6.8;x", "6.8 x", "6.8\n", "6.8\"", "6.8'", "6.8/..", "..", "-x", "6.8é"]
        {
            assert!(!is_plain_name(name), "{name}");
        }
    }
}
