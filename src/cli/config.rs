//! The command `config` for cufile.json: lint, show, tune, diff.

use super::args::{OutputArgs, ResultArgs};
use super::outcome::{BAD_ANSWER, FINE, Ran, note, print_file, print_fitted, print_json};
use super::terminal::{columns, headless_options};
use super::view::{examined, open_view};
use crate::checks::cufile_json::{self, Effective, Hardware, Linted, Origin, Severity, Tuned, TunedFor};
use crate::checks::{self};
use crate::core::KvSystem;
use crate::machine::Root;
use crate::models;
use crate::text::{fitted, indented, sanitise, sanitise_line};
use crate::trust::{Destination, read_regular};
use crate::workloads::kv;
use clap::Subcommand;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The maximum size of a cufile.json in bytes. NVIDIA's file has about five thousand.
const MAX_BYTES: u64 = 1 << 20;

/// The commands for cufile.json.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigSub {
    /// Report mistakes (default: in /etc/cufile.json, the file that CUFILE_ENV_PATH_JSON names, and the variables of
    /// libcufile)
    Lint {
        /// The file
        file: Option<PathBuf>,
        /// A model to load, to find limits that it would exceed
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
        /// Exit with 1 also for keys and values that libcufile ignores and for harmful values
        #[arg(long)]
        strict: bool,
        /// Lint the files of a captured machine
        #[arg(long = "capture", visible_alias = "root", value_name = "FILE|DIR")]
        root: Option<PathBuf>,
        #[command(flatten)]
        output: ResultArgs,
    },
    /// Show the value of every key and its origin, or the differences from other values
    Show {
        /// A file to read as if CUFILE_ENV_PATH_JSON named it
        file: Option<PathBuf>,
        /// Show only differences from this file; without FILE, from the library's defaults
        #[arg(long, value_name = "FILE", num_args = 0..=1)]
        diff: Option<Option<PathBuf>>,
        /// Show the values of a captured machine
        #[arg(long = "capture", visible_alias = "root", value_name = "FILE|DIR")]
        root: Option<PathBuf>,
        #[command(flatten)]
        output: ResultArgs,
    },
    /// Print a file with the keys that matter for a model or a KV cache on this machine, each with its reason
    Tune {
        /// The model
        #[arg(required_unless_present = "kv", value_parser = super::hints::profiles(), hide_possible_values = true)]
        model: Option<String>,
        /// Tune for a KV-cache system with its default shape, as bench-kv runs it
        #[arg(long, value_name = "SYSTEM", value_parser = super::hints::kv_systems(), hide_possible_values = true, conflicts_with_all = ["model", "unregistered"])]
        kv: Option<KvSystem>,
        /// Write the file here
        #[arg(long = "output", short = 'o', value_name = "FILE")]
        output_file: Option<PathBuf>,
        /// The loader uses memory that is not registered with cuFile (gds-bounce, UCM)
        #[arg(long)]
        unregistered: bool,
        /// Tune for a captured machine; the model is a profile or a local path
        #[arg(long = "capture", visible_alias = "root", value_name = "FILE|DIR")]
        root: Option<PathBuf>,
        #[command(flatten)]
        output: ResultArgs,
    },
    /// The earlier name of 'show --diff'
    #[command(hide = true)]
    Diff {
        /// The file (default: the effective values)
        file: Option<PathBuf>,
        /// Another file to compare it with
        other: Option<PathBuf>,
        /// Use the effective values of a captured machine
        #[arg(long = "capture", visible_alias = "root", value_name = "FILE|DIR")]
        root: Option<PathBuf>,
        #[command(flatten)]
        output: ResultArgs,
    },
}

/// Runs the command.
pub(super) fn run(action: ConfigSub) -> Ran {
    match action {
        ConfigSub::Lint { file, model, strict, root, output } => {
            lint(file.as_deref(), model.as_deref(), strict, root.as_deref(), &output.output())
        }
        ConfigSub::Show { file, diff: None, root, output } => show(file.as_deref(), root.as_deref(), &output.output()),
        ConfigSub::Show { file, diff: Some(other), root, output } | ConfigSub::Diff { file, other, root, output } => {
            diff(file.as_deref(), other.as_deref(), root.as_deref(), &output.output())
        }
        ConfigSub::Tune { model, kv, output_file, unregistered, root, output } => {
            let wanted = match kv {
                Some(system) => Wanted::of_kv(system)?,
                None => Wanted::of_model(model.as_deref().unwrap_or_default(), unregistered)?,
            };
            tune(wanted, output_file.as_deref(), root.as_deref(), &output.output())
        }
    }
}

