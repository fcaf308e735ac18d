//! The limits and probes of a view of the live machine.

use std::time::Duration;

/// The probes of a live view.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The command that opens libcufile in a child and prints its facts as JSON; `None` leaves libcufile unprobed.
    pub cufile_probe: Option<Vec<String>>,
    /// Whether that child opens the driver of cuFile, which initialises CUDA.
    pub open_cufile: bool,
    /// Time limit of that child.
    pub probe_limit: Duration,
    /// Time limit of each allow-listed command.
    pub command_limit: Duration,
    /// Time limit of NVML.
    pub nvml_limit: Duration,
    /// Time limit of looking at one path; a dead network mount hangs.
    pub path_limit: Duration,
    /// Whether all that is read is kept for a capture.
    pub record: bool,
}

impl Default for LiveOptions {
    fn default() -> Self {
        let own = std::env::current_exe().ok().and_then(|exe| exe.to_str().map(str::to_owned));
        Self {
            cufile_probe: own.map(|exe| vec![exe, "__probe-cufile".to_owned()]),
            open_cufile: true,
            probe_limit: Duration::from_secs(10),
            command_limit: Duration::from_secs(5),
            nvml_limit: Duration::from_secs(8),
            path_limit: Duration::from_secs(5),
            record: false,
        }
    }
}
