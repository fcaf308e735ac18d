//! Why a run counts as failed.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a run counts as failed. A run that the user stopped is not a failed run.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Failure {
    /// The engine reported an error. The text is a sentence.
    #[error("{0}")]
    Error(String),
    /// The bytes on the target are not those of the file.
    #[error("the bytes on the target differ from the file{}", after_colon(.0.as_deref()))]
    WrongBytes(Option<String>),
    /// The process ended without a result. The text names the exit status or signal in a sentence.
    #[error("{0}")]
    Died(String),
}

/// The first difference after a colon. The text is empty if it is unknown.
fn after_colon(difference: Option<&str>) -> String {
    difference.map_or_else(String::new, |difference| format!(": {difference}"))
}
