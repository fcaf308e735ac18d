//! The machine as a list of facts with labels, and the counts of its checks.

use super::analysed::model_bytes;
use super::labels::plural;
use super::view::{GAP, Table, text};
use crate::core::{CufileSetting, Disk, Engine, Fallback, FallbackReason, Machine, Metric, Status, Storage, units};
use crate::session::State;

/// A label and its text.
pub type Fact = (&'static str, String);

/// The state of libcufile if the machine summary does not name a library: whether it could be used, and a text. The
/// state is derived from the runs and the checks.
#[must_use]
pub fn unnamed_library(state: &State) -> (Option<bool>, &'static str) {
    let results = || state.lanes.iter().filter_map(|lane| lane.result.as_deref());
    if results().any(|run| run.route.is_some()) {
        return (Some(true), "used by runs of this session; its version was not read");
    }
    let missing = |fallback: &Fallback| {
        matches!(fallback.reason, FallbackReason::NoLibrary | FallbackReason::InitFailed) && !fallback.provoked
    };
    let fell_back = results().filter_map(|run| run.workload.as_ref()).any(|w| w.fallbacks.iter().any(missing));
    let in_vain = fell_back || state.unavailable.iter().any(|(engine, _)| engine.uses_cufile());
    match (in_vain, state.checks_took_ns) {
        (true, _) => (Some(false), "not usable in this session; see the notes"),
        // The keys of cufile.json depend on the library, so a session that has them searched for it.
        (false, None) if state.machine.as_ref().is_some_and(|machine| !machine.cufile_defaults.is_empty()) => {
            (Some(false), "not found")
        }
        (false, None) => (None, "this session did not search for it"),
        (false, Some(_)) => (Some(false), "not found"),
    }
}

/// The facts about the machine and the model. Empty if the machine was not examined.
#[must_use]
pub fn facts(state: &State) -> Vec<Fact> {
    of_machine(state, false)
}

/// The facts about the machine. With `detailed` also those of a report: CPU, kernel parameters, and the location of
/// each GPU.
fn of_machine(state: &State, detailed: bool) -> Vec<Fact> {
    let Some(machine) = &state.machine else { return Vec::new() };
    let (cpus, memory) = machine.size();
    let mut facts = vec![("Host", format!("{}, {cpus}, {memory}", machine.host))];
    let cpu = machine.cpu.as_ref().filter(|_| detailed);
    facts.extend(cpu.map(|cpu| ("CPU", cpu.clone())));
    facts.push(("System", format!("{}, kernel {}", machine.distribution, machine.kernel)));
    // Recordings of earlier versions have neither a CPU nor parameters.
    facts.extend(cpu.map(|_| match machine.kernel_parameters.as_slice() {
        [] => ("Kernel parameters", "no parameter concerns devices or memory".to_owned()),
        words => ("Kernel parameters", words.join(" ")),
    }));
    facts.extend(nodes(machine).filter(|_| detailed).map(|nodes| ("NUMA nodes", nodes)));
    let mut gpus = gpus(machine);
    for ((_, text), gpu) in gpus.iter_mut().zip(&machine.gpus).filter(|_| detailed) {
        let node = gpu.numa_node.map(|node| format!("NUMA node {node}"));
        let more = [Some(gpu.pci_bus_id.clone()), node, Some(gpu.uuid.clone())];
        for part in more.into_iter().flatten().filter(|part| !part.is_empty()) {
            *text = if text.is_empty() { part } else { format!("{text}, {part}") };
        }
    }
    facts.extend(gpus);
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "not found".to_owned());
    facts.push(("Driver", format!("{}, CUDA {}", or_none(&machine.driver), or_none(&machine.cuda))));
    facts.push((
        "libcufile",
        match &machine.libcufile {
            Some(library) => {
                format!("{} ({})", library.version.as_deref().unwrap_or("version unknown"), library.path)
            }
            None => unnamed_library(state).1.to_owned(),
        },
    ));
    facts.push((
        "nvidia-fs",
        match &machine.nvidia_fs {
            Some(module) => module.version.clone().unwrap_or_else(|| "loaded, version unknown".to_owned()),
            None => "not loaded".to_owned(),
        },
    ));
    facts.extend(machine.container.iter().map(|container| ("Container", container.clone())));
    facts.extend(model(state));
    facts
}

