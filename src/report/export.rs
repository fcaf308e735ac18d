//! Writes the report into a directory. The directory is tested first and opened once. Each file is written to a
//! temporary file and then renamed.

use super::replace::{PAGE_MARK, may_replace, may_replace_marked};
use super::sections::folder_name;
use super::{csv, csv_watch, html, json, junit, markdown, prom, trace};
use crate::session::State;
use crate::trust::{Destination, Owners};
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A format of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// `report.json` and `report.schema.json`.
    Json,
    /// `report.md`.
    Markdown,
    /// `report.html`, one self-contained file.
    Html,
    /// `runs.csv`, `tensors.csv`, `samples.csv` and `results.csv`; for a workload also `workloads.csv` and
    /// `layers.csv`, and for a storage measurement `grid.csv`. For a watched program `program.csv`,
    /// `calls.csv`, `files.csv`, `file_tensors.csv` and `timeline.csv` instead.
    Csv,
    /// `trace.json`, for Perfetto.
    Trace,
    /// `gds-top.prom`.
    Prom,
    /// `junit.xml`.
    Junit,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 7] =
        [Self::Json, Self::Markdown, Self::Html, Self::Csv, Self::Trace, Self::Prom, Self::Junit];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Markdown => "md",
            Self::Html => "html",
            Self::Csv => "csv",
            Self::Trace => "trace",
            Self::Prom => "prom",
            Self::Junit => "junit",
        }
    }

    /// The files that the format can write.
    const fn files(self) -> &'static [&'static str] {
        match self {
            Self::Json => &["report.json", "report.schema.json"],
            Self::Markdown => &["report.md"],
            Self::Html => &["report.html"],
            Self::Csv => &[
                "runs.csv",
                "tensors.csv",
                "samples.csv",
                "results.csv",
                "workloads.csv",
                "layers.csv",
                "grid.csv",
                "program.csv",
                "calls.csv",
                "files.csv",
                "file_tensors.csv",
                "timeline.csv",
            ],
            Self::Trace => &["trace.json"],
            Self::Prom => &["gds-top.prom"],
            Self::Junit => &["junit.xml"],
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|f| f.name() == text)
            .ok_or_else(|| format!("'{text}' is not a format; known formats: {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The reason why a report could not be exported.
#[derive(Debug, thiserror::Error)]
#[error("export to {path}: {doing} failed: {source}", path = path.display())]
pub struct ExportError {
    /// The directory or file that caused the error.
    pub path: PathBuf,
    /// The failed operation.
    pub doing: &'static str,
    /// The error of the operating system.
    pub source: io::Error,
}

fn failed(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> ExportError {
    move |source| ExportError { path: path.to_owned(), doing, source }
}

/// Checks that reports in these formats can be written into a directory. A missing directory is not created. Call it before
/// long work, so that an invalid path fails early.
///
/// # Errors
/// Fails if the path is not a directory, is behind a link of another user, cannot be created or is not writable, or if it
/// contains one of the files and gds-top did not write that file.
pub fn prepare(folder: &Path, formats: &[Format]) -> Result<(), ExportError> {
    let (there, missing) =
        Destination::nearest(folder, Owners::Any).map_err(failed(folder, "opening the directory"))?;
    // Only writing a file shows reliably whether the directory is writable.
    let doing = if missing { "creating the directory" } else { "writing into the directory" };
    there.unfinished_file().map(drop).map_err(failed(folder, doing))?;
    if missing { Ok(()) } else { replaceable(&there, formats) }
}

/// Checks that the existing files with these names were written by gds-top.
fn replaceable(folder: &Destination, formats: &[Format]) -> Result<(), ExportError> {
    for name in formats.iter().flat_map(|format| format.files()) {
        may_replace(folder, name).map_err(failed(&folder.shown(name), "replacing it"))?;
    }
    Ok(())
}

/// Writes the report in these formats and returns the written files in order. Each file of an earlier export is
/// replaced in one step. A file that gds-top did not write is not changed.
///
/// If the session had several plans, the report of each earlier plan is in a subdirectory. The name of the
/// subdirectory has the number and title of the plan.
///
/// # Errors
/// Fails if the directory is not writable, the disk is full, or one of the files exists and gds-top did not write it.
/// Each file is then either the old or the new one, and never incomplete. A directory that was created does not stay.
pub fn export(state: &State, folder: &Path, formats: &[Format]) -> Result<Vec<PathBuf>, ExportError> {
    let folder = Destination::make(folder, Owners::Any).map_err(failed(folder, "creating the directory"))?;
    let mut pages = Vec::new();
    write_page_of(state, folder, formats, &mut pages)?;
    Ok(pages.iter_mut().flat_map(Page::complete).collect())
}

/// The directory of one page. If the report fails, a directory that was created for it does not stay with a part of it.
struct Page {
    folder: Destination,
    written: Vec<&'static str>,
    is_complete: bool,
}

impl Page {
    fn write(&mut self, state: &State, formats: &[Format], pages: &mut Vec<Self>) -> Result<(), ExportError> {
        replaceable(&self.folder, formats)?;
        for (number, page) in state.earlier.iter().enumerate() {
            let name = folder_name(number, &page.race_title());
            let inner =
                self.folder.inner(&name).map_err(failed(&self.folder.shown(&name), "creating the directory"))?;
            write_page_of(page, inner, formats, pages)?;
        }
        write_files(state, &self.folder, formats, &mut self.written)
    }

    fn complete(&mut self) -> Vec<PathBuf> {
        self.is_complete = true;
        self.written.iter().map(|name| self.folder.shown(name)).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if !self.is_complete && self.folder.is_new() {
            for name in &self.written {
                let _ = self.folder.remove(name);
            }
        }
    }
}

/// Writes a page and adds it to `pages` after its inner pages, also if it fails. The directories are then removed in that
/// order.
fn write_page_of(
    state: &State,
    folder: Destination,
    formats: &[Format],
    pages: &mut Vec<Page>,
) -> Result<(), ExportError> {
    let mut page = Page { folder, written: Vec::new(), is_complete: false };
    let result = page.write(state, formats, pages);
    pages.push(page);
    result
}

/// Writes the files of one page and adds their names to `written`.
fn write_files(
    state: &State,
    folder: &Destination,
    formats: &[Format],
    written: &mut Vec<&'static str>,
) -> Result<(), ExportError> {
    let mut put = |name: &'static str, write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
        write_complete(folder, OsStr::new(name), write)?;
        written.push(name);
        Ok(())
    };
    for format in formats {
        match format {
            Format::Json => {
                put("report.json", &|out| json::write(state, out))?;
                put("report.schema.json", &|out| out.write_all(super::SCHEMA.as_bytes()))?;
            }
            Format::Markdown => put("report.md", &|out| out.write_all(markdown::markdown(state).as_bytes()))?,
            Format::Html => put("report.html", &|out| out.write_all(html::html(state).as_bytes()))?,
            Format::Csv => {
                if let Some(report) = state.watch.as_deref() {
                    put("program.csv", &|out| csv_watch::program(state, report, out))?;
                    put("calls.csv", &|out| csv_watch::calls(state, report, out))?;
                    put("files.csv", &|out| csv_watch::files(state, report, out))?;
                    put("file_tensors.csv", &|out| csv_watch::tensors(state, report, out))?;
                    put("timeline.csv", &|out| csv_watch::timeline(state, out))?;
                    continue;
                }
                put("runs.csv", &|out| csv::runs(state, out))?;
                put("tensors.csv", &|out| csv::tensors(state, out))?;
                put("samples.csv", &|out| csv::samples(state, out))?;
                put("results.csv", &|out| csv::results(state, out))?;
                // Only sessions with a workload have these files.
                if crate::present::workload::any(state) {
                    put("workloads.csv", &|out| csv::workloads(state, out))?;
                    put("layers.csv", &|out| csv::layers(state, out))?;
                }
                if let Some(grid) = &state.grid {
                    put("grid.csv", &|out| csv::grid(grid, out))?;
                }
            }
            Format::Trace => put("trace.json", &|out| trace::write(state, out))?,
            Format::Prom => put("gds-top.prom", &|out| prom::write(state, out))?,
            Format::Junit => put("junit.xml", &|out| junit::write(state, out))?,
        }
    }
    Ok(())
}

/// Writes an HTML page that contains [`PAGE_MARK`] to a file, completely or not at all. Another page of gds-top is
/// replaced.
///
/// # Errors
/// Fails if the file cannot be written, or if it exists and gds-top did not write it.
pub fn write_page(path: &Path, page: &str) -> Result<(), ExportError> {
    let (folder, name) = Destination::of_file(path).map_err(failed(path, "opening its directory"))?;
    may_replace_marked(&folder, &name, PAGE_MARK).map_err(failed(path, "replacing it"))?;
    write_complete(&folder, &name, &|out| out.write_all(page.as_bytes()))
}

fn write_complete(
    folder: &Destination,
    name: &OsStr,
    write: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), ExportError> {
    let path = folder.shown(name);
    // A report is not private: the umask decides who can read it.
    let mut temporary =
        folder.unfinished_shared_file().map_err(failed(&path, "creating a temporary file next to it"))?;
    let mut buffered = BufWriter::with_capacity(1 << 16, temporary.file_mut());
    write(&mut buffered).and_then(|()| buffered.flush()).map_err(failed(&path, "writing it"))?;
    drop(buffered);
    temporary.persist(name).map_err(failed(&path, "moving it into place"))
}
