//! What is learned from spans: questions that may be answered on another thread, because a million spans take longer than a frame has.

use super::derived::Studied;
use super::screens::learn::lesson::{Seeds, Told};
use super::screens::tensors::order::Names;
use super::screens::tensors::runs::Tensors;
use crate::analysis::{LandingCurve, RunFacts, cost_model, tensor_rows};
use crate::domain::{LaneId, ModelInfo, PackedSpans, RunResult};
use crate::session::{Lane, State};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Spans and tensors that are looked through between two keys without anybody noticing: about two milliseconds.
pub(crate) const AT_ONCE: usize = 8192;

/// Something to find out.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// What the spans of a lane say.
    Lane(Box<Study>),
    /// The names of a model, prepared for searching and sorting.
    Names(Arc<ModelInfo>),
    /// What was measured here, for the lesson.
    Here(Seeds),
}

/// What was found out.
#[derive(Debug)]
pub(crate) enum Answer {
    Lane(Box<Studied>),
    Names(Box<Names>),
    Here(Option<Told>),
}

/// A lane's spans and what is needed to read them.
#[derive(Clone, Debug)]
pub(crate) struct Study {
    pub(crate) lane: LaneId,
    spans: PackedSpans,
    model: Option<Arc<ModelInfo>>,
    result: Option<Box<RunResult>>,
    /// Without others beside it, so that its times are its own.
    alone: bool,
    /// Tensor by tensor too.
    pub(crate) rows: bool,
}

impl Study {
    pub(crate) fn of(state: &State, lane: &Lane, rows: bool) -> Self {
        Self {
            lane: lane.id,
            spans: lane.spans.clone(),
            model: state.model_of(lane).cloned(),
            result: lane.result.clone(),
            alone: lane.group().is_none(),
            rows,
        }
    }

    fn carry_out(self) -> Studied {
        let spans = self.spans.unpack();
        let wall = self.result.as_deref().map_or(0, |result| result.wall_ns);
        let rows = self.model.as_ref().map(|model| tensor_rows(model, &spans)).unwrap_or_default();
        let cost = if self.alone { cost_model(&rows, wall, &[wall]) } else { None };
        let tensors = self.model.as_ref().map_or(0, |model| model.tensors.len() as u64);
        let facts = self.result.as_deref().map(|run| RunFacts::new(run, &spans, tensors, None));
        Studied {
            lane: self.lane,
            spans: spans.len(),
            curve: LandingCurve::of_spans(&spans, wall),
            registrations: facts.as_ref().map_or(0, |f| f.registrations),
            first_reads_ns: facts.as_ref().map_or(0, |f| f.first_reads_ns),
            loaded: tensors,
            tensors: self.rows.then(|| Tensors::new(spans.len(), rows, cost.clone())),
            cost,
        }
    }
}

impl Question {
    /// Spans and tensors to look through.
    fn weight(&self) -> usize {
        match self {
            Self::Lane(study) => study.spans.len() + study.model.as_ref().map_or(0, |m| m.tensors.len()),
            Self::Names(model) => model.tensors.len(),
            Self::Here(seeds) => seeds.weight(),
        }
    }

    pub(crate) fn answer(self) -> Answer {
        match self {
            Self::Lane(study) => Answer::Lane(Box::new(study.carry_out())),
            Self::Names(model) => Answer::Names(Box::new(Names::of(&model))),
            Self::Here(seeds) => Answer::Here(seeds.grow()),
        }
    }

    /// What makes it the same question as another.
    fn mark(&self) -> Mark {
        match self {
            Self::Lane(study) => Mark::Lane(study.lane, study.spans.len(), study.rows),
            Self::Names(model) => Mark::Names(model.path.clone(), model.tensors.len()),
            Self::Here(_) => Mark::Here,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Lane(LaneId, usize, bool),
    Names(std::path::PathBuf, usize),
    Here,
}

/// Questions on their way.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    /// What one frame may look through itself; the rest is for another thread.
    pub(crate) at_once: usize,
    /// To be carried away.
    pub(crate) out: Vec<Question>,
    away: BTreeSet<Mark>,
}

impl Default for Desk {
    /// Everything at once: for pictures, which cannot wait.
    fn default() -> Self {
        Self { at_once: usize::MAX, out: Vec::new(), away: BTreeSet::new() }
    }
}

impl Desk {
    /// Splits questions into those to be answered now, which are returned, and those that are sent out, once each.
    pub(crate) fn sort(&mut self, questions: Vec<Question>) -> Vec<Question> {
        let mut room = self.at_once;
        let mut now = Vec::new();
        for question in questions {
            let (weight, mark) = (question.weight(), question.mark());
            if self.away.contains(&mark) {
                continue;
            }
            if weight <= room {
                room -= weight;
                now.push(question);
            } else {
                self.away.insert(mark);
                self.out.push(question);
            }
        }
        now
    }

    /// Whether an answer is still to come.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.away.is_empty()
    }

    /// Takes the question of an answer off the list.
    pub(crate) fn back(&mut self, answer: &Answer) {
        self.away.retain(|mark| match (mark, answer) {
            (Mark::Lane(lane, spans, rows), Answer::Lane(studied)) => {
                (*lane, *spans, *rows) != (studied.lane, studied.spans, studied.tensors.is_some())
            }
            (Mark::Names(path, count), Answer::Names(names)) => !names.is_of(path, *count),
            (Mark::Here, Answer::Here(_)) => false,
            _ => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::tui::app::{Screen, UiState};
    use crate::tui::testdata;

    #[test]
    fn what_is_sent_out_is_asked_once_and_ends_in_what_would_have_been_found_at_once() {
        let state = testdata::many_tensors(300);
        let mut at_once = UiState { screen: Screen::Tensors, ..UiState::default() };
        at_once.prepare(&state);
        let mut ui = UiState { screen: Screen::Tensors, ..UiState::default() };
        ui.desk.at_once = 0;
        ui.prepare(&state);
        let questions = std::mem::take(&mut ui.desk.out);
        assert!(!questions.is_empty() && ui.desk.is_waiting());
        ui.prepare(&state);
        assert!(ui.desk.out.is_empty() && ui.tensors.order.is_empty(), "asked once, and nothing is known yet");
        for question in questions {
            ui.take(question.answer());
        }
        ui.prepare(&state);
        assert!(!ui.desk.is_waiting());
        assert_eq!((ui.tensors.order.len(), &ui.tensors.order), (300, &at_once.tensors.order));
        assert_eq!(ui.derived.advice(), at_once.derived.advice());
    }
}
