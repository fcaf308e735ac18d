//! Files from which libcufile reads hardware facts instead of asking the machine: the topology (1.18 and later) and the
//! GPUs (1.20 and later, `static-cfg`).

use crate::checks::context::{Context, GpuSeen};
use crate::checks::judged::{Cost, Judged};
use crate::core::{CheckId, Route};
use serde_json::Value;

const ID: CheckId = CheckId::StaticCfg;

/// A file that libcufile trusts.
struct Cache {
    /// Its switch in cufile.json.
    switch: &'static str,
    /// The key with its path, and the path without the key.
    key: &'static str,
    default: Option<&'static str>,
    /// The argument of `gdscheck -e` that writes it.
    kind: &'static str,
    name: &'static str,
}

const GPUS: Cache = Cache {
    switch: "enable_static_config",
    key: "static_config_filepath",
    default: None,
    kind: "config",
    name: "static configuration",
};
const ROUTING: Cache = Cache {
    switch: "enable_static_routing",
    key: "static_routing_filepath",
    default: Some("/etc/topology.json"),
    kind: "sysfs",
    name: "static routing",
};

impl Cache {
    /// The file that sets the switch to on. `None` if the switch is off.
    fn switched_on(&self, ctx: &Context<'_>) -> Option<String> {
        let key = format!("miscellaneous.{}", self.switch);
        ctx.config().latest(&key).filter(|(v, _)| *v == Value::Bool(true)).map(|(_, origin)| origin)
    }

    fn path(&self, ctx: &Context<'_>) -> Option<String> {
        let named = ctx.config().latest(&format!("miscellaneous.{}", self.key));
        let named = named.and_then(|(v, _)| v.as_str().map(str::to_owned)).filter(|path| !path.is_empty());
        named.or_else(|| self.default.map(str::to_owned))
    }

    /// The command that writes the file.
    fn write(&self, ctx: &Context<'_>, file: &str) -> String {
        format!("sudo {} -e {} -o {file}", gdscheck(ctx), self.kind)
    }

    /// A finding about this file, with the switch that makes libcufile read it.
    fn judged(&self, judged: Judged, origin: &str) -> Judged {
        judged.found(origin.to_owned(), format!("{} is true", self.switch))
    }

    fn wrong(&self, ctx: &Context<'_>, origin: &str, file: &str, summary: String) -> Judged {
        // libcufile decides the route by the facts of the file.
        let judged = Judged::lack(ID, summary).missing(Cost::Setting, &[Route::P2pdma, Route::C2c]).broken();
        let twin = [&GPUS, &ROUTING].into_iter().find(|other| other.switch != self.switch);
        let twin = twin.filter(|other| other.switched_on(ctx).is_some());
        let commands = [Some((self, Some(file.to_owned()))), twin.map(|twin| (twin, twin.path(ctx)))];
        let commands: Vec<String> = commands
            .into_iter()
            .flatten()
            .map(|(cache, file)| cache.write(ctx, file.as_deref().unwrap_or("FILE")))
            .collect();
        let switches = match twin {
            Some(twin) => format!("miscellaneous.{} and {}", self.switch, twin.switch),
            None => format!("miscellaneous.{}", self.switch),
        };
        let advice = crate::checks::advice::Advice::run(commands.join(" && "))
            .text(format!(", now and after each change of the hardware. Or set {switches} to false."));
        self.judged(judged.by_hand().advice(advice), origin)
    }
}

/// The program of NVIDIA that writes the files. It is not in PATH.
fn gdscheck(ctx: &Context<'_>) -> String {
    let folders = ctx.root.entries("/usr/local").unwrap_or_default();
    let mut found: Vec<String> = folders
        .into_iter()
        .filter(|name| name.starts_with("cuda"))
        .map(|name| format!("/usr/local/{name}/gds/tools/gdscheck"))
        .filter(|path| ctx.root.exists(path))
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| "/usr/local/cuda/gds/tools/gdscheck".to_owned())
}

/// Checks both files.
pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let found: Vec<Judged> = gpus(ctx).into_iter().chain(routing(ctx)).collect();
    // One step writes both, so one wrong file is enough.
    let wrong = found.iter().position(|judged| judged.in_the_way().next().is_some());
    match wrong {
        Some(at) => {
            let mut judged = found.into_iter();
            let before: Vec<Judged> = judged.by_ref().take(at).collect();
            let Some(first) = judged.next() else { return before };
            let evidence = before.into_iter().chain(judged).flat_map(|other| other.finding.evidence);
            let mut first = first;
            first.finding.evidence.extend(evidence);
            vec![first]
        }
        None => found,
    }
}

