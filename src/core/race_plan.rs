//! The plans that the Race screen offers.

use serde::{Deserialize, Serialize};

/// A plan that can run in this session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RacePlan {
    /// Its name: `bench-kv lmcache`.
    pub name: String,
    /// The title, with the model or directory: `load Qwen3-0.6B`.
    pub title: String,
    /// The question that the plan answers, in one sentence.
    pub answers: String,
    /// The files that it writes: the directory, the size, and when they are removed. `None` if it writes nothing.
    pub writes: Option<String>,
    /// The reason why it cannot run on this machine, in a sentence. `None` if it can.
    pub obstacle: Option<String>,
}

impl RacePlan {
    /// The name of the plan that loads the session's model with the settings of the session.
    pub const LOAD: &'static str = "load";
}
