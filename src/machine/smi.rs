//! Reads the table that `nvidia-smi` printed, for captures that have the output of the command but no `nvml.json`.

use super::nvml::{NvmlFacts, NvmlGpu};

/// The facts in the table. `None` if the text has none, because the command failed.
#[must_use]
pub(super) fn table(text: &str) -> Option<NvmlFacts> {
    let after = |name: &str| Some(text.split_once(name)?.1.split_whitespace().next()?.to_owned());
    let driver_version = after("Driver Version:")?;
    let mut gpus: Vec<NvmlGpu> = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        let [left, middle, ..] = cells[..] else { continue };
        let words: Vec<&str> = left.split_whitespace().collect();
        let (Some(index), Some("On" | "Off" | "N/A")) =
            (words.first().and_then(|w| w.parse().ok()), words.last().copied())
        else {
            // The next line of a GPU has its memory: `1MiB /  81559MiB`.
            let total =
                middle.split_once('/').and_then(|(_, total)| total.trim().strip_suffix("MiB")?.parse::<u64>().ok());
            if let (Some(gpu), Some(total)) = (gpus.last_mut(), total) {
                gpu.memory_total_bytes.get_or_insert(total << 20);
            }
            continue;
        };
        let Some(address) = middle.split_whitespace().next().filter(|word| word.matches(':').count() == 2) else {
            continue;
        };
        // The domain has eight digits here and four in sysfs.
        let address = address.to_ascii_lowercase();
        let pci_bus_id = address.strip_prefix("0000").filter(|rest| rest.len() >= 12).unwrap_or(&address).to_owned();
        gpus.push(NvmlGpu {
            index,
            uuid: pci_bus_id.clone(),
            name: words[1..words.len() - 1].join(" "),
            pci_bus_id,
            ..NvmlGpu::default()
        });
    }
    Some(NvmlFacts {
        driver_version: Some(driver_version),
        cuda_version: after("CUDA Version:"),
        gpus,
        ..NvmlFacts::default()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_driver_and_the_gpus() {
        let text = "\
| NVIDIA-SMI 570.133.20             Driver Version: 570.133.20     CUDA Version: 12.8     |
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
| N/A   30C    P0             71W /  700W |       1MiB /  81559MiB |      0%      Default |
|   1  NVIDIA L40S                    Off |   00000000:E1:00.0 Off |                    0 |
";
        let facts = table(text).unwrap();
        assert_eq!(
            (facts.driver_version.as_deref(), facts.cuda_version.as_deref()),
            (Some("570.133.20"), Some("12.8"))
        );
        let gpus: Vec<(u32, &str, &str)> =
            facts.gpus.iter().map(|gpu| (gpu.index, gpu.name.as_str(), gpu.pci_bus_id.as_str())).collect();
        assert_eq!(gpus, [(0, "NVIDIA H100 80GB HBM3", "0000:18:00.0"), (1, "NVIDIA L40S", "0000:e1:00.0")]);
        assert_eq!(facts.gpus[0].memory_total_bytes, Some(81559 << 20));
        assert_eq!(table("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."), None);
    }
}
