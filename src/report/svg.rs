//! Charts as inline SVG: lines, dots, stacked bars and timelines of layers. Colours are CSS variables of the page, so
//! that they follow the light or dark style.

use super::section::{Axis, Scale, Series};
use crate::core::{LayerTimes, units};
use crate::text::markup;
use std::fmt::Write;

const WIDTH: f64 = 800.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 20.0;
// A narrow page has larger letters (report.css), which must not touch each other. Above the chart is the name of the
// vertical axis, below it two rows of text.
const TOP: f64 = 40.0;
const BOTTOM: f64 = 62.0;

/// Maximum number of markers on a line.
const ON_LINE: usize = 6;

/// One of the eleven engine colours, which are the same as on the screens; grey for `None`.
pub(super) fn colour(number: Option<usize>) -> String {
    number.map_or_else(|| "#888888".to_owned(), |number| format!("var(--l{number})"))
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
                let ticks = round_ticks(high);
                Some(Self { axis, low: 0.0, high: *ticks.last()?, ticks })
            }
            Scale::Log => {
                let low = values.reduce(f64::min)?;
                let (from, to) =
                    (low.log10().floor(), (high * 1.000_001).log10().ceil().max(low.log10().floor() + 1.0));
                // Ticks are at every n-th power of ten, so that there are at most seven, which a phone can show.
                let step = [1.0, 2.0, 3.0, 6.0].into_iter().find(|step| (to - from) / step <= 6.0).unwrap_or(12.0);
                let count = ((to - from) / step).ceil().clamp(1.0, 7.0);
                let ticks = (0..=count as usize).map(|i| 10_f64.powf(from + i as f64 * step)).collect();
                Some(Self { axis, low: from, high: from + count * step, ticks })
            }
            Scale::Log2 => {
                let (from, to) = (values.reduce(f64::min)?.log2(), high.log2());
                // Ticks are at every n-th power of two, so that there are at most seven: 1 KiB, 32 KiB, 1 MiB.
                let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| (to - from) / step <= 6.0).unwrap_or(10.0);
                let from = (from / step).floor() * step;
                let count = ((to - from) / step).ceil().clamp(1.0, 7.0);
                let ticks = (0..=count as usize).map(|i| (from + i as f64 * step).exp2()).collect();
                Some(Self { axis, low: from, high: from + count * step, ticks })
            }
        }
    }

    /// The position of a value: 0 at the low end of the axis, 1 at the high end.
    fn place(&self, value: f64) -> f64 {
        let value = match self.axis.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Log2 => value.log2(),
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// Ticks from zero at round values, at most six. The last one is at least `high`.
pub(super) fn round_ticks(high: f64) -> Vec<f64> {
    let step = round_step(high.max(1e-12) / 4.0);
    let count = (high.max(1e-12) / step).ceil().clamp(1.0, 12.0) as usize;
    (0..=count).map(|i| i as f64 * step).collect()
}

/// The smallest step of at least `value` that is 1, 2 or 5 times a power of ten.
fn round_step(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= value * 0.999).unwrap_or(power * 10.0)
}

