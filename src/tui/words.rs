//! Words that several screens use: the answer about a path, and names of routes, caches and engines, in the room that there is.

use crate::domain::units::{duration, three_digits};
use crate::domain::{CacheState, Engine, Finding, Route, Status, Verdict};
use crate::session::State;
use crate::tui::app::UiState;

/// An answer and how good it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headline {
    pub(crate) status: Status,
    pub(crate) text: String,
}

pub(super) fn say(status: Status, text: impl Into<String>) -> Headline {
    Headline { status, text: text.into() }
}

/// A duration in the unit that suits `scale_ns`, so that a column or a sentence compares seconds with seconds.
pub(crate) fn same_unit(ns: u64, scale_ns: u64) -> String {
    match scale_ns {
        1_000_000..1_000_000_000 => format!("{} ms", three_digits(ns as f64 / 1e6)),
        1_000_000_000..100_000_000_000 => format!("{} s", three_digits(ns as f64 / 1e9)),
        _ => duration(ns),
    }
}

/// The route as a word for people.
pub(crate) const fn route_word(route: Route) -> &'static str {
    match route {
        Route::Nvfs => "nvidia-fs",
        Route::P2pdma => "P2PDMA",
        Route::C2c => "C2C",
        Route::Rdma => "RDMA",
        Route::Compat => "compat",
        Route::None => "none",
    }
}

/// Whether the session did without checks: they come first, so once a load was planned none will come.
pub(crate) fn unchecked(state: &State, ui: &UiState) -> bool {
    let measured = !state.lanes.is_empty() || state.grid.is_some();
    state.checks.is_empty()
        && state.checks_took_ns.is_none()
        && (ui.unasked || ui.over || state.ended.is_some() || measured)
}

/// The findings that are to be mended on the way to the goal of a verdict, in order.
pub(crate) fn steps<'s>(state: &'s State, verdict: &Verdict) -> Vec<&'s Finding> {
    let of = |id: &str| state.checks.iter().find(|finding| finding.id == id);
    verdict.steps.iter().filter_map(|id| of(id)).collect()
}

/// Will reads of the path go straight to the GPU?
pub(crate) fn environment(state: &State, verdict: Option<&Verdict>, ui: &UiState) -> Headline {
    let Some(verdict) = verdict else {
        return if unchecked(state, ui) {
            say(
                Status::Na,
                if ui.replay || ui.over || state.ended.is_some() {
                    "Not known: this session only measured, the machine was not checked."
                } else {
                    "Not known yet: this machine was not checked in this session."
                },
            )
        } else if state.checks_took_ns.is_some() {
            say(Status::Na, "The checks are done, but no path was judged.")
        } else if state.checks.is_empty() {
            say(Status::Info, "Looking at this machine …")
        } else {
            say(Status::Info, format!("Looking at this machine … {} checks so far.", state.checks.len()))
        };
    };
    let path = verdict.path.display();
    let route = route_word(verdict.route);
    let no_gpu = verdict.gpu.is_none() && state.machine.as_ref().is_none_or(|m| m.gpus.is_empty());
    if no_gpu {
        return say(
            Status::Na,
            format!(
                "No GPU on this machine: {path} can only be loaded into host memory, so nothing can go straight to a GPU."
            ),
        );
    }
    let goal = route_word(verdict.possible);
    let fixes = match verdict.steps.len() {
        _ if verdict.possible == verdict.route => "This machine has no direct route.".to_owned(),
        0 => format!("{goal} is possible."),
        1 => format!("One fix away from {goal}."),
        n => format!("{} fixes away from {goal}.", number(n)),
    };
    // A goal through host memory is as far as such a machine goes.
    let fixes = match verdict.possible {
        Route::Compat if verdict.route == Route::None => format!("{fixes} A direct route is not possible here."),
        _ => fixes,
    };
    match (verdict.route, verdict.proven) {
        (r, true) if r.is_direct() => {
            say(Status::Pass, format!("Yes: reads of {path} go straight to the GPU ({route}, proven)."))
        }
        (r, false) if r.is_direct() => say(
            Status::Warn,
            format!(
                "By the checks, yes: reads of {path} should go straight to the GPU ({route}). Not proven by a read yet."
            ),
        ),
        (Route::Compat, proven) => {
            let source = if proven { "proven" } else { "by the checks" };
            say(Status::Warn, format!("No: reads of {path} are copied through host memory (compat, {source}). {fixes}"))
        }
        _ => say(Status::Fail, format!("No: cuFile cannot read {path} at all. {fixes}")),
    }
}

fn number(n: usize) -> String {
    const WORDS: [&str; 10] = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"];
    WORDS.get(n).map_or_else(|| n.to_string(), |word| (*word).to_owned())
}

/// An engine's name in a narrow place. Of a command, which may be long, what it runs says more than that it is one; of a workload's lane its variant, whose
/// beginning and end tell it from the others.
pub(crate) fn short_engine(engine: &Engine, room: u16) -> String {
    let name = engine.to_string();
    match engine {
        Engine::Command(line) if super::pen::width(&name) > usize::from(room) => super::pen::cut(line, room),
        Engine::Workload(lane) if super::pen::width(&name) > usize::from(room) => {
            middle_cut(lane.split('/').nth(1).unwrap_or(lane), usize::from(room))
        }
        _ => super::pen::cut(&name, room),
    }
}

/// The engine's name where only lanes of one workload and direction stand beside each other: of these the variant.
pub(crate) fn variant_name(engine: &Engine, room: u16) -> String {
    match engine {
        Engine::Workload(_) => middle_cut(&engine.label(), usize::from(room)),
        _ => short_engine(engine, room),
    }
}

/// The text in `room` characters, with what is missing taken from its middle.
fn middle_cut(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    let head: String = text.chars().take(kept / 3).collect();
    let tail: String = text.chars().skip(length - (kept - kept / 3)).collect();
    if room > 0 { format!("{head}…{tail}") } else { String::new() }
}

/// The cache state as a word.
pub(crate) const fn cache_word(cache: CacheState) -> &'static str {
    match cache {
        CacheState::Cold => "cold",
        CacheState::Hot => "hot",
        CacheState::AsIs => "as found",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_legend_a_workloads_lane_goes_by_its_variant() {
        let lane = |name: &str| Engine::Workload(name.to_owned());
        assert_eq!(variant_name(&lane("ucm/gds:async=0/read"), 24), "gds:async=0");
        assert_eq!(variant_name(&lane("ucm/gds:enable_layerwise=1/read"), 12), "gds…erwise=1");
        assert_eq!(variant_name(&Engine::Pread, 24), "pread");
    }

    #[test]
    fn lanes_of_a_workload_keep_apart_what_tells_them_apart_in_a_narrow_place() {
        let lane = |factor: u32| Engine::Workload(format!("lmcache/gds:prefetch_factor={factor}/read"));
        let shown = [0, 1, 2].map(|factor| short_engine(&lane(factor), 17));
        assert_eq!(shown[0], "gds:p…ch_factor=0");
        assert!(shown[1].ends_with("=1") && shown[2].ends_with("=2"));
        assert_eq!(short_engine(&lane(0), 40), "lmcache/gds:prefetch_factor=0/read");
        assert_eq!(short_engine(&Engine::Command("python3 load.py".into()), 9), "python3 …");
        assert_eq!(middle_cut("abc", 0), "");
    }
}
