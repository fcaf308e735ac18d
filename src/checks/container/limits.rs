//! Checks of container, user and limits.

use crate::checks::advice::Advice;
use crate::checks::container::bring::{Lack, lift_memlock};
use crate::checks::container::lxc::given;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::core::{CheckId, FixId, Route, units};
use crate::machine::{self, Starter, Unread};

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = vec![container(ctx)];
    out.extend(limits(ctx));
    out.push(user(ctx));
    out
}

/// A check that needs the version of libcufile, so it waits for the probe.
pub(crate) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: CheckId = CheckId::CtrProcSys;
    let judged = match ctx.root.read_bytes("/proc/modules") {
        Ok(_) => Judged::pass(ID, "/proc/modules can be read").found("/proc/modules", "readable"),
        Err(why) => {
            if let Some(options) = machine::proc_of_processes(ctx.root) {
                return vec![hidden_proc(ctx, options, &why)];
            }
            let facts = ctx.root.libcufile();
            let judged = match facts.version_numbers() {
                Some(version) if version < (1, 16) => {
                    Judged::info(ID, "/proc/modules cannot be read; libcufile before 1.16 does not need it")
                }
                Some(_) => Judged::lack(ID, "/proc/modules cannot be opened: libcufile 1.16 and later hang here")
                    .missing(Cost::System, EVERY)
                    .advice("Run on a kernel that shows /proc/modules, or use libcufile 1.15 or older."),
                None => Judged::warn(ID, "/proc/modules cannot be opened: libcufile 1.16 and later would hang here"),
            };
            judged.unread("/proc/modules", &why)
        }
    };
    vec![judged]
}

/// A /proc that shows only processes. CUDA and libcufile read other files there.
fn hidden_proc(ctx: &Context<'_>, options: String, why: &Unread) -> Judged {
    const ID: CheckId = CheckId::CtrProcSys;
    let unit = match machine::starter(ctx.root) {
        Some(Starter::Service(unit)) => Some(unit),
        _ => None,
    };
    let owner = unit.as_deref().unwrap_or("this process");
    let summary = format!("/proc of {owner} hides the files of the driver (subset=pid)");
    let facts = ctx.root.libcufile();
    let fails = facts.open.as_ref().is_some_and(|open| open.code != Some(0));
    let judged = if fails || facts.version_numbers().is_some_and(|version| version >= (1, 16)) {
        Judged::lack(ID, summary).missing(Cost::Root, EVERY)
    } else {
        Judged::warn(ID, summary)
    };
    let line = unit.as_deref().and_then(|unit| machine::unit_line(ctx.root, unit, "ProcSubset="));
    let judged = judged.found("/proc/self/mountinfo", options).unread("/proc/modules", why);
    let judged = match line {
        Some((file, line)) => judged.found(file, line),
        None => judged,
    };
    judged.advice(match (unit, machine::container(ctx.root)) {
        (Some(unit), _) => Advice::run(format!("sudo systemctl edit {unit}"))
            .text(", and add ProcSubset=all below [Service]; ProtectProc= can stay. Then run ")
            .command(format!("sudo systemctl restart {unit}")),
        (None, Some(_)) => "Start the container with a /proc that is mounted without subset=pid.".into(),
        (None, None) => "Run the program where /proc is mounted without subset=pid.".into(),
    })
}

fn container(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::CtrDetect;
    match machine::container(ctx.root) {
        Some(container) => Judged::info(ID, format!("inside a container ({})", container.runtime))
            .found(container.source, container.text),
        None => Judged::pass(ID, "not inside a container")
            .found("/.dockerenv, /run/.containerenv, /proc/self/cgroup", "no sign of a container"),
    }
}

/// A limit of the process from `/proc/self/limits`. The inner `None` means unlimited.
fn soft_limit(text: &str, name: &str) -> Option<Option<u64>> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let word = rest.split_whitespace().next()?;
    if word == "unlimited" { Some(None) } else { word.parse().ok().map(Some) }
}

