//! The verdict sentence about a path: do its reads go straight to the GPU?

use super::labels::{counted, plural};
use super::view::Answer;
use crate::core::check::{names, place_of};
use crate::core::{Basis, CheckId, Finding, Route, Status, Verdict};
use crate::session::State;

/// The reason why a session has no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The checks of this machine are running, or will start soon.
    Running,
    /// The session only measured and will not check.
    NeverChecked,
    /// Nothing was checked yet, but the user can start the checks.
    NotAsked,
}

/// Whether the verdict is for a machine without a GPU.
#[must_use]
pub fn no_gpu(verdict: &Verdict) -> bool {
    verdict.basis == Basis::NoGpu
}

/// The proof, if it is not only a consequence of a missing GPU, which is then among the blockers.
#[must_use]
pub fn proof(verdict: &Verdict) -> Option<&str> {
    let is_consequence = no_gpu(verdict) && !verdict.blockers.is_empty();
    (!is_consequence && !verdict.proof.is_empty()).then_some(verdict.proof.as_str())
}

/// The findings to fix before the goal of a verdict is reached, in order.
#[must_use]
pub fn steps<'s>(state: &'s State, verdict: &Verdict) -> Vec<&'s Finding> {
    let of = |id: &CheckId| state.checks.iter().find(|finding| finding.id == *id);
    verdict.steps.iter().filter_map(of).collect()
}

/// The ids of the checks that close every direct route permanently. Empty if a direct route is possible.
pub fn permanent(verdict: &Verdict) -> impl Iterator<Item = CheckId> {
    let is_closed = !verdict.possible.is_direct() && !no_gpu(verdict);
    verdict.blockers.iter().copied().filter(move |id| is_closed && !verdict.steps.contains(id))
}

/// The findings that close every direct route permanently, then the findings to fix.
#[must_use]
pub fn obstacles<'s>(state: &'s State, verdict: &Verdict) -> Vec<&'s Finding> {
    let closed: Vec<CheckId> = permanent(verdict).collect();
    let mut found: Vec<&Finding> = state.checks.iter().filter(|finding| closed.contains(&finding.id)).collect();
    found.sort_by_key(|finding| closed.iter().position(|id| *id == finding.id));
    found.extend(steps(state, verdict));
    found
}

/// The status of a verdict, which depends on its route.
#[must_use]
pub fn status(verdict: &Verdict) -> Status {
    match verdict.route {
        _ if no_gpu(verdict) => Status::Na,
        Route::None => Status::Fail,
        Route::Compat => Status::Warn,
        _ if verdict.proven => Status::Pass,
        _ => Status::Warn,
    }
}

/// The answer for a verdict: do reads of the path go straight to the GPU?
#[must_use]
pub fn answer(verdict: &Verdict) -> Answer {
    let status = status(verdict);
    let (word, reads) = word_and_reads(verdict);
    let headline = format!("{word}: {reads}");
    if no_gpu(verdict) {
        // The finding about the GPU has the reason and what is still possible.
        return Answer::new(status, headline, "");
    }
    let route = verdict.route;
    let mut conditions: Vec<String> = Vec::new();
    if !route.is_direct() {
        conditions.push(distance(verdict));
    }
    // A counted read shows that a route works, also if NVIDIA does not list it.
    if !verdict.proven || !route.is_direct() {
        conditions.extend(verdict.caveat.clone());
    }
    // Whether cuFile can read at all needs no proof: the checks name the obstacle.
    if !verdict.proven && route != Route::None {
        conditions.push("No read proved it yet.".to_owned());
    }
    Answer::new(status, headline, conditions.join(" "))
}

/// The answer for a verdict in one word, and the sentence about the reads of its path.
fn word_and_reads(verdict: &Verdict) -> (&'static str, String) {
    let path = verdict.path.display();
    let route = verdict.route;
    match route {
        _ if no_gpu(verdict) => ("No", format!("reads of {path} go to host memory.")),
        // Another file system is in its place, or none.
        Route::None if verdict.blockers.contains(&CheckId::FsResolve) => {
            ("No", format!("the file system of {path} is not available."))
        }
        Route::None => ("No", format!("cuFile cannot read {path}.")),
        Route::Compat if is_open(verdict) => {
            ("Perhaps", format!("reads of {path} may go straight to the GPU ({}).", verdict.possible))
        }
        Route::Compat => ("No", format!("reads of {path} are copied through host memory (compat).")),
        _ if verdict.proven => ("Yes", format!("reads of {path} go straight to the GPU ({route}, proven).")),
        _ => ("Probably", format!("reads of {path} should go straight to the GPU ({route}).")),
    }
}

