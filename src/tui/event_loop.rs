//! The event loop: it handles events of the session, keys, signals and, only during animations, a timer for frames.
//! It blocks in one place.

use super::app::App;
use super::effect::Effect;
use super::jobs::queue::AT_ONCE;
use super::jobs::thread::JobThread;
use super::painter::Painter;
use super::theme::Look;
use crate::config::Background;
use crate::session::{Command, Feed, Played, State};
use crossbeam_channel::{Receiver, after, never, select};
use crossterm::event::Event as Input;
use ratatui::backend::Backend;
use std::time::{Duration, Instant};

/// Minimum time between two frames that are caused by keys.
const KEY_FRAME: Duration = Duration::from_millis(16);
/// Time for which a message replaces the keys in the footer, unless a key is pressed.
const MESSAGE: Duration = Duration::from_secs(6);
/// Maximum number of session events that are handled before keys are read again.
const BATCH: usize = 4096;

/// A message of the signal thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End now. The value is the signal number.
    End(i32),
    /// Stop the process, because SIGTSTP arrived.
    Stop,
    /// The process continues after a stop.
    Continue,
}

/// The channels of the loop.
#[derive(Debug)]
pub(crate) struct Wires {
    pub(crate) feed: Feed,
    pub(crate) input: Receiver<Input>,
    /// The background colour of the terminal, if the terminal reports it.
    pub(crate) background: Receiver<Background>,
    pub(crate) signals: Receiver<Signal>,
    /// Minimum time between two frames that are caused by session events.
    pub(crate) frame: Duration,
}

/// The end of the loop.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) state: State,
    pub(crate) quit: bool,
    pub(crate) signal: Option<i32>,
}

