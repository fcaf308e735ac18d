//! Tests of host memory as the target. Engines that need no cuFile make their real reads.

use crate::harness::{Outcome, folder, order, run, with_settings};
use crate::{models, sound, standins};
use gds_top::core::{CacheState, Engine, LaneOrder, LaneStage, ModelInfo, NotCold, Note, Phase, Setting, Unused};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const ENGINES: [Engine; 4] = [Engine::Mmap, Engine::Pread, Engine::Odirect, Engine::Auto];

/// Whether files in this directory support O_DIRECT.
fn takes_direct(folder: &Path) -> bool {
    // The name is unique, because several tests use the directory at the same time.
    let file = tempfile::NamedTempFile::new_in(folder).unwrap();
    match OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(file.path()) {
        Ok(_) => true,
        Err(error) => {
            standins::skipped(&format!("O_DIRECT is not taken below {}: {error}", folder.display()));
            false
        }
    }
}

/// The kernel's counters of pages that were removed from the page cache, because of low memory or by root.
fn taken() -> Vec<String> {
    let counters = ["drop_pagecache", "pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged"];
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines().filter(|line| counters.iter().any(|name| line.starts_with(name))).map(str::to_owned).collect()
}

/// Tests a state of the page cache while no other process removes pages, as concurrent cold runs of root may do.
/// `None`, with a message, if there is no such time.
fn undisturbed(state: &str, is_there: impl Fn() -> bool) -> Option<()> {
    for _ in 0..20 {
        let before = taken();
        if is_there() {
            return Some(());
        }
        assert_ne!(taken(), before, "the page cache is not {state}, and no pages were removed from it");
    }
    standins::skipped("others empty the page cache again and again");
    None
}

/// Runs and checks. `None` if the engine is `odirect` and the file system does not support it.
fn sound(order: &LaneOrder, model: &ModelInfo) -> Option<Outcome> {
    if order.engine == Engine::Odirect && !takes_direct(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        return None;
    }
    let outcome = run(order, &[]);
    sound::check(&outcome, model);
    Some(outcome)
}

#[test]
fn memory_of_a_mapping_counts_as_files_and_read_bytes_as_anonymous() {
    let folder = folder();
    let bytes: u64 = 48 << 20;
    models::write(&folder.path().join("one.safetensors"), &[("a", "U8", &[bytes])], 0);
    let model = gds_top::models::open(folder.path()).unwrap();
    let parts = |engine| {
        let result = run(&order(engine, &model), &[]).result().clone();
        let (anonymous, files) = (result.host_anonymous_bytes.unwrap(), result.host_file_bytes.unwrap());
        assert_eq!(Some(anonymous + files), result.host_peak_bytes);
        (anonymous, files)
    };
    let ((mapped_anonymous, mapped_files), (read_anonymous, read_files)) = (parts(Engine::Mmap), parts(Engine::Pread));
    // Both have the target in anonymous memory. The counters of the kernel lag behind by some pages.
    let slack = 4 << 20;
    assert!(mapped_files >= read_files + bytes - slack, "{mapped_files} {read_files}");
    assert!(
        mapped_anonymous >= bytes - slack && read_anonymous >= bytes - slack,
        "{mapped_anonymous} {read_anonymous}"
    );
    assert!(mapped_anonymous < 2 * bytes, "{mapped_anonymous}");
}

#[test]
fn every_engine_lands_a_synthetic_model_of_several_shards() {
    let folder = folder();
    let model = models::synthetic(folder.path());
    assert_eq!((model.shards.len(), model.tensors.len()), (4, 291));
    for engine in ENGINES {
        let Some(outcome) = sound(&order(engine.clone(), &model), &model) else { continue };
        let result = outcome.result();
        assert_eq!((&result.engine, result.target.as_str(), result.route.is_none()), (&engine, "host memory", true));
        assert_eq!((result.gpu_peak_bytes, result.pinned_peak_bytes), (None, Some(0)));
        assert!(result.host_peak_bytes.is_none_or(|peak| peak >= result.bytes), "{result:?}");
    }
}

#[test]
fn every_engine_lands_empty_single_and_unaligned_tensors() {
    let folder = folder();
    let model = models::odd(folder.path());
    assert_eq!(model.shards.len(), 5);
    assert!(model.shards.iter().any(|s| s.data_offset % 8 != 0), "an unaligned data section");
    for engine in ENGINES {
        sound(&order(engine, &model), &model);
    }
}

