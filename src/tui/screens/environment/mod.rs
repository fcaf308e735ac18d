//! Screen 1: the checks, and the sheets of fixes.

pub(crate) mod answer;
pub(crate) mod checks;
pub(crate) mod fix;
pub(crate) mod guide;
pub(crate) mod view;
