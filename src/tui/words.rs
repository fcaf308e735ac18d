//! Answers as headlines of a screen, and engine names for narrow columns.

use crate::core::{Engine, Status, Verdict};
use crate::present::engine_rows::EngineRow;
use crate::present::verdict::{self, Missing};
use crate::present::{Answer, headline, labels};
use crate::session::State;
use crate::text::truncate_middle;
use crate::tui::context::Context;

/// An answer with its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headline {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl From<Answer> for Headline {
    fn from(answer: Answer) -> Self {
        Self { status: answer.status, text: answer.text() }
    }
}

/// The answers as a headline. Their conditions are included if everything fits into `lines` lines of `room` columns.
pub(crate) fn headline_in(answers: &[Answer], room: u16, lines: usize) -> Headline {
    let complete = joined(answers.iter().map(Answer::text));
    let fits = super::pen::wrap(&complete, room).len() <= lines;
    let text = if fits { complete } else { joined(answers.iter().map(|answer| answer.headline.clone())) };
    Headline { status: headline::worst(answers), text }
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(" ")
}

/// Whether the session runs no checks. Checks come first, so if a run was planned without them, none will follow.
pub(crate) fn unchecked(state: &State, ctx: &Context) -> bool {
    let measured = !state.lanes.is_empty() || state.grid.is_some() || state.watch.is_some();
    state.checks.is_empty()
        && state.checks_took_ns.is_none()
        && (ctx.unasked || ctx.over || state.ended.is_some() || measured)
}

/// The answer to the question whether reads of the path go straight to the GPU.
pub(crate) fn environment(state: &State, verdict: Option<&Verdict>, ctx: &Context) -> Headline {
    let missing = match unchecked(state, ctx) {
        false => Missing::Running,
        true if ctx.replay || ctx.over || state.ended.is_some() || state.watch.is_some() => Missing::NeverChecked,
        true => Missing::NotAsked,
    };
    verdict.map_or_else(|| verdict::missing(state, missing), verdict::answer).into()
}

/// An engine name with at most `room` columns. For a command it is the name of the program. For a workload it is the
/// variant, because its beginning and end distinguish it from others.
pub(crate) fn short_engine(engine: &Engine, room: u16) -> String {
    let name = engine.to_string();
    match engine {
        Engine::Command(line) if super::pen::width(&name) > usize::from(room) => super::pen::cut(line, room),
        Engine::Workload(_) if super::pen::width(&name) > usize::from(room) => {
            truncate_middle(&engine.label(), room.into()).into_owned()
        }
        _ => super::pen::cut(&name, room),
    }
}

/// The engine name if only runs of one workload and direction are shown: the variant.
pub(crate) fn variant_name(engine: &Engine, room: u16) -> String {
    match engine {
        Engine::Workload(_) => truncate_middle(&engine.label(), room.into()).into_owned(),
        _ => short_engine(engine, room),
    }
}

/// The name of a row with at most `room` columns.
pub(crate) fn row_name(row: &EngineRow<'_>, room: u16) -> String {
    match row.place() {
        Some(_) => super::pen::cut(&row.name(), room),
        None => short_engine(row.engine, room),
    }
}

/// The engine that `auto` chose, as text after the name of its row.
pub(crate) fn chosen(row: &EngineRow<'_>) -> Option<String> {
    row.auto_chose().map(|engine| format!(" → {}", labels::engine(engine)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn answers_lose_their_conditions_if_the_room_is_small() {
        let answers = [
            Answer { status: Status::Pass, headline: "Cold: a wins.".into(), conditions: "3 runs.".into() },
            Answer { status: Status::Warn, headline: "Hot: b wins.".into(), conditions: String::new() },
        ];
        let one_line = headline_in(&answers, 80, 1);
        assert_eq!((one_line.status, one_line.text.as_str()), (Status::Warn, "Cold: a wins. 3 runs. Hot: b wins."));
        assert_eq!(headline_in(&answers, 28, 1).text, "Cold: a wins. Hot: b wins.");
    }

    #[test]
    fn in_a_legend_a_workload_goes_by_its_variant() {
        let lane = |name: &str| Engine::Workload(name.parse().unwrap());
        assert_eq!(variant_name(&lane("ucm/gds:async=0/read"), 24), "gds:async=0");
        assert_eq!(variant_name(&lane("ucm/gds:enable_layerwise=1/read"), 12), "gds…erwise=1");
        assert_eq!(variant_name(&Engine::Pread, 24), "pread");
    }

    #[test]
    fn short_names_of_workloads_still_differ() {
        let lane =
            |factor: u32| Engine::Workload(format!("lmcache/gds:prefetch_factor={factor}/read").parse().unwrap());
        let shown = [0, 1, 2].map(|factor| short_engine(&lane(factor), 17));
        assert_eq!(shown[0], "gds:p…ch_factor=0");
        assert!(shown[1].ends_with("=1") && shown[2].ends_with("=2"));
        assert_eq!(short_engine(&lane(0), 40), "lmcache/gds:prefetch_factor=0/read");
        assert_eq!(short_engine(&Engine::Command("python3 load.py".into()), 9), "python3 …");
    }
}
