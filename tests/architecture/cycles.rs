//! Finds import cycles between the files of a crate.
//!
//! An import is a path in code that names an item of another file. A path is followed through modules and re-exports
//! to the file that defines the item. So a `mod.rs` that only re-exports names is not part of a cycle. Items after
//! `#[cfg(test)]` are not read.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const ROOTS: [&str; 4] = ["src/lib.rs", "cufile-audit/src/lib.rs", "cufile-ffi/src/lib.rs", "nixl-ffi/src/lib.rs"];

/// The imports of each file: the imported files, and the imported names.
type Imports = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// A module: a file, or a part of a file in braces.
#[derive(Default)]
struct Module {
    file: PathBuf,
    parent: Option<usize>,
    children: HashMap<String, usize>,
    items: BTreeSet<String>,
    /// Imported names, each with all paths by which it was imported, because a function and a module may have the
    /// same name.
    names: HashMap<String, Vec<Vec<String>>>,
    globs: Vec<Vec<String>>,
    /// The paths in the module's code, without re-exports.
    paths: Vec<Vec<String>>,
}

/// The item that a path names.
#[derive(Clone, Debug, PartialEq)]
enum Target {
    Item(PathBuf),
    Module(usize),
}

/// The modules of a crate. The first one is its root.
struct Crate {
    modules: Vec<Module>,
}

impl Crate {
    /// Reads a crate from its root file. `read` returns the text of a file, or `None` if the file does not exist.
    fn read(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut found = Self { modules: Vec::new() };
        let folder = root.parent().unwrap();
        found.file(root, folder, None, read);
        found
    }

    /// Adds the module of `file`. The files of its child modules are in `folder`.
    fn file(
        &mut self,
        file: &Path,
        folder: &Path,
        parent: Option<usize>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> usize {
        let text = read(file).unwrap_or_else(|| panic!("{} is missing", file.display()));
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.module(tokens, file, folder, parent, read)
    }

    fn module(
        &mut self,
        tokens: TokenStream,
        file: &Path,
        folder: &Path,
        parent: Option<usize>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> usize {
        let id = self.modules.len();
        self.modules.push(Module { file: file.to_owned(), parent, ..Module::default() });
        let tokens = without_tests(tokens);
        for (at, token) in tokens.iter().enumerate() {
            if ident(token).as_deref() != Some("mod") {
                define(&mut self.modules[id], &tokens, at);
                continue;
            }
            let Some(name) = tokens.get(at + 1).and_then(ident) else { continue };
            let inside = folder.join(&name);
            let child = if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
                self.module(body.stream(), file, &inside, Some(id), read)
            } else {
                let flat = folder.join(format!("{name}.rs"));
                let path = if read(&flat).is_some() { flat } else { inside.join("mod.rs") };
                self.file(&path, &inside, Some(id), read)
            };
            self.modules[id].children.insert(name, child);
        }
        collect(&mut self.modules[id], &tokens);
        id
    }

    /// The item that `path` names if it is in `module`. `None` if the path leads out of the crate.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Target> {
        let mut here = module;
        let mut at = 0;
        while let Some(step) = path.get(at) {
            here = match step.as_str() {
                "crate" => 0,
                "self" => here,
                "super" => self.modules[here].parent?,
                _ => break,
            };
            at += 1;
        }
        let explicit = at > 0;
        for (i, name) in path.iter().enumerate().skip(at) {
            let last = i + 1 == path.len();
            let named = self.named(here, name, depth);
            let item = named.iter().find(|t| matches!(t, Target::Item(_)));
            let inner = named.iter().find_map(|t| if let Target::Module(id) = t { Some(*id) } else { None });
            match (item, inner) {
                (Some(item), _) if last => return Some(item.clone()),
                (_, Some(id)) => here = id,
                (Some(item), None) => return Some(item.clone()),
                // If only a macro defines a name, it is treated as an item of the module that was searched.
                (None, None) => return (explicit || i > at).then(|| Target::Item(self.modules[here].file.clone())),
            }
        }
        Some(Target::Module(here))
    }

