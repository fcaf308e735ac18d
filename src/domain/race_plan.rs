//! What can be run on the Race screen, as it is offered there.

use serde::{Deserialize, Serialize};

/// A plan that can be run in the session under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RacePlan {
    /// Its name, by which it is asked for: `kv lmcache`.
    pub name: String,
    /// What is run, with the model or folder in question: `load Qwen3-0.6B`.
    pub title: String,
    /// The question that it answers, in one sentence.
    pub answers: String,
    /// What it writes, where, how much, and what becomes of it.
    pub writes: String,
    /// Why it cannot be run here; a sentence.
    pub obstacle: Option<String>,
}
