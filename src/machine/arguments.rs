//! Commands that change the kernel command line, for the boot loader of the machine.

use super::boot::{BootLoader, boot_loader};
use super::grub::{GRUB, GRUB_FOLDER, grub_files, grub_lines};
use super::image::{ImageHost, image_host};
use super::packages::{Family, family, id, known_family};
use super::root::Root;
use super::summary::{container, kernel_release};
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
        (Some(ImageHost::Flatcar), _) => new.filter(|_| old.is_none()).map(|word| {
            format!("echo 'set linux_append=\"$linux_append {word}\"' | sudo tee -a /usr/share/oem/grub.cfg")
        }),
        (Some(_), _) => None,
        (None, Some(BootLoader::Extlinux)) => in_extlinux(root, old, new),
        (None, loader) if known_family(root) => match (family(root), loader) {
            (Family::Suse, _) => {
                let options = each("sudo pbl --del-option ", "sudo pbl --add-option ");
                Some(format!("{} && sudo pbl --config", options.join(" && ")))
            }
            (_, Some(BootLoader::SystemdBoot)) => {
                in_words(root, CMDLINE, old, new).map(|edit| format!("{edit} && {}", renew_entries(root)))
            }
            (Family::RedHat, _) if id(root) != "azurelinux" => {
                Some(format!("sudo grubby --update-kernel=ALL {}", each("--remove-args=", "--args=").join(" ")))
            }
            (Family::Debian, loader) => match (old, new) {
                (Some(old), new) => replaced_in_grub(root, old, new.unwrap_or_default(), "sudo update-grub"),
                (None, Some(new)) => loader.map(|_| added_to_grub(root, new)),
                (None, None) => None,
            },
            _ => in_grub(root, old, new, "sudo grub2-mkconfig -o /boot/grub2/grub.cfg"),
        },
        // Arch Linux, Gentoo and others use the names of GRUB's authors.
        (None, Some(BootLoader::Grub)) if root.exists("/boot/grub/grub.cfg") => {
            in_grub(root, old, new, "sudo grub-mkconfig -o /boot/grub/grub.cfg")
        }
        // mkinitcpio puts the arguments of this file into its images.
        (None, Some(BootLoader::SystemdBoot)) if root.exists("/usr/bin/mkinitcpio") => {
            in_words(root, CMDLINE, old, new).map(|edit| format!("{edit} && sudo mkinitcpio -P"))
        }
        (None, _) => None,
    }
}

/// The source of systemd-boot's entries.
const CMDLINE: &str = "/etc/kernel/cmdline";

/// The command that writes the boot entry of the running kernel again from `/etc/kernel/cmdline`.
#[must_use]
pub fn renew_entries(root: &Root) -> String {
    if root.exists("/etc/kernel/proxmox-boot-uuids") {
        return "sudo proxmox-boot-tool refresh".to_owned();
    }
    let release = kernel_release(root).unwrap_or_else(|| "KERNEL".to_owned());
    let image = match family(root) {
        Family::Debian => format!("/boot/vmlinuz-{release}"),
        _ => format!("/lib/modules/{release}/vmlinuz"),
    };
    format!("sudo kernel-install add {release} {image}")
}

/// An argument in the form of a regular expression.
fn pattern(word: &str) -> String {
    word.replace('.', "\\.")
}

/// The edit of a file whose first line has only arguments. `None` if the file cannot be read or lacks the old argument.
fn in_words(root: &Root, path: &str, old: Option<&str>, new: Option<&str>) -> Option<String> {
    let text = root.read_text(path).ok()?;
    match (old, new) {
        (Some(old), new) => text.split_whitespace().any(|word| word == old).then(|| {
            format!("sudo sed -E -i 's/(^| ){}( |$)/\\1{}\\2/g' {path}", pattern(old), new.unwrap_or_default())
        }),
        (None, Some(new)) => Some(format!("sudo sed -i '1s/$/ {new}/' {path}")),
        (None, None) => None,
    }
}

/// The edit of the configuration of extlinux. `None` if it cannot be read, lacks the old argument, or if Debian's
/// u-boot-menu writes it.
fn in_extlinux(root: &Root, old: Option<&str>, new: Option<&str>) -> Option<String> {
    const PATH: &str = "/boot/extlinux/extlinux.conf";
    let text = root.read_text(PATH).ok().filter(|_| !root.exists("/etc/default/u-boot"))?;
    let is_append = |line: &&str| line.trim_start().to_ascii_lowercase().starts_with("append ");
    let mut words = text.lines().filter(is_append).flat_map(str::split_whitespace);
    match (old, new) {
        (Some(old), new) => words
            .any(|word| word == old)
            .then(|| format!("sudo sed -E -i 's/ {}( |$)/ {}\\1/g' {PATH}", pattern(old), new.unwrap_or_default())),
        (None, Some(new)) => {
            words.next().map(|_| format!("sudo sed -E -i 's/^[[:space:]]*(append|APPEND) .*/& {new}/' {PATH}"))
        }
        (None, None) => None,
    }
}

