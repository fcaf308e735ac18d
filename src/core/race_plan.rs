//! The plans that the Race screen offers.

use serde::{Deserialize, Serialize};

/// A plan that can run in this session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RacePlan {
    /// Its name: `kv lmcache`.
    pub name: String,
    /// The title, with the model or directory: `load Qwen3-0.6B`.
    pub title: String,
    /// The question that it answers, in one sentence.
    pub answers: String,
    /// The files that it writes: where, how much, and when they are removed.
    pub writes: String,
    /// The reason why it cannot run here, in a sentence.
    pub obstacle: Option<String>,
}
