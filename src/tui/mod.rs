//! The screens: they draw the `State` and convert keys to commands. This module does not use files, devices or
//! engines.
//!
//! [`run`] owns the terminal until it returns. Drawing is a pure function: `screens::draw` fills a buffer from the
//! [`State`], the user's choices and a theme. So every screen can be tested without a terminal.

mod app;
mod ascii;
mod background;
mod clicks;
mod clipboard;
mod commands;
mod context;
mod effect;
mod event_loop;
mod everywhere;
mod frame;
mod help;
mod jobs;
mod keyboard;
mod keymap;
mod keys;
mod lane_stats;
mod layout;
mod off_screen;
mod painter;
mod pen;
mod remedy;
mod screen;
mod screen_id;
mod screens;
mod selection;
mod svg;
mod terminal;
mod theme;
mod widgets;
mod words;

#[cfg(test)]
mod testdata;
#[cfg(test)]
mod tests;

pub use keymap::Keymap;
pub use off_screen::OffScreen;
pub use screen_id::ScreenId;
pub(crate) use screens::learn::figure::lesson_figure;
pub use terminal::{LEAVE, has_terminal};

use crate::config::{FRAMES_PER_SECOND, Markers, Palette, Taste};
use crate::session::{Feed, State};
use app::App;
use context::Context;
use crossbeam_channel::{Receiver, Sender, bounded};
use event_loop::{Outside, Signal, Wires};
use keyboard::Keyboard;
use painter::Painter;
use ratatui::backend::CrosstermBackend;
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use signal_hook::iterator::Signals;
use std::io;
use std::time::Duration;
use terminal::{FrameWriter, Loan};
use theme::Look;

/// The options of the screens.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Theme, colours, ASCII mode.
    pub taste: Taste,
    /// The colours of a theme file, which replace those of the theme.
    pub palette: Option<Palette>,
    /// The characters for lines in charts.
    pub markers: Option<Markers>,
    /// Whether clicks and the wheel are left to the terminal.
    pub no_mouse: bool,
    /// Frames per second during animations; `None` means [`crate::config::FRAMES_PER_SECOND`].
    pub frames_per_second: Option<u32>,
    /// The keys.
    pub keys: Keymap,
    /// The screen that is shown first.
    pub first_screen: ScreenId,
    /// Whether the session shows a captured machine. Then processes of this machine are not shown.
    pub captured: bool,
    /// Live only: whether the session examines this machine only on request.
    pub unasked: bool,
    /// Whether there is only the first screen, without the keys that run, change or write something.
    pub alone: bool,
    /// Replay only: the initial speed in sixteenths of real time; 0 means as fast as possible.
    pub speed: u32,
    /// Writes the report files and returns a message with their location. `None`: the screens cannot export.
    pub export: Option<fn(&State) -> String>,
    /// Saves the report as a baseline and returns a message with its location.
    pub baseline: Option<fn(&State) -> String>,
    /// Lets sudo authenticate the user on the terminal, before a fix that needs root. `None` if no fix needs sudo. An
    /// error is a message with the reason.
    pub authorize: Option<fn() -> Result<(), String>>,
    /// Whether this user is root on a machine without sudo, so copied commands do not have it.
    pub is_root_without_sudo: bool,
}

/// The result when the screens have ended.
#[derive(Debug)]
pub struct Outcome {
    /// The state after all events that had arrived.
    pub state: State,
    /// Whether the user quit.
    pub quit: bool,
    /// The signal that ended the screens. It is SIGINT for Ctrl-C too, which arrives as a key.
    pub signal: Option<i32>,
}

/// Shows a session until the user quits or a signal ends it. The terminal is always restored when this function
/// returns, even after an error or a panic. [`crate::session::Command::Quit`] was sent then; the caller must wait for
/// the session's threads.
///
/// # Errors
/// Fails if standard input or output is not a terminal (the message suggests `--headless`), or if the terminal fails.
pub fn run(feed: Feed, options: Options) -> io::Result<Outcome> {
    let look = Look { taste: options.taste, palette: options.palette, markers: options.markers, asked: None };
    // A terminal that supports only ASCII may print the query.
    let asks = look.depends_on_background() && !options.taste.ascii;
    let loan = Loan::take(!options.no_mouse, asks)?;
    let signals = listen_to_signals()?;
    let Keyboard { input, background, gate } = keyboard::listen(asks)?;
    let mut painter = Painter::new(CrosstermBackend::new(FrameWriter::new(io::stdout())))?;
    let ctx = Context {
        replay: feed.replay,
        captured: options.captured,
        unasked: options.unasked,
        alone: options.alone,
        speed: options.speed,
        can_export: options.export.is_some(),
        keys: options.keys.bindings,
        needs_sudo: options.authorize.is_some(),
        is_root_without_sudo: options.is_root_without_sudo,
        theme: options.taste.theme,
        ..Context::default()
    };
    let app = App::new(options.first_screen, ctx);
    let frame = Duration::from_secs(1) / options.frames_per_second.unwrap_or(FRAMES_PER_SECOND).max(1);
    let mut trouble = None;
    let mut outside = |wish: Outside<'_>| {
        match wish {
            Outside::Signal(signal) => {
                if signal == Signal::Stop {
                    loan.pause();
                    // SIGSTOP cannot be caught, so the process waits inside this call until SIGCONT.
                    let _ = signal_hook::low_level::raise(SIGSTOP);
                }
                if let Err(error) = loan.resume() {
                    trouble = Some(error);
                }
            }
            Outside::Copy(text) => clipboard::copy(text),
            Outside::Baseline(state) => return options.baseline.map(|keep| keep(state)),
            Outside::Lend => {
                let authorize = options.authorize?;
                // Two programs that read the same keyboard would each get a part of the password.
                let rested = gate.pause();
                let done = if rested {
                    loan.pause();
                    let done = authorize();
                    if let Err(error) = loan.resume() {
                        trouble = Some(error);
                    }
                    done
                } else {
                    Err("the keyboard could not be lent to sudo; run the fix in another terminal".to_owned())
                };
                gate.resume();
                return done.err();
            }
            Outside::Export(state) => return options.export.map(|export| export(state)),
        }
        None
    };
    let ending =
        event_loop::run(&mut painter, Wires { feed, input, background, signals, frame }, app, look, &mut outside)?;
    drop(loan);
    if let Some(error) = trouble {
        return Err(error);
    }
    Ok(Outcome { state: ending.state, quit: ending.quit, signal: ending.signal })
}

/// Starts a thread that converts signals to messages, so that the thread that owns the terminal can restore it.
fn listen_to_signals() -> io::Result<Receiver<Signal>> {
    let (sender, receiver): (Sender<Signal>, Receiver<Signal>) = bounded(16);
    // Rare signals are handled too, because they would end the process and leave the terminal in raw mode.
    let strays = [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU];
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT].iter().chain(&strays))?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for number in signals.forever() {
            let signal = match number {
                SIGTSTP => Signal::Stop,
                SIGCONT => Signal::Continue,
                other => Signal::End(other),
            };
            if sender.send(signal).is_err() {
                break;
            }
        }
    })?;
    Ok(receiver)
}
