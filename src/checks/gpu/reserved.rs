//! GPUs that are reserved for virtual machines, and the lines that reserve them.

use crate::checks::advice::{Advice, rebuild_initramfs};
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::kernel::arguments::change_argument;
use crate::core::CheckId;
use crate::machine;
use crate::text::quoted;

const ID: CheckId = CheckId::GpuPresent;

/// All GPUs are bound to vfio-pci, by a line of modprobe.d or by an argument of the kernel if one is found.
pub(super) fn reserved(ctx: &Context<'_>) -> Judged {
    const BEFORE: &str = "Run gds-top in the virtual machine that uses the GPU. If none does, ";
    let judged = Judged::lack(ID, "all GPUs are reserved for virtual machines").missing(Cost::Root, EVERY);
    let is_vfio = |word: &str| word.replace('-', "_") == "vfio_pci";
    let is_gpu = |id: &str| id.to_ascii_lowercase().starts_with("10de:");
    let ids = |word: &str| word.strip_prefix("ids=").is_some_and(|list| list.trim_matches('"').split(',').any(is_gpu));
    let binds = |line: &str| match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["options", module, rest @ ..] => is_vfio(module) && rest.iter().any(|word| ids(word)),
        ["softdep", module, rest @ ..] => module.starts_with("nvidia") && rest.iter().any(|word| is_vfio(word)),
        _ => false,
    };
    let lines: Vec<(String, String)> = machine::modprobe::files(ctx.root)
        .into_iter()
        .flat_map(|file| {
            let found: Vec<String> = file.text.lines().filter(|line| binds(line)).map(str::to_owned).collect();
            found.into_iter().map(move |line| (file.path.clone(), line))
        })
        .collect();
    let cmdline = ctx.root.read_text(machine::modprobe::COMMAND_LINE).unwrap_or_default();
    let argument = cmdline
        .split_whitespace()
        .find(|word| word.split_once('.').is_some_and(|(module, rest)| is_vfio(module) && ids(rest)));
    let judged = lines.iter().fold(judged, |judged, (file, line)| judged.found(file.clone(), line.trim().to_owned()));
    let edits: Vec<String> = lines.iter().map(|(file, line)| without_gpus(file, line)).collect();
    match argument {
        Some(argument) => {
            let (name, list) = argument.split_once('=').unwrap_or((argument, ""));
            let others: Vec<&str> = list.split(',').filter(|id| !is_gpu(id)).collect();
            // Other devices stay with vfio-pci.
            let kept = (!others.is_empty()).then(|| format!("{name}={}", others.join(",")));
            let advice = change_argument(ctx, Some(argument), kept.as_deref());
            let judged = judged.found(machine::modprobe::COMMAND_LINE, argument.to_owned());
            let also = if edits.is_empty() {
                String::new()
            } else {
                format!("run `{}`, {}, and: ", edits.join(" && "), rebuild_initramfs(ctx.root))
            };
            let advice = advice.plain();
            judged.advice(format!("{BEFORE}{also}{}{}", advice[..1].to_lowercase(), &advice[1..]))
        }
        None if edits.is_empty() => judged.advice(format!(
            "{BEFORE}find what binds it (`grep -r vfio /etc/modprobe.d /etc/modules-load.d /etc/initramfs-tools`, `driverctl list-overrides`), remove that, and reboot."
        )),
        None => judged.advice(
            Advice::from(format!("{BEFORE}run "))
                .command_and_initramfs(ctx.root, &edits.join(" && "))
                .text(", then reboot."),
        ),
    }
}

/// The command that takes NVIDIA's devices out of a line of modprobe.d. A line without other devices becomes a comment.
fn without_gpus(file: &str, line: &str) -> String {
    let others: Vec<&str> = line
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("ids="))
        .flat_map(|list| list.trim_matches('"').split(','))
        .filter(|id| !id.to_ascii_lowercase().starts_with("10de:"))
        .filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':'))
        .collect();
    let is_other = |word: &&str| !word.starts_with("ids=") && !word.contains("vfio") && *word != "options";
    let has_options = line.split_whitespace().any(|word| is_other(&word));
    let script = if line.trim_start().starts_with("softdep") || (others.is_empty() && !has_options) {
        "s/^/#/".to_owned()
    } else if others.is_empty() {
        "s/ ids=[^ ]*//".to_owned()
    } else {
        format!("s/ids=[^ ]*/ids={}/", others.join(","))
    };
    let pattern = if line.trim_start().starts_with("softdep") { "softdep.*vfio" } else { "options.*vfio.*10de:" };
    // The identifiers can have capital letters.
    format!("sudo sed -i '/^[[:space:]]*{pattern}/I{script}' {}", quoted(file))
}
