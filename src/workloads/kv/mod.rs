//! KV-cache workloads: blocks and chunks are written from the target's memory to storage and read back, with the
//! methods of published systems. Runs, clocks and reports are the same as for loads of models.
//!
//! A run is one variant (`gds`, `gds-registered`, `disk` or `staging`, `ram`) in one direction. The stored bytes are
//! computed from a seed, so that every byte can be checked without a copy.

mod cache;
mod chunk;
mod compare;
mod concurrent;
mod content;
mod effect;
mod error;
mod flights;
mod folder;
mod handles;
mod job;
mod keys;
mod lane;
mod launch;
mod layout;
mod mapper;
mod mode;
mod nixl_pool;
mod opening;
mod order;
mod outcome;
mod params;
mod pipeline;
mod plain;
mod plan;
mod prepare;
mod recognise;
mod request;
mod shape;
mod shared;
mod sources;
mod store;
mod suggest;
mod transfer;
mod turns;
mod verify;
mod window;
mod work;

pub use chunk::{DATA_SUFFIX, HEADER_BYTES, Header, METADATA_SUFFIX, examine};
pub use error::PlanError;
pub use folder::{Folder, FolderError};
pub use handles::HandleCache;
pub use keys::{Chain, Key, token};
pub use lane::run_lane;
pub use mode::GdsMode;
pub use order::KvOrder;
pub use params::{KvSetting, Parameter, elsewhere, parameters};
pub use pipeline::{Operation, hidden_fraction, layer_times, union_ns};
pub use plan::{Demand, Plan, plan};
pub use recognise::recognise;
pub use request::Request;
pub use shape::Shape;
pub use suggest::{Suggested, suggested};
