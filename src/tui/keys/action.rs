//! The actions of keys.

use crate::tui::screen_id::ScreenId;

/// An action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    NextPane,
    Screen(ScreenId),
    Fix,
    Guide,
    Recheck,
    Filter,
    NextVerdict,
    Apply,
    DryRun,
    Undo,
    Close,
    Pause,
    Faster,
    Slower,
    SeekBack,
    SeekForward,
    PreviousLoad,
    NextLoad,
    ShowResult,
    PickSpeed,
    Loop,
    RaceAgain,
    Plans,
    RunPlan,
    ShowPlan,
    OlderPlan,
    NewerPlan,
    Layers,
    CancelRace,
    NextChart,
    NextEngine,
    PreviousEngine,
    Sort,
    Reverse,
    Compare,
    ZoomIn,
    ZoomOut,
    ZoomAll,
    PanBack,
    PanForward,
    Hold,
    Expand,
    NextStep,
    PreviousStep,
    Play,
    SliderUp,
    SliderDown,
    Measure,
    Copy,
    CopyCommands,
    Export,
    Baseline,
    Help,
    Commands,
    Redraw,
    Suspend,
    Interrupt,
    Quit,
}

impl Action {
    /// The name in the settings file: `next_pane`, `screen_race`.
    pub(crate) fn name(self) -> String {
        let spelled = match self {
            Self::Screen(screen) => format!("Screen{screen:?}"),
            other => format!("{other:?}"),
        };
        let mut text = String::new();
        for glyph in spelled.chars() {
            if glyph.is_ascii_uppercase() && !text.is_empty() {
                text.push('_');
            }
            text.push(glyph.to_ascii_lowercase());
        }
        text
    }

    /// The actions that share a place in the footer with this action. The label contains the first key of each. Empty
    /// if there are no others.
    pub(crate) const fn joined(self) -> &'static [Self] {
        match self {
            Self::Up => &[Self::Up, Self::Down],
            Self::Left => &[Self::Left, Self::Right],
            Self::NextEngine => &[Self::PreviousEngine, Self::NextEngine],
            Self::PreviousStep => &[Self::PreviousStep, Self::NextStep],
            Self::ZoomIn => &[Self::ZoomIn, Self::ZoomOut, Self::ZoomAll],
            Self::SliderUp => &[Self::SliderUp, Self::SliderDown],
            Self::Slower => &[Self::Slower, Self::Faster],
            Self::SeekBack => &[Self::SeekBack, Self::SeekForward],
            Self::PreviousLoad => &[Self::PreviousLoad, Self::NextLoad],
            Self::PanBack => &[Self::PanBack, Self::PanForward],
            _ => &[],
        }
    }

    /// The new position of a selection at `at` in a list with the last index `last`. `None` if the action does not
    /// move a selection.
    pub(crate) fn moved(self, at: usize, last: usize) -> Option<usize> {
        const PAGE: usize = 10;
        Some(match self {
            Self::Up => at.saturating_sub(1),
            Self::Down => at.saturating_add(1).min(last),
            Self::PageUp => at.saturating_sub(PAGE),
            Self::PageDown => at.saturating_add(PAGE).min(last),
            Self::First => 0,
            Self::Last => last,
            _ => return None,
        })
    }
}
