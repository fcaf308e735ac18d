//! How the boot loader starts another installed kernel, and which kernels are real-time kernels.

use crate::checks::advice::Advice;
use crate::machine::packages::{Family, family, known_family};
use crate::machine::{self, BootLoader, PINNED_BY_GRUB, Root};
use crate::text::quoted;

/// The commands that make an installed kernel the default of the boot loader. `None` if they are not known.
pub(crate) fn default_command(root: &Root, release: &str) -> Option<String> {
    if release.ends_with("-pve") {
        return Some(format!("sudo proxmox-boot-tool kernel pin {release}"));
    }
    if machine::image_host(root).is_some() {
        return None;
    }
    let loader = machine::boot_loader(root)?.loader;
    if loader == BootLoader::SystemdBoot {
        let entry = machine::systemd_boot_entry(root, release)?;
        return Some(format!("sudo bootctl set-default {}", quoted(&entry)));
    }
    if loader != BootLoader::Grub || !known_family(root) {
        return None;
    }
    let entry = format!("gnulinux-advanced-$root>gnulinux-{release}-advanced-$root");
    Some(match family(root) {
        Family::Debian => format!(
            "root=$(sudo grub-probe --target=fs_uuid /) && echo \"GRUB_DEFAULT='{entry}'\" | sudo tee {PINNED_BY_GRUB} && sudo update-grub"
        ),
        Family::RedHat => format!("sudo grubby --set-default /boot/vmlinuz-{release}"),
        Family::Suse => format!(
            "root=$(sudo grub2-probe --target=fs_uuid /) && sudo grub2-set-default \"{entry}\" && sudo grub2-mkconfig -o /boot/grub2/grub.cfg"
        ),
    })
}

/// How Debian and its derivatives start the newest kernel again, if a setting selects another one: the rest of a sentence
/// after the command that installs it. `None` if no setting does.
pub(crate) fn select_newest(root: &Root) -> Option<Advice> {
    machine::pinned_entry(root).filter(|_| family(root) == Family::Debian)?;
    let is_grub = machine::boot_loader(root).is_some_and(|boot| boot.loader == BootLoader::Grub);
    let select = Advice::from(". The boot loader is set to another kernel, so also ");
    Some(if is_grub {
        select.text("run ").command(format!("echo GRUB_DEFAULT=0 | sudo tee {PINNED_BY_GRUB} && sudo update-grub"))
    } else {
        select.text("make the new one its default")
    })
}

/// How to boot an installed kernel for which a module is built. A reboot must follow.
pub(crate) fn boot(root: &Root, release: &str) -> Advice {
    match default_command(root, release) {
        Some(command) => Advice::from(format!("Boot {release}, for which the module is built: ")).command(command),
        None => Advice::from(format!("Choose {release}, for which the module is built, in the boot menu")),
    }
}

/// Another kernel for which DKMS has installed a module. `None` if there is none.
pub(crate) fn built_for(root: &Root, name: &str) -> Option<String> {
    let running = machine::kernel_release(root)?;
    let rows = machine::dkms_rows(root).into_iter().filter(|row| row.name == name);
    rows.filter(|row| row.state.starts_with("installed")).filter_map(|row| row.kernel).find(|kernel| {
        *kernel != running && root.exists(format!("/lib/modules/{kernel}")) && real_time(root, kernel).is_none()
    })
}

/// The evidence that a kernel is a real-time kernel (PREEMPT_RT): a file and its text.
pub(crate) fn real_time(root: &Root, release: &str) -> Option<(String, String)> {
    const OPTION: &str = "CONFIG_PREEMPT_RT";
    const RUNNING: &str = "/sys/kernel/realtime";
    let is_running = machine::kernel_release(root).as_deref() == Some(release);
    match machine::kernel_config(root, release) {
        // The configurations below /proc are those of the running kernel.
        Ok(config) if is_running || config.source.contains(release) => {
            (config.value(OPTION) == Some("y")).then(|| (config.source.clone(), config.line(OPTION)))
        }
        _ => {
            let text = root.read_text(RUNNING).ok().filter(|_| is_running)?;
            (text.trim() == "1").then(|| (RUNNING.to_owned(), "1".to_owned()))
        }
    }
}
