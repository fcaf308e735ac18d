//! Settings of engines by name: which engine takes which, and within what bounds.

use super::engine::{Engine, NixlPlugin};
use super::units::{GIB, KIB};

/// Settings by name, with the least and the most that they may be.
const BOUNDS: [(&str, u64, u64); 15] = [
    ("threads", 1, 256),
    ("slots", 1, 64),
    ("depth", 1, 4096),
    ("block_bytes", 4 * KIB, GIB),
    ("register", 0, 1),
    ("slab_bytes", 4 * KIB, 1 << 50),
    ("io_uring", 0, 1),
    ("registered", 0, 1),
    ("odirect", 0, 1),
    ("keep_heap", 0, 1),
    ("cufile", 0, 1),
    // 16 leaves streams unregistered; below it are the flags of cuFileStreamRegister.
    ("stream_flags", 0, 16),
    ("pin_ahead", 0, 1),
    // The bounds of libcufile.
    ("max_direct_io_size_kb", 64, 16384),
    ("warmup", 0, 1000),
];

/// The names of all settings.
pub fn names() -> impl Iterator<Item = &'static str> {
    BOUNDS.iter().map(|(name, ..)| *name)
}

/// The settings that one of our own engines takes; none for what runs outside, which is given all and takes what it knows.
#[must_use]
pub const fn taken_by(engine: &Engine) -> &'static [&'static str] {
    match engine {
        Engine::Mmap => &["warmup"],
        Engine::Pread => &["threads", "slots", "block_bytes", "pin_ahead", "warmup"],
        Engine::Direct => &["threads", "depth", "block_bytes", "slots", "io_uring", "registered", "warmup"],
        Engine::GdsPerTensor => &["odirect", "keep_heap", "max_direct_io_size_kb", "warmup"],
        Engine::GdsBounce => &["threads", "block_bytes", "odirect", "keep_heap", "max_direct_io_size_kb", "warmup"],
        Engine::GdsSlab => &[
            "threads",
            "block_bytes",
            "register",
            "slab_bytes",
            "odirect",
            "keep_heap",
            "max_direct_io_size_kb",
            "warmup",
        ],
        Engine::GdsBatch => &[
            "threads",
            "depth",
            "block_bytes",
            "register",
            "slab_bytes",
            "odirect",
            "keep_heap",
            "max_direct_io_size_kb",
            "warmup",
        ],
        Engine::GdsStream => &[
            "threads",
            "depth",
            "block_bytes",
            "register",
            "slab_bytes",
            "odirect",
            "stream_flags",
            "keep_heap",
            "max_direct_io_size_kb",
            "warmup",
        ],
        Engine::Nixl(NixlPlugin::Gds) => {
            &["block_bytes", "depth", "slots", "odirect", "keep_heap", "max_direct_io_size_kb", "warmup"]
        }
        Engine::Nixl(NixlPlugin::GdsMt) => &["threads", "odirect", "keep_heap", "max_direct_io_size_kb", "warmup"],
        Engine::Nixl(NixlPlugin::Posix) => &["io_uring", "depth", "odirect", "warmup"],
        // Those of what it may take.
        Engine::Auto => &[
            "threads",
            "slots",
            "depth",
            "block_bytes",
            "pin_ahead",
            "io_uring",
            "registered",
            "register",
            "slab_bytes",
            "odirect",
            "cufile",
            "warmup",
        ],
        Engine::Command(_) | Engine::Loader(_) | Engine::Workload(_) => &[],
    }
}

/// Refuses a value that an engine of ours cannot have.
///
/// # Errors
/// A sentence that names the setting, what was found and what is possible.
pub fn check(name: &str, value: u64) -> Result<(), String> {
    let Some((_, least, most)) = BOUNDS.iter().find(|(known, ..)| *known == name) else {
        return Err(format!("'{name}' is not a setting; known settings: {}", names().collect::<Vec<_>>().join(", ")));
    };
    if !(*least..=*most).contains(&value) {
        return Err(format!("{name}={value} is out of bounds: {name} goes from {least} to {most}"));
    }
    if name.ends_with("_bytes") && !value.is_multiple_of(4 * KIB) {
        let next = value.next_multiple_of(4 * KIB);
        return Err(format!("{name}={value} is no multiple of 4096, which aligned reads need; the next is {next}"));
    }
    if name == "max_direct_io_size_kb" && !value.is_multiple_of(64) {
        return Err(format!(
            "{name}={value} is no multiple of 64, which libcufile wants; the next is {}",
            value.next_multiple_of(64)
        ));
    }
    Ok(())
}

