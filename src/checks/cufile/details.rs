//! Checks of other facts about libcufile: tools, environment variables, sizes compared with the GPU.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::cufile::config_file::edit;
use crate::checks::cufile::dependencies::{dependencies, rdma_helper};
use crate::checks::cufile::{log, shared_statistics, static_config};
use crate::checks::cufile_json::lint_environment;
use crate::checks::judged::{Cost, Judged};
use crate::core::units;
use crate::core::{CheckId, Route};
use crate::machine;

/// Checks that read only files and the environment.
pub(crate) fn quick(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    out.push(log::log_location(ctx));
    out.extend(log::log_level(ctx));
    out.extend(tools(ctx));
    out.extend(shared_statistics::run(ctx));
    out
}

/// Checks that wait for libcufile or NVML.
pub(crate) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    out.extend(dependencies(ctx));
    out.extend(sizes(ctx));
    out.extend(static_config::run(ctx));
    out.extend(variables(ctx));
    out.extend(rdma_helper(ctx));
    out
}

/// Environment variables without effect that no other check reports.
fn variables(ctx: &Context<'_>) -> Option<Judged> {
    const SHOWN_ELSEWHERE: &[&str] = &["CUFILE_ENV_PATH_JSON", "CUFILE_FORCE_COMPAT_MODE", "CUFILE_LOGGING_LEVEL"];
    let linted = lint_environment(ctx.root, ctx.root.libcufile().version_numbers())?;
    let is_shown_elsewhere = |key: &Option<String>| key.as_deref().is_some_and(|key| SHOWN_ELSEWHERE.contains(&key));
    let problems: Vec<_> = linted.problems.into_iter().filter(|problem| !is_shown_elsewhere(&problem.key)).collect();
    let first = problems.first()?;
    let mut judged = Judged::warn(CheckId::CfgEffective, first.what.clone()).advice(first.todo.clone());
    // The check of the keys shows how to unset this variable, and nvidia-fs does not need them.
    let is_of_keys = problems.iter().all(|problem| problem.key.as_deref() == Some("CUFILE_USE_PCIP2PDMA"));
    if is_of_keys && machine::nvidia_fs_loaded(ctx.root) != Some(true) {
        judged = judged.cause(CheckId::CfgP2pBoth);
    }
    for problem in &problems {
        judged = judged.found("environment", &problem.what);
    }
    Some(judged)
}

fn tools(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::ToolsFound;
    const TOOLS: &[&str] = &["gdscheck", "gdscheck.py", "gdsio", "gds_stats"];
    let names = ctx.root.entries("/usr/local").ok()?;
    let found = names.iter().filter(|name| name.starts_with("cuda")).find_map(|name| {
        let folder = format!("/usr/local/{name}/gds/tools");
        let inside = ctx.root.entries(&folder).ok()?;
        let tools: Vec<String> = inside.into_iter().filter(|tool| TOOLS.contains(&tool.as_str())).collect();
        (!tools.is_empty()).then_some((folder, tools))
    });
    let judged = match found {
        Some((folder, tools)) => Judged::pass(ID, "NVIDIA's tools are installed").found(folder, tools.join(" ")),
        None => Judged::info(ID, "NVIDIA's tools (gdscheck, gdsio) are not installed; gds-top does not need them")
            .found("/usr/local/cuda*/gds/tools", "not there"),
    };
    Some(judged)
}

/// Whether a GPU has more memory than libcufile can register at once. The toolkit's template sets 32 GiB for every
/// GPU.
fn pinned_limit(ctx: &Context<'_>) -> Option<Judged> {
    const KEY: &str = "properties.max_device_pinned_mem_size_kb";
    let (value, origin) = ctx.config().latest(KEY)?;
    let limit = value.as_u64()?.checked_mul(1024)?;
    let memory = ctx.gpus().iter().filter_map(|gpu| gpu.nvml.as_ref()?.memory_total_bytes).max()?;
    (limit < memory).then(|| {
        Judged::info(
            CheckId::CfgVsHardware,
            format!("{KEY} is {}, the GPU has {}", units::bytes(limit), units::bytes(memory)),
        )
        .found(origin, format!("{KEY}: {limit} bytes"))
        .advice(
            Advice::from("Larger registrations fail with 5016. Run ")
                .command("gds-top config tune MODEL")
                .text(" for the size that a model needs."),
        )
    })
}

