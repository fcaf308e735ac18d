//! Tests of the screens: snapshots, theme colours, random states at random sizes, and the event loop with a test
//! backend.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calls;
mod chaos;
mod charts;
mod commands;
mod event_loop;
mod first_look;
mod guide;
mod input;
mod jobs;
mod keys;
mod plans;
mod player;
mod snapshots;
mod tensors;
mod themes;
mod watched;

use super::app::App;
use super::context::Context;
use super::keymap::Keymap;
use super::screen::Screen;
use super::screen_id::ScreenId;
use super::screens::environment::Environment;
use super::screens::learn::Learn;
use super::screens::race::Race;
use super::screens::system::System;
use super::screens::tensors::Tensors;
use super::theme::Theme;
use crate::session::State;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::any::Any;

/// The screens with their default keys. One of them is shown.
pub(super) fn app(screen: ScreenId) -> App {
    App::new(screen, Context { keys: Keymap::default().bindings, ..Context::default() })
}

/// The state of a screen.
fn of<S: Screen>(app: &mut App) -> &mut S {
    let mut screens = app.screens.iter_mut();
    screens.find_map(|screen| (&mut **screen as &mut dyn Any).downcast_mut()).unwrap()
}

pub(super) fn environment(app: &mut App) -> &mut Environment {
    of(app)
}

pub(super) fn race(app: &mut App) -> &mut Race {
    of(app)
}

pub(super) fn tensors(app: &mut App) -> &mut Tensors {
    of(app)
}

pub(super) fn system(app: &mut App) -> &mut System {
    of(app)
}

pub(super) fn learn(app: &mut App) -> &mut Learn {
    of(app)
}

/// Draws one frame with the given size, like the event loop.
pub(super) fn frame(state: &State, app: &mut App, theme: &Theme, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    app.resize(width, height);
    app.ctx.clock_ns = state.now_ns;
    app.prepare(state);
    app.draw(state, theme, &mut buffer);
    buffer
}

/// The characters of a frame, line by line.
pub(super) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let rows = buffer.content().chunks(width);
    rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned() + "\n")
        .collect()
}
