//! Tests of charts: cursor, zoom, pan, hold and clicks, and the widget with any data at any size.

use super::{app, frame, race, system, text};
use crate::config::{Markers, Taste};
use crate::core::CacheState;
use crate::session::State;
use crate::tui::app::App;
use crate::tui::context::Ui;
use crate::tui::pen::Pen;
use crate::tui::screen_id::ScreenId;
use crate::tui::screens::{race::charts, system as system_screen};
use crate::tui::testdata::{self, Scene};
use crate::tui::theme::Theme;
use crate::tui::widgets::chart::{Chart, Extras};
use crate::tui::widgets::series::Series;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

fn keys(ui: &mut App, state: &State, keys: &str) {
    for c in keys.chars() {
        let code = match c {
            '<' => KeyCode::Left,
            '>' => KeyCode::Right,
            c => KeyCode::Char(c),
        };
        ui.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), state);
    }
}

fn mouse(ui: &mut App, state: &State, kind: MouseEventKind, (column, row): (u16, u16)) {
    ui.input(&Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }), state);
}

/// The complete time range of the charts on the Race screen.
fn race_full(state: &State, ui: &mut App) -> (f64, f64) {
    let ctx = ui.ctx.clone();
    charts::full_range(state, &Ui { ctx: &ctx, screen: race(ui) })
}

fn system_full(state: &State, ui: &mut App) -> (f64, f64) {
    let ctx = ui.ctx.clone();
    system_screen::full_range(state, &Ui { ctx: &ctx, screen: system(ui) })
}

fn race_of(scene: Scene) -> (State, App) {
    (testdata::state(scene), app(ScreenId::Race))
}

#[test]
fn all_charts_have_the_cursor_at_one_time() {
    let (state, mut ui) = race_of(Scene::Done);
    frame(&state, &mut ui, &Theme::new(Taste::default()), 200, 60);
    keys(&mut ui, &state, "<<<<<");
    let shown = text(&frame(&state, &mut ui, &Theme::new(Taste::default()), 200, 60));
    let times: Vec<&str> = shown.split(" at ").skip(1).filter_map(|rest| rest.split(" s ").next()).collect();
    assert!(times.len() >= 2 && times.iter().all(|time| *time == times[0]), "{times:?}\n{shown}");
}

#[test]
fn zoom_pan_and_the_brackets_move_what_is_shown_and_the_right_end_follows_again() {
    let (state, mut ui) = race_of(Scene::Live);
    frame(&state, &mut ui, &Theme::new(Taste::default()), 120, 36);
    let full_range = race_full(&state, &mut ui);
    keys(&mut ui, &state, "[");
    assert_eq!(race(&mut ui).time.window(full_range), full_range, "nothing is outside the complete time");
    keys(&mut ui, &state, "++[");
    let (from, to) = race(&mut ui).time.window(full_range);
    assert!(to < full_range.1 && (to - from) < (full_range.1 - full_range.0) / 3.0);
    keys(&mut ui, &state, "],.].");
    let later = (full_range.0, full_range.1 + 5.0);
    assert_eq!(race(&mut ui).time.window(later).1, later.1);
    keys(&mut ui, &state, "0");
    assert_eq!(race(&mut ui).time.window(full_range), full_range);
}

#[test]
fn space_holds_the_charts_of_a_live_race_still_and_lets_go() {
    let (mut state, mut ui) = race_of(Scene::Live);
    let theme = Theme::new(Taste::default());
    frame(&state, &mut ui, &theme, 120, 36);
    keys(&mut ui, &state, " ");
    let held = race_full(&state, &mut ui);
    assert!(text(&frame(&state, &mut ui, &theme, 120, 36)).contains("held still"));
    state.now_ns += 3_000_000_000;
    let shown = text(&frame(&state, &mut ui, &theme, 120, 36));
    assert_eq!(race_full(&state, &mut ui), held, "{shown}");
    keys(&mut ui, &state, " ");
    frame(&state, &mut ui, &theme, 120, 36);
    assert!(race_full(&state, &mut ui).1 > held.1 + 2.0);
}

