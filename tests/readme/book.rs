//! Tests that README.md is short, and that its links and those of the book have their targets.

use crate::pages;
use std::path::{Path, PathBuf};

#[test]
fn the_readme_is_short_and_the_book_has_every_page() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    assert!(readme.lines().count() <= 120, "move text to docs/");
    let parts = [
        "## Install\n",
        "## In 60 seconds\n",
        "## Is it safe?\n",
        "## Compared with other tools\n",
        "## Findings\n",
        "## In scripts\n",
        "## Hardware and limits\n",
        "## More\n",
    ];
    assert!(parts.iter().all(|part| readme.contains(part)) && readme.matches("](assets/pictures/").count() == 1);
    // The commands of a fresh machine come before the first part.
    let (top, _) = readme.split_once("## Install").unwrap();
    assert!(top.contains("cargo run --release") && top.contains("cargo test --workspace"));
    for command in ["gds-top bench model --cache hot --baseline", "kubectl apply", "sbatch "] {
        assert!(readme.contains(command), "{command}");
    }
    let summary = std::fs::read_to_string("docs/SUMMARY.md").unwrap();
    for (path, _) in pages() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_listed = summary.contains(&format!("]({name})"));
        assert!(is_listed || ["README.md", "SUMMARY.md"].contains(&name), "docs/SUMMARY.md does not list {name}");
    }
    for (_, target) in summary.lines().filter_map(|line| line.trim_end_matches(')').rsplit_once("](")) {
        assert!(Path::new("docs").join(target).is_file(), "docs/SUMMARY.md lists {target}, which does not exist");
    }
}

#[test]
fn the_readme_installs_the_released_files_without_changing_the_python_of_the_system() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let (_, install) = readme.split_once("## Install").unwrap();
    let (block, _) = install.split_once("```sh\n").and_then(|(_, rest)| rest.split_once("```")).unwrap();
    let lines: Vec<&str> = block.lines().collect();
    // Names of files in this directory have no directory in the commands.
    assert_eq!(lines.first(), Some(&"cd target/release-files"));
    assert!([".whl", ".deb", ".rpm"].iter().all(|end| lines.iter().any(|line| line.contains(end))), "{block}");
    // Since Debian 12 and Ubuntu 24.04, pip refuses to install outside a virtual environment.
    assert!(lines.iter().all(|line| !line.contains("pip install") || line.contains("-m venv")), "{block}");
    for line in readme.lines().filter(|line| !line.starts_with('|')) {
        let prose = line.split("<!--").next().unwrap();
        assert!(prose.chars().count() <= 175, "{prose}");
    }
}

#[test]
fn the_readme_names_what_needs_a_clone_and_its_paths_exist() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let words = readme.split(|c: char| c.is_whitespace() || "()`\"".contains(c));
    let paths: Vec<&str> = words.map(|word| word.trim_end_matches([',', '.', ':', ';', '#'])).collect();
    let folders = ["tests/", "assets/", "deploy/"];
    let named: Vec<&&str> = paths.iter().filter(|path| folders.iter().any(|folder| path.starts_with(folder))).collect();
    assert!(named.len() > 5, "{named:?}");
    for path in named {
        assert!(Path::new(path).exists(), "README.md names {path}");
    }
    let manifest = std::fs::read_to_string("Cargo.toml").unwrap();
    if !manifest.contains("\nrepository") {
        let sentences = ["gds-top is not published yet", "need the clone"];
        assert!(sentences.iter().all(|sentence| readme.contains(sentence)), "there is no address for relative links");
    }
}

/// The files next to README.md in a package, from the sources and the directories of its assets.
fn shipped(assets: &[(&str, &str)]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for &(source, folder) in assets {
        let Some(folder) = folder.trim_start_matches('/').strip_prefix("usr/share/doc/gds-top/") else { continue };
        let (from, pattern) = source.rsplit_once('/').unwrap_or((".", source));
        let is_asset = |name: &str| match pattern.split_once('*') {
            Some((start, end)) => name.starts_with(start) && name.ends_with(end),
            None => name == pattern,
        };
        let names = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        files.extend(names.filter(|name| is_asset(name)).map(|name| Path::new(folder).join(name)));
    }
    files
}

#[test]
fn every_link_works_in_the_packages() {
    let manifest: toml::Table = std::fs::read_to_string("Cargo.toml").unwrap().parse().unwrap();
    let metadata = &manifest["package"]["metadata"];
    let deb = metadata["deb"]["assets"].as_array().unwrap().iter();
    let deb: Vec<_> = deb.map(|asset| (asset[0].as_str().unwrap(), asset[1].as_str().unwrap())).collect();
    let rpm = metadata["generate-rpm"]["assets"].as_array().unwrap().iter();
    let rpm: Vec<_> = rpm.map(|asset| (asset["source"].as_str().unwrap(), asset["dest"].as_str().unwrap())).collect();
    for assets in [&deb, &rpm] {
        // A package has the directories of the repository.
        let files: Vec<PathBuf> = shipped(assets).iter().map(|file| file.canonicalize().unwrap()).collect();
        assert!(files.contains(&Path::new("README.md").canonicalize().unwrap()));
        for page in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "md")) {
            let text = std::fs::read_to_string(page).unwrap();
            for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
                if link.is_empty() || link.contains("://") {
                    continue;
                }
                let target = page.parent().unwrap().join(link).canonicalize().unwrap();
                let is_shipped = files.iter().any(|file| file.starts_with(&target));
                assert!(is_shipped, "{}: {link} is not in the package", page.display());
            }
        }
    }
    let release = std::fs::read_to_string(".ci/release").unwrap();
    for (source, _) in deb.iter().filter(|(_, folder)| folder.starts_with("usr/share/doc/")) {
        assert!(release.contains(source), "the tarball lacks {source}");
    }
}

/// The anchor that mdBook and forges give to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_to_a_heading_has_one() {
    let pages = pages();
    let mut seen = 0;
    for (path, page) in &pages {
        for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, wanted)) = link.split_once('#').filter(|_| !link.contains("://")) else { continue };
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let text = &pages.iter().find(|(other, _)| *other == target).unwrap_or_else(|| panic!("{link}")).1;
            let found = text
                .lines()
                .filter(|line| line.starts_with('#'))
                .any(|line| anchor(line.trim_start_matches('#')) == wanted);
            assert!(found, "{}: no heading for {link}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 10, "only {seen} links were found");
}
