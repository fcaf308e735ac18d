//! Headlines: the answer of a screen in words, only as strong as what is known.

use super::entries::{
    Entry, Heat, elapsed_ns, heat_of, heats, is_clear, landed_at, rate_now, stage_words, without_twins,
};
use crate::domain::units::{bytes, duration, rate, three_digits};
use crate::domain::{CacheState, Engine, Finding, Route, Status, Verdict};
use crate::session::{LaneStatus, State, Together};
use crate::tui::app::UiState;

/// An answer and how good it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headline {
    pub(crate) status: Status,
    pub(crate) text: String,
}

fn say(status: Status, text: impl Into<String>) -> Headline {
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
    verdict.steps(&state.checks).into_iter().filter_map(of).collect()
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
    let fixes = match verdict.steps(&state.checks).len() {
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

/// How much a headline says: where there is little room it leaves out how it was measured, then whom else it beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Brevity {
    Whole,
    NoConditions,
    Names,
}

/// Which way of loading is fastest here?
pub(crate) fn race(state: &State, clock_ns: u64) -> Headline {
    race_as(state, clock_ns, Brevity::Whole)
}

/// The same in `lines` lines of `room` columns, as far as it can be said in so few.
pub(crate) fn race_in(state: &State, clock_ns: u64, room: u16, lines: usize) -> Headline {
    let brief = |brevity| race_as(state, clock_ns, brevity);
    [Brevity::Whole, Brevity::NoConditions]
        .into_iter()
        .map(brief)
        .find(|said| super::pen::wrap(&said.text, room).len() <= lines)
        .unwrap_or_else(|| brief(Brevity::Names))
}

fn race_as(state: &State, clock_ns: u64, brevity: Brevity) -> Headline {
    if let Some(lane) = state.running_lane() {
        return under_way(state, lane, clock_ns);
    }
    let heats = heats(state);
    if heats.is_empty() {
        return match (&state.model, state.unavailable.as_slice()) {
            (_, [(engine, why), ..]) => say(Status::Fail, format!("No engine can run here: {engine}: {why}")),
            (Some(_), []) => say(Status::Info, "The model is open; the race is being planned …"),
            (None, []) => say(Status::Info, "No race yet: no model has been opened."),
        };
    }
    let waiting = state.lanes.iter().filter(|l| l.status == LaneStatus::Waiting).count();
    let many = heats.len() > 1;
    let alone = heats.iter().filter(|heat| !heat.together()).filter_map(|heat| winner(heat, many, brevity));
    let mut parts: Vec<String> = alone.chain(together(state, brevity)).collect();
    let failed = engines_with(&heats, |entry| entry.failed().is_some());
    let stopped = engines_with(&heats, |entry| entry.stopped());
    let mut status = Status::Pass;
    if parts.is_empty() {
        status = if failed.is_empty() { Status::Info } else { Status::Fail };
        if failed.is_empty() && stopped.is_empty() {
            parts.push(match state.ended {
                Some(_) => "The session ended before a load had finished.".to_owned(),
                None => format!("{} planned; the first is about to start.", lanes_word(state.lanes.len())),
            });
        }
    }
    if !failed.is_empty() {
        if status == Status::Pass {
            status = Status::Warn;
        }
        parts.push(format!("{} failed.", failed.join(", ")));
    }
    if !stopped.is_empty() {
        let were = if stopped.len() == 1 { "was" } else { "were" };
        parts.push(format!("{} {were} stopped.", stopped.join(", ")));
    }
    if waiting > 0 && status == Status::Pass {
        status = Status::Info;
        parts.push(match state.ended {
            None if !state.stopped => format!("{} to come.", lanes_word(waiting)),
            _ => format!("{} never ran.", lanes_word(waiting)),
        });
    }
    say(status, parts.join(" "))
}

fn lanes_word(n: usize) -> String {
    if n == 1 { "one load".to_owned() } else { format!("{n} loads") }
}

/// The lanes of which something is so, each name once.
fn engines_with(heats: &[Heat<'_>], is_so: impl Fn(&Entry<'_>) -> bool) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in heats.iter().flat_map(|h| &h.entries).filter(|entry| is_so(entry)) {
        let name = lane_label(entry.engine);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What ran together, by engine, for each cache state: `q over 2 × NVIDIA H200 (hot): auto is fastest: 0.17 s (0.16 to 0.18, n = 3), 90 GB/s together;
/// pread 0.19 s.`
fn together(state: &State, brevity: Brevity) -> Vec<String> {
    let mut told: Vec<(String, Vec<Together>)> = Vec::new();
    for whole in state.wholes() {
        let r = &whole.typical;
        let what = if whole.one_model { "over" } else { "at once into" };
        let head = format!("{} {what} {} ({})", r.model, r.target, cache_word(r.cache));
        match told.iter_mut().find(|(known, _)| *known == head) {
            Some((_, wholes)) => wholes.push(whole),
            None => told.push((head, vec![whole])),
        }
    }
    told.into_iter()
        .filter_map(|(head, mut wholes)| {
            wholes.sort_by_key(|whole| whole.wall_ns);
            let (best, others_of) = wholes.split_first()?;
            let name = |whole: &Together| lane_label(&whole.typical.engine);
            let time = |whole: &Together| same_unit(whole.wall_ns, best.wall_ns);
            let range = match whole_range(best) {
                Some(range) if brevity == Brevity::Whole => format!(" ({range}, n = {})", best.n),
                _ => String::new(),
            };
            let others: Vec<String> =
                others_of.iter().map(|other| format!("{} {}", name(other), time(other))).collect();
            // As for lanes alone: ranges that touch, or single runs within 3 %, tell nobody apart.
            let clear = others_of.first().is_none_or(|next| match best.n.max(next.n) {
                1 => next.wall_ns as f64 > best.wall_ns as f64 * 1.03,
                _ => best.range_ns.1 < next.range_ns.0,
            });
            let verb = if clear { " is fastest:" } else { " leads within the noise:" };
            let (fastest, rest) = match others.as_slice() {
                [] => (" took", String::new()),
                _ if brevity == Brevity::Names => (verb, String::new()),
                others => (verb, format!("; {}", others.join(", "))),
            };
            Some(format!(
                "{head}: {}{fastest} {}{range}, {} together{rest}.",
                name(best),
                time(best),
                rate(best.bytes_per_s)
            ))
        })
        .collect()
}

/// `163 to 178 ms`; `None` of a single run.
fn whole_range(whole: &Together) -> Option<String> {
    let (low, high) = whole.range_ns;
    let low_words = same_unit(low, whole.wall_ns);
    let number = low_words.split_once(' ').map_or(low_words.as_str(), |(number, _)| number);
    (whole.n > 1).then(|| format!("{number} to {}", same_unit(high, whole.wall_ns)))
}

/// Lanes that run at the same time are told as one.
fn under_way_together(state: &State, lane: &crate::session::Lane) -> Headline {
    let lanes: Vec<&crate::session::Lane> = state.lanes.iter().filter(|l| l.group() == lane.group()).collect();
    let landed = lanes.iter().fold(0_u64, |sum, l| sum.saturating_add(l.landed_bytes()));
    let total = lanes.iter().fold(0_u64, |sum, l| sum.saturating_add(state.bytes_of(l)));
    let loading = lanes.iter().filter(|l| l.clock_ns.is_some() && l.loaded_ns.is_none() && l.ended_ns.is_none());
    let speed: f64 = loading.clone().filter_map(|l| rate_now(l)).sum();
    let n = lanes.len();
    if loading.count() == 0 {
        let started = lanes.iter().any(|l| l.loaded_ns.is_some() || l.ended_ns.is_some());
        let words =
            if started { "have loaded; their bytes are compared with the files" } else { "are starting together" };
        return say(Status::Info, format!("{n} lanes of {} {words}.", lane.engine));
    }
    let share = landed as f64 * 100.0 / total.max(1) as f64;
    let text = format!(
        "{n} lanes of {} load at the same time: {share:.0} % of {} at {}.",
        lane.engine,
        bytes(total),
        rate(speed)
    );
    say(Status::Info, text)
}

fn under_way(state: &State, lane: &crate::session::Lane, clock_ns: u64) -> Headline {
    let LaneStatus::Running(stage) = lane.status else { return say(Status::Info, "") };
    if lane.group().is_some() {
        return under_way_together(state, lane);
    }
    let number = state.lanes.iter().position(|l| l.id == lane.id).map_or(1, |at| at + 1);
    let of = format!("load {number} of {}", state.lanes.len());
    let words = stage_words(stage, lane.cache);
    if stage != crate::domain::LaneStage::Loading {
        return say(Status::Info, format!("{} {words}; {of}.", lane_label(&lane.engine)));
    }
    let landed = elapsed_ns(lane, clock_ns).map_or_else(|| lane.landed_bytes(), |_| lane.landed_bytes());
    let total = Some(state.bytes_of(lane));
    let so_far = match total.filter(|t| *t > 0) {
        Some(total) => format!("{:.0} % of {}", landed as f64 * 100.0 / total as f64, bytes(total)),
        None => bytes(landed),
    };
    let speed = rate_now(lane).map_or_else(String::new, |r| format!(" at {}", rate(r)));
    let rival = rival(state, lane, clock_ns).unwrap_or_default();
    say(Status::Info, format!("{} {words}: {so_far}{speed}{rival}; {of}.", lane_label(&lane.engine)))
}

/// How the running lane stands against the best that has finished in its heat, at the same time on their clocks.
fn rival(state: &State, lane: &crate::session::Lane, clock_ns: u64) -> Option<String> {
    let heats = heats(state);
    let heat = heat_of(&heats, lane).filter(|heat| !heat.together())?;
    let best = heat.ranked().into_iter().find(|e| *e.engine != lane.engine)?;
    let elapsed = elapsed_ns(lane, clock_ns)?;
    let (ours, theirs) = (lane.landed_bytes(), landed_at(best.typical()?, elapsed));
    if theirs == 0 || ours == 0 {
        return None;
    }
    let place = if ours >= theirs { "ahead of" } else { "behind" };
    Some(format!(", {place} {}", lane_label(best.engine)))
}

/// The winner of a heat in a sentence; `None` while no load of it has finished.
fn winner(heat: &Heat<'_>, name_heat: bool, brevity: Brevity) -> Option<String> {
    let all = heat.ranked();
    let (ranked, twins) = without_twins(all.clone());
    let first = *ranked.first()?;
    let wall = first.wall_ns()?;
    if all.iter().all(|entry| entry.typical().and_then(|lane| lane.result.as_deref()).is_some_and(|r| r.bytes == 0)) {
        return Some(nothing_moved(&all, name_heat.then(|| cache_word(heat.cache))));
    }
    // What auto takes is the answer to what it is.
    let took = match first.took() {
        Some(took) => format!(" (it took {took})"),
        None if twins => " (auto took it)".to_owned(),
        None => String::new(),
    };
    let conditions = match brevity {
        Brevity::Whole => conditions(&all, heat.cache, name_heat),
        _ => ".".to_owned(),
    };
    let opening = match heat_label(heat) {
        _ if !name_heat => String::new(),
        // A model's name is spelled as it is.
        label if heat.share.is_some() => format!("{label}: "),
        label => {
            let (first, rest) = label.split_at(label.chars().next().map_or(0, char::len_utf8));
            format!("{}{rest}: ", first.to_uppercase())
        }
    };
    let name = |entry: &Entry<'_>| lane_label(entry.engine);
    let Some(second) = ranked.get(1) else {
        return Some(match took.as_str() {
            "" => format!("{opening}{} took {}{conditions}", name(first), duration(wall)),
            took => format!("{opening}{}{took}: {}{conditions}", name(first), duration(wall)),
        });
    };
    let so_far = if heat.settled() { "" } else { " so far" };
    let mmap = ranked.iter().copied().find(|e| *e.engine == Engine::Mmap && e.engine != first.engine);
    let factor = |other_wall: u64| three_digits(other_wall as f64 / wall.max(1) as f64);
    if !is_clear(&ranked) {
        let second_wall = second.wall_ns()?;
        let slower = mmap.filter(|mmap| mmap.engine != second.engine && brevity != Brevity::Names);
        let slower = slower.and_then(Entry::wall_ns).map_or_else(String::new, |wall| {
            format!(", {}× faster than mmap ({})", factor(wall), same_unit(wall, wall))
        });
        return Some(format!(
            "{opening}{} ({}) and {} ({}) are too close to tell apart{so_far}{slower}{conditions}",
            name(first),
            same_unit(wall, second_wall),
            name(second),
            same_unit(second_wall, second_wall)
        ));
    }
    let other = mmap.unwrap_or(second);
    let other_wall = other.wall_ns()?;
    let against = match brevity {
        Brevity::Names => String::new(),
        _ => format!(", {}× faster than {} ({})", factor(other_wall), name(other), same_unit(other_wall, other_wall)),
    };
    Some(format!(
        "{opening}{}{took} is fastest{so_far}: {}{against}{conditions}",
        name(first),
        same_unit(wall, other_wall)
    ))
}

/// Lookups that all missed are no race: what is fast may be what looked nowhere.
fn nothing_moved(ranked: &[&Entry<'_>], cache: Option<&str>) -> String {
    let took = |entry: &&Entry<'_>| Some(format!("{} {}", lane_label(entry.engine), duration(entry.wall_ns()?)));
    let read = ranked.iter().any(|entry| entry.engine.direction() == Some("read"));
    let why = if read { "Every lookup missed" } else { "There was nothing to load" };
    let cache = cache.map_or_else(String::new, |cache| format!(" ({cache})"));
    format!("{why}{cache}: {}.", ranked.iter().filter_map(took).collect::<Vec<_>>().join(", "))
}

/// What tells a heat from the others of its session: what is done, with which model, from which state of the cache.
fn heat_label(heat: &Heat<'_>) -> String {
    let engine = heat.entries.first().map(|entry| entry.engine);
    let direction = engine.and_then(Engine::direction).map(|direction| format!("{direction}, "));
    let model = heat.share.map(|share| format!("{} alone, ", share.model));
    format!("{}{}{}", direction.unwrap_or_default(), model.unwrap_or_default(), cache_word(heat.cache))
}

/// A lane's name in a session that is about one workload: its variant; of an engine its name.
pub(crate) fn lane_label(engine: &Engine) -> String {
    engine.label()
}

/// ", hot cache, n = 3, bytes verified."
fn conditions(ranked: &[&Entry<'_>], cache: CacheState, named: bool) -> String {
    let (least, most) = ranked.iter().map(|e| e.n()).fold((usize::MAX, 0), |(lo, hi), n| (lo.min(n), hi.max(n)));
    let n = if least == most { format!("n = {most}") } else { format!("n = {least} to {most}") };
    let verified = if ranked.iter().all(|e| e.verified()) { "bytes verified" } else { "bytes not verified" };
    let cache = if named { String::new() } else { format!(", {} cache", cache_word(cache)) };
    format!("{cache}, {n}, {verified}.")
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
    use crate::domain::RunResult;
    use crate::tui::testdata::{self, Scene};

    /// A race in which `auto`, which took pread, and pread are as fast as can be told.
    #[test]
    fn in_a_legend_a_workloads_lane_goes_by_its_variant() {
        let lane = |name: &str| Engine::Workload(name.to_owned());
        assert_eq!(variant_name(&lane("ucm/gds:async=0/read"), 24), "gds:async=0");
        assert_eq!(variant_name(&lane("ucm/gds:enable_layerwise=1/read"), 12), "gds…erwise=1");
        assert_eq!(variant_name(&Engine::Pread, 24), "pread");
    }

    #[test]
    fn auto_and_what_it_took_are_one_winner_and_no_tie() {
        let mut state = testdata::state(Scene::Done);
        for lane in &mut state.lanes {
            let Some(mut result) = lane.result.as_deref().cloned() else { continue };
            match lane.engine {
                Engine::GdsSlab => {
                    lane.engine = Engine::Auto;
                    result.engine = Engine::Auto;
                    result.notes = vec!["auto took pread: 100 % of the model lies in the page cache".into()];
                }
                Engine::Pread => result.wall_ns = 312_000_000,
                _ => {}
            }
            lane.result = Some(result.into());
        }
        let said = race(&state, state.now_ns).text;
        assert!(said.starts_with("auto (it took pread) is fastest: 0.310 s, 5.68× faster than mmap"), "{said}");
        // What it took is in the race and clearly slower: then it is a rival like any other.
        let pread = state.lanes.iter_mut().find(|lane| lane.engine == Engine::Pread);
        if let Some(lane) = pread
            && let Some(result) = lane.result.as_deref().cloned()
        {
            lane.result = Some(RunResult { wall_ns: 400_000_000, ..result }.into());
        }
        let said = race(&state, state.now_ns).text;
        assert!(said.starts_with("auto (it took pread) is fastest"), "{said}");
    }

    #[test]
    fn lookups_that_all_missed_are_no_race() {
        let mut state = testdata::kv();
        for lane in &mut state.lanes {
            if let Some(result) = lane.result.as_deref().cloned() {
                lane.result = Some(RunResult { bytes: 0, verified: None, ..result }.into());
            }
        }
        let said = race(&state, state.now_ns).text;
        assert!(
            said.contains("very lookup missed") && !said.contains("fastest") && !said.contains("verified"),
            "{said}"
        );
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
