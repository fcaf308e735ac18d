//! The player of a recording: it handles seeks and speeds.

use super::App;
use crate::core::units::NS_PER_S;
use crate::session::{Command, REAL_TIME, State};
use crate::tui::effect::Effect;
use crate::tui::keys::action::Action;
use crate::tui::lane_stats::LaneStats;

impl App {
    /// Seeks in a replay by the action of a key.
    pub(super) fn seek_by(&mut self, action: Action, session: &State) -> Effect {
        let Some(timeline) = &self.ctx.timeline else { return Effect::default() };
        let now = self.ctx.position_ns(session);
        let at_ns = match action {
            Action::SeekBack => now.saturating_sub(NS_PER_S),
            Action::SeekForward => now.saturating_add(NS_PER_S),
            Action::PreviousLoad => timeline.load_before(now, NS_PER_S / 2).unwrap_or(0),
            Action::NextLoad => timeline.load_after(now).unwrap_or(timeline.end_ns),
            _ => timeline.result_ns,
        };
        self.seek(at_ns)
    }

    /// Seeks to a time in a replay, in nanoseconds.
    pub(super) fn seek(&mut self, at_ns: u64) -> Effect {
        let Some(timeline) = &self.ctx.timeline else { return Effect::default() };
        let at_ns = at_ns.min(timeline.end_ns);
        self.ctx.sought = Some((at_ns, false));
        let mut effect = Effect::default();
        if self.ctx.speed == 0 && !self.ctx.paused {
            // At maximum speed the replay would end before the user sees the result of the seek.
            self.ctx.paused = true;
            effect.commands.push(Command::Pause(true));
        }
        effect.commands.push(Command::Seek(at_ns));
        effect
    }

    /// Updates the app after a seek. Values that were derived from later events are dropped.
    pub(crate) fn sought(&mut self, session: &State) {
        if let Some((_, arrived)) = &mut self.ctx.sought {
            *arrived = true;
        } else {
            self.ctx.sought = Some((session.now_ns, true));
        }
        self.ctx.over = false;
        self.ctx.messages_seen = session.messages.len();
        self.ctx.stats = LaneStats::default();
    }

    /// Changes the speed of a replay by the action of a key.
    pub(super) fn change_speed(&mut self, faster: bool) -> Effect {
        // The range is from a sixteenth of real time to sixteen times real time.
        let speed = if self.ctx.speed == 0 { REAL_TIME } else { self.ctx.speed };
        self.ctx.speed = if faster { speed.saturating_mul(2).min(REAL_TIME * 16) } else { (speed / 2).max(1) };
        Command::Speed(self.ctx.speed).into()
    }
}
