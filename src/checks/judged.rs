//! The result of a check and its effect on each route, before the verdict is known.

use crate::checks::advice::Advice;
use crate::core::{CheckId, Evidence, Finding, FindingFact, FixId, Route, Status};
use crate::machine::Unread;

/// The effort of a fix. The goal is the route with the smallest sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cost {
    /// A change of a file or a setting with immediate effect.
    Setting = 1,
    /// Root rights, and possibly a remount or a new login.
    Root = 2,
    /// Root rights and a reboot.
    Reboot = 4,
    /// The installation of a package or module.
    Install = 6,
    /// Another kernel, driver or operating system.
    System = 16,
    /// Another release of the distribution, because this one has no such kernel.
    Release = 32,
    /// Other hardware, or hardware in another place.
    Hardware = 48,
}

/// The effect of a check on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// The check blocks the route. A fix takes this effort.
    Missing(Cost),
    /// The check blocks the route permanently, because of the hardware or the kind of file system.
    Never,
    /// It is unknown whether the check blocks the route.
    Unknown,
}

/// The scope of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The machine.
    Machine,
    /// A path, by its number.
    Path(usize),
    /// A GPU, by its number.
    Gpu(usize),
    /// A path and a GPU, by their numbers.
    Pair(usize, usize),
}

/// A finding and its effect on the routes.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) id: CheckId,
    pub(crate) finding: Finding,
    pub(crate) advice: Option<Advice>,
    pub(crate) effects: Vec<(Route, Weight)>,
    pub(crate) scope: Scope,
    /// The status if it blocks a relevant route. It is `Fail` unless the check is uncertain.
    pub(crate) severity: Status,
    /// Whether it explains why the configured route is not used. It is then a warning even if another route needs
    /// less effort.
    pub(crate) explains: bool,
    /// Whether the default fix of the check does not resolve this problem.
    pub(crate) by_hand: bool,
    /// Whether the fix of another finding resolves it too: that fix ends with the new initramfs that this one needs.
    pub(crate) is_included: bool,
    /// Whether reads on the route nvfs fail. libcufile does not repeat them in compat mode.
    pub(crate) fails_reads: bool,
}

impl Judged {
    fn new(id: CheckId, status: Status, summary: impl Into<String>) -> Self {
        Self {
            id,
            finding: Finding {
                id,
                group: id.spec().group,
                status,
                summary: summary.into(),
                evidence: Vec::new(),
                why: id.spec().why.to_owned(),
                blocks: Vec::new(),
                fix: None,
                advice: None,
                command: None,
                cause: None,
                permanent: false,
                facts: Vec::new(),
            },
            advice: None,
            effects: Vec::new(),
            scope: Scope::Machine,
            severity: Status::Fail,
            explains: false,
            by_hand: false,
            is_included: false,
            fails_reads: false,
        }
    }

    pub(crate) fn pass(id: CheckId, summary: impl Into<String>) -> Self {
        Self::new(id, Status::Pass, summary)
    }

    pub(crate) fn info(id: CheckId, summary: impl Into<String>) -> Self {
        Self::new(id, Status::Info, summary)
    }

    pub(crate) fn warn(id: CheckId, summary: impl Into<String>) -> Self {
        Self::new(id, Status::Warn, summary)
    }

    pub(crate) fn na(id: CheckId, summary: impl Into<String>) -> Self {
        Self::new(id, Status::Na, summary)
    }

    /// A blocker. It becomes a failure if it blocks a relevant route.
    pub(crate) fn lack(id: CheckId, summary: impl Into<String>) -> Self {
        Self::new(id, Status::Info, summary)
    }

    pub(crate) fn found(mut self, source: impl Into<String>, text: impl Into<String>) -> Self {
        self.finding.evidence.push(Evidence { source: source.into(), text: text.into() });
        self
    }

    /// Adds a fact for the plan of the fix.
    pub(crate) fn fact(mut self, fact: FindingFact) -> Self {
        self.finding.facts.push(fact);
        self
    }

    pub(crate) fn unread(self, source: &str, why: &Unread) -> Self {
        self.found(source, why.to_string())
    }

    pub(crate) fn advice(mut self, advice: impl Into<Advice>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    pub(crate) fn fix(mut self, id: FixId) -> Self {
        self.finding.fix = Some(id);
        self
    }

    /// Sets [`Self::fix`] if there is a fix.
    pub(crate) fn fixes(mut self, id: Option<FixId>) -> Self {
        self.finding.fix = id;
        self
    }

    pub(crate) fn cause(mut self, id: CheckId) -> Self {
        self.finding.cause = Some(id);
        self
    }

    pub(crate) fn missing(self, cost: Cost, routes: &[Route]) -> Self {
        self.effect(Weight::Missing(cost), routes)
    }

    pub(crate) fn never(mut self, routes: &[Route]) -> Self {
        self.finding.permanent = true;
        self.effect(Weight::Never, routes)
    }

    /// Makes a blocker that is permanent on other machines a step with this effort.
    pub(crate) fn changeable(mut self, cost: Cost) -> Self {
        self.finding.permanent = false;
        for (_, weight) in &mut self.effects {
            if *weight == Weight::Never {
                *weight = Weight::Missing(cost);
            }
        }
        self
    }

    pub(crate) fn unknown(self, routes: &[Route]) -> Self {
        self.effect(Weight::Unknown, routes)
    }

    fn effect(mut self, weight: Weight, routes: &[Route]) -> Self {
        self.effects.extend(routes.iter().map(|&route| (route, weight)));
        self
    }

    /// Marks a problem that only its advice resolves: the fix of the check would fail or have no effect.
    pub(crate) fn by_hand(mut self) -> Self {
        self.finding.fix = None;
        self.by_hand = true;
        self
    }

    /// Marks a problem with which reads on the route nvfs fail.
    pub(crate) fn failing_reads(mut self) -> Self {
        self.fails_reads = true;
        self
    }

    /// Limits the status to a warning, even if a relevant route is blocked.
    pub(crate) fn only_warn(mut self) -> Self {
        self.severity = Status::Warn;
        self
    }

    /// A blocker that is a warning even if another route is the goal or works: something that was installed fails.
    pub(crate) fn broken(mut self) -> Self {
        self.finding.status = Status::Warn;
        self.explaining()
    }

    /// Marks the finding as an explanation: it warns if no direct route is used although one is configured.
    pub(crate) fn explaining(mut self) -> Self {
        self.explains = true;
        self
    }

    /// Marks the finding as information that blocks no route.
    pub(crate) fn aside(mut self) -> Self {
        self.effects.clear();
        self.finding.permanent = false;
        if matches!(self.finding.status, Status::Warn | Status::Fail) {
            self.finding.status = Status::Info;
        }
        self
    }

    pub(crate) fn of(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Whether other hardware is needed, or hardware in another place.
    pub(crate) fn needs_hardware(&self) -> bool {
        self.effects.iter().any(|(_, weight)| *weight == Weight::Missing(Cost::Hardware))
    }

    /// The routes that it blocks.
    pub(crate) fn in_the_way(&self) -> impl Iterator<Item = Route> + '_ {
        self.effects.iter().filter(|(_, weight)| *weight != Weight::Unknown).map(|(route, _)| *route)
    }

    pub(crate) fn stops(&self, route: Route) -> bool {
        self.in_the_way().any(|r| r == route)
    }
}

/// All routes of cuFile reads.
pub(crate) const EVERY: &[Route] = &[Route::Nvfs, Route::P2pdma, Route::C2c, Route::Rdma, Route::Compat];

/// The direct routes.
pub(crate) const DIRECT: &[Route] = &Route::DIRECT;
