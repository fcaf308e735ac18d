//! The shared-memory segments in which libcufile publishes its statistics. The key is the process id, and the segment has
//! 32192 bytes (seen with 1.20). Any user can create such segments.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::Judged;
use crate::core::CheckId;
use crate::core::units::{plural, verb};
use crate::machine::Unread;
use std::collections::BTreeMap;

const ID: CheckId = CheckId::StatsShm;
const FILE: &str = "/proc/sysvipc/shm";
const BYTES: &str = "32192";
/// Maximum number of processes that are listed for a user.
const MOST_LISTED: usize = 8;

struct Segment<'a> {
    id: &'a str,
    process: &'a str,
    /// The number of the user who created it. The other owner in the list can be changed to any user.
    creator: &'a str,
    /// Whether no process has it in its memory.
    is_unused: bool,
}

impl<'a> Segment<'a> {
    /// Parses a line; `None` if it is not a segment of statistics. The columns are: key shmid perms size cpid lpid nattch
    /// uid gid cuid cgid …
    fn of(line: &'a str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[key, id, _, size, process, _, attached, _, _, creator, ..] = words.as_slice() else { return None };
        (key == process && size == BYTES).then_some(Self { id, process, creator, is_unused: attached == "0" })
    }
}

pub(crate) fn run(ctx: &Context<'_>) -> Option<Judged> {
    let text = match ctx.root.read_text(FILE) {
        Ok(text) => text,
        Err(Unread::Missing) => return None,
        Err(why) => {
            return Some(Judged::na(ID, "the list of shared memory could not be read").unread(FILE, &why));
        }
    };
    let segments: Vec<Segment<'_>> = text.lines().skip(1).filter_map(Segment::of).collect();
    if segments.is_empty() {
        return None;
    }
    let user = ctx.root.euid().map(|user| user.to_string());
    let unused: Vec<&Segment<'_>> = segments.iter().filter(|segment| segment.is_unused).collect();
    let own: Vec<&str> =
        unused.iter().filter(|segment| Some(segment.creator) == user.as_deref()).map(|segment| segment.id).collect();
    let count = |all: usize, thing: &str| plural(all as u64, thing);
    let judged = if !own.is_empty() {
        let remain = verb(own.len() as u64, "remains from a program", "remain from programs");
        let segments = count(own.len(), "segment");
        Judged::info(ID, format!("{segments} of your cuFile statistics {remain} that ended"))
            .advice(Advice::run(format!("ipcrm -m {}", own.join(" -m "))))
    } else if unused.is_empty() {
        let share = verb(segments.len() as u64, "shares its", "share their");
        Judged::info(ID, format!("{} {share} cuFile statistics", count(segments.len(), "program")))
    } else {
        // Only their owners know whether these are statistics.
        let look = verb(unused.len() as u64, "looks", "look");
        Judged::info(
            ID,
            format!("{} of other users {look} like unused cuFile statistics", count(unused.len(), "segment")),
        )
    };
    Some(judged.found(FILE, by_user(&segments)))
}

/// The processes of each user: `user 0: processes 12 13; user 1000: processes 99`.
fn by_user(segments: &[Segment<'_>]) -> String {
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for segment in segments {
        users.entry(segment.creator).or_default().push(segment.process);
    }
    let shown = users.iter().take(MOST_LISTED).map(|(user, processes)| {
        let listed = processes.iter().take(MOST_LISTED).copied().collect::<Vec<_>>().join(" ");
        let more = if processes.len() > MOST_LISTED { " …" } else { "" };
        format!("user {user}: {} {listed}{more}", if processes.len() == 1 { "process" } else { "processes" })
    });
    let more = if users.len() > MOST_LISTED { "; …" } else { "" };
    format!("{}{more}", shown.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::Status;
    use crate::machine::Root;

    /// The finding on a machine of this user with these lines.
    fn judged(user: u32, lines: &str) -> Option<Judged> {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("files/proc/sysvipc/shm");
        std::fs::create_dir_all(list.parent().unwrap()).unwrap();
        std::fs::write(list, format!("       key      shmid perms       size  cpid\n{lines}")).unwrap();
        std::fs::write(folder.path().join("capture.json"), format!(r#"{{"schema_version":1,"euid":{user}}}"#)).unwrap();
        let root = Root::folder(folder.path()).unwrap();
        run(&Context::new(&root, &[], None))
    }

    /// A segment with the key of its creator: process, identifier, processes that use it, owner and creator.
    fn line(process: u32, id: u32, attached: u32, owner: u32, creator: u32) -> String {
        format!("{process:10} {id:10}   666 32192 {process} {process} {attached} {owner} 0 {creator} 0 1 1 1 32768 0\n")
    }

    fn said(judged: &Judged) -> (String, Option<String>) {
        (judged.finding.summary.clone(), judged.advice.as_ref().map(Advice::plain))
    }

    #[test]
    fn only_segments_of_the_user_get_a_remedy() {
        let forged = line(4711, 3, 0, 0, 1000);
        let (summary, advice) = said(&judged(0, &forged).unwrap());
        assert_eq!((summary.as_str(), advice), ("1 segment of other users looks like unused cuFile statistics", None));
        let both = format!("{forged}{}", line(12, 7, 0, 0, 0));
        let (summary, advice) = said(&judged(0, &both).unwrap());
        assert_eq!(summary, "1 segment of your cuFile statistics remains from a program that ended");
        assert_eq!(advice.as_deref(), Some("Run `ipcrm -m 7`."));
        let (summary, advice) = said(&judged(1000, &line(4711, 3, 2, 1000, 1000)).unwrap());
        assert_eq!((summary.as_str(), advice), ("1 program shares its cuFile statistics", None));
    }

    #[test]
    fn each_user_is_listed_with_some_processes() {
        let mut lines: String = (1..=20).map(|process| line(process, process, 0, 1000, 1000)).collect();
        lines += &line(99, 99, 1, 0, 0);
        let segments: Vec<Segment<'_>> = lines.lines().filter_map(Segment::of).collect();
        assert_eq!(by_user(&segments), "user 0: process 99; user 1000: processes 1 2 3 4 5 6 7 8 …");
    }

    #[test]
    fn a_list_above_its_limit_is_reported() {
        let lines: String = (1..3000).map(|process| line(process, process, 0, 1000, 1000)).collect();
        let judged = judged(0, &lines).unwrap();
        assert_eq!((judged.finding.status, judged.advice.is_none()), (Status::Na, true));
        assert!(self::judged(0, "").is_none());
    }
}
