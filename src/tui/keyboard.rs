//! Reads the keyboard on a thread, which can be paused while another program uses the terminal.

use super::background::{Answer, Heard};
use crate::config::Background;
use crossbeam_channel::{Receiver, bounded};
use crossterm::event::Event as Input;
use signal_hook::consts::SIGWINCH;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Time limit for the thread to pause.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the thread must pause, and whether it has paused.
#[derive(Debug, Default)]
struct Wish {
    rest: bool,
    rests: bool,
}

/// Pauses and resumes the thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Arc<(Mutex<Wish>, Condvar)>);

impl Gate {
    /// Waits until the thread has paused. Returns false if it did not pause in time.
    pub(super) fn pause(&self) -> bool {
        let (wish, changed) = &*self.0;
        let mut wish = wish.lock().unwrap_or_else(PoisonError::into_inner);
        wish.rest = true;
        // The thread is blocked in a read. Only SIGWINCH wakes it, even if the size of the terminal is unchanged.
        if signal_hook::low_level::raise(SIGWINCH).is_err() {
            return false;
        }
        let (wish, _) =
            changed.wait_timeout_while(wish, PATIENCE, |wish| !wish.rests).unwrap_or_else(PoisonError::into_inner);
        wish.rests
    }

    /// Lets the thread read again.
    pub(super) fn resume(&self) {
        let (wish, changed) = &*self.0;
        wish.lock().unwrap_or_else(PoisonError::into_inner).rest = false;
        changed.notify_all();
    }

    /// Waits while a pause is requested. Returns whether there was a pause.
    fn rest(&self) -> bool {
        let (wish, changed) = &*self.0;
        let mut wish = wish.lock().unwrap_or_else(PoisonError::into_inner);
        if !wish.rest {
            return false;
        }
        wish.rests = true;
        changed.notify_all();
        let mut wish = changed.wait_while(wish, |wish| wish.rest).unwrap_or_else(PoisonError::into_inner);
        wish.rests = false;
        true
    }
}

/// The channels of the keyboard thread.
#[derive(Debug)]
pub(super) struct Keyboard {
    pub(super) input: Receiver<Input>,
    /// The background colour of the terminal, if it was queried and the terminal reports it.
    pub(super) background: Receiver<Background>,
    pub(super) gate: Gate,
}

/// Starts the thread that reads the keyboard. It ends with the process, because a blocked read cannot be cancelled.
/// `asked` is whether the background colour was queried.
pub(super) fn listen(asked: bool) -> io::Result<Keyboard> {
    let (sender, input) = bounded(256);
    let (found, background) = bounded(1);
    let gate = Gate::default();
    let theirs = gate.clone();
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        let mut answer = asked.then(Answer::default);
        while let Ok(input) = crossterm::event::read() {
            // An input that was read during a pause is dropped. It is the size event that woke the thread, or a key
            // for the other program.
            if theirs.rest() {
                continue;
            }
            let inputs = match answer.as_mut().map(|answer| answer.hear(input.clone())) {
                None => vec![input],
                Some(Heard::Inputs(inputs)) => inputs,
                Some(Heard::Background(seen)) => {
                    answer = None;
                    seen.into_iter().for_each(|seen| _ = found.send(seen));
                    Vec::new()
                }
            };
            if inputs.into_iter().any(|input| sender.send(input).is_err()) {
                break;
            }
        }
    })?;
    Ok(Keyboard { input, background, gate })
}
