//! Sentences about what an undo restores.

use super::journal::Entry;
use super::spec::{self, Undo};
use crate::core::{Change, FixId, FixPlan, Needs};
use crate::text::quoted_line;

/// The sentence for a plan. `FixPlan::undo` contains the instructions for manual work before this call.
pub(super) fn of_plan(plan: &FixPlan) -> String {
    let by_hand = plan.undo.trim_end_matches('.');
    let stays = stays(plan.id);
    if !plan.applies() {
        let mut parts = vec!["gds-top does not apply this fix, so it restores nothing".to_owned()];
        parts.extend((!by_hand.is_empty()).then(|| format!("By hand: {by_hand}")));
        parts.extend(stays.filter(|_| !plan.changes.is_empty()));
        return sentences(&parts);
    }
    let files = plan.changes.iter().filter_map(|change| match change {
        Change::WriteFile { path, before, .. } => Some((path.display().to_string(), before.is_some())),
        Change::Run { .. } => None,
    });
    let mut parts = restored(plan.id, files, &plan.undo_commands);
    if plan.needs == Needs::Reboot && !parts.is_empty() {
        parts.push("Reboot afterwards".to_owned());
    }
    if parts.is_empty() && stays.is_none() {
        parts.push("gds-top restores nothing".to_owned());
    }
    parts.extend(stays);
    parts.extend(left_by(plan.id, commands(plan.changes.iter())));
    parts.extend((!by_hand.is_empty()).then(|| format!("By hand: {by_hand}")));
    sentences(&parts)
}

/// The commands of changes.
pub(super) fn commands<'a>(changes: impl Iterator<Item = &'a Change>) -> impl Iterator<Item = &'a [String]> {
    changes.filter_map(|change| match change {
        Change::Run { argv } => Some(argv.as_slice()),
        Change::WriteFile { .. } => None,
    })
}

/// The effects of commands for the kernel of the next boot, which no undo restores. `None` if there are none.
pub(super) fn left_by<'a>(id: FixId, commands: impl Iterator<Item = &'a [String]>) -> Option<String> {
    let (mut has_modules, mut has_default) = (false, false);
    for argv in commands {
        let program = argv.iter().find(|word| *word != "sudo").map_or("", String::as_str);
        has_modules |=
            matches!(program, "dkms" | "akmods") || argv.iter().any(|word| word.starts_with("linux-modules-"));
        let sets_default =
            |word: &str| ["set-default", "GRUB_DEFAULT", "kernelstub "].iter().any(|part| word.contains(part));
        has_default |= argv.iter().any(|word| sets_default(word));
    }
    let modules = (has_modules && !spec::installs_modules(id)).then_some("installed packages and built modules");
    let default = has_default.then_some("the kernel that starts by default");
    let left: Vec<&str> = modules.into_iter().chain(default).collect();
    (!left.is_empty()).then(|| format!("Not restored: {}", left.join(" and ")))
}

/// The sentence for an applied fix.
pub(super) fn of_applied(entry: &Entry) -> String {
    let files = entry.files.iter().map(|file| (file.path.display().to_string(), file.before.is_some()));
    let mut parts = restored(entry.id, files, &entry.undo_commands);
    if parts.is_empty() {
        parts.push(
            "It only ran commands. Undo restores nothing; it only removes the fix from gds-top's journal".to_owned(),
        );
    }
    parts.extend(stays(entry.id));
    parts.extend(left_by(entry.id, entry.commands.iter().map(|command| command.argv.as_slice())));
    sentences(&parts)
}

fn restored(id: FixId, files: impl Iterator<Item = (String, bool)>, undo_commands: &[Vec<String>]) -> Vec<String> {
    let (old, new): (Vec<_>, Vec<_>) = files.partition(|(_, existed)| *existed);
    let list = |files: Vec<(String, bool)>| files.into_iter().map(|(path, _)| path).collect::<Vec<_>>().join(", ");
    let mut done = Vec::new();
    if !old.is_empty() {
        done.push(format!("restores {} byte for byte", list(old)));
    }
    if !new.is_empty() {
        done.push(format!("removes {}", list(new)));
    }
    if !undo_commands.is_empty() {
        let lines: Vec<String> = undo_commands.iter().map(|argv| quoted_line(argv)).collect();
        done.push(format!("runs '{}'", lines.join("; ")));
    }
    if done.is_empty() { Vec::new() } else { vec![format!("'gds-top fix --undo {id}' {}", done.join(" and "))] }
}

fn stays(id: FixId) -> Option<String> {
    match spec::of(id).undo {
        Undo::Stays(what) => Some(format!("Not restored: {what}")),
        Undo::All | Undo::NotNeeded => None,
    }
}

fn sentences(parts: &[String]) -> String {
    format!("{}.", parts.join(". "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_and_the_default_kernel_are_named_unless_the_fix_names_them() {
        const MODULES: &str = "installed packages and built modules";
        const DEFAULT: &str = "the kernel that starts by default";
        for (id, line, wanted) in [
            (FixId::P2pdmaRegistryKeys, "sudo dkms install nvidia/580.95.05 -k 6.14.0", Some(MODULES)),
            (FixId::Initramfs, "akmods --force --rebuild --kernels 6.14.0", Some(MODULES)),
            (FixId::IommuOff, "sudo apt-get install -y linux-modules-nvidia-580-open-6.14.0", Some(MODULES)),
            (FixId::IommuOff, "sudo grubby --set-default /boot/vmlinuz-6.14.0", Some(DEFAULT)),
            (FixId::NvfsInstall, "sudo bootctl set-default arch.conf", Some(DEFAULT)),
            (FixId::NvfsInstall, "sudo dkms autoinstall -k 6.14.0", None),
            (FixId::LibcufileInstall, "sudo apt-get install -y libcufile-13-0", None),
            (FixId::P2pdmaRegistryKeys, "sudo dracut --force --regenerate-all", None),
        ] {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let left = left_by(id, std::iter::once(argv.as_slice()));
            assert_eq!(left, wanted.map(|what| format!("Not restored: {what}")), "{id}: {line}");
        }
    }
}
