//! The headline of the race: which way of loading is fastest here, only as strongly as is known.

use super::entries::{
    Entry, Heat, elapsed_ns, heat_of, heats, is_clear, landed_at, rate_now, stage_words, without_twins,
};
use super::words::{Headline, cache_word, same_unit, say};
use crate::domain::units::{bytes, duration, rate, three_digits};
use crate::domain::{CacheState, Engine, LaneStage, Status};
use crate::session::{Lane, LaneStatus, State, Together};

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
        let name = entry.engine.label();
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
            let name = |whole: &Together| whole.typical.engine.label();
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
fn under_way_together(state: &State, lane: &Lane) -> Headline {
    let lanes: Vec<&Lane> = state.lanes.iter().filter(|l| l.group() == lane.group()).collect();
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

fn under_way(state: &State, lane: &Lane, clock_ns: u64) -> Headline {
    let LaneStatus::Running(stage) = lane.status else { return say(Status::Info, "") };
    if lane.group().is_some() {
        return under_way_together(state, lane);
    }
    let number = state.lanes.iter().position(|l| l.id == lane.id).map_or(1, |at| at + 1);
    let of = format!("load {number} of {}", state.lanes.len());
    let words = stage_words(stage, lane.cache);
    if stage != LaneStage::Loading {
        return say(Status::Info, format!("{} {words}; {of}.", lane.engine.label()));
    }
    let (landed, total) = (lane.landed_bytes(), state.bytes_of(lane));
    let so_far = match total {
        0 => bytes(landed),
        _ => format!("{:.0} % of {}", landed as f64 * 100.0 / total as f64, bytes(total)),
    };
    let speed = rate_now(lane).map_or_else(String::new, |r| format!(" at {}", rate(r)));
    let rival = rival(state, lane, clock_ns).unwrap_or_default();
    say(Status::Info, format!("{} {words}: {so_far}{speed}{rival}; {of}.", lane.engine.label()))
}

/// How the running lane stands against the best that has finished in its heat, at the same time on their clocks.
fn rival(state: &State, lane: &Lane, clock_ns: u64) -> Option<String> {
    let heats = heats(state);
    let heat = heat_of(&heats, lane).filter(|heat| !heat.together())?;
    let best = heat.ranked().into_iter().find(|e| *e.engine != lane.engine)?;
    let elapsed = elapsed_ns(lane, clock_ns)?;
    let (ours, theirs) = (lane.landed_bytes(), landed_at(best.typical()?, elapsed));
    if theirs == 0 || ours == 0 {
        return None;
    }
    let place = if ours >= theirs { "ahead of" } else { "behind" };
    Some(format!(", {place} {}", best.engine.label()))
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
    let name = |entry: &Entry<'_>| entry.engine.label();
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
    let took = |entry: &&Entry<'_>| Some(format!("{} {}", entry.engine.label(), duration(entry.wall_ns()?)));
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

/// ", hot cache, n = 3, bytes verified."
fn conditions(ranked: &[&Entry<'_>], cache: CacheState, named: bool) -> String {
    let (least, most) = ranked.iter().map(|e| e.n()).fold((usize::MAX, 0), |(lo, hi), n| (lo.min(n), hi.max(n)));
    let n = if least == most { format!("n = {most}") } else { format!("n = {least} to {most}") };
    let verified = if ranked.iter().all(|e| e.verified()) { "bytes verified" } else { "bytes not verified" };
    let cache = if named { String::new() } else { format!(", {} cache", cache_word(cache)) };
    format!("{cache}, {n}, {verified}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{AutoChoice, RunResult};
    use crate::tui::testdata::{self, Scene};

    /// A race in which `auto`, which took pread, and pread are as fast as can be told.
    #[test]
    fn auto_and_what_it_took_are_one_winner_and_no_tie() {
        let mut state = testdata::state(Scene::Done);
        for lane in &mut state.lanes {
            let Some(mut result) = lane.result.as_deref().cloned() else { continue };
            match lane.engine {
                Engine::GdsSlab => {
                    lane.engine = Engine::Auto;
                    result.engine = Engine::Auto;
                    result.auto_choice = Some(AutoChoice { engine: Engine::Pread, reason: None });
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
}