/// The facts about the session and the machine for a report. They contain more details than [`facts`].
#[must_use]
pub fn session_facts(state: &State) -> Vec<Fact> {
    let mut all = Vec::new();
    if state.started_unix_ms > 0 {
        all.push(("Date", date(state.started_unix_ms)));
    }
    if !state.command.is_empty() {
        all.push(("Command", state.command.clone()));
    }
    if !state.directory.is_empty() {
        all.push(("Working directory", state.directory.clone()));
    }
    if !state.tool.is_empty() {
        all.push(("Program", state.tool.clone()));
    }
    all.extend(of_machine(state, true));
    all.extend(load(state));
    if !all.is_empty() {
        all.extend(not_recorded(state));
    }
    all
}

/// The host, the GPUs, the date and the program on one line. Empty if none of them is known.
#[must_use]
pub fn headline(state: &State) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(machine) = &state.machine {
        parts.push(machine.host.clone());
        let mut names: Vec<&str> = machine.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        let count = names.len();
        names.dedup();
        parts.push(match (names.as_slice(), count) {
            ([], _) => "no GPU".to_owned(),
            ([name], 2..) => format!("{count} × {name}"),
            (names, _) => names.join(", "),
        });
    }
    if state.started_unix_ms > 0 {
        parts.push(date(state.started_unix_ms));
    }
    parts.push(state.tool.clone());
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// The facts for a ticket that this session does not have. Recordings of earlier versions lack some.
fn not_recorded(state: &State) -> Option<Fact> {
    let machine = state.machine.as_ref();
    let has = |part: fn(&Machine) -> bool| machine.is_some_and(part);
    // A machine can have no such parameters and one node without a number. The CPU is recorded since they are.
    let has_cpu = has(|machine| machine.cpu.is_some());
    let facts = [
        ("date", state.started_unix_ms > 0),
        ("command line", !state.command.is_empty()),
        ("host, driver and GPUs", machine.is_some()),
        ("CPU", has_cpu),
        ("kernel parameters", has_cpu),
        ("NUMA nodes", has(has_nodes)),
        ("file system, mount options and disks", has(|machine| !machine.storage.is_empty())),
        (
            "cufile.json in effect",
            has(|machine| !machine.cufile_settings.is_empty() || !machine.cufile_defaults.is_empty()),
        ),
    ];
    // A session without runs has no load to report.
    let has_load = load(state).is_some() || (state.lanes.is_empty() && state.grid.is_none());
    let facts = facts.into_iter().chain([("machine load", has_load)]);
    let missing: Vec<&str> = facts.filter(|(_, is_there)| !is_there).map(|(name, _)| name).collect();
    (!missing.is_empty()).then(|| ("Not recorded", missing.join(", ")))
}

