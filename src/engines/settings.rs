//! The settings that an engine uses, each with the reason for its value.

use crate::core::Setting;

/// A setting with the value that the engine uses.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The setting.
    pub(super) setting: Setting,
    /// Its value.
    pub(super) value: u64,
    /// The reason for the value in a few words.
    pub(super) why: String,
}

impl Chosen {
    /// A value that the user cannot change.
    pub(super) fn fixed(setting: Setting, value: u64, why: impl Into<String>) -> Self {
        Self { setting, value, why: why.into() }
    }

    /// The user's value, or `default` with its reason. Both are limited to `least..=most`.
    pub(super) fn ordered_or(
        setting: Setting,
        ordered: Option<u64>,
        (default, why): (u64, impl Into<String>),
        (least, most): (u64, u64),
    ) -> Self {
        let (value, why) = match ordered {
            Some(value) => (value, AS_SET.to_owned()),
            None => (default, why.into()),
        };
        let within = value.clamp(least, most);
        let why = if within == value { why } else { format!("limited to {least} to {most}; {value} was requested") };
        Self { setting, value: within, why }
    }

    /// The setting, lowered to the available memory or work.
    #[must_use]
    pub(super) fn at_most(mut self, most: u64, why: &str) -> Self {
        if self.value > most {
            self.why = format!("{why}, instead of {} ({})", self.value, self.why);
            self.value = most;
        }
        self
    }

    /// The value as a count.
    pub(super) const fn count(&self) -> usize {
        self.value as usize
    }

    /// The value as a switch.
    pub(super) const fn is_on(&self) -> bool {
        self.value != 0
    }
}

/// The reason of a value that the user set.
pub(super) const AS_SET: &str = "as set";
