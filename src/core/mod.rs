//! Shared data types: units, ids, phases, events, samples, findings and plans. The module has no I/O.

mod access;
mod attached;
pub mod ceiling;
pub mod check;
mod counted;
pub mod engine;
mod engine_name;
pub mod engine_spec;
pub mod event;
mod failure;
pub mod finding;
pub mod fix;
mod fix_id;
pub mod grid;
#[cfg(test)]
pub(crate) mod grid_testdata;
pub mod guide;
mod histogram;
mod inks;
mod left_out;
mod library_name;
pub mod lossy;
pub mod machine;
pub mod median;
pub mod model;
pub mod nearest;
mod nixl_plugin;
mod note;
mod nvfs_stats;
mod os_error;
mod packed;
pub mod phase;
pub mod race_plan;
pub mod route;
mod route_statistics;
pub mod run;
pub mod sample;
pub mod serving;
pub mod settings;
pub mod share;
pub mod span;
mod span_columns;
pub mod spec;
pub mod system;
pub mod units;
pub mod watch;
pub mod watched_call;
mod watched_file;
pub mod workload;
mod workload_lane;

pub use access::Access;
pub use attached::{AttachedFile, AttachedLog, AttachedProcess, MORE_FILES, UNKNOWN_FILE};
pub use ceiling::{Ceiling, CeilingKind, ReadPass, ReaderSetting};
pub use check::{CheckId, CheckSpec, Group, UnknownCheck};
pub use counted::{Counted, Made};
pub use engine::{CacheState, Engine, LOADERS, Target, TargetName};
pub use engine_name::EngineError;
pub use engine_spec::Need;
pub use event::{Event, EventBody, LaneStage, LogLevel};
pub use failure::Failure;
pub use finding::{Basis, Evidence, Finding, FindingFact, Status, Verdict};
pub use fix::{AppliedFix, Change, FixPlan, FixPolicy, FixProgress, FixRisk, FixStage, Needs};
pub use fix_id::{FixId, UnknownFix};
pub use grid::{CellKey, CellResult, Grid, GridPlan, Pattern, Transfer, heat_colour};
pub use guide::{Guide, GuideStep, OpenPlan, OpenStep, StepState};
pub use histogram::Histogram;
pub use inks::LaneInks;
pub use left_out::LeftOutVariable;
pub use library_name::is_libcufile;
pub use machine::{CufileSetting, Disk, Gpu, LibcufileSeen, Machine, NumaNode, NvidiaFsSeen, Storage};
pub use model::{ModelInfo, ShardInfo, Synthetic, TensorInfo};
pub use nixl_plugin::NixlPlugin;
pub use note::{NotCold, Note, Unused};
pub use nvfs_stats::{NVFS_STATS, nvfs_reads};
pub use os_error::os_error;
pub use packed::PackedSpans;
pub use phase::{PHASES, Phase, PhaseTimes};
pub use race_plan::RacePlan;
pub use route::{Route, RouteProof};
pub use route_statistics::RouteStatistics;
pub use run::{AutoChoice, AutoReason, LaneId, LaneOrder, Outside, RouteCounts, RunResult, cached_before};
pub use sample::{Metric, Sample};
pub use serving::{IgnoredOption, KvStore, Serving, ServingConfig, StoreKind, WithoutCufile, WrongValue};
pub use settings::{EngineSettings, SettingError, SettingName, SettingOrder};
pub use share::{LaneShare, Part, together};
pub use span::Span;
pub use span_columns::SpanColumns;
pub use spec::Setting;
pub use system::{DiskUse, GpuUse, HiddenProcess, OpenFile, ProcessUse, SeenRoute, SystemSample};
pub use watch::{
    BufferUse, CallPace, CallTotal, DriverProperties, LatencyClass, NotLoaded, OpenCall, ProcessIo, ProgramEnd,
    SizeClass, UnseenTransfers, WITHOUT_SPACE, WatchReport, WatchedConfiguration, WatchedFailure, WatchedLibrary,
};
pub use watched_call::{BATCH_ENTRY, Caller, Method, STREAM_TRANSFER, WatchedCall};
pub use watched_file::{KvName, PlainReads, TensorsUnknown, Transfers, WatchedFile, WatchedTensor};
pub use workload::{
    ConcurrentWrites, Fallback, FallbackAction, FallbackReason, HandleCacheCounts, LayerTimes, OnStreams, Percentiles,
    Recompute, Unchecked, WorkloadOrder, WorkloadResult,
};
pub use workload_lane::{KvPath, KvSystem, WorkloadLane, WorkloadLaneError};
