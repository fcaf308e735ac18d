//! Groups nodes by the cause of their verdict, and finds nodes that differ from their peers.

use super::node::{Node, Property, Workload, badness};
use super::read::Fleet;
use crate::analysis::median;
use crate::core::Route;
use std::collections::BTreeMap;

/// Nodes with the same verdict and the same reason.
#[derive(Clone, Debug)]
pub struct Cause<'a> {
    /// The worst route in the verdicts of each node. `None` if the nodes have no verdict.
    pub route: Option<Route>,
    /// The id of the check to resolve next. It is empty if there is none.
    pub blocker: &'a str,
    /// The most common summary of the nodes.
    pub summary: &'a str,
    /// The fix. `None` if there is none.
    pub fix: Option<&'a str>,
    /// The path that most of the nodes were examined for.
    pub path: &'a str,
    /// The advice that most of the nodes have, if there is no fix.
    pub advice: Option<&'a str>,
    /// The nodes.
    pub nodes: Vec<&'a Node>,
}

/// A value that few nodes have and most of their peers do not have.
#[derive(Clone, Debug)]
pub struct Oddity<'a> {
    /// The property that differs: `driver`, `check udev-database`, `bandwidth odirect cold qwen3-0.6b`.
    pub fact: String,
    /// The value of these nodes. It is `absent` if they do not have the property.
    pub value: String,
    /// The value of most peers.
    pub usual: String,
    /// The number of peers with the usual value.
    pub usual_nodes: usize,
    /// The number of peers, including these nodes.
    pub peers: usize,
    /// The nodes that differ.
    pub nodes: Vec<&'a Node>,
}

/// The rates of a workload on nodes with the same GPUs.
#[derive(Clone, Debug)]
pub struct BandwidthGroup<'a> {
    /// The GPUs.
    pub gpus: &'a str,
    /// The workload.
    pub workload: &'a Workload,
    /// Rates in bytes per second and their nodes, in ascending order.
    pub rates: Vec<(f64, &'a Node)>,
    /// The median rate.
    pub median: f64,
    /// The range of normal rates. Rates outside of it are reported.
    pub usual: (f64, f64),
}

impl BandwidthGroup<'_> {
    /// The percentile of the rates, by the nearest-rank method.
    #[must_use]
    pub fn quantile(&self, part: f64) -> f64 {
        let at = (part * (self.rates.len().saturating_sub(1)) as f64).round() as usize;
        self.rates.get(at).map_or(0.0, |(rate, _)| *rate)
    }
}

/// With fewer peers there is no majority.
const FEWEST_PEERS: usize = 3;

/// A value is unusual if at most one peer in this many has it. Among [`FEWEST_PEERS`] nodes, a single node is
/// unusual.
const ONE_IN: usize = 5;

/// A rate is unusual if it differs from the median by more than this many standard deviations, which are estimated
/// from the median deviation. The noise of 10 000 nodes reaches about four.
const DEVIATIONS: f64 = 6.0;

/// A smaller difference from the median is never reported, even if the peers are nearly equal.
const SMALLEST_DIFFERENCE: f64 = 0.1;

impl Fleet {
    /// The causes, the worst route first, then the largest number of nodes.
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
                path: most(nodes.iter().map(|node| node.path.as_str())).unwrap_or(""),
                advice: most(nodes.iter().filter(|node| node.fix.is_none()).filter_map(|node| node.advice.as_deref())),
                nodes,
            })
            .collect();
        // The route of a node without a verdict is unknown, so such nodes are listed before the good ones.
        let rank = |cause: &Cause<'_>| cause.route.map_or(1, badness);
        causes.sort_by(|a, b| {
            rank(b).cmp(&rank(a)).then(b.nodes.len().cmp(&a.nodes.len())).then(a.blocker.cmp(b.blocker))
        });
        causes
    }

    /// Groups nodes by their GPUs.
    fn peers(&self) -> BTreeMap<&str, Vec<&Node>> {
        let mut peers: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for node in &self.nodes {
            peers.entry(&node.gpus).or_default().push(node);
        }
        peers
    }

    /// The unusual values, including rates, the rarest first.
    #[must_use]
    pub fn oddities(&self) -> Vec<Oddity<'_>> {
        let mut all = Vec::new();
        for peers in self.peers().values().filter(|peers| peers.len() >= FEWEST_PEERS) {
            let mut facts: BTreeMap<&Property, BTreeMap<&str, Vec<&Node>>> = BTreeMap::new();
            for node in peers {
                for (property, value) in &node.facts {
                    facts.entry(property).or_default().entry(value).or_default().push(node);
                }
            }
            facts.into_iter().for_each(|(property, values)| odd_values(property, values, peers, &mut all));
        }
        for group in self.bandwidth() {
            odd_rates(&group, &mut all);
        }
        all.sort_by(|a, b| {
            a.nodes.len().cmp(&b.nodes.len()).then_with(|| a.fact.cmp(&b.fact)).then_with(|| a.value.cmp(&b.value))
        });
        all
    }

    /// The rates of each workload with at least two peers.
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
                // For normal noise, 1.4826 times the median deviation estimates the standard deviation.
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

/// The most frequent text. If several are equally frequent, the first one in alphabetical order.
fn most<'a>(texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    texts.for_each(|text| *counts.entry(text).or_default() += 1);
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(text, _)| text)
}

/// The value for a node that does not have the property.
const ABSENT: &str = "absent";

fn odd_values<'a>(
    property: &Property,
    mut values: BTreeMap<&'a str, Vec<&'a Node>>,
    peers: &[&'a Node],
    all: &mut Vec<Oddity<'a>>,
) {
    let with: usize = values.values().map(Vec::len).sum();
    if with < peers.len() && matches!(property, Property::Setting(_)) {
        let lacks = |node: &&&Node| !node.facts.iter().any(|(name, _)| name == property);
        values.insert(ABSENT, peers.iter().filter(lacks).copied().collect());
    }
    // Nodes on which a check did not run are excluded from its comparison.
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
                fact: property.to_string(),
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
        all.push(Oddity {
            fact: format!("bandwidth of {}", group.workload.name()),
            value: crate::core::units::rate(*rate),
            usual: crate::core::units::rate(group.median),
            usual_nodes: inside,
            peers: group.rates.len(),
            nodes: vec![node],
        });
    }
}
