//! Writable copies of captured machines, and their content.

use crate::machine::{copy, fixture};
use gds_top::checks::{self, Report};
use gds_top::core::{FixPlan, FixStage};
use gds_top::fixes::{self, Place};
use gds_top::machine::Root;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The path, mode, and content or link target of all files.
pub(crate) type Image = Vec<(PathBuf, u32, Option<Vec<u8>>)>;

pub(crate) fn image(folder: &Path) -> Image {
    fn walk(folder: &Path, out: &mut Image) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let meta = fs::symlink_metadata(entry.path()).unwrap();
            let content = if meta.is_file() {
                Some(fs::read(entry.path()).unwrap())
            } else {
                fs::read_link(entry.path()).ok().map(|link| link.into_os_string().into_encoded_bytes())
            };
            out.push((entry.path(), meta.permissions().mode(), content));
            if meta.is_dir() {
                walk(&entry.path(), out);
            }
        }
    }
    let mut out = Vec::new();
    walk(folder, &mut out);
    out.sort();
    out
}

/// A captured machine with the report of its checks.
pub(crate) fn look(folder: &Path) -> (Root, Report) {
    let root = Root::open(folder).unwrap();
    let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    (root, report)
}

/// Resumes interrupted fixes and returns the sentences about them.
pub(crate) fn recover(place: &Place) -> Vec<String> {
    let mut said = Vec::new();
    fixes::recover(place, &mut |sentence| said.push(sentence)).unwrap();
    said
}

/// A copy of a captured machine with its journal next to it.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(&fixture(name), &folder.path().join("machine"));
        Self { folder }
    }

    pub(crate) fn top(&self) -> PathBuf {
        self.folder.path().join("machine")
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.top().join("files")
    }

    /// The real path of a file on the machine.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.files().join(path.trim_start_matches('/'))
    }

    /// Writes a file on the machine and creates its directory if necessary.
    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn root(&self) -> Root {
        Root::open(&self.top()).unwrap()
    }

    pub(crate) fn place(&self) -> Place {
        Place::below(&self.files(), &self.folder.path().join("state"))
    }

    pub(crate) fn report(&self) -> Report {
        look(&self.top()).1
    }

    pub(crate) fn plan(&self, id: &str) -> FixPlan {
        let plans = fixes::plan(&self.root(), &self.report());
        plans.into_iter().find(|plan| plan.id == id).expect("the fix is offered")
    }

    pub(crate) fn apply(&self, plan: &FixPlan) -> Vec<(FixStage, String)> {
        let root = self.root();
        let mut said = Vec::new();
        let paths = root.captured_paths();
        fixes::apply_and_verify(&root, plan, &plan.digest(), &self.place(), &paths, &mut |p| {
            said.push((p.stage, p.text))
        });
        said
    }

    pub(crate) fn image(&self) -> Image {
        image(&self.files())
    }
}