    /// Everything that `name` means in a module: items, modules and imports.
    fn named(&self, module: usize, name: &str, depth: usize) -> Vec<Target> {
        let here = &self.modules[module];
        let mut found = Vec::new();
        if here.items.contains(name) {
            found.push(Target::Item(here.file.clone()));
        }
        found.extend(here.children.get(name).map(|id| Target::Module(*id)));
        // An import may name itself (`use x::x`), so the depth of the search is limited.
        if depth < 8 {
            let imported = here.names.get(name).into_iter().flatten();
            found.extend(imported.filter_map(|path| self.resolve(module, path, depth + 1)));
            if found.is_empty() {
                let globs = here.globs.iter().filter_map(|path| self.resolve(module, path, depth + 1));
                let globs: Vec<_> = globs.filter(|t| *t != Target::Module(module)).collect();
                found.extend(globs.iter().flat_map(|target| match target {
                    Target::Module(id) => self.named(*id, name, depth + 1),
                    Target::Item(_) => Vec::new(),
                }));
            }
        }
        found
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (id, module) in self.modules.iter().enumerate() {
            for path in &module.paths {
                if let Some(Target::Item(file)) = self.resolve(id, path, 0)
                    && file != module.file
                {
                    let name = path.iter().find(|s| s.starts_with(char::is_uppercase)).or(path.last()).unwrap();
                    imports.entry(module.file.clone()).or_default().entry(file).or_default().insert(name.clone());
                }
            }
        }
        imports
    }
}

fn ident(token: &TokenTree) -> Option<String> {
    if let TokenTree::Ident(ident) = token { Some(ident.to_string()) } else { None }
}

fn punct(token: Option<&TokenTree>) -> Option<char> {
    if let Some(TokenTree::Punct(punct)) = token { Some(punct.as_char()) } else { None }
}

fn braces(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// The tokens without the items, statements and fields after `#[cfg(test)]`. Inner groups are kept completely.
fn without_tests(tokens: TokenStream) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let test = punct(Some(&token)) == Some('#')
            && matches!(tokens.peek(), Some(TokenTree::Group(group)) if group.stream().to_string().replace(' ', "") == "cfg(test)");
        if test {
            for skipped in tokens.by_ref() {
                if braces(&skipped) || punct(Some(&skipped)) == Some(';') {
                    break;
                }
            }
        } else {
            kept.push(token);
        }
    }
    kept
}

/// Records the item whose keyword is at `at`, and the items that are passed to a macro there.
fn define(module: &mut Module, tokens: &[TokenTree], at: usize) {
    const KEYWORDS: [&str; 8] = ["struct", "enum", "union", "trait", "type", "fn", "const", "static"];
    let before = at.checked_sub(1).and_then(|i| tokens.get(i));
    match &tokens[at] {
        // `'static` and `*const` define nothing.
        TokenTree::Ident(word)
            if KEYWORDS.contains(&word.to_string().as_str()) && !matches!(punct(before), Some('\'' | '*')) =>
        {
            module.items.extend(tokens.get(at + 1).and_then(ident));
        }
        TokenTree::Punct(mark) if mark.as_char() == '!' => match tokens.get(at + 1) {
            Some(TokenTree::Ident(name)) => _ = module.items.insert(name.to_string()),
            Some(TokenTree::Group(handed)) => {
                let handed = without_tests(handed.stream());
                (0..handed.len()).for_each(|i| define(module, &handed, i));
            }
            _ => {}
        },
        _ => {}
    }
}

