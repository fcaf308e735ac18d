//! The container in which the programs of a machine run.

/// The container in which this process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Container runtime: `docker`, `podman`, `kubernetes`, `enroot` and others, or `container` if only that is
    /// known.
    pub runtime: String,
    /// The file or variable that shows the container.
    pub source: String,
    /// The text of the source.
    pub text: String,
}
