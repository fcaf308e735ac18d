//! From a bare machine to a proven direct route, as a checklist that knows what is done (`gds-top fix nvidia-gds`).

use super::preview::changes_text;
use super::recipes::{family, fix_of, for_id};
use super::repository as source;
use crate::checks::Report;
use crate::domain::{Finding, Guide, GuideStep as Step, Route, Status};
use crate::host::{Root, nvidia_driver};
use std::fmt::Write as _;

pub use crate::domain::StepState as State;

/// The id by which the checklist is asked for.
pub const ID: &str = "nvidia-gds";

/// A step by its checks, and the fix of each where the check itself names none.
type Row = (&'static str, &'static [(&'static str, &'static str)]);

const START: &[Row] = &[
    (
        "A GPU that can take data from devices",
        &[
            ("wsl", ""),
            ("gpu-present", ""),
            ("gpu-class", ""),
            ("gpu-compute-cap", ""),
            ("gpu-gdr-attr", ""),
            ("gpu-mig-vgpu", ""),
        ],
    ),
    (
        "The NVIDIA driver, with the open kernel modules",
        &[
            ("driver-mismatch", ""),
            ("driver-version", ""),
            ("driver-flavour", "nvidia-driver-open"),
            ("gpu-open-capable", ""),
            ("gpu-fabric", "nvidia-fabricmanager"),
        ],
    ),
    ("libcufile", &[("lib-found", "libcufile-install"), ("lib-version", "")]),
];
// nvidia-fs is compiled against the storage driver, so that one comes first.
const NVFS: &[Row] = &[
    ("A storage driver that works with nvidia-fs", &[("nvfs-nvme-symbol", "nvme-patch")]),
    (
        "The kernel module nvidia-fs, built for this kernel",
        &[
            ("nvfs-load-errors", ""),
            ("nvfs-dkms", "nvfs-dkms"),
            ("nvfs-build-inputs", "nvfs-dkms"),
            ("nvfs-secureboot", "secure-boot-key"),
            ("nvfs-version", "nvfs-install"),
        ],
    ),
    (
        "nvidia-fs loaded, now and at every boot",
        &[
            ("nvfs-loaded", "nvfs-install"),
            ("nvfs-autoload", "nvfs-load"),
            ("nvfs-devnodes", ""),
            ("nvfs-registered", ""),
        ],
    ),
];
const P2PDMA: &[Row] = &[
    (
        "A kernel with PCI P2PDMA",
        &[
            ("kernel-version", ""),
            ("kernel-p2pdma", "kernel-p2pdma"),
            ("distro-blocklist", ""),
            ("kernel-p2p-rootports", ""),
        ],
    ),
    ("The GPU's BAR1 mapped statically", &[("gpu-p2pdma-model", ""), ("gpu-static-bar1", "p2pdma-registry-keys")]),
    ("NVMe disks without the multipath head", &[("nvme-multipath", "nvme-multipath-off")]),
];
const END: &[Row] = &[
    ("The IOMMU out of the way", &[("iommu-state", "iommu-off"), ("pcie-acs", "")]),
    (
        "The model's disk and file system",
        &[
            ("fs-type", ""),
            ("ext4-ordered", "ext4-ordered"),
            ("odirect-open", ""),
            ("md-raid", ""),
            ("dm-lvm", ""),
            ("nvme-integrity", ""),
            ("nfs-rdma", ""),
            ("vm-type", ""),
        ],
    ),
    ("udev's record of the disk", &[("udev-database", "udev-record")]),
    ("cufile.json", &[("cfg-parse", ""), ("cfg-compat", ""), ("cfg-effective", "")]),
    ("The changes in effect", &[("reboot-pending", "")]),
    ("libcufile opens", &[("lib-open-probe", "")]),
];

