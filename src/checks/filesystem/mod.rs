//! Checks of file system, mount and file.

pub(crate) mod clients;
pub(crate) mod file;
mod flags;
pub(crate) mod gone;
pub(crate) mod kind;
pub(crate) mod layers;
pub(crate) mod mount;
pub(crate) mod network;
mod unmounted;
