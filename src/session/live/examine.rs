//! Runs checks and fixes for the session.

use super::bus::Bus;
use super::prove::prove;
use crate::checks::{self, Report};
use crate::core::{
    AppliedFix, EventBody, FixId, FixPlan, FixProgress, FixStage, Guide, LogLevel, Needs, OpenPlan, Route, RouteCounts,
    Target, Verdict,
};
use crate::fixes::{self, FixError, Place, guide};
use crate::machine::{self, LibcufileFacts, LiveOptions, Root};
use std::path::{Path, PathBuf};
use std::thread::Builder;

/// Examines the machine for one path.
pub(super) struct Examiner {
    bus: Bus,
    path: PathBuf,
    gpu: Option<String>,
    /// The path of this program, for child processes. `None`: routes are not proven by reads.
    exe: Option<PathBuf>,
    /// The directory of a captured machine; `None` for this machine.
    folder: Option<PathBuf>,
    report: Option<Report>,
    guide: Option<Guide>,
    /// Fixes that wait for a reboot, as reported last.
    open: Vec<OpenPlan>,
    /// Applied fixes, as reported last.
    applied: Vec<AppliedFix>,
}

/// The action of the process that runs as root.
enum Elevated<'a> {
    /// Applies the plan with this digest.
    Apply { consent: &'a str },
    /// Undoes the fix.
    Undo,
}

/// Opens a view of this machine or of a captured machine.
///
/// # Errors
/// Returns a sentence if the directory does not contain a machine.
pub(super) fn view(folder: Option<&Path>) -> Result<Root, String> {
    folder.map_or_else(|| Ok(Root::live()), Root::stand_in)
}

/// Opens a view of this machine for a session without checks. The defaults of cufile.json depend on the version of
/// libcufile. If the session does not know the libcufile, a child reads its version. It does not open CUDA.
pub(super) fn root_without_cuda(known_cufile: Option<LibcufileFacts>) -> Root {
    Root::live_with(LiveOptions { open_cufile: false, known_cufile, ..LiveOptions::default() })
}

impl Examiner {
    /// `gpu` is an index or a UUID; `None` means all GPUs.
    pub(super) fn new(bus: Bus, path: PathBuf, gpu: Option<String>, exe: Option<PathBuf>) -> Self {
        Self { bus, path, gpu, exe, folder: None, report: None, guide: None, open: Vec::new(), applied: Vec::new() }
    }

    /// Examines the machine in a directory instead of this machine.
    pub(super) fn of(self, folder: Option<PathBuf>) -> Self {
        Self { folder, ..self }
    }

    /// The place where fixes are applied. If its directory no longer exists, this is reported.
    fn place(&self) -> Option<Place> {
        let Some(folder) = self.folder.as_deref() else { return Some(Place::live()) };
        Place::folder(folder).map_err(|why| self.bus.say(LogLevel::Error, why)).ok()
    }

    /// Opens a new view. An error is reported and gives `None`.
    fn look(&self) -> Option<Root> {
        view(self.folder.as_deref()).map_err(|why| self.bus.say(LogLevel::Error, why)).ok()
    }

    /// Whether the checks of this machine found no GPU.
    pub(super) fn found_no_gpu(&self) -> bool {
        self.folder.is_none() && self.report.as_ref().is_some_and(|report| !report.has_gpu)
    }

    /// Reports the machine.
    pub(super) fn machine(&self, root: &Root) {
        self.bus.emit(EventBody::MachineSeen { machine: machine::machine(root) });
    }

    /// Reports the machine with the storage below the path and the settings of cufile.json, for a session without checks.
    pub(super) fn machine_in_detail(&self) {
        let root = match self.folder.as_deref() {
            Some(_) => self.look(),
            None => Some(root_without_cuda(None)),
        };
        let Some(root) = root else { return };
        let facts: Vec<_> = root.path_facts(&self.path).into_iter().collect();
        self.bus.emit(EventBody::MachineSeen { machine: checks::machine(&root, &facts) });
    }

    /// Runs a round of checks. Each round uses a new view, so that cached facts do not hide a change.
    pub(super) fn check(&mut self) {
        let Some(root) = self.look() else { return };
        self.check_with(&root);
    }

