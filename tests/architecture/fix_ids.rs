//! Ids of fixes are string literals only where they are defined.

use gds_top::core::FixId;
use std::fs;
use std::path::{Path, PathBuf};

/// The only file that spells the ids.
const DEFINED_IN: &str = "src/core/fix_id.rs";

/// Words that are an id of a fix and something else too: in a file, or (`*`) the id of a check with the same name.
const OTHER_MEANING: &[(&str, &str)] = &[
    ("*", "nvfs-dkms"),
    ("*", "ext4-ordered"),
    ("*", "kernel-p2pdma"),
    // The name of a package.
    ("src/fixes/fabric.rs", "nvidia-fabricmanager"),
    // The item of limits.conf.
    ("src/fixes/limits.rs", "memlock"),
];

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            if !path.ends_with("tests") {
                sources(&path, out);
            }
        } else if path.extension().is_some_and(|end| end == "rs")
            && !["tests.rs", "testdata.rs"].iter().any(|name| path.ends_with(name))
        {
            out.push(path);
        }
    }
}

/// The lines of a source before its tests, without comments, that contain an id of a fix as a literal.
fn spelled(text: &str) -> Vec<(usize, FixId)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default().lines().enumerate();
    let code = code.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.flat_map(|(number, line)| {
        let found = FixId::ALL.iter().filter(move |id| line.contains(&format!("\"{id}\"")));
        found.map(move |id| (number + 1, *id))
    })
    .collect()
}

#[test]
fn ids_of_fixes_are_literals_only_in_their_table() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&top.join("src"), &mut files);
    let mut found = Vec::new();
    for path in files {
        let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
        if name == DEFINED_IN {
            continue;
        }
        let is_meant =
            |id: FixId| !OTHER_MEANING.iter().any(|(file, word)| (*file == "*" || *file == name) && id == *word);
        let text = fs::read_to_string(&path).unwrap();
        found.extend(
            spelled(&text).into_iter().filter(|(_, id)| is_meant(*id)).map(|(n, id)| format!("{name}:{n}: {id}")),
        );
    }
    assert!(found.is_empty(), "use FixId instead of these literals:\n{}", found.join("\n"));
}

#[test]
fn a_literal_id_is_found_and_a_comment_or_a_test_is_not() {
    let text = "fn f() { g(\"udev-record\") }\n// \"memlock\"\n#[cfg(test)]\nmod tests { \"memlock\" }";
    assert_eq!(spelled(text), [(1, FixId::UdevRecord)]);
}
