//! Shows the screens with made-up data, for looking at them while they are drawn: `cargo run --example face -- [SCENE] [THEME] [SCREEN]`.
//! Nothing that it shows was measured. SCENE is loading, live, done, failed, no-gpu, mending or story (a race in real time).

#![allow(clippy::print_stdout, clippy::panic, missing_docs, dead_code, unreachable_pub)]

use gds_top::config::Taste;
use gds_top::session::{Command, Feed};
use gds_top::tui::{self, Options, Screen};
use gds_top::{domain, session};

#[path = "../src/tui/testdata.rs"]
mod testdata;

fn main() -> std::io::Result<()> {
    let word = |n: usize| std::env::args().nth(n).unwrap_or_default();
    let theme = word(2).parse().ok();
    let scene = testdata::Scene::ALL.into_iter().find(|s| s.name() == word(1));
    let story = scene.is_none();
    let events = testdata::events(scene.unwrap_or(testdata::Scene::Done));
    let (event_sender, event_receiver) = crossbeam_channel::unbounded();
    let (command_sender, command_receiver) = crossbeam_channel::unbounded();
    std::thread::spawn(move || {
        let started = std::time::Instant::now();
        for event in events {
            if story {
                let due = std::time::Duration::from_nanos(event.at_ns);
                std::thread::sleep(due.saturating_sub(started.elapsed()));
            }
            if event_sender.send(event).is_err() {
                return;
            }
        }
        // The channel stays open, as it does in a session that waits for commands.
        while let Ok(command) = command_receiver.recv() {
            if command == Command::Quit {
                return;
            }
        }
    });
    let feed = Feed { events: event_receiver, commands: command_sender, replay: false };
    let taste = Taste::detect(theme, |name| std::env::var(name).ok());
    let number = word(3).parse::<usize>().unwrap_or(1);
    let first_screen = Screen::ALL.get(number.saturating_sub(1)).copied().unwrap_or_default();
    let outcome = tui::run(feed, Options { taste, first_screen, speed: 1 })?;
    println!("quit {} signal {:?} lanes {}", outcome.quit, outcome.signal, outcome.state.lanes.len());
    Ok(())
}