fn lint(file: Option<&Path>, model: Option<&str>, strict: bool, root: Option<&Path>, output: &OutputArgs) -> Ran {
    let given = file.map(|path| read(path).map(|text| (path.display().to_string(), text))).transpose()?;
    let bytes = model.map(model_bytes).transpose()?.map(|(bytes, _)| bytes);
    let view = open_view(root)?;
    let hardware = hardware(&view, bytes, &[])?;
    let linted = match given {
        Some((path, text)) => vec![cufile_json::lint_text(&view, &path, &text, &hardware)],
        None => cufile_json::lint_machine(&view, &hardware),
    };
    let is_wrong = |linted: &Linted| linted.is_bad() || strict && linted.is_doubtful();
    let status = if linted.iter().any(is_wrong) { BAD_ANSWER } else { FINE };
    let printed = if output.json {
        print_json(&json!({ "files": linted, "libcufile": view.libcufile().version() }))
    } else {
        let colour = headless_options(output, None).colour;
        print_fitted(&linted_text(&linted, colour), colour)
    };
    Ok(printed.max(status))
}

fn linted_text(linted: &[Linted], colour: bool) -> String {
    let mut out = String::new();
    if linted.iter().all(|file| file.path == cufile_json::PLACE_OF_VARIABLES) {
        out.push_str(
            "No cufile.json: neither /etc/cufile.json nor a file named by CUFILE_ENV_PATH_JSON exists. The library's defaults apply.\n",
        );
    }
    for file in linted {
        for problem in &file.problems {
            let code = match problem.severity {
                Severity::Error => "31",
                Severity::Warning => "33",
                Severity::Note => "36",
            };
            let word = problem.severity.word();
            let word = if colour { format!("\u{1b}[{code}m{word}\u{1b}[0m") } else { word.to_owned() };
            let place = match file.path.as_str() {
                // Environment variables have no line numbers.
                cufile_json::PLACE_OF_VARIABLES => file.path.clone(),
                path => format!("{}:{}:{}", sanitise_line(path), problem.line, problem.column),
            };
            let _ = writeln!(out, "{place}: {word}: {} [{}]", sanitise(&problem.what), problem.rule);
            for (head, text) in [("    Why  ", &problem.why), ("    Do   ", &problem.todo)] {
                for line in indented(head, head.len(), &sanitise(text), columns().into()) {
                    let _ = writeln!(out, "{line}");
                }
            }
        }
        let count = |severity| file.problems.iter().filter(|problem| problem.severity == severity).count();
        let path = sanitise_line(&file.path);
        let _ = match (count(Severity::Error), count(Severity::Warning)) {
            (0, 0) => writeln!(out, "{path}: fine"),
            (errors, warnings) => {
                let s = |count| if count == 1 { "" } else { "s" };
                writeln!(out, "{path}: {errors} error{}, {warnings} warning{}", s(errors), s(warnings))
            }
        };
    }
    out
}

fn show(file: Option<&Path>, root: Option<&Path>, output: &OutputArgs) -> Ran {
    let view = open_view(root)?;
    let extra = file.map(|path| read(path).map(|text| (path.display().to_string(), text))).transpose()?;
    if let Some((path, text)) = &extra {
        warn_if_refused(&view, path, text);
    }
    let rows = cufile_json::effective(&view, extra.as_ref().map(|(path, text)| (path.as_str(), text.as_str())));
    for bad in cufile_json::lint_machine(&view, &Hardware::default()).iter().filter(|linted| linted.is_bad()) {
        note(&format!("libcufile rejects {} or does not use it; 'gds-top config lint' shows the reason", bad.path));
    }
    if output.json {
        return Ok(print_json(&json!({ "libcufile": view.libcufile().version(), "keys": rows })));
    }
    Ok(print_fitted(&table(&rows), false))
}

