//! The checklist from an unconfigured machine to a proven direct route, and applied fixes that wait for a reboot.

use super::check::{self, CheckId, place_of};
use super::fix::{Change, FixPlan, Needs};
use super::fix_id::FixId;
use super::route::Route;
use serde::{Deserialize, Serialize};

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// All checks of the step pass.
    Done,
    /// The step must still be done.
    Open,
    /// The step cannot be done because of the hardware or the kind of disk.
    Impossible,
    /// The step could not be checked.
    Unknown,
}

impl StepState {
    /// The mark of the state.
    #[must_use]
    pub const fn mark(self) -> char {
        match self {
            Self::Done => '✔',
            Self::Open => '○',
            Self::Impossible => '✖',
            Self::Unknown => '?',
        }
    }

    /// The state in one to three words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Open => "to do",
            Self::Impossible => "not possible here",
            Self::Unknown => "not known",
        }
    }
}

/// One step of the checklist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuideStep {
    /// The title of the step.
    pub title: String,
    /// The state of the step.
    pub state: StepState,
    /// The checks that decide the state.
    #[serde(default, deserialize_with = "check::known", skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckId>,
    /// The results of the checks, or the missing parts.
    pub found: Vec<String>,
    /// The plans of the fixes for this step.
    pub plans: Vec<FixPlan>,
    /// The advice if there is no fix.
    pub advice: Vec<String>,
}

/// The checklist to a direct route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guide {
    /// The route that the steps configure: compat if no direct route is possible.
    pub route: Route,
    /// Why this route was chosen.
    pub reason: String,
    /// Applied fixes that are not verified yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenPlan>,
    /// The steps in order.
    pub steps: Vec<GuideStep>,
}

/// The note for a plan without its rebuild of the initramfs.
pub const REBUILT_LATER: &str = "a later step before the same reboot rebuilds the initramfs";

/// The plans after this one, in the order of the steps. The plan is one of the steps.
pub fn plans_after<'a>(steps: &'a [GuideStep], plan: &'a FixPlan) -> impl Iterator<Item = &'a FixPlan> {
    steps.iter().flat_map(|step| &step.plans).skip_while(move |other| !std::ptr::eq(*other, plan)).skip(1)
}

/// Whether a change is the command that writes the initramfs again.
fn is_rebuild(change: &Change) -> bool {
    const TOOLS: [&str; 3] = ["update-initramfs", "dracut", "mkinitcpio"];
    let tool =
        |argv: &[String]| argv.iter().find(|word| *word != "sudo").is_some_and(|tool| TOOLS.contains(&tool.as_str()));
    matches!(change, Change::Run { argv } if tool(argv))
}

/// The plan without its rebuild of the initramfs, if one of the later plans does the same before the same reboot. It is
/// kept if a plan before that one cannot be applied.
pub fn rebuilt_once<'a>(plan: &FixPlan, later: impl Iterator<Item = &'a FixPlan>) -> FixPlan {
    let mut out = plan.clone();
    let writes = plan.changes.iter().any(|change| matches!(change, Change::WriteFile { .. }));
    let rebuild = plan.changes.iter().find(|change| is_rebuild(change) && writes && plan.needs == Needs::Reboot);
    let mut later = later.take_while(|other| other.is_executable() && other.obstacle.is_none());
    if let Some(rebuild) = rebuild
        && later.any(|other| other.changes.contains(rebuild))
    {
        out.changes.retain(|change| change != rebuild);
        out.why.push_str(" A later step before the same reboot rebuilds the initramfs.");
    }
    out
}

impl Guide {
    /// The rebuild of the initramfs that a plan leaves to a later step. `None` if the plan has its rebuild, or needs none.
    #[must_use]
    pub fn left_rebuild(&self, plan: &FixPlan) -> Option<&[String]> {
        let complete = self.steps.iter().flat_map(|step| &step.plans).find(|other| other.id == plan.id)?;
        let rebuild = complete.changes.iter().find(|change| is_rebuild(change) && !plan.changes.contains(change))?;
        if let Change::Run { argv } = rebuild { Some(argv) } else { None }
    }

    /// A plan of the steps as it is shown: with a rebuild of the initramfs only if no later step does it.
    #[must_use]
    pub fn shown_plan(&self, plan: &FixPlan) -> FixPlan {
        rebuilt_once(plan, plans_after(&self.steps, plan))
    }

    /// The checklist with its plans as they are shown.
    #[must_use]
    pub fn shown(&self) -> Self {
        let mut out = self.clone();
        for (step, own) in out.steps.iter_mut().zip(&self.steps) {
            step.plans = own.plans.iter().map(|plan| self.shown_plan(plan)).collect();
        }
        out
    }

    /// The number of steps that are done.
    #[must_use]
    pub fn done(&self) -> usize {
        self.steps.iter().filter(|step| step.state == StepState::Done).count()
    }

    /// The two sentences above the checklist: the number of remaining steps, and the reason for the route.
    #[must_use]
    pub fn head(&self) -> [String; 2] {
        let (done, all) = (self.done(), self.steps.len());
        let is_lost = self.steps.iter().any(|step| step.state == StepState::Impossible);
        let how_far = if is_lost {
            let closes = self.steps.iter().find(|step| step.state == StepState::Impossible);
            let place = closes.map_or("here", |step| place_of(&step.checks));
            format!("GPUDirect Storage is not possible {place} at present.")
        } else {
            format!("To GPUDirect Storage by {}: {done} of {all} steps are done.", self.route)
        };
        [how_far, format!("{}.", self.reason)]
    }
}

/// A step of an applied fix that is not verified yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenStep {
    /// The text of the step.
    pub text: String,
    /// The state of the step.
    pub state: StepState,
}

/// An applied fix that can be verified only after a reboot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPlan {
    /// The fix.
    pub id: FixId,
    /// The title, one line.
    pub title: String,
    /// Its steps, in order.
    pub steps: Vec<OpenStep>,
    /// Whether its check passes. The entry is then complete.
    pub verified: bool,
    /// The next action, or the result.
    pub next: String,
}

impl OpenPlan {
    /// The fix and its steps as lines of text.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut out = vec![format!("{}: {}", self.id, self.title)];
        out.extend(
            self.steps.iter().map(|step| format!("  {} {} ({})", step.state.mark(), step.text, step.state.word())),
        );
        out.push(format!("  {}: {}", if self.verified { "closed" } else { "next" }, self.next));
        out
    }
}