#[test]
fn settings_of_any_size_change_how_and_not_what() {
    let folder = folder();
    let model = models::odd(folder.path());
    let settings: [(Engine, &[(&str, u64)]); 8] = [
        (Engine::Pread, &[("threads", 1), ("slots", 1), ("block_bytes", 1)]),
        (Engine::Pread, &[("threads", 7), ("slots", 3), ("block_bytes", 12_289)]),
        (Engine::Pread, &[("threads", 1000), ("slots", 1000), ("block_bytes", u64::MAX)]),
        (Engine::Odirect, &[("depth", 1), ("block_bytes", 4096)]),
        (Engine::Odirect, &[("depth", 3), ("block_bytes", 20_000)]),
        (Engine::Odirect, &[("depth", 5000), ("block_bytes", 1 << 40)]),
        (Engine::Odirect, &[("io_uring", 0), ("depth", 3), ("block_bytes", 65_536)]),
        (Engine::Odirect, &[("io_uring", 0), ("depth", 0), ("block_bytes", 0)]),
    ];
    for (engine, set) in settings {
        let Some(outcome) = sound(&with_settings(order(engine, &model), set), &model) else { continue };
        let result = outcome.result();
        let block = result.settings["block_bytes"];
        assert!(block >= 4096 && block % 4096 == 0, "{set:?}: {:?}", result.settings);
        // The staging memory depends on the model and not on the setting: a gigabyte is not pinned for two megabytes.
        assert!(result.host_peak_bytes.is_none_or(|peak| peak < 300 << 20), "{set:?}: {result:?}");
    }
}

#[test]
fn blocks_are_shared_by_all_threads_and_ordered_settings_are_used() {
    let folder = folder();
    let model = models::synthetic(folder.path());
    let set: &[_] = &[("threads", 3), ("slots", 2), ("block_bytes", 65_536)];
    let Some(outcome) = sound(&with_settings(order(Engine::Pread, &model), set), &model) else { return };
    let result = outcome.result();
    assert_eq!(result.slots, 3);
    let used = |(name, value): &(&str, u64)| match *name {
        // Nothing is staged on the way to host memory, and unused settings are not recorded as used.
        "slots" => !result.settings.contains_key(*name),
        _ => result.settings[*name] == *value && result.settings_why[*name] == "as set",
    };
    assert!(set.iter().all(used), "{:?}", result.settings);
    let blocks = outcome.spans().iter().filter(|s| s.phase == Phase::Transfer).count() as u64;
    assert!(blocks >= model.tensor_bytes() / 65_536, "{blocks} blocks");
    let unused = |setting, why| Note::Unused { settings: vec![setting], why };
    assert!(result.notes.contains(&unused(Setting::Slots, Unused::NoStaging)), "{:?}", result.notes);
    for (io_uring, why) in [(1, Unused::NoStaging), (0, Unused::NeedsIoUring)] {
        let set = [("registered", 1), ("io_uring", io_uring)];
        let Some(outcome) = sound(&with_settings(order(Engine::Odirect, &model), &set), &model) else { continue };
        let notes = &outcome.result().notes;
        let expected = unused(Setting::Registered, why);
        // If the kernel does not allow io_uring, this is reported instead.
        assert!(notes.iter().any(|note| *note == expected || matches!(note, Note::NoIoUring { .. })), "{notes:?}");
    }
}

#[test]
fn host_memory_is_read_into_once_and_nothing_is_copied_or_pinned_on_the_way() {
    let folder = folder();
    let model = models::synthetic(folder.path());
    let by_threads: &[_] = &[("io_uring", 0), ("depth", 3)];
    for (engine, set) in [(Engine::Pread, &[][..]), (Engine::Odirect, &[]), (Engine::Odirect, by_threads)] {
        let Some(outcome) = sound(&with_settings(order(engine, &model), set), &model) else { continue };
        let result = outcome.result();
        assert!(result.phases.get(Phase::Transfer) > 0, "{:?}", result.phases);
        assert_eq!([Phase::Copy, Phase::RegisterBuffer].map(|phase| result.phases.get(phase)), [0; 2]);
        // If the kernel does not allow io_uring, one note reports it.
        let notes: Vec<_> = result.notes.iter().filter(|note| !matches!(note, Note::NoIoUring { .. })).collect();
        assert!(!result.settings.contains_key("slots") && notes.is_empty(), "{:?} {notes:?}", result.settings);
        let landed: u64 = outcome.spans().iter().filter(|s| s.phase == Phase::Transfer).map(|s| s.bytes).sum();
        assert!(landed >= model.tensor_bytes(), "{landed}");
    }
}

#[test]
fn the_cache_is_brought_into_the_ordered_state_first() {
    let folder = folder();
    let model = models::synthetic(folder.path());
    let share = |cache| {
        let outcome = run(&LaneOrder { cache, ..order(Engine::Pread, &model) }, &[]);
        sound::check(&outcome, &model);
        assert_eq!(outcome.result().cache, cache);
        (outcome.result().cache_resident_before_fraction.unwrap(), outcome.result().notes.clone())
    };
    if undisturbed("hot", || share(CacheState::Hot).0 > 0.99).is_none() {
        return;
    }
    let (_, notes) = share(CacheState::AsIs);
    assert!(notes.is_empty(), "what is left as found needs no words: {notes:?}");
    if takes_direct(folder.path()) {
        let (cold, notes) = share(CacheState::Cold);
        assert!(cold < 0.05 || !notes.is_empty(), "{cold}: {notes:?}");
    }
}