fn table(rows: &[Effective]) -> String {
    let key = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    let mut out = String::new();
    let default = rows.iter().map(|row| &row.origin).find(|origin| matches!(origin, Origin::Default { .. }));
    if let Some(Origin::Default { of }) = default {
        let _ = writeln!(out, "The defaults are those of {of}.\n");
    }
    for row in rows {
        let value = if row.value.is_null() { "-".to_owned() } else { row.value.to_string() };
        let origin = if Some(&row.origin) == default { "default".to_owned() } else { row.origin.to_string() };
        let _ = write!(out, "{:<key$}  {value:<24}  {origin}", row.key);
        if let Some(said) = &row.library_says {
            let _ = write!(out, "  (the library reports {said})");
        }
        out.push('\n');
    }
    out
}

/// The program for which a file is made: its name, the bytes that it registers, its path, and its demands.
struct Wanted {
    name: String,
    bytes: u64,
    place: Vec<PathBuf>,
    program: TunedFor,
}

impl Wanted {
    fn of_model(model: &str, unregistered: bool) -> Result<Self, String> {
        let (bytes, place) = model_bytes(model)?;
        Ok(Self { name: model.to_owned(), bytes, place, program: TunedFor { unregistered, ..TunedFor::default() } })
    }

    fn of_kv(system: KvSystem) -> Result<Self, String> {
        let demand = kv::plan(&kv::Request::usual(system), Path::new(".")).map_err(|error| error.to_string())?.demand;
        let program = TunedFor {
            unregistered: demand.unregistered,
            threads: demand.threads,
            transfer_bytes: demand.transfer_bytes,
        };
        Ok(Self { name: system.name().to_owned(), bytes: demand.registered_bytes, place: Vec::new(), program })
    }
}

fn tune(wanted: Wanted, file: Option<&Path>, root: Option<&Path>, output: &OutputArgs) -> Ran {
    let Wanted { name: model, bytes, mut place, program } = wanted;
    let view = open_view(root)?;
    if root.is_some() {
        // The path of the model does not exist on the captured machine. The paths that were examined there do.
        place.clear();
    }
    let hardware = hardware(&view, Some(bytes), place.as_slice())?;
    let rows = cufile_json::effective(&view, None);
    let current = |key: &str| rows.iter().find(|row| row.key == key).map(|row| row.value.clone());
    let tuned = cufile_json::tune(&hardware, &current, program);
    let text = file_text(&tuned)?;
    if let Some(path) = file {
        write_new(path, &text)?;
        let there = if root.is_some() { "; copy it to that machine, and run there: " } else { "; to use it, run: " };
        note(&format!("written{there}export CUFILE_ENV_PATH_JSON={}", path.display()));
    }
    if output.json {
        return Ok(print_json(&json!({
            "model": model, "model_bytes": bytes, "keys": tuned, "written": file,
            "libcufile": view.libcufile().version(),
        })));
    }
    if tuned.is_empty() {
        return Ok(print_fitted("Nothing to set: the effective values fit this program and machine.\n", false));
    }
    let mut out = String::new();
    for row in &tuned {
        let now =
            current(&row.key).filter(|now| !now.is_null()).map_or_else(|| "unset".to_owned(), |now| now.to_string());
        let _ = writeln!(out, "{} = {} (now {now})\n    {}", row.key, row.value, row.reason);
    }
    // The lines of the file are not wrapped, so that they can be copied.
    let width = usize::from(columns());
    let status = print_fitted(&fitted(&out, width), false).max(print_file(format!("\n{text}").as_bytes()));
    let next = "\nWrite it with --output FILE, then export CUFILE_ENV_PATH_JSON=FILE. These are starting points; the benchmark shows their effect.\n";
    Ok(if file.is_none() { status.max(print_fitted(&fitted(next, width), false)) } else { status })
}

/// The text of a file with these keys. The editor that changes existing files writes it.
fn file_text(tuned: &[Tuned]) -> Result<String, String> {
    let values: Vec<String> = tuned.iter().map(|row| row.value.to_string()).collect();
    let keys: Vec<(&str, &str)> =
        tuned.iter().zip(&values).map(|(row, value)| (row.key.as_str(), value.as_str())).collect();
    let text = cufile_json::set_keys("{\n}\n", &keys).map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok(serde_json::to_string_pretty(&value).map_err(|error| error.to_string())? + "\n")
}

