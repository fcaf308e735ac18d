//! The findings of the checks, and the verdict that is derived from them.

use super::check::{self, CheckId, Group};
use super::fix_id::{self, FixId};
use super::route::Route;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The setting is as required.
    Pass,
    /// A fact without a rating.
    Info,
    /// It works, but not as fast as possible.
    Warn,
    /// It blocks a route or an operation.
    Fail,
    /// It could not be checked or does not apply. The summary has the reason.
    Na,
}

impl Status {
    /// The word next to the mark.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Na => "n/a",
        }
    }

    /// Its severity. The worst status has the highest number.
    #[must_use]
    pub const fn weight(self) -> u8 {
        match self {
            Self::Na => 0,
            Self::Pass => 1,
            Self::Info => 2,
            Self::Warn => 3,
            Self::Fail => 4,
        }
    }

    /// The mark in front of a finding.
    #[must_use]
    pub const fn mark(self) -> char {
        match self {
            Self::Pass => '✔',
            Self::Info => '●',
            Self::Warn => '▲',
            Self::Fail => '✖',
            Self::Na => '–',
        }
    }
}

/// The source of a finding and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// A path, a command line, or an interface such as `NVML`.
    pub source: String,
    /// The content, or a note that it is missing.
    pub text: String,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The check. In JSON, it is a stable string: `udev-database`.
    pub id: CheckId,
    /// Its group.
    pub group: Group,
    /// Its result.
    pub status: Status,
    /// The summary, one sentence.
    pub summary: String,
    /// The observation of the check.
    pub evidence: Vec<Evidence>,
    /// The reason why it is relevant, in one or two sentences.
    pub why: String,
    /// The routes that this finding blocks, if it fails or warns.
    pub blocks: Vec<Route>,
    /// The fix that resolves it. `None` if there is no fix.
    #[serde(default, deserialize_with = "fix_id::known")]
    pub fix: Option<FixId>,
    /// The advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The command line of the fix, with the path that was examined. Without a fix, the command of the advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The check whose finding causes this one.
    #[serde(default, deserialize_with = "check::known_cause", skip_serializing_if = "Option::is_none")]
    pub cause: Option<CheckId>,
    /// Whether no fix can change it. The reason is the hardware, the kind of system, or the file system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub permanent: bool,
    /// Facts that the plan of its fix needs. They are not recorded, because fixes are planned from new findings.
    #[serde(skip)]
    pub facts: Vec<FindingFact>,
}

impl Finding {
    /// Whether one action resolves both findings: the same fix, or the same command with the same instructions before it.
    #[must_use]
    pub fn has_action_of(&self, other: &Self) -> bool {
        let instructions = |finding: &Self| finding.advice.as_deref()?.split('`').next().map(str::to_owned);
        match (self.fix, other.fix) {
            (Some(fix), Some(another)) => fix == another,
            (None, None) => {
                self.command.is_some() && self.command == other.command && instructions(self) == instructions(other)
            }
            _ => false,
        }
    }

    /// Whether it is not applicable because of its cause. Texts show only the cause.
    #[must_use]
    pub fn is_implied(&self) -> bool {
        self.status == Status::Na && self.cause.is_some()
    }

    /// Whether it is only relevant on a machine with a GPU: it is about cuFile, or it blocks routes of cuFile.
    #[must_use]
    pub fn is_only_for_gpus(&self) -> bool {
        let is_of_cufile = matches!(self.group, Group::NvidiaFs | Group::Cufile) || self.id == CheckId::CtrProcSys;
        let is_cause = self.group == Group::Gpu || self.id == CheckId::FsResolve;
        !is_cause && (is_of_cufile || !self.blocks.is_empty())
    }

    /// Whether its advice is to build nvidia-fs by hand. The one of the package is not used then.
    #[must_use]
    pub fn needs_hand_built_nvidia_fs(&self) -> bool {
        self.facts.contains(&FindingFact::HandBuiltNvidiaFs)
    }
}

/// A fact of a finding that the plan of a fix needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingFact {
    /// The path of a directory that must exist.
    MissingFolder(String),
    /// The path of a configuration file with an error.
    BrokenFile(String),
    /// The path of a configuration file that this user cannot read.
    UnreadableFile(String),
    /// The PCI address of a bridge with ACS redirection: `0000:40:01.0`.
    Bridge(String),
    /// The module files of the NVIDIA driver are compressed with zstd.
    ZstdModules,
    /// The installed DOCA is too old: its NVMe driver has the wrong hook for nvidia-fs.
    OutdatedDoca,
    /// nvidia-fs was built with the source of a different driver version than the loaded one.
    OtherDriverSource,
    /// Only an nvidia-fs that is built by hand loads, and it replaces that of the package.
    HandBuiltNvidiaFs,
    /// The installed driver is older than the GPU, which drivers of later branches support.
    DriverOlderThanGpu,
}

/// The basis of a verdict that is not proven by a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The results of the checks.
    #[default]
    Checks,
    /// The route table of libcufile lists the route.
    LibraryLists,
    /// The route table of libcufile does not list `possible`.
    LibraryDenies,
    /// There is no GPU.
    NoGpu,
}

/// The route of cuFile reads of one path for one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The path that is read.
    #[serde(serialize_with = "super::lossy::path")]
    pub path: PathBuf,
    /// The UUID of the GPU. `None` on a machine without a GPU.
    pub gpu: Option<String>,
    /// The index and the model of the GPU: `0 (H200)`. `None` in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_name: Option<String>,
    /// The route that a read uses now.
    pub route: Route,
    /// The best route that this machine can use after fixes.
    pub possible: Route,
    /// Whether a read or a counter proved `route`. Otherwise `route` is derived from the checks.
    pub proven: bool,
    /// The basis of `route` if it is not proven.
    #[serde(default)]
    pub basis: Basis,
    /// The proof, or the reason why there is none.
    pub proof: String,
    /// The checks that block a better route.
    #[serde(deserialize_with = "check::known")]
    pub blockers: Vec<CheckId>,
    /// The checks to fix before `possible` works, in order. The other blockers only explain why the
    /// configured route is not used.
    #[serde(default, deserialize_with = "check::known")]
    pub steps: Vec<CheckId>,
    /// Why `possible` may not work although no check blocks it. `None` if it is supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// The next action.
    pub advice: String,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn path_that_is_not_utf8_is_serialised_lossily() {
        use std::os::unix::ffi::OsStringExt;
        let verdict = Verdict {
            path: std::ffi::OsString::from_vec(b"/data/\xff".to_vec()).into(),
            gpu: None,
            gpu_name: None,
            route: Route::None,
            possible: Route::None,
            proven: false,
            basis: Basis::Checks,
            proof: String::new(),
            blockers: Vec::new(),
            steps: Vec::new(),
            caveat: None,
            advice: String::new(),
        };
        assert_eq!(serde_json::to_value(&verdict).unwrap()["path"], "/data/\u{fffd}");
    }
}
