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

/// The name of a meter in files: `pcie_rx_bytes_per_s`.
pub(super) fn metric_name(metric: crate::core::Metric) -> String {
    match serde_json::to_value(metric) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{metric:?}"),
    }
}
