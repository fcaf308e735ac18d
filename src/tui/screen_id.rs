//! The identifiers of the screens.

/// A screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScreenId {
    /// The checks, the verdict and the fixes.
    #[default]
    Environment,
    /// The comparison of the engines.
    Race,
    /// The overhead of each tensor.
    Tensors,
    /// The processes that use GPUs and storage.
    System,
    /// The lesson about why GDS can be slower for a small model.
    Learn,
    /// The report in its exported form.
    Report,
}

impl ScreenId {
    /// All screens, in the order of their keys.
    pub const ALL: [Self; 6] = [Self::Environment, Self::Race, Self::Tensors, Self::System, Self::Learn, Self::Report];

    /// The title on the tab.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Environment => "Environment",
            Self::Race => "Race",
            Self::Tensors => "Tensors",
            Self::System => "System",
            Self::Learn => "Learn",
            Self::Report => "Report",
        }
    }

    /// The title for a narrow terminal.
    #[must_use]
    pub const fn short_title(self) -> &'static str {
        match self {
            Self::Environment => "Env",
            other => other.title(),
        }
    }

    /// The key of the tab.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Environment => 1,
            Self::Race => 2,
            Self::Tensors => 3,
            Self::System => 4,
            Self::Learn => 5,
            Self::Report => 6,
        }
    }
}
