//! Runs the program as a lane process, with an order on its standard input and frames on its standard output.

use crate::program::gds_top;
use gds_top::core::{
    CacheState, Engine, EngineSettings, LaneOrder, LaneStage, ModelInfo, RunResult, Setting, Span, Target,
};
use gds_top::engines::protocol::{Frame, LaneMessage, monotonic_ns};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The UUID of the stand-in's first device.
pub(crate) const STANDIN_UUID: &str = "GPU-7374616e-642d-696e-2047-505520202020";
pub(crate) const STANDIN_NAME: &str = "Stand-in GPU (no hardware)";

/// The engines that load into the stand-in GPU.
pub(crate) const ENGINES: [Engine; 8] = [
    Engine::Mmap,
    Engine::Pread,
    Engine::Odirect,
    Engine::GdsPerTensor,
    Engine::GdsBounce,
    Engine::GdsSlab,
    Engine::GdsBatch,
    Engine::GdsStream,
];

/// Time limit of the tests. It only prevents that a test hangs, so it is much longer than anything takes on a slow
/// machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A directory below the target directory, which is on a real file system.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// An order to load into host memory with verification. The target is filled with a pattern first.
pub(crate) fn order(engine: Engine, model: &ModelInfo) -> LaneOrder {
    LaneOrder {
        engine,
        model: model.clone().into(),
        cache: CacheState::AsIs,
        target: Target::Host,
        repeat: 0,
        verify: true,
        settings: EngineSettings::default(),
        limit_s: None,
        libcufile: None,
        // `run` sets it to a temporary directory.
        scratch: std::path::PathBuf::new(),
        spawned_monotonic_ns: 0,
        poison: true,
        drop_caches: false,
        ranges: Vec::new(),
        gated: false,
        workload: None,
    }
}

/// An order to load into the stand-in GPU.
pub(crate) fn gpu_order(engine: Engine, model: &ModelInfo) -> LaneOrder {
    let target = Target::Gpu { ordinal: 0, uuid: Some(STANDIN_UUID.to_owned()), name: STANDIN_NAME.to_owned() };
    LaneOrder { target, ..order(engine, model) }
}

/// The order with engine settings.
pub(crate) fn with_settings(mut order: LaneOrder, settings: &[(&str, u64)]) -> LaneOrder {
    order.settings = settings.iter().map(|(name, value)| (Setting::named(name).unwrap(), *value)).collect();
    order
}

/// The end and the output of a lane process.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// `None` if the test ended the process.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) frames: Vec<Frame>,
    /// Lines on standard output that are not frames.
    pub(crate) strays: Vec<String>,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

/// Waits until `ask` returns a value.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a lane process to its end, with these environment variables.
pub(crate) fn run(order: &LaneOrder, env: &[(&str, &str)]) -> Outcome {
    run_until(order, env, None)
}

/// Decides from standard output and standard error whether to stop.
pub(crate) type Enough<'a> = &'a dyn Fn(&str, &str) -> bool;

/// Runs a lane process to its end, or until its output is enough, and then ends it.
pub(crate) fn run_until(order: &LaneOrder, env: &[(&str, &str)], enough: Option<Enough<'_>>) -> Outcome {
    let scratch = folder();
    let mut order = order.clone();
    order.scratch = scratch.path().to_owned();
    let start = Instant::now();
    order.spawned_monotonic_ns = monotonic_ns();
    let mut command = gds_top();
    command.arg("__lane").current_dir(scratch.path());
    command.env("CUFILE_LOGFILE_PATH", scratch.path().join("cufile.log")).envs(env.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let read = |mut pipe: Box<dyn Read + Send>| {
        let so_far = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&so_far);
        let thread = std::thread::spawn(move || {
            let mut block = vec![0; 1 << 16];
            while let Ok(count @ 1..) = pipe.read(&mut block) {
                theirs.lock().unwrap().extend_from_slice(&block[..count]);
            }
        });
        (so_far, thread)
    };
    let text = |bytes: &Mutex<Vec<u8>>| String::from_utf8_lossy(&bytes.lock().unwrap()).into_owned();
    let (out, out_end) = read(Box::new(child.stdout.take().unwrap()));
    let (err, err_end) = read(Box::new(child.stderr.take().unwrap()));
    // A process that ends before it reads its order is a valid result too.
    let _ = stdin.write_all(&serde_json::to_vec(&order).unwrap());
    drop(stdin);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        let ended = enough.is_some_and(|enough| enough(&text(&out), &text(&err)));
        if ended || start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(ended, "neither an end nor enough of it after {PATIENCE:?}: {}{}", text(&out), text(&err));
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = start.elapsed();
    out_end.join().unwrap();
    err_end.join().unwrap();
    let (mut frames, mut strays) = (Vec::new(), Vec::new());
    for line in text(&out).lines() {
        match serde_json::from_str(line) {
            Ok(frame) => frames.push(frame),
            Err(_) => strays.push(line.to_owned()),
        }
    }
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    let expected = |name: &str| name == "cufile.log" || name.starts_with("core");
    assert!(left.iter().all(|name| expected(&name.to_string_lossy())), "left in the working directory: {left:?}");
    Outcome { status, frames, strays, stderr: text(&err), took }
}

