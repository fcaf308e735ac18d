//! The file that sets a variable of the environment.

use super::root::Root;
use super::starter::{Starter, starter};
use super::summary::container;
use super::unit_file::unit_files;

/// The line that sets a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableLine {
    /// The file.
    pub file: String,
    /// The number of the line, from 1.
    pub number: usize,
    /// The line.
    pub line: String,
    /// The unit of systemd whose file it is. `None` for a file that logins read.
    pub unit: Option<String>,
}

/// Whether a line of a shell, of /etc/environment or of pam_env.conf sets a variable.
fn sets(line: &str, name: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    // pam_env.conf has lines such as `NAME DEFAULT=value`.
    let is_of_pam = |rest: &str| {
        let rest = rest.trim_start();
        rest.starts_with("DEFAULT=") || rest.starts_with("OVERRIDE=")
    };
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with('=') || is_of_pam(rest))
}

/// Whether a line of a unit sets a variable. Environment= can set several.
fn is_of_unit(line: &str, name: &str) -> bool {
    let mut words = line.trim_start().strip_prefix("Environment=").into_iter().flat_map(|rest| rest.split(' '));
    words.any(|word| word.trim_start_matches(['"', '\'']).strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
}

fn found(file: &str, text: &str, unit: Option<&str>, fits: impl Fn(&str) -> bool) -> Option<VariableLine> {
    // The last line counts.
    let (at, line) = text.lines().enumerate().filter(|(_, line)| fits(line)).last()?;
    Some(VariableLine {
        file: file.to_owned(),
        number: at + 1,
        line: line.trim().to_owned(),
        unit: unit.map(str::to_owned),
    })
}

fn by_unit(root: &Root, unit: &str, name: &str) -> Option<VariableLine> {
    let files = unit_files(root, unit);
    // A file of EnvironmentFile= overrides Environment= (systemd.exec(5)).
    let named = files.iter().flat_map(|(_, text)| {
        text.lines()
            .filter_map(|line| line.trim_start().strip_prefix("EnvironmentFile="))
            .map(|path| path.trim().trim_start_matches('-').to_owned())
    });
    let in_file = |path: String| found(&path, &root.read_text(&path).ok()?, Some(unit), |line| sets(line, name));
    let mut in_files = named.filter_map(in_file);
    in_files.next_back().or_else(|| {
        files.iter().rev().find_map(|(file, text)| found(file, text, Some(unit), |line| is_of_unit(line, name)))
    })
}

/// The line that sets a variable for this process: in a file of its unit, or in one that all logins read. `None` if it is
/// set elsewhere, as in a shell or in the file of one user.
#[must_use]
pub fn variable_line(root: &Root, name: &str) -> Option<VariableLine> {
    if container(root).is_some() {
        return None;
    }
    if let Some(Starter::Service(unit)) = starter(root) {
        return by_unit(root, &unit, name);
    }
    const FILES: [&str; 5] =
        ["/etc/environment", "/etc/security/pam_env.conf", "/etc/profile", "/etc/bash.bashrc", "/etc/bashrc"];
    const FOLDERS: [(&str, &str); 2] = [("/etc/profile.d", ".sh"), ("/etc/environment.d", ".conf")];
    let in_folder = |(folder, end): (&str, &str)| {
        let names = root.entries(folder).unwrap_or_default();
        names.into_iter().filter(|file| file.ends_with(end)).map(|file| format!("{folder}/{file}")).collect::<Vec<_>>()
    };
    let mut files = FILES.map(str::to_owned).into_iter().chain(FOLDERS.into_iter().flat_map(in_folder));
    let in_file = |file: String| found(&file, &root.read_text(&file).ok()?, None, |line| sets(line, name));
    files.find_map(in_file)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_sets_a_variable_is_found() {
        const NAME: &str = "CUFILE_FORCE_COMPAT_MODE";
        let unit = "0::/system.slice/vllm.service";
        let login = "0::/user.slice/user-1000.slice/session-4.scope";
        let drop_in = "etc/systemd/system/vllm.service.d/10-a.conf";
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<(&'a str, usize)>);
        let cases: [Case<'_>; 7] = [
            (login, &[("etc/environment", "A=1\nCUFILE_FORCE_COMPAT_MODE=true\n")], Some(("/etc/environment", 2))),
            (
                login,
                &[("etc/profile.d/gds.sh", "export CUFILE_FORCE_COMPAT_MODE=true\n")],
                Some(("/etc/profile.d/gds.sh", 1)),
            ),
            (
                login,
                &[("etc/security/pam_env.conf", "CUFILE_FORCE_COMPAT_MODE DEFAULT=true\n")],
                Some(("/etc/security/pam_env.conf", 1)),
            ),
            (login, &[("etc/environment", "# CUFILE_FORCE_COMPAT_MODE=true\nCUFILE_FORCE_COMPAT_MODE_2=true\n")], None),
            (
                unit,
                &[(drop_in, "[Service]\nEnvironment=\"A=1\" \"CUFILE_FORCE_COMPAT_MODE=true\"\n")],
                Some(("/etc/systemd/system/vllm.service.d/10-a.conf", 2)),
            ),
            (
                unit,
                &[
                    (drop_in, "[Service]\nEnvironmentFile=-/etc/vllm.env\n"),
                    ("etc/vllm.env", "CUFILE_FORCE_COMPAT_MODE=true\n"),
                ],
                Some(("/etc/vllm.env", 1)),
            ),
            (unit, &[("etc/environment", "CUFILE_FORCE_COMPAT_MODE=true\n")], None),
        ];
        for (cgroup, files, wanted) in cases {
            let folder = tempfile::tempdir().unwrap();
            for (path, text) in files.iter().chain([&("proc/self/cgroup", cgroup)]) {
                let path = folder.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            let found = variable_line(&Root::tree(folder.path()).unwrap(), NAME);
            assert_eq!(found.as_ref().map(|found| (found.file.as_str(), found.number)), wanted, "{files:?}");
            assert_eq!(found.is_some_and(|found| found.unit.is_some()), wanted.is_some() && cgroup == unit);
        }
    }
}