/// The answer if no path was examined, because a capture has none.
#[must_use]
pub fn no_path() -> Answer {
    Answer::new(Status::Na, "Not known: no path was examined. Pass a path.", "")
}

/// The next steps of the verdicts without a proven direct route. They name their path if the paths have different steps.
#[must_use]
pub fn next_steps(state: &State) -> Vec<String> {
    let open: Vec<&Verdict> = state.verdicts.iter().filter(|verdict| status(verdict) != Status::Pass).collect();
    let differ = open.windows(2).any(|pair| pair[0].advice != pair[1].advice);
    let mut steps: Vec<String> = Vec::new();
    for verdict in open {
        for line in verdict.advice.lines() {
            let step = if differ { format!("{}: {line}", verdict.path.display()) } else { line.to_owned() };
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
    }
    steps
}

/// The answer for a verdict. It names the GPU if another GPU has another answer for the same path.
#[must_use]
pub fn answer_of_gpu(state: &State, verdict: &Verdict) -> Answer {
    let own = answer(verdict);
    let differs = |other: &Verdict| other.path == verdict.path && other.gpu != verdict.gpu && answer(other) != own;
    if !state.verdicts.iter().any(differs) {
        return own;
    }
    let gpus = state.machine.iter().flat_map(|machine| &machine.gpus);
    match gpus.into_iter().find(|gpu| Some(&gpu.uuid) == verdict.gpu.as_ref()) {
        Some(gpu) => {
            Answer::new(own.status, format!("GPU {}, {}: {}", gpu.index, gpu.name, own.headline), own.conditions)
        }
        None => own,
    }
}

/// Whether no check blocks the direct route and none can show that it works: user-space RDMA depends on the client of
/// the file system.
fn is_open(verdict: &Verdict) -> bool {
    verdict.steps.is_empty() && verdict.possible.is_direct() && !verdict.proven && verdict.basis != Basis::LibraryDenies
}

/// `One fix makes`, `Two fixes make`.
fn makes(fixes: usize) -> String {
    format!("{} {}", counted(fixes, "fix"), if fixes == 1 { "makes" } else { "make" })
}

/// The permanent blockers, or the number of fixes until the goal: `Two fixes away from a direct route.`
fn distance(verdict: &Verdict) -> String {
    let closed: Vec<CheckId> = permanent(verdict).collect();
    let closed = match closed.as_slice() {
        [] => "No direct route is possible here.".to_owned(),
        ids => format!("No direct route is possible {} ({}).", place_of(ids), names(ids)),
    };
    match (verdict.steps.len(), verdict.possible) {
        (_, possible) if possible == verdict.route => closed,
        (0, possible) if verdict.basis == Basis::LibraryDenies => {
            format!("The checks find no obstacle to {possible}, but libcufile does not list it.")
        }
        (0, possible) => format!("The checks find no obstacle to {possible}."),
        (n, Route::Compat) => format!("{closed} {} reads through host memory (compat) possible.", makes(n)),
        (n, Route::None) => format!("{} reads possible.", makes(n)),
        (n, _) => format!("{} away from a direct route.", counted(n, "fix")),
    }
}

/// The end of a guided set-up whose route no read proved.
pub const UNPROVEN: &str = "the route is not proven; see the open steps above and the reasons in 'gds-top check'";

/// The sentence for a verdict that does not meet `--require LEVEL`; `None` if there is no verdict.
#[must_use]
pub fn unmet(level: &str, verdict: Option<&Verdict>) -> String {
    let Some(verdict) = verdict else { return format!("--require {level} is not met: no verdict was reached") };
    let gpu = verdict.gpu_name.as_ref().map(|gpu| format!(" for GPU {gpu}"));
    let gpu = gpu.or_else(|| verdict.gpu.as_ref().map(|gpu| format!(" for {gpu}"))).unwrap_or_default();
    let why = match verdict.blockers.as_slice() {
        [] => verdict.proof.clone(),
        blockers => format!("blocked by {}", names(blockers)),
    };
    let (_, reads) = word_and_reads(verdict);
    format!("--require {level} is not met{gpu} ({why}): {reads}")
}

/// The sentence about a station of the path that no finding blocks.
#[must_use]
pub fn unblocked(station: &str) -> String {
    format!("{station}: nothing blocks the direct route here")
}

/// The next step on the screen Race if nothing has to be fixed.
#[must_use]
pub fn next_step(verdict: &Verdict) -> Option<&'static str> {
    Some(match verdict.route {
        _ if no_gpu(verdict) => "Race: measure how fast models load into host memory",
        route if route.is_direct() && !verdict.proven => "Race: a load proves the route by its counters",
        route if route.is_direct() => "Race: measure the gain for your model",
        Route::None => return None,
        _ => "Race: find the fastest engine for this machine",
    })
}

