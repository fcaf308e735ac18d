//! Checks of GPU and driver.

mod absent;
pub(crate) mod device;
pub(crate) mod driver;
pub(crate) mod driver_log;
pub(crate) mod fabric;
mod faults;
pub(crate) mod flavours;
pub(crate) mod guest_driver;
pub(crate) mod libraries;
mod newer_driver;
mod other_kernel;
pub(crate) mod present;
pub(crate) mod providers;
pub(crate) mod reserved;
pub(crate) mod state;
pub(crate) mod static_bar1;
mod weak_links;
