//! Groups of nodes with one cause, and nodes that differ from their peers.

use super::node::{Node, Workload, badness};
use super::read::Fleet;
use crate::analysis::median;
use crate::core::Route;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nodes with the same verdict for the same reason.
#[derive(Clone, Debug)]
pub struct Cause<'a> {
    /// The worst route of each node's verdicts; `None` if they have no verdict.
    pub route: Option<Route>,
    /// The first blocker's id; empty if nothing blocks.
    pub blocker: &'a str,
    /// The summary that most of the nodes have.
    pub summary: &'a str,
    /// The fix, if there is one.
    pub fix: Option<&'a str>,
    /// The nodes.
    pub nodes: Vec<&'a Node>,
}

/// A value that few nodes have and most of their peers do not.
#[derive(Clone, Debug)]
pub struct Oddity<'a> {
    /// The property that differs: `driver`, `check udev-database`, `bandwidth odirect cold qwen3-0.6b`.
    pub fact: String,
    /// The value of these nodes; `absent` if they have none.
    pub value: String,
    /// The value of most peers.
    pub usual: String,
    /// The number of peers with the usual value.
    pub usual_nodes: usize,
    /// The number of peers, including these nodes.
    pub peers: usize,
    /// These nodes.
    pub nodes: Vec<&'a Node>,
}

/// The rates of a workload on nodes with the same GPUs.
#[derive(Clone, Debug)]
pub struct BandwidthGroup<'a> {
    /// The GPUs.
    pub gpus: &'a str,
    /// The workload.
    pub workload: &'a Workload,
    /// Rate in bytes per second and node, ascending.
    pub rates: Vec<(f64, &'a Node)>,
    /// The median.
    pub median: f64,
    /// Rates outside these bounds are odd.
    pub usual: (f64, f64),
}

impl BandwidthGroup<'_> {
    /// The percentile of the rates, by nearest rank.
    #[must_use]
    pub fn quantile(&self, part: f64) -> f64 {
        let at = (part * (self.rates.len().saturating_sub(1)) as f64).round() as usize;
        self.rates.get(at).map_or(0.0, |(rate, _)| *rate)
    }
}

/// Fewer peers show no majority.
const FEWEST_PEERS: usize = 3;

/// A value is odd if at most one peer in this many has it; a single node is odd among [`FEWEST_PEERS`].
const ONE_IN: usize = 5;

/// A rate is odd if it is this many standard deviations from the median, estimated from the median deviation. Noise of 10 000 nodes reaches about four.
const DEVIATIONS: f64 = 6.0;

/// A smaller difference from the median is not worth a look, however steady the peers are.
const SMALLEST_DIFFERENCE: f64 = 0.1;

