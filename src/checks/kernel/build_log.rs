//! Finds the reason for a failed DKMS build in its log, and the remedy.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::kernel::boot_kernel;
use crate::machine;
use crate::machine::packages::{self, Family};

/// Why a build failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The file system is full.
    NoSpace,
    /// The process was ended because memory was used up.
    NoMemory,
    /// The headers of the kernel are missing or incomplete.
    NoHeaders,
    /// The compiler is older than the compiler of the kernel.
    OldCompiler,
    /// No compiler, or no make.
    NoCompiler,
    /// A program or library of the kernel's build is missing.
    NoTool,
    /// The source or the symbols of the NVIDIA driver are missing, which nvidia-fs needs.
    NoDriver,
    /// The key that signs the module is missing or cannot be used.
    NoKey,
    /// The open kernel modules are needed: the kernel exports a symbol only to them.
    GplOnly,
    /// The functions of the NVIDIA driver have changed since this module was released.
    NewDriver,
    /// The functions of the kernel have changed since this module was released.
    NewKernel,
    /// The kernel is a real-time kernel, which the NVIDIA driver does not support.
    RealTime,
    /// Another reason.
    Other,
}

/// Parts of log lines in lower case. Causes are before their consequences.
const SIGNS: &[(Reason, &[&str])] = &[
    (Reason::NoSpace, &["no space left on device"]),
    (Reason::NoMemory, &["cannot allocate memory"]),
    (Reason::NoMemory, &["internal compiler error", "killed"]),
    (Reason::NoMemory, &["out of memory allocating"]),
    (Reason::NoMemory, &["fatal error: killed signal terminated program"]),
    (Reason::RealTime, &["failed preempt_rt sanity check"]),
    (Reason::RealTime, &["is a preempt_rt kernel"]),
    (Reason::NoKey, &["sign-file", "no such file"]),
    (Reason::NoKey, &["ssl error", "key"]),
    (Reason::NoKey, &["mok.priv", "no such file"]),
    (Reason::NoCompiler, &["gcc", "command not found"]),
    (Reason::NoCompiler, &["gcc", ": not found"]),
    (Reason::NoCompiler, &["cc:", "no such file or directory", "make"]),
    (Reason::NoCompiler, &["make: gcc", "no such file"]),
    (Reason::NoCompiler, &["make: cc", "no such file"]),
    (Reason::NoCompiler, &["make: not found"]),
    (Reason::NoCompiler, &["make: command not found"]),
    (Reason::NoCompiler, &["unable to find a suitable", "gcc"]),
    (Reason::OldCompiler, &["unrecognized command-line option"]),
    (Reason::OldCompiler, &["unrecognized command line option"]),
    (Reason::OldCompiler, &["unrecognized argument in option"]),
    (Reason::OldCompiler, &["compiler version check failed"]),
    (Reason::OldCompiler, &["gcc-version-check", "failed"]),
    (Reason::NoTool, &["please install libelf"]),
    (Reason::NoTool, &["libelf.h: no such file"]),
    (Reason::NoTool, &["gelf.h: no such file"]),
    (Reason::NoTool, &["pahole", "not found"]),
    (Reason::NoTool, &["openssl/", "no such file"]),
    (Reason::NoHeaders, &["unable to find the kernel source tree"]),
    (Reason::NoHeaders, &["kernel headers", "cannot be found"]),
    (Reason::NoHeaders, &["kernel configuration is invalid"]),
    (Reason::NoHeaders, &["generated/autoconf.h", "no such file"]),
    (Reason::NoHeaders, &["autoconf.h", "missing"]),
    (Reason::NoHeaders, &["module.lds", "no such file"]),
    (Reason::NoHeaders, &["/build: no such file or directory"]),
    (Reason::NoHeaders, &["/build", "no rule to make target"]),
    (Reason::NoHeaders, &["fixdep: no such file"]),
    (Reason::NoHeaders, &["modpost: no such file"]),
    (Reason::NoHeaders, &["fixdep: not found"]),
    (Reason::NoHeaders, &["modpost: not found"]),
    (Reason::NoDriver, &["nv-p2p.h", "no such file"]),
    (Reason::NoDriver, &["nvidia_p2p_", "undefined!"]),
    (Reason::GplOnly, &["gpl-incompatible module", "gpl-only symbol"]),
    (Reason::NewDriver, &["error:", "nvidia_p2p_"]),
    (Reason::NewKernel, &["implicit declaration of function"]),
    (Reason::NewKernel, &["has no member named"]),
    (Reason::NewKernel, &["too few arguments to function"]),
    (Reason::NewKernel, &["too many arguments to function"]),
    (Reason::NewKernel, &["incompatible pointer type"]),
    (Reason::NewKernel, &["incompatible type for argument"]),
    (Reason::NewKernel, &["undeclared (first use"]),
    (Reason::NewKernel, &["unknown type name"]),
    (Reason::NewKernel, &["conflicting types for"]),
    (Reason::NewKernel, &["modpost:", "undefined!"]),
    (Reason::NewKernel, &["linux/", ".h: no such file"]),
    (Reason::NewKernel, &["asm/", ".h: no such file"]),
    (Reason::NewKernel, &["modpost:", "namespace", "does not import it"]),
    (Reason::Other, &["error:"]),
    (Reason::Other, &["***"]),
];

