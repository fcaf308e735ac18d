//! Runs of other loaders. A command is started, its process tree is watched, a time limit applies, and all its
//! descendants are ended.

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
pub use loaders::{Loader, Python, all as loaders, python};
pub use supervisor::{keep, supervise};