/// The checklist for this machine. P2PDMA is taken where it is nearer: it needs no module of a third party.
#[must_use]
pub fn guide(root: &Root, report: &Report) -> Guide {
    let verdict = report.verdicts.iter().min_by_key(|verdict| verdict.possible);
    let possible = verdict.map_or(Route::None, |verdict| verdict.possible);
    let passes = |id: &str| report.finding(id).is_some_and(|finding| finding.status == Status::Pass);
    let (route, reason) = match possible {
        Route::P2pdma => {
            (possible, "P2PDMA is the nearest direct route here: it needs no nvidia-fs and no changed NVMe driver")
        }
        Route::C2c => (possible, "on Grace, disks reach GPU memory over the coherent link; nvidia-fs is not needed"),
        Route::Nvfs => (possible, "nvidia-fs is the nearest direct route here"),
        Route::Rdma => (possible, "this file system's own client moves data by RDMA"),
        _ if verdict.is_none() => (
            Route::Nvfs,
            "no path was looked at, so which route is the nearest is not known (--path DIR says where models lie); these are the steps of nvidia-fs",
        ),
        _ if passes("kernel-p2pdma") => (
            Route::P2pdma,
            "no direct route was found that this machine could take; these are the steps of P2PDMA, which its kernel has",
        ),
        _ => (Route::Nvfs, "no direct route was found that this machine could take; these are the steps of nvidia-fs"),
    };
    let keys: &[Row] = &[("P2PDMA switched on in cufile.json", &[("cfg-p2p-both", "cufile-p2pdma-keys")])];
    let (middle, keys) = match route {
        Route::Nvfs => (NVFS, &[] as &[Row]),
        Route::P2pdma => (P2PDMA, keys),
        Route::C2c => (&[] as &[Row], keys),
        _ => (&[] as &[Row], &[] as &[Row]),
    };
    let mut steps: Vec<Step> =
        [START, middle, END, keys].into_iter().flatten().map(|row| step(root, report, row, route)).collect();
    let installs = |step: &Step| step.plans.iter().any(|plan| INSTALLS.contains(&plan.id.as_str()));
    let at = steps.iter().position(installs).map_or(REPOSITORY_AT, |at| at.min(REPOSITORY_AT));
    steps.insert(at, repository(root, report, &steps));
    steps.push(proof(report, route));
    if let Some(finding) = ruled_out(report, possible) {
        // Steps that lead nowhere are not offered, least of all with root and a reboot.
        for step in &mut steps {
            let is_it = step.found.iter().any(|found| found.starts_with(&format!("{}:", finding.id)));
            step.plans.clear();
            step.advice.clear();
            if is_it {
                step.state = State::Impossible;
                step.advice.extend(finding.advice.clone());
            }
        }
        let reason = format!(
            "no direct route can be built on this machine: {}; what is marked below would not change that",
            finding.summary
        );
        return Guide { route, reason, open: Vec::new(), steps };
    }
    for (at, cause) in causes_elsewhere(report, &steps) {
        // What a step waits for is shown with it, where no step of its own has it.
        let Some(finding) = report.finding(&cause) else { continue };
        match fix_of(finding).and_then(|id| for_id(root, report, id, &finding.id)) {
            Some(plan) => steps[at].plans.push(plan),
            None => steps[at].advice.extend(finding.advice.clone()),
        }
        steps[at].found.push(format!("{}: {}", finding.id, finding.summary));
    }
    once(&mut steps);
    Guide { route, reason: reason.to_owned(), open: Vec::new(), steps }
}

/// A fix that several steps wait for is shown with the first of them.
fn once(steps: &mut [Step]) {
    let mut shown: Vec<String> = Vec::new();
    for step in steps {
        let (mine, known): (Vec<_>, Vec<_>) =
            std::mem::take(&mut step.plans).into_iter().partition(|p| !shown.contains(&p.id));
        step.advice.extend(known.iter().map(|plan| format!("done by the fix {} above", plan.id)));
        shown.extend(mine.iter().map(|plan| plan.id.clone()));
        step.plans = mine;
    }
}

