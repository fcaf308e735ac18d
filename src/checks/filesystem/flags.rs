//! File flags that prevent a direct route: compression, encryption, fs-verity, a journal of the data and protection
//! against changes.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::filesystem::file::chattr;
use crate::checks::judged::{Cost, DIRECT, Judged};
use crate::checks::verdict::elsewhere;
use crate::core::CheckId;
use crate::machine::{self, PathFacts};
use crate::text::quoted;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// `FS_VERITY_FL`. The kernel verifies the pages of such a file, so it reads them through the page cache
/// (Documentation/filesystems/fsverity.rst).
const VERITY: &str = "protected by fs-verity";
/// `FS_JOURNAL_DATA_FL`. ext4 reads such a file through the page cache (`ext4_dio_supported`).
const JOURNALED: &str = "data-journaled";
/// The flags (include/uapi/linux/fs.h) with their words.
const BAD: [(u64, &str); 6] = [
    (0x4, "compressed"),
    (0x10, "immutable"),
    (0x20, "append-only"),
    (0x800, "encrypted"),
    (0x4000, JOURNALED),
    (0x0010_0000, VERITY),
];

pub(super) fn inode_flags(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    let flags = facts.inode_flags?;
    let bad: Vec<&str> = BAD.into_iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| name).collect();
    let judged = if bad.is_empty() {
        Judged::pass(CheckId::InodeFlags, "no flag that prevents a direct route")
    } else {
        Judged::lack(CheckId::InodeFlags, format!("the file is {}: such files have no direct route", bad.join(" and ")))
            .missing(Cost::Root, DIRECT)
            .advice(inode_advice(ctx, &bad, facts))
    };
    Some(judged.found("FS_IOC_GETFLAGS", format!("{flags:#x}")))
}

/// How to remove file flags that prevent a direct route.
fn inode_advice(ctx: &Context<'_>, bad: &[&str], facts: &PathFacts) -> Advice {
    let is_stored = |flag: &&&str| matches!(**flag, "compressed" | "encrypted" | VERITY);
    let stored: Vec<&str> = bad.iter().filter(is_stored).copied().collect();
    // A copy never has fs-verity.
    let kept: Vec<&str> = stored.iter().filter(|flag| **flag != VERITY).copied().collect();
    let copy: Option<Advice> = match kept.as_slice() {
        [] if stored.is_empty() => None,
        [] => Some(copy_without_verity(ctx, facts)),
        ["encrypted"] => Some(unencrypted_copy(ctx, facts)),
        [one] => Some(format!("Copy the file to a directory whose files are not {one}.").into()),
        _ => Some("Copy the file to a directory whose files are neither compressed nor encrypted.".into()),
    };
    let options: Vec<&str> = [("append-only", "-a"), ("immutable", "-i"), (JOURNALED, "-j")]
        .into_iter()
        .filter(|(flag, _)| bad.contains(flag))
        .map(|(_, option)| option)
        .collect();
    let change = || Advice::run(chattr(facts, &options.join(" ")));
    match copy {
        Some(copy) if options.is_empty() => copy,
        Some(copy) => change().text(". ").and(copy),
        None if options == ["-j"] => change().text(", which ends the journal of the data of these files."),
        None => change().text(". A read-only mount protects the files and has a direct route."),
    }
}

/// How to copy a model next to itself. The copy has no fs-verity.
fn copy_without_verity(ctx: &Context<'_>, facts: &PathFacts) -> Advice {
    const WHY: &str = "fs-verity cannot be removed from a file, but a copy does not have it. ";
    let real = facts.real_path.as_deref().unwrap_or(&facts.path);
    let folder = if is_file(facts) { real.parent() } else { Some(real) };
    // The directory next to a mount point is on another file system.
    let is_inside = |folder: &&Path| facts.mount_point.as_deref().is_some_and(|mount| *folder != mount);
    let copy = folder
        .filter(is_inside)
        .filter(|_| machine::container(ctx.root).is_none())
        .and_then(|folder| Some(elsewhere::free_folder(ctx.root, folder.parent()?, folder.file_name()?, &[folder])));
    let Some(copy) = copy else {
        return format!("{WHY}Copy the model to another directory of the same file system, and load it from there.")
            .into();
    };
    Advice::from(WHY).text("Run ").command(copy_command(facts, real, &copy)).text(" and load the copy.")
}

/// The command that copies a file, or the files of a directory, to a new directory of this user.
fn copy_command(facts: &PathFacts, source: &Path, target: &Path) -> String {
    let source = source.to_string_lossy();
    let source =
        if is_file(facts) { quoted(&source).into_owned() } else { quoted(&format!("{source}/.")).into_owned() };
    let folder = quoted(&target.to_string_lossy()).into_owned();
    // mkdir fails if the directory exists, so files of others keep their content, owner and mode. A snapshot of the Hugging
    // Face cache consists of links to files in another directory.
    format!("sudo mkdir {folder} && sudo chown \"$USER\" {folder} && cp -rLn {source} {folder}/")
}

/// How to copy an encrypted model (fscrypt) to a directory with a direct route. The key is for directories, so another directory of
/// the same file system has none.
fn unencrypted_copy(ctx: &Context<'_>, facts: &PathFacts) -> Advice {
    const READABLE: &str = "The copy is readable without the key.";
    let Some(target) = target(ctx, facts) else {
        return format!(
            "Copy the model to an unencrypted directory on an ext4 or XFS file system of a local NVMe disk. {READABLE}"
        )
        .into();
    };
    let lost = elsewhere::loss_of_local_disks(ctx.root).map_or_else(String::new, |sentence| {
        format!(" {}", sentence.replacen("Its data", "The data of a local disk", 1))
    });
    Advice::from(format!(
        "Copy the model to {}, a new unencrypted directory on ext4 or XFS of a local NVMe disk: ",
        target.display()
    ))
    .command(copy_command(facts, &facts.path, &target))
    .text(format!(". {READABLE} Load the model from there.{lost}"))
}

/// Whether the path is a file, and not a directory with models.
fn is_file(facts: &PathFacts) -> bool {
    let real = facts.real_path.as_deref().unwrap_or(&facts.path);
    facts.tried_file.as_deref().is_none_or(|file| file == real || file == facts.path)
}

/// A new directory for the copy: on another mount of a local NVMe disk, or else on the present file system. `None` in a
/// container, which has only the directories of its start.
fn target(ctx: &Context<'_>, facts: &PathFacts) -> Option<PathBuf> {
    if machine::container(ctx.root).is_some() {
        return None;
    }
    let mine = facts.mount_point.as_deref()?;
    let folder = if is_file(facts) { facts.path.parent()? } else { facts.path.as_path() };
    let name = folder.file_name().map_or_else(|| OsString::from("models"), OsStr::to_os_string);
    let is_nvme = || {
        matches!(facts.filesystem.as_deref(), Some("ext4" | "xfs"))
            && machine::disks(facts).iter().any(|disk| disk.name.starts_with("nvme"))
    };
    let base = match elsewhere::place_for_model(ctx.root, Some(mine)) {
        Some(other) => other,
        None if !is_nvme() => return None,
        None if mine == Path::new("/") => elsewhere::folder_on_root(ctx.root).to_path_buf(),
        None => mine.to_path_buf(),
    };
    // The directory with this name, or one above the model, can be the encrypted one.
    let real = facts.real_path.as_deref().unwrap_or(&facts.path);
    Some(elsewhere::free_folder(ctx.root, &base, &name, &[facts.path.as_path(), real]))
}
