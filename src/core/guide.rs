//! The way from a bare machine to a proven direct route, and plans that wait for a reboot.

use super::finding::Route;
use super::fix::FixPlan;
use super::fix_id::FixId;
use serde::{Deserialize, Serialize};

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Its checks pass.
    Done,
    /// It must be done.
    Open,
    /// Nothing helps: hardware, or the kind of disk.
    Impossible,
    /// It could not be checked.
    Unknown,
}

impl StepState {
    /// A sign.
    #[must_use]
    pub const fn mark(self) -> char {
        match self {
            Self::Done => '✔',
            Self::Open => '○',
            Self::Impossible => '✖',
            Self::Unknown => '?',
        }
    }

    /// A word or three.
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

/// One step of the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuideStep {
    /// What.
    pub title: String,
    /// How far.
    pub state: StepState,
    /// The checks that decide it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The result of the checks, or the missing part.
    pub found: Vec<String>,
    /// Fixes that do it.
    pub plans: Vec<FixPlan>,
    /// The advice if there is no fix.
    pub advice: Vec<String>,
}

/// The way, as a checklist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guide {
    /// The route that it leads to.
    pub route: Route,
    /// Why that one.
    pub reason: String,
    /// Fixes that were applied and are not verified yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenPlan>,
    /// Steps in order.
    pub steps: Vec<GuideStep>,
}

impl Guide {
    /// The number of steps done.
    #[must_use]
    pub fn done(&self) -> usize {
        self.steps.iter().filter(|step| step.state == StepState::Done).count()
    }

    /// The two sentences on top: the number of remaining steps, and the reason for this route.
    #[must_use]
    pub fn head(&self) -> [String; 2] {
        let mut reason = self.reason.chars();
        let reason: String = reason.next().into_iter().flat_map(char::to_uppercase).chain(reason).collect();
        let (done, all) = (self.done(), self.steps.len());
        let is_lost = self.steps.iter().any(|step| step.state == StepState::Impossible);
        let how_far = if is_lost {
            format!("GPUDirect Storage is not possible here at present ({done} of {all} steps are done).")
        } else {
            format!("To GPUDirect Storage by {}: {done} of {all} steps are done.", self.route)
        };
        [how_far, format!("{reason}.")]
    }
}

/// A step of a plan that was applied and waits for its proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenStep {
    /// What.
    pub text: String,
    /// How far.
    pub state: StepState,
}

/// An applied fix whose proof needs a reboot, or was done after one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPlan {
    /// The fix.
    pub id: FixId,
    /// One line.
    pub title: String,
    /// Its steps, in order.
    pub steps: Vec<OpenStep>,
    /// Whether its check passes: then it is closed.
    pub verified: bool,
    /// The next action, or the result.
    pub next: String,
}

impl OpenPlan {
    /// The plan as lines of text.
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