#[test]
fn auto_takes_what_the_page_cache_makes_fastest_says_so_and_stays_auto() {
    let folder = folder();
    let model = models::synthetic(folder.path());
    let mut states = vec![(CacheState::Hot, Engine::Pread)];
    if takes_direct(folder.path()) {
        states.push((CacheState::Cold, Engine::Odirect));
    }
    for (cache, engine) in states {
        let outcome = run(&LaneOrder { cache, ..order(Engine::Auto, &model) }, &[]);
        sound::check(&outcome, &model);
        let result = outcome.result();
        // If the cache cannot be emptied, the measured share is used.
        let held = result.cache_resident_before_fraction.unwrap();
        if (cache == CacheState::Cold) == (held < 0.45) {
            assert_eq!(result.chosen_engine(), Some(&engine), "{held}");
            assert!(result.auto_choice.as_ref().is_some_and(|choice| choice.reason.is_some()));
        }
        assert_eq!(result.engine, Engine::Auto);
        assert!(
            result.settings.contains_key("threads") && result.settings.contains_key("block_bytes"),
            "{:?}",
            result.settings
        );
    }
}

#[test]
fn a_file_system_without_direct_reads_is_named_and_not_worked_round() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return standins::skipped("/dev/shm is not there");
    };
    let model = models::odd(folder.path());
    if takes_direct(folder.path()) {
        return standins::skipped("tmpfs takes O_DIRECT from Linux 6.6 on");
    }
    let outcome = run(&order(Engine::Odirect, &model), &[]);
    let error = outcome.error();
    assert!(error.contains("O_DIRECT") && error.contains("pread"), "{error}");
}

#[test]
fn a_model_in_memory_cannot_be_cold_and_nobody_else_pays_for_trying() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return standins::skipped("/dev/shm is not there");
    };
    let model = models::odd(folder.path());
    let outcome = run(&LaneOrder { cache: CacheState::Cold, ..order(Engine::Mmap, &model) }, &[]);
    let result = outcome.result();
    assert_eq!((result.verified, result.cache_resident_before_fraction), (Some(true), Some(1.0)));
    assert!(matches!(result.notes.as_slice(), [Note::NotCold(NotCold::InMemory { .. })]), "{:?}", result.notes);
}

#[test]
fn a_model_that_the_memory_cannot_hold_is_refused_before_a_byte_is_read() {
    let folder = folder();
    let path = folder.path().join("m.safetensors");
    let bytes: u64 = 8 << 40;
    let header = format!("{{\"w\":{{\"dtype\":\"U8\",\"shape\":[{bytes}],\"data_offsets\":[0,{bytes}]}}}}");
    std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    if let Err(error) = file.set_len(8 + header.len() as u64 + bytes) {
        return standins::skipped(&format!("a file of 8 TiB without blocks cannot be made here: {error}"));
    }
    let model = gds_top::models::open(folder.path()).unwrap();
    for engine in ENGINES {
        let outcome = run(&LaneOrder { cache: CacheState::Hot, ..order(engine, &model) }, &[]);
        let error = outcome.error();
        assert!(error.contains("takes 8 TiB") && error.contains("memory") && error.contains("smaller"), "{error}");
        assert_eq!(outcome.stages(), [LaneStage::Setup]);
    }
}

#[test]
fn without_verification_nothing_is_called_verified() {
    let folder = folder();
    let model = models::odd(folder.path());
    let outcome = run(&LaneOrder { verify: false, ..order(Engine::Mmap, &model) }, &[]);
    assert_eq!((outcome.result().verified, &outcome.result().error), (None, &None));
    assert!(outcome.progress().iter().all(|(_, _, verified)| *verified == 0));
}

#[test]
fn the_lane_process_of_a_command_prepares_the_page_cache_and_loads_nothing() {
    let folder = folder();
    let model = models::odd(folder.path());
    let order = LaneOrder { cache: CacheState::Hot, ..order(Engine::Command("cat".to_owned()), &model) };
    undisturbed("hot", || {
        let outcome = run(&order, &[]);
        let result = outcome.result();
        assert_eq!((&result.error, result.wall_ns, result.verified), (&None, 0, None), "{result:?}");
        assert_eq!(outcome.stages(), [LaneStage::Setup, LaneStage::PreparingCache]);
        result.cache_resident_before_fraction.is_none_or(|share| share > 0.9)
    });
}
