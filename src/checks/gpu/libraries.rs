//! The driver's libraries in a container, and the part that brought them: its image, or the host.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::machine::{self, Container, DebPackage, ImageHost, Root};
use std::path::Path;

/// The part that brought a library into a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The image: the file is in the root file system of the container.
    Image,
    /// The host, which removed the file after the container was created.
    Removed,
    /// The host, which has the file: the file has a mount.
    Host,
}

impl Source {
    /// The evidence for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Image => "in the image",
            Self::Removed => "mounted from the host, which removed it since",
            Self::Host => "mounted from the host",
        }
    }
}

/// A library of the driver with another version than the loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) file: String,
    pub(crate) version: String,
    pub(crate) source: Source,
}

/// A library in a container that does not belong to the loaded module. One of the image is preferred: a new container
/// with the same image has it too.
pub(crate) fn foreign(root: &Root, loaded: &str) -> Option<Foreign> {
    const FOLDERS: [&str; 5] = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/nvidia/lib64",
    ];
    let text = root.read_text("/proc/self/mountinfo").unwrap_or_default();
    let mounts = machine::parse_mountinfo(&text);
    let mut files: Vec<String> = Vec::new();
    for folder in FOLDERS {
        files.extend(root.entries(folder).unwrap_or_default().into_iter().map(|name| format!("{folder}/{name}")));
    }
    files.extend(mounts.iter().map(|mount| mount.point.display().to_string()));
    let source = |file: &str| {
        let mount = machine::mount_for(&mounts, Path::new(file), None).filter(|mount| mount.point != Path::new("/"));
        // The kernel marks the mount of a removed file.
        let is_removed = |line: &str| {
            let mut fields = line.split(' ').skip(3);
            fields.next().is_some_and(|top| top.ends_with("//deleted")) && fields.next() == Some(file)
        };
        match mount {
            None => Source::Image,
            Some(_) if text.lines().any(is_removed) => Source::Removed,
            Some(_) => Source::Host,
        }
    };
    let mut found: Vec<Foreign> = files
        .into_iter()
        .filter_map(|file| {
            let version = version(&file).filter(|version| *version != loaded)?.to_owned();
            Some(Foreign { source: source(&file), file, version })
        })
        .collect();
    let first = found.iter().position(|one| one.source == Source::Image).unwrap_or(0);
    (first < found.len()).then(|| found.swap_remove(first))
}

/// The version of the driver's libraries, from their file names. `None` if there are several.
pub(crate) fn installed_version(root: &Root) -> Option<String> {
    const FOLDERS: [&str; 4] = ["/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"];
    let names = FOLDERS.into_iter().flat_map(|folder| root.entries(folder).unwrap_or_default());
    let version = |name: String| name.strip_prefix("libnvidia-ml.so.").filter(|v| v.contains('.')).map(str::to_owned);
    let mut versions: Vec<String> = names.filter_map(version).collect();
    versions.sort();
    versions.dedup();
    if versions.len() == 1 { versions.pop() } else { None }
}

/// The version of the driver in the name of one of its libraries: `535.247.01` for `libcuda.so.535.247.01`.
fn version(file: &str) -> Option<&str> {
    let name = file.rsplit('/').next()?;
    let version = name.strip_prefix("libcuda.so.").or_else(|| name.strip_prefix("libnvidia-ml.so."))?;
    // A name without the version of the driver, such as libcuda.so.1.1 of Jetson, is not meant.
    let branch: u32 = version.split_once('.')?.0.parse().ok()?;
    (branch >= 100).then_some(version)
}

/// How a container gets the libraries of the loaded driver. Docker and its relatives mount those of the host when a
/// container is created; LXC and nspawn have a system with its own libraries.
pub(crate) fn of_container(ctx: &Context<'_>, container: &Container, loaded: &str, found: Option<&Foreign>) -> Advice {
    let start = match container.runtime.as_str() {
        "lxc" | "nspawn" => return of_system(ctx, loaded, found),
        "kubernetes" => "Delete the pod, so that a new one",
        _ => "Create the container again, so that it",
    };
    match found {
        Some(Foreign { source: Source::Host, version, .. }) => {
            return mixed_host(ctx, container, loaded, version).into();
        }
        Some(Foreign { source: Source::Removed, .. }) => {
            return Advice::from(format!("An update of the host removed these libraries. {start} gets the new ones."));
        }
        Some(Foreign { source: Source::Image, .. }) | None => {}
    }
    let packages = machine::deb_packages(ctx.root).into_iter().filter(|one| one.name.starts_with("libnvidia-compute"));
    let (names, shown): (Vec<String>, Vec<String>) =
        packages.map(|one| (one.name.clone(), format!("{} {}", one.name, one.version).trim_end().to_owned())).unzip();
    if !names.is_empty() {
        // The line belongs into a Dockerfile, so it is not a command of this machine.
        return Advice::from(format!(
            "The image contains {}. Build it again with `RUN apt-get purge -y {} && ldconfig` in its Dockerfile. {start} gets the host's libraries.",
            shown.join(" and "),
            names.join(" ")
        ));
    }
    if let Some(found) = found {
        return Advice::from(format!(
            "The image contains {}. Build it again without the libraries of a driver. {start} gets the host's libraries.",
            found.file
        ));
    }
    Advice::from(format!(
        "{start} gets the host's libraries; its image must contain none (packages libnvidia-compute). If nvidia-smi fails on the host too, reboot the host."
    ))
}

