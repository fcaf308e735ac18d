//! The context of all screens: how the session runs, the size of the terminal, and choices that several screens use.

use super::keys::bindings::Bindings;
use super::lane_stats::LaneStats;
use crate::config::ThemeName;
use crate::session::{State, Timeline};
use std::sync::Arc;

/// The context of all screens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// A replay, not a live session.
    pub(crate) replay: bool,
    /// The session examines the machine on request, which did not happen yet.
    pub(crate) unasked: bool,
    /// The machine is a capture, so nothing runs on it.
    pub(crate) captured: bool,
    pub(crate) paused: bool,
    /// Speed of a replay in sixteenths of real time; 0 is as fast as possible.
    pub(crate) speed: u32,
    /// The times of the recording, once it was looked through.
    pub(crate) timeline: Option<Arc<Timeline>>,
    /// The time that was sought last, and whether the session was there.
    pub(crate) sought: Option<(u64, bool)>,
    /// A replay begins again at its end.
    pub(crate) loops: bool,
    /// The feed closed: the session is over, the screens stay.
    pub(crate) over: bool,
    /// The report can be written from here.
    pub(crate) can_export: bool,
    /// Fixes for root are applied by sudo, which may ask for a password.
    pub(crate) needs_sudo: bool,
    /// Session time now, in nanoseconds; runs on between events while a live lane runs.
    pub(crate) clock_ns: u64,
    /// Frames drawn, for the spinner.
    pub(crate) frames: u64,
    /// The terminal has room for one pane only (as of the last size).
    pub(crate) small: bool,
    /// Too narrow for a table with a picture at its side (as of the last size).
    pub(crate) narrow: bool,
    /// A sheet is over the screen.
    pub(crate) covered: bool,
    /// The filter of the screen is being typed.
    pub(crate) filtering: bool,
    /// A line for the user, until the next key.
    pub(crate) notice: Option<String>,
    /// Messages of the session that have had their time in the footer.
    pub(crate) messages_seen: usize,
    /// The plan whose runs are shown, by its number among the earlier ones; `None`: the newest.
    pub(crate) plan: Option<usize>,
    /// Plans that ran before the newest, as of the last frame.
    pub(crate) earlier: usize,
    /// The entry that is selected, over all comparisons; `None` leaves the choice to the screen.
    pub(crate) entry: Option<usize>,
    /// Values derived from spans, computed once for each lane.
    pub(crate) stats: LaneStats,
    /// The theme that was chosen, without the preview of another.
    pub(crate) theme: ThemeName,
    /// The keys in use.
    pub(crate) keys: Arc<Bindings>,
}

impl Context {
    /// The runs that the screens of measurements show: those of the session, or of the earlier plan that was chosen.
    pub(crate) fn page<'s>(&self, session: &'s State) -> &'s State {
        self.plan.and_then(|number| session.earlier.get(number)).map_or(session, |page| page)
    }

    /// The time of a replay: the time that was sought until events after it arrive.
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

    /// A glyph that turns while something is in progress.
    pub(crate) fn spinner(&self) -> char {
        const TURNS: [char; 8] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠧', '⠇', '⠏'];
        TURNS[(self.frames % 8) as usize]
    }
}

/// The input of a view: the context of all screens and the state of one of them.
#[derive(Debug)]
pub(crate) struct Ui<'a, S> {
    pub(crate) ctx: &'a Context,
    pub(crate) screen: &'a S,
}