/// A failed build.
pub(crate) struct FailedBuild {
    /// The path of the log.
    pub(crate) log: String,
    /// The line that names the reason.
    pub(crate) line: String,
    /// The reason, as the end of the sentence "DKMS cannot build MODULE: …".
    pub(crate) why: String,
    /// The remedy.
    pub(crate) advice: Advice,
    /// Whether an update of the module is needed. The same version cannot be built for this kernel.
    pub(crate) needs_update: bool,
    /// Whether another build fails in the same way until a person has removed the reason.
    pub(crate) is_of_system: bool,
    /// Whether no module of the driver can be built for the running kernel.
    pub(crate) is_of_kernel: bool,
}

/// Why the last build of this module for the running kernel failed. `None` if its log has no error.
pub(crate) fn failed(ctx: &Context<'_>, name: &str, version: &str) -> Option<FailedBuild> {
    let release = machine::kernel_release(ctx.root)?;
    let (log, text) = machine::build_log(ctx.root, name, version, &release)?;
    let (reason, line) = reason(&text)?;
    let dkms = format!("dkms install {name}/{version} -k {release}");
    let (why, advice) = explain(ctx, reason, &text, &line, &release, &dkms);
    let other = boot_kernel::built_for(ctx.root, name).map(|kernel| boot_kernel::boot(ctx.root, &kernel));
    let advice = match (reason, other) {
        (Reason::RealTime, Some(boot)) => boot,
        (Reason::Other, Some(boot)) => boot.text(", then reboot. Alternative: ").and(advice),
        _ => advice,
    };
    let needs_update = matches!(reason, Reason::NewKernel | Reason::NewDriver | Reason::GplOnly);
    let is_of_system = matches!(
        reason,
        Reason::NoSpace
            | Reason::NoMemory
            | Reason::NoKey
            | Reason::OldCompiler
            | Reason::NoDriver
            | Reason::RealTime
            | Reason::Other
    );
    let is_of_kernel = reason == Reason::RealTime;
    Some(FailedBuild { line, why, advice, needs_update, is_of_system, is_of_kernel, log })
}

/// The reason in a log, and its line.
fn reason(text: &str) -> Option<(Reason, String)> {
    let lower = text.to_ascii_lowercase();
    SIGNS.iter().find_map(|(reason, parts)| {
        // The test programs of the driver's configure script fail on purpose and print nothing to this log.
        let at = lower.lines().position(|line| parts.iter().all(|part| line.contains(part)))?;
        let line: String = text.lines().nth(at)?.trim().chars().take(200).collect();
        Some((*reason, line))
    })
}

/// How to free space for a build: remove downloaded packages and old logs, which can be created again or are not needed.
fn free_space(ctx: &Context<'_>, build: &str) -> Advice {
    let caches = match packages::family(ctx.root) {
        Family::Debian => "sudo apt-get clean".to_owned(),
        Family::RedHat => format!("sudo {} clean all", packages::dnf(ctx.root)),
        Family::Suse => "sudo zypper clean --all".to_owned(),
    };
    let advice = Advice::from("Free at least 1 GiB, for example with ")
        .command(format!("{caches}; sudo journalctl --vacuum-size=100M"))
        .text(", and check with ")
        .command("df -h / /tmp /var /boot")
        .text(". Then run ")
        .command(build.to_owned());
    match packages::family(ctx.root) {
        // The package whose build failed stays half configured.
        Family::Debian => advice.text(" and ").command("sudo dpkg --configure -a"),
        _ => advice,
    }
}

/// The command that makes a compiler the default gcc. DKMS unsets CC, so only the name gcc matters.
fn as_default(ctx: &Context<'_>, gcc: &str) -> String {
    let file = format!("/usr/bin/{gcc}");
    let known = ctx.root.read_text("/var/lib/dpkg/alternatives/gcc").unwrap_or_default();
    let set = format!("sudo update-alternatives --set gcc {file}");
    if known.lines().any(|line| line == file) {
        return set;
    }
    format!("sudo update-alternatives --install /usr/bin/gcc gcc {file} 100 && {set}")
}

