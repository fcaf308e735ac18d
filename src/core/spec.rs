//! The specification of the engines' settings: names, units, bounds, defaults and help. All other code uses this table
//! and never a setting as a string. The table is in `core` because orders and results use it.

use super::engine::Engine;
use super::engine_spec::{NIXL_GDS, NIXL_GDS_MT, NIXL_POSIX};
use super::units::{self, GIB, KIB, MIB};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The meaning of a setting's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// A size in bytes.
    Bytes,
    /// A size in KiB.
    Kib,
    /// 1 for on, 0 for off.
    Switch,
    /// Flags of a library call as a number.
    Flags,
}

impl Unit {
    /// The unit as documents name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Kib => "KiB",
            Self::Switch => "0 or 1",
            Self::Flags => "flags",
        }
    }
}

/// The values that a sweep tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// The listed values.
    Listed(&'static [u64]),
    /// The listed values that do not exceed the number of CPUs.
    UpToCpus(&'static [u64]),
    /// All values from the first to the second, each twice the previous one.
    Doubles(u64, u64),
}

impl Values {
    /// The values on a machine with this number of CPUs.
    #[must_use]
    pub fn list(self, cpus: u64) -> Vec<u64> {
        match self {
            Self::Listed(values) => values.to_vec(),
            Self::UpToCpus(values) => values.iter().copied().filter(|value| *value <= cpus.max(1)).collect(),
            Self::Doubles(first, last) => {
                std::iter::successors(Some(first), |value| value.checked_mul(2).filter(|next| *next <= last)).collect()
            }
        }
    }
}

/// An engine that accepts a setting.
#[derive(Debug)]
pub struct Use {
    /// The engine.
    pub engine: Engine,
    /// Its upper bound, if it is lower than that of the setting.
    pub most: Option<u64>,
    /// The order in the engine's sweep, from 1, and the values to test. `None` if the sweep skips it.
    pub sweep: Option<(u8, Values)>,
}

/// The specification of one setting.
#[derive(Debug)]
pub struct SettingSpec {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// The meaning of the number.
    pub unit: Unit,
    /// The smallest and the largest value.
    pub bounds: (u64, u64),
    /// The step: values are multiples of it.
    pub step: u64,
    /// The default in words. Most defaults depend on the machine and the model.
    pub default: &'static str,
    /// The engines that accept it.
    pub uses: &'static [Use],
    /// The help text.
    pub help: &'static str,
}

/// An engine that accepts the setting.
const fn by(engine: Engine) -> Use {
    Use { engine, most: None, sweep: None }
}

/// An engine that accepts the setting and changes it in its sweep.
const fn swept(engine: Engine, place: u8, values: Values) -> Use {
    Use { engine, most: None, sweep: Some((place, values)) }
}

/// Like [`swept`], with a lower upper bound.
const fn swept_up_to(engine: Engine, most: u64, place: u8, values: Values) -> Use {
    Use { engine, most: Some(most), sweep: Some((place, values)) }
}

const SWITCH: (u64, u64) = (0, 1);
const ON_AND_OFF: Values = Values::Listed(&[0, 1]);
const THREADS: Values = Values::UpToCpus(&[1, 2, 4, 8, 12, 16, 24, 32]);
/// In compat mode, each registration pins this size.
const DIRECT_IO: Values = Values::Listed(&[1024, 4096, 16384]);

/// Generates the enum and the table from one list.
macro_rules! settings {
    ($(#[doc = $help:literal] $setting:ident {
        $name:literal, $unit:ident, $bounds:expr, step $step:expr, default $default:literal, [$($uses:expr),* $(,)?]
    })*) => {
        /// A setting of an engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Setting {
            $(#[doc = $help] $setting,)*
        }

        impl Setting {
            /// All settings, in the order in which documents list them.
            pub const ALL: &'static [Self] = &[$(Self::$setting),*];
        }

        static SETTINGS: &[SettingSpec] = &[$(SettingSpec {
            name: $name,
            unit: Unit::$unit,
            bounds: $bounds,
            step: $step,
            default: $default,
            uses: &[$($uses),*],
            // The text of a doc comment starts with a space.
            help: $help.trim_ascii(),
        }),*];
    };
}