/// Writes a new file. If this fails, there is no partial file.
fn write_new(path: &Path, text: &str) -> Result<(), String> {
    let bad = |error: &dyn std::fmt::Display| {
        format!("{} could not be written: {error}; name a new file in a directory of yours", path.display())
    };
    let (folder, name) = Destination::of_file(path).map_err(|e| bad(&e))?;
    let mut file = folder.unfinished_file().map_err(|e| bad(&e))?;
    file.file_mut().write_all(text.as_bytes()).and_then(|()| file.file().sync_all()).map_err(|e| bad(&e))?;
    use std::os::unix::fs::PermissionsExt as _;
    // If a user cannot read the file, cuFile fails in all programs of that user.
    file.file().set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(|e| bad(&e))?;
    file.persist_new(name).map_err(|e| bad(&e))?;
    Ok(())
}

fn diff(file: Option<&Path>, other: Option<&Path>, root: Option<&Path>, output: &OutputArgs) -> Ran {
    let view = open_view(root)?;
    let rows = |path: &Path| -> Result<Vec<Effective>, String> {
        let (name, text) = (path.display().to_string(), read(path)?);
        warn_if_refused(&view, &name, &text);
        Ok(cufile_json::effective(&view, Some((&name, &text)))
            .into_iter()
            .filter(|row| matches!(&row.origin, Origin::File { path, .. } if *path == name))
            .collect())
    };
    let defaults = cufile_json::defaults(&view);
    let default = |key: &str| defaults.iter().find(|row| row.0 == key).map_or(Value::Null, |row| row.1.clone());
    let left = match file {
        Some(path) => rows(path)?,
        None => cufile_json::effective(&view, None),
    };
    let right = other.map(rows).transpose()?;
    let value = |rows: &[Effective], key: &str| {
        rows.iter().find(|row| row.key == key).map_or_else(|| default(key), |row| row.value.clone())
    };
    let differing: Vec<(String, Value, Value, String)> = defaults
        .iter()
        .map(|(key, _)| key)
        .map(|key| {
            let from = left.iter().find(|row| row.key == *key).map_or_else(String::new, |row| row.origin.to_string());
            (
                key.clone(),
                value(&left, key),
                right.as_ref().map_or_else(|| default(key), |right| value(right, key)),
                from,
            )
        })
        .filter(|(_, a, b, _)| a != b)
        .collect();
    let against = other.map_or_else(|| "the library's default".to_owned(), |path| path.display().to_string());
    if output.json {
        let list: Vec<Value> = differing
            .iter()
            .map(|(key, a, b, from)| json!({"key": key, "value": a, "origin": from, "other": b}))
            .collect();
        return Ok(print_json(&json!({ "against": against, "differences": list })));
    }
    let mut out = String::new();
    if differing.is_empty() {
        let _ = writeln!(out, "No difference from {against}.");
    }
    for (key, a, b, from) in &differing {
        let _ = writeln!(out, "{key}\n  {a}  {from}\n  {b}  {against}");
    }
    Ok(print_fitted(&out, false))
}

fn warn_if_refused(view: &Root, path: &str, text: &str) {
    if cufile_json::lint_text(view, path, text, &Hardware::default()).is_bad() {
        note(&format!("libcufile rejects {path} or does not use it; 'gds-top config lint {path}' shows the reason"));
    }
}

fn hardware(view: &Root, model_bytes: Option<u64>, paths: &[std::path::PathBuf]) -> Result<Hardware, String> {
    let paths = examined(view, paths)?;
    let report = checks::run(view, &paths, None, &mut |_| {});
    Ok(Hardware::of(view, &report, model_bytes))
}

/// The tensor bytes of a model, and its path. A shape profile has no path.
fn model_bytes(model: &str) -> Result<(u64, Vec<std::path::PathBuf>), String> {
    if !Path::new(model).exists() && models::Profile::names().contains(&model) {
        let profile = models::Profile::named(model).map_err(|error| error.to_string())?;
        return Ok((profile.bytes_total, Vec::new()));
    }
    let opened = models::open(model).map_err(|error| error.to_string())?;
    let bytes = opened.shards.iter().map(|shard| shard.file_bytes.saturating_sub(shard.data_offset)).sum();
    Ok((bytes, vec![opened.path]))
}

/// The text of the file that the user named.
fn read(path: &Path) -> Result<String, String> {
    let bytes = read_regular(path, MAX_BYTES)
        .map_err(|error| format!("{} cannot be read: {error}; name a cufile.json", path.display()))?;
    // libcufile reads bytes that are not UTF-8, and the linter reports them.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
