//! Builds answers from the tables.

use super::answer::Answer;
use super::answer::Cause;
use super::answer::Fact;
use super::answer::Kind;
use super::answer::Remedy;
use super::causes::Cause as Row;
use super::checks;
use super::cuda_codes;
use super::cufile_codes;
use super::keys;
use super::lines;
use crate::checks::log_signatures::Explained;
use crate::checks::{DriverLine, cufile_json, xid};
use crate::core::engine_spec::ENGINES;
use crate::core::{CheckId, FixId, os_error};
use crate::fixes::{P2PDMA_KEYS, guide, spec};
use crate::text::capitalised;

impl Answer {
    pub(super) fn new(kind: Kind, name: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            code: None,
            meaning: meaning.into(),
            facts: Vec::new(),
            causes: Vec::new(),
            how_to_check: None,
            fix: None,
            advice: None,
        }
    }

    fn fact(&mut self, name: &'static str, value: impl Into<String>) {
        self.facts.push(Fact { name, value: value.into() });
    }
}

/// A page is the same on every machine.
const HERE: &str = "`gds-top check PATH` shows the cause and the fix on this machine.";

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn remedy(id: FixId) -> Remedy {
    Remedy { id: id.to_string(), command: format!("gds-top fix {id}"), does: format!("{}.", spec::of(id).title) }
}

fn cause(row: &Row) -> Cause {
    let page = row.check.map(checks::of);
    Cause {
        cause: row.text.to_owned(),
        check: page.map(|page| page.id),
        how_to_check: page.map_or_else(|| some(row.look), |page| some(page.look)),
        fix: page.and_then(|page| page.fix.map(remedy)),
        advice: some(row.todo).or_else(|| page.map(|page| some(page.todo).unwrap_or_else(|| HERE.to_owned()))),
    }
}

/// The answer for a code of libcufile.
pub(super) fn cufile_code(code: i32) -> Option<Answer> {
    let code = code.checked_abs()?;
    let known = cufile_ffi::codes::describe(code, None)?;
    let mut answer = Answer::new(Kind::CufileCode, known.name, known.meaning);
    answer.code = Some(code);
    answer.causes = cufile_codes::causes(code).iter().map(cause).collect();
    if code == 5039 {
        answer.fact("Up to libcufile 1.14", "CU_FILE_IO_MAX_ERROR, the end marker of the list");
    }
    Some(answer)
}

/// The answer for a code of the CUDA driver or runtime.
pub(super) fn cuda_code(code: i32) -> Option<Answer> {
    let (code, driver, runtime, meaning, causes) = *cuda_codes::of(code)?;
    let mut answer = Answer::new(Kind::CudaCode, if driver.is_empty() { runtime } else { driver }, meaning);
    answer.code = Some(code);
    if !driver.is_empty() && !runtime.is_empty() {
        answer.fact("In the runtime", runtime);
    }
    answer.causes = causes.iter().map(cause).collect();
    Some(answer)
}

