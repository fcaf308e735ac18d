//! Tests of the real event loop with events, keys and signals, on a backend that stores the frames.

use super::{app, text};
use crate::config::{Background, ColourDepth, Taste, ThemeName};
use crate::core::{Event, FixId, LaneStage, Status};
use crate::session::{Command, Feed};
use crate::tui::app::App;
use crate::tui::event_loop::{Ending, Signal, Wires, run};
use crate::tui::painter::Painter;
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata::{Scene, events};
use crate::tui::theme::{Look, Theme};
use crossbeam_channel::{Receiver, Sender, unbounded};
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use ratatui::backend::{Backend, ClearType, TestBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::Color;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Minimum time between two frames.
const FRAME: Duration = Duration::from_millis(100);
/// Time limit of the tests. It only prevents that a test hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// The current screen as text, for another thread.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<Mutex<String>>);

impl Seen {
    fn until(&self, wanted: &str) {
        let start = Instant::now();
        while !self.0.lock().unwrap().contains(wanted) {
            assert!(start.elapsed() < PATIENCE, "'{wanted}' never came: {}", self.0.lock().unwrap());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A backend that publishes each frame.
#[derive(Debug)]
struct Watched {
    inner: TestBackend,
    seen: Seen,
}

impl Backend for Watched {
    type Error = Infallible;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> Result<(), Infallible> {
        self.inner.draw(content)
    }
    fn hide_cursor(&mut self) -> Result<(), Infallible> {
        self.inner.hide_cursor()
    }
    fn show_cursor(&mut self) -> Result<(), Infallible> {
        self.inner.show_cursor()
    }
    fn get_cursor_position(&mut self) -> Result<Position, Infallible> {
        self.inner.get_cursor_position()
    }
    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), Infallible> {
        self.inner.set_cursor_position(position)
    }
    fn clear(&mut self) -> Result<(), Infallible> {
        self.inner.clear()
    }
    fn clear_region(&mut self, which: ClearType) -> Result<(), Infallible> {
        self.inner.clear_region(which)
    }
    fn size(&self) -> Result<Size, Infallible> {
        self.inner.size()
    }
    fn window_size(&mut self) -> Result<WindowSize, Infallible> {
        self.inner.window_size()
    }
    fn flush(&mut self) -> Result<(), Infallible> {
        self.inner.flush()?;
        *self.seen.0.lock().unwrap() = text(self.inner.buffer());
        Ok(())
    }
}

struct Stage {
    events: Option<Sender<Event>>,
    input: Sender<Input>,
    background: Sender<Background>,
    signals: Sender<Signal>,
    commands: Receiver<Command>,
    wires: Wires,
    painter: Painter<Watched>,
    seen: Seen,
}

impl Stage {
    fn new(tape: Vec<Event>, replay: bool) -> Self {
        let (events, event_receiver) = unbounded();
        let (command_sender, commands) = unbounded();
        let (input, input_receiver) = unbounded();
        let (signals, signal_receiver) = unbounded();
        for event in tape {
            events.send(event).unwrap();
        }
        let feed = Feed::new(event_receiver, command_sender, replay);
        let (background, background_receiver) = unbounded();
        let wires = Wires {
            feed,
            input: input_receiver,
            background: background_receiver,
            signals: signal_receiver,
            frame: FRAME,
        };
        let seen = Seen::default();
        let painter = Painter::new(Watched { inner: TestBackend::new(120, 36), seen: seen.clone() }).unwrap();
        Self { events: Some(events), input, background, signals, commands, wires, painter, seen }
    }

    fn keys(&self, keys: &str) {
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '>' => KeyCode::Right,
                'v' => KeyCode::Down,
                c => KeyCode::Char(c),
            };
            self.input.send(Input::Key(KeyEvent::new(code, KeyModifiers::NONE))).unwrap();
        }
    }

    /// The colour of a glyph in the last frame, after the loop has ended.
    fn colour_of(&mut self, glyph: &str) -> Color {
        self.painter.shown().content().iter().find(|cell| cell.symbol() == glyph).unwrap().fg
    }

    fn run(&mut self, ui: App) -> Ending {
        let (event_sender, signal_sender) = (unbounded().1, unbounded().1);
        let (_, commands) = (unbounded::<Command>(), unbounded().0);
        let idle = Wires {
            feed: Feed::new(event_sender, commands, false),
            input: unbounded().1,
            background: unbounded().1,
            signals: signal_sender,
            frame: FRAME,
        };
        let wires = std::mem::replace(&mut self.wires, idle);
        run(&mut self.painter, wires, ui, Look { taste: TASTE, ..Look::default() }, &mut |_| None).unwrap()
    }

    fn sent(&self) -> Vec<Command> {
        self.commands.try_iter().collect()
    }
}

const TASTE: Taste = Taste { theme: ThemeName::Auto, depth: ColourDepth::True, ascii: false, background: None };

fn ui(screen: ScreenId, replay: bool) -> App {
    let mut ui = app(screen);
    (ui.ctx.replay, ui.ctx.speed) = (replay, crate::session::REAL_TIME);
    ui
}

#[test]
fn q_ends_an_idle_session_and_sends_quit() {
    let mut stage = Stage::new(events(Scene::Done), false);
    stage.keys("q");
    let ending = stage.run(ui(ScreenId::Race, false));
    assert!(ending.quit && ending.signal.is_none());
    assert_eq!(ending.state.lanes.len(), 5);
    assert_eq!(stage.sent(), [Command::Quit]);
}

#[test]
fn q_asks_once_while_a_race_is_running() {
    let mut stage = Stage::new(events(Scene::Live), false);
    assert!(
        events(Scene::Live)
            .iter()
            .any(|e| matches!(e.body, crate::core::EventBody::LaneStage { stage: LaneStage::Loading, .. }))
    );
    stage.keys("qvq");
    stage.keys("q");
    let ending = stage.run(ui(ScreenId::Race, false));
    assert!(ending.quit);
    assert_eq!(stage.sent(), [Command::Quit], "the first q asked, the arrow took it back, then it was asked again");
}

#[test]
fn a_fix_is_applied_only_from_its_sheet() {
    let mut stage = Stage::new(events(Scene::Failed), false);
    stage.keys("adfda\u{1b}q");
    stage.run(ui(ScreenId::Environment, false));
    let (id, digest) = (FixId::UdevRecord, crate::tui::testdata::state(Scene::Failed).plans[0].digest());
    assert_eq!(stage.sent(), [Command::DryRunFix(id), Command::ApplyFix(id, digest), Command::Quit]);
}

#[test]
fn a_replay_is_paused_and_sped_up_but_changes_nothing() {
    let mut stage = Stage::new(events(Scene::Failed), true);
    stage.keys("r ]f a\u{1b}q");
    stage.run(ui(ScreenId::Environment, true));
    use Command::{Pause, Quit, Speed};
    assert_eq!(stage.sent(), [Pause(true), Speed(32), Pause(false), Quit]);
}

#[test]
fn a_filter_takes_letters_that_are_keys_elsewhere() {
    let mut stage = Stage::new(events(Scene::Failed), false);
    stage.keys("/qr\n");
    stage.keys("q");
    let ending = stage.run(ui(ScreenId::Environment, false));
    assert!(ending.quit);
    assert_eq!(stage.sent(), [Command::Quit]);
}

#[test]
fn the_colours_follow_the_background_that_the_terminal_reports() {
    for background in [None, Some(Background::Dark), Some(Background::Light)] {
        let mut stage = Stage::new(events(Scene::Done), true);
        background.iter().for_each(|background| stage.background.send(*background).unwrap());
        // The quit key ends the loop after the frame with the new background.
        let (input, events) = (stage.input.clone(), stage.events.take());
        let typist = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(1));
            input.send(Input::Key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE))).unwrap();
            drop(events);
        });
        stage.run(ui(ScreenId::Environment, true));
        typist.join().unwrap();
        let expected = Theme::new(Taste { background, ..TASTE }).status(Status::Pass).fg.unwrap();
        assert_eq!(stage.colour_of("✔"), expected, "{background:?}");
    }
}

