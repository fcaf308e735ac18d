//! Writes the fleet report as text, HTML, JSON and CSV.

use super::compare::{BandwidthGroup, Cause, Oddity};
use super::hostlist::hostlist;
use super::input::Unread;
use super::node::Node;
use super::read::Fleet;
use crate::core::{Route, Status, units};
use crate::present::Answer;
use crate::present::fleet::{self, FleetCounts};
use crate::present::view::{number, text as column};
use crate::report::section::{Block, Cells, Detail, Item, Section};
use crate::text::{CsvRows, quoted};
use serde_json::{Value, json};
use std::io::{self, Write};

/// The version of the JSON form.
const SCHEMA_VERSION: u32 = 1;

/// The maximum number of rows per list on a terminal. The other formats have all rows.
const ROWS: usize = 40;

/// The maximum length of a host list on a terminal, in characters.
const LONGEST_LIST: usize = 160;

/// The report as text.
#[must_use]
pub fn text(fleet: &Fleet, width: u16, colour: bool) -> String {
    crate::report::lines(&[answer(fleet)], &sections(fleet, Some(ROWS)), width, colour)
}

/// The report as one HTML file.
#[must_use]
pub fn html(fleet: &Fleet) -> String {
    crate::report::page(
        "",
        &[answer(fleet)],
        &sections(fleet, None),
        concat!("Made by gds-top ", env!("CARGO_PKG_VERSION"), ". Rates in decimal units."),
    )
}

fn hosts(nodes: &[&Node]) -> String {
    hostlist(nodes.iter().map(|node| node.host.as_str()))
}

fn route(route: Option<Route>) -> String {
    route.map_or_else(|| "not checked".to_owned(), |route| route.to_string())
}

fn status(cause: &Cause<'_>) -> Status {
    match cause.route {
        None => Status::Na,
        Some(Route::None) => Status::Fail,
        Some(Route::Compat) => Status::Warn,
        Some(_) if cause.nodes.iter().all(|node| node.proven) => Status::Pass,
        Some(_) => Status::Warn,
    }
}

fn answer(fleet: &Fleet) -> Answer {
    let count =
        |wanted: &dyn Fn(Route) -> bool| fleet.nodes.iter().filter(|node| node.route.is_some_and(wanted)).count();
    fleet::answer(&FleetCounts {
        nodes: fleet.nodes.len(),
        direct: count(&Route::is_direct),
        proven: fleet.nodes.iter().filter(|node| node.proven && node.route.is_some_and(Route::is_direct)).count(),
        compat: count(&|route| route == Route::Compat),
        broken: count(&|route| route == Route::None),
        unread: fleet.unread.len(),
        skipped: fleet.skipped.len(),
        superseded: fleet.superseded,
    })
}

/// Nodes that differ from their peers are listed first, because they need attention.
fn sections(fleet: &Fleet, rows: Option<usize>) -> Vec<Section> {
    let mut all = Vec::new();
    all.extend(odd(&fleet.oddities(), rows));
    all.push(causes(&fleet.causes(), rows.is_some()));
    all.extend(bandwidth(&fleet.bandwidth()));
    all.extend(Section::list("Files that could not be read", reasons(&fleet.unread, rows)));
    all.extend(Section::list("Entries that were skipped", reasons(&fleet.skipped, rows)));
    all
}

/// Each source with its reason. `rows` is the maximum number of lines.
fn reasons(all: &[Unread], rows: Option<usize>) -> Vec<String> {
    let rows = rows.unwrap_or(usize::MAX);
    let mut shown: Vec<String> = all.iter().take(rows).map(|one| format!("{}: {}", one.source, one.why)).collect();
    let more = all.len() - shown.len();
    if more > 0 {
        shown.push(format!("and {more} more; --json lists all"));
    }
    shown
}

