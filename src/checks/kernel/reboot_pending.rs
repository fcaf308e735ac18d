//! Kernel and module settings that are in a file but take effect only after a reboot.

use crate::checks::advice::{Advice, rebuild_initramfs};
use crate::checks::context::Context;
use crate::checks::image_host;
use crate::checks::judged::Judged;
use crate::checks::kernel::next_boot;
use crate::core::{CheckId, FixId, units};
use crate::machine::packages::{self, Family};
use crate::machine::{self, BootLoader, GRUB, GrubArgument};
use crate::text::{capitalised, quoted};

const ID: CheckId = CheckId::RebootPending;

const FOLDER: &str = "/etc/modprobe.d";

/// The variable of GRUB for the arguments of a normal boot.
const DEFAULT: &str = "GRUB_CMDLINE_LINUX_DEFAULT";

/// The registry keys of the driver, as an argument of the kernel.
pub(crate) const KEYS: &str = "nvidia.NVreg_RegistryDwords=";

const CMDLINE: &str = "/etc/kernel/cmdline";

const KERNELSTUB: &str = "/etc/kernelstub/configuration";

/// The effect of a line in modprobe.d.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// The running kernel has another value, so the line needs a reboot.
    Waits,
    /// The running kernel has this value.
    There,
    /// The value of the running kernel is unknown.
    Unknown,
}

/// A line of a modprobe.d file.
struct Line {
    path: String,
    line: String,
    effect: Effect,
}

pub(crate) fn run(ctx: &Context<'_>) -> Option<Judged> {
    let options = options(ctx);
    let waiting: Vec<&Line> = options.iter().filter(|option| option.effect == Effect::Waits).collect();
    let arguments = arguments(ctx);
    let next = next_kernel(ctx);
    if waiting.is_empty() && arguments.is_empty() {
        let seen = [FOLDER, GRUB, CMDLINE].into_iter().find(|path| ctx.root.exists(path));
        return next.or_else(|| older_image(ctx, &options)).or_else(|| {
            Some(
                Judged::pass(ID, "no kernel or module setting waits for a reboot")
                    .found(seen?, "all settings are in effect"),
            )
        });
    }
    let mut judged = Judged::warn(ID, "kernel or module settings are in files, but not in effect");
    let (mut steps, mut reboots) = (Vec::new(), false);
    let mut failed = None;
    let waiting_is_empty = waiting.is_empty();
    if !waiting.is_empty() {
        let image = image(ctx);
        let after = |option: &&&Line| {
            let image = image.as_ref()?;
            Some((image.1, ctx.root.modified_unix_s(&option.path)?))
        };
        let is_newer = waiting.iter().all(|option| after(&option).is_some_and(|(image, file)| image >= file));
        if is_newer {
            reboots = true;
            steps.push("reboot, because the initramfs is newer; after a reboot, another line of modprobe.d or of the kernel command line overrides it".to_owned());
        } else {
            failed = machine::failed_initramfs(ctx.root);
            judged = judged.fix(FixId::Initramfs);
            steps.push(rebuild_initramfs(ctx.root));
            if let Some((file, hooks)) = machine::without_modconf(ctx.root) {
                judged =
                    judged.found(file, format!("{hooks} without modconf: the initramfs has no file of modprobe.d"));
            }
        }
        if let Some((path, made)) = &image {
            for (option, file) in waiting.iter().filter_map(|o| Some((o, ctx.root.modified_unix_s(&o.path)?))) {
                judged = judged.found(path, age(*made, file, &option.path));
            }
        }
    }
    if !arguments.is_empty() {
        if arguments.iter().any(|argument| argument.is_cut) {
            steps.push(format!("put values with a semicolon in quotes ({DEFAULT}=\"… \\\"NAME=A;B\\\"\")"));
        }
        let of_another = arguments.iter().all(|argument| argument.of_another_loader);
        let words: Vec<&str> = in_effect_after(&arguments);
        steps.push(match machine::boot_loader(ctx.root) {
            Some(boot) if of_another => add_to(ctx, boot.loader, &words),
            Some(boot) => menu(ctx, boot.loader, &words),
            None => menu(ctx, BootLoader::Grub, &words),
        });
    }
    if !reboots {
        steps.push("reboot".to_owned());
    }
    for option in waiting {
        judged = judged.found(&option.path, &option.line);
    }
    // The check of the keys has the fix for them.
    let of_keys = waiting_is_empty && arguments.iter().all(|argument| argument.is_cut) && cut_keys(ctx).is_some();
    for argument in arguments {
        judged = judged.found(argument.path, argument.text);
    }
    Some(match failed {
        _ if of_keys => judged.cause(CheckId::GpuStaticBar1),
        Some((source, text)) => judged.found(source, text).by_hand().advice(write_again()),
        None => judged.advice(sentence(&steps)),
    })
}

