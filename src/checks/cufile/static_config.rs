//! Files from which libcufile reads hardware facts: the topology (1.18 and later) and the GPUs (1.20 and later,
//! `static-cfg`).

use crate::checks::context::{Context, GpuSeen};
use crate::checks::judged::Judged;
use crate::core::CheckId;
use serde_json::Value;

const ID: CheckId = CheckId::StaticCfg;

/// The file that sets a switch of `miscellaneous` to on. `None` if the switch is off.
fn switched_on(ctx: &Context<'_>, key: &str) -> Option<String> {
    ctx.config().latest(key).filter(|(v, _)| *v == Value::Bool(true)).map(|(_, origin)| origin)
}

fn named(ctx: &Context<'_>, key: &str) -> Option<String> {
    ctx.config().latest(key).and_then(|(v, _)| v.as_str().map(str::to_owned)).filter(|path| !path.is_empty())
}

/// Checks whether static routing is on and its topology file exists.
pub(crate) fn routing(ctx: &Context<'_>) -> Option<Judged> {
    let origin = switched_on(ctx, "miscellaneous.enable_static_routing")?;
    let file = named(ctx, "miscellaneous.static_routing_filepath").unwrap_or_else(|| "/etc/topology.json".to_owned());
    let judged = if ctx.root.exists(&file) {
        Judged::info(ID, "the topology is read from a file, which ignores hardware changes")
            .found(&file, "exists")
            .advice(format!("After a hardware change, run `gdscheck -e sysfs -o {file}`."))
    } else {
        Judged::warn(ID, "static routing is on, but its topology file is missing")
            .found(&file, "does not exist")
            .advice(format!("Run `gdscheck -e sysfs -o {file}`, or disable miscellaneous.enable_static_routing."))
    };
    Some(judged.found(origin, "enable_static_routing is true"))
}

/// Compares the GPUs in the file with those of this machine.
pub(crate) fn gpus(ctx: &Context<'_>) -> Option<Judged> {
    let origin = switched_on(ctx, "miscellaneous.enable_static_config")?;
    let again =
        |file: &str| format!("Run `gdscheck -e config -o {file}`, or disable miscellaneous.enable_static_config.");
    let Some(file) = named(ctx, "miscellaneous.static_config_filepath") else {
        return Some(
            Judged::warn(ID, "static configuration is on, but miscellaneous.static_config_filepath is not set")
                .found(origin, "enable_static_config is true")
                .advice(again("FILE")),
        );
    };
    let text = match ctx.root.read_text(&file) {
        Ok(text) => text,
        Err(why) => {
            return Some(
                Judged::warn(ID, "static configuration is on, but its file cannot be read")
                    .unread(&file, &why)
                    .found(origin, "enable_static_config is true")
                    .advice(again(&file)),
            );
        }
    };
    let listed = serde_json::from_str::<Value>(&text).ok().and_then(|all| all.get("gpu_config").cloned());
    let entries: Vec<(String, Value)> = match listed {
        Some(Value::Object(map)) => map.into_iter().collect(),
        Some(Value::Array(items)) => items.into_iter().enumerate().map(|(n, item)| (n.to_string(), item)).collect(),
        _ => {
            return Some(
                Judged::warn(ID, "the file of the static configuration has no gpu_config")
                    .found(&file, "no object gpu_config")
                    .advice(again(&file)),
            );
        }
    };
    // Without NVML the GPUs of this machine are unknown.
    let here: Vec<&GpuSeen> = ctx.gpus().iter().filter(|gpu| gpu.nvml.is_some()).collect();
    if here.is_empty() {
        return None;
    }
    let stale = stale(&entries, &here);
    let judged = if stale.is_empty() {
        Judged::info(ID, format!("facts of {} GPUs are read from a file and are correct", entries.len()))
            .found(&file, format!("gpu_config lists {}", entries.len()))
            .advice(format!("After a hardware change, run `gdscheck -e config -o {file}`."))
    } else {
        let judged = Judged::warn(ID, format!("the file of the static configuration is outdated: {}", stale[0]))
            .advice(again(&file));
        stale.iter().fold(judged, |judged, text| judged.found(&file, text))
    };
    Some(judged.found(origin, "enable_static_config is true"))
}

/// The entries of the file that do not match this machine.
fn stale(entries: &[(String, Value)], here: &[&GpuSeen]) -> Vec<String> {
    let mut out = Vec::new();
    if entries.len() != here.len() {
        out.push(format!("it lists {} GPUs, but the machine has {}", entries.len(), here.len()));
    }
    for (name, entry) in entries {
        // An entry can name the GPU by UUID or bus address, as its key or as a value.
        let said = format!("{name} {entry}").to_ascii_lowercase();
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