fn odd(oddities: &[Oddity<'_>], rows: Option<usize>) -> Option<Section> {
    let first = oddities.get(..rows.unwrap_or(usize::MAX).min(oddities.len()))?;
    if first.is_empty() {
        return None;
    }
    let cells = Cells {
        heads: vec![column("nodes"), column("what differs"), column("value"), column("most peers")],
        rows: first
            .iter()
            .map(|odd| {
                vec![
                    shortened(hosts(&odd.nodes), rows.is_some()),
                    odd.fact.clone(),
                    odd.value.clone(),
                    format!("{} ({} of {})", odd.usual, odd.usual_nodes, odd.peers),
                ]
            })
            .collect(),
        statuses: Vec::new(),
    };
    let more = oddities.len() - first.len();
    let section = Section::new("Nodes that differ from their peers")
        .text("Peers are nodes with the same GPUs. The rarest differences come first.")
        .block(Block::Table(cells));
    Some(if more > 0 {
        section.block(Block::List(vec![format!("and {more} more; --json lists all")]))
    } else {
        section
    })
}

fn shortened(list: String, short: bool) -> String {
    if short && list.chars().count() > LONGEST_LIST {
        crate::text::truncate(&list, LONGEST_LIST).to_string()
    } else {
        list
    }
}

fn causes(causes: &[Cause<'_>], terminal: bool) -> Section {
    let item = |cause: &Cause<'_>| {
        let proven = cause.nodes.iter().filter(|node| node.proven).count();
        let mut text = units::plural(cause.nodes.len() as u64, "node");
        if cause.route.is_some_and(Route::is_direct) {
            text.push_str(&format!(", {proven} proven"));
        }
        if !cause.blocker.is_empty() {
            text.push_str(&format!("; {}: {}", cause.blocker, cause.summary));
        }
        let mut details = vec![Detail {
            label: "nodes",
            text: shortened(hosts(&cause.nodes), terminal),
            command: false,
            long: false,
        }];
        details.extend(command(cause).map(|text| Detail { label: "fix", text, command: true, long: false }));
        // Nodes without a fix are in the group of those with one if the blocker is the same.
        let advice = cause.advice.filter(|_| cause.fix.is_none()).map(str::to_owned);
        details.extend(advice.map(|text| Detail { label: "advice", text, command: false, long: false }));
        Item { status: status(cause), name: route(cause.route), text, details, folded: false, minor: false }
    };
    Section::new("Nodes by verdict and cause").block(Block::Items(causes.iter().map(item).collect()))
}

/// The command to run on each node of a group.
fn command(cause: &Cause<'_>) -> Option<String> {
    let path = if cause.path.is_empty() { String::new() } else { format!(" --path {}", quoted(cause.path)) };
    cause.fix.map(|fix| format!("sudo gds-top fix {fix}{path}"))
}

fn bandwidth(groups: &[BandwidthGroup<'_>]) -> Option<Section> {
    if groups.is_empty() {
        return None;
    }
    let heads = vec![
        column("run"),
        column("GPUs"),
        number("nodes"),
        number("lowest"),
        number("10 %"),
        number("median"),
        number("90 %"),
        number("highest"),
    ];
    let rows = groups
        .iter()
        .map(|group| {
            let mut row = vec![group.workload.name(), group.gpus.to_owned(), units::count(group.rates.len() as u64)];
            row.extend([0.0, 0.1, 0.5, 0.9, 1.0].map(|part| units::rate(group.quantile(part))));
            row
        })
        .collect();
    Some(Section::new("Bandwidth over the nodes").block(Block::Table(Cells { heads, rows, statuses: Vec::new() })))
}

/// The report as JSON: `schema/fleet.schema.json`.
#[must_use]
pub fn json(fleet: &Fleet) -> Value {
    let names = |nodes: &[&Node]| nodes.iter().map(|node| node.host.clone()).collect::<Vec<_>>();
    let causes: Vec<Value> = fleet
        .causes()
        .iter()
        .map(|cause| {
            json!({
                "route": cause.route, "blocker": (!cause.blocker.is_empty()).then_some(cause.blocker), "summary": cause.summary,
                "fix": cause.fix, "command": command(cause), "advice": cause.advice, "hostlist": hosts(&cause.nodes), "nodes": names(&cause.nodes),
            })
        })
        .collect();
    let odd: Vec<Value> = fleet
        .oddities()
        .iter()
        .map(|odd| {
            json!({
                "fact": odd.fact, "value": odd.value, "usual": odd.usual, "usual_nodes": odd.usual_nodes, "peers": odd.peers,
                "hostlist": hosts(&odd.nodes), "nodes": names(&odd.nodes),
            })
        })
        .collect();
    let bandwidth: Vec<Value> = fleet
        .bandwidth()
        .iter()
        .map(|group| {
            json!({
                "engine": group.workload.engine, "cache": group.workload.cache, "model": group.workload.model,
                "bytes": group.workload.bytes, "gpus": group.gpus, "nodes": group.rates.len(),
                "lowest_bytes_per_s": group.quantile(0.0), "p10_bytes_per_s": group.quantile(0.1),
                "median_bytes_per_s": group.median, "p90_bytes_per_s": group.quantile(0.9),
                "highest_bytes_per_s": group.quantile(1.0),
            })
        })
        .collect();
    let nodes: Vec<Value> = fleet
        .nodes
        .iter()
        .map(|node| {
            json!({
                "host": node.host, "source": node.source, "tool": node.tool, "started_unix_ms": node.started_unix_ms, "gpus": node.gpus,
                "route": node.route, "possible": node.possible, "proven": node.proven, "path": node.path,
                "blocker": (!node.blocker.is_empty()).then_some(&node.blocker), "fix": node.fix,
            })
        })
        .collect();
    let sources = |all: &[Unread]| -> Vec<Value> {
        all.iter().map(|one| json!({"source": one.source, "why": one.why})).collect()
    };
    json!({
        "schema_version": SCHEMA_VERSION, "tool": concat!("gds-top ", env!("CARGO_PKG_VERSION")), "nodes": nodes, "causes": causes,
        "odd": odd, "bandwidth": bandwidth, "unread": sources(&fleet.unread), "skipped": sources(&fleet.skipped),
        "superseded": fleet.superseded,
    })
}

/// Writes one row per node.
///
/// # Errors
/// If `out` cannot be written.
pub fn csv(fleet: &Fleet, out: impl Write) -> io::Result<()> {
    let mut odd: std::collections::HashMap<&str, Vec<String>> = std::collections::HashMap::new();
    let oddities = fleet.oddities();
    for oddity in &oddities {
        for node in &oddity.nodes {
            odd.entry(&node.host).or_default().push(format!("{}: {}", oddity.fact, oddity.value));
        }
    }
    let mut rows = CsvRows::new(out);
    rows.put(&[
        "host",
        "gpus",
        "route",
        "possible",
        "proven",
        "path",
        "blocker",
        "fix",
        "odd",
        "started_unix_ms",
        "source",
    ])?;
    for node in &fleet.nodes {
        let name = |route: Option<Route>| route.map_or_else(String::new, |route| route.to_string());
        rows.put(&[
            node.host.clone(),
            node.gpus.clone(),
            name(node.route),
            name(node.possible),
            node.proven.to_string(),
            node.path.clone(),
            node.blocker.clone(),
            node.fix.clone().unwrap_or_default(),
            odd.remove(node.host.as_str()).unwrap_or_default().join("; "),
            node.started_unix_ms.to_string(),
            node.source.clone(),
        ])?;
    }
    rows.flush()
}
