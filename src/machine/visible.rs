//! The GPUs that `CUDA_VISIBLE_DEVICES` shows to programs.

use super::nvml::NvmlGpu;
use super::root::Root;

/// The variable.
pub const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// The GPUs that programs see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    /// These, by their positions in [`super::NvmlFacts::gpus`], in ascending order.
    Only(Vec<usize>),
    /// Some of them: numbers count in CUDA's own order, which is known only for GPUs of one model.
    Unordered,
}

/// The value of the variable, and the GPUs that it shows. `None` if it is not set, or if the GPUs are not known.
#[must_use]
pub fn visible_gpus(root: &Root) -> Option<(String, Visible)> {
    let value = root.variable(CUDA_VISIBLE_DEVICES)?;
    let gpus = &root.nvml().gpus;
    if gpus.is_empty() {
        return None;
    }
    let visible = match resolve(&value, root.variable("CUDA_DEVICE_ORDER").as_deref(), gpus) {
        // CUDA itself was asked for its GPUs when libcufile was opened.
        Visible::Unordered => {
            let seen = &root.libcufile().cuda;
            match seen.is_empty() {
                true => Visible::Unordered,
                false => Visible::Only(at(gpus, |gpu| seen.iter().any(|one| one.uuid == gpu.uuid))),
            }
        }
        only => only,
    };
    Some((value, visible))
}

fn at(gpus: &[NvmlGpu], is_meant: impl Fn(&NvmlGpu) -> bool) -> Vec<usize> {
    (0..gpus.len()).filter(|at| is_meant(&gpus[*at])).collect()
}

/// Reads the list as CUDA does (CUDA programming guide, environment variables): numbers, or beginnings of UUIDs that
/// only one GPU has. The first entry without a GPU ends the list.
fn resolve(value: &str, order: Option<&str>, gpus: &[NvmlGpu]) -> Visible {
    let is_ordered = order == Some("PCI_BUS_ID") || gpus.iter().all(|gpu| gpu.name == gpus[0].name);
    let mut on_bus: Vec<usize> = (0..gpus.len()).collect();
    on_bus.sort_by_key(|at| &gpus[*at].pci_bus_id);
    let mut shown: Vec<usize> = Vec::new();
    let mut numbers: Vec<usize> = Vec::new();
    for entry in value.split(',').map(str::trim) {
        if let Ok(number) = entry.parse::<usize>() {
            let Some(at) = on_bus.get(number) else { break };
            numbers.push(number);
            shown.push(*at);
        } else {
            let found = named(entry, gpus);
            if found.is_empty() {
                break;
            }
            shown.extend(found);
        }
    }
    shown.sort_unstable();
    shown.dedup();
    numbers.sort_unstable();
    numbers.dedup();
    // All numbers name all GPUs, in any order.
    match is_ordered || numbers.is_empty() || numbers.len() == gpus.len() {
        true => Visible::Only(shown),
        false => Visible::Unordered,
    }
}

/// The GPU of a UUID or its beginning, or those that can have a MIG instance. NVML's list has no instances, so an
/// instance with a UUID of its own can be on any GPU in MIG mode.
fn named(entry: &str, gpus: &[NvmlGpu]) -> Vec<usize> {
    let is_partitioned = |gpu: &NvmlGpu| gpu.mig.as_deref() == Some("enabled");
    let found = match (entry.strip_prefix("MIG-"), entry.strip_prefix("GPU-")) {
        (Some(of_gpu), _) if of_gpu.starts_with("GPU-") => {
            let uuid = of_gpu.split('/').next().unwrap_or_default();
            at(gpus, |gpu| is_partitioned(gpu) && gpu.uuid == uuid)
        }
        (Some(_), _) => return at(gpus, is_partitioned),
        (None, Some(digits)) if !digits.is_empty() => at(gpus, |gpu| gpu.uuid.starts_with(entry)),
        _ => Vec::new(),
    };
    if found.len() == 1 { found } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(name: &str, uuid: &str, bus: &str, mig: bool) -> NvmlGpu {
        NvmlGpu {
            name: name.to_owned(),
            uuid: uuid.to_owned(),
            pci_bus_id: format!("0000:{bus}:00.0"),
            mig: mig.then(|| "enabled".to_owned()),
            ..NvmlGpu::default()
        }
    }

    #[test]
    fn the_list_is_read_as_cuda_reads_it() {
        let same = [
            gpu("H100", "GPU-aa1", "1b", false),
            gpu("H100", "GPU-aa2", "43", true),
            gpu("H100", "GPU-b", "52", false),
        ];
        let mixed = [gpu("T400", "GPU-aa1", "21", false), gpu("L40S", "GPU-aa2", "41", false)];
        let swapped = [gpu("L40S", "GPU-1", "41", false), gpu("T400", "GPU-2", "21", false)];
        let (pci, fastest) = (Some("PCI_BUS_ID"), Some("FASTEST_FIRST"));
        // (GPUs, value, order, positions; None if the order is not known)
        type Case<'a> = (&'a [NvmlGpu], &'a str, Option<&'a str>, Option<&'a [usize]>);
        let cases: &[Case<'_>] = &[
            (&same, "", None, Some(&[])),
            (&same, "-1", None, Some(&[])),
            (&same, "NoDevFiles", None, Some(&[])),
            (&same, "1", None, Some(&[1])),
            (&same, "2, 0", fastest, Some(&[0, 2])),
            (&same, "0,3,1", None, Some(&[0])),
            (&same, "0,-1,1", None, Some(&[0])),
            (&same, "7", None, Some(&[])),
            (&same, "GPU-b", None, Some(&[2])),
            (&same, "GPU-aa", None, Some(&[])),
            (&same, "GPU-b,GPU-aa,0", None, Some(&[2])),
            (&same, "GPU-aa2,0", None, Some(&[0, 1])),
            (&same, "GPU-", None, Some(&[])),
            (&same, "MIG-GPU-aa2/1/0", None, Some(&[1])),
            (&same, "MIG-GPU-b/1/0", None, Some(&[])),
            (&same, "MIG-3f0e8a11-0d5c-5b6a-9a4e-000000000000", None, Some(&[1])),
            (&mixed, "MIG-3f0e8a11-0d5c-5b6a-9a4e-000000000000", None, Some(&[])),
            (&mixed, "1", pci, Some(&[1])),
            (&swapped, "1", pci, Some(&[0])),
            (&mixed, "1", None, None),
            (&mixed, "0", fastest, None),
            (&mixed, "1,0", None, Some(&[0, 1])),
            (&mixed, "2", None, Some(&[])),
            (&mixed, "GPU-aa2", None, Some(&[1])),
        ];
        for (gpus, value, order, shown) in cases {
            let wanted = shown.map_or(Visible::Unordered, |shown| Visible::Only(shown.to_vec()));
            assert_eq!(resolve(value, *order, gpus), wanted, "{value:?} {order:?}");
        }
    }
}
