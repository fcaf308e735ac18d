//! Bars of wall time in HTML. Each bar has a name, the time split into phases, a dot for each run, and figures. It
//! consists of HTML elements and not of a picture, so that a narrow page can show the bar below its name.

use super::section::Bar;
use super::svg::{colour, round_ticks};
use crate::core::{PHASES, units};
use crate::present::phases;
use crate::text::markup;
use std::fmt::Write;

/// Renders the bars over an axis from zero to the first round time that is at least that of the longest run. `None` if
/// there is nothing to draw.
pub(super) fn bars(title: &str, bars: &[Bar]) -> Option<String> {
    let of = |bar: &Bar| bar.runs_ns.iter().copied().chain([bar.wall_ns]).max();
    let ticks = round_ticks(bars.iter().filter_map(of).max().filter(|ns| *ns > 0)? as f64);
    let end = *ticks.last()?;
    let mut out = format!(
        "<div class=\"bars\" role=\"group\" aria-label=\"{}\" style=\"--step:{:.4}%\">",
        markup(title),
        100.0 / (ticks.len() - 1).max(1) as f64
    );
    for bar in bars {
        let _ = write!(
            out,
            "<div class=\"bar\"><span class=\"name\"><i style=\"background:{}\"></i>{}</span><span class=\"track\"><span class=\"fill\" \
             style=\"width:{:.2}%;background:{}\">",
            colour(Some(bar.colour)),
            markup(&bar.name),
            bar.wall_ns as f64 / end * 100.0,
            colour(Some(bar.colour))
        );
        let total: f64 = bar.phases.iter().map(|(_, ns)| ns as f64).sum();
        for (phase, ns) in bar.phases.iter().filter(|(_, ns)| *ns > 0) {
            let percent = ns as f64 / total * 100.0;
            let _ = write!(
                out,
                "<i style=\"width:{percent:.2}%;background:var(--p{})\" title=\"{} {percent:.0} %\"></i>",
                phase as usize,
                phases::title(phase)
            );
        }
        out.push_str("</span>");
        for (number, ns) in bar.runs_ns.iter().enumerate().filter(|_| bar.runs_ns.len() > 1) {
            let _ = write!(
                out,
                "<i class=\"dot\" style=\"left:{:.2}%\" title=\"run {}: {}\"></i>",
                *ns as f64 / end * 100.0,
                number + 1,
                units::duration(*ns)
            );
        }
        let _ = write!(out, "</span><span class=\"note\">{}</span></div>", markup(&bar.note));
    }
    axis(&mut out, &ticks);
    out.push_str("</div><figcaption>");
    for phase in PHASES.into_iter().filter(|p| bars.iter().any(|b| b.phases.get(*p) > 0)) {
        let _ = write!(
            out,
            "<span class=\"of\"><span class=\"key\" style=\"background:var(--p{})\"></span>{}</span> ",
            phase as usize,
            phases::title(phase)
        );
    }
    if bars.iter().any(|bar| bar.runs_ns.len() > 1) {
        out.push_str("<br>A bar is the median run, a dot is one run.");
    }
    out.push_str("</figcaption>");
    Some(out)
}

/// Writes the axis below the bars: the time at each line of the grid.
fn axis(out: &mut String, ticks: &[f64]) {
    out.push_str("<div class=\"bar axis\"><span class=\"name\">time of a run</span><span class=\"track\">");
    let end = ticks.last().copied().unwrap_or(1.0);
    for tick in ticks {
        let label = if *tick > 0.0 { units::short_duration(tick.round() as u64) } else { "0".to_owned() };
        let _ = write!(out, "<i style=\"left:{:.2}%\">{label}</i>", tick / end * 100.0);
    }
    out.push_str("</span></div>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::PhaseTimes;

    #[test]
    fn each_run_has_a_dot_and_the_slowest_is_the_right_edge() {
        let bar = |runs: &[u64]| Bar {
            name: "a <b>".into(),
            colour: 0,
            wall_ns: 100,
            runs_ns: runs.to_vec(),
            note: "100 ns".into(),
            phases: PhaseTimes::default(),
        };
        let drawn = bars("t", &[bar(&[90, 100, 200]), bar(&[100])]).unwrap_or_default();
        assert_eq!(drawn.matches("class=\"dot\"").count(), 3, "one run needs no dot: {drawn}");
        assert!(
            drawn.contains("width:50.00%") && drawn.contains("left:100.00%") && drawn.contains("a &lt;b&gt;"),
            "{drawn}"
        );
        assert!(bars("t", &[]).is_none());
    }

    #[test]
    fn the_axis_has_zero_and_round_times_and_no_run_is_outside() {
        for (longest, labels) in [
            (105_000_000, vec!["0", "50 ms", "100 ms", "150 ms"]),
            (200, vec!["0", "50 ns", "100 ns", "150 ns", "200 ns"]),
            (7_300_000_000, vec!["0", "2 s", "4 s", "6 s", "8 s"]),
        ] {
            let bar = Bar {
                name: "a".into(),
                colour: 0,
                wall_ns: longest / 2,
                runs_ns: vec![longest / 3, longest / 2, longest],
                note: String::new(),
                phases: PhaseTimes::default(),
            };
            let drawn = bars("t", &[bar]).unwrap_or_default();
            let axis = drawn.split("class=\"bar axis\"").nth(1).unwrap_or_default();
            let found: Vec<&str> =
                axis.split("%\">").skip(1).filter_map(|tick| Some(tick.split_once("</i>")?.0)).collect();
            assert_eq!(found, labels);
            let places = drawn.split("left:").skip(1).filter_map(|at| at.split_once('%')?.0.parse::<f64>().ok());
            assert!(places.clone().count() > 3 && places.clone().all(|at| at <= 100.0), "{drawn}");
        }
    }
}
