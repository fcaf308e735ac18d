//! Registry keys with which the NVIDIA driver was loaded, for all GPUs or for one GPU by its address.

use super::modprobe::{self, Setting, Word};
use super::pci::{PciGpu, pci_gpus};
use super::root::Root;

/// The file that lists the parameters of the loaded driver.
pub const PARAMS_FILE: &str = "/proc/driver/nvidia/params";

/// The keys that P2PDMA needs on x86, and their values. Ampere and Ada GPUs also need `ForceP2P=0` (NVIDIA's P2PDMA guide).
#[must_use]
pub fn p2pdma_keys(root: &Root) -> Vec<(&'static str, &'static str)> {
    let mut keys = vec![("RMForceStaticBar1", "1"), ("RmForceDisableIomapWC", "1")];
    if has_ampere_or_ada(root) {
        keys.push(("ForceP2P", "0"));
    }
    keys
}

/// The keys of [`p2pdma_keys`] that the driver lacks after the next reboot, as `KEY=VALUE`: the list in force does not have
/// them.
#[must_use]
pub fn absent_after_reboot(root: &Root) -> Vec<String> {
    let set = modprobe::in_force(root, "nvidia", "NVreg_RegistryDwords");
    let value = set.map(|set| set.value).unwrap_or_default();
    let list = format!("RegistryDwords: \"{}\"", value.trim_matches('"'));
    let is_absent = |(key, value): &(&str, &str)| number(&list, key, None) != parse(value);
    p2pdma_keys(root).into_iter().filter(is_absent).map(|(key, value)| format!("{key}={value}")).collect()
}

/// The separator of a list that has another one than the semicolon, which the driver needs.
#[must_use]
pub fn other_separator(list: &str) -> Option<&'static str> {
    let joined = list.split(';').map(str::trim).find(|part| parts(part).count() > 1)?;
    Some(if joined.contains(',') { "a comma" } else { "a space" })
}

/// The keys of a list with their values, also of one with commas or blanks as separators.
pub fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(';').flat_map(|part| {
        let is_list = part.matches('=').count() > 1;
        part.split(move |c: char| is_list && (c == ',' || c.is_whitespace()))
            .map(str::trim)
            .filter(|key| !key.is_empty())
    })
}

/// The keys after a list without quotes. The kernel ends a value at a blank, and takes them for unknown parameters of the
/// driver (kernel/params.c).
#[must_use]
pub fn cut_off(text: &str, setting: &Setting) -> Vec<Word> {
    let is_key = |word: &&Word| {
        let key = word.text.trim_matches(';');
        let is_parameter = ["NVreg_", "rm_firmware_active", "#"].iter().any(|start| key.starts_with(start));
        key.is_empty() || (key.contains('=') && !is_parameter)
    };
    let of = |words: Vec<Word>| {
        let at = words.iter().position(|word| word.place == setting.place)?;
        Some(words[at + 1..].iter().take_while(is_key).cloned().collect::<Vec<Word>>())
    };
    modprobe::statements(text, "options", "nvidia").into_iter().find_map(of).unwrap_or_default()
}

/// The file of modprobe.d whose list is in force and cut at a blank, and the keys that are lost. `None` if none is cut.
#[must_use]
pub fn cut_list(root: &Root) -> Option<(String, Vec<String>)> {
    if modprobe::in_force(root, "nvidia", "NVreg_RegistryDwords")?.source == modprobe::COMMAND_LINE {
        return None;
    }
    let files = modprobe::files(root);
    let last = modprobe::settings(&files, "nvidia", "NVreg_RegistryDwords").pop()?;
    let file = &files[last.file];
    let lost: Vec<String> =
        cut_off(&file.text, &last).iter().flat_map(|word| parts(&word.text)).map(str::to_owned).collect();
    (!lost.is_empty()).then(|| (file.path.clone(), lost))
}

/// The list of keys with which the driver was loaded, as it was written.
#[must_use]
pub fn loaded_list(params: &str) -> &str {
    let list = params.lines().find_map(|line| line.strip_prefix("RegistryDwords:")).unwrap_or_default();
    list.trim().trim_matches('"')
}

/// A list of keys as the driver reads it: `a=1;b=0;`.
#[must_use]
pub fn list(keys: &[(&str, &str)]) -> String {
    keys.iter().map(|(key, value)| format!("{key}={value};")).collect()
}

/// The line of modprobe.d with the keys that P2PDMA needs on this machine.
#[must_use]
pub fn option_line(root: &Root) -> String {
    format!("options nvidia NVreg_RegistryDwords=\"{}\"", list(&p2pdma_keys(root)))
}

