//! The stub of libcuda, which programs are linked with. A program that loads it cannot use the GPU.

use crate::checks::advice::Advice;
use crate::checks::cufile::variables::SETTERS;
use crate::machine::{self, Root, VariableLine};
use crate::text::quoted;

const VARIABLE: &str = "LD_LIBRARY_PATH";

/// Whether a directory is that of the toolkit's stubs.
fn is_stub(folder: &str) -> bool {
    folder.trim_end_matches('/').ends_with("/stubs")
}

/// The stub that the dynamic loader finds, and the source: `LD_LIBRARY_PATH` precedes the cache.
pub(super) fn loaded(root: &Root) -> Option<(&'static str, String)> {
    let value = root.variable(VARIABLE).unwrap_or_default();
    if let Some(folder) = value.split(':').find(|folder| is_stub(folder)) {
        return Some((VARIABLE, format!("{}/libcuda.so.1", folder.trim_end_matches('/'))));
    }
    let output = root.command(&["ldconfig", "-p"])?;
    let line = output.stdout.lines().find(|line| line.trim_start().starts_with("libcuda.so.1 "))?;
    let (folder, _) = line.split_once("=> ")?.1.trim().rsplit_once('/')?;
    is_stub(folder).then(|| ("ldconfig -p", format!("{folder}/libcuda.so.1")))
}

/// How to remove the directory of the stub from the paths of the dynamic loader.
pub(super) fn without(root: &Root) -> Advice {
    let value = root.variable(VARIABLE).unwrap_or_default();
    let folders: Vec<&str> = value.split(':').filter(|folder| is_stub(folder)).collect();
    if machine::container(root).is_some() && !folders.is_empty() {
        return format!("Start the container with a value of {VARIABLE} without {}.", folders.join(" and ")).into();
    }
    let commands = of_loader(root);
    let of_variable = (!folders.is_empty()).then(|| from_variable(root, &folders));
    let of_loader = (!commands.is_empty()).then(|| {
        Advice::run(format!("{} && sudo ldconfig", commands.join(" && ")))
            .text(", which removes the directory of the stub from the loader's cache.")
    });
    match (of_variable, of_loader) {
        (Some(variable), Some(loader)) => variable.text(" ").and(loader),
        (Some(advice), None) | (None, Some(advice)) => advice,
        (None, None) => {
            Advice::from(format!("Remove the directories lib64/stubs from {VARIABLE} and /etc/ld.so.conf.d, then run "))
                .command("sudo ldconfig")
                .text(".")
        }
    }
}

/// How to remove directories from the variable, in the file that sets it.
fn from_variable(root: &Root, folders: &[&str]) -> Advice {
    let named = folders.join(" and ");
    let is_it = |found: &VariableLine| found.line.contains("/stubs");
    let Some(found) = machine::variable_line(root, VARIABLE).filter(is_it) else {
        return Advice::from(format!("Remove {named} from {VARIABLE}, in the file that sets it: "))
            .command(SETTERS)
            .text(". Then log in again.");
    };
    let place = format!("{}, line {}", found.file, found.number);
    if let Some(unit) = &found.unit {
        return Advice::from(format!("Remove {named} from {VARIABLE} in {place}, then run "))
            .command(format!("sudo systemctl daemon-reload && sudo systemctl restart {}", quoted(unit)))
            .text(".");
    }
    match script(&found, folders) {
        Some(script) => Advice::run(format!("sudo sed -i '{script}' {}", quoted(&found.file)))
            .text(format!(", which removes {named} from {place}. Then log in again.")),
        None => format!("Remove {named} from {VARIABLE} in {place}. Then log in again.").into(),
    }
}

/// The script of sed that removes directories from a line. `None` if the line has them in another form. One of the colons next
/// to a directory is removed too, because an empty part names the working directory.
fn script(found: &VariableLine, folders: &[&str]) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let one = |folder: &&str| {
        let (before, after) = found.line.split_once(*folder).filter(|_| folder.chars().all(is_plain))?;
        let (number, pattern) = (found.number, folder.replace('.', "\\."));
        if before.ends_with(':') && !after.starts_with(is_plain) {
            Some(format!("{number}s#:{pattern}##"))
        } else if after.starts_with(':') && !before.ends_with(is_plain) {
            Some(format!("{number}s#{pattern}:##"))
        } else {
            None
        }
    };
    let parts: Option<Vec<String>> = folders.iter().map(one).collect();
    parts.map(|parts| parts.join(";"))
}

/// The commands that remove the directories of stubs from the configuration of the dynamic loader.
fn of_loader(root: &Root) -> Vec<String> {
    const FOLDER: &str = "/etc/ld.so.conf.d";
    let names = root.entries(FOLDER).unwrap_or_default();
    let files = names.into_iter().filter(|name| name.ends_with(".conf")).map(|name| format!("{FOLDER}/{name}"));
    let command = |file: String| {
        let text = root.read_text(&file).ok()?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (stubs, others): (Vec<&str>, Vec<&str>) = lines.partition(|line| is_stub(line));
        let name = quoted(&file);
        match (stubs.is_empty(), others.is_empty() && file.starts_with(FOLDER)) {
            (true, _) => None,
            (false, true) => Some(format!("sudo rm {name}")),
            (false, false) => Some(format!("sudo sed -i '\\#/stubs/*[[:space:]]*$#d' {name}")),
        }
    };
    std::iter::once("/etc/ld.so.conf".to_owned()).chain(files).filter_map(command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_from_the_line_with_one_colon() {
        let of = |line: &str| {
            let found = VariableLine { file: String::new(), number: 2, line: line.to_owned(), unit: None };
            script(&found, &["/usr/local/cuda-13.1/lib64/stubs"])
        };
        let last = Some(r"2s#:/usr/local/cuda-13\.1/lib64/stubs##");
        let first = Some(r"2s#/usr/local/cuda-13\.1/lib64/stubs:##");
        for (line, wanted) in [
            ("export LD_LIBRARY_PATH=/usr/lib:/usr/local/cuda-13.1/lib64/stubs", last),
            ("LD_LIBRARY_PATH=\"/a:/usr/local/cuda-13.1/lib64/stubs:/b\"", last),
            ("LD_LIBRARY_PATH=/usr/local/cuda-13.1/lib64/stubs:/b", first),
            ("LD_LIBRARY_PATH=/usr/local/cuda-13.1/lib64/stubs", None),
            ("LD_LIBRARY_PATH=/a:/usr/local/cuda-13.1/lib64/stubs/other", None),
            ("LD_LIBRARY_PATH=$CUDA_HOME/lib64/stubs:/b", None),
        ] {
            assert_eq!(of(line).as_deref(), wanted, "{line}");
        }
    }
}
