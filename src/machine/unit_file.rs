//! The files of a unit of systemd, and the parts of the system that a unit hides from its processes.

use super::mounts::parse_mountinfo;
use super::root::Root;
use std::path::Path;

/// The unit and its drop-ins with their text, in the order in which systemd reads them. Of a name that several directories
/// have, the last one counts (systemd.unit(5)).
#[must_use]
pub fn unit_files(root: &Root, unit: &str) -> Vec<(String, String)> {
    const FOLDERS: [&str; 4] =
        ["/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/system", "/etc/systemd/system"];
    let text = |path: String| root.read_text(&path).ok().map(|text| (path, text));
    let own = FOLDERS.iter().rev().find_map(|folder| text(format!("{folder}/{unit}")));
    let mut drop_ins: Vec<(String, String)> = Vec::new();
    for folder in FOLDERS.map(|folder| format!("{folder}/{unit}.d")) {
        for name in root.entries(&folder).unwrap_or_default() {
            drop_ins.retain(|(known, _)| *known != name);
            drop_ins.push((name, folder.clone()));
        }
    }
    drop_ins.retain(|(name, _)| name.ends_with(".conf"));
    drop_ins.sort();
    own.into_iter().chain(drop_ins.into_iter().filter_map(|(name, folder)| text(format!("{folder}/{name}")))).collect()
}

/// The last line of a unit that begins with these words, and its file.
#[must_use]
pub fn unit_line(root: &Root, unit: &str, start: &str) -> Option<(String, String)> {
    unit_files(root, unit).into_iter().rev().find_map(|(path, text)| {
        let line = text.lines().map(str::trim).rfind(|line| line.starts_with(start))?.to_owned();
        Some((path, line))
    })
}

/// The options of a /proc that shows only processes (`subset=pid`): the files of the driver and the modules are missing.
/// systemd mounts it for units with ProcSubset=pid (systemd.exec(5)).
#[must_use]
pub fn proc_of_processes(root: &Root) -> Option<String> {
    let mounts = parse_mountinfo(root.read_text("/proc/self/mountinfo").ok()?);
    // The last mount covers the others.
    let own = mounts.into_iter().rfind(|mount| mount.point == Path::new("/proc"))?;
    own.options.split(',').any(|option| option == "subset=pid").then_some(own.options)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_unit_and_its_drop_ins_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("usr/lib/systemd/system/a.service", "[Service]\nProcSubset=all\n");
        write("etc/systemd/system/a.service.d/10-x.conf", "[Service]\nProcSubset=pid\n");
        write("etc/systemd/system/a.service.d/20-y.conf", "[Service]\n# ProcSubset=all\n");
        let root = Root::tree(folder.path()).unwrap();
        let found = unit_line(&root, "a.service", "ProcSubset=").unwrap();
        assert_eq!(found, ("/etc/systemd/system/a.service.d/10-x.conf".to_owned(), "ProcSubset=pid".to_owned()));
        assert_eq!(unit_line(&root, "b.service", "ProcSubset="), None);
    }

    #[test]
    fn a_proc_of_processes_only_is_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        let options = |lines: &str| {
            std::fs::write(folder.path().join("proc/self/mountinfo"), lines).unwrap();
            proc_of_processes(&Root::tree(folder.path()).unwrap())
        };
        let first = "23 26 0:21 / /proc rw,nosuid - proc proc rw\n";
        let second = "24 26 0:62 / /proc rw,nosuid - proc proc rw,hidepid=invisible,subset=pid\n";
        assert_eq!(options(first), None);
        assert_eq!(options("23 26 0:21 / /proc rw - proc proc rw,hidepid=invisible\n"), None);
        assert_eq!(options(&format!("{first}{second}")).as_deref(), Some("rw,nosuid,hidepid=invisible,subset=pid"));
        assert_eq!(options(&format!("{second}{first}")), None);
    }
}