/// An option in a file that is not in effect.
pub(crate) struct Written {
    /// The path of the modprobe.d file.
    pub(crate) path: String,
    /// The remaining work, in a sentence.
    pub(crate) left: Advice,
    /// The fix that does it. `None` if only a reboot is needed.
    pub(crate) fix: Option<FixId>,
    /// Why the last attempt to write the initramfs failed: a file and its text. No fix resolves this.
    failed: Option<(&'static str, String)>,
}

impl Written {
    /// The finding with the remaining work.
    pub(crate) fn finish(self, judged: Judged) -> Judged {
        match self.failed {
            Some((source, text)) => judged.found(source, text).by_hand().advice(self.left),
            None => judged.fixes(self.fix).advice(self.left),
        }
    }
}

/// How to write an initramfs that update-initramfs could not write. A kernel without its initramfs does not start.
fn write_again() -> Advice {
    Advice::from("The last attempt to write the initramfs failed. Usually `df -h /boot` shows that /boot is full. Remove old kernels and write it again: ")
        .command("sudo rm -f /boot/initrd.img-*.new && sudo apt-get autoremove --purge && sudo dpkg --configure -a && sudo update-initramfs -u -k all")
        .text(". Reboot only if no command failed. If too little space is free, purge the oldest linux-image that `dpkg -l 'linux-image-*'` lists.")
}

/// The file that sets an option of a module that is not in effect (`options nvme_core `, `multipath=N`). `None` if no
/// file sets it.
pub(crate) fn written(ctx: &Context<'_>, module: &str, option: &str) -> Option<Written> {
    let line = options(ctx)
        .into_iter()
        .find(|line| line.effect == Effect::Waits && line.line.starts_with(module) && line.line.contains(option))?;
    let is_newer = image(ctx).zip(ctx.root.modified_unix_s(&line.path)).is_some_and(|((_, made), file)| made >= file);
    let failed = machine::failed_initramfs(ctx.root).filter(|_| !is_newer);
    let left: Advice = if failed.is_some() {
        write_again()
    } else if is_newer {
        format!("Reboot: {} sets it, and the initramfs is newer.", line.path).into()
    } else {
        let then = format!(", then reboot: the old one lacks {}.", line.path);
        match machine::packages::initramfs_command(ctx.root) {
            Some(command) => Advice::from("Rebuild the initramfs (").command(command).text(format!("){then}")),
            None => format!("Rebuild the initramfs{then}").into(),
        }
    };
    Some(Written { path: line.path, left, fix: (!is_newer).then_some(FixId::Initramfs), failed })
}

/// A setting is in a file that modprobe ignores, because its name does not end in `.conf`. Each setting of the file gets
/// the same command, so that they are one step.
pub(crate) fn without_suffix(ctx: &Context<'_>, mut judged: Judged, file: &str) -> Judged {
    judged.finding.summary = format!("modprobe ignores {file}, because its name does not end in .conf");
    let judged = judged.found(file, "ignored: no suffix .conf");
    let name = format!("{file}.conf");
    if ctx.root.exists(&name) {
        return judged.advice(format!("Move its lines to {name}, {}, then reboot.", rebuild_initramfs(ctx.root)));
    }
    let rename = format!("sudo mv {} {}", quoted(file), quoted(&name));
    let renamed = Advice::from("Run ").command_and_initramfs(ctx.root, &rename).text(", then reboot.");
    judged.by_hand().advice(renamed)
}

/// Joins steps to `First, then second, then third.`
fn sentence(steps: &[String]) -> String {
    if steps.is_empty() { String::new() } else { format!("{}.", capitalised(&steps.join(", then "))) }
}

/// The step that gives arguments to the kernel which are in a file of its boot loader.
fn menu(ctx: &Context<'_>, loader: BootLoader, words: &[&str]) -> String {
    let family = format!(
        "{} {}",
        machine::os_release(ctx.root, "ID").unwrap_or_default(),
        machine::os_release(ctx.root, "ID_LIKE").unwrap_or_default()
    );
    let is = |names: &[&str]| family.split_whitespace().any(|word| names.contains(&word));
    let is_known = packages::known_family(ctx.root) && packages::family(ctx.root) != Family::Suse;
    let step = match loader {
        BootLoader::SystemdBoot if is_known => {
            return format!("write the boot entry again: `{}`", machine::renew_entries(ctx.root));
        }
        BootLoader::SystemdBoot => {
            "create the boot entries again from /etc/kernel/cmdline (kernel-install add-all, or the command of your system)"
        }
        BootLoader::Kernelstub => "write the boot entry again: `sudo kernelstub`",
        BootLoader::RpmOstree | BootLoader::Extlinux => return add_to(ctx, loader, words),
        BootLoader::Grub if is(&["debian", "ubuntu"]) => "write the boot menu again: `sudo update-grub`",
        // If the machine uses boot loader specification entries, grubby changes each entry. The file is used only for
        // new kernels.
        BootLoader::Grub if is(&["rhel", "fedora", "amzn"]) && !is(&["azurelinux"]) => {
            let words: Vec<String> = words.iter().map(|word| in_entry(word)).collect();
            return format!("run `sudo grubby --update-kernel=ALL --args={}`", quoted(&words.join(" ")));
        }
        BootLoader::Grub if is(&["azurelinux", "suse", "opensuse", "sles"]) => {
            "write the boot menu again: `sudo grub2-mkconfig -o /boot/grub2/grub.cfg`"
        }
        BootLoader::Grub => "write the boot menu again (update-grub, or grub-mkconfig)",
    };
    step.to_owned()
}

/// An argument as GRUB reads it in a boot entry: a semicolon without quotes ends the command.
fn in_entry(word: &str) -> String {
    if word.contains(';') { format!("\"{word}\"") } else { word.to_owned() }
}

/// The step that adds arguments which are only in a file of another boot loader.
fn add_to(ctx: &Context<'_>, loader: BootLoader, words: &[&str]) -> String {
    let commands: Option<Vec<String>> =
        words.iter().map(|word| machine::argument_command(ctx.root, None, Some(*word))).collect();
    match commands.filter(|commands| !commands.is_empty()) {
        Some(commands) => format!("run `{}`", commands.join(" && ")),
        None => format!("add {} to the configuration of {}", words.join(" and "), place(loader)),
    }
}

/// The arguments that the boot loader should give to the kernel: not those that a later line of the file replaces.
fn in_effect_after(arguments: &[Argument]) -> Vec<&str> {
    let is_last = |argument: &&Argument| !argument.of_another_loader && !argument.is_replaced;
    let last: Vec<&str> = arguments.iter().filter(is_last).map(|argument| argument.word.as_str()).collect();
    if last.is_empty() { arguments.iter().map(|argument| argument.word.as_str()).collect() } else { last }
}

/// The source of a boot loader's kernel arguments.
const fn place(loader: BootLoader) -> &'static str {
    match loader {
        BootLoader::Grub => "GRUB (/etc/default/grub)",
        BootLoader::SystemdBoot => "systemd-boot (/etc/kernel/cmdline)",
        BootLoader::Kernelstub => "kernelstub (sudo kernelstub --add-options)",
        BootLoader::RpmOstree => "rpm-ostree (rpm-ostree kargs --append)",
        BootLoader::Extlinux => "extlinux (/boot/extlinux/extlinux.conf)",
    }
}

