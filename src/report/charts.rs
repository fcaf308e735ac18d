//! Charts as inline SVG: lines, scatter and stacked bars. Colours are variables of the page's style sheet, so that they follow light and dark.

use crate::domain::{Engine, LaneInks, PHASES, PhaseTimes};
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;

/// The colour of a lane, the same as on the screen.
pub(super) fn lane_colour(inks: &LaneInks, engine: &Engine) -> String {
    format!("var(--l{})", inks.place(engine))
}

/// Text inside markup.
pub(super) fn markup(text: &str) -> String {
    super::words::plain(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Points of one colour.
pub(super) struct Series {
    pub(super) label: String,
    pub(super) colour: String,
    /// Finite pairs; where `None` stands the line is broken.
    pub(super) points: Vec<Option<(f64, f64)>>,
    /// A line drawn through, rather than dots.
    pub(super) line: bool,
    /// A dashed line: colour alone would not tell the cold run of an engine from its hot one.
    pub(super) dashed: bool,
}

/// How an axis counts.
#[derive(Clone, Copy)]
pub(super) enum Scale {
    Linear,
    Log,
}

/// An axis: its name, its scale and how a tick reads.
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) scale: Scale,
    pub(super) tick: fn(f64) -> String,
}

struct Fitted<'a> {
    axis: &'a Axis,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl<'a> Fitted<'a> {
    fn new(axis: &'a Axis, values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let high = values.clone().reduce(f64::max)?;
        match axis.scale {
            Scale::Linear => {
                let step = round_step(high.max(1e-12) / 4.0);
                let count = (high.max(1e-12) / step).ceil().clamp(1.0, 12.0) as usize;
                let ticks: Vec<f64> = (0..=count).map(|i| i as f64 * step).collect();
                Some(Self { axis, low: 0.0, high: count as f64 * step, ticks })
            }
            Scale::Log => {
                let low = values.reduce(f64::min)?;
                let (from, to) =
                    (low.log10().floor(), (high * 1.000_001).log10().ceil().max(low.log10().floor() + 1.0));
                let count = (to - from).clamp(1.0, 20.0) as usize;
                let ticks = (0..=count).map(|i| 10_f64.powf(from + i as f64)).collect();
                Some(Self { axis, low: from, high: to, ticks })
            }
        }
    }

    /// 0 at the low end, 1 at the high end.
    fn place(&self, value: f64) -> f64 {
        let value = match self.axis.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, not below `value`.
fn round_step(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= value * 0.999).unwrap_or(power * 10.0)
}

/// A chart of lines or dots; `None` where there is nothing to draw.
pub(super) fn chart(title: &str, series: &[Series], x: &Axis, y: &Axis, height: f64) -> Option<String> {
    let usable = |axis: &Axis, v: f64| v.is_finite() && v >= 0.0 && (v > 0.0 || matches!(axis.scale, Scale::Linear));
    let points = series.iter().flat_map(|s| s.points.iter().flatten()).filter(|(a, b)| usable(x, *a) && usable(y, *b));
    let fx = Fitted::new(x, points.clone().map(|p| p.0))?;
    let fy = Fitted::new(y, points.map(|p| p.1))?;
    let (inner_w, inner_h) = (WIDTH - LEFT - RIGHT, height - TOP - BOTTOM);
    let px = |v: f64| LEFT + fx.place(v) * inner_w;
    let py = |v: f64| TOP + (1.0 - fy.place(v)) * inner_h;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">", markup(title));
    for tick in &fy.ticks {
        let at = py(*tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
            WIDTH - RIGHT
        );
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            (y.tick)(*tick)
        );
    }
    for tick in &fx.ticks {
        let (at, below) = (px(*tick), height - BOTTOM + 16.0);
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{}</text>",
            (x.tick)(*tick)
        );
    }
    let _ = write!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        WIDTH - RIGHT,
        height - 6.0,
        x.name
    );
    for s in series {
        let _ = write!(svg, "<g><title>{}</title>", markup(&s.label));
        if s.line {
            for run in s.points.split(Option::is_none) {
                let path: Vec<String> = run
                    .iter()
                    .flatten()
                    .filter(|(a, b)| usable(x, *a) && usable(y, *b))
                    .map(|(a, b)| format!("{:.1},{:.1}", px(*a), py(*b)))
                    .collect();
                if !path.is_empty() {
                    let _ = write!(
                        svg,
                        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\"{} points=\"{}\"/>",
                        s.colour,
                        if s.dashed { " stroke-dasharray=\"7 4\"" } else { "" },
                        path.join(" ")
                    );
                }
            }
        } else {
            for (a, b) in s.points.iter().flatten().filter(|(a, b)| usable(x, *a) && usable(y, *b)) {
                let _ = write!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{}\" fill-opacity=\"0.55\"/>",
                    px(*a),
                    py(*b),
                    s.colour
                );
            }
        }
        svg.push_str("</g>");
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// One bar: a name, its colour, its wall time, what stands at its end, and its phases.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) colour: String,
    pub(super) wall_ns: u64,
    pub(super) note: String,
    pub(super) phases: PhaseTimes,
}

