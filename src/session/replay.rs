//! Replaying a recording: its events come through a [`Feed`] at the pace at which they happened, or faster.

use super::command::{Command, REAL_TIME};
use super::feed::Feed;
use super::recording::{Reader, RecordingError, read};
use super::scenes::Scenes;
use crate::core::{Event, EventBody, LogLevel};
use crate::device::heap;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, never, select, unbounded};
use std::path::Path;
use std::time::{Duration, Instant};

/// How a recording is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Begin paused.
    pub paused: bool,
    /// Stretches in which nothing happens are shortened to this many nanoseconds of recorded time; `None` plays them in full.
    pub longest_gap_ns: Option<u64>,
    /// Loads shorter than this are stretched to it, and their progress is shown in steps taken from their spans: a
    /// load of 40 ms would otherwise be over before it was seen. `None` plays the events as they are.
    pub shortest_load_ns: Option<u64>,
}

/// Events that wait for a slow front; memory stays bounded however fast the recording is read.
const QUEUE: usize = 256;

/// Events that are due within this time are handed over together: a wake-up for each of them would cost more than the screens do.
const TICK: Duration = Duration::from_millis(40);

/// Starts to play a recording on a separate thread. `speed` is times real time; 0 (or anything else that is not a
/// positive number) is as fast as possible. The commands `Pause`, `Speed` (0: as fast as possible) and `Quit` are
/// honoured, others are passed over: nothing can be run in a replay. When the recording is damaged, cut off or of a
/// later version, that is said as an event at its end. The thread ends with the recording, with `Quit`, or when the
/// front drops the receiver.
///
/// # Errors
/// If the file cannot be opened or is not a recording; see [`read`].
pub fn start(path: &Path, speed: f64, options: Options) -> Result<Feed, RecordingError> {
    heap::keep_small();
    let reader = read(path)?;
    let (event_sender, events) = bounded(QUEUE);
    let (commands, command_receiver) = unbounded();
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
        shortest_load_ns: options.shortest_load_ns,
    };
    std::thread::Builder::new().name("replay".to_owned()).spawn(move || player.play(reader)).map_err(|source| {
        RecordingError::Io { path: path.to_owned(), doing: "starting a thread to play it", source }
    })?;
    Ok(Feed { events, commands, replay: true })
}

fn positive(speed: f64) -> Option<f64> {
    (speed.is_finite() && speed > 0.0).then_some(speed)
}

/// Recorded time as it passes while playing.
struct PlayClock {
    /// Times real time; `None` is as fast as possible.
    speed: Option<f64>,
    paused: bool,
    /// Slows a short load down: 1 is not at all.
    stretch: f64,
    /// At this instant the recorded time was `anchor_ns`.
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

    /// How long to wait until recorded time `at_ns`: `Some(0)` is now, `None` is until a command comes.
    fn wait(&self, at_ns: u64) -> Option<Duration> {
        if self.paused {
            return None;
        }
        let Some(speed) = self.speed else { return Some(Duration::ZERO) };
        let ahead = at_ns.saturating_sub(self.now_ns(Instant::now()));
        if ahead == 0 {
            return Some(Duration::ZERO);
        }
        // Far enough to be for ever, and small enough for every clock.
        Some(Duration::from_nanos((ahead as f64 * self.stretch / speed).min(3e18) as u64).max(TICK))
    }
}

struct Player {
    events: Sender<Event>,
    commands: Receiver<Command>,
    clock: PlayClock,
    longest_gap_ns: Option<u64>,
    shortest_load_ns: Option<u64>,
}

/// The front is gone or asked to end.
struct Over;

impl Player {
    fn play(mut self, reader: Reader) {
        let mut last_ns = 0;
        let mut trouble = Vec::new();
        let mut scenes = Scenes::new(reader, self.shortest_load_ns);
        while let Some(scene) = scenes.next() {
            let (event, stretch) = match scene {
                Ok(scene) => scene,
                Err(e) => {
                    trouble.push((LogLevel::Error, e.to_string()));
                    continue;
                }
            };
            if let Some(most) = self.longest_gap_ns {
                // Jump over the part of a gap that is too long.
                let from = self.clock.now_ns(Instant::now()).max(last_ns);
                let excess = event.at_ns.saturating_sub(from).saturating_sub(most);
                self.clock.change(|clock| clock.anchor_ns = clock.anchor_ns.saturating_add(excess));
            }
            last_ns = last_ns.max(event.at_ns);
            if (stretch - self.clock.stretch).abs() > f64::EPSILON {
                // The clock may have run ahead at the other pace while nothing happened.
                self.clock.change(|clock| {
                    clock.anchor_ns = clock.anchor_ns.min(event.at_ns);
                    clock.stretch = stretch;
                });
            }
            let lane_over = matches!(event.body, EventBody::LaneFinished { .. });
            if self.deliver(event).is_err() {
                return;
            }
            if lane_over {
                // Its spans were unpacked on the way.
                heap::give_back();
            }
        }
        trouble.extend(scenes.reader.summary().sentence().map(|text| (LogLevel::Warn, text)));
        for (level, text) in trouble {
            if self.deliver(Event { at_ns: last_ns, body: EventBody::Said { level, text } }).is_err() {
                return;
            }
        }
        // The decompressor and the lines that it unpacked.
        drop(scenes);
        heap::give_back();
    }

