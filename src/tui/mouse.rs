//! The mouse: the wheel scrolls, a click selects what the last frame drew there, a click on what is selected opens it.

use super::app::{Pane, RowKey, Screen, Sheet, UiState};
use super::choices::ProcessSort;
use super::dispatch::Effect;
use super::keymap::Action;
use super::screens::tensors::order::Sort;
use crate::session::State;
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

/// A place of the last frame that can be clicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) area: Rect,
    pub(crate) target: Spot,
}

/// What a place stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    Screen(Screen),
    Check(RowKey),
    /// An entry of the race, numbered over all heats.
    Entry(usize),
    /// A cell of the storage grid, in the order of the cursor.
    Cell(usize),
    /// A line of the tensor table.
    Tensor(usize),
    /// A head of the tensor table.
    Sort(Sort),
    /// A process by its number.
    Process(u32),
    /// A head of the table of processes.
    ProcessSort(ProcessSort),
    /// A pane of the Environment screen.
    Pane(Pane),
    /// A line of the checklist.
    Guide(usize),
    /// A key that is named on the screen: a click does what it does.
    Key(Action),
    /// The plot of a chart: from the left to the right edge, in microseconds on the clock of the lanes (Race) or of the session (System).
    Time {
        from_us: i64,
        to_us: i64,
    },
}

/// Takes a wheel step or a click.
pub(crate) fn input(ui: &mut UiState, event: MouseEvent, state: &State) -> Effect {
    match event.kind {
        MouseEventKind::ScrollUp if over_chart(ui, event) => ui.act(Action::ZoomIn, state),
        MouseEventKind::ScrollDown if over_chart(ui, event) => ui.act(Action::ZoomOut, state),
        MouseEventKind::ScrollLeft if over_chart(ui, event) => ui.act(Action::PanBack, state),
        MouseEventKind::ScrollRight if over_chart(ui, event) => ui.act(Action::PanForward, state),
        MouseEventKind::ScrollUp => wheel(ui, Action::Up, event, state),
        MouseEventKind::ScrollDown => wheel(ui, Action::Down, event, state),
        MouseEventKind::Down(MouseButton::Left) => click(ui, Position::new(event.column, event.row), state),
        _ => Effect::default(),
    }
}

fn wheel(ui: &mut UiState, step: Action, event: MouseEvent, state: &State) -> Effect {
    // Lists of a few lines move by one, texts and long tables by three.
    let few = (ui.screen == Screen::Race && ui.sheet.is_none()) || ui.sheet == Some(Sheet::Guide);
    // What is under the pointer moves, whatever the keys would move.
    let kept = ui.environment.pane;
    let under = hit_at(ui, Position::new(event.column, event.row)).map(|hit| hit.target);
    match under {
        Some(Spot::Pane(pane)) => ui.environment.pane = pane,
        Some(Spot::Check(_)) => ui.environment.pane = Pane::List,
        _ => {}
    }
    for _ in 0..if few { 1 } else { 3 } {
        ui.act(step, state);
    }
    ui.environment.pane = kept;
    Effect::default()
}

fn hit_at(ui: &UiState, at: Position) -> Option<Hit> {
    ui.hits.borrow().iter().rev().find(|hit| hit.area.contains(at)).cloned()
}

/// The chart under the pointer takes the wheel.
fn over_chart(ui: &UiState, event: MouseEvent) -> bool {
    let at = Position::new(event.column, event.row);
    let hits = ui.hits.borrow();
    ui.sheet.is_none()
        && hits
            .iter()
            .rev()
            .find(|hit| hit.area.contains(at))
            .is_some_and(|hit| matches!(hit.target, Spot::Time { .. }))
}

fn click(ui: &mut UiState, at: Position, state: &State) -> Effect {
    let hit = hit_at(ui, at);
    ui.notice = None;
    match hit.as_ref().map(|hit| hit.target.clone()) {
        Some(Spot::Time { from_us, to_us }) => {
            let area = hit.map_or(Rect::ZERO, |hit| hit.area);
            let share = f64::from(at.x.saturating_sub(area.x)) / f64::from(area.width.saturating_sub(1).max(1));
            let time = (from_us as f64 + (to_us - from_us) as f64 * share) / 1e6;
            let seen = ui.seen(state);
            if let Some((whole, view)) = ui.time_view(seen) {
                view.put(whole, time);
            }
        }
        Some(Spot::Screen(screen)) => return ui.act(Action::Screen(screen), state),
        Some(Spot::Check(row)) => {
            let again = ui.environment.selected.as_ref() == Some(&row);
            let group = matches!(row, RowKey::Group(_));
            ui.environment.selected = Some(row);
            ui.environment.detail_scroll = 0;
            ui.environment.pane = Pane::List;
            if again || group {
                return ui.act(Action::Open, state);
            }
        }
        Some(Spot::Entry(index) | Spot::Cell(index)) => ui.race.selected = Some(index),
        Some(Spot::Tensor(index)) => {
            let again = ui.tensors.at == index;
            ui.tensors.at = index;
            if again {
                return ui.act(Action::Open, state);
            }
        }
        Some(Spot::Sort(sort)) => {
            // A second click on the same head turns the order around, as in every table.
            ui.tensors.reversed = ui.tensors.sort == sort && !ui.tensors.reversed;
            ui.tensors.sort = sort;
        }
        Some(Spot::Pane(pane)) => ui.environment.pane = pane,
        Some(Spot::Guide(row)) => {
            let again = ui.guide_at == row;
            ui.guide_at = row;
            if again {
                return ui.act(Action::Open, state);
            }
        }
        Some(Spot::Key(action)) => return ui.press(action, state),
        Some(Spot::ProcessSort(sort)) => {
            ui.system.reversed = ui.system.sort == sort && !ui.system.reversed;
            ui.system.sort = sort;
        }
        Some(Spot::Process(pid)) => {
            let again = ui.system.pid == Some(pid);
            ui.system.pid = Some(pid);
            if again {
                return ui.act(Action::Open, state);
            }
        }
        None => {}
    }
    Effect::default()
}
