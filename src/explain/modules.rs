//! Lines about kernel modules with any name: modules that modprobe did not find, and softdep lines of modprobe.d.

use super::answer::{Answer, Kind};

/// The answer for a line about kernel modules. `None` for other lines.
pub(super) fn answer(line: &str) -> Option<Answer> {
    soft_dependency(line).or_else(|| missing(line))
}

/// Whether a word is a valid name of a module. It becomes a part of a command.
fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// The name of the module that a line of modprobe or systemd-modules-load reports as missing.
fn missing_name(line: &str) -> Option<&str> {
    let lower = line.to_ascii_lowercase();
    let marks = [("failed to find module ", ""), ("modprobe: fatal: module ", " not found")];
    marks.into_iter().find_map(|(before, after)| {
        let start = lower.find(before)? + before.len();
        let name = line[start..].split_whitespace().next()?.trim_matches(['\'', '"', '.', ',']);
        (lower[start..].contains(after) && is_name(name)).then_some(name)
    })
}

fn missing(line: &str) -> Option<Answer> {
    let name = missing_name(line)?;
    let mut answer =
        Answer::new(Kind::Line, line, format!("the module {name} is not installed for the running kernel"));
    answer.how_to_check = Some(format!("modinfo {name}; uname -r"));
    let driver = name.replace('-', "_");
    answer.advice = Some(match driver.strip_prefix("nvidia") {
        Some("" | "_uvm" | "_modeset" | "_drm" | "_peermem") => {
            "Install the headers of the running kernel, then build the driver for it: sudo dkms autoinstall.".to_owned()
        }
        _ => format!(
            "Install the package that has {name} for the running kernel. After an update of the kernel, reboot first."
        ),
    });
    Some(answer)
}

fn soft_dependency(line: &str) -> Option<Answer> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|word| *word == "softdep").and(words.next()).filter(|name| is_name(name))?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut is_after = None;
    for word in words {
        match (word, is_after) {
            ("pre:", _) => is_after = Some(false),
            ("post:", _) => is_after = Some(true),
            (word, Some(false)) if is_name(word) => before.push(word),
            (word, Some(true)) if is_name(word) => after.push(word),
            _ => return None,
        }
    }
    let parts = [("before", &before), ("after", &after)].into_iter().filter(|(_, modules)| !modules.is_empty());
    let parts: Vec<String> =
        parts.map(|(when, modules)| format!("loads {} {when} {name}", modules.join(" and "))).collect();
    if parts.is_empty() {
        return None;
    }
    let mut answer = Answer::new(Kind::Line, line, format!("modprobe {}", parts.join(" and ")));
    let all: Vec<&str> = before.iter().copied().chain([name]).chain(after.iter().copied()).collect();
    answer.how_to_check = Some(format!("modinfo {}", all.join(" ")));
    answer.advice = Some(
        "modprobe skips a module that modinfo does not find: install it, or remove it from the line. Rebuild the initramfs after a change."
            .to_owned(),
    );
    Some(answer)
}
