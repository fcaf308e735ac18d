//! Tests the settings file from outside: errors are reported before anything runs, and the printed settings are
//! correct.

#![allow(clippy::unwrap_used)]

#[path = "program/mod.rs"]
mod program;

use crate::program::gds_top;
use std::path::Path;
use std::process::Output;

fn run(home: &Path, arguments: &[&str]) -> Output {
    let mut command = gds_top();
    command.args(arguments).env("HOME", home).stdin(std::process::Stdio::null());
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(home: &Path, arguments: &[&str]) -> String {
    let output = run(home, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Removes the comment mark from lines that set something.
fn live(text: &str) -> String {
    let setting = |rest: &str| rest.split_once(" = ").is_some_and(|(name, _)| !name.contains(' ') && name != "ACTION");
    text.lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| setting(rest)).unwrap_or(line).to_owned() + "\n")
        .collect()
}

#[test]
fn what_is_wrong_ends_with_2_one_sentence_and_nothing_done() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    let export = folder.path().join("export");
    for (text, parts) in [
        ("thme = 'dark'", ["s.toml:1: 'thme' is not a setting", "'theme'"]),
        ("theme = 'drak'", ["s.toml:1: 'drak' is not a theme", "'dark'"]),
        ("theme = './none.toml'", ["s.toml:1: the theme in", "No such file"]),
        ("ascii = 1", ["s.toml:1: ascii takes true or false", "1"]),
        ("\n[race]\nset = ['threds=1']", ["s.toml:3: 'threds' is not a setting", "threads"]),
        ("[keys]\nqiut = 'x'", ["s.toml:2: 'qiut' is not an action", "'quit'"]),
        ("[keys]\nfix = 'r'", ["s.toml:2: 'r' would mean both 'fix' and 'recheck'", "another key"]),
        ("[keys]\nfix = 'entr'", ["s.toml:2: 'entr' is not a key", "'enter'"]),
        ("theme = ", ["s.toml:1: this is not TOML", ""]),
    ] {
        std::fs::write(&file, text).unwrap();
        let (file, export_to) = (file.to_str().unwrap(), export.to_str().unwrap());
        for arguments in [
            vec!["--headless", "--gpu", "host", "--export", export_to, "--config", file],
            vec!["check", "--config", file],
            vec!["--config", file],
        ] {
            let output = run(folder.path(), &arguments);
            let said = said(&output);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
            assert_eq!((said.lines().count(), output.stdout.len()), (1, 0), "{said}");
        }
        assert!(!export.exists());
    }
}

#[test]
fn a_file_that_was_named_must_be_there_and_be_text() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.toml");
    let latin = folder.path().join("latin.toml");
    std::fs::write(&latin, b"# caf\xe9\n").unwrap();
    for (path, part) in [
        (missing.as_path(), "No such file"),
        (folder.path(), "not a regular file"),
        (&latin, "not UTF-8"),
        (Path::new("/dev/zero"), "not a regular file"),
    ] {
        let output = run(folder.path(), &["check", "--config", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(part), "{}: {}", path.display(), said(&output));
    }
}

#[test]
fn the_usual_place_is_read_and_what_prints_texts_works_whatever_is_there() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".config/gds-top");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "nonsense").unwrap();
    let output = run(home.path(), &["check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains(".config/gds-top/config.toml:1:"), "{}", said(&output));
    for arguments in [&["settings"][..], &["man"], &["completions", "bash"], &["settings", "--keys"]] {
        assert!(!printed(home.path(), arguments).is_empty());
    }
}

/// A session reads the settings file that was named. Its child processes must not fail because of a file at the
/// default path.
#[test]
fn helpers_of_a_session_read_no_settings_of_their_own() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".config/gds-top");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "nonsense").unwrap();
    let named = home.path().join("good.toml");
    std::fs::write(&named, "theme = 'dark'").unwrap();
    let (place, named) = (home.path().to_str().unwrap(), named.to_str().unwrap());
    let cell = ["--size", "4K", "--threads", "1", "--transfer", "cpu", "--access", "read", "--seconds", "0.02"];
    let grid = [&["io", place, "--headless", "--file-size", "1M", "--config", named][..], &cell].concat();
    let cache =
        ["kv", "ucm", place, "--headless", "--tokens", "256", "--gpu", "host", "--variants", "ram", "--config", named];
    for arguments in [grid.as_slice(), &cache] {
        let output = run(home.path(), arguments);
        let told = String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output);
        assert!(output.status.success() && !told.contains("no setting"), "{arguments:?}: {told}");
    }
}

