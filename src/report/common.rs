//! Parts that the formats of a report share: the footer and the names of meters.

/// The program and its version.
pub(super) fn tool(state: &crate::session::State) -> &str {
    if state.tool.is_empty() { "gds-top" } else { &state.tool }
}

/// The footer of a page: the program, the units and the clock.
pub(super) fn footer(state: &crate::session::State) -> String {
    format!("Made by {}. Sizes in binary units, rates in decimal units.{}", tool(state), clock(state))
}

/// The sentence about the times. Empty if the page has none of a program or a run.
fn clock(state: &crate::session::State) -> &'static str {
    match &state.watch {
        Some(report) if report.attached.is_some() => {
            " Times begin at the attach. Durations of calls include the kernel probes."
        }
        Some(_) => " Times begin at the start of the program. The duration of a call is the time inside it.",
        None if state.lanes.is_empty() => "",
        None => {
            " The clock starts when CUDA and cuFile are open and nothing is pinned; it stops when all bytes are on the target."
        }
    }
}

/// The parts of a text, and whether a part is a command between backticks. If a backtick has no partner, the text is one
/// part.
pub(super) fn code_parts(text: &str) -> Vec<(bool, &str)> {
    match text.matches('`').count() % 2 {
        0 => text.split('`').enumerate().map(|(number, part)| (number % 2 == 1, part)).collect(),
        _ => vec![(false, text)],
    }
}

/// The name of a meter in files: `pcie_rx_bytes_per_s`.
pub(super) fn metric_name(metric: crate::core::Metric) -> String {
    match serde_json::to_value(metric) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{metric:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{AttachedProcess, Event, EventBody, WatchReport};
    use crate::session::State;

    #[test]
    fn commands_are_the_parts_between_pairs_of_backticks() {
        assert_eq!(code_parts("Run `a b`."), [(false, "Run "), (true, "a b"), (false, ".")]);
        assert_eq!(code_parts("it's 5 ` long"), [(false, "it's 5 ` long")]);
        assert_eq!(code_parts(""), [(false, "")]);
    }

    #[test]
    fn the_footer_names_the_clock_of_the_session() {
        let of = |watch: Option<WatchReport>| {
            let mut state = State::default();
            if let Some(report) = watch {
                state.reduce(&Event { at_ns: 0, body: EventBody::ProgramSeen { report: Box::new(report) } });
            }
            footer(&state)
        };
        let attached = WatchReport { attached: Some(AttachedProcess::default()), ..WatchReport::default() };
        let (launched, attached) = (of(Some(WatchReport::default())), of(Some(attached)));
        assert!(launched.contains("start of the program") && attached.contains("the attach"), "{launched} {attached}");
        // A session of checks has no clock.
        assert!(of(None).ends_with("decimal units."));
        assert!(![launched, attached, of(None)].concat().contains("pinned"));
    }
}
