//! How libcufile selects a network card for network file systems: dynamic routing, the policy for several cards, and
//! the distance between GPU and card.

use crate::checks::context::{Context, Subject};
use crate::checks::cufile::config_file::edit;
use crate::checks::cufile::variables::unset;
use crate::checks::judged::{Cost, Judged, Scope};
use crate::checks::pcie::topology::chain;
use crate::core::{CheckId, Route};
use crate::machine;

const KEY: &str = "properties.rdma_dynamic_routing";
const ORDER: &str = "properties.rdma_dynamic_routing_order";
const CARDS: &str = machine::RDMA_DEVICES;

/// Whether reads of the path go over a network card.
fn is_remote(subject: &Subject) -> bool {
    let Some(facts) = &subject.facts else { return false };
    match facts.filesystem.as_deref() {
        Some("wekafs" | "gpfs" | "mmfs" | "lustre" | "beegfs" | "fhgfs" | "scatefs") => true,
        Some("nfs" | "nfs4") => facts.option_value("proto") == Some("rdma"),
        _ => false,
    }
}

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    let remote = ctx.subjects.iter().enumerate().filter(|(_, subject)| is_remote(subject));
    for number in remote.map(|(number, _)| number) {
        out.extend(routing(ctx).map(|judged| judged.of(Scope::Path(number))));
    }
    if ctx.subjects.iter().any(is_remote) {
        out.extend(affinity(ctx));
        out.extend(policy(ctx));
    }
    out
}

/// If the order contains SYS_MEM, libcufile stages the data in host memory when no earlier method applies.
fn routing(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::CfgRdmaRouting;
    let (is_on, origin) = ctx.config().switch(KEY, false);
    if !is_on {
        return None;
    }
    let (listed, from) = ctx.config().list(ORDER);
    let order = if listed.is_empty() { vec!["GPU_MEM_NVLINKS", "GPU_MEM", "SYS_MEM", "P2P"] } else { listed };
    let judged = match order.iter().position(|method| *method == "SYS_MEM") {
        Some(0) => Judged::lack(ID, "dynamic routing sends reads of network file systems through host memory")
            .missing(Cost::Setting, &[Route::Nvfs, Route::Rdma])
            .explaining()
            .advice(match origin.variable() {
                Some(variable) => unset(ctx.root, variable),
                None => edit(ctx.root, &origin.to_string())
                    .text(format!(": take SYS_MEM out of {ORDER}, or set {KEY} to false.")),
            }),
        Some(_) => Judged::info(ID, "dynamic routing may send reads of network file systems through host memory")
            .advice(format!("Take SYS_MEM out of {ORDER} if reads must not use host memory.")),
        None => Judged::pass(ID, "dynamic routing does not use host memory"),
    };
    let judged = judged.found(origin.to_string(), format!("{KEY} is true"));
    Some(judged.found(
        if from.is_empty() { "the default of libcufile".to_owned() } else { from },
        format!("{ORDER}: {}", order.join(", ")),
    ))
}

/// Whether libcufile itself reads the path over RDMA.
pub(super) fn is_user_space(subject: &Subject) -> bool {
    let kind = subject.facts.as_ref().and_then(|facts| facts.filesystem.as_deref());
    matches!(kind, Some("wekafs" | "gpfs" | "mmfs"))
}

/// The network cards, each with the bridges above it. The RDMA of libcufile uses only those with mlx5.
fn cards(ctx: &Context<'_>) -> Vec<(String, Vec<String>)> {
    let (mlx5, others) = machine::rdma_devices(ctx.root);
    let others = if ctx.subjects.iter().any(is_user_space) { Vec::new() } else { others };
    let card = |card: String| {
        let address = ctx.root.link(format!("{CARDS}/{card}/device"))?.file_name()?.to_string_lossy().into_owned();
        let chain = chain(ctx, &address);
        (!chain.is_empty()).then_some((card, chain))
    };
    mlx5.into_iter().chain(others).filter_map(card).collect()
}

/// The number of bridges that two devices share, counted from the host.
fn shared(one: &[String], other: &[String]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The card that is nearest to a GPU, and the number of bridges that they share.
fn nearest<'a>(gpu: &[String], cards: &'a [(String, Vec<String>)]) -> Option<(&'a str, &'a [String], usize)> {
    // If several cards have the same distance, the first one is named.
    let best = cards.iter().rev().max_by_key(|(_, chain)| shared(gpu, chain)).filter(|_| !gpu.is_empty())?;
    Some((&best.0, &best.1, shared(gpu, &best.1)))
}

/// The network card that is nearest to each GPU.
fn affinity(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: CheckId = CheckId::RdmaAffinity;
    let cards = cards(ctx);
    let mut out = Vec::new();
    for (number, gpu) in ctx.gpus().iter().enumerate() {
        let own = chain(ctx, &gpu.address);
        let Some((card, chain, shared)) = nearest(&own, &cards) else { continue };
        let judged = match shared {
            0 => Judged::info(ID, format!("no network card shares a host bridge with GPU {}", gpu.address))
                .advice("Use a GPU near a network card, or list the cards near the GPU in rdma_dev_addr_list."),
            1 => Judged::info(ID, format!("{card} and GPU {} share a host bridge, but no root port", gpu.address)),
            _ => Judged::pass(ID, format!("{card} and GPU {} share a root port", gpu.address)),
        };
        out.push(judged.found(format!("{CARDS}/{card}/device"), chain.join("/")).of(Scope::Gpu(number)));
    }
    out
}

/// The policy that selects one of several network cards. It belongs to the user-space RDMA of libcufile. gds-diag has
/// the same check.
fn policy(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::CfgRdmaPolicy;
    const KEY: &str = "properties.rdma_load_balancing_policy";
    const SPREADS: &str = "RoundRobinMaxMin";
    const KNOWN: [&str; 5] = ["FirstFit", "MaxMinFit", "RoundRobin", SPREADS, "Randomized"];
    if !ctx.subjects.iter().any(is_user_space) || machine::rdma_without_mlx5(ctx.root).is_some() {
        return None;
    }
    let (value, origin) = match ctx.config().latest(KEY) {
        Some((value, origin)) => (value.as_str().unwrap_or_default().to_owned(), origin),
        None => ("RoundRobin".to_owned(), "the default of libcufile".to_owned()),
    };
    let cards = cards(ctx);
    let chains: Vec<Vec<String>> = ctx.gpus().iter().map(|gpu| chain(ctx, &gpu.address)).collect();
    let mut near: Vec<&str> = chains.iter().filter_map(|gpu| Some(nearest(gpu, &cards)?.0)).collect();
    let gpus = near.len();
    near.sort_unstable();
    near.dedup();
    let judged = if !KNOWN.contains(&value.as_str()) {
        Judged::warn(ID, format!("libcufile ignores the policy '{value}' and uses RoundRobin")).advice(
            edit(ctx.root, &origin)
                .text(format!(": set {KEY} to RoundRobin, or to {SPREADS} if GPUs share a network card.")),
        )
    } else if value != SPREADS && cards.len() > 1 && near.len() < gpus {
        Judged::info(ID, format!("several GPUs have the same nearest network card, and the policy is {value}"))
            .advice(format!("Set {KEY} to {SPREADS}, so that the GPUs share as few cards as possible."))
    } else {
        Judged::pass(ID, format!("the policy for network cards is {value}"))
    };
    let names: Vec<&str> = cards.iter().map(|(name, _)| name.as_str()).collect();
    let judged = judged.found(origin, format!("{KEY}: {value}"));
    Some(judged.found(CARDS, format!("{} for {gpus} GPUs", names.join(" "))))
}
