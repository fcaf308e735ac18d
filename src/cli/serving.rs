//! `gds-top check --for SYSTEM CONFIG`: shows the path of the KV cache on this machine for a configuration.

use super::args::OutputArgs;
use super::outcome::{BAD_ANSWER, FINE, Ran, print_fitted, print_json};
use super::view::{live_view, open_view};
use crate::checks;
use crate::core::{Serving, ServingConfig, Status, StoreKind, Verdict};
use crate::machine::{self, Root};
use crate::present::serving::{self as present, StorePath};
use crate::session;
use crate::text::quoted_line;
use crate::trust::{read_descriptor, read_regular};
use crate::workloads::kv::{self, Suggested};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Reads the configuration, examines its first directory and prints the result. The exit status is 1 if the
/// configuration cannot work.
pub(super) fn run(named: &[String], root: Option<&Path>, probe: bool, test_file: bool, output: &OutputArgs) -> Ran {
    let [system, config] = named else {
        return Err("--for needs a system and its configuration: --for lmcache FILE".to_owned());
    };
    let serving: Serving = system.parse()?;
    let text = text_of(config)?;
    let view = match root {
        None => live_view(probe)?,
        Some(_) => open_view(root)?,
    };
    let mut environment = view.environment();
    if view.is_live() {
        // These are not facts about the machine, so the view does not have them.
        environment.extend(
            std::env::vars().filter(|(name, _)| name.starts_with("LMCACHE_") || name == checks::serving::ENABLE_GDS),
        );
    }
    let configs = checks::serving::read(serving, &text, &environment, &|file| text_of_file(file))
        .map_err(|error| format!("the configuration {config} cannot be used: {error}"))?;
    let (count, is_stored) = (configs.len(), configs.iter().any(|config| config.store != StoreKind::None));
    let mut parts = Vec::new();
    for config in configs {
        let mut part = examine(config, &text, &view, probe, test_file)?;
        if count > 1 && is_stored && part.config.store == StoreKind::None && part.config.missing.is_empty() {
            part.lines = vec![present::without_storage(&part.config)];
        }
        parts.push(part);
    }
    let bad = parts.iter().flat_map(|part| &part.lines).any(|line| line.status == Status::Fail);
    let status = if bad { BAD_ANSWER } else { FINE };
    let printed = if output.json {
        let all: Vec<Value> = parts.iter().map(Part::json).collect();
        // The first connector with storage is the result. Other connectors are next to it.
        let first = parts.iter().position(|part| part.config.store != StoreKind::None).unwrap_or(0);
        let mut answer = all.get(first).cloned().unwrap_or_default();
        if let Some(answer) = answer.as_object_mut() {
            answer.insert("schema_version".to_owned(), json!(1));
            if all.len() > 1 {
                answer.insert("connectors".to_owned(), json!(all));
            }
        }
        print_json(&answer)
    } else {
        let mut text = if count > 1 { rendered_line(&present::connectors(count)) } else { String::new() };
        text.extend(parts.iter().map(rendered));
        print_fitted(&text, false)
    };
    Ok(printed.max(status))
}

/// The result for one connector.
struct Part {
    config: ServingConfig,
    verdict: Option<Verdict>,
    lines: Vec<present::Line>,
    /// The command that measures the store.
    bench: Option<Suggested>,
}

impl Part {
    fn json(&self) -> Value {
        let lines: Vec<_> =
            self.lines.iter().map(|line| json!({"status": line.status.word(), "text": line.text})).collect();
        let bench = self.bench.as_ref().map(|bench| quoted_line(&bench.words));
        let left_out: Vec<_> = self.bench.iter().flat_map(|bench| &bench.left_out).collect();
        let left_out: Vec<_> =
            left_out.iter().map(|(option, reason)| json!({"option": option, "reason": reason})).collect();
        json!({
            "config": self.config, "verdict": self.verdict, "lines": lines, "bench": bench, "bench_left_out": left_out,
        })
    }
}

