//! Machines whose fixtures contain the expected verdict and remedies: the cause, the plans that `fix --list` offers, and
//! commands that must or must not be advised.

use crate::machine::{all, build, check, filesystem, fixture, gpu, open_fails, with_expectation};
use gds_top::core::{Change, CheckId, FixPlan, Status};
use gds_top::fixes;
use gds_top::machine::Root;
use gds_top::text::quoted_line;

/// The commands and files of a plan.
fn lines(plan: &FixPlan) -> Vec<String> {
    let line = |change: &Change| match change {
        Change::Run { argv } => quoted_line(argv),
        Change::WriteFile { path, after, .. } => format!("{}: {after}", path.display()),
    };
    plan.changes.iter().map(line).chain(plan.remaining.clone()).chain(plan.obstacle.clone()).collect()
}

#[test]
fn each_machine_has_its_cause_its_fixes_and_no_harmful_advice() {
    let mut wrong = Vec::new();
    for (name, expect) in with_expectation() {
        let folder = fixture(&name);
        let report = check(&folder);
        let plans = fixes::plan(&Root::folder(&folder).unwrap(), &report);
        let verdict = &report.verdicts[0];
        let ids = |ids: &[gds_top::core::CheckId]| ids.iter().map(|id| id.as_str().to_owned()).collect::<Vec<_>>();
        let got = (
            verdict.route.to_string(),
            verdict.possible.to_string(),
            ids(&verdict.blockers),
            verdict.steps.len(),
            plans.iter().map(|plan| plan.id.as_str().to_owned()).collect::<Vec<_>>(),
        );
        let wanted = (
            expect.route.clone(),
            expect.possible.clone(),
            expect.blockers.clone(),
            expect.steps,
            expect.fixes.clone(),
        );
        let loud = report.findings.iter().filter(|f| matches!(f.status, Status::Fail | Status::Warn));
        let said: Vec<String> = loud
            .flat_map(|f| [f.advice.clone(), f.command.clone()])
            .flatten()
            .chain([verdict.advice.clone()])
            .chain(plans.iter().flat_map(lines))
            .collect();
        let said = said.join("\n");
        let lacking: Vec<&String> = expect.has.iter().filter(|part| !said.contains(*part)).collect();
        let harmful: Vec<&String> = expect.never.iter().filter(|part| said.contains(*part)).collect();
        if got != wanted || !lacking.is_empty() || !harmful.is_empty() {
            wrong.push(format!("{name}: {got:?}\n  wanted {wanted:?}\n  lacks {lacking:?}, has {harmful:?}\n{said}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_finding_that_closes_a_route_was_checked() {
    let report = check(build("p2pdma-healthy", &[filesystem("ceph")]).path());
    let verdict = &report.verdicts[0];
    assert_eq!(verdict.blockers, [CheckId::FsType]);
    assert!(!verdict.proof.contains("fs-type"), "{}", verdict.proof);
}

#[test]
fn a_gpu_before_pascal_explains_why_libcufile_does_not_open() {
    let edits = all([gpu("Tesla M40 24GB", "5.2"), vec![open_fails(5007, "")]]);
    let report = check(build("nvfs-healthy", &edits).path());
    assert_eq!(report.finding("lib-open-probe").unwrap().cause, Some(CheckId::GpuComputeCap));
    assert_eq!(report.verdicts[0].blockers, [CheckId::GpuComputeCap]);
}
