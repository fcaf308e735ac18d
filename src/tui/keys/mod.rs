//! Keys: the actions, the tables that bind keys to them, and the current bindings.

pub(crate) mod action;
pub(crate) mod bindings;
pub(crate) mod key;
pub(crate) mod rows;
pub(crate) mod spec;
pub(crate) mod table;
