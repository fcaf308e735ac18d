//! The checks: failures and warnings with evidence and fixes. Passed checks are only counted.

use crate::core::{Evidence, Finding, Status};
use crate::present::finding::{FindingView, Part};
use crate::present::machine::check_counts;
use crate::present::verdict::no_gpu;
use crate::report::section::{Block, Detail, Item, Section};
use crate::session::State;

/// The order of the statuses, with the worst one first.
const ORDER: [Status; 5] = [Status::Fail, Status::Warn, Status::Info, Status::Na, Status::Pass];

pub(super) fn section(state: &State) -> Option<Section> {
    // Without a GPU, advice about cuFile does not help.
    let has_gpu = state.verdicts.is_empty() || !state.verdicts.iter().all(no_gpu);
    let item = |finding: &Finding| item(finding, has_gpu || !finding.is_only_for_gpus());
    let of = |status: Status| state.checks.iter().filter(move |finding| finding.status == status).map(item);
    let items: Vec<Item> = ORDER.into_iter().flat_map(of).collect();
    (!items.is_empty())
        .then(|| Section::new("Checks").text(format!("{}.", check_counts(state))).block(Block::Items(items)))
}

fn item(finding: &Finding, has_advice: bool) -> Item {
    let view = FindingView::of(finding);
    let detail = |part: &Part| Detail { label: part.label, text: part.text.clone(), command: false, long: false };
    let long = |part: &Part| Detail { long: true, ..detail(part) };
    let found = |evidence: &Evidence| Detail {
        label: view.found,
        text: format!("{}: {}", evidence.source, evidence.text),
        command: false,
        long: finding.status != Status::Fail,
    };
    let mut details: Vec<Detail> = view.evidence.iter().map(found).collect();
    details.extend([&view.why, &view.cause, &view.blocks].into_iter().flatten().map(long));
    if has_advice {
        details.extend(view.command.as_ref().map(|part| Detail { command: true, ..detail(part) }));
        let only_advice = view.command.is_none();
        details.extend(view.advice.as_ref().map(|part| if only_advice { detail(part) } else { long(part) }));
    }
    Item {
        status: finding.status,
        name: finding.id.to_string(),
        text: finding.summary.clone(),
        details,
        folded: finding.status != Status::Fail,
        minor: finding.status.weight() < Status::Warn.weight(),
    }
}