impl Outcome {
    /// The result. If there is none, the test fails with the process's standard error.
    pub(crate) fn result(&self) -> &RunResult {
        let results: Vec<_> = self
            .frames
            .iter()
            .filter_map(|f| match &f.message {
                LaneMessage::Finished { result } => Some(result),
                _ => None,
            })
            .collect();
        assert_eq!(results.len(), 1, "{:?} after {:?}: {}\n{:?}", self.status, self.took, self.stderr, self.frames);
        assert!(
            matches!(self.frames.last().unwrap().message, LaneMessage::Finished { .. }),
            "the result is the last word"
        );
        results[0]
    }

    /// Whether a result arrived.
    pub(crate) fn finished(&self) -> bool {
        self.frames.iter().any(|f| matches!(f.message, LaneMessage::Finished { .. }))
    }

    /// All spans.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.frames
            .iter()
            .filter_map(|f| match &f.message {
                LaneMessage::Spans { spans } => Some(spans),
                _ => None,
            })
            .flat_map(|batch| batch.iter().collect::<Vec<_>>())
            .collect()
    }

    /// The stages in order.
    pub(crate) fn stages(&self) -> Vec<LaneStage> {
        self.frames
            .iter()
            .filter_map(|f| match f.message {
                LaneMessage::Stage { stage } => Some(stage),
                _ => None,
            })
            .collect()
    }

    /// The published numbers of landed, pinned and verified bytes.
    pub(crate) fn progress(&self) -> Vec<(u64, u64, u64)> {
        self.frames
            .iter()
            .filter_map(|f| match f.message {
                LaneMessage::Progress { landed_bytes, pinned_bytes, verified_bytes } => {
                    Some((landed_bytes, pinned_bytes, verified_bytes))
                }
                _ => None,
            })
            .collect()
    }

    /// The error of a run that failed correctly: a result with an error, status 0 and no panic.
    pub(crate) fn error(&self) -> &str {
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        let result = self.result();
        assert!(self.status.unwrap().success(), "{:?}", self.status);
        assert_eq!(result.verified, None, "a load that failed is not verified");
        let sentence = result.error.as_deref().unwrap_or_else(|| panic!("no error: {result:?}"));
        assert!(sentence.len() > 20 && !sentence.contains('\n') && !sentence.ends_with('.'), "{sentence}");
        sentence
    }

    /// The signal that ended a process that had no result and no panic.
    pub(crate) fn signal(&self) -> i32 {
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert!(!self.finished(), "{:?}", self.frames.last());
        self.status.unwrap().signal().unwrap_or_else(|| panic!("{:?}: {}", self.status, self.stderr))
    }
}

/// The environment for the stand-ins: their directory for the loader, and their switches.
pub(crate) fn standin_env<'a>(folder: &'a Path, told: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut env = vec![("LD_LIBRARY_PATH", folder.to_str().unwrap())];
    env.extend_from_slice(told);
    env
}

/// Runs the program like a user does. Its directory for temporary files must be empty afterwards.
pub(crate) fn program(arguments: &[&str], env: &[(&str, &str)]) -> Output {
    let temporary = folder();
    let out = gds_top()
        .args(arguments)
        .env("TMPDIR", temporary.path())
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.is_empty(), "temporary files are left: {left:?}");
    assert!(!String::from_utf8_lossy(&out.stderr).contains("panicked"), "{}", String::from_utf8_lossy(&out.stderr));
    out
}
