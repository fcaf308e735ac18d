//! Commands that change the kernel command line, for the boot loader of the machine.

use super::boot::{BootLoader, boot_loader};
use super::grub::{GRUB_FOLDER, grub_files, grub_lines};
use super::image::{ImageHost, image_host};
use super::packages::{Family, family, id, known_family};
use super::root::Root;
use super::summary::container;
use crate::text::quoted;
use std::ops::Range;

/// The command that replaces an argument of the kernel. Without `new` it removes the argument, without `old` it adds
/// one. `None` if no command is known for this machine, or if an argument needs quotes.
#[must_use]
pub fn argument_command(root: &Root, old: Option<&str>, new: Option<&str>) -> Option<String> {
    let is_plain = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._,=:-".contains(&byte));
    if container(root).is_some() || !old.into_iter().chain(new).all(is_plain) {
        return None;
    }
    let each = |remove: &str, add: &str| -> Vec<String> {
        let removed = old.map(|word| format!("{remove}{word}"));
        removed.into_iter().chain(new.map(|word| format!("{add}{word}"))).collect()
    };
    let loader = boot_loader(root).map(|boot| boot.loader);
    match (image_host(root).filter(|host| *host != ImageHost::DriverContainer), loader) {
        (Some(ImageHost::Ostree), _) | (None, Some(BootLoader::RpmOstree)) => {
            Some(format!("sudo rpm-ostree kargs {}", each("--delete=", "--append-if-missing=").join(" ")))
        }
        (None, Some(BootLoader::Kernelstub)) => {
            Some(each("sudo kernelstub --delete-options ", "sudo kernelstub --add-options ").join(" && "))
        }
        (Some(_), _) | (None, Some(BootLoader::Extlinux)) => None,
        (None, loader) if known_family(root) => match (family(root), loader) {
            (Family::Suse, _) => {
                let options = each("sudo pbl --del-option ", "sudo pbl --add-option ");
                Some(format!("{} && sudo pbl --config", options.join(" && ")))
            }
            (_, Some(BootLoader::SystemdBoot)) => None,
            (Family::RedHat, _) if id(root) != "azurelinux" => {
                Some(format!("sudo grubby --update-kernel=ALL {}", each("--remove-args=", "--args=").join(" ")))
            }
            (family, loader) => match (old, new) {
                (Some(old), new) => replaced_in_grub(root, family, old, new.unwrap_or_default()),
                (None, Some(new)) if family == Family::Debian && loader.is_some() => Some(added_to_grub(root, new)),
                (None, _) => None,
            },
        },
        (None, _) => None,
    }
}

/// Debian's GRUB reads the files in its folder after `/etc/default/grub`. In cloud images, one of them sets the variable
/// again.
fn added_to_grub(root: &Root, word: &str) -> String {
    let make = if root.exists(GRUB_FOLDER) { String::new() } else { format!("sudo mkdir -p {GRUB_FOLDER} && ") };
    format!(
        "{make}echo 'GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {word}\"' | sudo tee -a {GRUB_FOLDER}/zz-local.cfg && sudo update-grub"
    )
}

/// The edit of the files that have the argument. `None` if none has it, or if it has quotes there.
fn replaced_in_grub(root: &Root, family: Family, old: &str, new: &str) -> Option<String> {
    let mut files = Vec::new();
    for (path, text) in grub_files(root) {
        let is_bare = |place: &Range<usize>| {
            let around = [place.start.checked_sub(1), Some(place.end)].map(|at| text.as_bytes().get(at?));
            text.get(place.clone()) == Some(old) && around.iter().all(|byte| matches!(byte, Some(b' ' | b'"')))
        };
        let lines = grub_lines(&text).into_iter().flat_map(|line| line.arguments);
        let places: Vec<Range<usize>> = lines.filter(|word| word.text == old).map(|word| word.place).collect();
        if !places.iter().all(is_bare) {
            return None;
        }
        if !places.is_empty() {
            files.push(quoted(&path).into_owned());
        }
    }
    let make = match family {
        Family::Debian => "sudo update-grub",
        _ => "sudo grub2-mkconfig -o /boot/grub2/grub.cfg",
    };
    (!files.is_empty()).then(|| {
        let old = old.replace('.', "\\.");
        format!("sudo sed -E -i 's/([ \"]){old}([ \"])/\\1{new}\\2/g' {} && {make}", files.join(" "))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_changed_with_the_tool_of_the_distribution() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let command = |release: &str, old: Option<&str>, new: Option<&str>| {
            write("etc/os-release", release);
            argument_command(&Root::tree(folder.path()).unwrap(), old, new).unwrap_or_default()
        };
        write("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet a.b=c\"\nGRUB_CMDLINE_LINUX=\"x=y 'd=e'\"\n");
        write("etc/default/grub.d/50-cloud.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n");
        let (ubuntu, azure) = ("ID=ubuntu\nID_LIKE=debian\n", "ID=azurelinux\nVERSION_ID=\"3.0\"\n");
        let (old, new) = (Some("a.b=c"), Some("a.b=d"));
        assert_eq!(
            command(ubuntu, old, None),
            "sudo sed -E -i 's/([ \"])a\\.b=c([ \"])/\\1\\2/g' /etc/default/grub && sudo update-grub"
        );
        assert_eq!(
            command(azure, old, new),
            "sudo sed -E -i 's/([ \"])a\\.b=c([ \"])/\\1a.b=d\\2/g' /etc/default/grub && sudo grub2-mkconfig -o /boot/grub2/grub.cfg"
        );
        assert_eq!(
            command(ubuntu, None, new),
            "echo 'GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT a.b=d\"' | sudo tee -a /etc/default/grub.d/zz-local.cfg && sudo update-grub"
        );
        for (release, old, new) in [
            (ubuntu, Some("d=e"), None),
            (ubuntu, Some("not.there"), None),
            (ubuntu, None, Some("a=b;c")),
            (azure, None, new),
            ("ID=arch\n", old, None),
        ] {
            assert_eq!(command(release, old, new), "", "{release} {old:?} {new:?}");
        }
        assert_eq!(
            command("ID=rocky\nID_LIKE=rhel\n", old, new),
            "sudo grubby --update-kernel=ALL --remove-args=a.b=c --args=a.b=d"
        );
        assert_eq!(
            command("ID=sles\nID_LIKE=suse\n", old, new),
            "sudo pbl --del-option a.b=c && sudo pbl --add-option a.b=d && sudo pbl --config"
        );
    }
}
