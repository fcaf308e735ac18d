//! The answers at the beginning of a report.

use crate::present::Answer;
use crate::present::headline;
use crate::session::State;

/// The answers of a session. If nothing was done, there is one answer that reports this.
pub(in crate::report) fn answers(state: &State) -> Vec<Answer> {
    let answers = headline::answers(state);
    if answers.is_empty() { vec![headline::nothing_done(state)] } else { answers }
}