/// A sentence about the default compiler, if an alternative sets it.
fn default_compiler(ctx: &Context<'_>) -> Advice {
    let target = ctx.root.link("/etc/alternatives/gcc");
    let name = target.as_deref().and_then(|target| target.file_name()).map(|name| name.to_string_lossy());
    name.map_or_else(Advice::default, |name| {
        Advice::from(format!("The default gcc is {name}, by update-alternatives, and DKMS ignores CC. "))
    })
}

/// The package with the source of a driver that Ubuntu built, in the version of the loaded driver. It replaces no module,
/// and a package of another repository has another version.
fn source_of_ubuntu(ctx: &Context<'_>) -> Option<String> {
    let version = machine::Driver::of(ctx.root).version?;
    let branch = version.split('.').next()?;
    machine::deb_packages(ctx.root).into_iter().find_map(|package| {
        let rest = package.name.strip_prefix("linux-modules-nvidia-")?.strip_prefix(branch)?;
        let server = if rest.starts_with("-server") { "-server" } else { "" };
        let open = if rest[server.len()..].starts_with("-open") { "-open" } else { "" };
        Some(format!("nvidia-kernel-source-{branch}{server}{open}={version}*"))
    })
}

/// Adds the command for a package that its failed build left half-configured.
fn finished(ctx: &Context<'_>, advice: Advice) -> Advice {
    let status = ctx.root.read_text("/var/lib/dpkg/status").unwrap_or_default();
    if status.contains("half-configured") {
        return advice.text(" and ").command("sudo dpkg --configure -a");
    }
    advice
}

