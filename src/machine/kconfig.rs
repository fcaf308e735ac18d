//! Reads the configuration of the running kernel from the files that distributions install.

use super::root::Root;
use super::unread::Unread;

/// A kernel configuration and the file that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelConfig {
    /// The path of the file.
    pub source: String,
    text: String,
}

/// Maximum size of an unpacked configuration, in bytes. Real configurations have less than 400 KiB.
const MAX_UNPACKED_BYTES: usize = 4 << 20;

impl KernelConfig {
    /// The value of an option without quotes, for example `y` or `m`; `None` if it is not set.
    #[must_use]
    pub fn value(&self, option: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(option)?.strip_prefix('=')).map(|v| v.trim_matches('"'))
    }

    /// The line of an option, as evidence.
    #[must_use]
    pub fn line(&self, option: &str) -> String {
        let named = |line: &&str| line.split([' ', '=']).any(|word| word == option);
        self.text.lines().find(named).map_or_else(|| format!("{option} is not mentioned"), str::to_owned)
    }
}

/// Reads the configuration of the kernel `release`.
///
/// # Errors
/// Returns each file that was tried, with the reason why it could not be read.
pub fn kernel_config(root: &Root, release: &str) -> Result<KernelConfig, Vec<(String, Unread)>> {
    let mut tried = Vec::new();
    for path in [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        "/proc/config.gz".to_owned(),
        "/proc/config".to_owned(),
    ] {
        let text = root.read_bytes(&path).and_then(|bytes| {
            if bytes.starts_with(&[0x1f, 0x8b]) {
                gunzip(&bytes).ok_or_else(|| Unread::Failed("damaged gzip data".to_owned()))
            } else {
                Ok(bytes)
            }
        });
        match text {
            Ok(bytes) => {
                return Ok(KernelConfig { source: path, text: String::from_utf8_lossy(&bytes).into_owned() });
            }
            Err(why) => tried.push((path, why)),
        }
    }
    Err(tried)
}

/// Evidence that a module is built into the running kernel: a file and its text. modprobe.d has no effect on such a
/// module. `option` is the name of the module in the kernel configuration. `None` if the module is loadable or no
/// file shows it.
#[must_use]
pub fn built_in(root: &Root, module: &str, option: &str) -> Option<(String, String)> {
    const LOADED: &str = "/proc/modules";
    let loaded = root.read_text(LOADED).unwrap_or_default();
    let is_loaded = |name: &str| loaded.lines().any(|line| line.split(' ').next() == Some(name));
    if is_loaded(module) {
        return None;
    }
    let release = super::summary::kernel_release(root)?;
    let list = format!("/lib/modules/{release}/modules.builtin");
    if let Ok(text) = root.read_text(&list) {
        let stem = |line: &str| Some(line.trim().rsplit('/').next()?.strip_suffix(".ko")?.replace('-', "_"));
        let line = text.lines().find(|line| stem(line).as_deref() == Some(module))?;
        return Some((list, line.trim().to_owned()));
    }
    if let Ok(config) = kernel_config(root, &release) {
        return (config.value(option) == Some("y")).then(|| (config.source.clone(), config.line(option)));
    }
    // `/proc/modules` lists no module of this family, but sysfs shows that the module works.
    let family = module.split('_').next().unwrap_or(module);
    let is_there = root.exists(format!("/sys/module/{module}"))
        && !loaded.trim().is_empty()
        && !loaded.lines().any(|line| line.starts_with(family));
    is_there.then(|| (LOADED.to_owned(), format!("no line {module}, though /sys/module/{module} exists")))
}

/// Unpacks one gzip member (RFC 1952). Returns `None` if the data is not valid.
fn gunzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let flags = *bytes.get(3)?;
    let mut at = 10;
    if flags & 4 != 0 {
        let length = usize::from(*bytes.get(at)?) | usize::from(*bytes.get(at + 1)?) << 8;
        at += 2 + length;
    }
    for bit in [8, 16] {
        if flags & bit != 0 {
            at += bytes.get(at..)?.iter().position(|&b| b == 0)? + 1;
        }
    }
    if flags & 2 != 0 {
        at += 2;
    }
    miniz_oxide::inflate::decompress_to_vec_with_limit(bytes.get(at..)?, MAX_UNPACKED_BYTES).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_whole_words_only() {
        let config = KernelConfig {
            source: String::new(),
            text: "# CONFIG_PCI_P2PDMA is not set\nCONFIG_ZONE_DEVICE=y\nCONFIG_ZONE=m\n".to_owned(),
        };
        assert_eq!(config.value("CONFIG_PCI_P2PDMA"), None);
        assert_eq!(config.value("CONFIG_ZONE"), Some("m"));
        assert_eq!(config.line("CONFIG_PCI_P2PDMA"), "# CONFIG_PCI_P2PDMA is not set");
    }

    #[test]
    fn packed_text_comes_back_and_damage_is_no_crash() {
        let mut packed = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3];
        packed.extend(b"config\0");
        packed.extend(miniz_oxide::deflate::compress_to_vec(b"CONFIG_X=y\n", 6));
        assert_eq!(gunzip(&packed).unwrap(), b"CONFIG_X=y\n");
        for length in 0..packed.len() {
            let _ = gunzip(&packed[..length]);
        }
    }
}
