//! The lesson as one HTML file for a lecture. It contains the text of each step and its figure on light and dark
//! background, and no external resources.

use crate::present::lesson::Lesson;
use crate::present::lesson_steps::{STEPS, Step, step};
use crate::text::{markup, wrap};
use std::fmt::Write;

const STYLE: &str = "body{margin:0;background:#fbfaf7;color:#1b1f27;font:18px/1.6 system-ui,sans-serif}\
main{max-width:64rem;margin:0 auto;padding:2rem 1.2rem}section{margin:0 0 4rem}h1{font-size:2rem}h2{font-size:1.5rem}\
.light,.dark{overflow-x:auto}svg{width:100%;min-width:42rem;height:auto;border-radius:10px}p{max-width:44rem}footer{color:#667}\
.dark{display:none}\
@media(prefers-color-scheme:dark){body{background:#0b0d12;color:#e4e6eb}footer{color:#99a}.light{display:none}.dark{display:block}}\
@media print{section{break-after:page}svg{min-width:0}}";

const TITLE: &str = "Why GPUDirect Storage can be slower on a small model";

fn introduction(lesson: &Lesson) -> String {
    format!(
        "Twelve steps with recorded loads of {} and {} on an NVIDIA H200. All figures were measured in compat mode, except in the simulation and those of the study.",
        lesson.small.model, lesson.large.model
    )
}

/// The lesson as text without its figures.
pub(crate) fn lesson_text(lesson: &Lesson, width: u16) -> String {
    let paragraph = |text: &str| wrap(text, usize::from(width)).join("\n") + "\n\n";
    let mut all = paragraph(TITLE) + &paragraph(&introduction(lesson));
    for number in 0..STEPS {
        let step = step(lesson, number);
        all += &format!("{}. {}\n", number + 1, step.title);
        all.extend(step.text.iter().map(|text| paragraph(text)));
    }
    all + "'gds-top learn --html FILE' writes the lesson with its figures.\n"
}

/// The lesson as an HTML page. `figure` draws the figure of a step as SVG, on a dark ground if the last argument is
/// true.
pub(crate) fn lesson_page(lesson: &Lesson, figure: impl Fn(&Step, &str, bool) -> String) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"generator\" content=\"gds-top\">\
         <title>{TITLE}</title><style>{STYLE}</style></head><body><main>\n<h1>{TITLE}</h1>\n<p>{}</p>\n",
        introduction(lesson)
    );
    for number in 0..STEPS {
        let step = step(lesson, number);
        let _ = writeln!(page, "<section><h2>{}. {}</h2>", number + 1, step.title);
        for paragraph in &step.text {
            let _ = writeln!(page, "<p>{}</p>", markup(paragraph));
        }
        let title = format!("Step {}: {}", number + 1, step.title);
        for (class, dark) in [("light", false), ("dark", true)] {
            let _ = write!(page, "<div class=\"{class}\">{}</div>", figure(&step, &title, dark));
        }
        page.push_str("</section>\n");
    }
    page.push_str("<footer>Made by gds-top learn --html. Sizes in binary units, rates in decimal units.</footer></main></body></html>\n");
    page
}