fn explain(ctx: &Context<'_>, reason: Reason, text: &str, line: &str, release: &str, dkms: &str) -> (String, Advice) {
    let build = format!("sudo {dkms}");
    let install = |debian: &str, red_hat: &str, suse: &str| match packages::family(ctx.root) {
        _ if !packages::known_family(ctx.root) => None,
        Family::Debian => Some(format!("sudo apt-get update && sudo apt-get install {debian}")),
        Family::RedHat => Some(format!("sudo {} install {red_hat}", packages::dnf(ctx.root))),
        Family::Suse => Some(format!("sudo zypper install {suse}")),
    };
    let first = |command: Option<String>, what: &str| match command {
        Some(command) => Advice::run(format!("{command} && {build}")),
        None => Advice::from(format!("Install {what}, then run ")).command(build.clone()),
    };
    match reason {
        Reason::NoSpace => (
            match full_folder(line) {
                Some(folder) => format!("the file system with {folder} is full"),
                None => "a file system is full".to_owned(),
            },
            free_space(ctx, &build),
        ),
        Reason::NoMemory => (
            "memory was used up".to_owned(),
            Advice::from("End programs or add swap, then run ").command(format!("{build} -j 1")),
        ),
        Reason::NoKey => (
            "its signing key is missing".to_owned(),
            Advice::run(format!("sudo dkms generate_mok && {build}"))
                .text(", then enrol the key: ")
                .command("sudo mokutil --import /var/lib/dkms/mok.pub"),
        ),
        Reason::NoCompiler => {
            let compiler = compiler(text).unwrap_or_else(|| "gcc".to_owned());
            (
                "no compiler is installed".to_owned(),
                first(install(&format!("{compiler} make"), "gcc make", "gcc make"), "gcc and make"),
            )
        }
        Reason::OldCompiler => {
            let why = "the compiler is older than the kernel's".to_owned();
            let of_kernel = || compiler(&ctx.root.read_text("/proc/version").ok()?);
            let advice = match compiler(text).or_else(of_kernel) {
                Some(gcc) => {
                    // RHEL has later compilers as toolsets.
                    let toolset = gcc.replace("gcc-", "gcc-toolset-");
                    let is_toolset = packages::known_family(ctx.root) && packages::family(ctx.root) == Family::RedHat;
                    let has_compiler = ctx.root.exists(format!("/usr/bin/{gcc}"));
                    let install = install(&gcc, &toolset, &gcc.replace('-', "")).filter(|_| is_toolset || !has_compiler);
                    let with = if is_toolset {
                        format!("sudo scl enable {toolset} '{dkms}'")
                    } else {
                        format!("{} && {build}", as_default(ctx, &gcc))
                    };
                    let advice = match install {
                        // The package gcc of Debian has the link /usr/bin/gcc, which the new alternative replaces.
                        Some(install) if with.contains("--install /usr/bin/gcc") => Advice::from(
                            "Set the default compiler again after each upgrade of the package gcc. Run ",
                        )
                        .command(format!("{install} && {with}")),
                        Some(install) => Advice::run(format!("{install} && {with}")),
                        None if has_compiler => default_compiler(ctx).text("Run ").command(with),
                        None => Advice::from(format!("Install {gcc}, then run ")).command(with),
                    };
                    finished(ctx, advice)
                }
                None => Advice::from(
                    "Install the compiler that `cat /proc/version` names and make it the default gcc, then run ",
                )
                .command(build),
            };
            (why, advice)
        }
        Reason::NoTool => (
            "a library for the build is missing".to_owned(),
            first(
                install("libelf-dev libssl-dev dwarves", "elfutils-libelf-devel openssl-devel", "libelf-devel"),
                "libelf",
            ),
        ),
        Reason::NoHeaders => (
            format!("the headers of {release} are missing or incomplete"),
            match packages::install_headers(ctx.root, release, true) {
                Some(install) => Advice::run(format!("{install} && {build}")),
                None => Advice::from(format!("Install the headers of {release}, then run ")).command(build),
            },
        ),
        Reason::NoDriver => (
            "the source of the NVIDIA driver is missing".to_owned(),
            if machine::precompiled_driver(ctx.root).is_some() {
                Advice::from(
                    "Use P2PDMA if kernel and GPU support it, because it builds no module. For nvfs, switch the driver from its precompiled stream to DKMS (nvidia-driver:open-dkms); under Secure Boot, enrol the key of DKMS before. Then run ",
                )
                .command(build)
            } else if let Some(package) = source_of_ubuntu(ctx) {
                let install = format!("sudo apt-get update && sudo apt-get install '{package}'");
                finished(ctx, Advice::run(format!("{install} && {build}")))
            } else {
                Advice::from("Install the driver's DKMS package, which has its source in /usr/src, then run ")
                    .command(build)
            },
        ),
        Reason::GplOnly => (
            "the kernel exports a symbol only to open modules".to_owned(),
            "Install a newer driver with the open kernel modules.".into(),
        ),
        Reason::NewDriver => (
            format!(
                "this version does not support driver {}",
                machine::nvidia_driver(ctx.root).unwrap_or_else(|| "of this machine".to_owned())
            ),
            "Install the nvidia-fs of the driver's CUDA release or a later one. Building this version again has no effect.".into(),
        ),
        Reason::NewKernel => (
            format!("this version does not support Linux {release}"),
            "Install a newer version, or boot the previous kernel. Building it again has no effect.".into(),
        ),
        Reason::RealTime => (
            "this is a real-time kernel, which it does not support".to_owned(),
            "Install a kernel without PREEMPT_RT, and build the module for it".into(),
        ),
        Reason::Other => (
            "its compilation failed".to_owned(),
            Advice::from(format!("Correct the error \"{line}\", then run ")).command(build),
        ),
    }
}

/// The meaning and the remedy of a line in the log of a build. `None` if the line is not a known reason.
#[must_use]
pub fn build_line(line: &str) -> Option<(&'static str, &'static str)> {
    Some(match reason(line)?.0 {
        Reason::NoSpace => {
            ("a file system is full", "Free space: `df -h / /tmp /var /boot` shows which file system is full.")
        }
        // Other programs report the same error of the system.
        Reason::NoMemory if !["gcc", "cc1", "compiler"].iter().any(|name| line.contains(name)) => return None,
        Reason::NoMemory => ("the build used up the memory", "End programs or add swap, then build again with -j 1."),
        Reason::NoHeaders => (
            "the headers of the kernel are missing or incomplete",
            "Install the headers of the running kernel, then build again.",
        ),
        Reason::OldCompiler => (
            "the compiler is older than the one that built the kernel",
            "Install the compiler that `cat /proc/version` names and make it the default gcc: DKMS ignores CC. Then build again.",
        ),
        Reason::NoCompiler => ("no compiler is installed", "Install gcc and make, then build again."),
        Reason::NoTool => (
            "a library for the build is missing",
            "Install the development packages of libelf and OpenSSL, then build again.",
        ),
        Reason::NoDriver => (
            "nvidia-fs was built without the source of the NVIDIA driver",
            "Install the driver's DKMS package, which has its source in /usr/src, then build again.",
        ),
        Reason::NoKey => (
            "the signing key of DKMS is missing",
            "Create it with `sudo dkms generate_mok`, build again, then enrol it with mokutil.",
        ),
        Reason::GplOnly => {
            ("the kernel exports a symbol only to open modules", "Install a newer driver with the open kernel modules.")
        }
        Reason::NewDriver => (
            "this version of nvidia-fs does not support the NVIDIA driver",
            "Install the nvidia-fs of the driver's CUDA release or a later one.",
        ),
        Reason::NewKernel => (
            "this version of the module does not support the kernel",
            "Install a newer version of the module, or boot the previous kernel.",
        ),
        Reason::RealTime => (
            "the kernel is a real-time kernel (PREEMPT_RT), which the NVIDIA driver does not support",
            "Boot a kernel without PREEMPT_RT: `dkms status` lists the kernels for which the driver is built. On Ubuntu Pro, run `sudo pro disable realtime-kernel` before.",
        ),
        Reason::Other => return None,
    })
}

