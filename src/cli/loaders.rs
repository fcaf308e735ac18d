//! Lists the published loaders with a script, and the installed versions of their packages.

use super::args::OutputArgs;
use super::outcome::{FINE, print_fitted, print_json};
use crate::machine::run_limited;
use crate::session::live::{Loader, Python, loaders, python};
use crate::trust::{own_path, without_foreign_variables};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

/// The time limit for Python, which only reads package metadata.
const LIMIT: Duration = Duration::from_secs(20);
/// A Python program that prints a line `name version` for each installed package among its arguments. With `-c`, Python
/// searches the working directory before its own modules. That directory can belong to another user, so it is removed.
const ASK: &str = "import sys\nsys.path[:] = [p for p in sys.path if p]\nfrom importlib.metadata import version\nfor n in sys.argv[1:]:\n    try: print(n, version(n))\n    except Exception: pass\n";

/// Prints the list.
pub(super) fn list(output: &OutputArgs) -> u8 {
    let loaders = loaders();
    let python = python();
    let (installed, problem) = match python.clone().and_then(|python| installed(&python, &loaders)) {
        Ok(installed) => (installed, None),
        Err(problem) => (BTreeMap::new(), Some(problem)),
    };
    let python = python.map_or_else(|_| "python3".to_owned(), |python| python.program.to_string_lossy().into_owned());
    if output.json {
        let list: Vec<_> = loaders
            .iter()
            .map(|l| {
                serde_json::json!({"engine": format!("loader:{}", l.name), "package": l.package, "about": l.about,
                "version": installed.get(l.package)})
            })
            .collect();
        print_json(&serde_json::json!({"python": python, "error": problem, "loaders": list}));
        return FINE;
    }
    let mut text = format!("Published loaders, run by {python} (GDS_TOP_PYTHON names another):\n");
    for loader in &loaders {
        let state = match (installed.get(loader.package), &problem) {
            (Some(version), _) => version.clone(),
            (None, Some(_)) => "unknown".to_owned(),
            (None, None) => format!("not installed: pip install {}", loader.package),
        };
        let _ = writeln!(text, "  loader:{:<21} {state}\n    {}", loader.name, loader.about);
    }
    if let Some(problem) = problem {
        let _ = writeln!(text, "The installed packages could not be read: {problem}");
    }
    print_fitted(&text, false)
}

/// The installed versions by package.
fn installed(python: &Python, loaders: &[Loader]) -> Result<BTreeMap<String, String>, String> {
    let name = python.program.display();
    let mut command = Command::new(&python.program);
    command.envs(own_path().map(|path| ("PATH", path)));
    without_foreign_variables(&mut command)
        .args(&python.arguments)
        .arg("-c")
        .arg(ASK)
        .args(loaders.iter().map(|loader| loader.package));
    let ran = run_limited(&mut command, LIMIT).map_err(|e| format!("{name} could not be run: {e}"))?;
    if ran.exit_code != Some(0) {
        let said = ran.stderr.lines().last().unwrap_or("no words");
        return Err(format!("{name} returned no result: {said}"));
    }
    Ok(ran.stdout.lines().filter_map(|line| line.split_once(' ')).map(|(n, v)| (n.to_owned(), v.to_owned())).collect())
}