/// A chart with lines or dots. `None` if there is nothing to draw.
pub(super) fn chart(title: &str, series: &[Series], x: &Axis, y: &Axis, height: f64) -> Option<String> {
    let usable = |axis: &Axis, v: f64| v.is_finite() && v >= 0.0 && (v > 0.0 || matches!(axis.scale, Scale::Linear));
    let points = series.iter().flat_map(|s| &s.points).filter(|(a, b)| usable(x, *a) && usable(y, *b));
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
            at + 5.0,
            (y.tick)(*tick)
        );
    }
    for tick in &fx.ticks {
        let (at, below) = (px(*tick), height - BOTTOM + 26.0);
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
        height - 7.0,
        markup(x.name)
    );
    let _ = write!(svg, "<text class=\"tick\" x=\"0\" y=\"22\">{}</text>", markup(y.name));
    for (number, s) in series.iter().enumerate() {
        let _ = write!(svg, "<g><title>{}</title>", markup(&s.label));
        let ink = colour(s.colour);
        let usable = s.points.iter().filter(|(a, b)| usable(x, *a) && usable(y, *b));
        let at: Vec<(f64, f64)> = usable.map(|(a, b)| (px(*a), py(*b))).collect();
        if s.line && !at.is_empty() {
            let path: Vec<String> = at.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let dashes = if s.dashed { " stroke-dasharray=\"7 4\"" } else { "" };
            let _ = write!(
                svg,
                "<polyline fill=\"none\" stroke=\"{ink}\" stroke-width=\"2\" stroke-linejoin=\"round\"{dashes} points=\"{}\"/>",
                path.join(" ")
            );
            // The markers of different lines are at different places, so that they do not cover each other.
            let first = number * at.len() / (ON_LINE * series.len());
            let step = at.len().div_ceil(ON_LINE);
            put_marks(&mut svg, s.marker, &ink, at.into_iter().skip(first).step_by(step));
        } else if !s.line {
            put_marks(&mut svg, s.marker, &format!("{ink};fill-opacity:.55"), at.into_iter());
        }
        svg.push_str("</g>");
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// Draws a marker at each of these places.
fn put_marks(svg: &mut String, marker: Option<char>, style: &str, places: impl Iterator<Item = (f64, f64)>) {
    let Some(marker) = marker else { return };
    let _ = write!(svg, "<g class=\"m\" style=\"fill:{style}\">");
    for (x, y) in places {
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{marker}</text>");
    }
    svg.push_str("</g>");
}

/// A legend for the series.
pub(super) fn legend(series: &[Series]) -> String {
    let mut out = String::new();
    for s in series.iter().filter(|s| !s.label.is_empty()) {
        let (ink, label) = (colour(s.colour), markup(&s.label));
        let key = match s.marker {
            Some(marker) => format!("<span class=\"mark\" style=\"color:{ink}\">{marker}</span>"),
            None => format!("<span class=\"key\" style=\"background:{ink}\"></span>"),
        };
        let _ = write!(out, "<span class=\"of\">{key}{label}</span> ");
    }
    out
}

/// The height of the two timelines, and of each layer's row below them.
const TIMELINE: f64 = 16.0;
const ROW: f64 = 7.0;
/// Loading has the colour of the phase 'transfer'; the other colours are those of the page.
const LOAD: &str = "var(--p6)";
const COMPUTE: &str = "var(--l4)";
const WAIT: &str = "var(--warn)";

/// A timeline with loading, computing and waiting of layers.
pub(super) fn layers(title: &str, layers: &[LayerTimes]) -> String {
    let end = layers
        .iter()
        .map(|l| l.load_start_ns.saturating_add(l.load_ns).max(l.compute_start_ns.saturating_add(l.compute_ns)))
        .max()
        .unwrap_or(0)
        .max(1);
    let top = 2.0 * TIMELINE + 12.0;
    let bottom = top + ROW * layers.len() as f64;
    let height = bottom + 22.0;
    let x = |ns: u64| LEFT + ns as f64 / end as f64 * (WIDTH - LEFT - RIGHT);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">", markup(title));
    let mut bar = |(from, length): (u64, u64), y: f64, height: f64, fill: &str| {
        if length > 0 {
            let (a, b) = (x(from), x(from.saturating_add(length)));
            let _ = write!(
                svg,
                "<rect x=\"{a:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" style=\"fill:{fill}\"/>",
                (b - a).max(0.3)
            );
        }
    };
    for (number, layer) in layers.iter().enumerate() {
        let y = top + ROW * number as f64;
        let load = (layer.load_start_ns, layer.load_ns);
        let wait = (layer.compute_start_ns.saturating_sub(layer.wait_ns), layer.wait_ns);
        let compute = (layer.compute_start_ns, layer.compute_ns);
        bar(load, 0.0, TIMELINE - 2.0, LOAD);
        bar(compute, TIMELINE, TIMELINE - 2.0, COMPUTE);
        bar(wait, TIMELINE, TIMELINE - 2.0, WAIT);
        bar(load, y, ROW - 1.0, LOAD);
        bar(compute, y, ROW - 1.0, COMPUTE);
        bar(wait, y + ROW / 2.0 - 1.0, ROW / 2.0, WAIT);
    }
    let mut text = |x: f64, y: f64, anchor: &str, words: &str| {
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", markup(words));
    };
    text(LEFT - 6.0, TIMELINE - 5.0, "end", "load");
    text(LEFT - 6.0, 2.0 * TIMELINE - 5.0, "end", "compute");
    text(LEFT - 6.0, top + ROW, "end", "layer 0");
    if layers.len() > 4 {
        text(LEFT - 6.0, bottom, "end", &(layers.len() - 1).to_string());
    }
    text(LEFT, height - 4.0, "start", "0");
    text(WIDTH - RIGHT, height - 4.0, "end", &units::duration(end));
    for (number, layer) in layers.iter().enumerate() {
        // An invisible rectangle fills each row, so that the tooltip also appears next to a thin bar.
        let _ = write!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{ROW}\" style=\"fill:transparent\"><title>layer {number}: loaded in {}, computed in \
             {}, waited {}</title></rect>",
            top + ROW * number as f64,
            WIDTH - LEFT - RIGHT,
            units::duration(layer.load_ns),
            units::duration(layer.compute_ns),
            units::duration(layer.wait_ns)
        );
    }
    svg.push_str("</svg>");
    svg
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
    fn sizes_have_ticks_at_powers_of_two_that_enclose_them() {
        let axis = Axis { name: "size", scale: Scale::Log2, tick: |v| format!("{v}") };
        for (low, high) in [(1.0, 2.0), (700.0, 900e6), (4096.0, 4096.0), (1e3, 1e15)] {
            let fitted = Fitted::new(&axis, [low, high].into_iter());
            let ticks = fitted.map(|fitted| fitted.ticks).unwrap_or_default();
            assert!(ticks.iter().all(|tick| tick.log2().fract() == 0.0), "{ticks:?}");
            assert!(
                (2..=8).contains(&ticks.len()) && ticks[0] <= low && ticks[ticks.len() - 1] >= high,
                "{low} {high}: {ticks:?}"
            );
        }
    }

    #[test]
    fn times_have_at_most_seven_ticks_at_powers_of_ten_that_enclose_them() {
        let axis = Axis { name: "time", scale: Scale::Log, tick: |v| format!("{v}") };
        for (low, high) in [(1.0, 2.0), (20.0, 9e9), (500.0, 500.0), (3.0, 4e12), (1e3, 1e15)] {
            let fitted = Fitted::new(&axis, [low, high].into_iter());
            let ticks = fitted.map(|fitted| fitted.ticks).unwrap_or_default();
            assert!(ticks.iter().all(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-9), "{ticks:?}");
            assert!(
                (2..=7).contains(&ticks.len()) && ticks[0] <= low * 1.001 && ticks[ticks.len() - 1] >= high * 0.999,
                "{low} {high}: {ticks:?}"
            );
        }
    }

    #[test]
    fn nothing_to_draw_is_no_chart_and_labels_are_escaped() {
        let axis = || Axis { name: "s", scale: Scale::Linear, tick: |v| format!("{v}") };
        let series =
            |points| Series { label: "<a>".into(), colour: None, marker: None, points, line: true, dashed: false };
        assert!(chart("t", &[series(vec![])], &axis(), &axis(), 200.0).is_none());
        assert!(chart("t", &[series(vec![(f64::NAN, 1.0)])], &axis(), &axis(), 200.0).is_none());
        let svg = chart("t", &[series(vec![(1.0, 1.0), (3.0, 2.0)])], &axis(), &axis(), 200.0);
        assert_eq!(svg.map(|s| (s.matches("<polyline").count(), s.contains("<a>"))), Some((1, false)));
    }

    #[test]
    fn series_differ_by_the_marker_on_their_dots_on_their_line_and_in_the_legend() {
        let axis = || Axis { name: "s", scale: Scale::Linear, tick: |v| format!("{v}") };
        let points = |count: u32| (0..count).map(|n| (f64::from(n), 1.0)).collect();
        let series = |marker, count, line| Series {
            label: "a".into(),
            colour: Some(1),
            marker: Some(marker),
            points: points(count),
            line,
            dashed: false,
        };
        let all = [series('◆', 20, false), series('■', 240, true), series('○', 1, true)];
        let svg = chart("t", &all, &axis(), &axis(), 200.0).unwrap_or_default();
        let count = |marker: char| svg.matches(marker).count();
        assert_eq!((count('◆'), count('○')), (20, 1), "{svg}");
        assert!((4..=ON_LINE).contains(&count('■')), "{svg}");
        let keys = legend(&all);
        assert!(['◆', '■', '○'].iter().all(|marker| keys.contains(*marker)), "{keys}");
    }

    #[test]
    fn every_layer_has_its_bars_and_a_wait_only_where_there_was_one() {
        let layer = |start, wait| LayerTimes {
            load_start_ns: start,
            load_ns: 10,
            compute_start_ns: start + 10 + wait,
            compute_ns: 20,
            wait_ns: wait,
        };
        let drawn = layers("a <lane>", &[layer(0, 10), layer(30, 0)]);
        assert!(drawn.contains("a &lt;lane&gt;") && drawn.ends_with("</svg>"));
        // Each layer appears twice: on the timelines and in its own row.
        assert_eq!(
            (drawn.matches(LOAD).count(), drawn.matches(COMPUTE).count(), drawn.matches(WAIT).count()),
            (4, 4, 2)
        );
        assert_eq!(drawn.matches("<title>layer ").count(), 2);
        assert!(!layers("none", &[]).contains("NaN"));
    }
}
