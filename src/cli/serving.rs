//! `gds-top check --for SYSTEM CONFIG`: shows the path of the KV cache on this machine for a configuration.

use super::args::OutputArgs;
use super::outcome::{BAD_ANSWER, FINE, Ran, print, print_json};
use super::view::{live_view, open_view};
use crate::checks;
use crate::core::{Serving, Status, StoreKind, Verdict};
use crate::present::serving::{self as present, StorePath};
use crate::session;
use crate::trust::read_regular;
use serde_json::json;
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
        None => live_view(probe),
        Some(_) => open_view(root)?,
    };
    let mut environment = view.environment();
    if view.is_live() {
        // These are not facts about the machine, so the view does not have them.
        environment.extend(std::env::vars().filter(|(name, _)| name.starts_with("LMCACHE_")));
    }
    let unusable = |error: String| format!("the configuration {config} cannot be used: {error}");
    let mut read = checks::serving::read(serving, &text, &environment).map_err(unusable)?;
    // A file with options of LMCache needs no second one.
    if read.serving == Serving::Lmcache
        && read.store == StoreKind::None
        && let Some(file) = checks::serving::lmcache_file(&text, &environment).map_err(unusable)?
    {
        let options = text_of(&file)?;
        read = checks::serving::read_with_file(&text, &options, &environment)
            .map_err(|error| format!("the configuration {file} cannot be used: {error}"))?;
    }
    let asked = read.paths.first();
    let examined = asked.map(|path| existing(path));
    // The file exists until the checks are finished. Only the directory of the store itself gets one.
    let tested = asked.filter(|path| test_file && path.is_dir()).cloned();
    let _files = super::test_file::create(&Vec::from_iter(tested))?;
    let mut verdict = None;
    let mut place = StorePath::default();
    if let (Some(asked), Some(path)) = (asked, &examined) {
        let mut found = checks::run(&view, std::slice::from_ref(path), None, &mut |_| {});
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
        };
    }
    let lines = present::lines(&read, verdict.as_ref(), &place);
    let bad = lines.iter().any(|line| line.status == Status::Fail);
    let status = if bad { BAD_ANSWER } else { FINE };
    let printed = if output.json {
        let lines: Vec<_> = lines.iter().map(|line| json!({"status": line.status.word(), "text": line.text})).collect();
        print_json(&json!({"schema_version": 1, "config": read, "verdict": verdict, "lines": lines}))
    } else {
        print(rendered(&lines, verdict.as_ref()).as_bytes())
    };
    Ok(printed.max(status))
}

fn rendered(lines: &[present::Line], verdict: Option<&Verdict>) -> String {
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "{:<4}  {}", line.status.word(), crate::text::sanitise_line(&line.text));
    }
    if let Some(verdict) = verdict {
        let _ = writeln!(
            text,
            "      gds-top check {} lists each check with its fix.",
            crate::text::sanitise_line(&verdict.path.to_string_lossy())
        );
    }
    text
}

/// The text of the configuration: the content of a file, or the argument itself if it is JSON or a command line.
fn text_of(config: &str) -> Result<String, String> {
    let path = Path::new(config);
    if !path.is_file() {
        let is_text = config.trim_start().starts_with('{') || config.contains("--") || config.contains('\n');
        return if is_text { Ok(config.to_owned()) } else { Err(format!("there is no configuration file {config}")) };
    }
    let bytes =
        read_regular(path, checks::serving::MOST_BYTES).map_err(|error| format!("cannot read {config}: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        format!("cannot read {config}: it is not UTF-8 text, at byte {}", error.utf8_error().valid_up_to())
    })
}

/// The path itself, or its nearest parent directory that exists.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|above| above.exists()).map_or_else(|| PathBuf::from("/"), Path::to_path_buf)
}
