//! The layers of reads that go layer by layer, as inline SVG: a row for each layer, its loading, its computing, and where computing waited.

use super::charts::markup;
use crate::domain::{LayerTimes, units};
use crate::session::State;
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 12.0;
/// Rows of the two timelines, and of a layer below them.
const TIMELINE: f64 = 16.0;
const ROW: f64 = 7.0;
/// Loading has the colour of transfers, the others those of the page.
const LOAD: &str = "var(--p6)";
const COMPUTE: &str = "var(--l4)";
const WAIT: &str = "var(--warn)";
/// Lanes that are drawn; all of them are in the tables.
const MOST_LANES: usize = 12;

/// A figure for each lane that read layer by layer.
pub(super) fn html(page: &mut String, state: &State) {
    let lanes: Vec<_> = state
        .lanes
        .iter()
        .filter_map(|lane| lane.result.as_deref())
        .filter_map(|result| Some((result, result.workload.as_ref()?)))
        .filter(|(_, workload)| !workload.layers.is_empty())
        .collect();
    if lanes.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Layers over time</h2><p class=\"dim\">Above, all loading and all computing; below, a row for each layer. Computing is simulated. What \
         computing waited for is drawn over it in the colour of warnings; hover for values.</p>",
    );
    for (result, workload) in lanes.iter().take(MOST_LANES) {
        let hidden = workload.hidden_fraction.map_or_else(
            || "how much of the loading hides behind computing was not measured".to_owned(),
            |hidden| format!("{} % of the loading hides behind computing", (hidden * 100.0).floor()),
        );
        let title = format!("{}, {}, run {}: {hidden}", result.engine, result.cache, result.repeat + 1);
        let _ = writeln!(page, "<div class=\"card\"><p>{}</p>{}</div>", markup(&title), svg(&title, &workload.layers));
    }
    if lanes.len() > MOST_LANES {
        let _ = write!(page, "<p class=\"dim\">{} more lanes are in the tables.</p>", lanes.len() - MOST_LANES);
    }
}

fn svg(title: &str, layers: &[LayerTimes]) -> String {
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
        // One invisible row each, so that a thin bar needs no aim.
        let _ = write!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{ROW}\" style=\"fill:transparent\"><title>layer {number}: loaded in {}, computed in \
             {}, waited for {}</title></rect>",
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
    fn every_layer_has_its_bars_and_a_wait_only_where_there_was_one() {
        let layer = |start, wait| LayerTimes {
            load_start_ns: start,
            load_ns: 10,
            compute_start_ns: start + 10 + wait,
            compute_ns: 20,
            wait_ns: wait,
        };
        let drawn = svg("a <lane>", &[layer(0, 10), layer(30, 0)]);
        assert!(drawn.contains("a &lt;lane&gt;") && drawn.ends_with("</svg>"));
        // Twice: on the timelines and in the layer's own row.
        assert_eq!(
            (drawn.matches(LOAD).count(), drawn.matches(COMPUTE).count(), drawn.matches(WAIT).count()),
            (4, 4, 2)
        );
        assert_eq!(drawn.matches("<title>layer ").count(), 2);
        assert!(!svg("none", &[]).contains("NaN"));
    }
}
