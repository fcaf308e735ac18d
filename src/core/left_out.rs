//! Variables of the caller that a session did not use.

use serde::{Deserialize, Serialize};

/// A variable of the caller that root did not use, or only in part, because another user could have written a file that
/// it names. Programs that the session starts did not get the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftOutVariable {
    /// Its name.
    pub name: String,
    /// Whether a part of its value was used.
    pub in_part: bool,
    /// The reason, as a part of a sentence.
    pub reason: String,
}