/// The initramfs of the next boot, and its modification time.
fn image(ctx: &Context<'_>) -> Option<(String, u64)> {
    let release =
        machine::default_entry(ctx.root).map(|(_, next)| next).or_else(|| machine::kernel_release(ctx.root))?;
    let path = machine::initramfs(ctx.root, &release)?;
    let made = ctx.root.modified_unix_s(&path)?;
    Some((path, made))
}

fn age(made: u64, file: u64, path: &str) -> String {
    let apart = units::duration(made.abs_diff(file).saturating_mul(1_000_000_000));
    if made < file {
        format!("created {apart} before {path} was changed")
    } else {
        format!("created after {path} was changed")
    }
}

/// Options that are in effect although the initramfs is older. If the driver is loaded from the initramfs, the next
/// boot uses older options. No file shows whether it is.
fn older_image(ctx: &Context<'_>, options: &[Line]) -> Option<Judged> {
    let options: Vec<&Line> = options.iter().filter(|option| option.effect == Effect::There).collect();
    let (image, made) = if options.is_empty() { None } else { image(ctx) }?;
    let later: Vec<(&Line, u64)> = options
        .into_iter()
        .filter_map(|option| Some((option, ctx.root.modified_unix_s(&option.path)?)))
        .filter(|(_, file)| *file > made)
        .collect();
    let how = if image_host::replaces(ctx, FixId::Initramfs) {
        Advice::from(capitalised(&rebuild_initramfs(ctx.root)))
    } else {
        Advice::run(FixId::Initramfs)
    };
    let mut judged = Judged::info(ID, "module options are in effect, but the older initramfs may not contain them")
        .advice(how.text(", so that they stay in effect."));
    for (option, file) in &later {
        judged = judged.found(&image, age(made, *file, &option.path)).found(&option.path, &option.line);
    }
    (!later.is_empty()).then_some(judged)
}

