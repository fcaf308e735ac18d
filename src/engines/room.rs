//! Checks whether the target has enough free memory for a model before the page cache is filled. The kernel grants
//! more host memory than exists and kills a process later.

use super::error::LoadError;
use crate::core::units;
use crate::device::Device;
use std::path::{Path, PathBuf};

/// Returns an error if the model does not fit into the free memory.
pub(crate) fn check(device: &Device, needs: u64) -> Result<(), LoadError> {
    let (has, free, advice) = match device {
        Device::Cuda(cuda) => {
            let Some(free) = free_gpu_bytes(device) else { return Ok(()) };
            let advice = "choose another GPU with --target, divide the model among several (--target 0,1), or choose a smaller model";
            (free, format!("{} has {} free", cuda.info().name, units::bytes(free)), advice)
        }
        Device::Host => match (free_host_bytes(), cgroup_limit()) {
            (free, Some(limit)) if free.is_none_or(|free| limit < free) => {
                let advice = "raise the limit of the container or service, or choose a smaller model";
                (limit, format!("the cgroup of this process allows {} of memory", units::bytes(limit)), advice)
            }
            (Some(free), _) => {
                (free, format!("this machine has {} of memory free", units::bytes(free)), "choose a smaller model")
            }
            (None, _) => return Ok(()),
        },
    };
    if needs > has { Err(LoadError::NoRoom { needs, free, advice }) } else { Ok(()) }
}

/// A sentence if a run pins more host memory than is available. Pinned memory cannot be swapped out.
pub(crate) fn pinned_shortage(needs: u64) -> Option<String> {
    let meminfo = <procfs::Meminfo as procfs::Current>::current().ok()?;
    let available = cgroup_limit().unwrap_or(u64::MAX).min(meminfo.mem_available?);
    (needs > available).then(|| {
        format!(
            "the run pins {} of host memory, but {} are available; the kernel may end it",
            units::bytes(needs),
            units::bytes(available)
        )
    })
}

/// The free memory of the GPU in bytes. `None` for host memory.
pub(super) fn free_gpu_bytes(device: &Device) -> Option<u64> {
    match device {
        Device::Cuda(cuda) => cuda.memory().ok().map(|(free, _)| free),
        Device::Host => None,
    }
}

/// The available memory according to the kernel, plus the pages that it can swap out, in bytes.
fn free_host_bytes() -> Option<u64> {
    let text = <procfs::Meminfo as procfs::Current>::current().ok()?;
    Some(text.mem_available? + text.swap_free)
}

/// The memory limit of this process's cgroup, version 2 or 1. Limits of parent groups are not read. If they are
/// exceeded, the kernel kills the process, and the run reports the signal.
fn cgroup_limit() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_files(&text).iter().find_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
}

/// The files with the limit, derived from /proc/PID/cgroup (cgroups(7)). In a container, that path can be the host's
/// path although the container sees its group at the root.
fn limit_files(text: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            some if some.split(',').any(|one| one == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let own = Path::new(root).join(path.trim_start_matches('/')).join(name);
        files.extend([own, Path::new(root).join(name)]);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_looked_for_where_either_version_keeps_them() {
        let one = "9:cpu,cpuacct:/a\n4:memory:/docker/x:y\n0::/a b\nnonsense\n";
        let files: Vec<String> = limit_files(one).iter().map(|file| file.display().to_string()).collect();
        assert_eq!(
            files,
            [
                "/sys/fs/cgroup/memory/docker/x:y/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/a b/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
    }

    #[test]
    fn pinned_memory_beyond_the_available_memory_is_named() {
        assert_eq!(pinned_shortage(4096), None);
        assert!(pinned_shortage(1 << 60).is_some_and(|text| text.contains("1 EiB") || text.contains("1024 PiB")));
    }

    #[test]
    fn what_fits_is_let_through_and_what_no_machine_holds_is_not() {
        assert!(check(&Device::Host, 4096).is_ok());
        let text = check(&Device::Host, u64::MAX).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("memory") && text.contains("smaller model"), "{text}");
    }
}