#[test]
fn a_click_puts_the_cursor_there_and_the_wheel_over_a_chart_zooms() {
    let (state, mut ui) = race_of(Scene::Done);
    let theme = Theme::new(Taste::default());
    let shown = text(&frame(&state, &mut ui, &theme, 120, 36));
    let row = shown.lines().position(|line| line.contains("Bandwidth")).unwrap() as u16 + 5;
    mouse(&mut ui, &state, MouseEventKind::Down(MouseButton::Left), (20, row));
    let at = race(&mut ui).time.cursor.expect("a cursor");
    mouse(&mut ui, &state, MouseEventKind::ScrollUp, (20, row));
    assert!(race(&mut ui).time.zoomed());
    let full_range = race_full(&state, &mut ui);
    let (from, to) = race(&mut ui).time.window(full_range);
    assert!(from <= at && at <= to, "{from} {at} {to}");
    mouse(&mut ui, &state, MouseEventKind::ScrollDown, (20, row));
    assert!(!race(&mut ui).time.zoomed());
}

#[test]
fn markers_change_what_lines_are_drawn_with() {
    for (markers, glyphs) in [(Markers::Braille, "⠤⣀⡇⠒"), (Markers::Block, "▄▀▌▖"), (Markers::Ascii, ".':")]
    {
        let (state, mut ui) = race_of(Scene::Done);
        let theme = Theme::with(Taste::default(), None, Some(markers));
        let shown = text(&frame(&state, &mut ui, &theme, 120, 36));
        let charts = shown.split("Bandwidth").nth(1).unwrap();
        assert!(glyphs.chars().any(|glyph| charts.contains(glyph)), "{markers:?}\n{shown}");
        let braille = charts.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
        assert_eq!(braille, markers == Markers::Braille);
    }
}

proptest! {
    #[test]
    fn no_data_at_no_size_panics(
        mut points in prop::collection::vec((-1e6..1e6_f64, prop::num::f64::ANY), 0..300),
        width in 0_u16..140, height in 0_u16..50, x in (prop::num::f64::ANY, prop::num::f64::ANY),
        cursor in prop::option::of(prop::num::f64::ANY), level in prop::num::f64::ANY, event in prop::num::f64::ANY,
        gap in 0.0..1e6_f64, right in any::<bool>(),
    ) {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let series =
            [Series { name: "漢字 and more".to_owned(), marker: '●', style: Style::new(), points, gap, right }];
        let mut buffer = Buffer::empty(Rect::new(0, 0, 100, 40));
        let theme = Theme::new(Taste::default());
        let chart = Chart { series: &series, x, ceiling: Some((level, "link".to_owned())), cursor, empty: "none" };
        let extras = Extras {
            ceilings: vec![(event, "other".to_owned())],
            events: vec![(event, "loaded".to_owned())],
            margin: width / 3,
        };
        chart.draw_with(&mut Pen::new(&mut buffer, Rect::new(3, 2, width, height)), &theme, &extras);
    }
}

#[test]
fn the_charts_of_the_system_screen_have_a_cursor_that_stays_at_its_time_and_can_be_held() {
    let mut state = testdata::in_use(testdata::state(Scene::Live), true);
    let mut ui = app(ScreenId::System);
    let theme = Theme::new(Taste::default());
    ui.ctx.clock_ns = state.now_ns;
    frame(&state, &mut ui, &theme, 200, 60);
    keys(&mut ui, &state, "<<<");
    let at = system(&mut ui).time.cursor.expect("a cursor");
    assert!(text(&frame(&state, &mut ui, &theme, 200, 60)).contains(" at -"), "the time axis counts back from now");
    keys(&mut ui, &state, "++");
    assert!(system(&mut ui).time.zoomed() && !race(&mut ui).time.zoomed());
    keys(&mut ui, &state, " ");
    assert!(text(&frame(&state, &mut ui, &theme, 200, 60)).contains("held still"));
    let (newest, sample) = state.system.back().cloned().expect("a picture");
    let held = system_full(&state, &mut ui);
    state.system.push_back((newest + 2_000_000_000, sample));
    assert_eq!(system_full(&state, &mut ui), held, "later events wait");
    keys(&mut ui, &state, " ");
    assert!(system_full(&state, &mut ui).1 > held.1);
    assert_eq!(system(&mut ui).time.cursor, Some(at), "in the session's time it has not moved");
    frame(&state, &mut ui, &theme, 60, 20);
    keys(&mut ui, &state, "<");
    assert_eq!(system(&mut ui).time.cursor, Some(at), "without a chart there is nothing to read");
}

