//! Replays a recording: sends its events through a [`Feed`] in real time or faster. A player can also seek.

use super::command::{Command, REAL_TIME};
use super::feed::{Feed, Played};
use super::key_frames::KeyFrames;
use super::recording::{RecordingError, read};
use super::scenes::Scenes;
use super::timeline::Timeline;
use crate::core::{Event, EventBody, LogLevel};
use crate::device::heap;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, never, select, unbounded};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The options of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether the replay starts paused.
    pub paused: bool,
    /// Maximum time without events in nanoseconds of recorded time. Longer gaps are shortened to it. `None`: gaps are
    /// not shortened.
    pub longest_gap_ns: Option<u64>,
    /// Minimum duration of a load in nanoseconds. Shorter loads are slowed down, and their progress is shown in steps
    /// from their spans, because a load of 40 ms would be too short to see. `None`: events are not changed.
    pub shortest_load_ns: Option<u64>,
    /// Whether the replay is for a user. Then all events before the first load are sent immediately,
    /// [`Command::Seek`] is supported, and the times of the recording are sent as [`Played::Timeline`].
    pub player: bool,
}

/// Maximum number of events in the queue to the front end. It limits the memory if the front end is slow.
const QUEUE: usize = 256;

/// Events within this time are sent together, because waking the front end for each event would need more time than
/// drawing.
const TICK: Duration = Duration::from_millis(40);

/// Time for which the result is shown before a replay in a loop starts again.
const SHOW_RESULT: Duration = Duration::from_secs(4);

/// Starts to replay a recording on a separate thread. `speed` is a multiple of real time; 0 or an invalid number
/// means as fast as possible. The commands `Pause`, `Speed` (0: as fast as possible) and `Quit` are supported, and
/// for a player also `Seek` and `Loop`. Other commands are ignored, because nothing can be run in a replay. If the
/// recording is damaged, cut or of a later version, an event at the end reports it. The thread ends with the
/// recording, with `Quit`, or when the front end drops the sender of commands. The thread of a player does not end
/// with the recording, because it waits for a seek.
///
/// # Errors
/// Fails if the file cannot be opened or is not a recording; see [`read`].
pub fn start(path: &Path, speed: f64, options: Options) -> Result<Feed, RecordingError> {
    heap::keep_small();
    let reader = read(path)?;
    let (event_sender, events) = bounded(QUEUE);
    let (commands, command_receiver) = unbounded();
    let failed = |doing| move |source| RecordingError::Io { path: path.to_owned(), doing, source };
    let (seeker, played) = if options.player {
        let (sender, played) = unbounded();
        read_timeline(path, sender.clone()).map_err(failed("starting a thread to look through it"))?;
        (Some(Seeker { frames: KeyFrames::new(path, options.shortest_load_ns), played: sender }), played)
    } else {
        (None, never())
    };
    let player = Player {
        events: event_sender,
        commands: command_receiver,
        clock: PlayClock {
            speed: positive(speed),
            paused: options.paused,
            stretch: 1.0,
            anchor: Instant::now(),
            anchor_ns: 0,
        },
        longest_gap_ns: options.longest_gap_ns,
        scenes: Some(Scenes::new(reader, options.shortest_load_ns)),
        last_ns: 0,
        opening: options.player,
        opens_ns: 0,
        seeker,
        loops: false,
        refused: Arc::default(),
    };
    let refused = player.refused.clone();
    std::thread::Builder::new()
        .name("replay".to_owned())
        .spawn(move || player.play())
        .map_err(failed("starting a thread to play it"))?;
    Ok(Feed { player: played, refused, ..Feed::new(events, commands, true) })
}

/// Reads the times of the recording on another thread.
fn read_timeline(path: &Path, played: Sender<Played>) -> std::io::Result<()> {
    let path: PathBuf = path.to_owned();
    std::thread::Builder::new().name("timeline".to_owned()).spawn(move || {
        // Errors are reported by the player, which also reads the recording.
        if let Ok(found) = Timeline::read(&path) {
            heap::give_back();
            let _ = played.send(Played::Timeline(Arc::new(found)));
        }
    })?;
    Ok(())
}

fn positive(speed: f64) -> Option<f64> {
    (speed.is_finite() && speed > 0.0).then_some(speed)
}

/// The recorded time during the replay.
struct PlayClock {
    /// The speed as a multiple of real time; `None` means as fast as possible.
    speed: Option<f64>,
    paused: bool,
    /// The factor by which a short load is slowed down; 1 is the original speed.
    stretch: f64,
    /// The time at which the recorded time was `anchor_ns`.
    anchor: Instant,
    anchor_ns: u64,
}

