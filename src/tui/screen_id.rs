//! The screens by name.

/// A screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScreenId {
    /// Will reads go straight to the GPU?
    #[default]
    Environment,
    /// Which way of loading is fastest here, and why?
    Race,
    /// What does each tensor cost?
    Tensors,
    /// Who is using GPUs and storage right now?
    System,
    /// Why can GDS be slower on a small model?
    Learn,
    /// What was found and measured, as it is exported.
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