/// The numbers, names, meanings and causes of system errors that cuFile returns.
#[rustfmt::skip]
pub(super) const SYSTEM: &[(i32, &str, &str, &[Row])] = {
    use super::causes::*;
    &[
        (1, "EPERM", "the operation is not permitted", &[NVFS_DEVICES, found(CheckId::UserLsm, "SELinux or AppArmor denies it.")]),
        (2, "ENOENT", "the file does not exist", &[own("The path is wrong, or the volume is not mounted in the container.", "ls -l PATH", "Correct the path.")]),
        (4, "EINTR", "a signal interrupted the call", &[own("A handler without SA_RESTART handled a signal during the call.", TRACED, "Repeat the call.")]),
        (5, "EIO", "the disk or file system reported an error, or cuFile could not do a transfer on a stream", &[STREAM_OFFSET, own("The disk is faulty.", "sudo journalctl -k -b -o cat | grep -i -e nvme -e error", "Look at the disk: sudo smartctl -a /dev/nvme0."), NVFS_KERNEL_LOG]),
        (9, "EBADF", "the descriptor is closed, or it was opened for other operations", &[own("The program writes to a file that it opened only for reading.", TRACED, "Open the file with O_RDWR."), own("The program closed the descriptor before the transfer ended.", TRACED, "Deregister the handle first, then close the descriptor.")]),
        (11, "EAGAIN", "a resource is not available at the moment", &[own("A limit of the user or of the system is reached.", "ulimit -a", "Raise the limit, or repeat the call later.")]),
        (12, "ENOMEM", "memory is not sufficient", &[MEMORY, BAR1_FULL]),
        (13, "EACCES", "access was denied", &[found(CheckId::UserPerms, "The user has no permission to open the file or the device."), NVFS_DEVICES]),
        (14, "EFAULT", "an address is invalid", &[NVFS_OLD, BAD_POINTER]),
        (16, "EBUSY", "the device is in use", &[own("Another program uses the device.", "sudo fuser -v /dev/nvidia*", "End that program.")]),
        (22, "EINVAL", "an argument is invalid; libcufile up to 1.18 also returns -22 if it rejects a cufile.json", &[BAD_CONFIG, found(CheckId::OdirectOpen, "The file system does not support O_DIRECT, or the read is not aligned."), own("The program passed a null handle, a negative offset or a null buffer.", TRACED, "Correct the call that failed in the program.")]),
        (24, "EMFILE", "the process has too many open files", &[OPEN_FILES]),
        (28, "ENOSPC", "the disk is full", &[own("The file system has no free space.", "df -h PATH", "Delete files, or use another disk.")]),
        (30, "EROFS", "the file system is read-only", &[own("It is mounted read-only, or an error made it read-only.", "findmnt -T PATH", "Use another file system, or repair this one.")]),
        (95, "EOPNOTSUPP", "the operation is not supported by the file system or device", &[FILE_SYSTEM]),
        (116, "ESTALE", "the file no longer exists on the server of its file system", &[own("Another machine deleted or replaced the file.", "ls -l PATH", "Open and register the file again.")]),
        (121, "EREMOTEIO", "the remote side of a transfer failed", &[found(CheckId::RdmaStack, "The RDMA connection or the storage server failed.")]),
    ]
};

/// The answer for an error number of the operating system.
pub(super) fn system_error(code: i32) -> Option<Answer> {
    let (code, name, meaning, causes) = *SYSTEM.iter().find(|row| Some(row.0) == code.checked_abs())?;
    let mut answer = Answer::new(Kind::SystemError, name, meaning);
    answer.code = Some(code);
    answer.causes = causes.iter().map(cause).collect();
    Some(answer)
}

/// The largest error number of Linux (include/uapi/asm-generic/errno.h).
const LAST_SYSTEM_ERROR: i32 = 133;
/// The numbers before it that have no error: those of EWOULDBLOCK and EDEADLOCK, which have the numbers of other
/// errors.
const NO_SYSTEM_ERROR: [i32; 2] = [41, 58];

/// The answer for an error number without known causes: the words of the operating system.
pub(super) fn other_system_error(code: i32) -> Option<Answer> {
    let is_error = |code: &i32| (1..=LAST_SYSTEM_ERROR).contains(code) && !NO_SYSTEM_ERROR.contains(code);
    let code = code.checked_abs().filter(is_error)?;
    let meaning = os_error(&std::io::Error::from_raw_os_error(code));
    let mut answer = Answer::new(Kind::SystemError, "errno", meaning);
    answer.code = Some(code);
    Some(answer)
}

