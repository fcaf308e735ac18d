//! Adds the registry keys of the NVIDIA driver that P2PDMA needs to the existing keys.

use super::command_line;
use super::modprobe::{self, Setting};
use super::parts::{empty, family, initramfs, line_in, run, words};
use crate::core::{Change, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::Root;
use crate::machine::modprobe::{COMMAND_LINE, in_force};
use crate::machine::registry::{cut_off, list, other_separator, p2pdma_keys, parts};
use std::path::PathBuf;

/// The file for the keys, if no other file sets any.
const OWN: &str = "nvidia-p2pdma.conf";
const PARAMETER: &str = "NVreg_RegistryDwords";
/// The parameter as an argument of the kernel.
const ARGUMENT: &str = "nvidia.NVreg_RegistryDwords";

/// The plan for this machine.
pub(super) fn plan(root: &Root) -> FixPlan {
    let needed = p2pdma_keys(root);
    let rebuild = initramfs(root, family(root));
    // The driver reads only one list, and that of the kernel command line overrides modprobe.d. So its keys move there.
    let removed = command_line::without(root, ARGUMENT);
    let mut keys: Vec<(String, String)> = removed.iter().flat_map(|removed| pairs(&removed.value)).collect();
    for (key, value) in needed {
        match keys.iter_mut().find(|(known, _)| known == key) {
            Some(known) => value.clone_into(&mut known.1),
            None => keys.push((key.to_owned(), value.to_owned())),
        }
    }
    let keys: Vec<(&str, &str)> = keys.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let is_started_with = in_force(root, "nvidia", PARAMETER).is_some_and(|set| set.source == COMMAND_LINE);
    let (change, obstacle) = match &removed {
        None if is_started_with => {
            let why = format!(
                "the kernel command line sets nvidia.{PARAMETER}, which overrides modprobe.d: remove it in the boot loader's configuration first"
            );
            (None, Some(why))
        }
        _ => change(root, &keys),
    };
    let moved = removed.as_ref().filter(|_| obstacle.is_none());
    let (before, undo_before) = moved.map(|moved| (moved.changes.clone(), moved.undo.clone())).unwrap_or_default();
    FixPlan {
        why: format!(
            "P2PDMA on x86 needs these registry keys of the NVIDIA driver (NVIDIA's P2PDMA guide); Ampere and Ada GPUs also need ForceP2P=0. Keys that are set already stay in the list, because the driver reads only one.{} After the reboot the change affects all programs that use the GPU.",
            if moved.is_some() {
                " Those of the kernel command line move to modprobe.d, because they override it, and GRUB cuts a value at a semicolon without quotes."
            } else {
                ""
            }
        ),
        changes: before.into_iter().chain(change).chain([run(rebuild)]).collect(),
        verify: "after the reboot, /proc/driver/nvidia/params has the keys; gds-top check: gpu-static-bar1".to_owned(),
        undo_commands: undo_before.into_iter().chain([words(rebuild)]).collect(),
        remaining: vec!["sudo reboot".to_owned()],
        obstacle,
        ..empty(FixId::P2pdmaRegistryKeys, Needs::Reboot, FixRisk::Medium, FixPolicy::Ask)
    }
}

/// The keys of a list, with their values.
fn pairs(list: &str) -> Vec<(String, String)> {
    let parts = parts(list).map(|part| part.trim_matches([' ', '"', '\'', '\\']));
    parts
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The file to change, or the reason why none can be changed. The driver uses only the last list of keys, so the keys
/// are added to that list.
fn change(root: &Root, keys: &[(&str, &str)]) -> (Option<Change>, Option<String>) {
    let files = modprobe::files(root);
    let settings = modprobe::settings(&files, "nvidia", PARAMETER);
    let packaged = settings.last().map(|setting| &files[setting.file]).filter(|file| !file.is_local());
    if let Some(file) = packaged {
        let why = format!(
            "{} also sets {PARAMETER}, and the driver reads only one list: copy that file to {} with the same name and add {} there",
            file.path,
            modprobe::LOCAL,
            list(keys)
        );
        return (None, Some(why));
    }
    match settings.last() {
        None => {
            let line = format!("options nvidia {PARAMETER}=\"{}\"", list(keys));
            (line_in(root, &modprobe::own_path(root, OWN), &line), None)
        }
        Some(setting) => {
            let file = &files[setting.file];
            let change = with_keys(&file.text, setting, keys).map(|after| Change::WriteFile {
                path: PathBuf::from(&file.path),
                before: Some(file.text.clone()),
                after,
                mode: 0o644,
            });
            (change, None)
        }
    }
}

/// The text with these keys in the list of this setting. Other keys keep their values and order. `None` if all keys
/// are already set.
fn with_keys(text: &str, setting: &Setting, keys: &[(&str, &str)]) -> Option<String> {
    // Keys after a blank without quotes become a part of the list.
    let rest = cut_off(text, setting);
    let lists = [setting.value.as_str()].into_iter().chain(rest.iter().map(|word| word.text.as_str()));
    let mut set: Vec<(&str, &str)> =
        lists.flat_map(parts).map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
    if keys.iter().all(|key| set.contains(key)) && other_separator(&setting.value).is_none() && rest.is_empty() {
        return None;
    }
    for (key, value) in keys {
        match set.iter_mut().find(|(known, _)| known == key) {
            Some(known) => known.1 = value,
            None => set.push((key, value)),
        }
    }
    let mut after = text.to_owned();
    let end = rest.last().map_or(setting.place.end, |word| word.place.end);
    after.replace_range(setting.place.start..end, &format!("{PARAMETER}=\"{}\"", list(&set)));
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixes::modprobe::File;

    #[test]
    fn keys_are_added_to_the_list_that_is_there() {
        const KEYS: &[(&str, &str)] = &[("RMForceStaticBar1", "1"), ("ForceP2P", "0")];
        let edited = |before: &str| {
            let file = File { path: "/etc/modprobe.d/x.conf".to_owned(), text: before.to_owned() };
            let settings = modprobe::settings(std::slice::from_ref(&file), "nvidia", PARAMETER);
            settings.first().and_then(|setting| with_keys(before, setting, KEYS)).unwrap_or_else(|| before.to_owned())
        };
        for (before, after) in [
            (
                "options nvidia NVreg_Foo=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;ForceP2P=0x11;\" NVreg_Bar=2 # x\n",
                "options nvidia NVreg_Foo=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;ForceP2P=0;RMForceStaticBar1=1;\" NVreg_Bar=2 # x\n",
            ),
            (
                "options nvidia NVreg_RegistryDwords=A=1 NVreg_Bar=2",
                "options nvidia NVreg_RegistryDwords=\"A=1;RMForceStaticBar1=1;ForceP2P=0;\" NVreg_Bar=2",
            ),
            // NVIDIA's guide splits the list into several lines.
            (
                "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;\\\nRmForceDisableIomapWC=1;\"\n# end\n",
                "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;ForceP2P=0;\"\n# end\n",
            ),
            (
                "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;ForceP2P=0\"\n",
                "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;ForceP2P=0\"\n",
            ),
            // The driver does not know keys with another separator.
            (
                "options nvidia NVreg_RegistryDwords=\"A=2,RMForceStaticBar1=1 ForceP2P=0\"\n",
                "options nvidia NVreg_RegistryDwords=\"A=2;RMForceStaticBar1=1;ForceP2P=0;\"\n",
            ),
            // Without quotes, a blank ends the value.
            (
                "options nvidia NVreg_RegistryDwords=RMForceStaticBar1=1; A=2; NVreg_Bar=2\n",
                "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;A=2;ForceP2P=0;\" NVreg_Bar=2\n",
            ),
            (
                "options nvidia NVreg_RegistryDwords=RMForceStaticBar1=1 ; ForceP2P=0 # A=1\n",
                "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;ForceP2P=0;\" # A=1\n",
            ),
            ("# options nvidia NVreg_RegistryDwords=\"A=1\"\n", "# options nvidia NVreg_RegistryDwords=\"A=1\"\n"),
            ("options nvidia_uvm NVreg_RegistryDwords=\"A=1\"\n", "options nvidia_uvm NVreg_RegistryDwords=\"A=1\"\n"),
        ] {
            assert_eq!(edited(before), after);
        }
    }
}
