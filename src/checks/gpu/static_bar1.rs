//! Checks whether BAR1 is mapped statically.

use crate::checks::advice::{Advice, rebuild_initramfs};
use crate::checks::context::Context;
use crate::checks::image_host;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::reboot_pending;
use crate::core::{CheckId, FixId, Route};
use crate::machine::{self, modprobe};

/// Whether a file contains this text.
fn says(ctx: &Context<'_>, path: &str, words: &str) -> bool {
    ctx.root.read_text(path).is_ok_and(|text| text.contains(words))
}

/// The driver's parameter with the registry keys.
const PARAMETER: &str = "NVreg_RegistryDwords";

/// How to set keys that the list on the kernel command line lacks.
pub(crate) fn moved(ctx: &Context<'_>) -> String {
    format!(
        "Move the registry keys from the kernel command line, which overrides modprobe.d, to /etc/modprobe.d. Then {} and reboot.",
        rebuild_initramfs(ctx.root)
    )
}

/// The finding if a list of registry keys in force lacks these keys, although another file sets them, or if the list on
/// the kernel command line lacks them. The driver uses only one list.
fn overridden(ctx: &Context<'_>, absent: &[&str]) -> Option<Judged> {
    const ID: CheckId = CheckId::GpuStaticBar1;
    let set = modprobe::in_force(ctx.root, "nvidia", PARAMETER)?;
    if absent.iter().all(|key| set.value.contains(key)) {
        return None;
    }
    let lacking = machine::registry::absent_after_reboot(ctx.root);
    let judged = |summary: String| {
        Judged::lack(ID, summary)
            .found(&set.source, format!("{PARAMETER}={}", set.value))
            .missing(Cost::Reboot, &[Route::P2pdma])
            .fix(FixId::P2pdmaRegistryKeys)
    };
    if set.source == modprobe::COMMAND_LINE {
        return Some(match reboot_pending::cut_keys(ctx) {
            Some((path, text)) => judged(format!("the kernel gets only a part of the registry keys in {path}"))
                .found(path, text)
                .advice(moved(ctx)),
            None => {
                judged(format!("the kernel command line sets nvidia.{PARAMETER} without {}", lacking.join(" and ")))
                    .advice(moved(ctx))
            }
        });
    }
    let files = modprobe::files(ctx.root);
    let settings = modprobe::settings(&files, "nvidia", PARAMETER);
    let earlier = settings.iter().find(|setting| absent.iter().all(|key| setting.value.contains(key)))?;
    let earlier = &files[earlier.file].path;
    Some(judged(format!("{} overrides the registry keys of {earlier}", set.source)).advice(format!(
        "Add {} to {PARAMETER} in {}, {}, then reboot. The driver reads only the last list.",
        lacking.join(";"),
        set.source,
        rebuild_initramfs(ctx.root)
    )))
}

/// The finding if a blank cuts the list in force, because it has no quotes: the driver gets only the keys before it.
fn cut(ctx: &Context<'_>) -> Option<Judged> {
    let (path, lost) = machine::registry::cut_list(ctx.root)?;
    if machine::registry::absent_after_reboot(ctx.root).is_empty() {
        return None;
    }
    let how = format!(
        "Write the registry keys in {path} as one list in quotes ({PARAMETER}=\"KEY=1;KEY=1;\"), {}, then reboot.",
        rebuild_initramfs(ctx.root)
    );
    Some(
        Judged::lack(CheckId::GpuStaticBar1, format!("a blank without quotes cuts the registry keys in {path}"))
            .found(path, format!("the kernel does not give {} to {PARAMETER}", lost.join(" and ")))
            .missing(Cost::Reboot, &[Route::P2pdma])
            .fix(FixId::P2pdmaRegistryKeys)
            .advice(how),
    )
}

/// The finding if the list in force has another separator than the semicolon: the driver knows none of its keys.
fn separated(ctx: &Context<'_>) -> Option<Judged> {
    let set = modprobe::in_force(ctx.root, "nvidia", PARAMETER)?;
    let separator = machine::registry::other_separator(&set.value)?;
    let absent = machine::registry::absent_after_reboot(ctx.root);
    if absent.is_empty() {
        return None;
    }
    let is_argument = set.source == modprobe::COMMAND_LINE;
    let place = if is_argument { "the kernel command line" } else { set.source.as_str() };
    let unwritten: Vec<&str> = absent.iter().map(String::as_str).filter(|key| !set.value.contains(key)).collect();
    let add = if unwritten.is_empty() { String::new() } else { format!(", add {}", unwritten.join(" and ")) };
    let how = format!(
        "Put semicolons between the registry keys in {}{add}, {}, then reboot.",
        set.source,
        rebuild_initramfs(ctx.root)
    );
    Some(
        Judged::lack(
            CheckId::GpuStaticBar1,
            format!("{place} separates registry keys by {separator}; the driver needs semicolons"),
        )
        .found(&set.source, format!("{PARAMETER}={}", set.value))
        .missing(Cost::Reboot, &[Route::P2pdma])
        .fix(FixId::P2pdmaRegistryKeys)
        .advice(if is_argument { moved(ctx) } else { how }),
    )
}

/// The command that sets the registry keys.
fn set_keys(ctx: &Context<'_>) -> Advice {
    Advice::set_option(ctx.root, &machine::registry::option_line(ctx.root), "/etc/modprobe.d/nvidia-p2pdma.conf")
}