/// The NUMA nodes with their CPUs, and the number of the nodes without CPUs, of which a Grace machine has many. `None`
/// if no node is known.
fn nodes(machine: &Machine) -> Option<String> {
    let with_cpus = machine.numa_nodes.iter().filter(|node| !node.cpus.is_empty());
    let mut parts: Vec<String> = with_cpus.map(|node| format!("{} (CPUs {})", node.node, node.cpus)).collect();
    let others = (machine.numa_nodes.len() - parts.len()) as u64;
    if others > 0 {
        parts.push(format!("{} without CPUs", units::plural(others, "node")));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Whether a NUMA node is known: one of the machine, of a GPU, or of a disk.
fn has_nodes(machine: &Machine) -> bool {
    let disks = || machine.storage.iter().flat_map(|storage| &storage.disks);
    !machine.numa_nodes.is_empty()
        || machine.gpus.iter().any(|gpu| gpu.numa_node.is_some())
        || disks().any(|disk| disk.numa_node.is_some())
}

/// The load of the machine during the session: the median time in which tasks waited. `None` without samples.
fn load(state: &State) -> Option<Fact> {
    let waited = [
        (Metric::CpuPressurePercent, "a CPU"),
        (Metric::IoPressurePercent, "storage"),
        (Metric::MemoryPressurePercent, "memory"),
    ];
    let shares = waited.iter().filter_map(|(metric, what)| Some((state.pressure(*metric)?, *what)));
    let parts: Vec<String> = shares.map(|(share, what)| format!("{} for {what}", units::percent(share))).collect();
    (!parts.is_empty()).then(|| ("Machine load", format!("time in which tasks waited (PSI): {}", parts.join(", "))))
}

/// The storage below each examined path, as one list of facts per path.
#[must_use]
pub fn storage_facts(state: &State) -> Vec<Vec<Fact>> {
    let one = |storage: &Storage| {
        let mut facts = vec![("Path", storage.path.clone())];
        let on = storage.device.as_ref().map_or_else(String::new, |device| format!(" on {device}"));
        let at = storage.mount_point.as_ref().map_or_else(String::new, |point| format!(", mounted at {point}"));
        let kind = storage.filesystem.as_deref().unwrap_or("not known");
        facts.push(("File system", format!("{kind}{on}{at}")));
        facts.extend(storage.mount_options.iter().map(|options| ("Mount options", options.replace(',', ", "))));
        facts.extend(storage.disks.iter().map(|disk| ("Disk", describe(disk))));
        facts
    };
    state.machine.iter().flat_map(|machine| &machine.storage).map(one).collect()
}

/// Describes a disk: `nvme0n1: SAMSUNG MZQL27T6HBLA-00A07, firmware GDC5602Q, driver nvme, 0000:41:00.0, NUMA node
/// 1`.
fn describe(disk: &Disk) -> String {
    let mut parts = vec![disk.model.clone().unwrap_or_else(|| "model not reported".to_owned())];
    parts.extend(disk.firmware.iter().map(|firmware| format!("firmware {firmware}")));
    parts.extend(disk.driver.iter().map(|driver| format!("driver {driver}")));
    parts.extend(disk.pci_bus_id.clone());
    parts.extend(disk.numa_node.map(|node| format!("NUMA node {node}")));
    format!("{}: {}", disk.name, parts.join(", "))
}

/// The keys of cufile.json with the origin of each value: keys that a file or a variable sets, and keys with the
/// default. `None` if the keys were not read.
#[must_use]
pub fn cufile_settings(state: &State) -> Option<(Table, Table)> {
    let machine = state.machine.as_ref()?;
    let (set, defaults) = (&machine.cufile_settings, &machine.cufile_defaults);
    // Recordings of earlier versions contain no keys, which means unknown.
    if set.is_empty() && defaults.is_empty() {
        return None;
    }
    let library = match &machine.libcufile {
        Some(library) => match &library.version {
            Some(version) => format!("libcufile {version}"),
            None => "libcufile 1.20, because the version of the one above is unknown".to_owned(),
        },
        None => "libcufile 1.20, because no libcufile was found".to_owned(),
    };
    let note = if set.is_empty() {
        format!("No file and no variable sets a key: all have the defaults of {library}.")
    } else {
        format!("All other keys have the defaults of {library}.")
    };
    let set = Table {
        title: "cufile.json in effect".to_owned(),
        note,
        heads: ["key", "value", "origin"].map(text).into(),
        rows: set.iter().map(|setting| row(setting, Some(&setting.origin))).collect(),
    };
    let others = format!(
        "{} with {} default",
        units::plural(defaults.len() as u64, "key"),
        if defaults.len() == 1 { "its" } else { "their" }
    );
    let defaults = Table {
        title: others,
        note: String::new(),
        heads: ["key", "value"].map(text).into(),
        rows: defaults.iter().map(|setting| row(setting, None)).collect(),
    };
    Some((set, defaults))
}

/// Key, value, and origin if it is a column. A key without a value has a dash.
fn row(setting: &CufileSetting, origin: Option<&String>) -> Vec<String> {
    let both = [setting.key.clone(), setting.given().unwrap_or(GAP).to_owned()];
    both.into_iter().chain(origin.cloned()).collect()
}

/// Formats a time as a date in the Gregorian calendar: `2026-11-23 03:05:35 UTC`.
fn date(unix_ms: u64) -> String {
    let (days, seconds) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    // Converts days to a date. Years begin in March (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn gpus(machine: &Machine) -> Vec<Fact> {
    if machine.gpus.is_empty() {
        return vec![("GPU", "none; data goes to host memory".to_owned())];
    }
    let gpu = |gpu: &crate::core::Gpu| {
        let memory = gpu.memory_total_bytes.map_or_else(String::new, |bytes| format!(", {}", units::bytes(bytes)));
        let link = match (gpu.pcie_generation, gpu.pcie_width) {
            (Some((_, generation)), Some((_, width))) => format!(", PCIe {generation}.0 ×{width}"),
            _ => String::new(),
        };
        ("GPU", format!("{} {}{memory}{link}", gpu.index, gpu.name))
    };
    machine.gpus.iter().map(gpu).collect()
}

/// The fact about the model: `Qwen3-0.6B: 311 tensors, 1.4 GiB, 1 file`.
#[must_use]
pub fn model(state: &State) -> Option<Fact> {
    let model = state.model.as_ref()?;
    // A workload writes and reads pieces of a cache instead of tensors.
    let is_cache = state.lanes.iter().any(|lane| matches!(lane.engine, Engine::Workload(_)));
    let tensors = units::plural(model.tensors.len() as u64, if is_cache { "piece" } else { "tensor" });
    let (bytes, files) = (units::bytes(model_bytes(model)), units::plural(model.shards.len() as u64, "file"));
    Some(("Model", format!("{}: {tensors}, {bytes}, {files}", model.name)))
}

/// The number of checks by status: `71 ✔ pass · 6 ▲ warn · 2 ✖ fail`.
#[must_use]
pub fn check_counts(state: &State) -> String {
    let statuses = [Status::Pass, Status::Info, Status::Warn, Status::Fail, Status::Na];
    let parts: Vec<String> = statuses
        .iter()
        .filter_map(|status| {
            let count = state.checks.iter().filter(|finding| finding.status == *status).count();
            (count > 0).then(|| format!("{count} {} {}", status.mark(), status.word()))
        })
        .collect();
    parts.join(" · ")
}

/// The amount of work in the session: `79 checks; 9 of 9 runs finished.` That all bytes are verified is in the answers
/// about the runs.
#[must_use]
pub fn extent(state: &State) -> String {
    let checks = match state.checks.len() {
        0 => "Not checked".to_owned(),
        checks => format!("{checks} {}", plural(checks, "check")),
    };
    format!("{checks}; {}", measurements(state, ""))
}

/// The measurements of the session: `9 of 9 runs finished, all bytes verified.`
#[must_use]
pub fn measured(state: &State) -> String {
    measurements(state, ", all bytes verified")
}

/// The measurements of the session. `verified_text` follows the number of runs if all of them are verified.
fn measurements(state: &State, verified_text: &str) -> String {
    if let Some(grid) = state.grid.as_ref().filter(|_| state.lanes.is_empty()) {
        return format!("{} of {} cells measured.", grid.done(), grid.plan.cells.len());
    }
    let results = state.lanes.iter().filter_map(|lane| lane.result.as_deref());
    let good: Vec<_> = results.filter(|run| run.is_good()).collect();
    let verified = good.iter().filter(|run| run.verified == Some(true)).count();
    let runs = plural(state.lanes.len(), "run");
    match (good.len(), state.lanes.len()) {
        (_, 0) => "no runs.".to_owned(),
        (0, all) => format!("none of {all} {runs} finished."),
        (n, all) if n == verified => format!("{n} of {all} {runs} finished{verified_text}."),
        (n, all) => format!("{n} of {all} {runs} finished, {verified} of them verified."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::NumaNode;

    #[test]
    fn a_machine_with_one_node_has_its_nodes_recorded() {
        let node = |node, cpus: &str| NumaNode { node, cpus: cpus.to_owned() };
        let with = |numa_nodes| Machine { numa_nodes, ..Machine::default() };
        assert_eq!(nodes(&with(Vec::new())), None);
        assert!(has_nodes(&with(vec![node(0, "0,1")])) && !has_nodes(&with(Vec::new())));
        assert_eq!(nodes(&with(vec![node(0, "0,1")])).as_deref(), Some("0 (CPUs 0,1)"));
        let grace = with(vec![node(0, "0-71"), node(1, "72-143"), node(2, ""), node(3, "")]);
        assert_eq!(nodes(&grace).as_deref(), Some("0 (CPUs 0-71), 1 (CPUs 72-143), 2 nodes without CPUs"));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_790_000_000, "2026-09-21 14:13:20 UTC"),
            (4_102_444_800, "2100-01-01 00:00:00 UTC"),
        ] {
            assert_eq!(date(unix_s * 1000), expected);
        }
    }
}
