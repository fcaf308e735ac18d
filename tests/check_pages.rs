//! Tests the pages in docs/checks. There is one page for each check, generated from the table of checks.

#![allow(clippy::unwrap_used)]

use gds_top::checks::page::page;
use gds_top::core::CheckId;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The pages by file name, including the index.
fn pages() -> BTreeMap<String, String> {
    let mut index = "# Checks\n\nEach check has a page with its meaning, usual causes, a way to check by hand, and the remedy. `gds-top explain CHECK`\nshows the same.\n\n| check | examines |\n|---|---|\n".to_owned();
    let mut out = BTreeMap::new();
    let mut all: Vec<CheckId> = CheckId::ALL.to_vec();
    all.sort_by_key(|id| (id.spec().group, id.as_str()));
    for id in all {
        let _ = writeln!(index, "| [{id}]({id}.md) | {} |", id.spec().examines);
        out.insert(format!("{id}.md"), page(id));
    }
    // mdBook does not follow links to a README.md.
    out.insert("index.md".to_owned(), index);
    out
}

/// docs/SUMMARY.md with the pages of the checks. mdBook builds only the pages that it lists.
fn summary(written: &str) -> String {
    let is_page = |line: &&str| line.starts_with("    - [") && line.contains("](checks/");
    let mut out = String::new();
    for line in written.lines().filter(|line| !is_page(line)) {
        let _ = writeln!(out, "{line}");
        if line.ends_with("](checks/index.md)") {
            let pages = pages();
            pages.keys().filter(|name| *name != "index.md").for_each(|name| {
                let _ = writeln!(out, "    - [{}](checks/{name})", name.trim_end_matches(".md"));
            });
        }
    }
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
    let book = folder.with_file_name("SUMMARY.md");
    let written = std::fs::read_to_string(&book).unwrap();
    let wanted = summary(&written);
    assert!(wanted.contains("](checks/gpu-present.md)"));
    if std::env::var_os("GDS_TOP_UPDATE_DOCS").is_some() {
        std::fs::write(&book, &wanted).unwrap();
    } else {
        assert!(
            written == wanted,
            "docs/SUMMARY.md does not list each check: GDS_TOP_UPDATE_DOCS=1 cargo test --test check_pages"
        );
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

/// The content of docs/matrix.md: two tables with conditions and sources, and their product.
fn matrix_page() -> String {
    use gds_top::checks::matrix::{GpuClass, ROUTES, Row, Storage, Support, is_closed};
    let cell = |support: Support| match support {
        Support::Yes => "yes".to_owned(),
        Support::If(condition) => format!("if: {condition}"),
        Support::No(reason) => format!("no: {reason}"),
    };
    let mut page = "# Support matrix\n\nWhich route exists for which GPU and storage. A read takes a route only if both tables have it. `gds-top explain matrix` shows the\nsame; `gds-top explain matrix listed nvme` shows one pair. The checks and verdicts use this table: no verdict promises a route that it\ncloses. The last column names the source.\n".to_owned();
    let mut table = |title: &str, first: &str, rows: Vec<Row>| {
        let heads: Vec<String> = ROUTES.iter().map(|route| format!("`{route}`")).collect();
        let _ = write!(
            page,
            "\n## {title}\n\n| id | {first} | {} | source |\n|---|---|---|---|---|---|---|---|\n",
            heads.join(" | ")
        );
        for row in rows {
            let cells: Vec<String> = ROUTES.iter().map(|route| cell(row.support(*route))).collect();
            let _ = writeln!(page, "| `{}` | {} | {} | {} |", row.id, row.name, cells.join(" | "), row.source);
        }
    };
    table("GPUs", "GPU", GpuClass::ALL.iter().map(|class| class.row()).collect());
    table("Storage", "file system and device", Storage::ALL.iter().map(|storage| storage.row()).collect());
    page.push_str("\n## Both together\n\nThe routes that can exist, with the conditions above.\n\n| storage |");
    for class in GpuClass::ALL {
        let _ = write!(page, " `{}` |", class.row().id);
    }
    page.push_str("\n|---|");
    page.push_str(&"---|".repeat(GpuClass::ALL.len()));
    page.push('\n');
    for storage in Storage::ALL {
        let _ = write!(page, "| `{}` |", storage.row().id);
        for class in GpuClass::ALL {
            let open = ROUTES.into_iter().filter(|route| !is_closed(Some(*class), Some(*storage), *route));
            let routes: Vec<String> = open.map(|route| route.to_string()).collect();
            let _ = write!(page, " {} |", if routes.is_empty() { "–".to_owned() } else { routes.join(", ") });
        }
        page.push('\n');
    }
    page
}

#[test]
fn the_page_of_the_matrix_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/matrix.md");
    let page = matrix_page();
    if std::env::var_os("GDS_TOP_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/matrix.md is out of date: GDS_TOP_UPDATE_DOCS=1 cargo test --test check_pages");
}

/// The style page limits the length of texts: an advice line has at most 25 words.
#[test]
fn texts_of_the_table_are_short() {
    for id in CheckId::ALL {
        let spec = id.spec();
        let words = |text: &str| text.split_whitespace().count();
        assert!(words(spec.todo) <= 25, "{id}: {}", spec.todo);
        assert!(words(spec.examines) <= 15, "{id}: {}", spec.examines);
        for cause in spec.causes {
            assert!(words(cause) <= 25, "{id}: {cause}");
        }
    }
}
