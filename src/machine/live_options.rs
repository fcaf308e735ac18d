//! Options for a view of the live machine: limits and probes.

use std::time::Duration;

/// Options for a view of the live machine.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The command that opens libcufile in a child process and prints its facts as JSON. `None`: libcufile is not
    /// probed.
    pub cufile_probe: Option<Vec<String>>,
    /// The facts of a libcufile that is known to be used. Then none is searched for.
    pub known_cufile: Option<super::LibcufileFacts>,
    /// Finds the facts of libcufile without loading it, for a view that does not open it; the child is asked only if this
    /// finds none.
    pub locate_cufile: Option<fn() -> Option<super::LibcufileFacts>>,
    /// Whether that child process opens the cuFile driver, which initialises CUDA.
    pub open_cufile: bool,
    /// Time limit of that child process.
    pub probe_limit: Duration,
    /// Time limit of each command of the permitted list.
    pub command_limit: Duration,
    /// Time limit of all NVML calls together.
    pub nvml_limit: Duration,
    /// Time limit for the facts of one path. Access to an unreachable network mount hangs.
    pub path_limit: Duration,
    /// Whether everything that is read is kept for a capture.
    pub record: bool,
}

impl Default for LiveOptions {
    fn default() -> Self {
        let own = std::env::current_exe().ok().and_then(|exe| exe.to_str().map(str::to_owned));
        Self {
            cufile_probe: own.map(|exe| vec![exe, "__probe-cufile".to_owned()]),
            known_cufile: None,
            locate_cufile: None,
            open_cufile: true,
            probe_limit: Duration::from_secs(10),
            command_limit: Duration::from_secs(5),
            nvml_limit: Duration::from_secs(8),
            path_limit: Duration::from_secs(5),
            record: false,
        }
    }
}