/// The answer for a key of cufile.json, or for an environment variable of libcufile or a serving system.
pub(super) fn key(name: &str) -> Option<Answer> {
    let (name, meaning, advice) = *keys::of(name)?;
    let Some(facts) = cufile_json::key_facts(name) else {
        let mut answer = Answer::new(Kind::Variable, name, meaning);
        answer.how_to_check = Some(match keys::OTHER_VARIABLES.iter().any(|row| row.0 == name) {
            true => format!("printenv {name}"),
            false => format!("printenv {name}; gds-top config lint"),
        });
        answer.advice = some(advice);
        return Some(answer);
    };
    let mut answer = Answer::new(Kind::Key, name, meaning);
    answer.fact("Value", facts.takes);
    if let Some((low, high)) = facts.range {
        let multiple = facts.multiple.map_or_else(String::new, |multiple| format!(", a multiple of {multiple}"));
        answer.fact("Range", format!("{low} to {high}{multiple}"));
    } else if let Some(multiple) = facts.multiple {
        answer.fact("Range", format!("a multiple of {multiple}"));
    }
    if !facts.words.is_empty() {
        answer.fact("Words", facts.words.join(", "));
    }
    if !facts.default.is_null() {
        answer.fact("Default", facts.default.to_string());
    }
    if let Some(releases) = facts.releases {
        answer.fact("Known", releases);
    }
    if let Some(variable) = facts.variable {
        answer.fact("Variable", variable);
    }
    answer.how_to_check = Some(format!("gds-top config show | grep {name}"));
    answer.advice = some(advice);
    if P2PDMA_KEYS.contains(&name) {
        answer.fix = Some(remedy(FixId::CufileP2pdmaKeys));
    }
    Some(answer)
}

/// The answer for a key, if another name was written for it that libcufile ignores.
pub(super) fn instead_of(written: &str, meant: &str, mut answer: Answer) -> Answer {
    let value = format!("libcufile ignores {written} without a message; the right name is {meant}");
    answer.facts.insert(0, Fact { name: "Ignored", value });
    answer
}

/// The answer for a check id.
pub(super) fn check(id: &str) -> Option<Answer> {
    let page = checks::of(id.parse().ok()?);
    let mut answer = Answer::new(Kind::Check, id, format!("checks {}", page.subject));
    answer.fact("Here", HERE);
    answer.fact("Why", page.why);
    answer.how_to_check = some(page.look);
    answer.fix = page.fix.map(remedy);
    answer.advice = some(page.todo);
    Some(answer)
}

/// The answer for a fix id.
pub(super) fn fix(id: &str) -> Option<Answer> {
    let fix: FixId = id.parse().ok()?;
    let spec = spec::of(fix);
    let mut answer = Answer::new(Kind::Fix, id, spec.changes);
    answer.fact("Needs", spec.needs_text());
    answer.fact("Undo", spec.undo_text());
    if !spec.note.is_empty() {
        answer.fact("Note", spec.note);
    }
    answer.fact("Check id", spec.check.as_str());
    answer.how_to_check = some(checks::of(spec.check).look);
    answer.fix = Some(remedy(fix));
    Some(answer)
}

/// The answer for the checklist of all steps.
pub(super) fn checklist(id: &str) -> Option<Answer> {
    if id != guide::ID {
        return None;
    }
    let command = format!("gds-top fix {id}");
    let meaning = "lists the steps from this machine to a proven direct route, and applies each after consent";
    let mut answer = Answer::new(Kind::Fix, id, meaning);
    answer.fact("Undo", "Each of its fixes is undone by its id, or all with `gds-top fix --undo`.");
    answer.how_to_check = Some(format!("{command} --dry-run"));
    answer.fix = Some(Remedy { id: id.to_owned(), command, does: format!("{}.", capitalised(meaning)) });
    Some(answer)
}

/// The answer for the name of an engine.
pub(super) fn engine(name: &str) -> Option<Answer> {
    let spec = ENGINES.iter().find(|spec| spec.name == name || spec.aliases.contains(&name))?;
    let mut answer = Answer::new(Kind::Engine, spec.name, spec.help);
    if !spec.needs.is_empty() {
        let needs: Vec<&str> = spec.needs.iter().map(|need| need.name()).collect();
        answer.fact("Needs", format!("{}.", capitalised(&needs.join(" and "))));
    }
    answer.how_to_check = Some(format!("gds-top bench MODEL --engine {}", spec.name));
    answer.advice = Some("`gds-top bench --help` lists all engines.".to_owned());
    Some(answer)
}

/// The answer for a line that the checks know.
pub(super) fn known_line(explained: &Explained) -> Answer {
    let page = explained.check.map(checks::of);
    let mut answer = Answer::new(Kind::Line, &explained.line, &explained.meaning);
    if let Some(page) = page {
        answer.fact("Check id", page.id);
        answer.fact("Why", page.why);
    }
    answer.how_to_check = page.and_then(|page| some(page.look));
    answer.fix = page.and_then(|page| page.fix.map(remedy));
    // The command of the fix is on a separate line.
    let is_fix_of_page = |(id, _): &(FixId, &str)| page.is_some_and(|page| page.fix == Some(*id));
    answer.advice = match explained.fix.filter(is_fix_of_page) {
        Some((_, after)) => some(&capitalised(after.trim_start_matches("; "))),
        None => some(&explained.todo),
    };
    answer
}

