//! Combines the JSON reports of many nodes: which nodes cannot use GDS and why, and which differ from their peers. It
//! runs nothing on the nodes.

mod budget;
mod compare;
mod cut;
mod error;
mod hostlist;
mod input;
mod node;
mod output;
mod read;
mod stream;

pub use compare::{BandwidthGroup, Cause, Oddity};
pub use error::FleetError;
pub use hostlist::hostlist;
pub use input::Unread;
pub use node::{Facts, Node, Workload};
pub use output::{csv, html, json, text};
pub use read::Fleet;
