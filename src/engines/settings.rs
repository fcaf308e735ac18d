//! The settings that an engine uses, each with what chose it.

use super::context::EngineContext;

/// One setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name.
    pub(super) name: &'static str,
    /// Its value.
    pub(super) value: u64,
    /// What chose it, in a few words.
    pub(super) why: String,
}

impl Setting {
    /// What no order changes.
    pub(super) fn fixed(name: &'static str, value: u64, why: impl Into<String>) -> Self {
        Self { name, value, why: why.into() }
    }

    /// Lowered to what there is room or use for.
    #[must_use]
    pub(super) fn at_most(mut self, most: u64, why: &str) -> Self {
        if self.value > most {
            self.why = format!("{why}, instead of {} ({})", self.value, self.why);
            self.value = most;
        }
        self
    }

    /// As a count.
    pub(super) const fn count(&self) -> usize {
        self.value as usize
    }

    /// As a switch.
    pub(super) const fn is_on(&self) -> bool {
        self.value != 0
    }
}

/// What was ordered, for the report.
pub(super) const AS_SET: &str = "as set";

impl EngineContext<'_> {
    /// A setting: as ordered, else `default`, for which `why` tells the reason; `least` to `most` in any case.
    pub(super) fn setting(
        &self,
        name: &'static str,
        (default, why): (u64, impl Into<String>),
        (least, most): (u64, u64),
    ) -> Setting {
        let (value, why) = match self.order.knobs.get(name) {
            Some(value) => (*value, AS_SET.to_owned()),
            None => (default, why.into()),
        };
        let within = value.clamp(least, most);
        let why =
            if within == value { why } else { format!("from {least} to {most} is possible, {value} was asked for") };
        Setting { name, value: within, why }
    }

    /// The length of a read, in whole pages.
    pub(super) fn block_setting(&self, default: (u64, impl Into<String>), most: u64) -> Setting {
        let mut setting = self.setting("block_bytes", default, (super::pread::PAGE, most));
        setting.value = setting.value.next_multiple_of(super::pread::PAGE);
        setting
    }
}