/// Examines the first directory of a configuration.
fn examine(config: ServingConfig, text: &str, view: &Root, probe: bool, test_file: bool) -> Result<Part, String> {
    // A GDS L1 tier without cuFile is on a raw device.
    let has_folder = config.store != StoreKind::LmcacheGdsL1 || config.cufile_reads;
    let asked = config.paths.first().filter(|_| has_folder);
    let examined = asked.map(|path| existing(view, path));
    // The file exists until the checks are finished. Only the directory of the store itself gets one.
    let tested = asked.filter(|path| test_file && view.is_live() && path.is_dir()).cloned();
    let _files = super::test_file::create(&Vec::from_iter(tested))?;
    let mut verdict = None;
    let mut place = StorePath { memory_bytes: machine::memory_bytes(view), ..StorePath::default() };
    if let (Some(asked), Some(path)) = (asked, &examined) {
        let mut found = checks::run(view, std::slice::from_ref(path), None, &mut |_| {});
        if probe
            && view.is_live()
            && found.has_gpu
            && let Ok(exe) = std::env::current_exe()
        {
            for proven in session::live::prove(&exe, &found) {
                found.take_proven(proven);
            }
        }
        verdict = found.verdicts.into_iter().next();
        let facts = view.path_facts(path);
        place = StorePath {
            filesystem: facts.as_ref().and_then(|facts| facts.filesystem.clone()),
            direct_io: facts.as_ref().and_then(|facts| facts.open_direct.as_ref()).map(|read| read.result().is_ok()),
            exists: path == asked,
            ..place
        };
    }
    let lines = present::lines(&config, verdict.as_ref(), &place);
    let bench = kv::suggested(&config, text);
    Ok(Part { config, verdict, lines, bench })
}

fn rendered_line(line: &present::Line) -> String {
    format!("{:<4}  {}\n", line.status.word(), crate::text::sanitise_line(&line.text))
}

fn rendered(part: &Part) -> String {
    let mut text: String = part.lines.iter().map(rendered_line).collect();
    if let Some(verdict) = &part.verdict {
        let path = crate::text::sanitise_line(&verdict.path.to_string_lossy()).into_owned();
        let _ = writeln!(text, "      gds-top check {path} lists each check with its fix.");
    }
    if let Some(bench) = &part.bench {
        let line = quoted_line(&bench.words);
        let _ = writeln!(text, "      {} measures it with these parameters.", crate::text::sanitise_line(&line));
        for (option, reason) in &bench.left_out {
            let line = format!("not in this command: {option} ({reason})");
            let _ = writeln!(text, "      {}", crate::text::sanitise_line(&line));
        }
    }
    text
}

/// The text of the configuration: the content of a file, or the argument itself if it is JSON or a command line. The
/// argument can be a pipe of the caller, as bash passes it for `<(…)`.
fn text_of(config: &str) -> Result<String, String> {
    match read_descriptor(Path::new(config), checks::serving::MOST_BYTES) {
        Some(read) => utf8(config, read),
        None => text_of_file(config),
    }
}

/// The same without pipes, for a file that a configuration names.
fn text_of_file(config: &str) -> Result<String, String> {
    let path = Path::new(config);
    if !path.exists() {
        let is_text = config.trim_start().starts_with('{') || config.contains("--") || config.contains('\n');
        return if is_text { Ok(config.to_owned()) } else { Err(format!("there is no configuration file {config}")) };
    }
    utf8(config, read_regular(path, checks::serving::MOST_BYTES))
}

fn utf8(config: &str, read: std::io::Result<Vec<u8>>) -> Result<String, String> {
    let bytes = read.map_err(|error| format!("cannot read {config}: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        format!("cannot read {config}: it is not UTF-8 text, at byte {}", error.utf8_error().valid_up_to())
    })
}

/// The path itself, or its nearest parent directory that exists on the examined machine. A capture contains facts
/// about the paths that were examined, but not the directories themselves.
fn existing(view: &Root, path: &Path) -> PathBuf {
    let exists = |above: &Path| match view.is_live() {
        true => above.exists(),
        false => view.path_facts(above).is_some() || view.exists(above),
    };
    path.ancestors().find(|above| exists(above)).map_or_else(|| PathBuf::from("/"), Path::to_path_buf)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_store_is_searched_on_the_examined_machine() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/h200-vm-no-udev");
        let captured = Root::open(&folder).unwrap();
        for named in ["/data/models", "/data/models/kv/new"] {
            assert_eq!(existing(&captured, Path::new(named)), Path::new("/data/models"));
        }
        // This directory is on the machine that runs the test, but not in the capture.
        let here = tempfile::tempdir().unwrap();
        assert_ne!(existing(&captured, here.path()), here.path());
        assert_eq!(existing(&Root::live(), &here.path().join("new")), here.path());
    }
}