/// Bars of wall time, split into phases, longest to the right edge.
pub(super) fn bars(title: &str, bars: &[Bar]) -> Option<String> {
    const ROW: f64 = 34.0;
    const NOTE: f64 = 190.0;
    // The names of lanes of a workload are long; a letter of the page's font takes some seven units.
    let letters = bars.iter().map(|b| b.name.chars().count()).max().unwrap_or(0) as f64;
    let name = (letters * 7.2 + 34.0).clamp(150.0, 340.0);
    let longest = bars.iter().map(|b| b.wall_ns).max().filter(|ns| *ns > 0)? as f64;
    let height = bars.len() as f64 * ROW + 4.0;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">", markup(title));
    for (i, bar) in bars.iter().enumerate() {
        let y = i as f64 * ROW + 4.0;
        let _ = write!(
            svg,
            "<rect x=\"0\" y=\"{:.1}\" width=\"10\" height=\"10\" rx=\"5\" fill=\"{}\"/>",
            y + 8.0,
            bar.colour
        );
        let _ = write!(svg, "<text x=\"18\" y=\"{:.1}\">{}</text>", y + 17.0, markup(&bar.name));
        let width = bar.wall_ns as f64 / longest * (WIDTH - name - NOTE);
        let total: f64 = bar.phases.iter().map(|(_, ns)| ns as f64).sum();
        let mut x = name;
        if total <= 0.0 {
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"26\" fill=\"{}\"/>",
                bar.colour
            );
        }
        for (phase, ns) in bar.phases.iter() {
            let part = ns as f64 / total * width;
            let percent = ns as f64 / total * 100.0;
            let _ = write!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{part:.2}\" height=\"26\" fill=\"var(--p{})\"><title>{} {percent:.1} %</title></rect>",
                phase as usize,
                phase.name()
            );
            x += part;
        }
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", name + width + 8.0, y + 17.0, markup(&bar.note));
    }
    svg.push_str("</svg>");
    let mut legend = String::from("<figcaption>");
    for phase in PHASES.into_iter().filter(|p| bars.iter().any(|b| b.phases.get(*p) > 0)) {
        let _ = write!(
            legend,
            "<span class=\"key\" style=\"background:var(--p{})\"></span>{}",
            phase as usize,
            phase.name().replace('_', " ")
        );
    }
    Some(svg + &legend + "</figcaption>")
}

/// A legend for series.
pub(super) fn legend(series: &[Series]) -> String {
    let mut out = String::new();
    for s in series.iter().filter(|s| !s.label.is_empty()) {
        let _ = write!(out, "<span class=\"key\" style=\"background:{}\"></span>{}", s.colour, markup(&s.label));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (value, step) in [(0.7, 1.0), (1.0, 1.0), (1.3, 2.0), (3.0, 5.0), (6.0, 10.0), (230.0, 500.0)] {
            assert!((round_step(value) / step - 1.0).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn nothing_to_draw_is_no_chart_and_gaps_break_the_line() {
        let axis = || Axis { name: "s", scale: Scale::Linear, tick: |v| format!("{v}") };
        let series = |points| Series { label: "<a>".into(), colour: "red".into(), points, line: true, dashed: false };
        assert!(chart("t", &[series(vec![])], &axis(), &axis(), 200.0).is_none());
        assert!(chart("t", &[series(vec![Some((f64::NAN, 1.0))])], &axis(), &axis(), 200.0).is_none());
        let svg = chart("t", &[series(vec![Some((1.0, 1.0)), None, Some((3.0, 2.0))])], &axis(), &axis(), 200.0);
        assert_eq!(svg.map(|s| (s.matches("<polyline").count(), s.contains("<a>"))), Some((2, false)));
    }
}
