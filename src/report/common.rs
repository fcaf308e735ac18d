//! Shared by the forms of a report: sanitised text, the footer, the names of meters.

/// Text of others without control characters (a tensor's name may hold an escape sequence) and without those that turn the writing direction.
#[must_use]
pub fn plain(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).filter(|c| !turns(*c)).collect()
}

/// The program and the units, which pages end with.
pub(super) fn footer(state: &crate::session::State) -> String {
    let tool = if state.tool.is_empty() { "gds-top" } else { &state.tool };
    format!(
        "Made by {tool}. Sizes in binary units, rates in decimal units. The clock starts with CUDA and cuFile open and nothing pinned; it stops when all \
         bytes are on the target."
    )
}

/// The name of a meter in files: `pcie_rx_bytes_per_s`.
pub(super) fn metric_name(metric: crate::domain::Metric) -> String {
    match serde_json::to_value(metric) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{metric:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn escape_sequences_and_turned_text_do_not_pass() {
        assert_eq!(plain("a\u{1b}[31mb\u{202e}c\nd"), "a [31mbc d");
    }
}
