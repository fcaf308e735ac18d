//! Finds the lines in modprobe.d that set a parameter or a dependency of a module, and changes only these.

use super::parts::line_in;
use crate::core::Change;
use crate::machine::modprobe::{FOLDERS, Word, statements};
pub(super) use crate::machine::modprobe::{File, LOCAL, Setting, files, settings};
use crate::machine::{Root, Unread};
use std::path::PathBuf;

/// A path in `/etc/modprobe.d` for a file of gds-top. It has the usual name, unless the name would hide a file of a
/// package.
pub(super) fn own_path(root: &Root, name: &str) -> String {
    let is_packaged = FOLDERS.iter().skip(1).any(|folder| root.exists(format!("{folder}/{name}")));
    let path = format!("{LOCAL}/{name}");
    if is_packaged && !root.exists(&path) { format!("{LOCAL}/gds-top-{name}") } else { path }
}

/// The change that writes other content to the path of a file.
fn with(file: &File, after: String) -> Option<Change> {
    let before = Some(file.text.clone());
    (after != file.text).then(|| Change::WriteFile { path: PathBuf::from(&file.path), before, after, mode: 0o644 })
}

/// The changes that set `module PARAMETER=VALUE`. Other values are changed in place. If there is none, the parameter
/// is added to a statement of the module. If there is no statement, the file `own` gets a line. The list is empty if
/// the value is already in effect.
///
/// # Errors
/// If no line can set the value. The text is a part of a sentence.
pub(super) fn set_parameter(
    root: &Root,
    module: &str,
    (parameter, value): (&str, &str),
    is_set: fn(&str) -> bool,
    own: &str,
) -> Result<Vec<Change>, String> {
    let files = files(root);
    let settings = settings(&files, module, parameter);
    if settings.last().is_some_and(|setting| is_set(&setting.value)) {
        return Ok(Vec::new());
    }
    let wanted = format!("{parameter}={value}");
    let is_wrong = |setting: &&Setting| files[setting.file].is_local() && !is_set(&setting.value);
    let mut texts: Vec<String> = files.iter().map(|file| file.text.clone()).collect();
    // The changes start at the end, so that earlier positions stay valid.
    for setting in settings.iter().rev().filter(is_wrong) {
        texts[setting.file].replace_range(setting.place.clone(), &wanted);
    }
    // If a later file of a package overrides the line, a line after that file is needed.
    let overruling = settings.last().filter(|setting| !files[setting.file].is_local()).map(|setting| setting.file);
    if settings.is_empty() || overruling.is_some() {
        let behind = overruling.map_or(0, |file| file + 1);
        let last = (behind..files.len())
            .rev()
            .filter(|&file| files[file].is_local())
            .find_map(|file| Some((file, statements(&texts[file], "options", module).pop()?)));
        match last {
            Some((file, words)) => texts[file].insert_str(end(&words), &format!(" {wanted}")),
            None => {
                let after = overruling.map(|file| files[file].name().to_owned());
                return Ok(changed(&files, texts)
                    .into_iter()
                    .chain([own_line(root, own, after, &format!("options {module} {wanted}"))?])
                    .collect());
            }
        }
    }
    Ok(changed(&files, texts))
}

/// A new line in a file of gds-top. The name of the file sorts after `after`.
fn own_line(root: &Root, own: &str, after: Option<String>, line: &str) -> Result<Change, String> {
    let is_behind = |path: &str| after.as_deref().is_none_or(|after| path.rsplit('/').next() > Some(after));
    let path = [own_path(root, own), own_path(root, &format!("zz-{own}"))]
        .into_iter()
        .find(|path| is_behind(path))
        .ok_or_else(|| {
            format!("the file {} of a package is read after all files in {LOCAL}", after.unwrap_or_default())
        })?;
    match root.read_text(&path) {
        Ok(_) | Err(Unread::Missing) => {}
        Err(why) => return Err(format!("{path} {why}")),
    }
    line_in(root, &path, line).ok_or_else(|| format!("{path} already has the line '{line}'"))
}

/// The end of a statement, in front of a trailing comment.
fn end(words: &[Word]) -> usize {
    let comment = words.iter().position(|word| word.text.starts_with('#')).unwrap_or(words.len());
    words[..comment].last().map_or(0, |word| word.place.end)
}

fn changed(files: &[File], texts: Vec<String>) -> Vec<Change> {
    files.iter().zip(texts).filter_map(|(file, after)| with(file, after)).collect()
}

