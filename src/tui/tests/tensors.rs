//! Tests of the Tensors screen: its orders, its filter, and the selected tensor.

use super::{app, tensors};
use crate::analysis::TensorRow;
use crate::core::LaneId;
use crate::session::State;
use crate::tui::app::App;
use crate::tui::jobs::lane::LaneJob;
use crate::tui::jobs::tensor_rows::{Sort, difference, rate_of};
use crate::tui::screen_id::ScreenId;
use crate::tui::testdata;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};

fn ordered(sort: Sort, reversed: bool, filter: &str) -> (App, State) {
    let state = testdata::many_tensors(2_000);
    let mut ui = app(ScreenId::Tensors);
    let screen = tensors(&mut ui);
    (screen.sort, screen.reversed, screen.filter) = (sort, reversed, filter.to_owned());
    ui.prepare(&state);
    (ui, state)
}

#[test]
fn every_order_holds_each_tensor_once_and_is_one() {
    for sort in [Sort::Time, Sort::Overhead, Sort::Moving, Sort::Share, Sort::Rate, Sort::Size, Sort::Name, Sort::File]
    {
        let (mut ui, state) = ordered(sort, false, "");
        let order = tensors(&mut ui).order.clone();
        let mut all = order.clone();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..2_000), "{sort:?}");
        let run = tensors(&mut ui).run(LaneId(0)).unwrap();
        let names = &state.model.as_ref().unwrap().tensors;
        for pair in order.windows(2) {
            let (a, b) = (&run.rows[pair[0] as usize], &run.rows[pair[1] as usize]);
            let right = match sort {
                Sort::Time => a.busy_ns() >= b.busy_ns(),
                Sort::Overhead => a.phases.overhead_ns() >= b.phases.overhead_ns(),
                Sort::Moving => a.busy_ns() - a.phases.overhead_ns() >= b.busy_ns() - b.phases.overhead_ns(),
                Sort::Share => a.overhead_fraction() >= b.overhead_fraction(),
                Sort::Rate => rate_of(a) <= rate_of(b),
                Sort::Size => a.bytes >= b.bytes,
                Sort::Name => names[pair[0] as usize].name <= names[pair[1] as usize].name,
                Sort::File | Sort::Difference => pair[0] < pair[1],
            };
            assert!(right, "{sort:?} {pair:?}");
        }
        tensors(&mut ui).reversed = true;
        ui.prepare(&state);
        assert!(tensors(&mut ui).order.iter().rev().eq(&order), "{sort:?}");
    }
}

#[test]
fn a_filter_finds_the_names_that_contain_it_in_any_case() {
    for (filter, wanted) in [("BLOCKS.19", 111), ("s.7", 111), ("blocks.1999", 1), ("nothing", 0), ("", 2_000)] {
        let (mut ui, state) = ordered(Sort::Name, false, filter);
        assert_eq!(tensors(&mut ui).order.len(), wanted, "{filter}");
        let names = &state.model.as_ref().unwrap().tensors;
        let contains = |t: &u32| names[*t as usize].name.contains(&filter.to_lowercase());
        assert!(tensors(&mut ui).order.iter().all(contains), "{filter}");
    }
}

#[test]
fn differences_are_sorted_with_their_sign_and_gaps_last() {
    let state = testdata::state(testdata::Scene::Done);
    let mut ui = app(ScreenId::Tensors);
    ui.prepare(&state);
    tensors(&mut ui).sort = Sort::Difference;
    ui.prepare(&state);
    let screen = tensors(&mut ui);
    let ours = screen.run(screen.lane.unwrap()).unwrap();
    let (_, theirs) = screen.other().expect("a run to compare with");
    let of = |t: &u32| difference(ours.points[*t as usize].1, theirs.points[*t as usize].1);
    let all: Vec<Option<i64>> = screen.order.iter().map(of).collect();
    assert!(all.windows(2).all(|pair| pair[0] >= pair[1]), "{all:?}");
    tensors(&mut ui).against = 99_999;
    ui.prepare(&state);
    let none = tensors(&mut ui).rival.is_none();
    assert!(!none || tensors(&mut ui).sort == Sort::Time);
}

#[test]
fn with_another_engine_the_same_tensor_stays_selected() {
    let state = testdata::state(testdata::Scene::Done);
    let mut ui = app(ScreenId::Tensors);
    ui.prepare(&state);
    tensors(&mut ui).at = 7;
    let tensor = tensors(&mut ui).tensor();
    ui.input(&Input::Key(KeyEvent::new(KeyCode::Char('l'), KeyModifiers::NONE)), &state);
    ui.prepare(&state);
    assert_eq!(tensors(&mut ui).tensor(), tensor);
    tensors(&mut ui).open = true;
    ui.prepare(&state);
    assert!(tensors(&mut ui).detail.as_ref().is_some_and(|d| !d.reads.is_empty()));
}

#[test]
fn the_times_of_all_tensors_add_up_to_no_more_than_the_load_in_every_run() {
    let state = crate::session::shipped::LARGE.state().unwrap();
    let mut parallel = 0;
    for lane in &state.lanes {
        let Some(run) = lane.result.as_deref() else { continue };
        let facts = LaneJob::of(&state, lane, true).run();
        let rows = facts.tensors.unwrap();
        let together: u64 = rows.points.iter().map(|(_, ns)| ns).sum();
        assert!(together <= run.wall_ns, "{}: {together} ns of {} ns", lane.engine, run.wall_ns);
        assert_eq!(together, rows.rows.iter().map(TensorRow::busy_ns).sum::<u64>());
        parallel += usize::from(facts.cost.is_some_and(|cost| cost.parallelism > 2.0));
    }
    assert!(parallel > 0, "a run with several workers is among them");
}
