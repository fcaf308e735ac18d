//! Shared by the forms of a report: the footer, the names of meters.

/// The program and its version.
pub(super) fn tool(state: &crate::session::State) -> &str {
    if state.tool.is_empty() { "gds-top" } else { &state.tool }
}

/// The program and the units, which pages end with.
pub(super) fn footer(state: &crate::session::State) -> String {
    let tool = tool(state);
    format!(
        "Made by {tool}. Sizes in binary units, rates in decimal units. The clock starts with CUDA and cuFile open and nothing pinned; it stops when all \
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