/// The change that makes modprobe load these modules before another one. Only the first `softdep` statement of a
/// module is used (kmod), so it is extended.
///
/// # Errors
/// If no line can do this. The text is a part of a sentence.
pub(super) fn load_before(root: &Root, module: &str, before: &[&str], own: &str) -> Result<Option<Change>, String> {
    let files = files(root);
    let first =
        files.iter().find_map(|file| Some((file, statements(&file.text, "softdep", module).into_iter().next()?)));
    let Some((file, words)) = first else {
        let line = format!("softdep {module} pre: {}", before.join(" "));
        return own_line(root, own, None, &line).map(Some);
    };
    let listed = |word: &&str| words.iter().skip(2).take_while(|w| w.text != "post:").any(|w| w.text == **word);
    let missing: Vec<&str> = before.iter().filter(|word| !listed(word)).copied().collect();
    if missing.is_empty() {
        return Ok(None);
    }
    if !file.is_local() {
        return Err(format!(
            "{} has a softdep of {module} without {}, and modprobe uses only the first one: copy the file to {LOCAL} under the same name and add {} to \
             its line",
            file.path,
            missing.join(" "),
            missing.join(" ")
        ));
    }
    let pre = words.iter().find(|word| word.text == "pre:");
    let (at, added) = match pre {
        Some(pre) => (pre.place.end, format!(" {}", missing.join(" "))),
        None => (words[1].place.end, format!(" pre: {}", missing.join(" "))),
    };
    let mut after = file.text.clone();
    after.insert_str(at, &added);
    Ok(with(file, after))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A directory tree with these files.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("etc/modprobe.d")).unwrap();
        for (path, text) in files {
            let path = folder.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::tree(folder.path()).unwrap();
        (folder, root)
    }

    fn is_off(value: &str) -> bool {
        value == "N"
    }

    fn multipath(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let (_keep, root) = tree(files);
        let changes = set_parameter(&root, "nvme_core", ("multipath", "N"), is_off, "nvme.conf").unwrap();
        let of = |change: Change| match change {
            Change::WriteFile { path, before, after, .. } => {
                let now = files.iter().find(|(known, _)| Path::new(known) == path).map(|(_, text)| (*text).to_owned());
                assert_eq!(before, now, "the diff is against the present content");
                (path.display().to_string(), after)
            }
            Change::Run { argv } => panic!("{argv:?}"),
        };
        changes.into_iter().map(of).collect()
    }

    fn one(path: &str, text: &str) -> Vec<(String, String)> {
        vec![(path.to_owned(), text.to_owned())]
    }

    const NVME: &str = "/etc/modprobe.d/nvme.conf";

    #[test]
    fn a_parameter_is_added_or_changed_and_every_other_byte_stays() {
        for (before, after) in [
            (
                "# cloud\noptions nvme poll_queues=8\noptions nvme_core io_timeout=4294967295 max_retries=10\n",
                "# cloud\noptions nvme poll_queues=8\noptions nvme_core io_timeout=4294967295 max_retries=10 multipath=N\n",
            ),
            ("options nvme_core multipath=Y io_timeout=255", "options nvme_core multipath=N io_timeout=255"),
            ("options nvme-core  io_timeout=255 # ours\n", "options nvme-core  io_timeout=255 multipath=N # ours\n"),
            (
                "options nvme_core \\\n  io_timeout=255 \\\n  multipath=1\n",
                "options nvme_core \\\n  io_timeout=255 \\\n  multipath=N\n",
            ),
            (
                "options nvme_core \\\n\tio_timeout=255\n#end\n",
                "options nvme_core \\\n\tio_timeout=255 multipath=N\n#end\n",
            ),
            ("options nvme poll_queues=8", "options nvme poll_queues=8\noptions nvme_core multipath=N\n"),
            ("# options nvme_core multipath=Y\n", "# options nvme_core multipath=Y\noptions nvme_core multipath=N\n"),
            ("options nvme_core_x multipath=Y\n", "options nvme_core_x multipath=Y\noptions nvme_core multipath=N\n"),
            ("options nvme_core multipath_x=Y\r\n", "options nvme_core multipath_x=Y multipath=N\r\n"),
        ] {
            assert_eq!(multipath(&[(NVME, before)]), one(NVME, after), "{before:?}");
            assert_eq!(multipath(&[(NVME, after)]), [], "{after:?} has it");
        }
        assert_eq!(multipath(&[]), one(NVME, "options nvme_core multipath=N\n"));
    }

    #[test]
    fn the_file_that_decides_is_the_one_that_is_changed() {
        const CLOUD: &str = "/etc/modprobe.d/50-cloud.conf";
        const LATER: &str = "/etc/modprobe.d/zz-storage.conf";
        // A later file overrides an earlier one.
        assert_eq!(
            multipath(&[(NVME, "options nvme_core multipath=N\n"), (LATER, "options nvme_core multipath=Y\n")]),
            one(LATER, "options nvme_core multipath=N\n")
        );
        // An earlier file with another value has no effect.
        assert_eq!(
            multipath(&[(CLOUD, "options nvme_core multipath=Y\n"), (LATER, "options nvme_core multipath=N\n")]),
            []
        );
        // The parameter is added to the other options of the module in any file.
        assert_eq!(
            multipath(&[(CLOUD, "options nvme_core io_timeout=255\n"), (NVME, "options nvme poll_queues=8\n")]),
            one(CLOUD, "options nvme_core io_timeout=255 multipath=N\n")
        );
        // Both contradictory values are changed.
        assert_eq!(
            multipath(&[(CLOUD, "options nvme_core multipath=1\n"), (LATER, "options nvme_core multipath=Y\n")]),
            [one(CLOUD, "options nvme_core multipath=N\n"), one(LATER, "options nvme_core multipath=N\n")].concat()
        );
    }

    #[test]
    fn files_of_packages_are_overruled_and_never_hidden_or_written() {
        const OWN: &str = "options nvme_core multipath=N\n";
        // A file in /etc with the same name would hide the other lines of the package.
        assert_eq!(
            multipath(&[("/usr/lib/modprobe.d/nvme.conf", "options nvme poll_queues=8\n")]),
            one("/etc/modprobe.d/gds-top-nvme.conf", OWN)
        );
        let vendor = ("/usr/lib/modprobe.d/vendor.conf", "options nvme_core multipath=Y\n");
        assert_eq!(multipath(&[vendor]), one("/etc/modprobe.d/zz-nvme.conf", OWN));
        assert_eq!(
            multipath(&[vendor, (NVME, "options nvme_core io_timeout=9\n")]),
            one("/etc/modprobe.d/zz-nvme.conf", OWN)
        );
        assert_eq!(
            multipath(&[vendor, ("/etc/modprobe.d/x.conf", "options nvme_core io_timeout=9\n")]),
            one("/etc/modprobe.d/x.conf", "options nvme_core io_timeout=9 multipath=N\n")
        );
        // The file in /etc is used, because it hides the file of the package.
        assert_eq!(multipath(&[vendor, ("/etc/modprobe.d/vendor.conf", OWN)]), []);
        let (_keep, root) = tree(&[("/usr/lib/modprobe.d/zzz.conf", "options nvme_core multipath=Y\n")]);
        assert!(set_parameter(&root, "nvme_core", ("multipath", "N"), is_off, "nvme.conf").is_err());
    }

    #[test]
    fn the_first_softdep_of_a_module_is_the_one_that_counts() {
        const FILE: &str = "/etc/modprobe.d/nvidia-fs.conf";
        let made = |files: &[(&str, &str)]| {
            let (_keep, root) = tree(files);
            load_before(&root, "nvidia_fs", &["nvidia", "nvme"], "nvidia-fs.conf").map(|change| {
                change.map(|change| match change {
                    Change::WriteFile { path, after, .. } => (path.display().to_string(), after),
                    Change::Run { argv } => panic!("{argv:?}"),
                })
            })
        };
        let line = |text: &str| Ok(Some((FILE.to_owned(), text.to_owned())));
        assert_eq!(made(&[]), line("softdep nvidia_fs pre: nvidia nvme\n"));
        assert_eq!(
            made(&[(FILE, "options nvidia_fs x=1")]),
            line("options nvidia_fs x=1\nsoftdep nvidia_fs pre: nvidia nvme\n")
        );
        assert_eq!(made(&[(FILE, "softdep nvidia-fs pre: nvme nvidia post: y\n")]), Ok(None));
        assert_eq!(
            made(&[(FILE, "softdep nvidia_fs pre: nvidia post: y\n")]),
            line("softdep nvidia_fs pre: nvme nvidia post: y\n")
        );
        assert_eq!(
            made(&[(FILE, "softdep nvidia_fs post: y\n")]),
            line("softdep nvidia_fs pre: nvidia nvme post: y\n")
        );
        let packaged = ("/usr/lib/modprobe.d/nvidia-fs.conf", "softdep nvidia_fs pre: nvidia\n");
        assert!(made(&[packaged]).unwrap_err().contains("/usr/lib/modprobe.d/nvidia-fs.conf"));
    }
}