/// The directory in a line about a full file system. Each of them is often a separate file system.
fn full_folder(line: &str) -> Option<&'static str> {
    ["/var/tmp", "/var", "/boot", "/tmp"].into_iter().find(|folder| line.contains(&format!("{folder}/")))
}

/// The compiler of the kernel that the log or `/proc/version` names, such as `gcc-12`. Kernels of RHEL and Oracle print
/// `gcc (GCC) 14.2.1`.
fn compiler(text: &str) -> Option<String> {
    let numbered = || {
        let rest = text.split_once("gcc (")?.1.split_once(") ")?.1;
        let major: String = rest.chars().take_while(char::is_ascii_digit).collect();
        (!major.is_empty()).then(|| format!("gcc-{major}"))
    };
    named_compiler(text).or_else(numbered)
}

/// The compiler in a name such as `x86_64-linux-gnu-gcc-12`.
fn named_compiler(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains("The kernel was built by") || line.contains("gcc-"))?;
    let at = line.find("gcc-")?;
    let name: String = line[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let digits = name.strip_prefix("gcc-")?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_with_the_reason_is_found() {
        for (log, wanted, part) in [
            (
                "  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0) 12.3.0\ncc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'\nmake[3]: *** [nv.o] Error 1\n",
                Reason::OldCompiler,
                "ftrivial",
            ),
            (
                "fatal error: error writing to /tmp/ccX.s: No space left on device\nmake: *** [Makefile:90: nvfs-core.o] Error 1\n",
                Reason::NoSpace,
                "No space",
            ),
            (
                "nvidia-drm-drv.c:213:6: error: 'struct drm_driver' has no member named 'date'\nmake[2]: *** Error 2\n",
                Reason::NewKernel,
                "no member",
            ),
            (
                "FATAL: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol '__rcu_read_lock'\n",
                Reason::GplOnly,
                "GPL-only",
            ),
            (
                "make[1]: *** /lib/modules/6.8.0-90-generic/build: No such file or directory.  Stop.\n",
                Reason::NoHeaders,
                "build:",
            ),
            ("/bin/sh: 1: gcc-13: not found\nmake: *** [all] Error 127\n", Reason::NoCompiler, "gcc-13"),
            (
                "gcc: internal compiler error: Killed (program cc1)\nmake: *** [nv.o] Error 4\n",
                Reason::NoMemory,
                "Killed",
            ),
            ("/bin/sh: /usr/src/x/scripts/sign-file: No such file or directory\n", Reason::NoKey, "sign-file"),
            (
                "nvfs-core.c:1021:27: error: too many arguments to function \u{2018}nvidia_p2p_get_pages\u{2019}\n",
                Reason::NewDriver,
                "nvidia_p2p_get_pages",
            ),
            (
                "The kernel you are installing for is a PREEMPT_RT kernel!\n*** Failed PREEMPT_RT sanity check. Bailing out! ***\nmake[2]: *** [Kbuild:221: preempt_rt_sanity_check] Error 1\n",
                Reason::RealTime,
                "Bailing out",
            ),
            ("nvfs-core.c:1:1: error: something odd\n", Reason::Other, "something odd"),
        ] {
            let (reason, line) = reason(log).unwrap_or((Reason::Other, String::new()));
            assert_eq!(reason, wanted, "{log}");
            assert!(line.contains(part), "{line}");
        }
        assert!(reason("make[1]: Entering directory\n  CC [M] nvfs-core.o\n  LD [M] nvidia-fs.ko\n").is_none());
        assert_eq!(compiler("built by: x86_64-linux-gnu-gcc-12 (Ubuntu"), Some("gcc-12".to_owned()));
        assert_eq!(compiler("sh: 1: gcc-13: not found"), Some("gcc-13".to_owned()));
    }
}
