//! Replays: pace, pauses, gaps, seeking and the end.

use super::*;
use crate::session::State;
use crate::session::recording::Writer;

const MS: u64 = 1_000_000;

fn recording(folder: &Path, times_ms: &[u64]) -> std::path::PathBuf {
    let path = folder.join("r.gdst");
    let mut writer = Writer::create(&path).unwrap();
    for at in times_ms {
        let body = EventBody::Said { level: LogLevel::Info, text: at.to_string() };
        writer.write(&Event { at_ns: at * MS, body }).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn times(feed: &Feed) -> Vec<u64> {
    feed.events.iter().map(|e| e.at_ns / MS).collect()
}

#[test]
fn as_fast_as_possible_takes_no_recorded_time_and_closes_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path(), &[0, 5_000, 3_600_000]);
    let began = Instant::now();
    let feed = start(&path, 0.0, Options::default()).unwrap();
    assert!(feed.replay);
    assert_eq!(times(&feed), [0, 5_000, 3_600_000]);
    assert!(began.elapsed() < Duration::from_secs(3_600), "it took as long as the recording");
}

#[test]
fn events_come_no_earlier_than_their_time_over_the_speed() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path(), &[0, 400]);
    let began = Instant::now();
    let feed = start(&path, 4.0, Options::default()).unwrap();
    assert_eq!(times(&feed), [0, 400]);
    assert!(began.elapsed() >= Duration::from_millis(100));
}

#[test]
fn a_pause_holds_events_back_until_play_goes_on_and_speed_can_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path(), &[1, 3_600_000]);
    let feed = start(&path, 1.0, Options { paused: true, ..Options::default() }).unwrap();
    assert!(feed.events.recv_timeout(Duration::from_millis(60)).is_err());
    feed.commands.send(Command::Pause(false)).unwrap();
    assert_eq!(feed.events.recv().unwrap().at_ns, MS);
    feed.commands.send(Command::Speed(u32::MAX)).unwrap();
    assert_eq!(times(&feed), [3_600_000]);
}

#[test]
fn quit_ends_it_in_the_middle_of_a_wait_and_of_a_full_queue() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path(), &[0, 3_600_000]);
    let feed = start(&path, 1.0, Options::default()).unwrap();
    feed.commands.send(Command::Quit).unwrap();
    assert!(times(&feed).len() <= 1);
    let path = recording(folder.path(), &[7; QUEUE + 50]);
    let feed = start(&path, 0.0, Options::default()).unwrap();
    while feed.events.len() < QUEUE {
        std::thread::sleep(Duration::from_millis(1));
    }
    feed.commands.send(Command::Quit).unwrap();
    while !feed.commands.is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(times(&feed).len() <= QUEUE + 1);
}

#[test]
fn a_front_that_never_commands_gets_everything_even_when_it_began_paused() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path(), &[1, 2]);
    let Feed { events, commands, .. } = start(&path, 1000.0, Options { paused: true, ..Options::default() }).unwrap();
    drop(commands);
    assert_eq!(events.iter().count(), 2);
}

#[test]
fn long_gaps_are_shortened_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path(), &[0, 3_600_000, 7_200_000]);
    let began = Instant::now();
    let feed = start(&path, 1.0, Options { longest_gap_ns: Some(30 * MS), ..Options::default() }).unwrap();
    assert_eq!(times(&feed).len(), 3);
    assert!(began.elapsed() >= Duration::from_millis(55) && began.elapsed() < Duration::from_secs(7_200));
}

#[test]
fn a_recording_cut_off_says_so_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path(), &[0, 1, 2]);
    let complete = std::fs::read(&path).unwrap();
    std::fs::write(&path, &complete[..complete.len() - 2]).unwrap();
    let feed = start(&path, 0.0, Options::default()).unwrap();
    let last = feed.events.iter().last().unwrap();
    assert!(matches!(&last.body, EventBody::Said { level: LogLevel::Warn, text } if text.contains("missing")));
}