settings! {
    /// threads that read
    Threads {
        "threads", Count, (1, 256), step 1, default "one per CPU, up to a limit of the engine",
        [
            swept(Engine::Pread, 1, THREADS),
            swept(Engine::Odirect, 3, Values::UpToCpus(&[1, 2, 4, 8, 12, 16])),
            swept(Engine::GdsBounce, 1, THREADS),
            swept(Engine::GdsSlab, 1, THREADS),
            swept(Engine::GdsBatch, 1, THREADS),
            swept(Engine::GdsStream, 1, THREADS),
            by(NIXL_GDS_MT),
            by(Engine::Auto),
        ]
    }
    /// staging buffers of each thread
    Slots {
        "slots", Count, (1, 64), step 1, default "2 or 3; with O_DIRECT it depends on the disk",
        [
            swept(Engine::Pread, 3, Values::Listed(&[1, 2, 3, 4, 8])),
            swept(Engine::Odirect, 4, Values::Listed(&[1, 2, 4, 8, 16])),
            by(NIXL_GDS),
            by(Engine::Auto),
        ]
    }
    /// reads in flight, of all threads together or of one batch or stream
    Depth {
        "depth", Count, (1, 4096), step 1, default "depends on the engine and the disk",
        [
            swept(Engine::Odirect, 2, Values::Listed(&[2, 4, 8, 16, 32, 64, 128])),
            // A batch can hold 256 entries.
            swept_up_to(Engine::GdsBatch, 256, 2, Values::Listed(&[4, 8, 16, 32])),
            swept_up_to(Engine::GdsStream, 64, 2, Values::Listed(&[1, 2, 4, 8])),
            by(NIXL_GDS),
            by(NIXL_POSIX),
            by(Engine::Auto),
        ]
    }
    /// bytes of one read
    BlockBytes {
        "block_bytes", Bytes, (4 * KIB, GIB), step 4 * KIB, default "depends on the engine, the model and the disk",
        [
            swept(Engine::Pread, 2, Values::Doubles(MIB / 2, 16 * MIB)),
            swept(Engine::Odirect, 1, Values::Doubles(MIB / 4, 8 * MIB)),
            swept(Engine::GdsBounce, 2, Values::Doubles(MIB, 32 * MIB)),
            swept(Engine::GdsSlab, 2, Values::Doubles(MIB, 32 * MIB)),
            // 16 MiB is the largest buffer of the library's pool, and the largest size that nvidia-fs maps at once.
            swept_up_to(Engine::GdsBatch, 16 * MIB, 3, Values::Doubles(MIB, 16 * MIB)),
            swept(Engine::GdsStream, 3, Values::Doubles(MIB, 16 * MIB)),
            by(NIXL_GDS),
            by(Engine::Auto),
        ]
    }
    /// pin all staging buffers before the first read, instead of each when it is first filled
    PinAhead { "pin_ahead", Switch, SWITCH, step 1, default "0", [by(Engine::Pread), by(Engine::Auto)] }
    /// read with io_uring instead of threads
    IoUring {
        "io_uring", Switch, SWITCH, step 1, default "1 if the kernel allows it",
        [by(Engine::Odirect), by(NIXL_POSIX), by(Engine::Auto)]
    }
    /// register the staging buffers with io_uring
    Registered {
        "registered", Switch, SWITCH, step 1, default "1 if the target is a GPU",
        [by(Engine::Odirect), by(Engine::Auto)]
    }
    /// register the target memory with cuFile
    Register {
        "register", Switch, SWITCH, step 1, default "1 on a direct route",
        [swept(Engine::GdsSlab, 4, ON_AND_OFF), by(Engine::GdsBatch), by(Engine::GdsStream), by(Engine::Auto)]
    }
    /// bytes of one registration of the target memory
    SlabBytes {
        "slab_bytes", Bytes, (4 * KIB, 1 << 50), step 4 * KIB, default "the complete model",
        [
            swept(Engine::GdsSlab, 5, Values::Listed(&[16 * MIB, 256 * MIB, GIB])),
            by(Engine::GdsBatch),
            by(Engine::GdsStream),
            by(Engine::Auto),
        ]
    }
    /// open the files with O_DIRECT
    Odirect {
        "odirect", Switch, SWITCH, step 1, default "1; in compat mode 0 if the page cache holds most of the model",
        [
            by(Engine::GdsPerTensor),
            swept(Engine::GdsBounce, 3, ON_AND_OFF),
            swept(Engine::GdsSlab, 3, ON_AND_OFF),
            by(Engine::GdsBatch),
            by(Engine::GdsStream),
            by(NIXL_GDS),
            by(NIXL_GDS_MT),
            by(NIXL_POSIX),
            by(Engine::Auto),
        ]
    }
    /// flags of cuFileStreamRegister; 16 leaves streams unregistered
    StreamFlags {
        "stream_flags", Flags, (0, 16), step 1, default "15: sizes and offsets are known at the submit",
        [by(Engine::GdsStream)]
    }
    /// register all tensors once and read them in as few transfers as the plugin supports; 0 registers and reads tensor by tensor, as in Mini-GDS
    OneTransfer {
        "one_transfer", Switch, SWITCH, step 1, default "0",
        [swept(NIXL_GDS, 2, ON_AND_OFF), swept(NIXL_GDS_MT, 2, ON_AND_OFF), by(NIXL_POSIX)]
    }
    /// pass mode=mt to the plugin GDS; up to NIXL 1.5.1 it ignores this, and the plugin GDS_MT reads with threads
    ModeMt { "mode_mt", Switch, SWITCH, step 1, default "0", [by(NIXL_GDS)] }
    /// open cuFile to look for a direct route
    Cufile { "cufile", Switch, SWITCH, step 1, default "1 if this machine may have a direct route", [by(Engine::Auto)] }
    /// keep freed memory in the C heap of the run's process
    KeepHeap {
        "keep_heap", Switch, SWITCH, step 1, default "1 for engines of gds-top that use cuFile, 0 for NIXL",
        [
            by(Engine::GdsPerTensor),
            by(Engine::GdsBounce),
            by(Engine::GdsSlab),
            by(Engine::GdsBatch),
            by(Engine::GdsStream),
            by(NIXL_GDS),
            by(NIXL_GDS_MT),
        ]
    }
    /// longest transfer that libcufile passes to the kernel at once, and in compat mode the size that a registration pins
    MaxDirectIoSizeKb {
        // These bounds are those of libcufile.
        "max_direct_io_size_kb", Kib, (64, 16384), step 64, default "from cufile.json; 1024 for gds-per-tensor in compat mode",
        [
            swept(Engine::GdsPerTensor, 1, DIRECT_IO),
            by(Engine::GdsBounce),
            by(Engine::GdsSlab),
            by(Engine::GdsBatch),
            by(Engine::GdsStream),
            swept(NIXL_GDS, 1, DIRECT_IO),
            swept(NIXL_GDS_MT, 1, DIRECT_IO),
        ]
    }
    /// loads in the same process before the measured one
    Warmup {
        "warmup", Count, (0, 1000), step 1, default "0",
        [
            by(Engine::Mmap),
            by(Engine::Pread),
            by(Engine::Odirect),
            by(Engine::GdsPerTensor),
            by(Engine::GdsBounce),
            by(Engine::GdsSlab),
            by(Engine::GdsBatch),
            by(Engine::GdsStream),
            by(NIXL_GDS),
            by(NIXL_GDS_MT),
            by(NIXL_POSIX),
            by(Engine::Auto),
        ]
    }
}

