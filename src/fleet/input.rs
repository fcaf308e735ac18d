//! Reads the JSON reports of nodes from files, directories and standard input. Only the fields that are compared are
//! kept.

use super::budget::{Budget, MOST_REPORTS};
use super::cut::{cut, cut_advice, shrunk};
use super::error::FleetError;
use super::node::Workload;
use super::stream;
use crate::analysis::median;
use crate::core::{Status, units};
use crate::trust::open_regular;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The newest supported version of the reports. Earlier versions have the same compared fields.
const NEWEST: u64 = crate::report::SCHEMA_VERSION as u64;

/// The maximum size of a report in bytes. The file of a larger one is listed as not read.
const LARGEST: usize = 256 << 20;
/// The maximum number of JSON values in one report. The report of a model with 100 000 tensors has ten million.
const MOST_VALUES: u64 = 20_000_000;
/// The maximum number of entries of a list in a report. They are those of recordings. An entry without content takes
/// three bytes of a text and a hundred of memory.
const MOST_ENTRIES: usize = 10_000;
/// The maximum size of a text in bytes. The rest of a longer one is cut. Paths have this limit on Linux.
const LONGEST_TEXT: usize = 4096;
/// The maximum size of a summary in bytes.
const LONGEST_SUMMARY: usize = 600;
/// The maximum size of an advice in bytes. It can have several sentences with commands.
const LONGEST_ADVICE: usize = 2000;
/// The maximum number of threads. Each can need the memory of the largest report.
const MOST_THREADS: usize = 8;

/// The fields of a report that are compared.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Report {
    /// The schema version. It is 0 if the file is not a report.
    pub(super) schema_version: u64,
    pub(super) tool: String,
    pub(super) started_unix_ms: u64,
    pub(super) machine: Option<Machine>,
    #[serde(deserialize_with = "limited")]
    pub(super) checks: Vec<Check>,
    #[serde(deserialize_with = "limited")]
    pub(super) verdicts: Vec<Verdict>,
    #[serde(deserialize_with = "limited")]
    pub(super) runs: Vec<Run>,
    pub(super) grid: Option<Grid>,
}

impl Report {
    /// Whether this is another output of gds-top in a known version: `capture.json`, or the report of a fleet.
    fn is_other_output(&self) -> bool {
        (1..=NEWEST).contains(&self.schema_version)
            && self.machine.is_none()
            && self.grid.is_none()
            && self.verdicts.is_empty()
            && self.runs.is_empty()
    }