/// Causes that steps wait for and that are the check of no step, each with the first step that waits for it.
fn causes_elsewhere(report: &Report, steps: &[Step]) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let shown = |id: &str| steps.iter().flat_map(|step| &step.found).any(|found| found.starts_with(&format!("{id}:")));
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.state == State::Open) {
        for found in &step.found {
            let id = found.split(':').next().unwrap_or_default();
            let Some(cause) = report.finding(id).and_then(|finding| finding.cause.clone()) else { continue };
            if !shown(&cause) && out.iter().all(|(_, known)| *known != cause) {
                out.push((at, cause));
            }
        }
    }
    out
}

/// The repository comes before what is installed from it, and behind the driver's flavour where nothing before that is.
const REPOSITORY_AT: usize = 2;
/// Fixes that install from NVIDIA's repository.
const INSTALLS: [&str; 5] =
    ["nvidia-driver-open", "nvidia-driver-proprietary", "nvidia-fabricmanager", "nvfs-install", "libcufile-install"];

/// Whether packages can come from NVIDIA's repository, as far as any are needed.
fn repository(root: &Root, report: &Report, steps: &[Step]) -> Step {
    let family = family(root);
    let mut out = Step {
        title: "NVIDIA's package repository".to_owned(),
        state: State::Done,
        found: Vec::new(),
        plans: Vec::new(),
        advice: Vec::new(),
    };
    let needed: Vec<&str> = INSTALLS
        .into_iter()
        .filter(|id| steps.iter().flat_map(|step| &step.plans).any(|plan| plan.id == *id))
        .collect();
    let configured = source::configured(root, family);
    if let Ok(path) = &configured {
        out.found.push(format!("{path} names it"));
        return out;
    }
    if needed.is_empty() {
        out.found.push("nothing has to be installed from it".to_owned());
        return out;
    }
    let (folder, server) = (source::folder(family), source::SERVER);
    out.found.push(format!("no file in {folder} names {server}; it is needed for {}", needed.join(", ")));
    out.state = if configured == Err(true) { State::Open } else { State::Unknown };
    out.plans.extend(for_id(root, report, "nvidia-repository", "driver-flavour"));
    out
}

fn step(root: &Root, report: &Report, (title, checks): &Row, route: Route) -> Step {
    let mut out = Step {
        title: (*title).to_owned(),
        state: State::Unknown,
        found: Vec::new(),
        plans: Vec::new(),
        advice: Vec::new(),
    };
    let mut states = Vec::new();
    for (check, fix) in *checks {
        let Some(finding) = report.finding(check) else { continue };
        let mut state = state(finding, route, fix);
        // Only P2PDMA needs a later driver than nvidia-fs does: a driver that works stays.
        if *check == "driver-version" && state == State::Open && !stops(root, route) {
            state = State::Done;
        }
        states.push(state);
        out.found.push(format!("{}: {}", finding.id, finding.summary));
        if state == State::Done || state == State::Unknown {
            continue;
        }
        // A consequence is mended with its cause.
        if let Some(cause) = &finding.cause {
            out.advice.push(format!("{} comes from {cause}: mend that first", finding.id));
            continue;
        }
        let id = fix_of(finding).or((!fix.is_empty()).then_some(*fix));
        match id.and_then(|id| for_id(root, report, id, &finding.id)) {
            Some(plan) if out.plans.iter().any(|known| known.id == plan.id) => {}
            Some(plan) => out.plans.push(plan),
            None => out.advice.extend(finding.advice.clone()),
        }
    }
    out.state = if states.contains(&State::Impossible) {
        State::Impossible
    } else if states.contains(&State::Open) {
        State::Open
    } else if states.contains(&State::Done) {
        State::Done
    } else {
        State::Unknown
    };
    if out.found.is_empty() {
        out.found.push("no check says anything about it on this machine".to_owned());
    }
    out
}

/// Whether the version of the driver is in the way of a route.
fn stops(root: &Root, route: Route) -> bool {
    let version = nvidia_driver(root).unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    version < if route == Route::P2pdma { (565, 47) } else { (460, 0) }
}

