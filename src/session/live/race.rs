//! Runs a race. All runs are planned first. Then they run one after another; the runs of a turn run at the same time.
//! Commands are handled during the race.

use super::ceilings::Readers;
use super::examine::Examiner;
use super::follow::Follower;
use super::plan::SessionConfig;
use super::process::LaneEnd;
use super::run::within_a_session;
use super::session::{After, Heard, Session};
use super::{gate, lanes, targets, turns};
use crate::core::{CacheState, Engine, EventBody, LaneId, LaneOrder, LogLevel, ModelInfo, SettingOrder, Target, units};
use crate::session::Command;
use crate::telemetry::{self, GpuRef, Sampler, SamplerConfig};
use crossbeam_channel::{Receiver, bounded};
use std::ops::Range;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

/// A round of loads: the cache state and the number of the repeat.
type Round = (CacheState, u32);

impl Session {
    /// Plans all runs, then runs them one after another. The runs of a turn run at the same time.
    pub(super) fn race(
        &mut self,
        models: &[ModelInfo],
        engines: Option<Vec<Engine>>,
        examiner: &mut Examiner,
    ) -> After {
        let has_none = examiner.found_no_gpu();
        let targets = match targets::targets(&self.bus, &self.config.exe, &self.config.gpu, has_none) {
            Ok(targets) => targets,
            Err(why) => {
                self.bus.say(LogLevel::Error, why.clone());
                for engine in engines.unwrap_or_else(Engine::usual) {
                    self.bus.emit(EventBody::EngineUnavailable { engine, why: why.clone() });
                }
                return After::GoOn;
            }
        };
        let (Some(target), Some(model)) = (targets.first().cloned(), models.first()) else { return After::GoOn };
        let engines = match engines {
            Some(named) => self.with_a_library(named),
            None => self.able_engines(&target),
        };
        let engines = targets::that_take_parts(&self.bus, engines, models.len(), targets.len());
        let (mut readers, asked) = match std::mem::take(&mut self.config.ceilings) {
            true => self.ceilings(models, &targets),
            false => Default::default(),
        };
        if asked.quit {
            return After::Quit;
        }
        let turns = turns::turns(models.len(), &targets).iter().map(Vec::len).sum::<usize>() as u64;
        let all = SessionConfig { engines: Some(engines.clone()), ..self.config.clone() }.least_runs();
        let times = if self.config.again.is_some() { 2 } else { 1 };
        if let Err(error) = within_a_session(all.saturating_mul(turns).saturating_mul(times)) {
            self.bus.say(LogLevel::Error, error.to_string());
            for engine in engines {
                self.bus.emit(EventBody::EngineUnavailable { engine, why: error.to_string() });
            }
            return After::GoOn;
        }
        let rounds = self.config.caches.iter().map(|cache| (*cache, engines.clone())).collect();
        let repeats = self.config.repeat.max(1);
        let planned = self.planned(models, &targets, rounds, 0..repeats);
        let again = self.config.again.take().filter(|_| !planned.is_empty());
        let sampler = self.sampler(&target, model);
        if let Some(after) = self.rounds(planned, &mut readers, asked, sampler.as_ref(), examiner) {
            return after;
        }
        let Some(suspects) = again else { return After::GoOn };
        let Some(named) = self.awaited(&suspects) else { return After::Quit };
        let planned = self.planned(models, &targets, by_cache(named), repeats..repeats.saturating_mul(2));
        self.rounds(planned, &mut readers, Heard::default(), sampler.as_ref(), examiner).unwrap_or(After::GoOn)
    }

    /// The engines that run again. `None` if the session is ended instead.
    fn awaited(&self, suspects: &Receiver<Vec<(Engine, CacheState)>>) -> Option<Vec<(Engine, CacheState)>> {
        loop {
            crossbeam_channel::select! {
                // A front end that names none has ended.
                recv(suspects) -> named => return Some(named.unwrap_or_default()),
                recv(self.commands) -> command => match command {
                    Ok(Command::Quit) | Err(_) => return None,
                    Ok(Command::CancelRace) => return Some(Vec::new()),
                    Ok(Command::WatchSystem(on)) => self.watcher.set(on),
                    Ok(_) => {}
                },
            }
        }
    }