    /// Removes what is not compared and cuts long texts. Returns the memory of the rest in bytes.
    fn shorten(&mut self) -> u64 {
        let next = |verdict: &Verdict| verdict.steps.first().or(verdict.blockers.first()).cloned();
        let next: BTreeSet<String> = self.verdicts.iter().filter_map(next).collect();
        for check in self.checks.iter_mut().filter(|check| !next.contains(&check.id)) {
            (check.summary, check.fix, check.advice) = (String::new(), None, None);
        }
        self.runs.retain(Run::is_compared);
        let machine = self.machine.get_or_insert_default();
        let grid = self.grid.get_or_insert_default();
        grid.cells.retain(Cell::is_compared);
        let mut bytes = size_of::<Self>()
            + shrunk(&mut self.checks)
            + shrunk(&mut self.verdicts)
            + shrunk(&mut self.runs)
            + shrunk(&mut grid.cells)
            + shrunk(&mut machine.gpus)
            + shrunk(&mut machine.cufile_settings);
        bytes += self
            .checks
            .iter_mut()
            .filter_map(|check| check.advice.as_mut())
            .map(|text| cut_advice(text, LONGEST_ADVICE))
            .sum::<usize>();
        let mut keep = |text: &mut String, most: usize| bytes += cut(text, most);
        let of_machine = [&mut self.tool, &mut machine.host, &mut machine.kernel, &mut machine.distribution];
        let versions = [&mut machine.driver, &mut machine.cuda].into_iter().flatten();
        let library = machine.libcufile.iter_mut().filter_map(|library| library.version.as_mut());
        let module = machine.nvidia_fs.iter_mut().filter_map(|module| module.version.as_mut());
        let gpus = machine.gpus.iter_mut().map(|gpu| &mut gpu.name);
        let settings = machine.cufile_settings.iter_mut().flat_map(|setting| [&mut setting.key, &mut setting.value]);
        let of_machine = of_machine.into_iter().chain(versions).chain(library).chain(module).chain(gpus);
        of_machine.chain(settings).for_each(|text| keep(text, LONGEST_TEXT));
        for check in &mut self.checks {
            keep(&mut check.id, LONGEST_TEXT);
            keep(&mut check.summary, LONGEST_SUMMARY);
            check.fix.iter_mut().for_each(|text| keep(text, LONGEST_TEXT));
        }
        for verdict in &mut self.verdicts {
            keep(&mut verdict.path, LONGEST_TEXT);
            for list in [&mut verdict.steps, &mut verdict.blockers] {
                list.truncate(1);
                list.shrink_to_fit();
                list.iter_mut().for_each(|text| keep(text, LONGEST_TEXT));
            }
        }
        let runs =
            self.runs.iter_mut().flat_map(|run| [Some(&mut run.engine), Some(&mut run.cache), run.model.as_mut()]);
        let cells =
            grid.cells.iter_mut().flat_map(|cell| [&mut cell.access, &mut cell.pattern, &mut cell.transfer]).map(Some);
        runs.chain(cells).flatten().for_each(|text| keep(text, LONGEST_TEXT));
        bytes as u64
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Machine {
    pub(super) host: String,
    pub(super) kernel: String,
    pub(super) distribution: String,
    pub(super) cpus: u64,
    #[serde(deserialize_with = "limited")]
    pub(super) gpus: Vec<Gpu>,
    pub(super) driver: Option<String>,
    pub(super) cuda: Option<String>,
    pub(super) libcufile: Option<Library>,
    pub(super) nvidia_fs: Option<Module>,
    #[serde(deserialize_with = "limited")]
    pub(super) cufile_settings: Vec<CufileSetting>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Gpu {
    pub(super) name: String,
    /// The current and the highest generation.
    pub(super) pcie_generation: Option<(u32, u32)>,
    /// The current and the highest number of lanes.
    pub(super) pcie_width: Option<(u32, u32)>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Library {
    pub(super) version: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Module {
    pub(super) version: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CufileSetting {
    pub(super) key: String,
    pub(super) value: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Check {
    pub(super) id: String,
    pub(super) status: Status,
    #[serde(default)]
    pub(super) summary: String,
    #[serde(default)]
    pub(super) fix: Option<String>,
    #[serde(default)]
    pub(super) advice: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Verdict {
    #[serde(default)]
    pub(super) path: String,
    pub(super) route: crate::core::Route,
    #[serde(default)]
    pub(super) possible: Option<crate::core::Route>,
    #[serde(default)]
    pub(super) proven: bool,
    /// The blockers to remove, the next one first.
    #[serde(default, deserialize_with = "limited")]
    pub(super) steps: Vec<String>,
    #[serde(default, deserialize_with = "limited")]
    pub(super) blockers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Run {
    pub(super) engine: String,
    pub(super) cache: String,
    pub(super) model: Option<String>,
    pub(super) bytes: Option<u64>,
    pub(super) bytes_per_s: Option<f64>,
    pub(super) verified: Option<bool>,
    pub(super) error: Option<IgnoredAny>,
}

impl Run {
    fn is_compared(&self) -> bool {
        self.model.is_some() && is_good(self.error, self.verified, self.bytes_per_s)
    }
}

/// The storage grid of 'bench-io'.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Grid {
    #[serde(deserialize_with = "limited")]
    pub(super) cells: Vec<Cell>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cell {
    pub(super) access: String,
    pub(super) pattern: String,
    pub(super) transfer: String,
    pub(super) block_bytes: u64,
    pub(super) threads: u64,
    pub(super) bytes_per_s: Option<f64>,
    pub(super) verified: Option<bool>,
    pub(super) error: Option<IgnoredAny>,
}

impl Cell {
    fn is_compared(&self) -> bool {
        is_good(self.error, self.verified, self.bytes_per_s)
    }
}

/// Whether a run ended without an error and without wrong bytes, and has a rate.
fn is_good(error: Option<IgnoredAny>, verified: Option<bool>, rate: Option<f64>) -> bool {
    error.is_none() && verified != Some(false) && rate.is_some_and(|rate| rate > 0.0)
}

/// A list of limited length.
fn limited<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct Limited<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Limited<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MOST_ENTRIES} entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = list.next_element()? {
                if entries.len() == MOST_ENTRIES {
                    return Err(serde::de::Error::custom(format!("a list has more than {MOST_ENTRIES} entries")));
                }
                entries.push(entry);
            }
            Ok(entries)
        }
    }
    deserializer.deserialize_seq(Limited(PhantomData))
}

/// The version of a report that cannot be parsed as one.
#[derive(Debug, Deserialize)]
struct Version {
    schema_version: serde_json::Value,
}

impl Version {
    /// The version as text, if this program cannot read it.
    fn foreign(document: &[u8]) -> Option<String> {
        let found = serde_json::from_slice::<Self>(document).ok()?.schema_version;
        let is_known = found.as_u64().is_some_and(|number| number <= NEWEST);
        // A version is short. The rest of other values is not needed.
        (!is_known).then(|| found.to_string().chars().take(40).collect())
    }
}

/// A source without a report, or an entry of a directory that was not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unread {
    /// The path of the file, or `standard input`.
    pub source: String,
    /// The reason, as text for the user.
    pub why: String,
}

/// The content of the sources.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// The reports with their sources.
    pub(super) reports: Vec<(String, Report)>,
    pub(super) unread: Vec<Unread>,
    /// Entries of directories that are neither files nor directories, such as links, and further names of files.
    pub(super) skipped: Vec<Unread>,
    /// Sources with versions that this program cannot read.
    foreign: Vec<(String, String)>,
}

/// Reads the reports below the paths. `-` is standard input. Files are parsed on several CPUs.
pub(super) fn read(paths: &[PathBuf]) -> Result<Input, FleetError> {
    let mut files = Vec::new();
    let mut input = Input::default();
    let budget = Budget::of_a_fleet();
    for path in paths {
        if path.as_os_str() == "-" {
            add(&mut input, &budget, "standard input", std::io::stdin().lock())
                .map_err(|error| FleetError::Read { path: "standard input".into(), error })?;
        } else if path.is_dir() {
            let before = files.len() + input.skipped.len();
            list(path, 0, &mut files, &mut input.skipped)
                .map_err(|error| FleetError::Read { path: path.clone(), error })?;
            if files.len() + input.skipped.len() == before {
                return Err(FleetError::Empty { folder: path.clone() });
            }
        } else {
            // A file that the user named must be readable. A file that was found in a directory may be broken.
            std::fs::metadata(path).map_err(|error| FleetError::Read { path: path.clone(), error })?;
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    leave_out_other_names(&mut files, &mut input.skipped);
    input.skipped.sort();
    input.skipped.dedup();
    for part in parse_all(&files, &budget) {
        input.reports.extend(part.reports);
        input.unread.extend(part.unread);
        input.foreign.extend(part.foreign);
    }
    if budget.has_too_many() {
        return Err(FleetError::TooMany { most: MOST_REPORTS });
    }
    same_version(&input)?;
    Ok(input)
}

/// Leaves out further names of a file (hard links, and links that the user named), in the order of the names.
fn leave_out_other_names(files: &mut Vec<PathBuf>, skipped: &mut Vec<Unread>) {
    let mut first_names: BTreeMap<(u64, u64), PathBuf> = BTreeMap::new();
    files.retain(|file| {
        // If the file is missing by now, the reason is reported when it is opened.
        let Ok(meta) = std::fs::metadata(file) else { return true };
        match first_names.entry((meta.dev(), meta.ino())) {
            Entry::Occupied(first) => {
                let why = format!("it is the same file as {}", first.get().display());
                skipped.push(Unread { source: file.display().to_string(), why });
                false
            }
            Entry::Vacant(place) => {
                place.insert(file.clone());
                true
            }
        }
    });
}

/// Reports of different versions are rejected, because their numbers may have different meanings.
fn same_version(input: &Input) -> Result<(), FleetError> {
    let newer = input.reports.iter().find(|(_, report)| report.schema_version > NEWEST);
    let newer = newer.map(|(source, report)| (source.clone(), report.schema_version.to_string()));
    if let Some((source_name, found)) = newer.or_else(|| input.foreign.first().cloned()) {
        return Err(FleetError::Newer { source_name, found, known: NEWEST });
    }
    let mut versions = input.reports.iter().map(|(source, report)| (source, report.schema_version));
    let Some((_, first)) = versions.next() else { return Ok(()) };
    match versions.find(|(_, version)| *version != first) {
        Some((source, found)) => Err(FleetError::Mixed { source_name: source.clone(), found, first }),
        None => Ok(()),
    }
}

/// The `.json` and `.jsonl` files below a directory. Links are not followed, so there are no cycles. Entries that may
/// be or contain reports and are not read are added to `skipped`.
fn list(folder: &Path, depth: usize, files: &mut Vec<PathBuf>, skipped: &mut Vec<Unread>) -> std::io::Result<()> {
    /// The maximum depth. Exports do not create deeper trees.
    const DEEPEST: usize = 16;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let path = entry.path();
        if kind.is_dir() && depth < DEEPEST {
            list(&path, depth + 1, files, skipped)?;
        } else if kind.is_file() {
            if path.extension().is_some_and(|end| end == "json" || end == "jsonl") {
                files.push(path);
            }
        } else {
            let why = if kind.is_dir() {
                format!("it is more than {DEEPEST} directories deep; pass it as a source")
            } else {
                not_read(kind).to_owned()
            };
            skipped.push(Unread { source: path.display().to_string(), why });
        }
    }
    Ok(())
}

/// The reason why an entry that is neither a file nor a directory is not read.
fn not_read(kind: std::fs::FileType) -> &'static str {
    if kind.is_symlink() {
        "it is a link, and links are not followed; pass it as a source"
    } else if kind.is_fifo() {
        "it is a FIFO and not a file"
    } else if kind.is_socket() {
        "it is a socket and not a file"
    } else {
        "it is a device and not a file"
    }
}

/// Parses the files on several CPUs. If a thread cannot be started, its share is parsed on this thread.
fn parse_all(files: &[PathBuf], budget: &Budget) -> Vec<Input> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    std::thread::scope(|scope| {
        let begun: Vec<_> = files
            .chunks(files.len().div_ceil(cpus).max(1))
            .map(|share| (share, std::thread::Builder::new().spawn_scoped(scope, || parse(share, budget))))
            .collect();
        begun
            .into_iter()
            .map(|(share, begun)| match begun {
                // If a parser panicked, the files of its share are listed as not read.
                Ok(parser) => parser.join().unwrap_or_else(|_| lost(share)),
                Err(_) => parse(share, budget),
            })
            .collect()
    })
}

fn parse(files: &[PathBuf], budget: &Budget) -> Input {
    let mut input = Input::default();
    for file in files {
        let source = file.display().to_string();
        if let Err(error) = open_regular(file).and_then(|text| add(&mut input, budget, &source, text)) {
            input.unread.push(Unread { source, why: error.to_string() });
        }
    }
    input
}

fn lost(files: &[PathBuf]) -> Input {
    let why = "the parser failed";
    let unread = files.iter().map(|file| Unread { source: file.display().to_string(), why: why.to_owned() });
    Input { unread: unread.collect(), ..Input::default() }
}

/// Adds the reports of one text. It can contain several reports one after another. `budget` counts those of all texts.
/// Above its limits, reading ends.
fn add(input: &mut Input, budget: &Budget, source: &str, text: impl Read) -> io::Result<()> {
    let mut found = 0;
    stream::for_each(budget.reader(text), LARGEST, |document| {
        found += 1;
        let name = if found > 1 { format!("{source} (document {found})") } else { source.to_owned() };
        let mut unread = |why: String| input.unread.push(Unread { source: name.clone(), why });
        if !budget.count_report() {
            return false;
        }
        if document.values > MOST_VALUES {
            unread(format!("it has more than {MOST_VALUES} values"));
            return true;
        }
        // A list would be read as the fields of a report in order.
        if document.text.trim_ascii_start().first() != Some(&b'{') {
            let error = serde_json::from_slice::<IgnoredAny>(document.text).err();
            let is_json = error.is_none();
            unread(error.map_or_else(
                || "it is not a JSON object, so it is not a report of gds-top".to_owned(),
                |e| e.to_string(),
            ));
            return is_json;
        }
        match serde_json::from_slice::<Report>(document.text) {
            Ok(report) if report.is_other_output() => {
                unread("it has a schema_version and no machine, so it is another output of gds-top".to_owned());
                true
            }
            Ok(report) if report.schema_version == 0 => {
                unread("it has no schema_version, so it is not a report of gds-top".to_owned());
                true
            }
            Ok(mut report) => match budget.keep(report.shorten() + name.len() as u64) {
                Ok(()) => {
                    input.reports.push((name, report));
                    true
                }
                Err(why) => {
                    unread(why);
                    false
                }
            },
            Err(error) => {
                match Version::foreign(document.text).filter(|_| error.is_data()) {
                    Some(version) => input.foreign.push((name.clone(), version)),
                    None => unread(error.to_string()),
                }
                // After a syntax error the beginning of the next report is not known.
                error.is_data()
            }
        }
    })?;
    if found == 0 {
        input.unread.push(Unread { source: source.to_owned(), why: "the file is empty".to_owned() });
    }
    Ok(())
}

/// The rate of each workload (engine, cache state, model and size): the median of the repeats. A cell of the storage grid is a workload too.
pub(super) fn rates(report: &Report) -> BTreeMap<Workload, f64> {
    let mut all: BTreeMap<Workload, Vec<f64>> = BTreeMap::new();
    for run in &report.runs {
        if let (true, Some(model), Some(rate)) = (run.is_compared(), &run.model, run.bytes_per_s) {
            let workload = Workload {
                engine: run.engine.clone(),
                cache: run.cache.clone(),
                model: model.clone(),
                bytes: run.bytes.unwrap_or(0),
            };
            all.entry(workload).or_default().push(rate);
        }
    }
    for cell in report.grid.iter().flat_map(|grid| &grid.cells) {
        if let (true, Some(rate)) = (cell.is_compared(), cell.bytes_per_s) {
            let threads = units::plural(cell.threads, "thread");
            let workload = Workload {
                engine: cell.transfer.clone(),
                cache: String::new(),
                model: format!("{} {} {}, {threads}", cell.pattern, cell.access, units::bytes(cell.block_bytes)),
                bytes: cell.block_bytes,
            };
            all.entry(workload).or_default().push(rate);
        }
    }
    all.into_iter().filter_map(|(workload, rates)| Some((workload, median(&rates)?))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reports_above_the_memory_of_a_fleet_are_left_out_and_named() {
        let checks = [r#"{"id":"a","status":"fail"}"#; 1000].join(",");
        let text = format!(r#"{{"schema_version":1,"machine":{{}},"checks":[{checks}]}}"#);
        let (budget, mut input) = (Budget::new(u64::MAX, 400_000), Input::default());
        add(&mut input, &budget, "all", text.repeat(9).as_bytes()).unwrap();
        assert!((1..8).contains(&input.reports.len()), "{}", input.reports.len());
        assert!(input.unread.len() == 1 && input.unread[0].why.contains("left out"), "{:?}", input.unread);
        assert!(add(&mut input, &budget, "next", text.as_bytes()).is_err());
    }
}
