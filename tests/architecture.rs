//! Tests that the modules import only what the table in `docs/architecture.md` allows. The imports are read from the
//! sources.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "architecture/cycles.rs"]
mod cycles;
#[path = "architecture/ids.rs"]
mod ids;

use std::fs;
use std::path::{Path, PathBuf};

/// The modules that each module may use. `cli` may use all.
const ARROWS: [(&str, &[&str]); 22] = [
    ("text", &[]),
    ("core", &[]),
    ("trust", &[]),
    ("machine", &["core", "device", "trust", "text"]),
    ("checks", &["machine", "core", "text"]),
    ("fixes", &["checks", "machine", "core", "trust", "text"]),
    ("explain", &["checks", "fixes", "core", "text"]),
    ("models", &["core", "trust", "text"]),
    ("device", &["core"]),
    ("engines", &["models", "device", "core", "trust"]),
    ("workloads", &["engines", "device", "core", "trust"]),
    ("telemetry", &["machine", "watch", "core", "trust"]),
    ("watch", &["core", "device", "models", "trust"]),
    (
        "session",
        &[
            "workloads",
            "core",
            "machine",
            "checks",
            "fixes",
            "models",
            "device",
            "engines",
            "telemetry",
            "watch",
            "trust",
            "text",
        ],
    ),
    ("analysis", &["core"]),
    ("present", &["session", "analysis", "core", "text"]),
    ("report", &["present", "session", "analysis", "core", "trust", "text"]),
    ("tui", &["present", "session", "core", "analysis", "config", "text"]),
    ("fleet", &["report", "present", "analysis", "core", "trust", "text"]),
    ("headless", &["present", "session", "report", "core", "text"]),
    ("config", &["core"]),
    (
        "cli",
        &[
            "core",
            "machine",
            "checks",
            "explain",
            "fixes",
            "models",
            "device",
            "engines",
            "workloads",
            "telemetry",
            "watch",
            "session",
            "analysis",
            "present",
            "report",
            "fleet",
            "tui",
            "headless",
            "config",
            "trust",
            "text",
        ],
    ),
];

/// Crates that only some modules may use, so that devices and native libraries stay next to their `unsafe` code.
const FOREIGN: [(&str, &[&str]); 10] = [
    // `device` implements the crate's `IoMemory` for its memory. `trust` uses its rule for files that are loaded, and
    // `watch` its names of codes. Only the engines use the rest.
    ("cufile_ffi", &["engines", "device", "workloads", "trust", "explain", "watch"]),
    ("cufile_audit", &["watch"]),
    ("nixl_ffi", &["engines", "workloads"]),
    ("cudarc", &["device"]),
    ("io_uring", &["device"]),
    ("memmap2", &["device"]),
    ("nvml_wrapper", &["machine", "telemetry"]),
    ("ratatui", &["tui", "config"]),
    ("crossterm", &["tui", "config", "cli"]),
    ("clap", &["cli"]),
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

/// The code of a file without comments. Strings are kept, because no string contains the path of a module.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The names directly after `prefix`, also inside one level of braces: `crate::{a::B, c}` gives `a` and `c`.
fn names_behind(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    let word = |text: &str| text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.push(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut start = true;
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => start = true,
                c if start && !c.is_whitespace() => {
                    names.push(word(&list[i..]));
                    start = false;
                }
                _ => {}
            }
        }
    }
    names
}

fn modules() -> Vec<String> {
    let mut modules: Vec<String> = fs::read_dir("src")
        .unwrap()
        .filter_map(|e| {
            let e = e.unwrap();
            e.file_type().unwrap().is_dir().then(|| e.file_name().to_string_lossy().into_owned())
        })
        .collect();
    modules.sort();
    modules
}

#[test]
fn every_folder_of_src_is_a_module_of_the_table() {
    let mut table: Vec<String> = ARROWS.iter().map(|(module, _)| (*module).to_owned()).collect();
    table.sort();
    assert_eq!(modules(), table);
}