/// Writes a session with several loads that have many spans.
fn session(folder: &Path, loads: u32, spans: u64) -> std::path::PathBuf {
    use crate::core::{CacheState, Engine, LaneId, LaneStage, PackedSpans, Phase, Span, Target};
    let path = folder.join("loads.gdsrec");
    let mut writer = Writer::create(&path).unwrap();
    let mut at_ns = 0;
    let mut write = |at_ns: u64, body| writer.write(&Event { at_ns, body }).unwrap();
    for number in 0..loads {
        let (lane, engine, target) = (LaneId(number), Engine::Pread, Target::Host);
        write(at_ns, EventBody::LanePlanned { lane, engine, cache: CacheState::Cold, target, repeat: number });
    }
    for number in 0..loads {
        let lane = LaneId(number);
        write(at_ns, EventBody::LaneStarted { lane, pid: 9 });
        write(at_ns, EventBody::LaneStage { lane, stage: LaneStage::Loading });
        for part in 0..20_u64 {
            at_ns += 100 * MS;
            let landed_bytes = part << 20;
            write(at_ns, EventBody::LaneProgress { lane, landed_bytes, pinned_bytes: 0, verified_bytes: 0 });
            let span = |n: u64| Span {
                slot: (n % 8) as u16,
                phase: Phase::Transfer,
                tensor: Some(n as u32),
                start_ns: n * 977 + part * 100 * MS,
                end_ns: n * 977 + part * 100 * MS + 500 + n.wrapping_mul(2_654_435_761) % 4_000,
                bytes: 4096 + n.wrapping_mul(2_246_822_519) % 65_536,
                offset: n * 131_072,
            };
            let spans: Vec<Span> = (0..spans / 20).map(span).collect();
            write(at_ns, EventBody::LaneSpans { lane, spans: PackedSpans::pack(&spans) });
        }
        write(at_ns, EventBody::LaneCancelled { lane });
    }
    writer.finish().unwrap();
    path
}

/// The state after all events up to the first event that is later than `at_ns`, and the time of that event.
fn straight(path: &Path, at_ns: u64, shortest_load_ns: Option<u64>) -> (State, Option<u64>) {
    let mut scenes = Scenes::new(read(path).unwrap(), shortest_load_ns);
    let mut state = State::default();
    while let Some(Ok((event, _))) = scenes.next() {
        if event.at_ns > at_ns {
            return (state, Some(event.at_ns));
        }
        state.reduce(&event);
    }
    (state, None)
}

#[test]
fn a_seek_gives_the_state_of_a_straight_replay_and_the_events_that_follow() {
    let folder = tempfile::tempdir().unwrap();
    let made = session(folder.path(), 6, 40_000);
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings/h200-qwen3-0.6b.gdsrec");
    for (path, shortest) in [(&made, None), (&shipped, None), (&shipped, Some(2_000_000_000))] {
        let mut frames = KeyFrames::new(path, shortest);
        let timeline = Timeline::read(path).unwrap();
        let (end, loads) = (timeline.end_ns, timeline.loads.iter().map(|load| load.start_ns));
        // Forwards, when the key frames are made on the way, and back, when they are used.
        let parts = [3, 1, 7, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0].map(|part| end * part / 10);
        let times = parts.into_iter().chain(loads.step_by(5)).chain([0, u64::MAX]);
        for at_ns in times {
            let mut sought = frames.seek(at_ns).unwrap();
            let (state, next) = straight(path, at_ns, shortest);
            assert_eq!(format!("{:?}", sought.state), format!("{state:?}"), "{path:?} at {at_ns}");
            let follows = sought.scenes.next().map(|scene| scene.unwrap().0.at_ns);
            assert_eq!(follows, next, "{path:?} at {at_ns}");
        }
        assert!(frames.count() > 1, "{path:?} is long enough for key frames");
    }
}

#[test]
fn a_player_opens_at_the_first_load_seeks_and_ends_with_its_front() {
    let folder = tempfile::tempdir().unwrap();
    let path = session(folder.path(), 3, 200);
    let feed = start(&path, 1.0, Options { player: true, paused: true, ..Options::default() }).unwrap();
    let Ok(Played::Timeline(timeline)) = feed.player.recv() else { panic!("the times come first") };
    assert_eq!((timeline.end_ns, timeline.result_ns, timeline.loads.len()), (6_000 * MS, 6_000 * MS, 3));
    assert_eq!((timeline.load_after(0), timeline.load_before(4_500 * MS, MS)), (Some(2_000 * MS), Some(4_000 * MS)));
    feed.commands.send(Command::Seek(2_000 * MS)).unwrap();
    let Ok(Played::Sought(state, events)) = feed.player.recv() else { panic!("the answer to the seek") };
    assert_eq!(state.now_ns, 2_000 * MS);
    assert_eq!(state.lanes.iter().filter(|lane| lane.ended_ns.is_some()).count(), 1);
    // A seek is still possible at the end of the recording.
    feed.commands.send(Command::Speed(0)).unwrap();
    feed.commands.send(Command::Pause(false)).unwrap();
    assert!(events.iter().count() > 20);
    feed.commands.send(Command::Seek(0)).unwrap();
    let Ok(Played::Sought(state, events)) = feed.player.recv() else { panic!("the answer to the second seek") };
    assert_eq!(state.now_ns, 0);
    drop(feed);
    assert!(events.iter().count() > 40, "without commands, the replay continues to its end");
}
