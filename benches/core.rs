//! Measures the program itself: headers, read plans, spans and events. Run it with `cargo bench`, or with `cargo
//! bench -- NAME` for a part. It prints medians.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use gds_top::core::{CacheState, Engine, Event, EventBody, LaneId, LaneStage, PackedSpans, Phase, Span, Target};
use gds_top::engines::record_spans;
use gds_top::models::{self, plan};
use gds_top::session::{Command, Played, State, recording, replay};
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// Number of runs of each measurement. The median is printed.
const RUNS: usize = 11;

/// CPU time of all threads of this process in nanoseconds. On a shared machine it is more precise than the wall
/// clock.
fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Runs `work`. Prints the median and the fastest time, and the median wall and CPU time per item.
fn bench(wanted: &[String], name: &str, items: u64, mut work: impl FnMut()) {
    if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
        return;
    }
    work();
    let (mut times, mut cpu): (Vec<u64>, Vec<u64>) = (0..RUNS)
        .map(|_| {
            let (start, cpu) = (Instant::now(), cpu_ns());
            work();
            (start.elapsed().as_nanos() as u64, cpu_ns() - cpu)
        })
        .unzip();
    times.sort_unstable();
    cpu.sort_unstable();
    let each = |ns: u64| ns as f64 / items as f64;
    let median = times[RUNS / 2];
    println!(
        "{name:<44} median {:>9.3} ms, fastest {:>9.3} ms, {:>8.1} ns each of {items} (CPU {:>6.1} ns)",
        median as f64 / 1e6,
        times[0] as f64 / 1e6,
        each(median),
        each(cpu[RUNS / 2])
    );
}

/// Writes a model with `shards` files. Each file has `tensors` tensors of one byte.
fn write_model(folder: &Path, shards: usize, tensors: usize) {
    for shard in 0..shards {
        let mut header = String::from("{");
        for tensor in 0..tensors {
            let comma = if tensor == 0 { "" } else { "," };
            let _ = write!(
                header,
                "{comma}\"model.layers.{shard}.mlp.experts.{tensor}.weight\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{tensor},{}]}}",
                tensor + 1
            );
        }
        header.push('}');
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + tensors, 7);
        let name = format!("model-{:05}-of-{shards:05}.safetensors", shard + 1);
        std::fs::write(folder.join(name), bytes).expect("a file of the model");
    }
}

/// The events of a session with one run. Most of them are progress events.
fn events(count: u64) -> Vec<Event> {
    let lane = LaneId(0);
    let planned =
        EventBody::LanePlanned { lane, engine: Engine::Pread, cache: CacheState::Hot, target: Target::Host, repeat: 0 };
    let progress =
        |landed_bytes| EventBody::LaneProgress { lane, landed_bytes, pinned_bytes: 64 << 20, verified_bytes: 0 };
    let bodies = std::iter::once(planned).chain((1..count).map(progress));
    bodies.zip(0..).map(|(body, at_ns)| Event { at_ns, body }).collect()
}