    /// Runs the planned turns. `None` if all ran.
    fn rounds(
        &self,
        planned: Vec<Vec<(LaneId, LaneOrder)>>,
        readers: &mut Readers,
        asked: Heard,
        sampler: Option<&Sampler>,
        examiner: &mut Examiner,
    ) -> Option<After> {
        let mut round = None;
        for turn in planned {
            let next = turn.first().map(|(_, order)| (order.cache, order.repeat));
            let passed = match std::mem::replace(&mut round, next) {
                ended if ended != next => self.passes_between(readers, ended, next),
                _ => Heard::default(),
            };
            let passed = if asked.cancel { asked } else { passed };
            let (ends, heard) = match passed {
                Heard { cancel: false, quit: false } => self.take_turn(&turn, sampler),
                heard => (Vec::new(), heard),
            };
            for (end, (_, order)) in ends.iter().zip(&turn) {
                if let LaneEnd::Finished { route: Some(route), .. } = end {
                    examiner.learn(route, &order.target);
                }
            }
            if heard.quit {
                return Some(After::Quit);
            }
            if ends.contains(&LaneEnd::Cancelled) || heard.cancel {
                self.bus.emit(EventBody::RaceStopped);
                self.bus.say(LogLevel::Warn, "the race was cancelled; runs that had not started were dropped");
                return Some(After::GoOn);
            }
        }
        self.passes_between(readers, round, None).quit.then_some(After::Quit)
    }

    /// Runs the plain readers between two rounds of loads. They read before every second round and after the others,
    /// so that neither always goes first. A disk with a burst allowance is faster for the first reader after a pause.
    fn passes_between(&self, readers: &mut Readers, ended: Option<Round>, next: Option<Round>) -> Heard {
        let of_ended = ended.filter(|(_, repeat)| repeat % 2 == 1);
        let of_next = next.filter(|(_, repeat)| repeat % 2 == 0);
        for (_, repeat) in [of_ended, of_next].into_iter().flatten().filter(|(cache, _)| *cache == CacheState::Cold) {
            let heard = self.read_pass(readers, repeat);
            if heard.cancel || heard.quit {
                return heard;
            }
        }
        Heard::default()
    }

    /// All runs in the order of their turns: `engines` in each cache state, with these numbers of repeats. Each is
    /// emitted as planned.
    fn planned(
        &mut self,
        models: &[ModelInfo],
        targets: &[Target],
        engines: Vec<(CacheState, Vec<Engine>)>,
        repeats: Range<u32>,
    ) -> Vec<Vec<(LaneId, LaneOrder)>> {
        let mut variants = self.config.variants.clone();
        if variants.is_empty() {
            variants.push(Default::default());
        }
        let turns = turns::turns(models.len(), targets);
        let models: Vec<Arc<ModelInfo>> = models.iter().cloned().map(Arc::new).collect();
        let plain = models.len() == 1 && targets.len() == 1;
        let mut planned = Vec::new();
        for (cache, engines) in &engines {
            for repeat in repeats.clone() {
                let mut round: Vec<_> = engines.iter().flat_map(|e| variants.iter().map(move |v| (e, v))).collect();
                // In each round another engine goes first. Otherwise an engine would always follow the same engine, and
                // the effects of that engine on the disk and the machine could change its result. This is not done for
                // workloads, because their runs read files of earlier runs.
                if self.config.workload.is_none() {
                    let first = goes_first(repeat, round.len());
                    round.rotate_left(first);
                }
                for (engine, variant) in round {
                    for turn in &turns {
                        let group = (turn.len() > 1).then_some(self.next_lane);
                        let mut lanes = Vec::with_capacity(turn.len());
                        for load in turn {
                            let Some(model) = models.get(load.model) else { continue };
                            let lane = LaneId(self.next_lane);
                            self.next_lane += 1;
                            let mut order = self.order(model, engine, *cache, repeat, &load.target);
                            order.settings.extend(variant.iter());
                            self.bus.emit(EventBody::LanePlanned {
                                lane,
                                engine: engine.clone(),
                                cache: *cache,
                                target: load.target.clone(),
                                repeat,
                            });
                            if !plain {
                                let share = turns::share(&mut order, model, load, group);
                                self.bus.emit(EventBody::LaneShared { lane, share });
                            }
                            lanes.push((lane, order));
                        }
                        planned.push(lanes);
                    }
                }
            }
        }
        planned
    }

