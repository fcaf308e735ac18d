//! Reads the fleet from reports and merges the reports of each host.

use super::error::FleetError;
use super::input::{self, Unread};
use super::node::{Facts, Node, Property, badness};
use crate::core::{Route, Status};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// The nodes of a fleet.
#[derive(Debug, Default)]
pub struct Fleet {
    /// The nodes, sorted by host name. Numbers in names are compared as numbers.
    pub nodes: Vec<Node>,
    /// Sources without a report.
    pub unread: Vec<Unread>,
    /// Entries of directories that were not read, because they are links, FIFOs, sockets or devices, or too deep,
    /// and further names of files that were read.
    pub skipped: Vec<Unread>,
    /// The number of reports whose verdicts were all replaced by newer ones of the same paths.
    pub superseded: usize,
}

impl Fleet {
    /// Reads the reports below the paths. `-` is standard input. If a node has several reports, the newest verdict of
    /// each path and the newest runs are used.
    ///
    /// # Errors
    /// If a named path cannot be read, if the reports have different or newer schema versions, or if no report is
    /// found.
    pub fn read(paths: &[PathBuf]) -> Result<Self, FleetError> {
        let input = input::read(paths)?;
        if input.reports.is_empty() {
            let first = input.unread.first().or(input.skipped.first());
            return Err(FleetError::Nothing {
                source_name: first.map_or_else(String::new, |u| u.source.clone()),
                why: first.map_or_else(String::new, |u| u.why.clone()),
            });
        }
        let mut names = Names::default();
        let mut hosts: HashMap<String, (Node, Vec<Answer>)> = HashMap::new();
        let mut superseded = 0;
        for (source, report) in input.reports {
            let (node, answers) = (node(source, &report, &mut names), answers(&report));
            let merged = match hosts.remove(&node.host) {
                None => (node, answers),
                Some(other) if other.0.started_unix_ms > node.started_unix_ms => {
                    merge(other, (node, answers), &mut superseded)
                }
                Some(other) => merge((node, answers), other, &mut superseded),
            };
            hosts.insert(merged.0.host.clone(), merged);
        }
        let mut nodes: Vec<Node> =
            hosts.into_values().map(|(node, answers)| with_answers(node, answers, &mut names)).collect();
        nodes.sort_by_cached_key(|node| natural(&node.host));
        Ok(Self { nodes, unread: input.unread, skipped: input.skipped, superseded })
    }

    /// Whether every node has a verdict with a route.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.unread.is_empty() && self.nodes.iter().all(|node| node.route.is_some_and(|route| route != Route::None))
    }
}

/// A host name whose numbers are compared as numbers, so that node9 precedes node10.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[text..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - text);
        parts.push((rest[..text].to_owned(), rest[text..text + digits].parse().unwrap_or(u64::MAX)));
        rest = &rest[text + digits..];
    }
    parts
}

/// Texts that many nodes share. Each is stored once.
#[derive(Default)]
struct Names(std::collections::HashSet<std::sync::Arc<str>>);

impl Names {
    fn get(&mut self, text: &str) -> std::sync::Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new: std::sync::Arc<str> = text.into();
        self.0.insert(new.clone());
        new
    }
}

/// The newest verdict of a path: the worst one of its GPUs.
struct Answer {
    path: String,
    route: Route,
    possible: Option<Route>,
    /// Whether reads proved the route for every GPU.
    proven: bool,
    blocker: String,
    summary: String,
    fix: Option<String>,
    advice: Option<String>,
}

fn answers(report: &input::Report) -> Vec<Answer> {
    let mut paths: Vec<&String> = report.verdicts.iter().map(|verdict| &verdict.path).collect();
    paths.sort();
    paths.dedup();
    let of = |path: &String| {
        let of_path = || report.verdicts.iter().filter(|verdict| verdict.path == *path);
        let worst = of_path().max_by_key(|verdict| badness(verdict.route))?;
        // A node on a direct route needs no fix. Warnings in its verdict are not blockers. The next step is that of
        // 'check': a permanent blocker precedes the steps that still help.
        let next = worst.steps.first().or(worst.blockers.first()).filter(|_| badness(worst.route) > 0);
        let blocker = next.cloned();
        let check = blocker.as_ref().and_then(|id| report.checks.iter().find(|check| check.id == *id));
        Some(Answer {
            path: path.clone(),
            route: worst.route,
            possible: worst.possible,
            proven: of_path().all(|verdict| verdict.proven),
            summary: check.map_or_else(String::new, |check| check.summary.clone()),
            fix: check.and_then(|check| check.fix.clone()),
            advice: check.and_then(|check| check.advice.clone()),
            blocker: blocker.unwrap_or_default(),
        })
    };
    paths.into_iter().filter_map(of).collect()
}

