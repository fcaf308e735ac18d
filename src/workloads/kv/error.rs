//! The errors of planning a KV-cache workload.

/// The reason why a workload cannot be planned.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub String);
