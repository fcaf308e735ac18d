//! The lesson as one HTML file for a lecture. It contains the text of each step and its figure on light and dark
//! background, and no external resources.

use super::state::Learn;
use super::view;
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::present::lesson::Lesson;
use crate::present::lesson_steps::{Figure, STEPS, Step, step};
use crate::text::markup;
use crate::tui::context::{Context, Ui};
use crate::tui::pen::Pen;
use crate::tui::svg;
use crate::tui::theme::Theme;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::fmt::Write;

/// Width of a figure in columns.
const COLUMNS: u16 = 104;

const STYLE: &str = "body{margin:0;background:#fbfaf7;color:#1b1f27;font:18px/1.6 system-ui,sans-serif}\
main{max-width:64rem;margin:0 auto;padding:2rem 1.2rem}section{margin:0 0 4rem}h1{font-size:2rem}h2{font-size:1.5rem}\
.light,.dark{overflow-x:auto}svg{width:100%;min-width:42rem;height:auto;border-radius:10px}p{max-width:44rem}footer{color:#667}\
.dark{display:none}\
@media(prefers-color-scheme:dark){body{background:#0b0d12;color:#e4e6eb}footer{color:#99a}.light{display:none}.dark{display:block}}\
@media print{section{break-after:page}svg{min-width:0}}";

/// The lesson as an HTML page.
///
/// # Errors
/// Returns a sentence if the compiled-in recordings cannot be read.
pub fn lesson_page() -> Result<String, String> {
    let lesson = Lesson::load()?;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"generator\" content=\"gds-top\">\
         <title>Why GPUDirect Storage can be slower on a small model</title><style>{STYLE}</style></head><body><main>\n\
         <h1>Why GPUDirect Storage can be slower on a small model</h1>\n\
         <p>Twelve steps with recorded loads of {} and {} on an NVIDIA H200. All figures were measured in compat mode, except in the simulation and those of the study.</p>\n",
        lesson.small.model, lesson.large.model
    );
    for number in 0..STEPS {
        let step = step(&lesson, number);
        let _ = writeln!(page, "<section><h2>{}. {}</h2>", number + 1, step.title);
        for paragraph in &step.text {
            let _ = writeln!(page, "<p>{}</p>", markup(paragraph));
        }
        let title = format!("Step {}: {}", number + 1, step.title);
        for (class, name) in [("light", ThemeName::Light), ("dark", ThemeName::Dark)] {
            let _ = write!(page, "<div class=\"{class}\">{}</div>", figure(&lesson, &step, name, &title));
        }
        page.push_str("</section>\n");
    }
    page.push_str("<footer>Made by gds-top learn --html. Sizes in binary units, rates in decimal units.</footer></main></body></html>\n");
    Ok(page)
}

/// Rows that a figure needs.
const fn rows(figure: Figure) -> u16 {
    match figure {
        Figure::FewTensors | Figure::LargeWhole => 15,
        Figure::Paths => 18,
        Figure::Slab | Figure::Reads => 20,
        // With the simulation.
        Figure::SmallWhole => 22,
        Figure::Crossover | Figure::Table | Figure::Pinned => 22,
    }
}

/// The figure of a step as SVG, at the end of its animation.
fn figure(lesson: &Lesson, step: &Step, theme: ThemeName, title: &str) -> String {
    let theme = Theme::new(Taste { theme, depth: ColourDepth::True, ..Taste::default() });
    let (ctx, screen) = (Context::default(), Learn { at: 1.0, ..Learn::default() });
    let ui = Ui { ctx: &ctx, screen: &screen };
    let rows = rows(step.figure);
    let mut buffer = Buffer::empty(Rect::new(0, 0, COLUMNS, rows));
    buffer.set_style(buffer.area, theme.ground);
    view::page(&mut Pen::new(&mut buffer, Rect::new(0, 0, COLUMNS, rows)), step, lesson, &ui, &theme);
    svg::picture(&buffer, title)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_step_with_its_picture_and_needs_nothing_else() {
        let page = lesson_page().unwrap();
        assert_eq!(page.matches("<section>").count(), STEPS);
        assert_eq!(page.matches("<svg ").count(), 2 * STEPS, "on light ground and on dark");
        assert!(!page.contains("(key 1)") && !page.contains("sliders"), "paper has neither");
        let outside = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http") && !outside.contains("<script") && !outside.contains(" src="));
    }
}