impl PlayClock {
    fn now_ns(&self, now: Instant) -> u64 {
        match self.speed {
            Some(speed) if !self.paused => {
                let passed = now.saturating_duration_since(self.anchor).as_nanos() as f64 * speed / self.stretch;
                self.anchor_ns.saturating_add(passed as u64)
            }
            _ => self.anchor_ns,
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let now = Instant::now();
        self.anchor_ns = self.now_ns(now);
        self.anchor = now;
        change(self);
    }

    /// The time to wait until the recorded time `at_ns`. `Some(0)` means no wait, and `None` means to wait for a
    /// command.
    fn wait(&self, at_ns: u64) -> Option<Duration> {
        if self.paused {
            return None;
        }
        let Some(speed) = self.speed else { return Some(Duration::ZERO) };
        let ahead = at_ns.saturating_sub(self.now_ns(Instant::now()));
        if ahead == 0 {
            return Some(Duration::ZERO);
        }
        // The limit is longer than any session but does not overflow any clock.
        Some(Duration::from_nanos((ahead as f64 * self.stretch / speed).min(3e18) as u64).max(TICK))
    }
}

struct Player {
    events: Sender<Event>,
    commands: Receiver<Command>,
    clock: PlayClock,
    longest_gap_ns: Option<u64>,
    /// The rest of the recording; `None` at its end.
    scenes: Option<Scenes>,
    /// Time of the last event in nanoseconds.
    last_ns: u64,
    /// Whether no load was seen yet. Until the first load, events are sent without waiting.
    opening: bool,
    /// Time at which the first load started, to which a loop returns.
    opens_ns: u64,
    seeker: Option<Seeker>,
    /// Whether to start again at the end.
    loops: bool,
    refused: Arc<OnceLock<String>>,
}

/// Gives access to the key frames of the recording and to the front end.
struct Seeker {
    frames: KeyFrames,
    played: Sender<Played>,
}

/// The reason why playing stops.
enum Stop {
    /// The front end has ended, or sent the command to end.
    Over,
    /// The front end sent a seek to this time.
    Seek(u64),
}

impl Player {
    fn play(mut self) {
        loop {
            let stop = match self.play_on() {
                Ok(()) => self.rest(),
                Err(stop) => stop,
            };
            match stop {
                Stop::Over => return,
                Stop::Seek(at_ns) => self.seek(at_ns),
            }
        }
    }

    /// Plays to the end of the recording.
    fn play_on(&mut self) -> Result<(), Stop> {
        let mut trouble = Vec::new();
        while let Some(scene) = self.scenes.as_mut().and_then(Scenes::next) {
            let (event, stretch) = match scene {
                Ok(scene) => scene,
                Err(e) => {
                    if matches!(e, RecordingError::TooLarge { .. }) {
                        let _ = self.refused.set(e.to_string());
                    }
                    trouble.push((LogLevel::Error, e.to_string()));
                    continue;
                }
            };
            if self.opening {
                self.opening = !begins_measuring(&event.body);
                self.opens_ns = if self.opening { 0 } else { event.at_ns };
                self.clock.change(|clock| clock.anchor_ns = clock.anchor_ns.max(event.at_ns));
            } else if let Some(most) = self.longest_gap_ns {
                // Skips the part of a gap that is too long.
                let from = self.clock.now_ns(Instant::now()).max(self.last_ns);
                let excess = event.at_ns.saturating_sub(from).saturating_sub(most);
                self.clock.change(|clock| clock.anchor_ns = clock.anchor_ns.saturating_add(excess));
            }
            self.last_ns = self.last_ns.max(event.at_ns);
            if (stretch - self.clock.stretch).abs() > f64::EPSILON {
                // While nothing happened, the clock may have advanced too far at the previous pace.
                self.clock.change(|clock| {
                    clock.anchor_ns = clock.anchor_ns.min(event.at_ns);
                    clock.stretch = stretch;
                });
            }
            let lane_over = matches!(event.body, EventBody::LaneFinished { .. });
            self.deliver(event)?;
            if lane_over {
                // Its spans were unpacked for the progress, and this memory is free now.
                heap::give_back();
            }
        }
        // The decompressor and its buffers are no longer needed.
        if let Some(scenes) = self.scenes.take() {
            trouble.extend(scenes.reader.summary().sentence().map(|text| (LogLevel::Warn, text)));
        }
        heap::give_back();
        for (level, text) in trouble {
            self.deliver(Event { at_ns: self.last_ns, body: EventBody::Said { level, text } })?;
        }
        Ok(())
    }