    pub(super) fn check_with(&mut self, root: &Root) {
        let bus = self.bus.clone();
        self.send_applied();
        let mut report = std::thread::scope(|scope| {
            // The machine summary waits for NVML, but the first findings do not. It is only sent early in the first
            // round, because a later round would replace a summary that has more facts.
            if self.report.is_none() && Builder::new().spawn_scoped(scope, || self.machine(root)).is_err() {
                // If no thread can be started, the summary is computed first.
                self.machine(root);
            }
            checks::run(root, &self.paths(root), self.gpu.as_deref(), &mut |finding| {
                bus.emit(EventBody::CheckDone { finding });
            })
        });
        // The summary is sent again, because it now contains libcufile. The settings of cufile.json need its version.
        self.bus.emit(EventBody::MachineSeen { machine: checks::machine(root, &report.paths) });
        for verdict in &report.verdicts {
            self.bus.emit(EventBody::VerdictReached { verdict: verdict.clone() });
        }
        let place = self.place();
        let is_capture = place.as_ref().is_some_and(Place::is_capture);
        for mut plan in fixes::offered(root, &report) {
            if is_capture {
                plan.obstacle.get_or_insert_with(|| "this is a capture, and captures are never changed".to_owned());
            } else if let Some(place) = &place {
                plan = fixes::with_file_obstacle(place, plan);
            }
            self.bus.emit(EventBody::FixPlanned { plan });
        }
        self.bus.emit(EventBody::ChecksDone { took_ns: report.took_ns });
        self.take_up(&report);
        // All findings were reported before this point, because real reads take time.
        let exe = self.exe.as_deref().filter(|_| root.is_live() && report.has_gpu);
        for verdict in exe.map(|exe| prove(exe, &report)).unwrap_or_default() {
            self.bus.emit(EventBody::VerdictReached { verdict: verdict.clone() });
            report.take_proven(verdict);
        }
        let mut guide = guide::guide(root, &report);
        if let Some(place) = place.as_ref().filter(|_| !is_capture) {
            guide = fixes::with_file_obstacles(place, guide);
        }
        guide.open = place.map(|place| fixes::take_up(&report, &place)).unwrap_or_default();
        guide.open.retain(|plan| !plan.verified);
        self.bus.emit(EventBody::GuideMade { guide: guide.clone() });
        self.guide = Some(guide);
        self.report = Some(report);
    }

    /// Reports fixes that waited for a reboot, and whether their checks pass now.
    fn take_up(&mut self, report: &Report) {
        let open = self.place().map(|place| fixes::take_up(report, &place)).unwrap_or_default();
        let known = std::mem::replace(&mut self.open, open.clone());
        // Messages that were reported before are not repeated, because they would hide newer ones.
        for open in open.into_iter().filter(|open| !known.contains(open)) {
            let stage = if open.verified { FixStage::Fixed } else { FixStage::Waiting };
            self.news(open.id, stage, &open.next);
            let level = if open.verified { LogLevel::Info } else { LogLevel::Warn };
            self.bus.say(level, format!("{}: {}", open.id, open.next));
        }
    }

    /// Reports the fixes of all sessions that can be undone, if they have changed.
    fn send_applied(&mut self) {
        let applied = self.place().map(|place| fixes::undoable(&place)).unwrap_or_default();
        if applied != self.applied {
            self.applied.clone_from(&applied);
            self.bus.emit(EventBody::FixesApplied { applied });
        }
    }

    /// Updates the verdict with the counters of a load. Counters override the checks.
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

    /// Reports interrupted fixes. Nothing is written.
    pub(super) fn send_interrupted(&self) {
        self.place().iter().flat_map(fixes::interrupted).for_each(|text| self.bus.say(LogLevel::Warn, text));
    }

    /// Resumes interrupted fixes before another fix is applied or undone. `None` if this failed; the failure is then
    /// reported.
    fn recover(&self, id: FixId, place: &Place) -> Option<Vec<FixId>> {
        fixes::recover(place, &mut |text| self.bus.say(LogLevel::Warn, text))
            .map_err(|error| self.news(id, FixStage::Failed, &error.to_string()))
            .ok()
    }

    /// Applies a fix and runs all checks again. The user consented to the plan with the digest `consent`. The plan is
    /// made again from fresh checks, so that a change of the machine since the preview is noticed. A different plan
    /// is rejected.
    pub(super) fn apply(&mut self, id: FixId, consent: &str) {
        let Some(place) = self.place() else { return };
        let Some(plan) = self.plan(id) else { return };
        if place.lacks_root(&plan) {
            // The process that runs as root makes the plan again and compares the digests.
            self.elevated(id, Elevated::Apply { consent });
        } else if self.recover(id, &place).is_some()
            && let Some(root) = self.look()
        {
            let report = checks::run(&root, &self.paths(&root), self.gpu.as_deref(), &mut |_| {});
            match fixes::plan_by_id(&root, &report, id) {
                Some(now) => {
                    let now = FixPlan { check: plan.check, ..now };
                    fixes::apply_and_verify(&root, &now, consent, &place, &self.paths(&root), &mut |progress| {
                        self.bus.emit(EventBody::FixProgress { progress });
                    });
                }
                None => self.news(id, FixStage::Failed, &FixError::NotConsented { id }.to_string()),
            }
        }
        self.check();
    }

