//! Fixes: their changes, the rights that they need, and how to undo them.

use super::check::CheckId;
use super::finding::Finding;
use super::fix_id::FixId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;

/// The rights that a fix needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    /// The current user.
    User,
    /// Root.
    Root,
    /// Root. The fix takes effect after a reboot.
    Reboot,
}

impl Needs {
    /// The start of a command line with these rights: `sudo ` or nothing.
    #[must_use]
    pub const fn sudo(self) -> &'static str {
        match self {
            Self::User => "",
            Self::Root | Self::Reboot => "sudo ",
        }
    }
}

/// The risk of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FixRisk {
    /// Undo restores everything.
    Low,
    /// Other programs can be affected.
    Medium,
    /// The machine can need manual repair.
    #[serde(alias = "shown-only")]
    High,
}

/// Whether gds-top or the user applies a fix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FixPolicy {
    /// gds-top, after the user consents.
    #[default]
    Ask,
    /// The user. gds-top only shows the steps.
    Show,
    /// Only the user, because a mistake can lose too much for an automatic step.
    Never,
}

/// One change that a fix makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Change {
    /// Writes a file.
    WriteFile {
        /// The path of the file.
        path: PathBuf,
        /// The current content. `None` if the file does not exist.
        before: Option<String>,
        /// The new content.
        after: String,
        /// The permission bits of the new file.
        mode: u32,
    },
    /// Runs a command.
    Run {
        /// The program and its arguments.
        argv: Vec<String>,
    },
}

impl Change {
    /// The program that it runs, without `sudo`. It is empty for a file.
    fn program(&self) -> &str {
        match self {
            Self::WriteFile { .. } => "",
            Self::Run { argv } => argv.iter().map(String::as_str).find(|word| *word != "sudo").unwrap_or_default(),
        }
    }

    /// Whether it runs or installs a file that the user downloads.
    fn is_of_download(&self) -> bool {
        self.program() == "rpm" || self.program().starts_with("./")
    }
}

/// The plan of a fix, as shown in its preview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixPlan {
    /// Its id.
    pub id: FixId,
    /// The check that it is for.
    pub check: CheckId,
    /// The title, one line.
    pub title: String,
    /// The reason why it works, with the source of the fact.
    pub why: String,
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// The rights that it needs.
    pub needs: Needs,
    /// The risk.
    pub risk: FixRisk,
    /// Whether gds-top or the user applies it.
    #[serde(default)]
    pub policy: FixPolicy,
    /// The way to verify it.
    pub verify: String,
    /// The way to undo it.
    pub undo: String,
    /// The commands that undo runs after it restored the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undo_commands: Vec<Vec<String>>,
    /// The command that the user must run after gds-top applied the fix: `sudo reboot`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaining: Vec<String>,
    /// The reason why it cannot be applied on this machine. `None` if it can.
    pub obstacle: Option<String>,
}

impl FixPlan {
    /// A digest of all changes of the plan. The user consents to this digest, so that only the previewed plan is
    /// applied.
    #[must_use]
    pub fn digest(&self) -> String {
        // The `Debug` text includes every field and cannot fail.
        let text = format!("{:?}", (self.id, &self.changes, &self.undo_commands, self.needs));
        Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether gds-top can make every change of it after consent.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        // These need an editor or a shell variable.
        let is_for_a_person =
            |change: &Change| change.is_of_download() || matches!(change.program(), "sudoedit" | "vi" | "export");
        self.policy != FixPolicy::Never && !self.id.is_by_hand() && !self.changes.iter().any(is_for_a_person)
    }

    /// Whether the user must download a file before its commands. Its reason names the address.
    #[must_use]
    pub fn needs_download(&self) -> bool {
        self.changes.iter().any(Change::is_of_download)
    }

    /// Whether gds-top applies it after the user consents.
    #[must_use]
    pub fn applies(&self) -> bool {
        self.policy == FixPolicy::Ask
    }

    /// The required rights, in a few words.
    #[must_use]
    pub const fn who(&self) -> &'static str {
        match self.needs {
            Needs::User => "you",
            Needs::Root => "root",
            Needs::Reboot => "root, then a reboot",
        }
    }

    /// How it is applied, in a few words.
    #[must_use]
    pub fn how(&self) -> String {
        match self.policy {
            FixPolicy::Ask if self.obstacle.is_some() => "not as it is".to_owned(),
            FixPolicy::Ask => format!("gds-top fix {} applies it", self.id),
            FixPolicy::Show => "by hand".to_owned(),
            FixPolicy::Never if matches!(self.risk, FixRisk::Low) => "by hand".to_owned(),
            FixPolicy::Never => "by hand, with care".to_owned(),
        }
    }
}

/// A fix that the journal lists as applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedFix {
    /// The applied plan. Its changes contain the previous content of each file.
    pub plan: FixPlan,
    /// The time in seconds since 1970.
    pub at_unix_s: u64,
    /// Whether at least one of its changes is still in effect. Changes in memory are lost at a reboot, and the fix
    /// can then be applied again.
    #[serde(alias = "stands")]
    pub in_effect: bool,
}

/// The stage of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixStage {
    /// The plan is shown to the user.
    Previewed,
    /// The plan is being applied.
    Applying,
    /// The changes are written, and the check runs again.
    Verifying,
    /// The changes are written. The check can verify them only after a reboot, or on the machine that a capture
    /// describes.
    Waiting,
    /// The check passes.
    #[serde(alias = "mended")]
    Fixed,
    /// The fix was applied, but the check still fails.
    StillWrong,
    /// The fix was undone.
    Undone,
    /// The fix could not be applied or undone.
    Failed,
}

/// The progress of a fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixProgress {
    /// The fix.
    pub id: FixId,
    /// Its stage.
    pub stage: FixStage,
    /// A line of output, or a sentence.
    pub text: String,
    /// The finding after the re-check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
}
