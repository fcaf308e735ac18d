//! Ids of checks as string literals: they belong into the specification of the checks only.

use gds_top::checks::CheckId;
use proc_macro2::{TokenStream, TokenTree};
use std::fs;
use std::path::{Path, PathBuf};

/// Files that may name ids as text: the specification, and ids of fixes that are equal to ids of checks.
const SPECIFICATIONS: [&str; 3] = ["src/checks/spec/", "src/core/fix_id.rs", "src/fixes/spec.rs"];
/// Folders that are not converted yet. The list may only shrink.
const LEFT: [&str; 2] = ["src/explain/", "src/tui/testdata.rs"];

/// Ids of checks that are ids of fixes too, until fixes are named by `FixId` everywhere.
const ALSO_FIXES: [&str; 3] = ["nvfs-dkms", "ext4-ordered", "kernel-p2pdma"];

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

/// The string literals of code that is not for tests.
fn literals(tokens: TokenStream, out: &mut Vec<String>) {
    let mut is_test = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.stream().to_string().replace(' ', "") == "cfg(test)" => is_test = true,
            TokenTree::Group(group) => {
                if !(is_test && group.delimiter() == proc_macro2::Delimiter::Brace) {
                    literals(group.stream(), out);
                }
                is_test &= group.delimiter() != proc_macro2::Delimiter::Brace;
            }
            TokenTree::Literal(literal) => out.push(literal.to_string()),
            TokenTree::Punct(mark) if mark.as_char() == ';' => is_test = false,
            _ => {}
        }
    }
}

fn is_left(path: &Path) -> bool {
    let name = path.to_string_lossy();
    SPECIFICATIONS.iter().chain(&LEFT).any(|start| name.starts_with(start))
        || name.contains("/tests/")
        || ["tests.rs", "rules.rs"].iter().any(|end| name.ends_with(end))
}

#[test]
fn ids_of_checks_are_text_in_their_specification_only() {
    let mut wrong = Vec::new();
    for path in sources(Path::new("src")).into_iter().filter(|path| !is_left(path)) {
        let mut found = Vec::new();
        literals(fs::read_to_string(&path).unwrap().parse().unwrap(), &mut found);
        for id in CheckId::ALL.iter().filter(|id| !ALSO_FIXES.contains(&id.as_str())) {
            if found.contains(&format!("\"{id}\"")) {
                wrong.push(format!("{}: \"{id}\"", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "name these checks by CheckId:\n{}", wrong.join("\n"));
}

#[test]
fn literals_of_tests_are_not_read() {
    let mut found = Vec::new();
    let code = "const A: &str = \"one\"; fn f() { g(\"two\"); } #[cfg(test)] mod tests { const B: &str = \"three\"; } const C: &str = \"four\";";
    literals(code.parse().unwrap(), &mut found);
    assert_eq!(found, ["\"one\"", "\"two\"", "\"four\""]);
}
