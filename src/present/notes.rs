//! The notes of runs as sentences.

use crate::core::{NotCold, Note, Setting, Unused, units};

/// The usual cause if io_uring is not available.
const fn no_io_uring(locked_memory: bool) -> &'static str {
    if locked_memory {
        "its memory counts as locked: raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK= of a systemd unit)"
    } else {
        "containers often forbid io_uring by seccomp, and machines by the setting kernel.io_uring_disabled"
    }
}

/// The sentence for a note.
#[must_use]
pub fn sentence(note: &Note) -> String {
    let fixed = |text: &str| text.to_owned();
    match note {
        Note::Text(text) | Note::Claim { text } => text.clone(),
        Note::Unused { settings, why } => {
            let names: Vec<&str> = settings.iter().copied().map(Setting::name).collect();
            let why = match why {
                Unused::NeedsIoUring => "only io_uring registers buffers",
                Unused::NoStaging => "reads into host memory need no staging",
                Unused::NothingRegistered => "nothing was registered",
            };
            format!("{} not used: {why}", names.join(" and "))
        }
        Note::NoIoUring { threads, error, locked_memory } => {
            format!("read by {threads} threads: {error}; {}", no_io_uring(*locked_memory))
        }
        Note::StagingNotRegistered { error, locked_memory } => {
            let cause = no_io_uring(*locked_memory);
            format!("read into buffers that are not registered with io_uring: {error}; {cause}")
        }
        Note::BatchMovesInSubmit => fixed(
            "in compat mode cuFile moves the bytes of a batch inside the call that submits it, so that time is counted as transfer",
        ),
        Note::BatchLimited { entries, wanted } => format!(
            "{entries} entries were in flight instead of {wanted}: in compat mode each entry needs a buffer of the library's pool, and a batch without a free buffer never ends"
        ),
        Note::SlabNotRegistered { from_bytes: 0, error, .. } => {
            format!("read into unregistered memory: registering the slab failed: {error}")
        }
        Note::SlabNotRegistered { from_bytes, slab_bytes, error } => format!(
            "read into unregistered memory from {} on, of {}: registering more of the slab failed: {error}",
            units::bytes(*from_bytes),
            units::bytes(*slab_bytes)
        ),
        Note::WithoutOdirect { path, error } => {
            format!("{path} was opened without O_DIRECT, which its file system does not support ({error})")
        }
        Note::RepeatedReads { repeated, reads, first_error } => format!(
            "{repeated} of {reads} cuFile reads failed and were repeated with pread and a copy; the first: {first_error}"
        ),
        Note::AutoWithoutCufile { error } => format!("auto chose without cuFile: {error}"),
        Note::Nixl { library, plugin } => format!("{library}, plugin {}", plugin.name()),
        Note::NixlModeMt => fixed(
            "the plugin got the parameter mode=mt; the plugin GDS of NIXL 1.5.1 and earlier ignores it, so compare with nixl:GDS_MT",
        ),
        Note::NixlTransfers { transfers, requests, compat } => {
            let why = if *compat {
                "in compat mode each request needs a buffer of libcufile's pool, and a batch without a free buffer never ends"
            } else {
                "the plugin has no more batches"
            };
            format!("{transfers} transfers of at most {requests} requests instead of one: {why}")
        }
        Note::NixlPosixCopies => {
            fixed("the plugin POSIX reads into host memory; each tensor is then copied to the GPU from there")
        }
        Note::NixlHidFailures { failed } => {
            format!("cuFile's statistics count {failed} failed reads in this load, but NIXL reported no failure")
        }
        Note::NotCold(NotCold::InMemory { path }) => {
            format!("not cold: {path} is in memory (tmpfs); for cold loads put the model on a disk")
        }
        Note::NotCold(NotCold::PagesLeft) => fixed(
            "the model is not completely cold: dropping its files from the page cache (posix_fadvise) left pages; --drop-caches drops the complete page cache (as root)",
        ),
        Note::NotCold(NotCold::NeedsRoot { error }) => format!(
            "the model is not completely cold: it was dropped from the page cache file by file (posix_fadvise), which left pages, and dropping the complete cache needs root ({error})"
        ),
        Note::PageCacheDropped { cached } => {
            let rest = cached.map_or_else(String::new, |share| {
                format!(
                    "; {} of the model is still cached, because a process maps, locks or reads its files: this load is not completely cold",
                    units::percent(share.max(0.01))
                )
            });
            format!(
                "the complete page cache was dropped, because dropping this model's files alone (posix_fadvise) left pages{rest}"
            )
        }
        Note::FilesCached { share } => format!(
            "the files are not completely cold: {} of them stayed in the page cache after posix_fadvise",
            units::percent(*share)
        ),
        Note::FilesPrepared { files } => {
            format!("{files} files were written by plain writes before the clock, because no earlier run wrote them")
        }
        Note::HandleCacheLimited { files, open_files } => {
            format!("the handle cache keeps {files} files, because the process may open {open_files} (ulimit -n)")
        }
        Note::KvWithoutCufile { reason, detail, transfers } => {
            let effect = if *transfers { "every transfer fell back to staging" } else { "cuFile could not be used" };
            format!("{effect} ({reason}): {detail}")
        }
        Note::FaultNotReached { fault } => {
            format!("the requested fault {fault} was not reached, so this run does not show its effect")
        }
        Note::RegisteredWithoutRdma => fixed(
            "each block is registered separately (register=2), but without cuFile's flag for RDMA, because libcufile rejects the flag for host memory",
        ),
        Note::BuffersNotRegistered { registered, buffers, error } => format!(
            "{registered} of {buffers} buffers are registered: {error}. llm-d's connector warns and continues, and so does this run"
        ),
        Note::NixlRegistered { library, plugin, pages, files } => format!(
            "{library}, plugin {}: {pages} buffer pages and {files} files were registered before the clock; a transfer moves up to {pages} chunks, and the latency of a chunk is that of its transfer",
            plugin.name()
        ),
        Note::FilesRejected { files, first_error } => {
            let were = if *files == 1 {
                "1 file existed but was".to_owned()
            } else {
                format!("{files} files existed but were")
            };
            format!(
                "{were} not taken as complete, so later chunks of the same sequence are missed too; the first: {first_error}"
            )
        }
        Note::StoreLimited { setting, value, kept, files } => format!(
            "{setting}={value} keeps {kept} of {files} files. The oldest files are removed first, even if they were read since, and a lookup ends at the first missing file"
        ),
        Note::WritesInPageCache => fixed(
            "plain writes end in the page cache; --set fsync=1 waits for the disk, --set plain_odirect=1 bypasses the cache",
        ),
        Note::MisalignedWritesInPageCache => fixed(
            "in compat mode, writes at offsets or sizes that are not multiples of 4 KiB seem to end in the page cache, not on the disk; --set fsync=1 waits for the disk",
        ),
        Note::ComputingSimulated { us } => format!(
            "computing is simulated: each layer sleeps {us} µs (compute_us), and the time and rate of the read are paced by it; the rate during transfers is reported separately"
        ),
        Note::ConcurrentWrites(writes) => format!(
            "{} files were written during this read by the same threads, {}: {} of their {} transfers had ended when the last read did, and all after {}",
            writes.files,
            if writes.read_priority {
                "reads before writes on three of four threads"
            } else {
                "in the order of the requests"
            },
            writes.before_last_read_operations,
            writes.operations,
            units::duration(writes.ended_ns)
        ),
        Note::OnStreams { seen, in_call } => format!(
            "asynchronous on {} CUDA streams, with at most {} outstanding transfers per stream (async_depth is {}); the workers spent {} of their time inside the calls{}",
            seen.streams,
            seen.most_under_way,
            seen.depth,
            units::percent(*in_call),
            if *in_call > 0.5 { ": transfers are made before their calls return, as in compat mode" } else { "" }
        ),
        Note::StreamsLimited { depth, wanted } => format!(
            "at most {depth} transfers per stream were outstanding instead of {wanted} (async_depth): in compat mode each transfer with unregistered memory needs a buffer of libcufile's pool"
        ),
        Note::MisalignedOffsets { bytes } => format!("offsets are {bytes} bytes from multiples of 4 KiB, as ordered"),
        Note::MisalignedLengths { bytes } => format!("lengths are {bytes} bytes from multiples of 4 KiB, as ordered"),
        Note::Program { program } => program.clone(),
        Note::LinesDropped { lines, longest_kib, most_per_s } => format!(
            "{} lines of the command were dropped: longer than {longest_kib} KiB, or more than {} in a second",
            units::count(*lines),
            units::count(*most_per_s)
        ),
        Note::LineNotUnderstood { error, line } => {
            format!("a line of the command was not understood ({error}): {line}")
        }
        Note::MoreLinesNotUnderstood { lines: 1 } => fixed("1 more line of the command was not understood either"),
        Note::MoreLinesNotUnderstood { lines } => {
            format!("{} more lines of the command were not understood either", units::count(*lines))
        }
        Note::TooManyPhases { kept } => format!("the command sent more than {kept} phases; the rest is left out"),
        Note::PhaseWithoutTime { phase } => format!("the phase {phase} has no ns"),
        Note::UnknownPhase { phase } => format!("'{phase}' is not a phase of the report"),
        Note::ImplausibleBytes { claimed, files_bytes } => format!(
            "it reported {claimed} loaded bytes for a model of {files_bytes}; this and its other claims about the bytes are ignored, and the bytes are counted from outside"
        ),
        Note::ClockIncludesSetup => fixed(
            "it reported no phases and no start, so the clock ran from the start of its process to its end and includes its set-up",
        ),
        Note::NoPhases => fixed("it reported no phases, so the time cannot be split"),
        Note::SeenFromOutside { read_call_bytes, storage_read_bytes } => match (read_call_bytes, storage_read_bytes) {
            (Some(calls), Some(storage)) => format!(
                "observed from outside: {} read by system calls, {} from storage; at least {} from the page cache",
                units::bytes(*calls),
                units::bytes(*storage),
                units::bytes(calls.saturating_sub(*storage))
            ),
            (None, Some(storage)) => format!("observed from outside: {} read from storage", units::bytes(*storage)),
            (Some(calls), None) => format!("observed from outside: {} read by system calls", units::bytes(*calls)),
            (None, None) => fixed("its reads were not observed from outside: /proc had no counters before it ended"),
        },
        Note::ReadTooLittle { read_bytes, files_bytes } => format!(
            "it read {}, but the model's files have {}: either it mapped files that were in the page cache, which /proc does not count, or it did not read the complete model",
            units::bytes(*read_bytes),
            units::bytes(*files_bytes)
        ),
        Note::ReadTooMuch { times } => format!("it read {times:.1} times as many bytes as the model's files have"),
        Note::BytesSource { source } => format!("bytes are {source}"),
        Note::GpuMemoryOfProcesses => {
            fixed("its GPU memory is the maximum that NVML counted for its processes, including CUDA contexts")
        }
        Note::GpuMemoryOfGpu => {
            fixed("NVML counts no GPU memory for its processes, so the growth of the GPU's total use is shown")
        }
        Note::RouteEvidence { evidence } => format!("route: {evidence}"),
        Note::VerifiedByCommand => fixed("verified by the command itself"),
        Note::ProcessesLeft { processes } => format!(
            "its main process ended while {processes} of its processes were still running; they were killed, and their remaining work is not in these figures"
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_recorded_as_data_and_earlier_sentences_are_still_read() {
        let notes: Vec<Note> =
            serde_json::from_str(r#"["read by 4 threads", {"kind": "batch_limited", "entries": 32, "wanted": 256}]"#)
                .unwrap();
        assert_eq!(
            notes,
            [Note::Text("read by 4 threads".to_owned()), Note::BatchLimited { entries: 32, wanted: 256 }]
        );
        assert_eq!(sentence(&notes[0]), "read by 4 threads");
        assert!(sentence(&notes[1]).starts_with("32 entries were in flight instead of 256"));
        let written = serde_json::to_value(&notes).unwrap();
        assert_eq!((&written[0], &written[1]["kind"]), (&"read by 4 threads".into(), &"batch_limited".into()));
    }
}
