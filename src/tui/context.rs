//! The shared context of all screens: the mode of the session, the size of the terminal, and choices that several
//! screens use.

use super::keys::bindings::Bindings;
use super::lane_stats::LaneStats;
use crate::config::ThemeName;
use crate::session::{State, Timeline};
use std::sync::Arc;

/// The shared context of all screens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// Whether the session is a replay.
    pub(crate) replay: bool,
    /// Whether the session runs checks only when the user requests them, and has not run any yet.
    pub(crate) unasked: bool,
    /// Whether there is only the first screen.
    pub(crate) alone: bool,
    /// Whether the machine is a capture, on which nothing can run.
    pub(crate) captured: bool,
    pub(crate) paused: bool,
    /// Speed of a replay in sixteenths of real time; 0 means as fast as possible.
    pub(crate) speed: u32,
    /// The times of the recording, after it was read to its end.
    pub(crate) timeline: Option<Arc<Timeline>>,
    /// The time of the last seek in nanoseconds, and whether the session has reached it.
    pub(crate) sought: Option<(u64, bool)>,
    /// Whether a replay starts again at its end.
    pub(crate) loops: bool,
    /// Whether the session has ended. The screens are still shown.
    pub(crate) over: bool,
    /// Whether the screens can write the report.
    pub(crate) can_export: bool,
    /// Whether fixes that need root are applied with sudo, which may require a password.
    pub(crate) needs_sudo: bool,
    /// Whether this user is root on a machine without sudo.
    pub(crate) is_root_without_sudo: bool,
    /// Current session time in nanoseconds. It advances between events while a live run is running.
    pub(crate) clock_ns: u64,
    /// Number of drawn frames, for the spinner.
    pub(crate) frames: u64,
    /// Whether the terminal has space for only one pane, at the last known size.
    pub(crate) small: bool,
    /// Whether the terminal is too narrow for a table and a chart side by side, at the last known size.
    pub(crate) narrow: bool,
    /// Whether a sheet covers the screen.
    pub(crate) covered: bool,
    /// Whether the user is typing the filter of the screen.
    pub(crate) filtering: bool,
    /// A message for the user, which is shown until the next key.
    pub(crate) notice: Option<String>,
    /// Number of the session's messages that were already shown in the footer.
    pub(crate) messages_seen: usize,
    /// The index of the earlier plan whose runs are shown; `None` for the newest plan.
    pub(crate) plan: Option<usize>,
    /// Number of earlier plans at the last frame.
    pub(crate) earlier: usize,
    /// The selected entry, counted over all comparisons; `None` if the user selected none.
    pub(crate) entry: Option<usize>,
    /// Values that are derived from spans, computed once for each run.
    pub(crate) stats: LaneStats,
    /// The chosen theme, without a previewed one.
    pub(crate) theme: ThemeName,
    /// The current key bindings.
    pub(crate) keys: Arc<Bindings>,
}

impl Context {
    /// The state with the runs that the measurement screens show: the session, or the earlier plan that was chosen.
    pub(crate) fn page<'s>(&self, session: &'s State) -> &'s State {
        self.plan.and_then(|number| session.earlier.get(number)).map_or(session, |page| page)
    }

    /// The position of a replay in nanoseconds. After a seek it is the requested time until later events arrive.
    pub(crate) fn position_ns(&self, session: &State) -> u64 {
        match self.sought {
            Some((at_ns, false)) => at_ns,
            Some((at_ns, true)) => at_ns.max(session.now_ns),
            None => session.now_ns,
        }
    }

    /// Whether commands still reach a session on this machine.
    pub(crate) const fn is_live(&self) -> bool {
        !self.replay && !self.over
    }

    /// A character that changes in every frame, to show that something is in progress.
    pub(crate) fn spinner(&self) -> char {
        const TURNS: [char; 8] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠧', '⠇', '⠏'];
        TURNS[(self.frames % 8) as usize]
    }
}

/// The input of a view: the shared context and the state of one screen.
#[derive(Debug)]
pub(crate) struct Ui<'a, S> {
    pub(crate) ctx: &'a Context,
    pub(crate) screen: &'a S,
}