/// The sizes of the slabs on the GPU, in KiB.
const SIZES: &str = "properties.gpu_bounce_buffer_slab_config.slab_size_kb";
/// The largest slab that nvidia-fs accepts, in KiB.
const LARGEST: u64 = 16384;

/// Whether cufile.json has slabs on the GPU, and all of them are too large for nvidia-fs.
pub(crate) fn has_only_large_slabs(ctx: &Context<'_>) -> bool {
    large_slabs(ctx).is_some()
}

/// The sizes of the slabs on the GPU and their file, if all are too large for nvidia-fs. libcufile ignores slabs that
/// are not valid.
fn large_slabs(ctx: &Context<'_>) -> Option<(Vec<u64>, String)> {
    const COUNTS: &str = "properties.gpu_bounce_buffer_slab_config.slab_count";
    let numbers = |key: &str| -> Option<(Vec<u64>, String)> {
        let (value, origin) = ctx.config().latest(key)?;
        Some((value.as_array()?.iter().map(serde_json::Value::as_u64).collect::<Option<_>>()?, origin))
    };
    let (sizes, origin) = numbers(SIZES)?;
    let (counts, _) = numbers(COUNTS)?;
    let is_valid = !sizes.is_empty()
        && sizes.len() == counts.len()
        && sizes.iter().all(|size| size % 4 == 0)
        && sizes.windows(2).all(|pair| pair[0] < pair[1])
        && !counts.contains(&0);
    (is_valid && sizes.iter().all(|size| *size > LARGEST)).then_some((sizes, origin))
}

/// The finding if all slabs on the GPU are too large for nvidia-fs. libcufile 1.17 and later compares each size with
/// 16 MiB and warns if none is smaller or equal.
fn gpu_slabs(ctx: &Context<'_>) -> Option<Judged> {
    let (sizes, origin) = large_slabs(ctx)?;
    let is_used = ctx.root.libcufile().version_numbers().is_none_or(|version| version >= (1, 17));
    is_used.then(|| {
        let list: Vec<String> = sizes.iter().map(u64::to_string).collect();
        Judged::lack(CheckId::CfgVsHardware, "all GPU slabs of cufile.json exceed 16 MiB, so nvidia-fs rejects reads")
            .found(&origin, format!("{SIZES}: [{}]", list.join(", ")))
            .missing(Cost::Setting, &[Route::Nvfs])
            .advice(edit(ctx.root, &origin).text(
                ": in gpu_bounce_buffer_slab_config, put 16384 first in slab_size_kb and its count, such as 4, first in slab_count. Then start the programs again.",
            ))
    })
}

/// The limits of the configuration compared with the GPU.
fn sizes(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::CfgVsHardware;
    if let Some(judged) = gpu_slabs(ctx) {
        return Some(judged);
    }
    let bar1 =
        ctx.gpus().iter().filter(|gpu| !gpu.is_grace()).filter_map(|gpu| gpu.nvml.as_ref()?.bar1_total_bytes).min()?;
    let over: Vec<(&str, u64, String)> =
        ["properties.max_device_cache_size_kb", "properties.max_device_pinned_mem_size_kb"]
            .into_iter()
            .filter_map(|key| {
                let (value, origin) = ctx.config().latest(key)?;
                let bytes = value.as_u64()?.checked_mul(1024)?;
                // The default of the second key is 32 GiB for every GPU, so 32 GiB is not reported.
                (bytes > bar1 && bytes != 32 * units::GIB).then_some((key, bytes, origin))
            })
            .collect();
    let Some((key, bytes, _)) = over.first() else { return pinned_limit(ctx) };
    let mut judged =
        Judged::info(ID, format!("{key} is {}, but BAR1 has {}", units::bytes(*bytes), units::bytes(bar1)))
            .advice("Keep both below the size of BAR1; larger registrations fail with 5016.");
    for (key, bytes, origin) in over {
        judged = judged.found(origin, format!("{key}: {bytes} bytes"));
    }
    Some(judged)
}
