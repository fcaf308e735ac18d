//! Tests that the commands, outputs, exit statuses and checks in the documents are those of the program.

use crate::program::gds_top;
use crate::{assert_accepted, commands, pages, part_is, updates};
use gds_top::core::CheckId;
use std::fmt::Write as _;
use std::path::Path;

/// Number, meaning and cases of each exit status, from the help of a command.
fn exit_statuses() -> Vec<(String, String, String)> {
    let help = String::from_utf8(gds_top().arg("--help").output().unwrap().stdout).unwrap();
    let mut rows: Vec<(String, String)> = Vec::new();
    for line in help.split_once("Exit status:\n").unwrap().1.lines().map(str::trim) {
        match (line.split_once("  "), rows.last_mut()) {
            (Some((number, text)), _) => rows.push((number.to_owned(), text.to_owned())),
            // The help is wrapped.
            (None, Some((_, text))) => *text = format!("{text} {line}"),
            (None, None) => panic!("{line}"),
        }
    }
    let parts = |(number, text): (String, String)| match text.split_once(": ") {
        Some((meaning, cases)) => (number, meaning.to_owned(), cases.to_owned()),
        None => (number, text, String::new()),
    };
    rows.into_iter().map(parts).collect()
}

#[test]
fn the_exit_statuses_are_those_of_the_help() {
    let statuses = exit_statuses();
    assert_eq!(statuses.iter().map(|(number, ..)| number.as_str()).collect::<Vec<_>>(), ["0", "1", "2", "3", "130"]);
    let mut table = String::from("| status | meaning | cases |\n|---|---|---|\n");
    for (number, meaning, cases) in &statuses {
        let _ = writeln!(table, "| {number} | {meaning} | {cases} |");
    }
    part_is("docs/automation.md", "exit-status", &table);
    let short: Vec<String> = statuses.iter().map(|(number, meaning, _)| format!("{number} {meaning}")).collect();
    part_is("README.md", "exit-status", &format!("Exit status: {}.\n", short.join(", ")));
}

#[test]
fn the_table_of_checks_is_that_of_the_specification() {
    let mut table = format!("{} checks, causes before consequences:\n\n", CheckId::ALL.len());
    table.push_str("| check | group | examines | can block |\n|---|---|---|---|\n");
    for check in CheckId::ALL {
        let spec = check.spec();
        let routes: Vec<String> = spec.blocks.iter().map(ToString::to_string).collect();
        let blocks = if routes.is_empty() { "–".to_owned() } else { routes.join(", ") };
        let _ = writeln!(table, "| `{check}` | {} | {} | {blocks} |", spec.group.title(), spec.examines);
    }
    part_is("docs/checks.md", "checks", &table);
}

#[test]
fn every_command_of_the_documents_is_accepted() {
    let mut seen = 0;
    for (path, page) in pages() {
        for command in commands(&page) {
            assert_accepted(&path, &command);
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} commands were found");
}

#[test]
fn the_page_of_commands_has_an_example_of_each_command() {
    let help = String::from_utf8(gds_top().arg("-h").output().unwrap().stdout).unwrap();
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let names = listed.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).filter(|n| *n != "help").collect();
    assert!(names.len() > 15 && names.contains(&"fleet"), "{names:?}");
    let page = std::fs::read_to_string("docs/commands.md").unwrap();
    let has_example = |name: &&str| commands(&page).iter().any(|command| command.split(' ').nth(1) == Some(*name));
    let missing: Vec<&str> = names.into_iter().filter(|name| !has_example(name)).collect();
    assert!(missing.is_empty(), "docs/commands.md has no example of {missing:?}");
}

/// An example in README.md has a comment with the lines and the command, followed by a block with its output.
#[test]
fn the_outputs_in_the_readme_are_those_of_the_program() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let mut wanted = String::new();
    let mut rest = readme.as_str();
    let (start, end) = ("<!-- output, ", "<!-- /output -->");
    let mut seen = 0;
    while let Some(at) = rest.find(start) {
        let line_end = at + rest[at..].find('\n').unwrap() + 1;
        let mark = rest[at + start.len()..line_end].trim_end().trim_end_matches(" -->");
        let (lines, command) = mark.split_once(" lines: ").unwrap();
        let words = shlex::Shlex::new(command).collect::<Vec<_>>();
        let out = gds_top().args(&words[1..]).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let lines: usize = lines.parse().unwrap();
        let mut shown: Vec<&str> = text.lines().take(lines).map(str::trim_end).collect();
        // The rest of the output is not shown.
        shown.extend((text.lines().count() > lines).then_some("…"));
        wanted += &rest[..line_end];
        let _ = write!(wanted, "```console\n$ {command}\n{}\n```\n", shown.join("\n").trim_end());
        rest = &rest[line_end + rest[line_end..].find(end).unwrap()..];
        seen += 1;
    }
    wanted += rest;
    assert!(seen >= 3, "the README lost its outputs");
    if updates() {
        std::fs::write("README.md", wanted).unwrap();
        return;
    }
    assert_eq!(readme, wanted, "an output in README.md is not that of its command");
}

#[test]
fn the_page_of_crates_and_wheels_has_no_relative_link_and_its_commands_are_accepted() {
    let page = "deploy/package/README.md";
    let read = |path: &str| std::fs::read_to_string(path).unwrap().parse::<toml::Table>().unwrap();
    let package = read("Cargo.toml")["package"].clone();
    assert_eq!(package["readme"].as_str(), Some(page));
    assert_eq!(read("pyproject.toml")["project"]["readme"].as_str(), Some(page));
    // The pages that a crate contains link to no page that it lacks.
    let included = package["include"].as_array().unwrap().iter().map(|path| path.as_str().unwrap());
    let included: Vec<&str> = included.filter(|path| path.ends_with(".md")).collect();
    assert!(included.contains(&"/deploy/package/README.md"), "{included:?}");
    for path in included {
        let text = std::fs::read_to_string(path.trim_start_matches('/')).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let relative: Vec<&str> = links.filter(|link| !link.contains("://")).collect();
        assert!(relative.is_empty(), "{path}: {relative:?}");
    }
    let text = std::fs::read_to_string(page).unwrap();
    let found = commands(&text);
    assert_eq!(found.len(), 5);
    for command in found {
        assert_accepted(Path::new(page), &command);
    }
}