    /// Waits for a seek at the end of the recording.
    fn rest(&mut self) -> Stop {
        if self.seeker.is_none() {
            return Stop::Over;
        }
        loop {
            let again = self.loops && self.clock.speed.is_some();
            if !again {
                // The closed channel shows the front end that the end is reached.
                self.events = bounded(1).0;
            }
            let timer = if again { crossbeam_channel::after(SHOW_RESULT) } else { never() };
            select! {
                recv(self.commands) -> command => match command {
                    Ok(command) => if let Err(stop) = self.obey(&command) { return stop },
                    Err(_) => return Stop::Over,
                },
                recv(timer) -> _ => return Stop::Seek(self.opens_ns),
            }
        }
    }

    /// Goes to a time and sends the result to the front end.
    fn seek(&mut self, at_ns: u64) {
        let Some(seeker) = &mut self.seeker else { return };
        // If the recording cannot be opened any more, the replay continues with the open file.
        let Ok(sought) = seeker.frames.seek(at_ns) else { return };
        let (sender, events) = bounded(QUEUE);
        self.events = sender;
        self.opening = false;
        self.last_ns = sought.state.now_ns;
        self.scenes = Some(sought.scenes);
        self.clock.change(|clock| (clock.anchor_ns, clock.stretch) = (at_ns, 1.0));
        let _ = seeker.played.send(Played::Sought(Box::new(sought.state), events));
        heap::give_back();
    }

    /// Waits until the time of the event, then sends it. Commands are handled during the wait.
    fn deliver(&mut self, event: Event) -> Result<(), Stop> {
        loop {
            while let Ok(command) = self.commands.try_recv() {
                self.obey(&command)?;
            }
            let wait = if self.opening { Some(Duration::ZERO) } else { self.clock.wait(event.at_ns) };
            let timer = match wait {
                Some(Duration::ZERO) => {
                    // Without a speed the clock does not run. If the speed changes later, the clock continues from
                    // here.
                    if self.clock.speed.is_none() {
                        self.clock.anchor_ns = self.clock.anchor_ns.max(event.at_ns);
                    }
                    break;
                }
                Some(wait) => crossbeam_channel::after(wait),
                None => never(),
            };
            select! {
                recv(self.commands) -> command => match command {
                    Ok(command) => self.obey(&command)?,
                    Err(_) => self.without_commands(),
                },
                recv(timer) -> _ => {}
            }
        }
        // A copy of an event may be large, so it is only made if the queue is full.
        let event = match self.events.try_send(event) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Disconnected(_)) => return Err(Stop::Over),
            Err(TrySendError::Full(event)) => event,
        };
        loop {
            let commands = self.commands.clone();
            let (sender, unsent) = (self.events.clone(), event.clone());
            select! {
                recv(commands) -> command => match command {
                    Ok(command) => self.obey(&command)?,
                    Err(_) => self.without_commands(),
                },
                send(sender, unsent) -> sent => return sent.map_err(|_| Stop::Over),
            }
        }
    }

    /// All senders of commands were dropped. The replay continues and does not wait for a command that cannot arrive.
    fn without_commands(&mut self) {
        self.commands = never();
        self.seeker = None;
        if self.clock.paused {
            self.clock.change(|clock| clock.paused = false);
        }
    }

    fn obey(&mut self, command: &Command) -> Result<(), Stop> {
        match command {
            Command::Quit => return Err(Stop::Over),
            Command::Pause(paused) => self.clock.change(|clock| clock.paused = *paused),
            Command::Speed(speed) => {
                self.clock.change(|clock| clock.speed = positive(f64::from(*speed) / f64::from(REAL_TIME)))
            }
            Command::Loop(loops) => self.loops = *loops,
            Command::Seek(at_ns) if self.seeker.is_some() => {
                // If several seeks are waiting, only the last one is done.
                let mut last = *at_ns;
                while let Ok(command) = self.commands.try_recv() {
                    match command {
                        Command::Seek(newer) => last = newer,
                        other => self.obey(&other)?,
                    }
                }
                return Err(Stop::Seek(last));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether the measurements begin with this event: a load, a grid or a watched program.
const fn begins_measuring(body: &EventBody) -> bool {
    matches!(body, EventBody::LaneStarted { .. } | EventBody::GridCellStarted { .. } | EventBody::ProgramSeen { .. })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
