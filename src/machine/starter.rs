//! The starter of the process, outside of containers. It sets the limits, and not a login.

use super::root::Root;

/// The starter of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starter {
    /// A daemon of Slurm.
    Slurm,
    /// A system service of systemd, with its unit.
    Service(String),
}

/// The starter of the process. `None` for a login, or if it is unknown.
#[must_use]
pub fn starter(root: &Root) -> Option<Starter> {
    let cgroup = root.read_text("/proc/self/cgroup").unwrap_or_default();
    let is_job = |line: &str| line.contains("slurmstepd") || line.contains("/slurm/") || line.contains("/job_");
    if root.variable("SLURM_JOB_ID").is_some() || cgroup.lines().any(is_job) {
        return Some(Starter::Slurm);
    }
    let group = cgroup.lines().find_map(|line| line.split_once(":/system.slice/")).map(|(_, rest)| rest)?;
    let unit = group.split('/').find(|part| part.ends_with(".service"))?;
    // A login by SSH or on a console is in user.slice; these start other processes.
    let is_login = ["ssh", "getty", "containerd", "docker", "crio"].iter().any(|name| unit.starts_with(name));
    (!is_login).then(|| Starter::Service(unit.to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_or_slurm_names_what_started_the_process() {
        for (cgroup, wanted) in [
            ("0::/system.slice/slurmstepd.scope/job_81342/step_0/user/task_0", Some(Starter::Slurm)),
            ("5:memory:/slurm/uid_1000/job_7/step_batch", Some(Starter::Slurm)),
            ("0::/system.slice/vllm.service", Some(Starter::Service("vllm.service".to_owned()))),
            ("1:name=systemd:/system.slice/triton@0.service", Some(Starter::Service("triton@0.service".to_owned()))),
            ("0::/system.slice/ssh.service", None),
            ("0::/user.slice/user-1000.slice/session-3.scope", None),
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service", None),
            ("0::/", None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
            std::fs::write(folder.path().join("proc/self/cgroup"), format!("{cgroup}\n")).unwrap();
            assert_eq!(starter(&Root::tree(folder.path()).unwrap()), wanted, "{cgroup}");
        }
    }
}
