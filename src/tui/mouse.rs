//! The mouse: the wheel scrolls, a click selects what the last frame drew there, a click on what is selected opens it.

use super::app::{Effect, RowKey, Screen, UiState};
use super::keymap::Action;
use super::tensor_view::Sort;
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
        MouseEventKind::ScrollUp => wheel(ui, Action::Up, state),
        MouseEventKind::ScrollDown => wheel(ui, Action::Down, state),
        MouseEventKind::Down(MouseButton::Left) => click(ui, Position::new(event.column, event.row), state),
        _ => Effect::default(),
    }
}

fn wheel(ui: &mut UiState, step: Action, state: &State) -> Effect {
    // Lists of a few lines move by one, texts and long tables by three.
    let steps = if ui.screen == Screen::Race && ui.sheet.is_none() { 1 } else { 3 };
    for _ in 0..steps {
        ui.act(step, state);
    }
    Effect::default()
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
    let hit = ui.hits.borrow().iter().rev().find(|hit| hit.area.contains(at)).cloned();
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