/// The remaining steps if a file of the boot loader has all keys, but the kernel was started without them.
fn in_boot_loader(ctx: &Context<'_>) -> Option<String> {
    let keys = machine::registry::p2pdma_keys(ctx.root);
    let has_all = |word: &str| {
        let list = word.strip_prefix(reboot_pending::KEYS).map(|list| format!("RegistryDwords: \"{list}\""));
        list.is_some_and(|list| {
            let has = |(key, value): &(&str, &str)| {
                machine::registry::number(&list, key, None).map(|number| number.to_string()).as_deref() == Some(value)
            };
            keys.iter().all(has)
        })
    };
    reboot_pending::waiting_word(ctx, has_all)
}

/// The keys that no file sets for a driver that is not loaded. They need the reboot that the driver needs, so they are
/// set before it.
pub(crate) fn unset_keys(ctx: &Context<'_>) -> Option<Judged> {
    // Nothing shows that no file sets them if the directory cannot be listed, or if a capture has no directory /etc.
    let is_known = match ctx.root.entries(modprobe::LOCAL) {
        Ok(_) => true,
        Err(machine::Unread::Missing) => ctx.root.entries("/etc").is_ok_and(|names| names.len() > 1),
        Err(_) => false,
    };
    if !is_known || !ctx.gpu_on_bus() || machine::container(ctx.root).is_some() {
        return None;
    }
    if let Some(judged) = cut(ctx).or_else(|| separated(ctx)) {
        return Some(judged);
    }
    let absent = machine::registry::absent_after_reboot(ctx.root);
    // The plan may have no commands of this distribution.
    let how = if image_host::replaces(ctx, FixId::P2pdmaRegistryKeys) {
        set_keys(ctx)
    } else {
        "Set the registry keys in /etc/modprobe.d".into()
    };
    (!absent.is_empty()).then(|| {
        Judged::lack(CheckId::GpuStaticBar1, format!("no file sets {} for the driver", absent.join(" and ")))
            .found(modprobe::LOCAL, format!("{PARAMETER} does not have {}", absent.join(" and ")))
            .missing(Cost::Reboot, &[Route::P2pdma])
            .fix(FixId::P2pdmaRegistryKeys)
            .advice(how.text(" before the reboot that loads the driver."))
    })
}

/// P2PDMA on x86 needs a statically mapped BAR1.
pub(crate) fn static_bar1(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::GpuStaticBar1;
    match ctx.root.read_text(machine::registry::PARAMS_FILE) {
        Err(why) => Judged::na(ID, "the driver's parameters could not be read")
            .unread(machine::registry::PARAMS_FILE, &why)
            .unknown(&[Route::P2pdma]),
        Ok(text) => {
            let line = machine::registry::lines(&text);
            let absent: Vec<&str> =
                [("RMForceStaticBar1=1", "RMForceStaticBar1"), ("RmForceDisableIomapWC=1", "RmForceDisableIomapWC")]
                    .into_iter()
                    .filter(|(_, key)| !machine::registry::all_have(ctx.root, &text, key, 1))
                    .map(|(words, _)| words)
                    .collect();
            if absent.is_empty() {
                Judged::pass(ID, "BAR1 is mapped statically").found(machine::registry::PARAMS_FILE, line)
            } else {
                if let Some(how) = in_boot_loader(ctx) {
                    return Judged::lack(ID, format!("the driver lacks {}", absent.join(" and ")))
                        .found(machine::registry::PARAMS_FILE, line)
                        .missing(Cost::Reboot, &[Route::P2pdma])
                        .advice(how);
                }
                if let Some(judged) = cut(ctx).or_else(|| separated(ctx)).or_else(|| overridden(ctx, &absent)) {
                    return judged.found(machine::registry::PARAMS_FILE, line);
                }
                let written = reboot_pending::written(ctx, "options nvidia ", "RMForceStaticBar1=1")
                    .filter(|written| absent.iter().all(|key| says(ctx, &written.path, key)));
                let lack = format!("the driver lacks {}", absent.join(" and "));
                // Missing keys are added before the initramfs is rebuilt, so that one reboot is enough.
                let incomplete = machine::registry::absent_after_reboot(ctx.root).join(" and ");
                let lack = match &written {
                    Some(written) if incomplete.is_empty() => format!("{lack}, although {} sets it", written.path),
                    Some(written) => format!("{} waits for a reboot, but lacks {incomplete}", written.path),
                    None => lack,
                };
                let judged = Judged::lack(ID, lack)
                    .found(machine::registry::PARAMS_FILE, line)
                    .missing(Cost::Reboot, &[Route::P2pdma]);
                match written {
                    Some(written) if incomplete.is_empty() => written.finish(judged),
                    Some(written) => judged.fix(FixId::P2pdmaRegistryKeys).advice(format!(
                        "Add {incomplete} to the registry keys in {}, then {}, then reboot.",
                        written.path,
                        rebuild_initramfs(ctx.root)
                    )),
                    None => {
                        let judged = judged.fix(FixId::P2pdmaRegistryKeys);
                        match modprobe::ignored(ctx.root, "nvidia", "NVreg_RegistryDwords", &absent) {
                            Some(file) => reboot_pending::without_suffix(ctx, judged, &file),
                            // The plan with the line cannot be applied in a container.
                            None if machine::container(ctx.root).is_some() => judged.advice(format!(
                                "Set `{}` in /etc/modprobe.d/nvidia-p2pdma.conf, rebuild the initramfs, then reboot.",
                                machine::registry::option_line(ctx.root)
                            )),
                            // The plan has no commands of this distribution.
                            None if image_host::replaces(ctx, FixId::P2pdmaRegistryKeys) => {
                                judged.advice(set_keys(ctx).text(", then reboot."))
                            }
                            None => judged.advice(format!(
                                "Set the registry keys in /etc/modprobe.d, {}, then reboot.",
                                rebuild_initramfs(ctx.root)
                            )),
                        }
                    }
                }
            }
        }
    }
}
