//! Lanes of other loaders: a command that is started, watched by its tree of processes, cut off at a limit, and ended
//! with all its descendants.

mod evidence;
mod lane;
mod lines;
mod loaders;
mod outcome;
mod prepare;
mod supervisor;
#[cfg(test)]
mod tests;
mod watch;

pub(super) use lane::run;
#[doc(hidden)]
pub use lines::read_protocol;
pub use loaders::{Loader, all as loaders, python};
pub use supervisor::supervise;
