//! The registry keys of the NVIDIA driver that P2PDMA needs, beside those that are set already.

use super::recipes::{empty, family, initramfs, line_in, run, words};
use crate::domain::{Change, FixPlan, FixPolicy, FixRisk, Needs};
use crate::host::Root;
use std::path::PathBuf;

/// The file of our own, where no other sets registry keys.
const OWN: &str = "/etc/modprobe.d/nvidia-p2pdma.conf";
const FOLDER: &str = "/etc/modprobe.d";
/// Folders of packages; a file of the same name in `/etc/modprobe.d` takes the place of one there (modprobe.d(5)).
const PACKAGED: [&str; 2] = ["/usr/lib/modprobe.d", "/run/modprobe.d"];
const PARAMETER: &str = "NVreg_RegistryDwords=";

/// The plan for this machine.
pub(super) fn plan(root: &Root) -> FixPlan {
    let ampere_or_ada = root
        .nvml()
        .gpus
        .iter()
        .filter_map(|gpu| gpu.compute_capability.as_deref())
        .any(|capability| capability.starts_with("8."));
    let mut keys = vec![("RMForceStaticBar1", "1"), ("RmForceDisableIomapWC", "1")];
    if ampere_or_ada {
        keys.push(("ForceP2P", "0"));
    }
    let rebuild = initramfs(root, family(root));
    let (change, obstacle) = change(root, &keys);
    FixPlan {
        title: "Map the GPU's BAR1 statically".to_owned(),
        why: "P2PDMA on x86 needs these registry keys of the NVIDIA driver (NVIDIA's P2PDMA guide); Ampere and Ada GPUs want ForceP2P=0 as well. Keys that \
              are set already stay beside them, because the driver takes one list only. All programs that use the GPU get the changed driver after the \
              reboot."
            .to_owned(),
        changes: change.into_iter().chain([run(rebuild)]).collect(),
        verify: "after the reboot /proc/driver/nvidia/params has the keys, and gds-top check: gpu-static-bar1".to_owned(),
        undo: "gds-top fix --undo p2pdma-registry-keys restores what was there and rebuilds the initramfs; then reboot".to_owned(),
        undo_commands: vec![words(rebuild)],
        remaining: vec!["sudo reboot".to_owned()],
        obstacle,
        ..empty(Needs::Reboot, FixRisk::Medium, FixPolicy::Ask)
    }
}

/// The file that is changed, and what stands in the way. The kernel takes the last of several lists, so there must be one.
fn change(root: &Root, keys: &[(&str, &str)]) -> (Option<Change>, Option<String>) {
    let sets = |folder: &str| -> Vec<(String, String)> {
        let mut names = root.entries(folder).unwrap_or_default();
        names.sort();
        names
            .iter()
            .filter(|name| name.ends_with(".conf"))
            .map(|name| format!("{folder}/{name}"))
            .filter_map(|path| Some((root.read_text(&path).ok()?, path)))
            .filter(|(text, _)| text.lines().any(|line| value_of(line).is_some()))
            .map(|(text, path)| (path, text))
            .collect()
    };
    let own: Vec<(String, String)> = sets(FOLDER);
    let packaged: Vec<String> = PACKAGED
        .iter()
        .flat_map(|folder| sets(folder))
        .map(|(path, _)| path)
        .filter(|path| path.rsplit('/').next().is_none_or(|name| !root.exists(format!("{FOLDER}/{name}"))))
        .collect();
    if let Some(path) = packaged.first() {
        let why = format!(
            "{path} sets {PARAMETER} too, and the driver takes one list only: copy that file to {FOLDER} under the same name and add {} there",
            list(keys)
        );
        return (None, Some(why));
    }
    match own.as_slice() {
        [] => {
            let line = format!("options nvidia {PARAMETER}\"{}\"", list(keys));
            (line_in(root, OWN, &line), None)
        }
        [(path, text)] if text.lines().filter(|line| value_of(line).is_some()).count() == 1 => {
            let after: String = text.split_inclusive('\n').map(|line| merged(line, keys)).collect();
            let change = (after != *text).then(|| Change::WriteFile {
                path: PathBuf::from(path),
                before: Some(text.clone()),
                after,
                mode: 0o644,
            });
            (change, None)
        }
        several => {
            let paths: Vec<&str> = several.iter().map(|(path, _)| path.as_str()).collect();
            let why = format!(
                "{PARAMETER} is set more than once ({}), and the driver takes the last list only: leave one, then ask again",
                paths.join(", ")
            );
            (None, Some(why))
        }
    }
}

/// `RMForceStaticBar1=1;RmForceDisableIomapWC=1;`.
fn list(keys: &[(&str, &str)]) -> String {
    keys.iter().map(|(key, value)| format!("{key}={value};")).collect()
}

/// Where the list of registry keys stands in a line `options nvidia …`, quotes included.
fn value_of(line: &str) -> Option<std::ops::Range<usize>> {
    let mut fields = line.split_whitespace();
    if fields.next() != Some("options") || fields.next() != Some("nvidia") {
        return None;
    }
    let start = line.find(PARAMETER)? + PARAMETER.len();
    let rest = &line[start..];
    let end = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map_or(rest.trim_end().len(), |at| at + 2),
        _ => rest.find(char::is_whitespace).unwrap_or(rest.len()),
    };
    Some(start..start + end)
}

/// The line with the keys set in its list; others stay, in their order.
fn merged(line: &str, keys: &[(&str, &str)]) -> String {
    let Some(at) = value_of(line) else { return line.to_owned() };
    let value = line[at.clone()].trim_matches(['"', '\'']);
    let mut set: Vec<(&str, &str)> = value
        .split(';')
        .filter(|part| !part.trim().is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .collect();
    let is_set = keys.iter().all(|(key, value)| set.contains(&(key, value)));
    if is_set {
        return line.to_owned();
    }
    for (key, value) in keys {
        match set.iter_mut().find(|(known, _)| known == key) {
            Some(known) => known.1 = value,
            None => set.push((key, value)),
        }
    }
    format!("{}\"{}\"{}", &line[..at.start], list(&set), &line[at.end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_added_to_the_list_that_is_there() {
        const KEYS: &[(&str, &str)] = &[("RMForceStaticBar1", "1"), ("ForceP2P", "0")];
        for (before, after) in [
            (
                "options nvidia NVreg_Foo=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;ForceP2P=0x11;\" NVreg_Bar=2 # x\n",
                "options nvidia NVreg_Foo=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;ForceP2P=0;RMForceStaticBar1=1;\" NVreg_Bar=2 # x\n",
            ),
            (
                "options nvidia NVreg_RegistryDwords=A=1 NVreg_Bar=2",
                "options nvidia NVreg_RegistryDwords=\"A=1;RMForceStaticBar1=1;ForceP2P=0;\" NVreg_Bar=2",
            ),
            (
                "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;ForceP2P=0\"\n",
                "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;ForceP2P=0\"\n",
            ),
            ("# options nvidia NVreg_RegistryDwords=\"A=1\"\n", "# options nvidia NVreg_RegistryDwords=\"A=1\"\n"),
            ("options nvidia_uvm NVreg_RegistryDwords=\"A=1\"\n", "options nvidia_uvm NVreg_RegistryDwords=\"A=1\"\n"),
        ] {
            assert_eq!(merged(before, KEYS), after);
        }
    }
}
