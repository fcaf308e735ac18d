//! Each check of the table has a function and reports something on a machine, and its texts are short.

use crate::expected::expected;
use crate::fixtures::all;
use crate::machine::{build, check};
use gds_top::core::{CheckId, Status};
use std::collections::BTreeSet;

/// Checks with machines that other tests build.
const ELSEWHERE: [CheckId; 9] = [
    CheckId::GpuFabric,
    CheckId::ScsiBlkmq,
    CheckId::PageCacheResidency,
    CheckId::CfgVsHardware,
    CheckId::StaticCfg,
    CheckId::ToolsFound,
    CheckId::StatsShm,
    CheckId::LimCgroup,
    CheckId::LimHugepages,
];

#[test]
fn every_check_of_the_table_reports_something_on_a_machine() {
    let mut found: BTreeSet<CheckId> = BTreeSet::new();
    found.extend(all().iter().flat_map(|(_, report)| &report.findings).map(|finding| finding.id));
    for machine in expected() {
        let report = check(build(machine.base, &machine.edits).path());
        found.extend(report.findings.into_iter().map(|finding| finding.id));
    }
    let silent = |id: &&CheckId| !found.contains(id) && !ELSEWHERE.contains(id);
    let silent: Vec<&CheckId> = CheckId::ALL.iter().filter(silent).collect();
    assert!(
        silent.is_empty(),
        "call the functions of these checks in `run` of their subject in src/checks, and add a machine: {silent:?}"
    );
}

/// The words of a text. A command or a path in backticks is one word.
fn words(text: &str) -> usize {
    let outside: String = text.split('`').step_by(2).collect::<Vec<_>>().join("x");
    outside.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

#[test]
fn summaries_have_at_most_fifteen_words_and_sentences_of_advice_twenty_five() {
    let mut long = BTreeSet::new();
    let mut seen = 0;
    for (_, report) in all() {
        for finding in &report.findings {
            seen += 1;
            if words(&finding.summary) > 15 {
                long.insert(format!("{} words: {}: {}", words(&finding.summary), finding.id, finding.summary));
            }
            let advice = finding.advice.as_deref().unwrap_or_default();
            for sentence in advice.split_inclusive(". ").filter(|sentence| words(sentence) > 25) {
                long.insert(format!("{} words: {}: {sentence}", words(sentence), finding.id));
            }
        }
    }
    assert!(long.is_empty(), "shorten these texts:\n{}", long.into_iter().collect::<Vec<_>>().join("\n"));
    assert!(seen > 1000, "{seen} findings");
}

#[test]
fn every_problem_of_a_machine_has_a_way_on() {
    let mut without = BTreeSet::new();
    for (name, report) in all() {
        for finding in &report.findings {
            let has_way = finding.fix.is_some()
                || finding.command.is_some()
                || finding.advice.is_some()
                || finding.cause.is_some();
            if matches!(finding.status, Status::Fail | Status::Warn) && !has_way {
                without.insert(format!("{name}: {}: {}", finding.id, finding.summary));
            }
        }
    }
    assert!(
        without.is_empty(),
        "no fix, command, advice or cause:\n{}",
        without.into_iter().collect::<Vec<_>>().join("\n")
    );
}
