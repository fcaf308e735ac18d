//! The checks: failures and warnings with evidence and fixes. Passed checks are only counted.

use crate::core::{Finding, Status};
use crate::present::machine::check_counts;
use crate::report::section::{Block, Detail, Item, Section};
use crate::session::State;

/// The order of the statuses, with the worst one first.
const ORDER: [Status; 5] = [Status::Fail, Status::Warn, Status::Info, Status::Na, Status::Pass];

pub(super) fn section(state: &State) -> Option<Section> {
    let of = |status: Status| state.checks.iter().filter(move |finding| finding.status == status).map(item);
    let items: Vec<Item> = ORDER.into_iter().flat_map(of).collect();
    (!items.is_empty())
        .then(|| Section::new("Checks").text(format!("{}.", check_counts(state))).block(Block::Items(items)))
}

fn item(finding: &Finding) -> Item {
    let detail = |label, text: String| Detail { label, text, command: false, long: false };
    let mut details: Vec<Detail> = finding
        .evidence
        .iter()
        .map(|evidence| Detail {
            long: finding.status != Status::Fail,
            ..detail("found", format!("{}: {}", evidence.source, evidence.text))
        })
        .collect();
    if !finding.why.is_empty() {
        details.push(Detail { long: true, ..detail("why", finding.why.clone()) });
    }
    if !finding.blocks.is_empty() {
        let routes: Vec<String> = finding.blocks.iter().map(ToString::to_string).collect();
        details.push(Detail { long: true, ..detail("blocks", routes.join(", ")) });
    }
    match (&finding.fix, &finding.advice) {
        (Some(fix), _) => {
            let command = finding.command.clone().unwrap_or_else(|| format!("sudo gds-top fix {fix}"));
            details.push(Detail { command: true, ..detail("fix", command) });
        }
        (None, Some(advice)) => details.push(detail("advice", advice.clone())),
        (None, None) => {}
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
