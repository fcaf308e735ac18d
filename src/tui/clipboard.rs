//! Copies text to the clipboard. It sends OSC 52 to the terminal, which also works over SSH.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::io::{self, Write};

/// Requests that the terminal copies the text. A terminal without OSC 52 ignores the request.
pub(crate) fn copy(text: &str) {
    let mut out = io::stdout();
    // An error is ignored, because the event loop detects a closed terminal.
    let _ = write!(out, "\x1b]52;c;{}\x07", BASE64_STANDARD.encode(text)).and_then(|()| out.flush());
}
