//! What takes longer than a frame has: jobs on spans and recordings, their queue and their thread.

pub(crate) mod lane;
pub(crate) mod lesson;
pub(crate) mod names;
pub(crate) mod queue;
pub(crate) mod tensor_rows;
pub(crate) mod thread;