/// Refuses a setting that is wrong for the engines of a race, or that none of them takes. `name` may begin with the engine that it is for.
///
/// # Errors
/// A sentence that names what was found and what is possible.
pub fn check_for(name: &str, value: u64, engines: &[Engine]) -> Result<(), String> {
    let list = |names: &[&str]| names.join(", ");
    if let Some((engine, short)) = name.rsplit_once('.') {
        let engine: Engine = engine.parse()?;
        if !engines.contains(&engine) {
            let those: Vec<String> = engines.iter().map(ToString::to_string).collect();
            return Err(format!(
                "{name} is set, but {engine} is none of the engines of this race ({})",
                those.join(", ")
            ));
        }
        return check_own(&engine, short, value);
    }
    let takes = |engine: &&Engine| engine.is_outside() || taken_by(engine).contains(&name);
    if !engines.iter().any(|engine| takes(&engine)) {
        let those: Vec<String> = engines.iter().map(|e| format!("{e} takes {}", list(taken_by(e)))).collect();
        return Err(format!("'{name}' would change nothing here: {}", those.join("; ")));
    }
    // What runs outside has bounds of its own.
    if engines.iter().filter(takes).all(Engine::is_outside) { Ok(()) } else { check(name, value) }
}

/// Refuses a setting of one engine that it does not take, or that is out of bounds.
///
/// # Errors
/// As [`check_for`].
pub fn check_own(engine: &Engine, name: &str, value: u64) -> Result<(), String> {
    if engine.is_outside() {
        return Ok(());
    }
    let taken = taken_by(engine);
    if !taken.contains(&name) {
        return Err(format!("{engine} has no setting '{name}'; it takes {}", taken.join(", ")));
    }
    let most = match (engine, name) {
        // The largest class of the library's buffer pool, and of what nvidia-fs maps at once; what a batch may hold; what a stream is worth.
        (Engine::GdsBatch, "block_bytes") => 16 << 20,
        (Engine::GdsBatch, "depth") => 256,
        (Engine::GdsStream, "depth") => 64,
        _ => u64::MAX,
    };
    check(name, value)?;
    if value > most {
        return Err(format!("{engine}.{name}={value} is out of bounds: {engine} takes {most} at most"));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_nothing_or_is_out_of_bounds_is_refused_with_what_is_possible() {
        let usual = [Engine::Mmap, Engine::Pread];
        for (name, value, part) in [
            ("threads", 0, "from 1 to 256"),
            ("threads", 257, "from 1 to 256"),
            ("block_bytes", 5000, "the next is 8192"),
            ("pin_ahead", 2, "from 0 to 1"),
            ("max_direct_io_size_kb", 1024, "would change nothing here"),
            ("depth", 8, "would change nothing here: mmap takes warmup; pread takes threads, slots"),
            ("mmap.threads", 2, "mmap has no setting 'threads'; it takes warmup"),
            ("pread.threads", 0, "from 1 to 256"),
            ("direct.depth", 8, "direct is none of the engines of this race (mmap, pread)"),
        ] {
            let said = check_for(name, value, &usual).unwrap_err();
            assert!(said.contains(part), "{name}={value}: {said}");
        }
        assert_eq!(check_for("threads", 8, &usual), Ok(()));
        assert_eq!(check_for("pread.slots", 3, &usual), Ok(()));
        let said = check_own(&Engine::GdsBatch, "block_bytes", 32 << 20).unwrap_err();
        assert!(said.contains("16777216 at most"), "{said}");
        // A script may know what we do not.
        let outside = [Engine::Loader("fastsafetensors".to_owned())];
        assert_eq!(check_for("cufile", 2, &outside), Ok(()));
        assert!(check_for("cufile", 2, &[outside[0].clone(), Engine::Auto]).is_err());
    }

    #[test]
    fn every_setting_is_some_engine_s_and_every_engine_s_is_known() {
        for name in names() {
            assert!(Engine::NAMED.iter().any(|engine| taken_by(engine).contains(&name)), "{name}");
        }
        for engine in Engine::NAMED {
            assert!(taken_by(&engine).iter().all(|name| names().any(|known| known == *name)), "{engine}");
        }
    }
}