/// Records the imports, and the paths in the code.
fn collect(module: &mut Module, tokens: &[TokenTree]) {
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).and_then(|i| tokens.get(i));
        match &tokens[at] {
            TokenTree::Group(group) => {
                collect(module, &without_tests(group.stream()));
                at += 1;
            }
            TokenTree::Ident(word) if *word == "use" && punct(tokens.get(at + 1)) != Some('<') => {
                let end =
                    tokens[at..].iter().position(|t| punct(Some(t)) == Some(';')).map_or(tokens.len(), |n| at + n);
                let public = before.and_then(ident).as_deref() == Some("pub")
                    || (at >= 2 && ident(&tokens[at - 2]).as_deref() == Some("pub"));
                imported(module, &tokens[at + 1..end], &[], public);
                at = end;
            }
            TokenTree::Ident(_) => {
                let member = punct(before) == Some('.') && !stands_before(tokens, at, "..");
                let lifetime = punct(before) == Some('\'');
                // The path continues after a type, or leads out of the crate.
                let goes_on = stands_before(tokens, at, "::");
                let path = path(tokens, &mut at);
                let bound = path.len() == 1 && punct(tokens.get(at)) == Some(':');
                let declared = before.and_then(ident).as_deref() == Some("mod");
                if !(declared || member || lifetime || goes_on || bound) {
                    module.paths.push(path);
                }
            }
            _ => at += 1,
        }
    }
}

fn stands_before(tokens: &[TokenTree], at: usize, marks: &str) -> bool {
    let before: String = tokens[at.saturating_sub(2)..at].iter().filter_map(|t| punct(Some(t))).collect();
    before == marks
}

/// Reads the path that begins at `at`, and moves `at` to its end.
fn path(tokens: &[TokenTree], at: &mut usize) -> Vec<String> {
    let mut path = Vec::new();
    while let Some(name) = tokens.get(*at).and_then(ident) {
        path.push(name);
        *at += 1;
        let colons = punct(tokens.get(*at)) == Some(':') && punct(tokens.get(*at + 1)) == Some(':');
        if !colons || tokens.get(*at + 2).and_then(ident).is_none() {
            break;
        }
        *at += 2;
    }
    path
}

/// Records the names of a `use`: `a::b`, `a::{b, c as d}`, `a::*`.
fn imported(module: &mut Module, tokens: &[TokenTree], prefix: &[String], public: bool) {
    for tree in tokens.split(|t| punct(Some(t)) == Some(',')) {
        let mut at = 0;
        let mut whole = prefix.to_vec();
        whole.extend(path(tree, &mut at));
        let rest = &tree[at..];
        let last = rest.last();
        if let Some(TokenTree::Group(group)) = last {
            let inner: Vec<_> = group.stream().into_iter().collect();
            imported(module, &inner, &whole, public);
        } else if punct(last) == Some('*') {
            module.globs.push(whole);
        } else if !whole.is_empty() {
            // Two special forms: `a::b as c`, and `a::{self}`.
            let name =
                if rest.len() == 2 { ident(&rest[1]) } else { whole.iter().rev().find(|s| *s != "self").cloned() };
            if !public {
                module.paths.push(whole.clone());
            }
            module.names.entry(name.unwrap_or_default()).or_default().push(whole);
        }
    }
}

/// The files that import each other in a cycle. Each group is sorted.
fn cycles(imports: &Imports) -> Vec<Vec<PathBuf>> {
    let reached = |from: &PathBuf| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            open.extend(
                imports.get(file).into_iter().flat_map(|m| m.keys()).filter(|next| seen.insert((*next).clone())),
            );
        }
        seen
    };
    let reach: BTreeMap<_, _> = imports.keys().map(|file| (file, reached(file))).collect();
    let mut groups = BTreeSet::new();
    for (file, seen) in reach.iter().filter(|(file, seen)| seen.contains(**file)) {
        let back = seen.iter().filter(|other| reach.get(other).is_some_and(|theirs| theirs.contains(*file)));
        groups.insert(back.cloned().collect::<Vec<_>>());
    }
    groups.into_iter().collect()
}

/// Describes a group with the names that cause the cycle.
fn described(group: &[PathBuf], imports: &Imports) -> String {
    let mut text = format!("a cycle of {} files\n", group.len());
    for from in group {
        for (to, names) in imports.get(from).into_iter().flatten().filter(|(to, _)| group.contains(to)) {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            _ = writeln!(text, "  {} -> {}: {}", from.display(), to.display(), names.join(", "));
        }
    }
    text
}