/// Writes a recording of two minutes with 60 loads. It has about 10 MB of spans whose sizes and times compress badly.
fn write_recording(path: &Path) {
    const LOAD_NS: u64 = 2_000_000_000;
    const SPANS: u64 = 20_000;
    let mut writer = recording::Writer::create(path).expect("a recording");
    let mut write = |at_ns: u64, body| writer.write(&Event { at_ns, body }).expect("an event");
    for load in 0..60_u32 {
        let (lane, at_ns) = (LaneId(load), u64::from(load) * LOAD_NS);
        let (engine, target) = (Engine::Pread, Target::Host);
        write(at_ns, EventBody::LanePlanned { lane, engine, cache: CacheState::Cold, target, repeat: load });
        write(at_ns, EventBody::LaneStarted { lane, pid: 1 });
        write(at_ns, EventBody::LaneStage { lane, stage: LaneStage::Loading });
        let noise = |n: u64| (n + u64::from(load) * SPANS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let span = |n: u64| {
            let start_ns = n * (LOAD_NS / SPANS) + noise(n) % 40_000;
            let (slot, tensor) = ((n % 16) as u16, Some((n / 4) as u32));
            let (end_ns, bytes) = (start_ns + 10_000 + noise(n + 7) % 50_000, 4096 + noise(n + 3) % (1 << 20));
            Span { slot, phase: Phase::Transfer, tensor, start_ns, end_ns, bytes, offset: n << 20 }
        };
        for part in 0..20 {
            let spans: Vec<Span> = (part * SPANS / 20..(part + 1) * SPANS / 20).map(span).collect();
            write(
                at_ns + (part + 1) * LOAD_NS / 20 - 1,
                EventBody::LaneSpans { lane, spans: PackedSpans::pack(&spans) },
            );
        }
        write(at_ns + LOAD_NS - 1, EventBody::LaneCancelled { lane });
    }
    writer.finish().expect("the end of the recording");
}

/// Seeks in a replay: the first, which makes the key frames, and those after it.
fn seeks(wanted: &[String], folder: &Path) {
    let name = "seek in two minutes of recording";
    if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
        return;
    }
    let path = folder.join("long.gdsrec");
    write_recording(&path);
    println!("a recording of {:.1} MB", std::fs::metadata(&path).map_or(0, |meta| meta.len()) as f64 / 1e6);
    let options = replay::Options { player: true, paused: true, ..replay::Options::default() };
    let started = Instant::now();
    let feed = replay::start(&path, 1.0, options).expect("a replay");
    let sought = || loop {
        match feed.player.recv().expect("an answer") {
            Played::Timeline(_) => println!("looked through in {:.0} ms", started.elapsed().as_secs_f64() * 1e3),
            Played::Sought(state, _) => break state,
        }
    };
    let first = Instant::now();
    feed.commands.send(Command::Seek(119 * 1_000_000_000)).expect("a player");
    black_box(sought());
    println!("first seek, to its end, in {:.0} ms", first.elapsed().as_secs_f64() * 1e3);
    let mut at_s = 0;
    bench(wanted, name, 1, || {
        at_s = (at_s + 47) % 120;
        feed.commands.send(Command::Seek(at_s * 1_000_000_000)).expect("a player");
        black_box(sought());
    });
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let [one, many] = ["one", "many"].map(|name| folder.path().join(name));
    for (path, shards, tensors) in [(&one, 1, 100_000), (&many, 400, 250)] {
        std::fs::create_dir(path).expect("a directory");
        write_model(path, shards, tensors);
    }
    bench(&wanted, "headers of 100 000 tensors in one file", 100_000, || {
        black_box(models::open(&one).expect("a model"));
    });
    bench(&wanted, "headers of 100 000 tensors in 400 files", 100_000, || {
        black_box(models::open(&many).expect("a model"));
    });
    let model = models::open(&many).expect("a model");
    bench(&wanted, "plan of one read a tensor, 100 000", 100_000, || {
        black_box(plan::per_tensor(&model));
    });
    let mut large = model.clone();
    for (shard, base) in large.shards.iter_mut().zip(0_u64..) {
        shard.file_bytes = (1 << 30) + base;
    }
    let blocks = plan::coalesced(&large, 1 << 20, 4096).len() as u64;
    bench(&wanted, "plan of 1 MiB blocks over 400 GiB", blocks, || {
        black_box(plan::coalesced(&large, 1 << 20, 4096));
    });
    bench(&wanted, "recording of a million spans", 1_000_000, || {
        black_box(record_spans(1_000_000));
    });
    seeks(&wanted, folder.path());
    let events = events(1_000_000);
    bench(&wanted, "reduce of a million events", 1_000_000, || {
        let mut state = State::default();
        for event in &events {
            state.reduce(event);
        }
        black_box(&state);
    });
}
