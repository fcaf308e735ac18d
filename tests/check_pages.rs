//! The pages of docs/checks: one for each check, made from the table of the checks.

#![allow(clippy::unwrap_used)]

use gds_top::checks::CheckId;
use gds_top::checks::spec::page;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The pages by file name, with the index.
fn pages() -> BTreeMap<String, String> {
    let mut index = "# Checks\n\nEach check has a page with its meaning, usual causes, a way to check by hand, and the remedy. `gds-top explain CHECK`\nshows the same.\n\n| check | examines |\n|---|---|\n".to_owned();
    let mut out = BTreeMap::new();
    let mut all: Vec<CheckId> = CheckId::ALL.to_vec();
    all.sort_by_key(|id| (id.spec().group, id.as_str()));
    for id in all {
        let _ = writeln!(index, "| [{id}]({id}.md) | {} |", id.spec().examines);
        out.insert(format!("{id}.md"), page(id));
    }
    out.insert("README.md".to_owned(), index);
    out
}

#[test]
fn the_pages_are_those_of_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/checks");
    let pages = pages();
    if std::env::var_os("GDS_TOP_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in &pages {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    let mut there: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !pages.contains_key(name))
        .collect();
    there.sort();
    assert!(there.is_empty(), "pages of checks that do not exist: {there:?}");
    for (name, text) in &pages {
        let written = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            written == *text,
            "docs/checks/{name} is out of date: GDS_TOP_UPDATE_DOCS=1 cargo test --test check_pages"
        );
    }
}

#[test]
fn every_page_has_its_reason_and_a_command() {
    for id in CheckId::ALL {
        let spec = id.spec();
        assert!(!spec.examines.is_empty() && !spec.why.is_empty() && !spec.look.is_empty(), "{id}");
        assert!(page(*id).contains(spec.why), "{id}");
        assert!(spec.why.ends_with('.'), "{id}: {}", spec.why);
    }
}
