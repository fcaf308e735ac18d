//! The page of each check, from the table of checks.

use crate::core::{CheckId, FixId};

/// The page of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The id of the check.
    pub(super) id: &'static str,
    /// The subject of the check.
    pub(super) subject: &'static str,
    /// Why it is relevant.
    pub(super) why: &'static str,
    /// A command that shows the same fact.
    pub(super) look: &'static str,
    /// The fix. `None` if there is none.
    pub(super) fix: Option<FixId>,
    /// The advice if there is no fix, or in addition to the fix.
    pub(super) todo: &'static str,
}

/// The page of a check.
pub(super) const fn of(check: CheckId) -> Page {
    let spec = check.spec();
    Page {
        id: check.as_str(),
        subject: spec.examines,
        why: spec.why,
        look: spec.look,
        fix: match spec.fixes.first() {
            Some(fix) if spec.fixes.len() == 1 && fits_everywhere(*fix) => Some(*fix),
            _ => None,
        },
        todo: spec.todo,
    }
}

/// Whether a fix is right on every machine on which its check fails. Packages and kernels depend on the distribution, the
/// cloud and the container, so only a finding names their fixes.
const fn fits_everywhere(fix: FixId) -> bool {
    matches!(
        fix,
        FixId::CufileP2pdmaKeys | FixId::CufileConfig | FixId::CufileLog | FixId::UdevRecord | FixId::MoveModel
    )
}

/// The pages of all checks.
pub(super) fn pages() -> impl Iterator<Item = Page> {
    CheckId::ALL.iter().map(|check| of(*check))
}