#[test]
fn what_is_printed_is_accepted_with_and_without_its_comment_marks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    let text = printed(folder.path(), &["settings"]);
    for text in [text.clone(), live(&text)] {
        std::fs::write(&file, text).unwrap();
        let output = run(folder.path(), &["inspect", "/nowhere", "--config", file.to_str().unwrap()]);
        assert!(!said(&output).contains("s.toml"), "{}", said(&output));
    }
    for theme in ["auto", "dark", "light", "high-contrast", "colour-blind"] {
        let themes = folder.path().join("themes");
        std::fs::create_dir_all(&themes).unwrap();
        std::fs::write(themes.join("own.toml"), printed(folder.path(), &["settings", "--template", theme])).unwrap();
        std::fs::write(&file, "theme = 'own'").unwrap();
        let output = run(folder.path(), &["inspect", "/nowhere", "--config", file.to_str().unwrap()]);
        assert!(!said(&output).contains("own"), "{}", said(&output));
    }
    assert_eq!(run(folder.path(), &["settings", "--template", "mono"]).status.code(), Some(2));
}

#[test]
fn the_document_has_the_keys_the_settings_and_the_engines_that_the_program_has() {
    let document = std::fs::read_to_string("docs/settings.md").unwrap();
    let home = tempfile::tempdir().unwrap();
    for (mark, arguments) in
        [("keys", &["settings", "--keys"][..]), ("settings", &["settings"]), ("engines", &["settings", "--engines"])]
    {
        let (start, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
        let from = document.find(&start).unwrap() + start.len();
        let to = document.find(&end).unwrap();
        let wanted = printed(home.path(), arguments);
        // GDS_TOP_UPDATE_DOCS=1 writes the document.
        if std::env::var_os("GDS_TOP_UPDATE_DOCS").is_some() {
            let document = std::fs::read_to_string("docs/settings.md").unwrap();
            let (from, to) = (document.find(&start).unwrap() + start.len(), document.find(&end).unwrap());
            let body = if mark != "settings" { wanted } else { format!("```toml\n{}\n```\n", short(&wanted)) };
            std::fs::write("docs/settings.md", format!("{}{body}{}", &document[..from], &document[to..])).unwrap();
            continue;
        }
        let body = if mark != "settings" { wanted } else { format!("```toml\n{}\n```\n", short(&wanted)) };
        assert_eq!(&document[from..to], body, "docs/settings.md is behind the program: {mark}");
    }
}

/// The file without its keys, because the document has them as a table.
fn short(text: &str) -> &str {
    text.split("\n[keys]").next().unwrap_or(text).trim_end()
}

#[test]
fn engines_and_cache_of_the_settings_are_raced_and_the_call_comes_first() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let model = folder.path().join("m");
    printed(folder.path(), &["synth", "qwen3-0.6b", model.to_str().unwrap(), "--scale", "0.01", "--quiet"]);
    let file = folder.path().join("s.toml");
    std::fs::write(
        &file,
        "[race]\nengines = ['pread']\ncache = ['hot']\nrepeat = 2\ngpu = 'host'\nset = ['pread.threads=3']\n",
    )
    .unwrap();
    let raced = |more: &[&str]| -> Vec<(String, String)> {
        let mut arguments =
            vec!["load", model.to_str().unwrap(), "--json", "--quiet", "--config", file.to_str().unwrap()];
        arguments.extend(more);
        let report: serde_json::Value = serde_json::from_str(&printed(folder.path(), &arguments)).unwrap();
        let text = |run: &serde_json::Value, name: &str| run[name].as_str().unwrap_or_default().to_owned();
        report["runs"].as_array().unwrap().iter().map(|run| (text(run, "engine"), text(run, "cache"))).collect()
    };
    let pair = |engine: &str| (engine.to_owned(), "hot".to_owned());
    assert_eq!(raced(&[]), [pair("pread"), pair("pread")]);
    assert_eq!(raced(&["--engine", "mmap", "--repeat", "1"]), [pair("mmap")]);
}
