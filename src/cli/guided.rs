//! `gds-top fix nvidia-gds` applies the steps of the checklist one after another. Each step needs consent. It stops
//! when the route is proven or a reboot is needed.

use super::fix_work::{Mode, Work, ask, ask_word, ended, open};
use super::outcome::{BAD_ANSWER, BAD_CALL, COULD_NOT_RUN, FINE, INTERRUPTED, fail, note, print, print_json};
use super::terminal::columns;
use crate::checks::{self, Report};
use crate::core::{FixId, FixPlan, FixProgress, FixStage, Guide, OpenPlan, Status, StepState};
use crate::fixes::guided::{self, Next};
use crate::fixes::{self, Ended, FixError, SetUp, guide};
use crate::machine::Root;
use crate::present;
use crate::session;
use crate::text::quoted_line;
use std::io::{self, IsTerminal};

/// The current state of the machine.
struct Now {
    view: Root,
    report: Report,
    guide: Guide,
}

/// Shows the checklist and applies its steps, unless the request only shows it.
pub(super) fn run(work: &Work<'_>, report: Report, open: Vec<OpenPlan>) -> u8 {
    if work.order.ids.len() > 1 {
        return fail(BAD_CALL, "nvidia-gds is the complete checklist: pass it alone, or pass only fixes");
    }
    let mut first = planned(work, &work.view, &report);
    first.open = open.into_iter().filter(|plan| !plan.verified).collect();
    if work.output.json {
        return print_json(&serde_json::json!({ "guide": first.shown() }));
    }
    let status = print(guide::text(&first, columns().into()).as_bytes());
    if status != FINE || work.order.mode == Mode::DryRun {
        return status;
    }
    match look(work) {
        Ok(now) => Run { work, set_up: resumed(work, &now.guide), tried: Vec::new() }.run(now),
        Err(sentence) => fail(BAD_CALL, &sentence),
    }
}

fn planned(work: &Work<'_>, view: &Root, report: &Report) -> Guide {
    fixes::with_file_obstacles(&work.place, guide::guide(view, report))
}

fn look(work: &Work<'_>) -> Result<Now, String> {
    let (_, view) = open(work.order.root)?;
    let report = checks::run(&view, &work.paths, None, &mut |_| {});
    let guide = planned(work, &view, &report);
    Ok(Now { view, report, guide })
}

/// The set-up that was started earlier, with a note about it. If there is none, a new one.
fn resumed(work: &Work<'_>, guide: &Guide) -> SetUp {
    let Some(mut set_up) = SetUp::load(&work.place) else { return SetUp::new(guide.route, work.paths.clone()) };
    let done: Vec<&str> = set_up.done.iter().filter(|step| step.worked).map(|step| step.id.as_str()).collect();
    let when = match set_up.was_rebooted(&work.place) {
        Some(true) => "before the last reboot",
        Some(false) => "since the last reboot",
        None => "earlier",
    };
    if !done.is_empty() {
        note(&format!("the set-up continues; steps done {when}: {}", done.join(", ")));
    }
    if set_up.route != guide.route {
        note(&format!(
            "it was started for the route {}; on this machine {} now needs less effort",
            set_up.route, guide.route
        ));
        set_up.route = guide.route;
    }
    set_up
}

struct Run<'a> {
    work: &'a Work<'a>,
    set_up: SetUp,
    /// The fixes that this command applied.
    tried: Vec<FixId>,
}