#[test]
fn a_signal_ends_the_loop_and_is_named() {
    let mut stage = Stage::new(events(Scene::Live), false);
    stage.signals.send(Signal::End(15)).unwrap();
    let ending = stage.run(ui(ScreenId::Race, false));
    assert_eq!((ending.quit, ending.signal), (false, Some(15)));
    assert_eq!(stage.sent(), [Command::Quit]);
}

#[test]
fn when_the_feed_ends_the_screens_stay_until_the_user_leaves() {
    let mut stage = Stage::new(events(Scene::Live), true);
    stage.events = None;
    let (input, seen) = (stage.input.clone(), stage.seen.clone());
    let later = std::thread::spawn(move || {
        seen.until("replay, at its end");
        input.send(Input::Key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE))).unwrap();
    });
    let ending = stage.run(ui(ScreenId::Race, true));
    later.join().unwrap();
    assert!(ending.quit);
    let shown = text(stage.painter.shown());
    assert!(shown.contains("replay, at its end") && shown.contains("Qwen2.5-7B"), "{shown}");
}

#[test]
fn an_unchanged_frame_sends_nothing_and_a_resize_draws_everything() {
    let mut painter = Painter::new(TestBackend::new(80, 24)).unwrap();
    let draw = |buffer: &mut ratatui::buffer::Buffer| {
        buffer.set_string(0, 0, "same", ratatui::style::Style::new());
    };
    assert!(painter.paint(draw).unwrap());
    assert!(!painter.paint(draw).unwrap());
    painter.backend_mut().resize(60, 20);
    painter.measure().unwrap();
    assert!(painter.paint(draw).unwrap());
    assert!(!painter.backend_mut().cursor_visible());
}

#[test]
fn a_message_is_shown_until_a_key_is_pressed() {
    let mut tape = events(Scene::Done);
    let at_ns = tape.last().unwrap().at_ns;
    let body =
        crate::core::EventBody::Said { level: crate::core::LogLevel::Warn, text: "the disk is nearly full".into() };
    tape.push(Event { at_ns, body });
    let mut stage = Stage::new(tape, false);
    let (input, seen) = (stage.input.clone(), stage.seen.clone());
    let later = std::thread::spawn(move || {
        seen.until("▲ the disk is nearly full");
        input.send(Input::FocusGained).unwrap();
        input.send(Input::Key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE))).unwrap();
    });
    stage.run(ui(ScreenId::Race, false));
    later.join().unwrap();
    let shown = text(stage.painter.shown());
    assert!(shown.contains("▲ the disk is nearly full"), "{shown}");
}