    /// Runs all runs of a turn to their ends. Another thread handles commands meanwhile.
    fn take_turn(&self, turn: &[(LaneId, LaneOrder)], sampler: Option<&Sampler>) -> (Vec<LaneEnd>, Heard) {
        let places = if turn.len() > 1 { gate::places(turn.len()) } else { Vec::new() };
        let (cancels, cancelled): (Vec<_>, Vec<_>) = turn.iter().map(|_| bounded(1)).unzip();
        let run = |number: usize| {
            let (lane, order) = turn[number].clone();
            // Only these runs write into the temporary directory.
            let drops = order.engine.opens_cufile() || order.engine.is_outside() || order.workload.is_some();
            if drops && let Err(error) = std::fs::create_dir_all(&order.scratch) {
                self.bus
                    .say(LogLevel::Warn, format!("the temporary directory of the run could not be created: {error}"));
            }
            // Each run of a group has separate meters. The first run, or a run that loads alone, uses the meters of
            // the race.
            let own = sampler.filter(|_| number > 0).and_then(|_| self.sampler(&order.target, &order.model));
            let meters = own.as_ref().or(sampler);
            let watch = |pid: u32| {
                if let Some(meters) = meters {
                    meters.set_gpu(GpuRef::of(&turn[number].1.target));
                    meters.watch(Some((lane, pid)));
                }
            };
            let target = order.target.clone();
            let (uses_cufile, log) = (order.engine.opens_cufile(), order.scratch.join("cufile.log"));
            // Without meters, the logs are not followed either. They are read at the end of the run.
            let follower = self.config.telemetry.then(|| {
                Follower::begin(&self.bus, lane, (&order.engine, &order.target), log.clone(), &self.reported_causes)
            });
            let end = lanes::run_lane(
                &self.bus,
                &self.config.exe,
                (lane, order),
                places.get(number),
                &cancelled[number],
                &watch,
            );
            let said = follower.map(Follower::end).unwrap_or_default();
            if uses_cufile {
                super::explain::after_lane(&self.bus, &target, &end, &log, &said);
            }
            if let Some(meters) = meters {
                meters.watch(None);
            }
            end
        };
        let not_begun = |number: usize, why: &str| {
            if let Some(place) = places.get(number) {
                place.leave();
            }
            let how = format!("it was not begun: {why}");
            self.bus.emit(EventBody::LaneDied { lane: turn[number].0, how, stderr_tail: String::new() });
            LaneEnd::Died(String::new())
        };
        let all = || {
            std::thread::scope(|scope| {
                let run = &run;
                let start = |number| std::thread::Builder::new().spawn_scoped(scope, move || run(number));
                let others: Vec<_> = (1..turn.len()).map(start).collect();
                // If no thread could be started for a run, it is not waited for.
                let others: Vec<_> = (1..)
                    .zip(others)
                    .map(|(number, other)| other.map_err(|error| not_begun(number, &units::no_thread(error))))
                    .collect();
                let mut ends = vec![run(0)];
                ends.extend(others.into_iter().map(|other| match other.map(ScopedJoinHandle::join) {
                    Ok(Ok(end)) | Err(end) => end,
                    Ok(Err(panic)) => std::panic::resume_unwind(panic),
                }));
                ends
            })
        };
        self.while_listening(cancels, all)
            .unwrap_or_else(|why| ((0..turn.len()).map(|number| not_begun(number, &why)).collect(), Heard::default()))
    }

    /// Starts the meters.
    fn sampler(&self, target: &Target, model: &ModelInfo) -> Option<Sampler> {
        // The files of a workload do not exist yet, but their directory does.
        let mut paths = model.shards.first().map(|shard| &shard.path).into_iter().chain([&model.path]);
        self.sampler_on(target, paths.find_map(|path| telemetry::device_of(path)))
    }

    /// Starts the meters for a target and a block device (major, minor).
    pub(super) fn sampler_on(&self, target: &Target, device: Option<(u32, u32)>) -> Option<Sampler> {
        if !self.config.telemetry {
            return None;
        }
        let config = SamplerConfig { gpu: GpuRef::of(target), model_device: device, ..SamplerConfig::default() };
        let bus = self.bus.clone();
        match Sampler::start(config, move |sample| bus.emit(EventBody::Sampled { sample })) {
            Ok(sampler) => Some(sampler),
            Err(error) => {
                self.bus.say(LogLevel::Warn, format!("no meters are read: {}", units::no_thread(error)));
                None
            }
        }
    }

