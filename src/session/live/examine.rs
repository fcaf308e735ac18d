//! Checks and fixes on behalf of the session.

use super::bus::Bus;
use super::prove::prove;
use crate::checks::{self, Report};
use crate::domain::{EventBody, FixPlan, FixProgress, FixStage, LogLevel, Route, RouteCounts, Target, Verdict};
use crate::fixes::{self, Place};
use crate::host::{self, Root};
use std::path::PathBuf;

/// Looks at the machine for one path.
pub(super) struct Examiner {
    bus: Bus,
    path: PathBuf,
    gpu: Option<String>,
    /// This program, for children; `None` proves nothing with reads.
    exe: Option<PathBuf>,
    report: Option<Report>,
}

impl Examiner {
    /// `gpu` is an index or UUID, `None` for every GPU.
    pub(super) fn new(bus: Bus, path: PathBuf, gpu: Option<String>, exe: Option<PathBuf>) -> Self {
        Self { bus, path, gpu, exe, report: None }
    }

    /// Says what machine this is.
    pub(super) fn machine(&self, root: &Root) {
        self.bus.emit(EventBody::MachineSeen { machine: host::machine(root) });
    }

    /// A round of checks. A new view is taken each time, so that nothing remembered hides a change.
    pub(super) fn check(&mut self) {
        let root = Root::live();
        self.check_with(&root);
    }

    pub(super) fn check_with(&mut self, root: &Root) {
        let bus = self.bus.clone();
        let mut report = std::thread::scope(|scope| {
            // The machine's summary waits for NVML, the first findings do not.
            scope.spawn(|| self.machine(root));
            checks::run(root, std::slice::from_ref(&self.path), self.gpu.as_deref(), &mut |finding| {
                bus.emit(EventBody::CheckDone { finding });
            })
        });
        for verdict in &report.verdicts {
            self.bus.emit(EventBody::VerdictReached { verdict: verdict.clone() });
        }
        for plan in fixes::plan(root, &report) {
            self.bus.emit(EventBody::FixPlanned { plan });
        }
        self.bus.emit(EventBody::ChecksDone { took_ns: report.took_ns });
        // All findings are out by now: real reads take their time.
        let exe = self.exe.as_deref().filter(|_| root.is_live() && report.has_gpu);
        for verdict in exe.map(|exe| prove(exe, &report)).unwrap_or_default() {
            self.bus.emit(EventBody::VerdictReached { verdict: verdict.clone() });
            report.take_proven(verdict);
        }
        self.report = Some(report);
    }

    /// Takes what a load proved into the verdict: counters of real reads outrank what the checks conclude.
    pub(super) fn learn(&mut self, counts: &RouteCounts, target: &Target) {
        let Target::Gpu { uuid, .. } = target else { return };
        if !counts.proven || counts.route == Route::None {
            return;
        }
        let Some(report) = &mut self.report else { return };
        let known = report.verdicts.iter_mut().find(|v| v.path == self.path && v.gpu == *uuid);
        let Some(verdict) = known else { return };
        let reads = |n: Option<u64>| n.unwrap_or(0);
        let proof = format!(
            "{}: {} reads by nvidia-fs, {} by P2PDMA, {} by POSIX during a load",
            counts.source,
            reads(counts.nvfs_reads),
            reads(counts.p2p_reads),
            reads(counts.posix_reads)
        );
        let better = Verdict { route: counts.route, proven: true, proof, ..verdict.clone() };
        if better != *verdict {
            *verdict = better.clone();
            self.bus.emit(EventBody::VerdictReached { verdict: better });
        }
    }

    /// Finishes or takes back what an interrupted fix left.
    pub(super) fn recover(&self) {
        match fixes::recover(&Place::live()) {
            Ok(said) => said.into_iter().for_each(|text| self.bus.say(LogLevel::Info, text)),
            Err(error) => self.bus.say(LogLevel::Warn, error.to_string()),
        }
    }

    /// Applies a fix that the user consented to, and checks everything again.
    pub(super) fn apply(&mut self, id: &str) {
        let Some(plan) = self.plan(id) else { return };
        let paths = [self.path.clone()];
        fixes::apply_and_verify(&Root::live(), &plan, &Place::live(), &paths, &mut |progress| {
            self.bus.emit(EventBody::FixProgress { progress });
        });
        self.check();
    }

    /// Says what a fix would change.
    pub(super) fn dry_run(&mut self, id: &str) {
        let Some(plan) = self.plan(id) else { return };
        for line in fixes::preview(&plan).lines() {
            self.news(id, FixStage::Previewed, line);
        }
    }

    /// Takes a fix back, and checks everything again.
    pub(super) fn undo(&mut self, id: &str) {
        let paths = [self.path.clone()];
        fixes::undo_and_verify(&Root::live(), id, &Place::live(), &paths, &mut |progress| {
            self.bus.emit(EventBody::FixProgress { progress });
        });
        self.check();
    }

    fn plan(&self, id: &str) -> Option<FixPlan> {
        let plan = self
            .report
            .as_ref()
            .and_then(|report| fixes::plan(&Root::live(), report).into_iter().find(|plan| plan.id == id));
        if plan.is_none() {
            self.news(id, FixStage::Failed, "nothing on this machine needs this fix now; check again with r");
        }
        plan
    }

    fn news(&self, id: &str, stage: FixStage, text: &str) {
        let progress = FixProgress { id: id.to_owned(), stage, text: text.to_owned(), finding: None };
        self.bus.emit(EventBody::FixProgress { progress });
    }
}
