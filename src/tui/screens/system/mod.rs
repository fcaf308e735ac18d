//! Screen 4: processes, disks and GPUs of this machine.

pub(crate) mod charts;
pub(crate) mod past;
pub(crate) mod process;
pub(crate) mod time;
pub(crate) mod view;