/// The options in modprobe.d for the relevant drivers.
fn options(ctx: &Context<'_>) -> Vec<Line> {
    let mut out = Vec::new();
    for name in ctx.root.entries(FOLDER).unwrap_or_default().into_iter().filter(|name| name.ends_with(".conf")) {
        let path = format!("{FOLDER}/{name}");
        let Ok(text) = ctx.root.read_text(&path) else { continue };
        for line in text.lines().map(str::trim).filter(|line| line.starts_with("options")) {
            let line: String = line.split_whitespace().collect::<Vec<_>>().join(" ");
            let effect = effect(ctx, &line);
            out.push(Line { path: path.clone(), line, effect });
        }
    }
    out
}

/// Whether a reboot gives a parameter this value: no later line and no kernel argument sets another one.
fn is_in_force(ctx: &Context<'_>, module: &str, parameter: &str, value: &str) -> bool {
    machine::modprobe::in_force(ctx.root, module, parameter).is_some_and(|set| set.value.contains(value))
}

fn effect(ctx: &Context<'_>, line: &str) -> Effect {
    let known = |there: Option<bool>| match there {
        Some(true) => Effect::There,
        Some(false) => Effect::Waits,
        None => Effect::Unknown,
    };
    let driver = driver_option(ctx, line);
    if driver == Effect::Waits {
        return driver;
    }
    if line.starts_with("options nvidia ") && line.contains("RMForceStaticBar1=1") {
        if !is_in_force(ctx, "nvidia", "NVreg_RegistryDwords", "RMForceStaticBar1=1") {
            return driver;
        }
        let params = ctx.root.read_text("/proc/driver/nvidia/params").ok();
        let set = machine::modprobe::in_force(ctx.root, "nvidia", "NVreg_RegistryDwords");
        // The driver can have the list and not know its keys, because their separator is wrong.
        let is_loaded =
            |params: &str| set.is_some_and(|set| set.value.trim_matches('"') == machine::registry::loaded_list(params));
        return known(params.map(|params| {
            machine::registry::all_have(ctx.root, &params, "RMForceStaticBar1", 1) || is_loaded(&params)
        }));
    }
    if line.starts_with("options nvme_core ") && line.contains("multipath=N") {
        // An option of a built-in module never takes effect.
        if !is_in_force(ctx, "nvme_core", "multipath", "N")
            || machine::built_in(ctx.root, "nvme_core", "CONFIG_NVME_CORE").is_some()
        {
            return driver;
        }
        let now = ctx.root.read_text("/sys/module/nvme_core/parameters/multipath").ok();
        return match now.as_deref().map(str::trim) {
            Some("Y") => Effect::Waits,
            Some("N") => Effect::There,
            _ => Effect::Unknown,
        };
    }
    driver
}

/// A number as the kernel reads it: decimal, or octal with a leading 0. The driver prints the mode 0660 as 432.
fn kernel_number(text: &str) -> Option<u64> {
    let text = text.trim_matches('"');
    match text.strip_prefix('0').filter(|octal| !octal.is_empty()) {
        Some(octal) => u64::from_str_radix(octal, 8).ok(),
        None => text.parse().ok(),
    }
}