fn from_disk(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[test]
fn no_file_is_in_an_import_cycle() {
    let mut wrong = String::new();
    for root in ROOTS {
        let imports = Crate::read(Path::new(root), &from_disk).imports();
        for group in cycles(&imports) {
            _ = writeln!(wrong, "{}", described(&group, &imports));
        }
    }
    assert!(wrong.is_empty(), "move the shared part of these files into another file:\n{wrong}");
}

/// The imports of a crate whose files are given as text.
fn imports_of(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let read = |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned());
    let imports = Crate::read(Path::new("lib.rs"), &read).imports();
    let pairs = imports.iter().flat_map(|(from, to)| to.keys().map(move |to| (from, to)));
    pairs.map(|(from, to)| (from.display().to_string(), to.display().to_string())).collect()
}

fn pair(from: &str, to: &str) -> (String, String) {
    (from.to_owned(), to.to_owned())
}

#[test]
fn a_re_export_is_followed_to_the_file_that_defines_the_name() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod b; mod c; pub use b::Thing as Other; pub(crate) use c::*;"),
        ("a/b.rs", "pub struct Thing; fn f() -> super::Made { super::Made }"),
        ("a/c.rs", "use super::Other; pub struct Made; fn f(_: Other) {}"),
    ];
    assert_eq!(imports_of(&files), [pair("a/b.rs", "a/c.rs"), pair("a/c.rs", "a/b.rs")]);
}

#[test]
fn a_function_that_has_the_name_of_its_module_is_found() {
    let files = [
        ("lib.rs", "mod page; mod user; pub use page::page;"),
        ("page.rs", "pub fn page() {} pub const WIDTH: u8 = 1;"),
        ("user.rs", "fn f() { crate::page(); } fn g() -> u8 { crate::page::WIDTH }"),
    ];
    assert_eq!(imports_of(&files), [pair("user.rs", "page.rs")]);
}

#[test]
fn paths_in_bodies_macros_ranges_and_inner_modules_are_imports() {
    for body in [
        "fn f() { let _ = super::b::MADE; }",
        "fn f() { println!(\"{}\", super::b::MADE); }",
        "use super::b; fn f() { for _ in 0..b::MADE {} }",
        "use super::{b::{self as other}}; fn f() -> u8 { other::MADE }",
        "mod inner { use crate::b::MADE; }",
        "use super::*; fn f() -> u8 { b::MADE }",
    ] {
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", body), ("b.rs", "pub const MADE: u8 = 1;")];
        assert_eq!(imports_of(&files), [pair("a.rs", "b.rs")], "{body}");
    }
}

#[test]
fn tests_members_and_other_crates_are_no_imports() {
    for body in [
        "#[cfg(test)] mod tests { use crate::b::MADE; }",
        "fn f() {} #[cfg(test)] use super::b::MADE;",
        "#[cfg(test)] fn only() -> u8 { super::b::MADE } fn f() {}",
        "fn f(x: Outer) { x.b.MADE(); } struct Outer { b: u8 }",
        "fn f() -> &'static u8 { std::b::MADE }",
    ] {
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", body), ("b.rs", "pub const MADE: u8 = 1;")];
        assert_eq!(imports_of(&files), [], "{body}");
    }
}

#[test]
fn files_that_reach_each_other_are_one_cycle() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "pub struct A(crate::b::B);"),
        ("b.rs", "pub struct B(Vec<crate::c::C>);"),
        ("c.rs", "pub struct C(Vec<crate::a::A>);"),
        ("d.rs", "pub struct D(crate::a::A);"),
    ];
    let read = |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned());
    let imports = Crate::read(Path::new("lib.rs"), &read).imports();
    assert_eq!(cycles(&imports), [["a.rs", "b.rs", "c.rs"].map(PathBuf::from).to_vec()]);
}