impl Fleet {
    /// The causes, worst route first, then by number of nodes.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause<'_>> {
        let mut groups: BTreeMap<(Option<Route>, &str), Vec<&Node>> = BTreeMap::new();
        for node in &self.nodes {
            groups.entry((node.route, &node.blocker)).or_default().push(node);
        }
        let mut causes: Vec<Cause<'_>> = groups
            .into_iter()
            .map(|((route, blocker), nodes)| Cause {
                route,
                blocker,
                summary: most(nodes.iter().map(|node| node.summary.as_str())).unwrap_or(""),
                fix: most(nodes.iter().filter_map(|node| node.fix.as_deref())),
                nodes,
            })
            .collect();
        // A node without a verdict could be any; it is listed before the good ones.
        let rank = |cause: &Cause<'_>| cause.route.map_or(1, badness);
        causes.sort_by(|a, b| {
            rank(b).cmp(&rank(a)).then(b.nodes.len().cmp(&a.nodes.len())).then(a.blocker.cmp(b.blocker))
        });
        causes
    }

    /// Nodes by their GPUs.
    fn peers(&self) -> BTreeMap<&str, Vec<&Node>> {
        let mut peers: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for node in &self.nodes {
            peers.entry(&node.gpus).or_default().push(node);
        }
        peers
    }

    /// The odd ones, the rarest first; those of bandwidth among them.
    #[must_use]
    pub fn oddities(&self) -> Vec<Oddity<'_>> {
        let mut all = Vec::new();
        for peers in self.peers().values().filter(|peers| peers.len() >= FEWEST_PEERS) {
            let mut facts: BTreeMap<&Arc<str>, BTreeMap<&str, Vec<&Node>>> = BTreeMap::new();
            for node in peers {
                for (fact, value) in &node.facts {
                    facts.entry(fact).or_default().entry(value).or_default().push(node);
                }
            }
            facts.into_iter().for_each(|(fact, values)| odd_values(fact, values, peers, &mut all));
        }
        for group in self.bandwidth() {
            odd_rates(&group, &mut all);
        }
        all.sort_by(|a, b| {
            a.nodes.len().cmp(&b.nodes.len()).then_with(|| a.fact.cmp(&b.fact)).then_with(|| a.value.cmp(&b.value))
        });
        all
    }

    /// The rates of each workload that at least two peers ran.
    #[must_use]
    pub fn bandwidth(&self) -> Vec<BandwidthGroup<'_>> {
        let mut groups: BTreeMap<(&str, &Workload), Vec<(f64, &Node)>> = BTreeMap::new();
        for node in &self.nodes {
            for (workload, rate) in &node.rates {
                groups.entry((&node.gpus, workload)).or_default().push((*rate, node));
            }
        }
        groups
            .into_iter()
            .filter(|(_, rates)| rates.len() > 1)
            .filter_map(|((gpus, workload), mut rates)| {
                rates.sort_by(|a, b| a.0.total_cmp(&b.0));
                let values: Vec<f64> = rates.iter().map(|(rate, _)| *rate).collect();
                let middle = median(&values)?;
                let deviations: Vec<f64> = values.iter().map(|rate| (rate - middle).abs()).collect();
                // 1.4826 times the median deviation estimates the standard deviation of normal noise.
                let spread = (DEVIATIONS * 1.4826 * median(&deviations)?).max(SMALLEST_DIFFERENCE * middle);
                Some(BandwidthGroup {
                    gpus,
                    workload,
                    rates,
                    median: middle,
                    usual: (middle - spread, middle + spread),
                })
            })
            .collect()
    }
}

/// The text that occurs most; the first of those by alphabet.
fn most<'a>(texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    texts.for_each(|text| *counts.entry(text).or_default() += 1);
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(text, _)| text)
}

/// The value of a node that lacks a fact that others have.
const ABSENT: &str = "absent";

fn odd_values<'a>(
    fact: &str,
    mut values: BTreeMap<&'a str, Vec<&'a Node>>,
    peers: &[&'a Node],
    all: &mut Vec<Oddity<'a>>,
) {
    let with: usize = values.values().map(Vec::len).sum();
    if with < peers.len() && fact.starts_with("cufile.json ") {
        let lacks = |node: &&&Node| !node.facts.iter().any(|(name, _)| &**name == fact);
        values.insert(ABSENT, peers.iter().filter(lacks).copied().collect());
    }
    // Nodes on which a check did not run are not compared.
    let compared: usize = values.values().map(Vec::len).sum();
    let Some((usual, usual_nodes)) =
        values.iter().map(|(value, nodes)| (*value, nodes.len())).max_by_key(|(_, count)| *count)
    else {
        return;
    };
    if compared < FEWEST_PEERS || usual_nodes * 2 <= compared {
        return;
    }
    for (value, nodes) in values {
        if value != usual && (nodes.len() == 1 || nodes.len() * ONE_IN <= compared) {
            all.push(Oddity {
                fact: fact.to_owned(),
                value: value.to_owned(),
                usual: usual.to_owned(),
                usual_nodes,
                peers: compared,
                nodes,
            });
        }
    }
}

fn odd_rates<'a>(group: &BandwidthGroup<'a>, all: &mut Vec<Oddity<'a>>) {
    if group.rates.len() < FEWEST_PEERS {
        return;
    }
    let odd = |rate: f64| rate < group.usual.0 || rate > group.usual.1;
    let inside = group.rates.iter().filter(|(rate, _)| !odd(*rate)).count();
    for (rate, node) in group.rates.iter().filter(|(rate, _)| odd(*rate)) {
        let Workload { engine, cache, model, .. } = group.workload;
        all.push(Oddity {
            fact: format!("bandwidth of {engine}, {cache} cache, {model}"),
            value: crate::core::units::rate(*rate),
            usual: crate::core::units::rate(group.median),
            usual_nodes: inside,
            peers: group.rates.len(),
            nodes: vec![node],
        });
    }
}