#[test]
fn modules_use_only_the_modules_that_the_table_allows() {
    let mut wrong = Vec::new();
    for (module, allowed) in ARROWS {
        for path in sources(&Path::new("src").join(module)) {
            let code = code(&path);
            let own_module = |name: &String| {
                Path::new("src").join(module).join(format!("{name}.rs")).exists()
                    || Path::new("src").join(module).join(name).is_dir()
            };
            let mut used = names_behind(&code, "crate::");
            used.extend(names_behind(&code, "gds_top::"));
            // `super::x` in the mod.rs of a module means `crate::x`. A file below needs one more `super` for each
            // directory.
            let depth = path.components().count() - if path.ends_with("mod.rs") { 3 } else { 2 };
            let above = names_behind(&code, &"super::".repeat(depth + 1)).into_iter();
            used.extend(above.filter(|name| name != "super" && !own_module(name)));
            for name in used {
                let is_module = ARROWS.iter().any(|(r, _)| *r == name);
                if is_module && name != module && !allowed.contains(&name.as_str()) {
                    wrong.push(format!("{}: {module} may not use {name}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "arrows against the table:\n{}", wrong.join("\n"));
}

#[test]
fn native_libraries_and_front_ends_are_named_only_in_their_modules() {
    let mut wrong = Vec::new();
    for (module, _) in ARROWS {
        for path in sources(&Path::new("src").join(module)) {
            let code = code(&path);
            for (name, allowed) in FOREIGN {
                let named = code.match_indices(&format!("{name}::")).any(|(at, _)| {
                    !code[..at].chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
                });
                if named && !allowed.contains(&module) {
                    wrong.push(format!("{}: {module} may not use {name}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "crates outside their modules:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_lives_in_device_and_the_native_crates_alone() {
    let mut wrong = Vec::new();
    for path in sources(Path::new("src")) {
        if path.starts_with("src/device") {
            continue;
        }
        let code = code(&path);
        let has = code.match_indices("unsafe").any(|(at, word)| {
            let around = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
            !around(code[..at].chars().next_back()) && !around(code[at + word.len()..].chars().next())
        });
        if has {
            wrong.push(path.display().to_string());
        }
    }
    assert!(wrong.is_empty(), "unsafe outside its modules: {}", wrong.join(", "));
}

/// Parts of sentences about results. No module except `present` contains them.
const ABOUT_RESULTS: [&str; 17] = [
    "faster than",
    "slower than",
    " wins",
    " ties",
    "is fastest",
    "fixes away",
    "not proven",
    "proven by",
    "bytes verified",
    "not verified",
    "fell back",
    "lookup missed",
    "transfers fell",
    "cannot run here",
    "runs finished",
    "byte equals",
    "on a direct route (",
];

/// Parts of sentences about a route. Only modules that explain settings, hardware and fixes also contain them.
const ABOUT_ROUTES: [&str; 2] = ["straight to the GPU", "through host memory"];
const EXPLAIN_ROUTES: [&str; 6] =
    ["src/checks", "src/core/check", "src/explain", "src/fixes", "src/workloads", "src/present"];

#[test]
fn sentences_about_results_are_only_in_present() {
    let mut wrong = Vec::new();
    for path in sources(Path::new("src")) {
        // Test sessions, the lesson, which explains engines in general, the words of recordings of version 1, and the
        // description of a metric are allowed.
        let name = path.to_string_lossy();
        let allowed = ["testdata", "/tests", "_tests", "screens/learn/", "recording/version1", "report/prom.rs"];
        if path.starts_with("src/present") || allowed.iter().any(|part| name.contains(part)) {
            continue;
        }
        let explains = EXPLAIN_ROUTES.iter().any(|folder| path.starts_with(folder));
        let routes = ABOUT_ROUTES.iter().filter(|_| !explains);
        let parts: Vec<&str> = ABOUT_RESULTS.iter().chain(routes).copied().collect();
        let code = code(&path);
        let code = code.split("#[cfg(test)]").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            // Every second part of a line is inside quotes.
            for text in line.split('"').skip(1).step_by(2) {
                if let Some(part) = parts.iter().find(|part| text.contains(**part)) {
                    wrong.push(format!("{}:{}: '{part}' in '{text}'", path.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "sentences about results outside present:\n{}", wrong.join("\n"));
}

#[test]
fn the_words_of_the_house_do_no_input_or_output() {
    for path in sources(Path::new("src/core"))
        .into_iter()
        .chain(sources(Path::new("src/analysis")))
        .chain(sources(Path::new("src/present")))
    {
        let code = code(&path);
        let code = code.split("#[cfg(test)]").next().unwrap();
        for module in ["std::fs", "std::net", "std::process", "std::thread", "std::io"] {
            assert!(!code.contains(module), "{} uses {module}", path.display());
        }
    }
}

#[test]
fn the_reader_of_arrows_sees_every_path_to_a_module() {
    assert_eq!(names_behind("use crate::tui::App;", "crate::"), ["tui"]);
    assert_eq!(
        names_behind("use crate::{core::{A, B}, machine, session::S};", "crate::"),
        ["core", "machine", "session"]
    );
    assert_eq!(names_behind("let x = crate::report::json(); mycrate::no();", "crate::"), ["report"]);
}