/// What is given with the machine, and without which no step leads to a direct route.
const GIVEN: &[&str] = &[
    "wsl",
    "cpu-arch",
    "gpu-present",
    "gpu-class",
    "gpu-compute-cap",
    "gpu-gdr-attr",
    "gpu-mig-vgpu",
    "gpu-open-capable",
];

/// What rules every direct route out, whatever is installed: the kind of system, or the GPU.
fn ruled_out(report: &Report, possible: Route) -> Option<&Finding> {
    if !matches!(possible, Route::Compat | Route::None) {
        return None;
    }
    let of_the_machine = |finding: &&Finding| {
        GIVEN.contains(&finding.id.as_str())
            && finding.cause.is_none()
            && matches!(finding.status, Status::Warn | Status::Fail)
            && finding.fix.is_none()
            && (finding.id != "gpu-present" || finding.permanent)
    };
    report.findings.iter().find(of_the_machine)
}

fn state(finding: &Finding, route: Route, fix: &str) -> State {
    // The GPU and the kind of system are given: words of comfort are no remedy.
    let is_given = finding.fix.is_none() && fix.is_empty() && (finding.id.starts_with("gpu-") || finding.id == "wsl");
    // A GPU that is there and has no driver that works is no fate.
    let is_missing = finding.id != "gpu-present" || finding.permanent;
    if is_given && is_missing && finding.status == Status::Fail {
        return State::Impossible;
    }
    let can_be_mended = finding.fix.is_some() || !fix.is_empty() || finding.advice.is_some();
    match finding.status {
        Status::Pass => State::Done,
        Status::Na => State::Unknown,
        // What lies on no route that matters is told as mere information, though it is missing.
        Status::Info if finding.fix.is_some() => State::Open,
        Status::Info => State::Done,
        // A consequence goes with its cause.
        Status::Warn | Status::Fail if can_be_mended || finding.cause.is_some() => State::Open,
        Status::Fail if finding.blocks.contains(&route) => State::Impossible,
        Status::Warn | Status::Fail => State::Open,
    }
}

/// The last step: reads that were counted.
fn proof(report: &Report, route: Route) -> Step {
    let proven = report.verdicts.iter().find(|verdict| verdict.proven && verdict.route == route);
    Step {
        title: format!("The proof: reads counted on {route}"),
        state: if proven.is_some() { State::Done } else { State::Open },
        found: vec![proven.map_or_else(
            || "no read has been counted yet; checks alone prove nothing".to_owned(),
            |verdict| verdict.proof.clone(),
        )],
        plans: Vec::new(),
        advice: if proven.is_some() {
            Vec::new()
        } else {
            vec![
                "gds-top check PATH proves it with reads into GPU memory, the fall-back forbidden (in the screens: r)"
                    .to_owned(),
                "gds-top --headless MODEL loads a model and counts which way its reads went".to_owned(),
            ]
        },
    }
}

/// The checklist as text.
#[must_use]
pub fn text(guide: &Guide) -> String {
    let mut out = String::new();
    let [how_far, why] = guide.head();
    let _ = writeln!(out, "{how_far}\n{why}\n");
    for open in &guide.open {
        for line in open.lines() {
            let _ = writeln!(out, "{line}");
        }
        out.push('\n');
    }
    for (number, step) in guide.steps.iter().enumerate() {
        let _ = writeln!(out, "{} {:>2}. {} ({})", step.state.mark(), number + 1, step.title, step.state.word());
        for found in &step.found {
            let _ = writeln!(out, "       {found}");
        }
        for plan in &step.plans {
            let _ = writeln!(out, "     → {} ({}; {})", plan.title, plan.who(), plan.how());
            for line in changes_text(plan).lines() {
                let _ = writeln!(out, "         {line}");
            }
            if let Some(obstacle) = &plan.obstacle {
                let _ = writeln!(out, "         but {obstacle}");
            }
            let _ = writeln!(out, "         verify: {}", plan.verify);
        }
        for advice in &step.advice {
            let _ = writeln!(out, "     → {advice}");
        }
    }
    out
}
