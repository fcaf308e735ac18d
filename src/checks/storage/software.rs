//! Block devices that the kernel implements in software above the disks: bcache, DRBD, network block devices.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{DIRECT, Judged};
use crate::core::CheckId;
use crate::machine::{self, PathFacts};

const ID: CheckId = CheckId::NvmeTransport;
const SETS: &str = "/sys/fs/bcache";

/// The finding for a path on such a device. Its disks can be NVMe, but the CPU handles each request.
pub(crate) fn software(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    let device = machine::software_device(facts)?;
    let name = &device.name;
    let source = format!("/sys/dev/block/{}", facts.device.as_deref().unwrap_or(""));
    let judged = Judged::lack(ID, format!("{name} is implemented by the kernel, not an NVMe disk"))
        .found(source, name.clone())
        .never(DIRECT);
    let members: Vec<String> = machine::nvme_members(ctx.root)
        .into_iter()
        .filter_map(|(member, holder)| (holder == *name).then_some(member))
        .collect();
    let Some(member) = members.first().filter(|_| name.starts_with("bcache")) else {
        return Some(judged.advice("Keep the model on a local NVMe disk."));
    };
    let folder = format!("/sys/block/{name}/bcache");
    let read = |part: &str| ctx.root.read_text(format!("{folder}/{part}")).ok().map(|text| text.trim().to_owned());
    let dirty = read("dirty_data");
    let judged = dirty.iter().fold(judged, |judged, dirty| judged.found(format!("{folder}/dirty_data"), dirty.clone()));
    if read("backing_dev_name").as_deref() == Some(member.as_str()) {
        return Some(judged.advice(format!(
            "Copy the model to a file system on an NVMe disk without bcache. Do not format {member}: it has the data of {name}."
        )));
    }
    Some(judged.advice(free_cache(ctx, name, member, dirty)))
}

/// How to use the cache of bcache for a file system (kernel: A block layer cache, removing a cache device).
fn free_cache(ctx: &Context<'_>, name: &str, member: &str, dirty: Option<String>) -> Advice {
    let sets = ctx.root.entries(SETS).unwrap_or_default();
    let sets: Vec<&String> = sets.iter().filter(|set| set.len() == 36).collect();
    let set = if let [set] = sets.as_slice() { set.as_str() } else { "UUID" };
    let dirty = dirty.map_or_else(String::new, |dirty| format!(" with {dirty} of unwritten data"));
    Advice::from(format!("{member} is the cache of {name}{dirty}: do not format it. To use it for the model, run "))
        .command(format!("echo 1 | sudo tee /sys/block/{name}/bcache/detach"))
        .text(", and wait until ")
        .command(format!("cat /sys/block/{name}/bcache/state"))
        .text(" shows no cache. Then run ")
        .command(format!("echo 1 | sudo tee {SETS}/{set}/stop"))
        .text(". Only then it is free for ext4 or xfs.")
}