/// The answer for a line that only this module knows.
pub(super) fn other_line(line: &str, (_, meaning, causes): &lines::Row) -> Answer {
    let mut answer = Answer::new(Kind::Line, line, *meaning);
    answer.causes = causes.iter().map(cause).collect();
    answer
}

/// The answer for the start of a line of cufile.log: the module and the line of libcufile's source, `cufio-fs:79`.
pub(super) fn position(query: &str) -> Option<Answer> {
    let (module, line) = query.trim_end_matches(':').split_once(':')?;
    let area = MODULES.iter().find(|(name, _)| *name == module).map(|(_, area)| *area);
    let area = area.or_else(|| module.starts_with("cufio").then_some("a part of libcufile"))?;
    line.parse::<u32>().ok()?;
    let mut answer = Answer::new(
        Kind::Line,
        query,
        format!(
            "a position in libcufile, {module} ({area}), line {line}; the number differs between releases, and the text after it has the meaning"
        ),
    );
    answer.advice = Some(
        "Run gds-top explain with the complete line, or `gds-top explain - < cufile.log` for the complete log."
            .to_owned(),
    );
    Some(answer)
}

/// The modules that cufile.log names.
const MODULES: &[(&str, &str)] = &[
    ("cufio", "the API"),
    ("cufio-drv", "opening and the platform"),
    ("cufio-fs", "file systems and block devices"),
    ("cufio-udev", "udev's records"),
    ("cufio-obj", "files and buffers"),
    ("cufio-plat", "the platform"),
    ("cufio-dr", "dynamic routing"),
    ("cufio-rdma", "user-space RDMA"),
    ("cufio-batch", "batches"),
    ("cufio-core", "reads and writes"),
    ("cufio-px", "reads through host memory"),
    ("cufio-stats", "statistics"),
];

/// The answer for a line by which the driver reports that it does not use a GPU.
pub(super) fn driver_line(line: &str, known: &DriverLine) -> Answer {
    let page = checks::of(CheckId::GpuPresent);
    let mut answer = Answer::new(Kind::Line, line, known.meaning());
    answer.fact("Check id", page.id);
    answer.how_to_check = some(known.look());
    answer.advice = some(known.todo());
    answer
}

/// The answer for a line of the log of a DKMS build.
pub(super) fn build_line(line: &str, (meaning, todo): (&str, &str)) -> Answer {
    let mut answer = Answer::new(Kind::Line, line, meaning);
    answer.how_to_check = some("dkms status; tail -n 30 /var/lib/dkms/*/*/build/make.log");
    answer.advice = some(todo);
    answer
}

/// The answer for an Xid of the driver.
pub(super) fn xid(line: &str, number: u32) -> Answer {
    let (meaning, todo) = xid::meaning(number);
    let mut answer = Answer::new(Kind::Line, line, format!("Xid {number}: {meaning}"));
    answer.how_to_check = some(match number {
        // Such a GPU cannot be asked for its errors.
        _ if xid::is_lost(number) => "sudo journalctl -k -b -o cat | grep -e Xid -e NVRM -e AER",
        154 => "nvidia-smi -q | grep -i recovery",
        74 | 136 | 149 => "nvidia-smi nvlink -e",
        _ => checks::of(CheckId::GpuEcc).look,
    });
    answer.advice = some(todo);
    answer
}

/// The answer for an error of an NVSwitch (SXid).
pub(super) fn switch_error(line: &str, error: xid::SwitchError) -> Answer {
    let (meaning, todo) = error.meaning();
    let mut answer = Answer::new(Kind::Line, line, format!("SXid {}: {meaning}", error.number));
    answer.how_to_check = some("sudo journalctl -k -b -o cat | grep SXid; nvidia-smi -q | grep -A 4 Fabric");
    answer.advice = some(todo);
    answer
}
