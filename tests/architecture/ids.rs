//! Tests that ids of checks, fixes, engines and settings are string literals only in their specifications.

use gds_top::core::{CheckId, Engine, FixId, KvSystem, Setting};
use gds_top::workloads::kv::parameters;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files that define ids.
const SPECIFICATIONS: [&str; 5] = [
    "src/core/check/table.rs",
    "src/core/fix_id.rs",
    "src/core/engine_spec.rs",
    "src/core/spec.rs",
    "src/workloads/kv/params.rs",
];

/// Words that are an id but also have another meaning, with the files in which they have the other meaning.
const OTHER_MEANING: &[(&str, &[&str])] = &[
    // A choice for colours and for the colour depth, a back end of LMCache, and a type in /etc/fstab.
    ("auto", &["src/cli/args.rs", "src/config/", "src/checks/serving/", "src/machine/fstab.rs"]),
    // A key of cufile.json. The setting has the same name.
    ("max_direct_io_size_kb", &["src/checks/cufile_json/", "src/engines/probe.rs"]),
    // Columns of files and tables. In JSON and CSV, some have the names of settings.
    ("slots", &["src/report/"]),
    ("block_bytes", &["src/report/"]),
    ("threads", &["src/report/", "src/present/watch/", "src/tui/screens/"]),
    // A value of `--require`, and the direct route in sentences and in the glossary.
    ("direct", &["src/cli/check.rs", "src/tui/help.rs", "src/config/taste.rs"]),
    // The library, in the text of another program or in its configuration.
    ("cufile", &["src/explain/query.rs", "src/machine/redact", "src/checks/serving/"]),
    // The step of a test read that failed.
    ("register", &["src/engines/probe_read.rs", "src/session/live/prove.rs"]),
    // A field of the description file that llm-d and vLLM write.
    ("block_size", &["src/workloads/kv/mapper.rs", "src/checks/serving/"]),
    // Options of the serving systems. Some KV settings have the same names.
    ("threads_per_gpu", &["src/checks/serving/"]),
    ("enable_layerwise", &["src/checks/serving/"]),
    ("prefetch_factor", &["src/checks/serving/"]),
    ("chunk_size", &["src/checks/serving/"]),
    ("n_read_threads", &["src/checks/serving/"]),
    ("n_write_threads", &["src/checks/serving/"]),
    // A system whose configuration is read.
    ("nixl", &["src/core/serving.rs"]),
    // The name of a package.
    ("nvidia-fabricmanager", &["src/fixes/fabric.rs", "src/machine/fabric.rs"]),
    // An item of limits.conf.
    ("memlock", &["src/fixes/limits.rs"]),
];

/// All ids.
fn ids() -> BTreeSet<&'static str> {
    let engines = Engine::named().filter_map(Engine::spec);
    let engines = engines.flat_map(|spec| spec.aliases.iter().chain([&spec.name]).copied());
    let kv = KvSystem::ALL.into_iter().flat_map(|kind| parameters(kind).iter().map(|p| p.setting.name()));
    let checks = CheckId::ALL.iter().map(|id| id.as_str());
    let fixes = FixId::ALL.iter().map(|id| id.as_str());
    let settings = Setting::ALL.iter().map(|setting| setting.name());
    checks.chain(fixes).chain(engines).chain(settings).chain(kv).collect()
}

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

/// The string literals and the module files of a source.
#[derive(Default)]
struct Source {
    literals: Vec<String>,
    /// Module files that are compiled only for tests.
    test_modules: Vec<String>,
}

/// Reads code. Literals after `#[cfg(test)]` are left out.
fn read(tokens: TokenStream, out: &mut Source) {
    let mut is_test = false;
    let mut module = None;
    for token in tokens {
        let is_mod = matches!(&token, TokenTree::Ident(word) if word == "mod");
        match token {
            TokenTree::Group(group) if group.stream().to_string().replace(' ', "") == "cfg(test)" => is_test = true,
            TokenTree::Group(group) => {
                let is_body = group.delimiter() == Delimiter::Brace;
                if !(is_test && is_body) {
                    read(group.stream(), out);
                }
                is_test &= !is_body;
            }
            TokenTree::Literal(literal) => out.literals.push(literal.to_string()),
            TokenTree::Punct(mark) if mark.as_char() == ';' => {
                out.test_modules.extend(module.take().filter(|_| is_test));
                is_test = false;
            }
            TokenTree::Ident(word) if module.as_deref() == Some("") => module = Some(word.to_string()),
            _ => {}
        }
        if is_mod {
            module = Some(String::new());
        }
    }
}

fn parsed(code: &str) -> Source {
    let mut source = Source::default();
    read(code.parse().unwrap(), &mut source);
    source
}

/// The directory with the modules that a file declares.
fn folder_of(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap();
    let folder = path.parent().unwrap();
    if ["mod", "lib", "main"].iter().any(|name| stem == *name) { folder.to_owned() } else { folder.join(stem) }
}

fn means_something_else(path: &str, id: &str) -> bool {
    OTHER_MEANING.iter().any(|(word, files)| *word == id && files.iter().any(|file| path.starts_with(file)))
}

#[test]
fn ids_are_string_literals_in_their_specification_only() {
    let files: Vec<(String, Source)> = sources(Path::new("src"))
        .into_iter()
        .map(|path| (path.to_str().unwrap().to_owned(), parsed(&fs::read_to_string(&path).unwrap())))
        .collect();
    let tests: Vec<String> = files
        .iter()
        .flat_map(|(path, source)| source.test_modules.iter().map(|name| folder_of(Path::new(path)).join(name)))
        .map(|module| module.to_str().unwrap().to_owned())
        .collect();
    // Modules with `#[path]`, and directories of tests.
    let is_test = |path: &str| {
        tests
            .iter()
            .any(|module| path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/')))
            || path.contains("/tests/")
            || path.ends_with("_tests.rs")
    };
    let ids = ids();
    let mut wrong = Vec::new();
    let mut unused: BTreeSet<(&str, &str)> =
        OTHER_MEANING.iter().flat_map(|(word, files)| files.iter().map(|file| (*word, *file))).collect();
    for (path, source) in files.iter().filter(|(path, _)| !is_test(path) && !SPECIFICATIONS.contains(&path.as_str())) {
        for literal in &source.literals {
            let Some(id) = literal.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { continue };
            if !ids.contains(id) {
                continue;
            }
            unused.retain(|(word, file)| *word != id || !path.starts_with(file));
            if !means_something_else(path, id) {
                wrong.push(format!("{path}: {literal}"));
            }
        }
    }
    assert!(wrong.is_empty(), "name these by CheckId, FixId, Engine, Setting or KvSetting:\n{}", wrong.join("\n"));
    assert!(unused.is_empty(), "not in these files any more, remove them from OTHER_MEANING: {unused:?}");
}

#[test]
fn literals_of_tests_are_not_read() {
    let code = "const A: &str = \"one\"; fn f() { g(\"two\"); } #[cfg(test)] mod tests { const B: &str = \"three\"; } \
                const C: &str = \"four\"; #[cfg(test)] pub(crate) mod made; mod real;";
    let source = parsed(code);
    assert_eq!(source.literals, ["\"one\"", "\"two\"", "\"four\""]);
    assert_eq!(source.test_modules, ["made"]);
}