#[test]
fn long_names_of_a_legend_are_cut_so_that_all_have_room() {
    let line = |name: &str, marker| Series {
        name: name.to_owned(),
        marker,
        style: Style::new(),
        points: vec![(0.0, 1.0), (1.0, 2.0)],
        gap: f64::INFINITY,
        right: false,
    };
    let series = [line("python3 /opt/loaders/load.py --all", 'a'), line("mmap", 'b'), line("pread", 'c')];
    let area = Rect::new(0, 0, 44, 12);
    let mut buffer = Buffer::empty(area);
    let chart = Chart { series: &series, x: (0.0, 1.0), ceiling: None, cursor: None, empty: "" };
    chart.draw(&mut Pen::new(&mut buffer, area), &Theme::new(Taste::default()));
    let legend: String = (0..44).map(|x| buffer[(x, 0)].symbol()).collect();
    assert!(legend.contains("c pread") && legend.contains("b mmap") && legend.contains("a python3"), "{legend}");
}

#[test]
fn the_cursor_and_the_labels_of_the_time_axis_are_at_the_columns_of_the_data() {
    let theme = Theme::with(Taste::default(), None, Some(Markers::Braille));
    let mut labels = 0;
    for (width, at) in (30..100_u16).flat_map(|width| [2.0, 4.0, 5.0, 7.3, 8.0].map(|at| (width, at))) {
        // A peak below the ceiling, so that the cursor is visible above it.
        let points = vec![(0.0, 0.0), (at, 0.0), (at, 1.0), (at, 0.0), (10.0, 0.0)];
        let name = String::new();
        let series = [Series { name, marker: 'x', style: Style::new(), points, gap: f64::INFINITY, right: false }];
        let area = Rect::new(0, 0, width, 14);
        let mut buffer = Buffer::empty(area);
        let ceiling = Some((2.0, "top".to_owned()));
        let chart = Chart { series: &series, x: (0.0, 10.0), ceiling, cursor: Some(at), empty: "" };
        let plot = chart.draw(&mut Pen::new(&mut buffer, area), &theme).unwrap();
        let glyph = |x: u16, y: u16| buffer[(x, y)].symbol().chars().next().unwrap();
        // The lowest row has the rest of the line.
        let columns = |is: fn(char) -> bool| -> std::collections::BTreeSet<u16> {
            let has = |x: &u16| (plot.y..plot.bottom() - 1).any(|y| is(glyph(*x, y)));
            (plot.x..plot.right()).filter(has).collect()
        };
        let data = columns(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
        assert_eq!(data.len(), 1, "{width} {at}");
        assert_eq!(columns(|c| c == '│'), data, "{width} {at}");
        let line: String = (plot.x..plot.right()).map(|x| glyph(x, 13)).collect();
        let mut start = plot.x;
        for word in line.split(' ') {
            let long = word.chars().count() as u16;
            if word.parse::<f64>() == Ok(at) {
                assert!(data.contains(&(start + (long - 1) / 2)), "{width} {at} {line}");
                labels += 1;
            }
            start += long + 1;
        }
    }
    assert!(labels > 50, "{labels}");
}

#[test]
fn a_longer_bar_is_a_longer_time_during_a_race_and_after_it() {
    for (scene, slower, faster) in [(Scene::Live, "mmap", "pread"), (Scene::Done, "mmap", "gds-slab")] {
        let shown =
            text(&frame(&testdata::state(scene), &mut app(ScreenId::Race), &Theme::new(Taste::default()), 120, 36));
        let bar = |engine: &str| {
            let row = shown.lines().find(|line| line.contains(engine) && line.contains('▆')).unwrap();
            row.matches('▆').count()
        };
        assert!(bar(slower) > bar(faster), "{scene:?}\n{shown}");
    }
}

#[test]
fn after_the_race_the_engines_are_in_the_order_of_their_places() {
    let state = testdata::state(Scene::Done);
    let groups = crate::present::row_groups(&state);
    let times: Vec<u64> = groups[0].rows.iter().filter_map(crate::present::EngineRow::wall_ns).collect();
    assert!(times.len() > 3 && times.is_sorted(), "{times:?}");
    let live = testdata::state(Scene::Live);
    let first = crate::present::row_groups(&live)[0].rows[0].engine.clone();
    assert_eq!(first, crate::core::Engine::Mmap, "during the race the order is that of the runs");
}

#[test]
fn a_rate_from_the_page_cache_is_not_shown_as_a_rate_of_the_storage() {
    let mut state = testdata::state(Scene::Done);
    let shown =
        |state: &State| text(&frame(state, &mut app(ScreenId::Environment), &Theme::new(Taste::default()), 200, 60));
    assert!(!shown(&state).contains("at best"), "all loads of the scene are hot");
    state.lanes.iter_mut().for_each(|lane| lane.cache = CacheState::Cold);
    assert!(shown(&state).contains("at best"));
}

#[test]
fn a_rate_meter_is_a_gap_for_a_load_that_is_shorter_than_its_average() {
    let mut state = testdata::state(Scene::Done);
    let meter = |state: &State| {
        let mut ui = app(ScreenId::Race);
        (ui.ctx.entry, race(&mut ui).expanded, race(&mut ui).chart) = (Some(0), true, 2);
        text(&frame(state, &mut ui, &Theme::new(Taste::default()), 120, 36)).matches('▪').count()
    };
    let metered = meter(&state);
    for lane in &mut state.lanes {
        let clock = lane.clock_ns.unwrap_or(0);
        lane.ended_ns = Some(clock + 40_000_000);
        lane.result.iter_mut().for_each(|run| run.wall_ns = 40_000_000);
    }
    assert!(meter(&state) < metered, "{metered}");
}

#[test]
fn the_panes_of_a_race_do_not_move_while_its_loads_end() {
    let theme = Theme::new(Taste::default());
    for (w, h) in [(120, 36), (120, 44), (200, 60)] {
        let (mut state, mut ui) = (crate::session::State::default(), app(ScreenId::Race));
        let mut rows = std::collections::BTreeSet::new();
        for event in testdata::events(Scene::Done) {
            state.reduce(&event);
            ui.ctx.clock_ns = state.now_ns;
            let ended = matches!(event.body, crate::core::EventBody::LaneFinished { .. });
            if !ended && !matches!(event.body, crate::core::EventBody::LaneStage { .. }) {
                continue;
            }
            let shown = text(&frame(&state, &mut ui, &theme, w, h));
            rows.insert(shown.lines().position(|line| line.contains("╭ Bandwidth")));
        }
        assert_eq!(rows.len(), 1, "{w}x{h}: {rows:?}");
    }
}

#[test]
fn an_engine_that_cannot_run_can_be_selected_and_its_reason_is_shown_in_full() {
    let state = testdata::state(Scene::NoGpu);
    let (mut ui, theme) = (app(ScreenId::Race), Theme::new(Taste::default()));
    let refused = crate::present::engine_rows::unavailable(&state);
    assert!(!refused.is_empty());
    frame(&state, &mut ui, &theme, 80, 24);
    keys(&mut ui, &state, "G");
    assert_eq!(race(&mut ui).refused, Some(refused.len() - 1));
    let notice = ui.ctx.notice.clone().unwrap_or_default();
    assert!(notice.contains(&refused[refused.len() - 1].1), "{notice}");
    let shown = text(&frame(&state, &mut ui, &theme, 80, 24));
    assert!(shown.contains('▸') && shown.lines().last().unwrap().contains("q quit"), "the keys stay: {shown}");
    keys(&mut ui, &state, "g");
    assert_eq!(race(&mut ui).refused, None);
}