/// The hard limit. `None` if it is unlimited or not reported.
fn hard_limit(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a path is on a file system over RDMA.
fn over_rdma(ctx: &Context<'_>) -> bool {
    ctx.subjects.iter().filter_map(|subject| subject.facts.as_ref()).any(|facts| {
        facts.option_value("proto") == Some("rdma")
            || matches!(
                facts.filesystem.as_deref(),
                Some("gpfs" | "mmfs" | "wekafs" | "lustre" | "beegfs" | "fhgfs" | "scatefs")
            )
    })
}

/// How to lift the limit on locked memory if no login sets it: limits.d has no effect on daemons and their programs
/// (Slurm FAQ, memlock).
fn by_starter(starter: &Starter) -> Advice {
    match starter {
        Starter::Slurm => Advice::from(
            "A job has the limit of slurmd. On the nodes, set PropagateResourceLimitsExcept=MEMLOCK in slurm.conf. Then run ",
        )
        .command(lift_memlock("slurmd"))
        .text(" there, and start a new job."),
        Starter::Service(unit) => {
            Advice::from("The service has the limit of its unit. Run ").command(lift_memlock(unit))
        }
    }
}

fn limits(ctx: &Context<'_>) -> Vec<Judged> {
    const PATH: &str = "/proc/self/limits";
    const MEMLOCK: CheckId = CheckId::LimMemlock;
    let text = match ctx.root.read_text(PATH) {
        Ok(text) => text,
        Err(why) => {
            return vec![Judged::na(MEMLOCK, "the limits of the process could not be read").unread(PATH, &why)];
        }
    };
    let mut out = Vec::new();
    if let Some(limit) = soft_limit(&text, "Max locked memory") {
        // The capability CAP_IPC_LOCK (bit 14) removes the limit (capabilities(7)).
        let status = ctx.root.read_text("/proc/self/status").unwrap_or_default();
        let caps =
            status.lines().find_map(|l| l.strip_prefix("CapEff:")).and_then(|v| u64::from_str_radix(v.trim(), 16).ok());
        let free = caps.is_some_and(|caps| caps & (1 << 14) != 0);
        let judged = match limit {
            None => Judged::pass(MEMLOCK, "locked memory is not limited"),
            Some(_) if free => Judged::pass(MEMLOCK, "locked memory is not limited for this user (CAP_IPC_LOCK)"),
            Some(bytes) if bytes < 64 * units::MIB && !over_rdma(ctx) => {
                Judged::info(MEMLOCK, format!("only {} can be locked; local disks need no more", units::bytes(bytes)))
            }
            Some(bytes) if bytes < 64 * units::MIB => {
                let summary = format!("only {} can be locked; RDMA needs more", units::bytes(bytes));
                let judged = Judged::warn(MEMLOCK, summary).missing(Cost::Root, &[Route::Rdma]);
                let container = machine::container(ctx.root);
                let has_limit_of_user = |c: &machine::Container| matches!(c.runtime.as_str(), "apptainer" | "enroot");
                match (container, machine::starter(ctx.root)) {
                    (Some(container), starter) if starter != Some(Starter::Slurm) || !has_limit_of_user(&container) => {
                        judged.by_hand().advice(given(ctx.root, &container, &[Lack::Memlock]))
                    }
                    (_, Some(starter)) => judged.by_hand().advice(by_starter(&starter)),
                    _ => judged.fix(FixId::Memlock).advice("Lift the limit on locked memory, then log in again."),
                }
            }
            Some(bytes) => Judged::pass(MEMLOCK, format!("{} can be locked", units::bytes(bytes))),
        };
        out.push(judged.found(
            PATH,
            format!("Max locked memory {}", limit.map_or_else(|| "unlimited".to_owned(), |b| b.to_string())),
        ));
    }
    if let Some(limit) = soft_limit(&text, "Max open files") {
        let judged = match limit {
            // This is the usual soft limit of a login. Every program can raise it.
            Some(n)
                if (1024..4096).contains(&n) && hard_limit(&text, "Max open files").is_none_or(|most| most >= 4096) =>
            {
                Judged::info(CheckId::LimNofile, format!("{n} open files, unless the program raises the limit"))
                    .advice(Advice::run("ulimit -n 65536"))
            }
            Some(n) if n < 4096 => Judged::warn(CheckId::LimNofile, format!("only {n} files can be open"))
                .advice(Advice::run("ulimit -n 65536")),
            Some(n) => Judged::pass(CheckId::LimNofile, format!("{n} files can be open")),
            None => Judged::pass(CheckId::LimNofile, "open files are not limited"),
        };
        out.push(judged.found(
            PATH,
            format!("Max open files {}", limit.map_or_else(|| "unlimited".to_owned(), |n| n.to_string())),
        ));
    }
    out
}

fn user(ctx: &Context<'_>) -> Judged {
    match ctx.root.euid() {
        Some(0) => Judged::info(CheckId::UserPerms, "running as root").found("geteuid", "0"),
        Some(id) => Judged::info(
            CheckId::UserPerms,
            format!("running as user {id}: some files cannot be read, and fixes need sudo"),
        )
        .found("geteuid", id.to_string()),
        None => Judged::na(CheckId::UserPerms, "the user is not part of this capture"),
    }
}
