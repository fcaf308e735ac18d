//! Tests with random events, keys and sizes: nothing panics, and nothing is drawn outside the frame.

use super::{app, environment, frame, learn, race, system, tensors};
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::core::{Event, EventBody, LaneId, Metric, PackedSpans, Sample, Span};
use crate::present::lesson::Lesson;
use crate::session::State;
use crate::tui::app::App;
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata::{self, Scene, events};
use crate::tui::theme::Theme;
use crate::tui::widgets::scroll::Scroll;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};

/// A small random number generator with a seed. Its quality does not matter here.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides.max(1)
    }
}

/// The events of a scene: some are lost, some have another time, and some are damaged.
fn damaged(dice: &mut Dice) -> Vec<Event> {
    let scene = Scene::ALL[dice.roll(5) as usize];
    let mut tape = events(scene);
    let keep = dice.roll(tape.len() as u64) as usize;
    tape.truncate(keep);
    let lossy = dice.roll(3) == 0;
    tape.retain(|_| !lossy || dice.roll(4) > 0);
    if dice.roll(3) == 0 && tape.len() > 2 {
        for _ in 0..20 {
            let (a, b) = (dice.roll(tape.len() as u64) as usize, dice.roll(tape.len() as u64) as usize);
            tape.swap(a, b);
        }
    }
    for event in &mut tape {
        if dice.roll(8) == 0 {
            spoil(event, dice);
        }
    }
    tape
}

fn spoil(event: &mut Event, dice: &mut Dice) {
    let huge = [0, 1, u64::MAX, u64::MAX / 2, 1 << 40][dice.roll(5) as usize];
    let strange = [
        "",
        "\u{1b}[2J\n\t",
        "漢字のとても長い名前",
        "e\u{301}\u{200b}",
        "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    ];
    let strange = strange[dice.roll(5) as usize];
    match &mut event.body {
        EventBody::LaneProgress { landed_bytes, verified_bytes, .. } => (*landed_bytes, *verified_bytes) = (huge, huge),
        EventBody::LaneFinished { result, .. } => {
            result.wall_ns = huge;
            result.bytes = huge;
            result.bytes_per_s = f64::NAN;
            result.verified = None;
        }
        EventBody::LaneSpans { spans, .. } => {
            let span = Span {
                start_ns: 7,
                end_ns: huge,
                bytes: huge,
                slot: 9,
                phase: crate::core::Phase::Copy,
                tensor: None,
                offset: 0,
            };
            *spans = PackedSpans::pack(&[span]);
        }
        EventBody::CheckDone { finding } => {
            finding.summary = strange.repeat(9);
        }
        EventBody::VerdictReached { verdict } => {
            verdict.path = strange.into();
            verdict.blockers = crate::core::CheckId::ALL[..12].to_vec();
        }
        EventBody::MachineSeen { machine } => machine.host = strange.repeat(20),
        EventBody::ModelOpened { model } => {
            model.name = strange.into();
            model.tensors.clear();
        }
        EventBody::LanePlanned { engine, repeat, .. } => {
            *engine = crate::core::Engine::Command(strange.into());
            *repeat = 3;
        }
        EventBody::Sampled { sample } => {
            *sample = Sample {
                lane: Some(LaneId(dice.roll(6) as u32)),
                values: [
                    (Metric::LaneRssBytes, f64::INFINITY),
                    (Metric::GpuMemoryBytes, f64::NAN),
                    (Metric::PcieRxBytesPerS, -1e300),
                ]
                .into(),
            };
        }
        _ => event.at_ns = huge / 3,
    }
}

/// A random key, click, wheel step or pasted text.
fn input(dice: &mut Dice, (w, h): (u16, u16)) -> Input {
    const CODES: [KeyCode; 12] = [
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::PageDown,
        KeyCode::PageUp,
        KeyCode::End,
        KeyCode::Home,
        KeyCode::Backspace,
    ];
    let key = |code| Input::Key(KeyEvent::new(code, KeyModifiers::NONE));
    match dice.roll(12) {
        0..3 => key(CODES[dice.roll(12) as usize]),
        // The keys of the screens, and all letters.
        3..5 => key(KeyCode::Char(char::from(b'1' + dice.roll(6) as u8))),
        5..10 => key(KeyCode::Char(char::from(b' ' + dice.roll(95) as u8))),
        10 => {
            let (column, row) = (dice.roll(u64::from(w) + 2) as u16, dice.roll(u64::from(h) + 2) as u16);
            let kinds = [MouseEventKind::Down(MouseButton::Left), MouseEventKind::ScrollDown, MouseEventKind::ScrollUp];
            let kind = kinds[dice.roll(3) as usize];
            Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
        }
        _ => Input::Paste("mlp.\u{1b}[0m漢".into()),
    }
}

/// Opens sheets on top of a screen without their keys.
fn overlay(ui: &mut App, dice: &mut Dice) {
    static LESSON: LazyLock<Result<Arc<Lesson>, String>> = LazyLock::new(|| Lesson::load().map(Arc::new));
    match dice.roll(8) {
        0 => ui.help = Some(Scroll::default()),
        1 => environment(ui).open_fix(crate::core::FixId::UdevRecord),
        2 => environment(ui).open_fix(crate::core::FixId::MoveModel),
        3 => (system(ui).open, system(ui).pid) = (true, Some([4711, 991, 1][dice.roll(3) as usize])),
        4 => (tensors(ui).open, tensors(ui).at) = (true, dice.roll(1 << 20) as usize),
        5 => learn(ui).lesson = Some(LESSON.clone()),
        6 => learn(ui).lesson = Some(Err("no".into())),
        _ => race(ui).expanded = true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_state_no_key_and_no_size_panics(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let mut state = State::default();
        let mut ui = app(ScreenId::Environment);
        ui.ctx.replay = dice.roll(2) == 0;
        let theme = Theme::new(Taste {
            theme: ThemeName::ALL[dice.roll(5) as usize],
            depth: [ColourDepth::Ansi16, ColourDepth::Ansi256, ColourDepth::True][dice.roll(3) as usize],
            ascii: dice.roll(2) == 0,
            ..Taste::default()
        });
        let tape = damaged(&mut dice);
        let often = 1 + dice.roll(60);
        for event in &tape {
            state.reduce(event);
            if dice.roll(often) == 0 {
                let size = (dice.roll(210) as u16, dice.roll(64) as u16);
                if dice.roll(3) == 0 {
                    overlay(&mut ui, &mut dice);
                }
                ui.input(&input(&mut dice, size), &state);
                frame(&state, &mut ui, &theme, size.0, size.1);
            }
        }
        if dice.roll(3) == 0 {
            state = testdata::in_use(state, dice.roll(2) == 0);
        }
        for (w, h) in [(0, 0), (1, 1), (39, 9), (40, 10), (41, 80), (250, 11), (120, 36)] {
            overlay(&mut ui, &mut dice);
            ui.input(&input(&mut dice, (w, h)), &state);
            frame(&state, &mut ui, &theme, w, h);
            ui.tick(std::time::Duration::from_millis(dice.roll(9000)));
        }
    }
}
