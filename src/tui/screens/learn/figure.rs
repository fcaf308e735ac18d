//! The figure of a step as a picture, without a terminal.

use super::state::Learn;
use super::view;
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::present::lesson::Lesson;
use crate::present::lesson_steps::{Figure, Step};
use crate::tui::context::{Context, Ui};
use crate::tui::pen::Pen;
use crate::tui::svg;
use crate::tui::theme::Theme;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Width of a figure in columns.
const COLUMNS: u16 = 104;

/// Rows that a figure needs.
const fn rows(figure: Figure) -> u16 {
    match figure {
        Figure::FewTensors | Figure::LargeLoad => 15,
        Figure::Paths => 18,
        Figure::Slab | Figure::Reads => 20,
        // With the simulation.
        Figure::SmallLoad => 22,
        Figure::Crossover | Figure::Table | Figure::Pinned => 22,
    }
}

/// The figure of a step as SVG, at the end of its animation.
pub(crate) fn lesson_figure(lesson: &Lesson, step: &Step, title: &str, dark: bool) -> String {
    let theme = if dark { ThemeName::Dark } else { ThemeName::Light };
    let theme = Theme::new(Taste { theme, depth: ColourDepth::True, ..Taste::default() });
    let (ctx, screen) = (Context::default(), Learn { at: 1.0, ..Learn::default() });
    let ui = Ui { ctx: &ctx, screen: &screen };
    let rows = rows(step.figure);
    let mut buffer = Buffer::empty(Rect::new(0, 0, COLUMNS, rows));
    buffer.set_style(buffer.area, theme.ground);
    view::page(&mut Pen::new(&mut buffer, Rect::new(0, 0, COLUMNS, rows)), step, lesson, &ui, &theme);
    svg::picture(&buffer, title)
}
