//! Random events, random keys, random sizes: nothing panics and nothing is drawn outside of the frame.

use super::frame;
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::domain::{Event, EventBody, LaneId, Metric, Sample, Span, SpanBatch};
use crate::session::State;
use crate::tui::app::UiState;
use crate::tui::testdata::{Scene, events};
use crate::tui::theme::Theme;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;

/// Small and reproducible; its quality does not matter here.
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

/// The events of a scene with some lost, some moved in time, some spoilt.
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
                phase: crate::domain::Phase::Copy,
                tensor: None,
                offset: 0,
            };
            *spans = SpanBatch::pack(&[span]);
        }
        EventBody::CheckDone { finding } => {
            finding.id = strange.into();
            finding.summary = strange.repeat(9);
        }
        EventBody::VerdictReached { verdict } => {
            verdict.path = strange.into();
            verdict.blockers = vec![strange.into(); 12];
        }
        EventBody::MachineSeen { machine } => machine.host = strange.repeat(20),
        EventBody::ModelOpened { model } => {
            model.name = strange.into();
            model.tensors.clear();
        }
        EventBody::LanePlanned { engine, repeat, .. } => {
            *engine = crate::domain::Engine::Command(strange.into());
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

fn key(dice: &mut Dice) -> Input {
    const CODES: [KeyCode; 16] = [
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::PageDown,
        KeyCode::End,
        KeyCode::Home,
        KeyCode::Backspace,
        KeyCode::Char('/'),
        KeyCode::Char('f'),
        KeyCode::Char('?'),
        KeyCode::Char('n'),
        KeyCode::Char('v'),
    ];
    let at = dice.roll(22) as usize;
    let code = CODES.get(at).copied().unwrap_or_else(|| KeyCode::Char(char::from(b'0' + (at as u8 - 16) * 9)));
    Input::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_state_no_key_and_no_size_panics(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let mut state = State::default();
        let mut ui = UiState { replay: dice.roll(2) == 0, ..UiState::default() };
        let theme = Theme::new(Taste {
            theme: ThemeName::ALL[dice.roll(5) as usize],
            depth: [ColourDepth::Ansi16, ColourDepth::Ansi256, ColourDepth::True][dice.roll(3) as usize],
            ascii: dice.roll(2) == 0,
        });
        let tape = damaged(&mut dice);
        let often = 1 + dice.roll(60);
        for event in &tape {
            state.reduce(event);
            if dice.roll(often) == 0 {
                ui.input(&key(&mut dice), &state);
                frame(&state, &mut ui, &theme, dice.roll(210) as u16, dice.roll(64) as u16);
            }
        }
        for (w, h) in [(0, 0), (1, 1), (39, 9), (40, 10), (41, 80), (250, 11), (120, 36)] {
            ui.input(&key(&mut dice), &state);
            frame(&state, &mut ui, &theme, w, h);
        }
    }
}
