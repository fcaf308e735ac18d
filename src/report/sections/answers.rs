//! The answers, which a report begins with.

use crate::present::Answer;
use crate::present::headline;
use crate::session::State;

/// The answers of a session; one if nothing was done.
pub(in crate::report) fn answers(state: &State) -> Vec<Answer> {
    let answers = headline::answers(state);
    if answers.is_empty() { vec![headline::nothing_done()] } else { answers }
}
