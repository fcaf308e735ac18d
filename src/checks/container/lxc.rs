//! Gives a container of LXC parts of its host. Proxmox VE configures its containers with pct, Incus and LXD with their
//! own program.

use super::bring::{Lack, bring, bring_all};
use crate::machine::{Container, Root, kernel_release};

/// The first number of a device. The lower ones are probably used.
const FIRST: usize = 64;

/// Whether the host is Proxmox VE. The container shares its kernel.
pub(crate) fn is_on_proxmox(root: &Root) -> bool {
    kernel_release(root).is_some_and(|release| release.ends_with("-pve"))
}

/// The commands of the host, of which the last one restarts the container. Nodes that the container has are omitted.
pub(crate) fn commands(root: &Root, lacks: &[Lack]) -> Vec<String> {
    let has = |lack: Lack| lacks.contains(&lack);
    let gpu = ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"].map(str::to_owned);
    let nvidia_fs = (0..16).filter(|_| has(Lack::NvidiaFs)).map(|n| format!("/dev/nvidia-fs{n}"));
    let nodes = gpu.into_iter().filter(|_| has(Lack::Gpu)).chain(nvidia_fs);
    let lacking: Vec<String> = nodes.filter(|path| !root.exists(path)).collect();
    if is_on_proxmox(root) {
        let udev = has(Lack::Udev).then(|| " --mp9 /run/udev,mp=/run/udev,ro=1".to_owned());
        let devices = lacking.iter().enumerate().map(|(n, path)| format!(" --dev{} {path}", FIRST + n));
        let options: String = udev.into_iter().chain(devices).collect();
        let set = (!options.is_empty()).then(|| format!("sudo pct set ID{options}"));
        let limit = has(Lack::Memlock)
            .then(|| "sudo sed -i '1i lxc.prlimit.memlock: unlimited' /etc/pve/lxc/ID.conf".to_owned());
        return set.into_iter().chain(limit).chain(["sudo pct reboot ID".to_owned()]).collect();
    }
    let add = |rest: &str| format!("incus config device add NAME {rest}");
    let udev = has(Lack::Udev).then(|| add("udev disk source=/run/udev path=/run/udev readonly=true"));
    // A device of the type gpu has all nodes of the GPUs.
    let is_gpu = |path: &String| !path.starts_with("/dev/nvidia-fs");
    let all = lacking.iter().any(|path| path == "/dev/nvidia0");
    let nodes = lacking
        .iter()
        .filter(|path| !(all && is_gpu(path)))
        .map(|path| add(&format!("{} unix-char source={path} path={path}", path.trim_start_matches("/dev/"))));
    let gpu = all.then(|| add("gpu gpu"));
    let limit = has(Lack::Memlock).then(|| "incus config set NAME limits.kernel.memlock unlimited".to_owned());
    udev.into_iter().chain(gpu).chain(nodes).chain(limit).chain(["incus restart NAME".to_owned()]).collect()
}

/// How to give a container parts of its host, for each runtime. Containers of LXC get the commands of their host.
pub(crate) fn given(root: &Root, container: &Container, lacks: &[Lack]) -> String {
    let has_commands = |lack: &Lack| matches!(lack, Lack::Udev | Lack::Gpu | Lack::NvidiaFs | Lack::Memlock);
    if container.runtime == "lxc" && lacks.iter().all(has_commands) {
        // All nodes of nvidia-fs together are too long for a sentence.
        let commands = if lacks == [Lack::NvidiaFs] { all_of_nvidia_fs(root) } else { commands(root, lacks) };
        let list = if is_on_proxmox(root) { "`sudo pct list` shows ID" } else { "`incus list` shows NAME" };
        if commands.len() > 1 {
            return format!("On the host, run `{}`. {list}.", commands.join(" && "));
        }
    }
    match lacks {
        [one] => bring(container, *one).to_owned(),
        several => bring_all(root, container, several, "/data"),
    }
}

/// The commands for all nodes of nvidia-fs.
fn all_of_nvidia_fs(root: &Root) -> Vec<String> {
    let lines = if is_on_proxmox(root) {
        ["sudo pct set ID $(for n in $(seq 0 15); do echo --dev$((64+n)) /dev/nvidia-fs$n; done)", "sudo pct reboot ID"]
    } else {
        [
            "for n in $(seq 0 15); do incus config device add NAME nvidia-fs$n unix-char source=/dev/nvidia-fs$n path=/dev/nvidia-fs$n; done",
            "incus restart NAME",
        ]
    };
    lines.map(str::to_owned).to_vec()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_container_of_lxc_gets_the_commands_of_its_host() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let container = Container { runtime: "lxc".to_owned(), source: String::new(), text: String::new() };
        let said = |lacks: &[Lack]| given(&Root::tree(folder.path()).unwrap(), &container, lacks);
        write("dev/nvidiactl", "");
        write("dev/nvidia0", "");
        write("dev/nvidia-uvm-tools", "");
        assert_eq!(
            said(&[Lack::Gpu]),
            "On the host, run `incus config device add NAME nvidia-uvm unix-char source=/dev/nvidia-uvm path=/dev/nvidia-uvm && incus restart NAME`. `incus list` shows NAME."
        );
        write("proc/sys/kernel/osrelease", "6.8.12-13-pve\n");
        assert_eq!(
            said(&[Lack::Udev, Lack::Gpu]),
            "On the host, run `sudo pct set ID --mp9 /run/udev,mp=/run/udev,ro=1 --dev64 /dev/nvidia-uvm && sudo pct reboot ID`. `sudo pct list` shows ID."
        );
        write("dev/nvidia-uvm", "");
        assert_eq!(said(&[Lack::Gpu]), bring(&container, Lack::Gpu));
    }
}
