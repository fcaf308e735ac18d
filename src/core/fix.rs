//! Fixes: their changes, the rights that they need, and how they are undone.

use super::finding::Finding;
use super::fix_id::FixId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;

/// The rights that a fix needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    /// The user as they are.
    User,
    /// Root.
    Root,
    /// Root, and a reboot to take effect.
    Reboot,
}

/// How much can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FixRisk {
    /// Nothing that undo does not restore.
    Low,
    /// Other programs may notice.
    Medium,
    /// The machine may need manual repair.
    #[serde(alias = "shown-only")]
    High,
}

/// Whether gds-top or the user applies a fix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FixPolicy {
    /// gds-top, after consent.
    #[default]
    Ask,
    /// The user; gds-top only shows how.
    Show,
    /// The user, if at all: the possible loss is too large for an automatic step.
    Never,
}

/// One change that a fix makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Change {
    /// A file gets new content.
    WriteFile {
        /// Which file.
        path: PathBuf,
        /// The present content; `None` if it does not exist.
        before: Option<String>,
        /// The new content.
        after: String,
        /// Permission bits of the new file.
        mode: u32,
    },
    /// A command is run.
    Run {
        /// Program and arguments.
        argv: Vec<String>,
    },
}

/// A fix, previewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixPlan {
    /// Its id.
    pub id: FixId,
    /// The check that it is for.
    pub check: String,
    /// One line.
    pub title: String,
    /// The reason why it works, with the source of the fact.
    pub why: String,
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// The rights that it needs.
    pub needs: Needs,
    /// Its risk.
    pub risk: FixRisk,
    /// Whether gds-top or the user applies it.
    #[serde(default)]
    pub policy: FixPolicy,
    /// The way to verify it.
    pub verify: String,
    /// The way to undo it.
    pub undo: String,
    /// Commands that follow when it is undone, after the files are restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undo_commands: Vec<Vec<String>>,
    /// The remaining step for a person after gds-top has done its part: `sudo reboot`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaining: Vec<String>,
    /// The reason why it cannot be applied here, if any.
    pub obstacle: Option<String>,
}

impl FixPlan {
    /// A digest of all that the plan does. The user consents to a plan by its digest, so that no other plan is applied.
    #[must_use]
    pub fn digest(&self) -> String {
        // The text for debugging, because it has every field and no value makes it fail.
        let text = format!("{:?}", (self.id, &self.changes, &self.undo_commands, self.needs));
        Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether gds-top carries it out after consent.
    #[must_use]
    pub fn applies(&self) -> bool {
        self.policy == FixPolicy::Ask
    }

    /// The rights that it needs, in a word or two.
    #[must_use]
    pub const fn who(&self) -> &'static str {
        match self.needs {
            Needs::User => "you",
            Needs::Root => "root",
            Needs::Reboot => "root, then a reboot",
        }
    }

    /// Its execution.
    #[must_use]
    pub fn how(&self) -> String {
        match self.policy {
            FixPolicy::Ask if self.obstacle.is_some() => "not as it is".to_owned(),
            FixPolicy::Ask => format!("gds-top fix {} applies it", self.id),
            FixPolicy::Show => "by hand".to_owned(),
            FixPolicy::Never => "by hand, with care".to_owned(),
        }
    }
}

/// A fix that is applied according to the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedFix {
    /// The applied plan: its changes with the previous content, how it is verified and undone.
    pub plan: FixPlan,
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// Whether a change of it still exists: changes in memory are lost at a boot, and the fix can then be applied
    /// again.
    pub stands: bool,
}

/// The stage of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixStage {
    /// Shown to the user.
    Previewed,
    /// Being applied.
    Applying,
    /// Written; the check runs again.
    Verifying,
    /// In place; its proof waits for a reboot, or for the machine that a directory represents.
    Waiting,
    /// The check passes now.
    #[serde(alias = "mended")]
    Fixed,
    /// Applied, but the check still fails.
    StillWrong,
    /// Undone.
    Undone,
    /// Could not be applied or undone.
    Failed,
}

/// News of a fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixProgress {
    /// Which fix.
    pub id: FixId,
    /// Its stage.
    pub stage: FixStage,
    /// A line of output, or a sentence.
    pub text: String,
    /// The finding after the re-check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
}