    /// Waits until it is time, then hands the event over; commands are heard all the while.
    fn deliver(&mut self, event: Event) -> Result<(), Over> {
        loop {
            while let Ok(command) = self.commands.try_recv() {
                self.obey(&command)?;
            }
            let wait = self.clock.wait(event.at_ns);
            let timer = match wait {
                Some(Duration::ZERO) => {
                    // Without a speed the clock does not run by itself; a later change of speed goes on from here.
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
                    Err(_) => self.nobody_commands(),
                },
                recv(timer) -> _ => {}
            }
        }
        // A copy of an event may be large, so it is made only where the queue is full.
        let event = match self.events.try_send(event) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Disconnected(_)) => return Err(Over),
            Err(TrySendError::Full(event)) => event,
        };
        loop {
            let commands = self.commands.clone();
            let (sender, unsent) = (self.events.clone(), event.clone());
            select! {
                recv(commands) -> command => match command {
                    Ok(command) => self.obey(&command)?,
                    Err(_) => self.nobody_commands(),
                },
                send(sender, unsent) -> sent => return sent.map_err(|_| Over),
            }
        }
    }

    /// All senders of commands are gone: go on without, and never wait for a command that cannot come.
    fn nobody_commands(&mut self) {
        self.commands = never();
        if self.clock.paused {
            self.clock.change(|clock| clock.paused = false);
        }
    }

    fn obey(&mut self, command: &Command) -> Result<(), Over> {
        match command {
            Command::Quit => return Err(Over),
            Command::Pause(paused) => self.clock.change(|clock| clock.paused = *paused),
            Command::Speed(speed) => {
                self.clock.change(|clock| clock.speed = positive(f64::from(*speed) / f64::from(REAL_TIME)))
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::session::recording::Writer;

    const MS: u64 = 1_000_000;

    fn recording(folder: &Path, times_ms: &[u64]) -> std::path::PathBuf {
        let path = folder.join("r.gdst");
        let mut writer = Writer::create(&path).unwrap();
        for at in times_ms {
            let body = EventBody::Said { level: LogLevel::Info, text: at.to_string() };
            writer.write(&Event { at_ns: at * MS, body }).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    fn times(feed: &Feed) -> Vec<u64> {
        feed.events.iter().map(|e| e.at_ns / MS).collect()
    }

    #[test]
    fn as_fast_as_possible_takes_no_recorded_time_and_closes_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = recording(folder.path(), &[0, 5_000, 3_600_000]);
        let began = Instant::now();
        let feed = start(&path, 0.0, Options::default()).unwrap();
        assert!(feed.replay);
        assert_eq!(times(&feed), [0, 5_000, 3_600_000]);
        assert!(began.elapsed() < Duration::from_secs(3_600), "it took as long as the recording");
    }

    #[test]
    fn events_come_no_earlier_than_their_time_over_the_speed() {
        let folder = tempfile::tempdir().unwrap();
        let path = recording(folder.path(), &[0, 400]);
        let began = Instant::now();
        let feed = start(&path, 4.0, Options::default()).unwrap();
        assert_eq!(times(&feed), [0, 400]);
        assert!(began.elapsed() >= Duration::from_millis(100));
    }

    #[test]
    fn a_pause_holds_events_back_until_play_goes_on_and_speed_can_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = recording(folder.path(), &[1, 3_600_000]);
        let feed = start(&path, 1.0, Options { paused: true, ..Options::default() }).unwrap();
        assert!(feed.events.recv_timeout(Duration::from_millis(60)).is_err());
        feed.commands.send(Command::Pause(false)).unwrap();
        assert_eq!(feed.events.recv().unwrap().at_ns, MS);
        feed.commands.send(Command::Speed(u32::MAX)).unwrap();
        assert_eq!(times(&feed), [3_600_000]);
    }

    #[test]
    fn quit_ends_it_in_the_middle_of_a_wait_and_of_a_full_queue() {
        let folder = tempfile::tempdir().unwrap();
        let path = recording(folder.path(), &[0, 3_600_000]);
        let feed = start(&path, 1.0, Options::default()).unwrap();
        feed.commands.send(Command::Quit).unwrap();
        assert!(times(&feed).len() <= 1);
        let path = recording(folder.path(), &[7; QUEUE + 50]);
        let feed = start(&path, 0.0, Options::default()).unwrap();
        while feed.events.len() < QUEUE {
            std::thread::sleep(Duration::from_millis(1));
        }
        feed.commands.send(Command::Quit).unwrap();
        while !feed.commands.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(times(&feed).len() <= QUEUE + 1);
    }

    #[test]
    fn a_front_that_never_commands_gets_everything_even_when_it_began_paused() {
        let folder = tempfile::tempdir().unwrap();
        let path = recording(folder.path(), &[1, 2]);
        let Feed { events, commands, .. } =
            start(&path, 1000.0, Options { paused: true, ..Options::default() }).unwrap();
        drop(commands);
        assert_eq!(events.iter().count(), 2);
    }

    #[test]
    fn long_gaps_are_shortened_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = recording(folder.path(), &[0, 3_600_000, 7_200_000]);
        let began = Instant::now();
        let feed = start(&path, 1.0, Options { longest_gap_ns: Some(30 * MS), ..Options::default() }).unwrap();
        assert_eq!(times(&feed).len(), 3);
        assert!(began.elapsed() >= Duration::from_millis(55) && began.elapsed() < Duration::from_secs(7_200));
    }

    #[test]
    fn a_recording_cut_off_says_so_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = recording(folder.path(), &[0, 1, 2]);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 2]).unwrap();
        let feed = start(&path, 0.0, Options::default()).unwrap();
        let last = feed.events.iter().last().unwrap();
        assert!(matches!(&last.body, EventBody::Said { level: LogLevel::Warn, text } if text.contains("missing")));
    }
}
