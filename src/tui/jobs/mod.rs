//! Jobs that take longer than a frame, such as analysing spans and recordings, with their queue and their thread.

pub(crate) mod lane;
pub(crate) mod names;
pub(crate) mod queue;
pub(crate) mod tensor_rows;
pub(crate) mod thread;