/// The effect of a line that sets numeric options of the NVIDIA driver: compares `NVreg_EnableStreamMemOPs=1` with
/// `EnableStreamMemOPs: 0`.
fn driver_option(ctx: &Context<'_>, line: &str) -> Effect {
    if !line.starts_with("options nvidia ") {
        return Effect::Unknown;
    }
    let Ok(params) = ctx.root.read_text("/proc/driver/nvidia/params") else { return Effect::Unknown };
    let mut effect = Effect::Unknown;
    for (name, wanted) in line.split(' ').filter_map(|word| word.strip_prefix("NVreg_")?.split_once('=')) {
        let now = params.lines().find_map(|l| l.split_once(':').filter(|(key, _)| *key == name)).map(|(_, v)| v.trim());
        match now.and_then(|now| Some((kernel_number(now)?, kernel_number(wanted)?))) {
            Some((now, wanted)) if now != wanted => return Effect::Waits,
            Some(_) => effect = Effect::There,
            None => {}
        }
    }
    effect
}

/// The kernel of the next boot, if it is not the running one or lacks a module. A module is often missing for a kernel that
/// an update installed.
fn next_kernel(ctx: &Context<'_>) -> Option<Judged> {
    let running = machine::kernel_release(ctx.root)?;
    let judged = if let Some(unready) = machine::unready_kernel(ctx.root) {
        let summary =
            format!("{} is not built for Linux {}, the kernel of the next boot", unready.lacking(), unready.release);
        let judged = Judged::warn(ID, summary).advice(next_boot::prepare(ctx.root, &unready));
        if unready.release == running { return Some(judged.found("modinfo nvidia", "no such module")) } else { judged }
    } else {
        let next = machine::next_kernel_release(ctx.root).filter(|next| *next != running)?;
        Judged::info(ID, format!("the next boot uses Linux {next}; {running} runs now"))
    };
    Some(match machine::default_entry(ctx.root) {
        Some((saved, next)) => judged
            .found(machine::GRUB_ENVIRONMENT, format!("saved_entry={saved}"))
            .found(format!("/boot/loader/entries/{saved}.conf"), format!("version {next}")),
        None => match machine::grub_value(&machine::grub_files(ctx.root), "GRUB_DEFAULT") {
            Some((path, value)) => judged.found(path, format!("GRUB_DEFAULT={value}: the newest kernel in /boot")),
            None => judged.found(GRUB, "no line GRUB_DEFAULT: the newest kernel in /boot"),
        },
    })
}

/// A kernel argument in a file that is not in effect.
struct Argument {
    path: String,
    /// The argument.
    word: String,
    /// The argument, and the reason if it has no effect.
    text: String,
    /// Whether a later line replaces it.
    is_replaced: bool,
    /// Whether the file belongs to a boot loader that this machine does not use.
    of_another_loader: bool,
    /// Whether GRUB drops it or a part of it, because a semicolon has no quotes.
    is_cut: bool,
}

/// Whether an argument is relevant: it opens a route. One that closes a route must not be given to the kernel.
fn matters(word: &str) -> bool {
    const WORDS: [&str; 9] = [
        KEYS,
        "intel_iommu=",
        "amd_iommu=",
        "iommu=",
        "iommu.passthrough=",
        "pci=disable_acs_redir",
        "nokaslr",
        "nvme_core.multipath=",
        "rootflags=data=",
    ];
    const CLOSING: [&str; 8] = [
        "intel_iommu=on",
        "amd_iommu=on",
        "amd_iommu=force",
        "iommu=nopt",
        "nvme_core.multipath=Y",
        "nvme_core.multipath=1",
        "rootflags=data=writeback",
        "rootflags=data=journal",
    ];
    WORDS.iter().any(|known| word.starts_with(known)) && !CLOSING.iter().any(|known| word.starts_with(known))
}

/// The file that has such an argument, and the remaining steps. `None` if no file of the machine's boot loader has one, or
/// if it is in effect.
pub(crate) fn waiting_word(ctx: &Context<'_>, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    let is_whole = |argument: &Argument| !argument.of_another_loader && !argument.is_cut;
    let argument = arguments(ctx).into_iter().find(|argument| is_whole(argument) && is_wanted(&argument.text))?;
    let loader = machine::boot_loader(ctx.root).map_or(BootLoader::Grub, |boot| boot.loader);
    let Argument { path, word, .. } = argument;
    Some(format!("{word} is in {path}: {}, then reboot.", menu(ctx, loader, &[word.as_str()])))
}

