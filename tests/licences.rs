//! Compares the licence of every dependency with a list. It uses `cargo tree` without the network.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::process::Command;

/// Licences that only require to be named or passed on. A new one is a decision, so it must be added here by hand.
const ALLOWED: [&str; 8] =
    ["Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Zlib"];

/// An SPDX expression from a manifest. `/` is an old notation for OR.
struct Expression<'a> {
    words: Vec<&'a str>,
    at: usize,
}

/// Whether the licences that `allowed` accepts satisfy the expression.
fn satisfies(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut reader = Expression { words: spaced.split_whitespace().collect(), at: 0 };
    let answer = reader.any(allowed)?;
    match reader.words.get(reader.at) {
        None => Ok(answer),
        Some(word) => Err(format!("'{word}' is not understood in '{expression}'")),
    }
}

impl<'a> Expression<'a> {
    fn take(&mut self, word: &str) -> bool {
        let here = self.words.get(self.at) == Some(&word);
        self.at += usize::from(here);
        here
    }

    fn next(&mut self) -> Result<&'a str, String> {
        let word = self.words.get(self.at).ok_or("the expression ends too early")?;
        self.at += 1;
        Ok(word)
    }

    fn any(&mut self, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
        let mut answer = self.all(allowed)?;
        while self.take("OR") {
            answer |= self.all(allowed)?;
        }
        Ok(answer)
    }

    fn all(&mut self, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
        let mut answer = self.one(allowed)?;
        while self.take("AND") {
            answer &= self.one(allowed)?;
        }
        Ok(answer)
    }

    fn one(&mut self, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
        if self.take("(") {
            let answer = self.any(allowed)?;
            return if self.take(")") { Ok(answer) } else { Err("a parenthesis is not closed".to_owned()) };
        }
        let name = self.next()?;
        if self.take("WITH") {
            let exception = self.next()?;
            return Ok(allowed(&format!("{name} WITH {exception}")));
        }
        Ok(allowed(name))
    }
}

fn cargo(arguments: &[&str]) -> String {
    let out =
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).args(arguments).output().unwrap();
    assert!(out.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn every_dependency_has_a_licence_of_the_list() {
    // The tree contains everything that is compiled for this platform, including tests. The metadata would also
    // contain unused optional dependencies.
    let text = cargo(&[
        "tree",
        "--workspace",
        "--offline",
        "--locked",
        "--edges=normal,build,dev",
        "--prefix=none",
        "--no-dedupe",
        "--format={p}\t{l}",
    ]);
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines.dedup();
    assert!(lines.len() > 100 && lines.iter().any(|line| line.starts_with("serde v1")), "{} packages", lines.len());
    let mut wrong = Vec::new();
    for line in lines {
        let (_, licence) = line.split_once('\t').unwrap();
        if satisfies(licence, &|name| ALLOWED.contains(&name)) != Ok(true) {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "licences that are not on the list:\n{}", wrong.join("\n"));
}

#[test]
fn cargo_deny_has_the_same_list() {
    let rules: toml::Table = std::fs::read_to_string("deny.toml").unwrap().parse().unwrap();
    let listed: Vec<&str> =
        rules["licenses"]["allow"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(listed, ALLOWED);
}

#[test]
fn licence_expressions_are_read_as_spdx_means_them() {
    let mit = |name: &str| name == "MIT" || name == "Apache-2.0 WITH LLVM-exception";
    for (expression, want) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("MIT OR GPL-3.0-only", true),
        ("MIT/GPL-3.0-only", true),
        ("MIT AND GPL-3.0-only", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", false),
        ("GPL-3.0-only AND MIT OR MIT", true),
        ("GPL-3.0-only AND (MIT OR MIT)", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
    ] {
        assert_eq!(satisfies(expression, &mit), Ok(want), "{expression}");
    }
    for broken in ["", "MIT OR", "(MIT", "MIT MIT", "MIT WITH"] {
        assert!(satisfies(broken, &mit).is_err(), "{broken}");
    }
}

#[test]
fn the_licence_texts_are_those_of_the_manifest() {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version=1", "--offline", "--locked", "--no-deps"]))
            .unwrap();
    for package in metadata["packages"].as_array().unwrap() {
        assert_eq!(package["license"], "MIT OR Apache-2.0", "{}", package["name"]);
    }
    let mit = std::fs::read_to_string("LICENSE-MIT").unwrap();
    assert!(mit.contains("The gds-top authors") && mit.contains("THE SOFTWARE IS PROVIDED \"AS IS\""));
    let apache = std::fs::read_to_string("LICENSE-APACHE").unwrap();
    assert!(apache.contains("Version 2.0, January 2004") && apache.contains("END OF TERMS AND CONDITIONS"));
}

#[test]
fn the_debian_package_names_its_copyright_and_a_license_that_exists() {
    let manifest: toml::Table = std::fs::read_to_string("Cargo.toml").unwrap().parse().unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    let license = std::fs::read_to_string(deb["license-file"][0].as_str().unwrap()).unwrap();
    let owner = deb["copyright"].as_str().unwrap();
    assert!(license.contains(owner), "{owner}");
}