/// A request of the event loop to its caller. The result is a message for the user.
pub(crate) enum Outside<'a> {
    /// Restore the terminal, stop the process if the signal requires it, and set up the terminal again.
    Signal(Signal),
    /// Copy text to the clipboard of the terminal.
    Copy(&'a str),
    /// Write the report files.
    Export(&'a State),
    /// Save the report as the baseline for comparisons.
    Baseline(&'a State),
    /// Hand the terminal over to sudo, so that it can ask for a password. If the fix cannot be applied, the message
    /// has the reason.
    Lend,
}

/// Runs until the user quits, a signal ends it, or the keyboard is closed.
pub(crate) fn run<B: Backend>(
    painter: &mut Painter<B>,
    mut wires: Wires,
    mut app: App,
    mut look: Look,
    outside: &mut dyn FnMut(Outside<'_>) -> Option<String>,
) -> Result<Ending, B::Error> {
    let mut state = State::default();
    let mut pace = Pace::new(wires.frame);
    let mut thread = JobThread::new();
    let mut theme = look.theme();
    app.jobs.at_once = AT_ONCE;
    app.start().commands.into_iter().for_each(|command| send(&wires, command));
    loop {
        let taken = take_events(&mut wires, &mut state, &mut app);
        if taken.any {
            pace.news();
        }
        pace.time_messages(&state, &mut app);
        if pace.due() {
            app.ctx.clock_ns = pace.clock_ns(&state, &app);
            app.tick(pace.since_frame());
            app.prepare(&state);
            let mut done = Vec::new();
            for job in std::mem::take(&mut app.jobs.out) {
                done.extend(thread.run(job));
            }
            if !done.is_empty() {
                done.into_iter().for_each(|done| app.take(done));
                app.prepare(&state);
            }
            app.ctx.frames = app.ctx.frames.wrapping_add(1);
            app.resize(painter.width(), painter.height());
            painter.paint(|buffer| app.draw(&state, &theme, buffer))?;
            pace.painted(moves(&state, &app));
        }
        let timer = pace.wait().map_or_else(never, after);
        // If a frame is due soon, session events stay in the queue until then. So the loop wakes up once per frame
        // and not once per event. A replay at maximum speed is excluded, because its short queue would slow it down.
        let full_speed = wires.feed.replay && app.ctx.speed == 0;
        let wait = !full_speed && taken.all && pace.frame_is_coming();
        let events = if wait { never() } else { wires.feed.events.clone() };
        select! {
            recv(events) -> event => match event {
                Ok(event) => {
                    state.reduce(&event);
                    pace.news();
                }
                Err(_) => {
                    wires.feed.events = never();
                    app.ctx.over = true;
                    pace.news();
                }
            },
            recv(wires.input) -> input => {
                let Ok(input) = input else {
                    // The keyboard is closed with the terminal, so the user can no longer end the program with a key.
                    send(&wires, Command::Quit);
                    return Ok(Ending { state, quit: false, signal: None });
                };
                if matches!(input, Input::Resize(..)) {
                    painter.measure()?;
                }
                let effect = app.input(&input, &state);
                if let Some(name) = effect.theme {
                    look.set_theme(name);
                    theme = look.theme();
                }
                pace.key();
                if let Some(ending) = carry_out(effect, &wires, painter, &mut Inside { app: &mut app, state: &state }, outside)? {
                    return Ok(Ending { state, quit: true, signal: ending });
                }
            },
            recv(wires.feed.player) -> played => match played {
                Ok(Played::Timeline(timeline)) => {
                    app.ctx.timeline = Some(timeline);
                    pace.news();
                }
                Ok(Played::Sought(sought, events)) => {
                    state = *sought;
                    wires.feed.events = events;
                    app.sought(&state);
                    pace.messages = (state.messages.len(), None);
                    pace.key();
                }
                Err(_) => wires.feed.player = never(),
            },
            recv(wires.background) -> background => match background {
                Ok(background) => {
                    look.set_background(background);
                    theme = look.theme();
                    pace.key();
                }
                Err(_) => wires.background = never(),
            },
            recv(wires.signals) -> signal => match signal {
                Ok(Signal::End(number)) => {
                    send(&wires, Command::Quit);
                    return Ok(Ending { state, quit: false, signal: Some(number) });
                }
                Ok(signal) => {
                    outside(Outside::Signal(signal));
                    painter.measure()?;
                    pace.key();
                }
                Err(_) => wires.signals = never(),
            },
            recv(thread.done) -> done => match done {
                Ok(done) => {
                    app.take(done);
                    pace.key();
                }
                Err(_) => thread = JobThread::new(),
            },
            recv(timer) -> _ => {}
        }
    }
}

/// The app and the state that the event loop uses.
struct Inside<'a> {
    app: &'a mut App,
    state: &'a State,
}

/// Performs the requests of an input. `Some` ends the loop, with the signal of the key if it has one.
#[allow(clippy::option_option, reason = "outer: whether to end; inner: with which signal")]
fn carry_out<B: Backend>(
    effect: Effect,
    wires: &Wires,
    painter: &mut Painter<B>,
    inside: &mut Inside<'_>,
    outside: &mut dyn FnMut(Outside<'_>) -> Option<String>,
) -> Result<Option<Option<i32>>, B::Error> {
    for command in effect.commands {
        send(wires, command);
    }
    if effect.suspend {
        outside(Outside::Signal(Signal::Stop));
    }
    if let Some(text) = &effect.copy {
        outside(Outside::Copy(text));
    }
    if effect.export {
        inside.app.ctx.notice = outside(Outside::Export(inside.state));
    }
    if effect.baseline {
        inside.app.ctx.notice = outside(Outside::Baseline(inside.state));
    }
    let lent = !effect.lend.is_empty();
    if lent {
        let refused = outside(Outside::Lend);
        if refused.is_none() {
            effect.lend.into_iter().for_each(|command| send(wires, command));
        }
        inside.app.ctx.notice = refused;
        // Ctrl-C at the password prompt is for sudo, but the signal reaches all processes of the terminal.
        std::thread::sleep(Duration::from_millis(20));
        for signal in wires.signals.try_iter() {
            if let Signal::End(number) = signal
                && !matches!(number, libc::SIGINT | libc::SIGQUIT)
            {
                send(wires, Command::Quit);
                return Ok(Some(Some(number)));
            }
        }
    }
    if effect.suspend || effect.repaint || lent {
        painter.measure()?;
    }
    Ok(if effect.interrupt {
        Some(Some(libc::SIGINT))
    } else if effect.quit {
        Some(None)
    } else {
        None
    })
}

/// Sends a command. If the session has ended, the command is dropped without a message, because the screen shows that
/// it has ended.
fn send(wires: &Wires, command: Command) {
    let _ = wires.feed.commands.send(command);
}

/// The state of the event queue after a batch.
struct Taken {
    /// Whether the queue contained any event.
    any: bool,
    /// Whether the queue is empty now.
    all: bool,
}

/// Applies the events that have arrived. The number is limited, so that keys never wait for a long queue.
fn take_events(wires: &mut Wires, state: &mut State, app: &mut App) -> Taken {
    let mut any = false;
    for _ in 0..BATCH {
        match wires.feed.events.try_recv() {
            Ok(event) => state.reduce(&event),
            Err(crossbeam_channel::TryRecvError::Empty) => return Taken { any, all: true },
            Err(crossbeam_channel::TryRecvError::Disconnected) => {
                any |= !app.ctx.over;
                app.ctx.over = true;
                wires.feed.events = never();
                break;
            }
        }
        any = true;
    }
    Taken { any, all: false }
}

/// Whether the screen changes without events, such as the elapsed time of a live run.
fn moves(state: &State, app: &App) -> bool {
    (!app.ctx.over && !app.ctx.replay && state.running_lane().is_some()) || app.screen().plays()
}

/// Decides when to draw a frame.
#[derive(Debug)]
struct Pace {
    /// Minimum time between two frames that are caused by session events.
    frame: Duration,
    last_frame: Option<Instant>,
    last_event: Instant,
    wanted_at: Option<Instant>,
    /// Number of known messages, and the time at which the newest one is no longer shown.
    messages: (usize, Option<Instant>),
}

impl Pace {
    fn new(frame: Duration) -> Self {
        let now = Instant::now();
        Self { frame, last_frame: None, last_event: now, wanted_at: Some(now), messages: (0, None) }
    }

    fn want(&mut self, gap: Duration) {
        let now = Instant::now();
        let at = self.last_frame.map_or(now, |last| (last + gap).max(now));
        self.wanted_at = Some(self.wanted_at.map_or(at, |before| before.min(at)));
    }

    fn news(&mut self) {
        self.last_event = Instant::now();
        self.want(self.frame);
    }

    /// Shows each message for a limited time. There is no timer when no message is shown.
    fn time_messages(&mut self, state: &State, app: &mut App) {
        let now = Instant::now();
        let (known, until) = self.messages;
        if state.messages.len() > known {
            self.messages = (state.messages.len(), Some(now + MESSAGE));
        } else if until.is_some_and(|until| until <= now) {
            app.ctx.messages_seen = known;
            self.messages.1 = None;
            self.want(KEY_FRAME);
        }
    }

    fn key(&mut self) {
        self.want(KEY_FRAME);
    }

    fn due(&self) -> bool {
        self.wanted_at.is_some_and(|at| at <= Instant::now())
    }

    /// Time since the last frame. It is zero if nothing was animated.
    fn since_frame(&self) -> Duration {
        self.last_frame.map_or(Duration::ZERO, |last| last.elapsed().min(self.frame * 2))
    }

    fn painted(&mut self, moves: bool) {
        let now = Instant::now();
        self.last_frame = Some(now);
        self.wanted_at = moves.then(|| now + self.frame);
    }

    /// Whether a frame is already scheduled. Later events will be visible in it too.
    fn frame_is_coming(&self) -> bool {
        self.wanted_at.is_some()
    }

    fn wait(&self) -> Option<Duration> {
        let next = [self.wanted_at, self.messages.1].into_iter().flatten().min();
        next.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Current session time in nanoseconds: the time of the newest event plus, if a live run is running, the time
    /// since then.
    fn clock_ns(&self, state: &State, app: &App) -> u64 {
        let since = if !app.ctx.over && !app.ctx.replay && state.running_lane().is_some() {
            self.last_event.elapsed().as_nanos() as u64
        } else {
            0
        };
        state.now_ns.saturating_add(since)
    }
}