/// The registry keys of the driver in a file of the boot loader that do not reach the kernel completely: the file and the
/// reason.
pub(crate) fn cut_keys(ctx: &Context<'_>) -> Option<(String, String)> {
    let argument = arguments(ctx).into_iter().find(|argument| argument.is_cut && argument.text.starts_with(KEYS))?;
    Some((argument.path, argument.text))
}

/// Boot loader arguments that are not on the command line of the running kernel.
fn arguments(ctx: &Context<'_>) -> Vec<Argument> {
    let Ok(cmdline) = ctx.root.read_text("/proc/cmdline") else { return Vec::new() };
    // GRUB removes quotes, and other boot loaders keep them.
    let plain = |word: &str| word.replace(['"', '\''], "");
    let now: Vec<String> = cmdline.split_whitespace().map(plain).collect();
    let now: Vec<&str> = now.iter().map(String::as_str).collect();
    let waits = |word: &String| matters(word) && !now.contains(&word.as_str());
    let words = |path: &str, split: fn(&str) -> Vec<String>| -> Vec<String> {
        let found = ctx.root.read_text(path).map(|text| split(&text)).unwrap_or_default();
        found.iter().map(|word| plain(word)).filter(waits).collect()
    };
    let grub = grub_arguments(ctx, &now);
    let installed = words(CMDLINE, |text| text.split_whitespace().map(str::to_owned).collect());
    let stub = words(KERNELSTUB, kernelstub_words);
    // Reading the boot loader from the firmware is slow, so it is done only if needed.
    if grub.is_empty() && installed.is_empty() && stub.is_empty() {
        return Vec::new();
    }
    let loader = machine::boot_loader(ctx.root).map_or(BootLoader::Grub, |boot| boot.loader);
    let is_grub = loader == BootLoader::Grub;
    let mut out: Vec<Argument> = grub
        .into_iter()
        .map(|(path, word, by)| {
            let is_cut = is_grub && by.is_none() && !word.arrives;
            let is_replaced = by.is_some();
            let text = match by {
                _ if !is_grub => {
                    format!("{}, without effect: this machine uses the arguments of {}", word.text, place(loader))
                }
                Some(by) => format!("{}, without effect: {by} sets {DEFAULT} again", word.text),
                None if is_cut => format!("{}, cut: GRUB ends the command at a semicolon without quotes", word.text),
                None => word.text.clone(),
            };
            Argument { path, word: word.text, text, is_replaced, of_another_loader: !is_grub, is_cut }
        })
        .collect();
    let (path, own) = match loader {
        BootLoader::SystemdBoot => (CMDLINE, installed),
        BootLoader::Kernelstub => (KERNELSTUB, stub),
        _ => return out,
    };
    let whole = |text: String| Argument {
        path: path.to_owned(),
        word: text.clone(),
        text,
        is_replaced: false,
        of_another_loader: false,
        is_cut: false,
    };
    out.extend(own.into_iter().map(whole));
    out
}

/// The user's arguments in kernelstub's configuration.
fn kernelstub_words(text: &str) -> Vec<String> {
    let document: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let listed = document.pointer("/user/kernel_options").and_then(serde_json::Value::as_array);
    listed.into_iter().flatten().filter_map(|word| Some(word.as_str()?.to_owned())).collect()
}

/// Relevant arguments in GRUB's settings that are not on the command line of the running kernel. GRUB reads the files in
/// `/etc/default/grub.d` after `/etc/default/grub`, and they can replace the line.
fn grub_arguments(ctx: &Context<'_>, now: &[&str]) -> Vec<(String, GrubArgument, Option<String>)> {
    // The file, the argument, and the later file that replaced the line.
    let mut out: Vec<(String, GrubArgument, Option<String>)> = Vec::new();
    let mut kept = 0;
    if !ctx.root.exists(GRUB) {
        return out;
    }
    for (path, text) in machine::grub_files(ctx.root) {
        for line in machine::grub_lines(&text) {
            let waits = |argument: &GrubArgument| matters(&argument.text) && !now.contains(&argument.text.as_str());
            let words = line.arguments.into_iter().filter(waits);
            if line.name != DEFAULT {
                // No file replaces the other variable, so its arguments are first.
                for word in words {
                    out.insert(kept, (path.clone(), word, None));
                    kept += 1;
                }
                continue;
            }
            if !line.adds {
                out.iter_mut().skip(kept).for_each(|(.., by)| *by = Some(path.clone()));
            }
            out.extend(words.map(|word| (path.clone(), word, None)));
        }
    }
    out
}