/// Checks whether static routing is on, and its topology file.
fn routing(ctx: &Context<'_>) -> Option<Judged> {
    let origin = ROUTING.switched_on(ctx)?;
    let file = ROUTING.path(ctx)?;
    let Ok(text) = ctx.root.read_text(&file) else {
        let judged =
            ROUTING.wrong(ctx, &origin, &file, "static routing is on, but its topology file is missing".into());
        return Some(judged.found(&file, "cannot be read"));
    };
    let here = gpus_here(ctx);
    if let Some(unknown) = uuids(&text).into_iter().find(|uuid| !here.is_empty() && !is_known(uuid, &here)) {
        let summary = format!("the file of static routing is outdated: it lists {unknown}, which does not exist");
        return Some(ROUTING.wrong(ctx, &origin, &file, summary).found(&file, unknown));
    }
    let judged = Judged::info(ID, "the topology is read from a file, which ignores hardware changes")
        .found(&file, "exists")
        .advice(format!("After a hardware change, run `{}`.", ROUTING.write(ctx, &file)));
    Some(ROUTING.judged(judged, &origin))
}

/// The UUIDs of GPUs in a text: `GPU-` and a UUID.
fn uuids(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    let found = text.match_indices("GPU-").map(|(at, _)| {
        let rest: String = text[at + 4..].chars().take_while(|c| is_part(*c)).collect();
        format!("GPU-{rest}")
    });
    found.filter(|uuid| uuid.len() == 40).collect()
}

/// The GPUs that NVML reports. Without NVML, the GPUs of this machine are unknown.
fn gpus_here<'a>(ctx: &'a Context<'_>) -> Vec<&'a GpuSeen> {
    ctx.gpus().iter().filter(|gpu| gpu.nvml.is_some()).collect()
}

fn is_known(uuid: &str, here: &[&GpuSeen]) -> bool {
    here.iter().any(|gpu| gpu.nvml.as_ref().is_some_and(|nvml| nvml.uuid.eq_ignore_ascii_case(uuid)))
}

/// Compares the GPUs in the file with those of this machine.
fn gpus(ctx: &Context<'_>) -> Option<Judged> {
    let origin = GPUS.switched_on(ctx)?;
    let Some(file) = GPUS.path(ctx) else {
        let summary = "static configuration is on, but miscellaneous.static_config_filepath is not set";
        return Some(GPUS.wrong(ctx, &origin, "FILE", summary.to_owned()));
    };
    let text = match ctx.root.read_text(&file) {
        Ok(text) => text,
        Err(why) => {
            let summary = "static configuration is on, but its file cannot be read";
            return Some(GPUS.wrong(ctx, &origin, &file, summary.to_owned()).unread(&file, &why));
        }
    };
    let listed = serde_json::from_str::<Value>(&text).ok().and_then(|all| all.get("gpu_config").cloned());
    let entries: Vec<(String, Value)> = match listed {
        Some(Value::Object(map)) => map.into_iter().collect(),
        Some(Value::Array(items)) => items.into_iter().enumerate().map(|(n, item)| (n.to_string(), item)).collect(),
        _ => {
            let summary = "the file of the static configuration has no gpu_config";
            return Some(GPUS.wrong(ctx, &origin, &file, summary.to_owned()).found(&file, "no object gpu_config"));
        }
    };
    let here = gpus_here(ctx);
    if here.is_empty() {
        return None;
    }
    let stale = stale(&entries, &here);
    let Some(first) = stale.first() else {
        let judged = Judged::info(ID, format!("facts of {} GPUs are read from a file and are correct", entries.len()))
            .found(&file, format!("gpu_config lists {}", entries.len()))
            .advice(format!("After a hardware change, run `{}`.", GPUS.write(ctx, &file)));
        return Some(GPUS.judged(judged, &origin));
    };
    let judged = GPUS.wrong(ctx, &origin, &file, format!("the file of the {} is outdated: {first}", GPUS.name));
    Some(stale.iter().fold(judged, |judged, text| judged.found(&file, text)))
}

/// The entries of the file that do not match this machine.
fn stale(entries: &[(String, Value)], here: &[&GpuSeen]) -> Vec<String> {
    let mut out = Vec::new();
    if entries.len() != here.len() {
        out.push(format!("it lists {} GPUs, but the machine has {}", entries.len(), here.len()));
    }
    for (name, entry) in entries {
        // An entry can name the GPU by UUID or bus address, as its key or as a value.
        let said = format!("{name} {entry}");
        if let Some(gone) = uuids(&said).into_iter().find(|uuid| !is_known(uuid, here)) {
            out.push(format!("it lists {gone}, which does not exist"));
            continue;
        }
        let said = said.to_ascii_lowercase();
        let known = |gpu: &&&GpuSeen| {
            gpu.nvml.as_ref().is_some_and(|nvml| {
                [nvml.uuid.as_str(), nvml.pci_bus_id.as_str()]
                    .into_iter()
                    .any(|id| id.len() > 6 && said.contains(&id.to_ascii_lowercase()))
            })
        };
        let Some(gpu) = here.iter().find(known) else {
            if name.to_ascii_lowercase().starts_with("gpu-") || name.matches(':').count() >= 2 {
                out.push(format!("it lists {name}, which does not exist"));
            }
            continue;
        };
        let Some(nvml) = &gpu.nvml else { continue };
        if let (Some(listed), Some(now)) = (entry.get("bar1_size_bytes").and_then(Value::as_u64), nvml.bar1_total_bytes)
            && listed != now
        {
            out.push(format!("it lists {listed} bytes of BAR1 for {name}, NVML reports {now}"));
        }
    }
    out
}