/// How a container with a system of its distribution gets the libraries of the host's driver. The libraries of CUDA stay.
fn of_system(ctx: &Context<'_>, loaded: &str, found: Option<&Foreign>) -> Advice {
    let arch = if ctx.is_aarch64() { "aarch64" } else { "x86_64" };
    let file = format!("NVIDIA-Linux-{arch}-{loaded}.run");
    let get = format!("wget https://us.download.nvidia.com/tesla/{loaded}/{file}");
    let install = format!("sudo sh {file} --no-kernel-modules");
    let is_of_driver = |package: &DebPackage| {
        let version = package.version.split_once(':').map_or(package.version.as_str(), |(_, version)| version);
        found.is_some_and(|found| version.split('-').next() == Some(found.version.as_str()))
            && machine::is_plain_name(&package.name)
    };
    let names: Vec<String> =
        machine::deb_packages(ctx.root).into_iter().filter(is_of_driver).map(|package| package.name).collect();
    let advice = if names.is_empty() {
        Advice::from(
            "In the container, remove the packages of its driver and install the libraries of the host's driver: ",
        )
        .command(format!("{get} && {install}"))
    } else {
        Advice::from("In the container, replace the libraries by those of the host's driver: ")
            .command(format!("{get} && sudo apt-get purge {} && {install}", names.join(" ")))
    };
    advice.text(". Then restart the container.")
}

/// The step if the host gives its containers libraries that do not belong to its kernel module.
fn mixed_host(ctx: &Context<'_>, container: &Container, loaded: &str, version: &str) -> String {
    let is_pod = container.runtime == "kubernetes";
    let (host, again) = if is_pod { ("node", "delete this pod") } else { ("host", "create the container again") };
    let is_talos = machine::image_host_of_node(ctx.root) == Some(ImageHost::Talos)
        || machine::kernel_release(ctx.root).is_some_and(|release| release.ends_with("-talos"));
    if is_talos {
        // Sidero Labs, Talos: NVIDIA GPU. Both extensions must have the version of one driver.
        return format!(
            "Talos has extensions of two drivers in its image, so a new pod gets {version} too. `talosctl -n NODE get extensions` lists them. Make a schematic (factory.talos.dev) whose nvidia-open-gpu-kernel-modules and nvidia-container-toolkit are both -production or both -lts. Then run `talosctl -n NODE upgrade --image factory.talos.dev/metal-installer/SCHEMATIC:VERSION`, and {again}."
        );
    }
    let operator = if is_pod { ", or delete the pod of its NVIDIA container toolkit (GPU Operator)" } else { "" };
    format!(
        "The {host} gives its containers {version}, so the image is not the cause. Run `nvidia-smi` on the {host}. If that fails, install the libraries of {loaded} there, or reboot it if its driver was updated. If it works, the CDI specification is old: run `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` there{operator}. Then {again}."
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_a_library_shows_who_brought_it() {
        const LIB: &str = "/usr/lib/x86_64-linux-gnu/libcuda.so.535.247.01";
        let top = "10 9 0:40 / / rw - overlay overlay rw";
        for (line, source) in [
            (String::new(), Source::Image),
            (format!("11 10 7:5 /usr/lib/libcuda.so.535.247.01 {LIB} ro - ext4 /dev/sda2 rw"), Source::Host),
            (
                format!("11 10 7:5 /usr/lib/libcuda.so.535.247.01//deleted {LIB} ro - ext4 /dev/sda2 rw"),
                Source::Removed,
            ),
            ("11 10 7:5 /lib /usr/lib/x86_64-linux-gnu ro - ext4 /dev/sda2 rw".to_owned(), Source::Host),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let write = |path: &str, text: &str| {
                let path = folder.path().join(path.trim_start_matches('/'));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            };
            write(LIB, "");
            write("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "");
            write("/proc/self/mountinfo", &format!("{top}\n{line}\n"));
            let root = Root::tree(folder.path()).unwrap();
            let found = foreign(&root, "580.95.05").unwrap();
            assert_eq!((found.version.as_str(), found.source), ("535.247.01", source), "{line}");
            assert_eq!(foreign(&root, "535.247.01"), None);
        }
    }
}