impl Setting {
    /// The specification of the setting.
    #[must_use]
    pub fn spec(self) -> &'static SettingSpec {
        &SETTINGS[self as usize]
    }

    /// The name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The setting with this name. `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|setting| setting.name() == name)
    }

    /// How an engine uses it. `None` if the engine does not accept it.
    #[must_use]
    pub fn use_of(self, engine: &Engine) -> Option<&'static Use> {
        self.spec().uses.iter().find(|one| one.engine == *engine)
    }

    /// The smallest and the largest value that an engine accepts.
    #[must_use]
    pub fn bounds(self, engine: &Engine) -> (u64, u64) {
        let (least, most) = self.spec().bounds;
        (least, self.use_of(engine).and_then(|one| one.most).map_or(most, |own| own.min(most)))
    }

    /// A value with its unit: `4 MiB`, `8`.
    #[must_use]
    pub fn text(self, value: u64) -> String {
        match self.spec().unit {
            Unit::Bytes => units::bytes(value),
            Unit::Count | Unit::Kib | Unit::Switch | Unit::Flags => value.to_string(),
        }
    }

    /// The settings that an engine of gds-top accepts. A command or loader gets all settings.
    pub fn of(engine: &Engine) -> impl Iterator<Item = Self> + '_ {
        Self::ALL.iter().copied().filter(|setting| setting.use_of(engine).is_some())
    }

    /// The settings in the sweep of an engine with their values, in order.
    #[must_use]
    pub fn swept(engine: &Engine, cpus: u64) -> Vec<(Self, Vec<u64>)> {
        let place = |setting: Self| Some((setting.use_of(engine)?.sweep?, setting));
        let mut all: Vec<((u8, Values), Self)> = Self::ALL.iter().copied().filter_map(place).collect();
        all.sort_by_key(|((place, _), _)| *place);
        all.into_iter().map(|((_, values), setting)| (setting, values.list(cpus))).collect()
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Setting {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| serde::de::Error::custom(format!("'{name}' is not a setting")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique_and_every_bound_holds_a_value() {
        for (at, setting) in Setting::ALL.iter().enumerate() {
            let spec = setting.spec();
            assert_eq!(Setting::named(spec.name), Some(*setting));
            assert_eq!(Setting::ALL.iter().position(|other| other.name() == spec.name), Some(at));
            assert!(spec.bounds.0 < spec.bounds.1 && spec.step > 0 && spec.bounds.1.is_multiple_of(spec.step));
            assert!(!spec.uses.is_empty() && !spec.help.is_empty() && !spec.default.is_empty(), "{setting}");
            for one in spec.uses {
                assert!(one.engine.spec().is_some(), "{setting}: {}", one.engine);
                let (least, most) = setting.bounds(&one.engine);
                let values = one.sweep.map_or_else(Vec::new, |(_, values)| values.list(64));
                assert!(values.iter().all(|value| (least..=most).contains(value) && value.is_multiple_of(spec.step)));
            }
        }
    }

    #[test]
    fn the_order_of_a_sweep_has_no_gap() {
        for engine in Engine::named() {
            let mut places: Vec<u8> = Setting::of(engine).filter_map(|s| Some(s.use_of(engine)?.sweep?.0)).collect();
            places.sort_unstable();
            assert!(places.iter().zip(1..).all(|(place, wanted)| *place == wanted), "{engine}: {places:?}");
        }
    }

    #[test]
    fn doubles_end_at_the_last_and_cpus_limit_threads() {
        assert_eq!(Values::Doubles(3, 13).list(1), [3, 6, 12]);
        assert_eq!(Values::UpToCpus(&[1, 2, 4]).list(3), [1, 2]);
    }
}