    fn order(
        &self,
        model: &Arc<ModelInfo>,
        engine: &Engine,
        cache: CacheState,
        repeat: u32,
        target: &Target,
    ) -> LaneOrder {
        LaneOrder {
            engine: engine.clone(),
            model: model.clone(),
            cache,
            target: target.clone(),
            repeat,
            verify: self.config.verify,
            settings: SettingOrder::settings_for(&self.config.settings, engine),
            limit_s: self.config.limit_s,
            libcufile: crate::engines::cufile::named_libcufile(),
            scratch: self.scratch.path().join(format!("lane-{}", self.next_lane)),
            spawned_monotonic_ns: 0,
            ranges: Vec::new(),
            gated: false,
            poison: self.config.poison,
            drop_caches: self.config.drop_caches,
            workload: self.config.workload.as_ref().map(|plan| plan.order.clone()),
        }
    }

    /// Reports the parts of the request that the workload cannot do.
    pub(super) fn send_warnings(&self) {
        for warning in self.config.workload.iter().flat_map(|plan| &plan.warnings) {
            self.bus.say(LogLevel::Warn, warning.clone());
        }
    }

    /// The engines that should run: those of a workload, or all engines of this version.
    fn offered(&self) -> Vec<Engine> {
        match &self.config.workload {
            Some(plan) => plan.lanes.clone(),
            None => Engine::usual(),
        }
    }

    /// The named engines without those whose library is not installed. These would fail in each run for the same
    /// reason, so the reason is reported once. A workload without cuFile takes another path, so it runs.
    fn with_a_library(&self, mut named: Vec<Engine>) -> Vec<Engine> {
        if self.config.workload.is_some()
            || !named.iter().any(|engine| engine.opens_cufile() || engine.nixl_plugin().is_some())
        {
            return named;
        }
        let cufile = if named.iter().any(Engine::opens_cufile) { self.libcufile_obstacle() } else { None };
        named.retain(|engine| {
            let why = match engine.nixl_plugin() {
                Some(_) => super::nixl::obstacle(&self.config.exe, engine, cufile.as_deref()),
                None => cufile.clone().filter(|_| engine.uses_cufile()),
            };
            let can_run = why.is_none();
            if let Some(why) = why {
                self.bus.emit(EventBody::EngineUnavailable { engine: engine.clone(), why });
            }
            can_run
        });
        named
    }

    /// The engines that can run here. The other engines are reported with the reason.
    fn able_engines(&self, target: &Target) -> Vec<Engine> {
        let (cufile, mut others): (Vec<Engine>, Vec<Engine>) =
            self.offered().into_iter().partition(Engine::uses_cufile);
        if cufile.is_empty() && others.iter().all(|engine| engine.nixl_plugin().is_none()) {
            return others;
        }
        let reason = self.cufile_obstacle(target);
        others.retain(|engine| match super::nixl::obstacle(&self.config.exe, engine, reason.as_deref()) {
            Some(why) => {
                self.bus.emit(EventBody::EngineUnavailable { engine: engine.clone(), why });
                false
            }
            None => true,
        });
        match reason {
            None => {
                let (able, unable): (Vec<Engine>, Vec<Engine>) =
                    cufile.into_iter().partition(|engine| !engine.needs_gpu() || *target != Target::Host);
                for engine in unable {
                    let why = "cuFile reads on CUDA streams, and the target is host memory".to_owned();
                    self.bus.emit(EventBody::EngineUnavailable { engine, why });
                }
                others.into_iter().chain(able).collect()
            }
            Some(why) => {
                for engine in cufile {
                    self.bus.emit(EventBody::EngineUnavailable { engine, why: why.clone() });
                }
                others
            }
        }
    }
}

/// The engines of each cache state, in the order of their first mention.
fn by_cache(named: Vec<(Engine, CacheState)>) -> Vec<(CacheState, Vec<Engine>)> {
    let mut all: Vec<(CacheState, Vec<Engine>)> = Vec::new();
    for (engine, cache) in named {
        match all.iter_mut().find(|(known, _)| *known == cache) {
            Some((_, engines)) if engines.contains(&engine) => {}
            Some((_, engines)) => engines.push(engine),
            None => all.push((cache, vec![engine])),
        }
    }
    all
}

/// The engine that goes first in a round. Each round begins with the next engine.
#[must_use]
pub const fn goes_first(repeat: u32, count: usize) -> usize {
    if count == 0 { 0 } else { repeat as usize % count }
}
