//! Screen 5: the lesson.

pub(crate) mod lesson;
pub(crate) mod page;
pub(crate) mod steps;
pub(crate) mod view;