/// The number of fixes before the goal: `after 2 fixes`. Empty if nothing has to be fixed.
#[must_use]
pub fn after_fixes(count: usize) -> String {
    if count == 0 { String::new() } else { format!("after {count} {}", plural(count, "fix")) }
}

/// The answer of a session that has no verdict.
#[must_use]
pub fn missing(state: &State, why: Missing) -> Answer {
    let (status, headline) = match why {
        Missing::NeverChecked => (Status::Na, "This session only measured; it did not check the machine.".to_owned()),
        Missing::NotAsked => (Status::Na, "This machine is not checked yet.".to_owned()),
        Missing::Running if state.checks_took_ns.is_some() => {
            (Status::Na, "The checks are done; they examined no path.".to_owned())
        }
        Missing::Running if state.checks.is_empty() => (Status::Info, "Checking this machine …".to_owned()),
        Missing::Running => (Status::Info, format!("Checking this machine … {} checks done.", state.checks.len())),
    };
    Answer::new(status, headline, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Event, EventBody};

    fn verdict(route: Route, possible: Route, proven: bool, steps: &[CheckId]) -> Verdict {
        Verdict {
            path: "/data/models".into(),
            gpu: Some("GPU-1".into()),
            route,
            possible,
            proven,
            basis: Basis::Checks,
            proof: String::new(),
            blockers: Vec::new(),
            steps: steps.to_vec(),
            gpu_name: None,
            caveat: None,
            advice: String::new(),
        }
    }

    fn said(verdict: &Verdict) -> String {
        answer(verdict).text()
    }

    #[test]
    fn a_direct_route_is_shown_with_its_proof() {
        use Route::{Nvfs, P2pdma};
        assert_eq!(
            said(&verdict(P2pdma, P2pdma, true, &[])),
            "Yes: reads of /data/models go straight to the GPU (p2pdma, proven)."
        );
        assert_eq!(
            said(&verdict(Nvfs, Nvfs, false, &[])),
            "Probably: reads of /data/models should go straight to the GPU (nvfs). No read proved it yet."
        );
    }

    #[test]
    fn a_file_system_that_is_not_mounted_is_not_a_limit_of_cufile() {
        let missing = Verdict {
            blockers: vec![CheckId::FsResolve],
            ..verdict(Route::None, Route::P2pdma, false, &[CheckId::FsResolve])
        };
        assert_eq!(
            said(&missing),
            "No: the file system of /data/models is not available. One fix away from a direct route."
        );
    }

    #[test]
    fn a_route_through_host_memory_shows_the_number_of_fixes() {
        use Route::{Compat, None, P2pdma};
        assert_eq!(
            said(&verdict(Compat, P2pdma, true, &[CheckId::UdevDatabase, CheckId::CfgP2pBoth])),
            "No: reads of /data/models are copied through host memory (compat). Two fixes away from a direct route."
        );
        assert!(said(&verdict(Compat, Compat, true, &[])).ends_with("No direct route is possible here."));
        let closed = Verdict {
            blockers: vec![CheckId::VmType, CheckId::CfgCompat],
            ..verdict(None, Compat, true, &[CheckId::CfgCompat])
        };
        assert_eq!(
            said(&closed),
            "No: cuFile cannot read /data/models. No direct route is possible for this path (vm-type). One fix makes reads through host memory (compat) possible."
        );
        assert!(
            said(&verdict(None, P2pdma, false, &[CheckId::IommuState])).ends_with("One fix away from a direct route.")
        );
    }

    #[test]
    fn a_route_that_nvidia_does_not_list_has_a_caveat_until_a_read_proves_it() {
        let caveat = Some("NVIDIA does not list H20 for P2PDMA.".to_owned());
        let goal = Verdict { caveat, ..verdict(Route::Compat, Route::P2pdma, true, &[CheckId::CfgP2pBoth]) };
        assert!(said(&goal).ends_with("One fix away from a direct route. NVIDIA does not list H20 for P2PDMA."));
        let proven = Verdict { route: Route::P2pdma, steps: Vec::new(), ..goal };
        assert!(!said(&proven).contains("H20"));
        let derived = Verdict { proven: false, ..proven };
        assert!(said(&derived).ends_with("NVIDIA does not list H20 for P2PDMA. No read proved it yet."));
    }

    #[test]
    fn a_goal_without_steps_shows_what_libcufile_lists() {
        let open = verdict(Route::Compat, Route::Nvfs, true, &[]);
        assert!(said(&open).ends_with("The checks find no obstacle to nvfs."));
        let denied = Verdict { basis: Basis::LibraryDenies, ..open };
        assert!(said(&denied).ends_with("but libcufile does not list it."));
    }

    #[test]
    fn without_a_gpu_the_answer_is_not_a_failure() {
        let verdict = Verdict { gpu: None, basis: Basis::NoGpu, ..verdict(Route::None, Route::None, false, &[]) };
        assert_eq!(said(&verdict), "No: reads of /data/models go to host memory.");
        assert_eq!(status(&verdict), Status::Na);
    }

    #[test]
    fn an_unmet_requirement_is_one_sentence() {
        let blocked = Verdict { blockers: vec![CheckId::VmType], ..verdict(Route::Compat, Route::Compat, false, &[]) };
        assert_eq!(
            unmet("direct", Some(&blocked)),
            "--require direct is not met for GPU-1 (blocked by vm-type): reads of /data/models are copied through host memory (compat)."
        );
    }

    #[test]
    fn an_unmet_requirement_has_the_complete_path() {
        let path = "/data/a: b".into();
        let slow = Verdict { path, ..verdict(Route::None, Route::None, false, &[]) };
        assert!(unmet("direct", Some(&slow)).ends_with(&answer(&slow).headline["No: ".len()..]));
        assert!(unmet("direct", Some(&slow)).contains("/data/a: b"));
    }

    #[test]
    fn the_next_steps_name_their_path_if_they_differ() {
        let of = |path: &str, advice: &str| Verdict {
            path: path.into(),
            advice: advice.to_owned(),
            ..verdict(Route::Compat, Route::P2pdma, true, &[])
        };
        let steps = |verdicts: Vec<Verdict>| {
            let mut state = State::default();
            for verdict in verdicts {
                state.reduce(&Event { at_ns: 0, body: EventBody::VerdictReached { verdict } });
            }
            next_steps(&state)
        };
        let (one, same) = (of("/a", "Run `x`.\nThen reboot."), of("/b", "Run `x`.\nThen reboot."));
        assert_eq!(steps(vec![one.clone(), same]), ["Run `x`.", "Then reboot."]);
        assert_eq!(steps(vec![one, of("/b", "Run `y`.")]), ["/a: Run `x`.", "/a: Then reboot.", "/b: Run `y`."]);
        let proven = verdict(Route::P2pdma, Route::P2pdma, true, &[]);
        assert!(steps(vec![Verdict { advice: "Nothing blocks the route.".to_owned(), ..proven }]).is_empty());
    }

    #[test]
    fn a_missing_gpu_that_is_a_blocker_replaces_the_proof() {
        let proof_text = "could not be checked: gpu-present";
        let known = Verdict { proof: proof_text.to_owned(), ..verdict(Route::None, Route::None, false, &[]) };
        let unknown = Verdict { basis: Basis::NoGpu, ..known.clone() };
        let missing = Verdict { blockers: vec![CheckId::GpuPresent], ..unknown.clone() };
        assert_eq!([&known, &unknown, &missing].map(proof), [Some(proof_text), Some(proof_text), None]);
    }
}
