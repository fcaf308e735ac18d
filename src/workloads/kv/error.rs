//! Why a KV-cache workload cannot be planned.

/// Why nothing can be planned.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub String);
