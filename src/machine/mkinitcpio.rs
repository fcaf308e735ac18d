//! The hooks of mkinitcpio, the initramfs tool of Arch Linux.

use super::root::Root;

const FILE: &str = "/etc/mkinitcpio.conf";
const FOLDER: &str = "/etc/mkinitcpio.conf.d";

const REBUILD: &str = "sudo mkinitcpio -P";

/// The file whose HOOKS lack modconf, and these hooks. Without this hook, the initramfs has no file of modprobe.d. `None`
/// if they have it, or if FILES names the directory.
#[must_use]
pub fn without_modconf(root: &Root) -> Option<(String, String)> {
    let mut added: Vec<String> = root.entries(FOLDER).unwrap_or_default();
    added.retain(|name| name.ends_with(".conf"));
    added.sort();
    let paths = std::iter::once(FILE.to_owned()).chain(added.into_iter().map(|name| format!("{FOLDER}/{name}")));
    let texts: Vec<(String, String)> =
        paths.filter_map(|path| Some((path.clone(), root.read_text(path).ok()?))).collect();
    let values = |name: &str| -> Vec<(&str, &str)> {
        texts.iter().filter_map(|(path, text)| Some((path.as_str(), value(text, name)?))).collect()
    };
    // The last file that sets a variable decides.
    let (path, hooks) = values("HOOKS=(").pop()?;
    let has_files = values("FILES=(").iter().any(|(_, files)| files.contains("/etc/modprobe.d"));
    let is_complete = has_files || hooks.split_whitespace().any(|hook| hook == "modconf");
    (!is_complete).then(|| (path.to_owned(), format!("HOOKS=({hooks})")))
}

/// The value of the last array with this name: `base udev` of `HOOKS=(base udev)`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let at = text.rfind(&format!("\n{name}")).map(|at| at + 1).or_else(|| text.starts_with(name).then_some(0))?;
    text[at + name.len()..].split(')').next()
}

/// The command that writes the images again. It adds the hook modconf first if it is missing.
pub(super) fn rebuild(root: &Root) -> &'static str {
    let Some((path, hooks)) = without_modconf(root) else { return REBUILD };
    match (path == FILE, hooks.contains("autodetect"), hooks.contains("base")) {
        (true, true, _) => {
            "sudo sed -i '/^HOOKS=/{/modconf/!s/autodetect/& modconf/}' /etc/mkinitcpio.conf && sudo mkinitcpio -P"
        }
        (true, false, true) => {
            "sudo sed -i '/^HOOKS=/{/modconf/!s/base/& modconf/}' /etc/mkinitcpio.conf && sudo mkinitcpio -P"
        }
        (false, true, _) => {
            "sudo sed -i '/^HOOKS=/{/modconf/!s/autodetect/& modconf/}' /etc/mkinitcpio.conf.d/*.conf && sudo mkinitcpio -P"
        }
        (false, false, true) => {
            "sudo sed -i '/^HOOKS=/{/modconf/!s/base/& modconf/}' /etc/mkinitcpio.conf.d/*.conf && sudo mkinitcpio -P"
        }
        _ => REBUILD,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn hooks_without_modconf_get_it_before_the_images_are_written() {
        for (main, added, wanted) in [
            ("HOOKS=(base udev autodetect microcode modconf block)\n", "", false),
            ("#HOOKS=(base modconf)\nMODULES=(nvidia)\nHOOKS=(base udev autodetect\n  block)\n", "", true),
            ("HOOKS=(base udev block)\nFILES=(/etc/modprobe.d/nvme.conf)\n", "", false),
            ("HOOKS=(base modconf)\n", "HOOKS=(base udev autodetect block)\n", true),
            ("HOOKS=(base udev)\n", "HOOKS=(base modconf)\n", false),
            ("MODULES=()\n", "", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(folder.path().join("etc/mkinitcpio.conf.d")).unwrap();
            std::fs::write(folder.path().join("etc/mkinitcpio.conf"), main).unwrap();
            std::fs::write(folder.path().join("etc/mkinitcpio.conf.d/10-own.conf"), added).unwrap();
            let root = Root::tree(folder.path()).unwrap();
            assert_eq!(without_modconf(&root).is_some(), wanted, "{main}{added}");
            let command = rebuild(&root);
            assert!(command.ends_with(REBUILD) && command.contains("modconf") == wanted, "{command}");
            assert_eq!(command.contains("conf.d"), wanted && !added.is_empty(), "{command}");
        }
    }
}