/// The value of a key in `RegistryDwords: "a=1;b=0x2;"`, or for one GPU in `RegistryDwordsPerDevice:
/// "pci=0000:be:00.0;a=1;…"`. The driver accepts decimal and hexadecimal numbers.
#[must_use]
pub fn number(params: &str, name: &str, address: Option<&str>) -> Option<u64> {
    let value = |line: &str| {
        params.lines().find_map(|l| l.strip_prefix(line)).map(|rest| rest.trim().trim_matches('"').to_owned())
    };
    let mut found = None;
    for (key, text) in value("RegistryDwords:").unwrap_or_default().split(';').filter_map(pair) {
        if key.eq_ignore_ascii_case(name) {
            found = parse(text);
        }
    }
    let mut mine = false;
    for (key, text) in value("RegistryDwordsPerDevice:").unwrap_or_default().split(';').filter_map(pair) {
        if key.eq_ignore_ascii_case("pci") {
            mine = address.is_some_and(|address| same_device(address, text));
        } else if mine && key.eq_ignore_ascii_case(name) {
            found = parse(text);
        }
    }
    found
}

fn pair(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
}

fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether two addresses are the same device: `0000:be:00.0` and `0000:BE:00`.
fn same_device(address: &str, written: &str) -> bool {
    let bare = |text: &str| text.split('.').next().unwrap_or(text).to_ascii_lowercase();
    bare(address) == bare(written)
}

/// Whether the key has the value `wanted` for every GPU of the driver.
#[must_use]
pub fn all_have(root: &Root, params: &str, name: &str, wanted: u64) -> bool {
    match pci_gpus(root) {
        Some(gpus) if !gpus.is_empty() => {
            gpus.iter().filter(|gpu| !gpu.is_lent()).all(|gpu| number(params, name, Some(&gpu.address)) == Some(wanted))
        }
        _ => number(params, name, None) == Some(wanted),
    }
}

/// Whether a GPU of this machine is an Ampere or Ada GPU. NVML lists GPUs only with a loaded driver, so the others are
/// recognised by their PCI device id.
#[must_use]
pub fn has_ampere_or_ada(root: &Root) -> bool {
    let listed = &root.nvml().gpus;
    let capable = |gpu: &super::nvml::NvmlGpu| gpu.compute_capability.as_deref().is_some_and(|c| c.starts_with("8."));
    let is_unlisted = |gpu: &PciGpu| !gpu.is_lent() && listed.iter().all(|known| known.pci_bus_id != gpu.address);
    listed.iter().any(capable)
        || pci_gpus(root).unwrap_or_default().iter().any(|gpu| is_unlisted(gpu) && gpu.is_ampere_or_ada())
}

/// The lines with registry keys, as evidence.
#[must_use]
pub fn lines(params: &str) -> String {
    let lines: Vec<&str> = params
        .lines()
        .filter(|l| l.starts_with("RegistryDwords:") || (l.starts_with("RegistryDwordsPerDevice:") && l.contains('=')))
        .collect();
    if lines.is_empty() { "no line RegistryDwords".to_owned() } else { lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separator_of_a_list_is_recognised() {
        for (list, separator) in [
            ("A=1;B=0x2;", None),
            ("A=1; B=2", None),
            ("A=1,B=2", Some("a comma")),
            ("A=1, B=2", Some("a comma")),
            ("C=3;A=1 B=2;", Some("a space")),
            ("A=1,2", None),
            ("", None),
        ] {
            assert_eq!(other_separator(list), separator, "{list}");
        }
        assert_eq!(parts("C=3;A=1, B=2;").collect::<Vec<_>>(), ["C=3", "A=1", "B=2"]);
        assert_eq!(loaded_list("ForceP2P: 1\nRegistryDwords: \"A=1,B=2\"\n"), "A=1,B=2");
    }

    #[test]
    fn keys_are_read_in_every_form_that_the_driver_takes() {
        let one = "RegistryDwords: \"RMForceStaticBar1=1; RmForceDisableIomapWC=0x1\"\n";
        assert_eq!(number(one, "rmforcestaticbar1", None), Some(1));
        assert_eq!(number(one, "RmForceDisableIomapWC", None), Some(1));
        assert_eq!(number(one, "ForceP2P", None), None);
        let two = "RegistryDwords: \"RMForceStaticBar1=0\"\nRegistryDwordsPerDevice: \"pci=0000:5E:00;RMForceStaticBar1=1;pci=0000:be:00.0;ForceP2P=0\"\n";
        assert_eq!(number(two, "RMForceStaticBar1", Some("0000:5e:00.0")), Some(1));
        assert_eq!(number(two, "RMForceStaticBar1", Some("0000:be:00.0")), Some(0));
        assert_eq!(number(two, "ForceP2P", Some("0000:be:00.0")), Some(0));
        assert_eq!(number("RegistryDwords: \"RMForceStaticBar1=12\"", "RMForceStaticBar1", None), Some(12));
    }
}