    /// Applies a fix in another process of this program, which runs as root. sudo has already authenticated the user
    /// on the terminal.
    fn elevated(&self, id: FixId, what: Elevated<'_>) {
        let Some(exe) = self.exe.clone().or_else(|| std::env::current_exe().ok()) else {
            return self.news(id, FixStage::Failed, "the executable of gds-top cannot be found");
        };
        let mut argv: Vec<String> =
            ["sudo", "-n", "--"].map(str::to_owned).into_iter().chain([exe.display().to_string()]).collect();
        argv.extend(["fix", "--stream"].map(str::to_owned));
        match &self.folder {
            Some(folder) => argv.extend(["--sysroot".to_owned(), folder.display().to_string()]),
            None => argv.extend(["--path".to_owned(), self.path.display().to_string()]),
        }
        match what {
            Elevated::Apply { consent } => argv.extend(["--yes", "--consent", consent].map(str::to_owned)),
            Elevated::Undo => argv.push("--undo".to_owned()),
        }
        argv.push(id.to_string());
        let mut ended = false;
        let mut last = String::new();
        let ran = fixes::run_streamed(&argv, &mut |line| match serde_json::from_str::<FixProgress>(&line) {
            Ok(progress) => {
                ended |= !matches!(progress.stage, FixStage::Previewed | FixStage::Applying | FixStage::Verifying);
                self.bus.emit(EventBody::FixProgress { progress });
            }
            Err(_) => last = line,
        });
        if let Err(how) = ran
            && !ended
        {
            let undo = if matches!(what, Elevated::Undo) { "--undo " } else { "" };
            let said = if last.is_empty() { how.clone() } else { format!("{how}: {last}") };
            let path = self.folder.is_none().then_some(self.path.as_path());
            let line = self.place().map(|place| place.command(&format!("{undo}{id}"), path, Needs::Root));
            let text = format!("sudo failed ({said}); run in a terminal: {}", line.unwrap_or_default());
            self.news(id, FixStage::Failed, &text);
        }
    }

    /// Reports the changes that a fix would make.
    pub(super) fn dry_run(&mut self, id: FixId) {
        let (Some(plan), Some(place)) = (self.plan(id), self.place()) else { return };
        let plan = fixes::with_file_obstacle(&place, plan);
        for line in fixes::preview(&plan, usize::MAX).lines() {
            self.news(id, FixStage::Previewed, line);
        }
    }

    /// Undoes a fix and runs all checks again.
    pub(super) fn undo(&mut self, id: FixId) {
        let Some(place) = self.place() else { return };
        let known = self.applied.iter().find(|fix| fix.plan.id == id).map(|fix| fix.plan.clone());
        if known.or_else(|| self.plan_quietly(id)).is_some_and(|plan| place.lacks_root(&plan)) {
            self.elevated(id, Elevated::Undo);
        } else if let Some(gone) = self.recover(id, &place)
            && let Some(root) = self.look()
        {
            if gone.contains(&id) {
                self.news(id, FixStage::Undone, "it was interrupted, and is rolled back");
            } else {
                fixes::undo_and_verify(&root, id, &place, &self.paths(&root), &mut |progress| {
                    self.bus.emit(EventBody::FixProgress { progress });
                });
            }
        }
        self.check();
    }

    fn paths(&self, root: &Root) -> Vec<PathBuf> {
        if root.is_live() { vec![self.path.clone()] } else { root.captured_paths() }
    }

    fn plan(&self, id: FixId) -> Option<FixPlan> {
        let plan = self.plan_quietly(id);
        if plan.is_none() {
            self.news(id, FixStage::Failed, "nothing on this machine needs this fix now; check again with r");
        }
        plan
    }

    /// The plan for a fix from the current findings or the checklist, without reporting an error.
    fn plan_quietly(&self, id: FixId) -> Option<FixPlan> {
        let (report, root) = (self.report.as_ref()?, view(self.folder.as_deref()).ok()?);
        let offered = fixes::plan(&root, report).into_iter().find(|plan| plan.id == id);
        offered.or_else(|| {
            let steps = self.guide.iter().flat_map(|guide| &guide.steps);
            steps
                .flat_map(|step| &step.plans)
                .any(|plan| plan.id == id)
                .then(|| fixes::plan_by_id(&root, report, id))?
        })
    }

    fn news(&self, id: FixId, stage: FixStage, text: &str) {
        let progress = FixProgress { id, stage, text: text.to_owned(), finding: None };
        self.bus.emit(EventBody::FixProgress { progress });
    }
}
