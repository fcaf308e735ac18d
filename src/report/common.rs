//! Parts that the formats of a report share: the footer and the names of meters.

/// The program and its version.
pub(super) fn tool(state: &crate::session::State) -> &str {
    if state.tool.is_empty() { "gds-top" } else { &state.tool }
}

/// The footer of a page: the program, the units and the clock.
pub(super) fn footer(state: &crate::session::State) -> String {
    let tool = tool(state);
    format!(
        "Made by {tool}. Sizes in binary units, rates in decimal units. The clock starts when CUDA and cuFile are open and nothing is pinned; it stops when all \
         bytes are on the target."
    )
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

    #[test]
    fn commands_are_the_parts_between_pairs_of_backticks() {
        assert_eq!(code_parts("Run `a b`."), [(false, "Run "), (true, "a b"), (false, ".")]);
        assert_eq!(code_parts("it's 5 ` long"), [(false, "it's 5 ` long")]);
        assert_eq!(code_parts(""), [(false, "")]);
    }
}