impl Run<'_> {
    fn run(mut self, now: Now) -> u8 {
        let status = self.steps(now);
        if let Some(argv) = self.left_rebuild() {
            note(&format!("before the reboot, run: {}", quoted_line(&argv)));
        }
        status
    }

    /// The rebuild of the initramfs that applied steps left to a later one, which was not applied.
    fn left_rebuild(&self) -> Option<Vec<String>> {
        self.set_up.left_rebuild(&guided::waiting(&self.work.place)).map(<[String]>::to_vec)
    }

    fn steps(&mut self, mut now: Now) -> u8 {
        loop {
            if fixes::is_stopped() {
                note(&format!("the set-up stops here; run {} again", again(self.work)));
                return INTERRUPTED;
            }
            let waiting = guided::waiting(&self.work.place);
            let plan = match guided::next(&now.guide, &waiting, &self.tried) {
                Next::Apply(plan) => plan,
                Next::ByHand(title, lines) => return by_hand(self.work, &title, &lines, &waiting),
                Next::Reboot(fixes) => return self.reboot(&fixes, &now.view),
                Next::Prove => return self.prove(now),
                Next::Impossible => {
                    note(&now.guide.head()[0]);
                    return BAD_ANSWER;
                }
            };
            if let Err(status) = self.apply(&plan, &now) {
                return status;
            }
            self.tried.push(plan.id);
            let passes = |now: &Now| now.report.finding(plan.check).is_some_and(|found| found.status == Status::Pass);
            let passed_before = passes(&now);
            now = match look(self.work) {
                Ok(now) => now,
                Err(sentence) => return fail(BAD_CALL, &sentence),
            };
            if passes(&now) && !passed_before {
                note(&format!("{} passes now", plan.check));
            }
        }
    }

    /// Shows a plan, asks for consent and applies it. `Err` ends the command with this status.
    fn apply(&mut self, plan: &FixPlan, now: &Now) -> Result<(), u8> {
        let work = self.work;
        let steps = &now.guide.steps;
        let done = steps.iter().filter(|step| step.state == StepState::Done).count();
        note(&format!("{done} of {} steps are done; next: {}", steps.len(), plan.title));
        let printed = print(fixes::preview(plan, columns().into()).as_bytes());
        if printed != FINE {
            return Err(printed);
        }
        if work.place.lacks_root(plan) {
            note(&format!("this step needs root; run: {}", work.place.command(guide::ID, work.order.path, plan.needs)));
            return Err(COULD_NOT_RUN);
        }
        let mut fresh = None;
        if work.order.mode == Mode::Ask {
            match ask(plan.id) {
                Ok(true) => {}
                Ok(false) => {
                    note(&format!("{} was not applied; '{}' continues here", plan.id, again(work)));
                    return Err(FINE);
                }
                Err(sentence) => return Err(fail(BAD_CALL, &sentence)),
            }
            // The user can take long to answer, so the step is planned again and rejected if it has changed.
            let again = look(work).map_err(|sentence| fail(BAD_CALL, &sentence))?;
            let waiting = guided::waiting(&work.place);
            match guided::next(&again.guide, &waiting, &self.tried) {
                Next::Apply(same) if same.digest() == plan.digest() => fresh = Some(again.view),
                _ => {
                    let text = FixError::NotConsented { id: plan.id }.to_string();
                    work.news(&FixProgress { id: plan.id, stage: FixStage::Failed, text, finding: None });
                    return Err(BAD_ANSWER);
                }
            }
        }
        let view = fresh.as_ref().unwrap_or(&now.view);
        let applied = fixes::apply_consented(view, plan, &plan.digest(), &work.place, &mut |p| work.news(&p));
        let worked = applied == Ended::Done;
        if let Err(error) = self.set_up.record(&work.place, plan, now.guide.left_rebuild(plan), worked) {
            note(&format!("the set-up could not be recorded: {error}"));
        }
        if worked {
            return Ok(());
        }
        let cause = if fixes::is_stopped() { "" } else { "fix the cause, then " };
        note(&format!("the set-up stops here; {cause}run {} again", again(work)));
        Err(ended(applied))
    }

    fn reboot(&self, fixes: &[FixId], view: &Root) -> u8 {
        let ids = fixes.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ");
        note(&format!("in effect after one reboot: {ids}"));
        let is_live = self.work.place.is_live();
        let first = checks::before_reboot(view);
        first.iter().for_each(|line| note(line));
        // A reboot has no effect without the rebuild.
        let may_ask = self.work.order.mode == Mode::Ask && self.left_rebuild().is_none() && first.is_none();
        let asks = is_live && may_ask && io::stdin().is_terminal();
        if asks && matches!(ask_word("Reboot now?"), Ok(true)) {
            let argv = ["sudo", "systemctl", "reboot"].map(str::to_owned);
            if let Err(why) = fixes::run_for_root(&argv, &mut |line| note(&line)) {
                note(&format!("the reboot failed: {why}"));
                return BAD_ANSWER;
            }
            return FINE;
        }
        note(&format!("reboot, then run {} again; it continues with the remaining steps", again(self.work)));
        FINE
    }

    /// Proves the route with reads when all steps are done.
    fn prove(&self, now: Now) -> u8 {
        let work = self.work;
        let mut report = now.report;
        for (step, lines) in guided::advice(&now.guide) {
            note(&format!("{}: {}", step.title, lines.join("; ")));
        }
        if !work.place.is_live() {
            note(
                "--sysroot names a directory, not a running machine: commands were only shown, and no read can prove the route",
            );
            return FINE;
        }
        if let Ok(exe) = std::env::current_exe() {
            for verdict in session::live::prove(&exe, &report) {
                report.take_proven(verdict);
            }
        }
        let mut proven = true;
        for verdict in &report.verdicts {
            let is_direct = verdict.proven && verdict.route.is_direct();
            note(&format!("{} Proof: {}", present::verdict::answer(verdict).text(), verdict.proof));
            proven &= is_direct;
        }
        if proven && !report.verdicts.is_empty() {
            SetUp::forget(&work.place);
            return FINE;
        }
        note(present::verdict::UNPROVEN);
        BAD_ANSWER
    }
}

/// The command line that continues the set-up.
fn again(work: &Work<'_>) -> String {
    work.place.again(guide::ID, work.order.path)
}

fn by_hand(work: &Work<'_>, title: &str, lines: &[String], waiting: &[FixId]) -> u8 {
    note(&format!("{title}: do this step by hand"));
    for line in lines {
        note(&format!("  {line}"));
    }
    if !waiting.is_empty() {
        let ids = waiting.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ");
        note(&format!("in effect after a reboot: {ids}"));
    }
    note(&format!("then run {} again", again(work)));
    BAD_ANSWER
}