/// The edit of `/etc/default/grub`, and the command that makes the menu. `None` if its line has another form.
fn in_grub(root: &Root, old: Option<&str>, new: Option<&str>, make: &str) -> Option<String> {
    const START: &str = "GRUB_CMDLINE_LINUX_DEFAULT=\"";
    match (old, new) {
        (Some(old), new) => replaced_in_grub(root, old, new.unwrap_or_default(), make),
        (None, Some(new)) => {
            let text = root.read_text(GRUB).ok()?;
            let is_single = text.lines().filter(|line| line.starts_with(START)).count() == 1;
            is_single.then(|| format!("sudo sed -i 's/^{START}/&{new} /' {GRUB} && {make}"))
        }
        (None, None) => None,
    }
}

/// Debian's GRUB reads the files in its directory after `/etc/default/grub`. In cloud images, one of them sets the variable
/// again.
fn added_to_grub(root: &Root, word: &str) -> String {
    let make = if root.exists(GRUB_FOLDER) { String::new() } else { format!("sudo mkdir -p {GRUB_FOLDER} && ") };
    format!(
        "{make}echo 'GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {word}\"' | sudo tee -a {GRUB_FOLDER}/zz-local.cfg && sudo update-grub"
    )
}

/// The edit of the files that have the argument. `None` if none has it, or if it has quotes there.
fn replaced_in_grub(root: &Root, old: &str, new: &str, make: &str) -> Option<String> {
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
    (!files.is_empty()).then(|| {
        let old = pattern(old);
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
            ("ID=arch\n", old, None),
        ] {
            assert_eq!(command(release, old, new), "", "{release} {old:?} {new:?}");
        }
        assert_eq!(
            command(azure, None, new),
            "sudo sed -i 's/^GRUB_CMDLINE_LINUX_DEFAULT=\"/&a.b=d /' /etc/default/grub && sudo grub2-mkconfig -o /boot/grub2/grub.cfg"
        );
        write("boot/grub/grub.cfg", "");
        assert_eq!(
            command("ID=arch\n", None, new),
            "sudo sed -i 's/^GRUB_CMDLINE_LINUX_DEFAULT=\"/&a.b=d /' /etc/default/grub && sudo grub-mkconfig -o /boot/grub/grub.cfg"
        );
        assert_eq!(
            command("ID=flatcar\n", None, new),
            "echo 'set linux_append=\"$linux_append a.b=d\"' | sudo tee -a /usr/share/oem/grub.cfg"
        );
        assert_eq!(
            command("ID=rocky\nID_LIKE=rhel\n", old, new),
            "sudo grubby --update-kernel=ALL --remove-args=a.b=c --args=a.b=d"
        );
        assert_eq!(
            command("ID=sles\nID_LIKE=suse\n", old, new),
            "sudo pbl --del-option a.b=c && sudo pbl --add-option a.b=d && sudo pbl --config"
        );
    }

    #[test]
    fn an_argument_is_changed_in_the_file_of_systemd_boot_or_extlinux() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let command = |old: Option<&str>, new: Option<&str>| {
            argument_command(&Root::tree(folder.path()).unwrap(), old, new).unwrap_or_default()
        };
        write("etc/os-release", "ID=debian\n");
        write("proc/sys/kernel/osrelease", "6.12.48-amd64\n");
        write("boot/loader/loader.conf", "timeout 3\n");
        let (old, new) = (Some("a.b=c"), Some("a.b=d"));
        assert_eq!(command(None, new), "");
        write("etc/kernel/cmdline", "root=UUID=1 a.b=c quiet\n");
        let renew = "sudo kernel-install add 6.12.48-amd64 /boot/vmlinuz-6.12.48-amd64";
        assert_eq!(command(None, new), format!("sudo sed -i '1s/$/ a.b=d/' /etc/kernel/cmdline && {renew}"));
        assert_eq!(
            command(old, new),
            format!("sudo sed -E -i 's/(^| )a\\.b=c( |$)/\\1a.b=d\\2/g' /etc/kernel/cmdline && {renew}")
        );
        assert_eq!(command(Some("x=y"), None), "");
        write("boot/extlinux/extlinux.conf", "LABEL primary\n      APPEND ${cbootargs} a.b=c rw\n");
        assert_eq!(
            command(None, new),
            "sudo sed -E -i 's/^[[:space:]]*(append|APPEND) .*/& a.b=d/' /boot/extlinux/extlinux.conf"
        );
        assert_eq!(command(old, None), "sudo sed -E -i 's/ a\\.b=c( |$)/ \\1/g' /boot/extlinux/extlinux.conf");
        write("etc/default/u-boot", "");
        assert_eq!(command(None, new), "");
    }
}