/// Merges an older report of a host into a newer one. A report of `bench` can lack verdicts, and a report of `check`
/// lacks rates. Each fills in what the newer one lacks, also the verdicts of paths that only the older one has.
fn merge(new: (Node, Vec<Answer>), old: (Node, Vec<Answer>), superseded: &mut usize) -> (Node, Vec<Answer>) {
    let ((mut node, mut answers), (mut older, old_answers)) = (new, old);
    let had = old_answers.len();
    let kept = old_answers.into_iter().filter(|old| !answers.iter().any(|new| new.path == old.path));
    let kept: Vec<Answer> = kept.collect();
    *superseded += usize::from(had > 0 && kept.is_empty());
    // The properties of a report with checks are more complete.
    let only_older_has_checks = answers.is_empty() && had > 0;
    answers.extend(kept);
    if node.rates.is_empty() {
        node.rates = std::mem::take(&mut older.rates);
    }
    if only_older_has_checks {
        older.rates = std::mem::take(&mut node.rates);
        node = older;
    }
    (node, answers)
}

/// Adds the worst of the verdicts to a node.
fn with_answers(mut node: Node, answers: Vec<Answer>, names: &mut Names) -> Node {
    node.proven = !answers.is_empty() && answers.iter().all(|answer| answer.proven);
    let Some(worst) = answers.into_iter().max_by_key(|answer| badness(answer.route)) else { return node };
    node.route = Some(worst.route);
    node.path = worst.path;
    node.possible = worst.possible;
    node.blocker = worst.blocker;
    node.summary = worst.summary;
    node.fix = worst.fix;
    node.advice = worst.advice;
    node.facts.push((Property::Machine("route"), names.get(&worst.route.to_string())));
    node.facts.sort();
    node
}

/// A node without its verdicts.
fn node(source: String, report: &input::Report, names: &mut Names) -> Node {
    let empty = input::Machine::default();
    let machine = report.machine.as_ref().unwrap_or(&empty);
    // A report without a host name is identified by its file.
    let host = if machine.host.is_empty() { source.clone() } else { machine.host.clone() };
    Node {
        host,
        source,
        started_unix_ms: report.started_unix_ms,
        tool: report.tool.clone(),
        gpus: gpus(machine),
        route: None,
        path: String::new(),
        possible: None,
        proven: false,
        summary: String::new(),
        fix: None,
        advice: None,
        blocker: String::new(),
        facts: facts(machine, report, names),
        rates: input::rates(report),
    }
}

fn gpus(machine: &input::Machine) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for gpu in &machine.gpus {
        *counts.entry(&gpu.name).or_default() += 1;
    }
    if counts.is_empty() {
        return "no GPU".to_owned();
    }
    counts.iter().map(|(name, count)| format!("{count} x {name}")).collect::<Vec<_>>().join(", ")
}

/// The properties that are compared, except for the route: versions, PCIe links, keys of cufile.json, and the status of
/// each check.
fn facts(machine: &input::Machine, report: &input::Report, names: &mut Names) -> Facts {
    let mut facts = Facts::new();
    let mut put = |property: &'static str, value: &str| facts.push((Property::Machine(property), names.get(value)));
    let or = |value: Option<&String>, absent: &'static str| value.map_or(absent.to_owned(), Clone::clone);
    put("driver", &or(machine.driver.as_ref(), "none"));
    put("kernel", &machine.kernel);
    put("distribution", &machine.distribution);
    put("CUDA", &or(machine.cuda.as_ref(), "none"));
    put("CPUs", &machine.cpus.to_string());
    put(
        "libcufile",
        &machine.libcufile.as_ref().map_or("none".to_owned(), |l| or(l.version.as_ref(), "unknown version")),
    );
    put(
        "nvidia-fs",
        &machine.nvidia_fs.as_ref().map_or("not loaded".to_owned(), |m| or(m.version.as_ref(), "unknown version")),
    );
    if !machine.gpus.is_empty() {
        // An idle GPU can lower the generation of its link, so the highest generation is compared. The number of
        // lanes does not change.
        let links = machine.gpus.iter().map(|gpu| match (gpu.pcie_generation, gpu.pcie_width) {
            (Some((_, generation)), Some((width, _))) => format!("PCIe {generation} x{width}"),
            _ => "unknown".to_owned(),
        });
        let mut links: Vec<String> = links.collect();
        links.sort();
        let mut counted: Vec<(String, usize)> = Vec::new();
        for link in links {
            match counted.last_mut() {
                Some((last, count)) if *last == link => *count += 1,
                _ => counted.push((link, 1)),
            }
        }
        let text: Vec<String> = counted.into_iter().map(|(link, count)| format!("{count} x {link}")).collect();
        put("PCIe links", &text.join(", "));
    }
    for setting in &machine.cufile_settings {
        facts.push((Property::Setting(names.get(&setting.key)), names.get(&setting.value)));
    }
    for check in &report.checks {
        // Whether a check applies depends on the examined paths.
        if check.status != Status::Na {
            facts.push((Property::Check(names.get(&check.id)), names.get(check.status.word())));
        }
    }
    facts.sort();
    // A check of several paths or GPUs has several findings. The worst one is compared.
    facts.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same && severity(&next.1) > severity(&kept.1) {
            kept.1 = next.1.clone();
        }
        same
    });
    facts
}

fn severity(word: &str) -> usize {
    [Status::Pass, Status::Info, Status::Warn, Status::Fail]
        .iter()
        .position(|status| status.word() == word)
        .unwrap_or(0)
}
