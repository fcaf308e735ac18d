//! How data of network file systems finds a network card: dynamic routing, and the distance between GPU and card.

use crate::checks::context::{Context, Subject};
use crate::checks::judged::{Cost, Judged, Scope};
use crate::checks::pcie::topology::chain;
use crate::checks::spec::CheckId;
use crate::core::Route;

const KEY: &str = "properties.rdma_dynamic_routing";
const ORDER: &str = "properties.rdma_dynamic_routing_order";
const CARDS: &str = "/sys/class/infiniband";

/// Whether data of the path goes over a network card.
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
    }
    out
}

/// With SYS_MEM in the order, libcufile stages the data in host memory if no earlier method applies.
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
            .advice(format!("Take SYS_MEM out of {ORDER}, or set {KEY} to false.")),
        Some(_) => Judged::info(ID, "dynamic routing may send reads of network file systems through host memory")
            .advice(format!("Take SYS_MEM out of {ORDER} if reads must not use host memory.")),
        None => Judged::pass(ID, "dynamic routing does not use host memory"),
    };
    let judged = judged.found(origin, format!("{KEY} is true"));
    Some(judged.found(
        if from.is_empty() { "the default of libcufile" } else { from },
        format!("{ORDER}: {}", order.join(", ")),
    ))
}

/// The network card that is nearest to each GPU.
fn affinity(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: CheckId = CheckId::RdmaAffinity;
    let cards: Vec<(String, Vec<String>)> = ctx
        .root
        .entries(CARDS)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|card| {
            let address = ctx.root.link(format!("{CARDS}/{card}/device"))?.file_name()?.to_string_lossy().into_owned();
            let chain = chain(ctx, &address);
            (!chain.is_empty()).then_some((card, chain))
        })
        .collect();
    let mut out = Vec::new();
    for (number, gpu) in ctx.gpus().iter().enumerate() {
        let own = chain(ctx, &gpu.address);
        let shared = |chain: &[String]| own.iter().zip(chain).take_while(|(a, b)| a == b).count();
        let Some((card, chain)) = cards.iter().max_by_key(|(_, chain)| shared(chain)).filter(|_| !own.is_empty())
        else {
            continue;
        };
        let judged = match shared(chain) {
            0 => Judged::info(ID, format!("no network card shares a host bridge with GPU {}", gpu.address))
                .advice("Use a GPU near a network card, or list the cards near the GPU in rdma_dev_addr_list."),
            1 => Judged::info(ID, format!("{card} and GPU {} share a host bridge, but no root port", gpu.address)),
            _ => Judged::pass(ID, format!("{card} and GPU {} share a root port", gpu.address)),
        };
        out.push(judged.found(format!("{CARDS}/{card}/device"), chain.join("/")).of(Scope::Gpu(number)));
    }
    out
}
