//! Meters from procfs: the run process, the machine and this process. A value that cannot be read is left out.

use crate::core::Metric;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// The readings at one point in time.
pub(super) type Values = BTreeMap<Metric, f64>;

/// The device number (major, minor) of the file system with a file or directory, for
/// [`super::SamplerConfig::model_device`]. File systems without a block device (tmpfs, overlay, btrfs, network) have
/// a number that /proc/diskstats does not list. Then the meter is left out.
#[must_use]
pub fn device_of(path: &Path) -> Option<(u32, u32)> {
    let device = std::fs::metadata(path).ok()?.dev();
    Some((rustix::fs::major(device), rustix::fs::minor(device)))
}

/// The meters of a run process.
pub(super) struct LaneMeters {
    // Open descriptor of the process's directory in /proc, so that a later process with the same number is not read by
    // mistake.
    process: Option<OwnedFd>,
    /// The process id of a command's keeper. All its descendants are read too.
    tree: Option<u32>,
}

impl LaneMeters {
    pub(super) fn of(pid: u32) -> Self {
        let tree = super::tree::is_keeper(pid).then_some(pid);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self { tree, process: rustix::fs::open(format!("/proc/{pid}"), flags, Mode::empty()).ok() }
    }

    pub(super) fn read(&self, into: &mut Values) {
        let Some(process) = &self.process else { return };
        if let Some(root) = self.tree {
            return read_tree(root, into);
        }
        // The file is read ten times a second during the load, so only the needed lines are parsed.
        if let Some(status) = text(process, "status") {
            for (metric, name, unit) in [
                // The values are in KiB. A zombie process has no memory.
                (Metric::LaneRssBytes, "VmRSS", 1024.0),
                (Metric::LaneRssAnonBytes, "RssAnon", 1024.0),
                (Metric::LaneRssFileBytes, "RssFile", 1024.0),
                (Metric::LaneThreads, "Threads", 1.0),
            ] {
                put(into, metric, field(&status, name), unit);
            }
        }
        if let Some(io) = text(process, "io") {
            put(into, Metric::LaneStorageReadBytes, field(&io, "read_bytes"), 1.0);
            put(into, Metric::LaneReadCallBytes, field(&io, "rchar"), 1.0);
        }
        if let Some(stat) = text(process, "stat") {
            // The process name is in parentheses and can contain any character. utime and stime are the 14th and 15th
            // field (proc_pid_stat(5)).
            let mut after = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().skip(11);
            let mut ticks = || after.next()?.parse::<u64>().ok();
            let ticks = ticks().zip(ticks()).map(|(user, system)| user + system);
            put(into, Metric::LaneCpuNs, ticks, 1e9 / rustix::param::clock_ticks_per_second() as f64);
        }
    }
}

fn put(into: &mut Values, metric: Metric, value: Option<u64>, unit: f64) {
    if let Some(value) = value {
        into.insert(metric, value as f64 * unit);
    }
}

/// The content of a file in /proc; `None` if it cannot be read or the process has ended.
fn text(folder: impl AsFd, name: &str) -> Option<String> {
    let file = rustix::fs::openat(folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = Vec::with_capacity(4096);
    File::from(file).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

/// The number in a line `NAME:   123 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

fn read_tree(root: u32, into: &mut Values) {
    let Some(used) = super::tree::usage(root) else { return };
    let readings = [
        (Metric::LaneRssBytes, used.rss_bytes),
        (Metric::LaneRssAnonBytes, used.rss_anon_bytes),
        (Metric::LaneRssFileBytes, used.rss_file_bytes),
        (Metric::LaneStorageReadBytes, used.storage_read_bytes),
        (Metric::LaneReadCallBytes, used.read_call_bytes),
        (Metric::LaneThreads, Some(used.threads)),
        (Metric::LaneCpuNs, Some(used.cpu_ns)),
    ];
    into.extend(readings.into_iter().filter_map(|(metric, value)| Some((metric, value? as f64))));
}

/// The meters of the machine: the page cache, and the reads of one block device.
pub(super) struct MachineMeters {
    pub(super) device: Option<(u32, u32)>,
}

impl MachineMeters {
    pub(super) fn read(&self, into: &mut Values) {
        let memory = text(rustix::fs::CWD, "/proc/meminfo");
        put(into, Metric::PageCacheBytes, memory.and_then(|text| field(&text, "Cached")), 1024.0);
        for (metric, path) in [
            (Metric::CpuPressurePercent, "/proc/pressure/cpu"),
            (Metric::IoPressurePercent, "/proc/pressure/io"),
            (Metric::MemoryPressurePercent, "/proc/pressure/memory"),
        ] {
            // Kernels without pressure stall information (PSI) do not have these files.
            into.extend(text(rustix::fs::CWD, path).and_then(|text| pressure(&text)).map(|share| (metric, share)));
        }
        let Some(device) = self.device else { return };
        let disks = text(rustix::fs::CWD, "/proc/diskstats").unwrap_or_default();
        // A sector is 512 bytes, regardless of the block size of the device (Documentation/admin-guide/iostats.rst).
        put(into, Metric::DeviceReadBytes, sectors_read(&disks, device), 512.0);
    }
}

/// The share of the last ten seconds in which tasks waited for a CPU, in percent. `None` without pressure stall
/// information (PSI).
#[must_use]
pub fn cpu_pressure_percent() -> Option<f64> {
    pressure(&text(rustix::fs::CWD, "/proc/pressure/cpu")?)
}

/// The first number in a line `some avg10=1.23 avg60=...`.
fn pressure(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

/// The number of sectors in a line `MAJOR MINOR NAME READS MERGED SECTORS ...`.
fn sectors_read(disks: &str, (major, minor): (u32, u32)) -> Option<u64> {
    disks.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let mut number = || words.next()?.parse::<u32>().ok();
        ((number()?, number()?) == (major, minor)).then(|| words.nth(3)?.parse().ok()).flatten()
    })
}

/// The meters of this process.
#[derive(Default)]
pub(super) struct SelfMeters {
    before: Option<(Instant, u64)>,
}

impl SelfMeters {
    pub(super) fn read(&mut self, into: &mut Values) {
        let now = Instant::now();
        // The clock counts nanoseconds. The ticks of /proc are too coarse: one tick is a tenth of a sampling
        // interval.
        let cpu_ns = cpu_ns(rustix::time::ClockId::ProcessCPUTime);
        if let Some((before, before_ns)) = self.before {
            let wall_ns = now.duration_since(before).as_nanos() as f64;
            if wall_ns > 0.0 {
                into.insert(Metric::SelfCpuPercent, cpu_ns.saturating_sub(before_ns) as f64 * 100.0 / wall_ns);
            }
        }
        self.before = Some((now, cpu_ns));
        let pages = text(rustix::fs::CWD, "/proc/self/statm");
        let resident = pages.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok());
        put(into, Metric::SelfRssBytes, resident, rustix::param::page_size() as f64);
    }
}

/// CPU time in nanoseconds from one of the CPU clocks.
pub(super) fn cpu_ns(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};

    #[test]
    fn pressure_is_the_share_of_the_last_ten_seconds() {
        let text = "some avg10=1.50 avg60=0.20 avg300=0.05 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(pressure(text), Some(1.5));
        assert_eq!(pressure("full avg10=3.00"), None);
        assert_eq!(pressure(""), None);
    }

    #[test]
    fn the_meters_of_a_process_are_those_of_proc() {
        let mut values = Values::new();
        LaneMeters::of(std::process::id()).read(&mut values);
        for metric in [
            Metric::LaneRssBytes,
            Metric::LaneRssAnonBytes,
            Metric::LaneRssFileBytes,
            Metric::LaneThreads,
            Metric::LaneReadCallBytes,
            Metric::LaneStorageReadBytes,
            Metric::LaneCpuNs,
        ] {
            assert!(values.contains_key(&metric), "{metric:?}");
        }
        let parts = values[&Metric::LaneRssAnonBytes] + values[&Metric::LaneRssFileBytes];
        assert!(values[&Metric::LaneRssBytes] >= parts, "{values:?}");
        assert!(values[&Metric::LaneThreads] >= 1.0);
    }

    #[test]
    fn anonymous_memory_and_reads_show_in_their_meters() {
        const NAME: &str = "telemetry::meters::tests::anonymous_memory_and_reads_show_in_their_meters";
        const CHILD: &str = "GDS_TOP_TEST_METERS";
        // The test runs in a separate process, because other tests allocate and release memory at the same time.
        if std::env::var_os(CHILD).is_some() {
            let mut word = String::new();
            eprintln!("ready");
            std::io::stdin().read_line(&mut word).unwrap();
            let memory = vec![1_u8; 64 << 20];
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &memory).unwrap();
            let read = std::fs::read(file.path()).unwrap();
            eprintln!("done");
            std::io::stdin().read_line(&mut word).unwrap();
            assert_eq!(read.len(), memory.len());
            return;
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([NAME, "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut go = child.stdin.take().unwrap();
        let meters = LaneMeters::of(child.id());
        let (mut before, mut after) = (Values::new(), Values::new());
        assert!(lines.any(|line| line == "ready"), "{NAME} is not the name of this test");
        meters.read(&mut before);
        go.write_all(b"go\n").unwrap();
        assert!(lines.any(|line| line == "done"));
        meters.read(&mut after);
        go.write_all(b"go\n").unwrap();
        assert!(child.wait().unwrap().success());
        let grown = |metric: Metric| after[&metric] - before[&metric];
        assert!(grown(Metric::LaneRssAnonBytes) > 60e6, "{}", grown(Metric::LaneRssAnonBytes));
        assert!(grown(Metric::LaneReadCallBytes) >= 67e6, "{}", grown(Metric::LaneReadCallBytes));
    }

    #[test]
    fn a_process_that_is_gone_has_no_meters() {
        let mut child = std::process::Command::new("sleep").arg("3600").spawn().unwrap();
        let meters = LaneMeters::of(child.id());
        let mut values = Values::new();
        meters.read(&mut values);
        assert!(values.contains_key(&Metric::LaneRssBytes));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut values = Values::new();
        meters.read(&mut values);
        assert!(values.is_empty(), "{values:?}");
        LaneMeters::of(u32::MAX).read(&mut values);
        assert!(values.is_empty(), "{values:?}");
    }

    #[test]
    fn lines_are_told_from_those_that_begin_alike() {
        assert_eq!(field("MemFree: 7 kB\nSwapCached:  1 kB\nCached:  12 kB\n", "Cached"), Some(12));
        assert_eq!(field("Cached:\n", "Cached"), None);
        let disks = "   7       1 loop1 1 2 3 4\n 259       0 nvme0n1 10 20 3072 40 5 6 7\n";
        assert_eq!((sectors_read(disks, (259, 0)), sectors_read(disks, (259, 1))), (Some(3072), None));
    }

    #[test]
    fn a_device_that_is_not_listed_leaves_a_gap() {
        let mut values = Values::new();
        MachineMeters { device: Some((0, 4_000_000)) }.read(&mut values);
        assert!(!values.contains_key(&Metric::DeviceReadBytes));
        if let Ok(disks) = procfs::diskstats()
            && let Some(disk) = disks.first()
        {
            MachineMeters { device: Some((disk.major as u32, disk.minor as u32)) }.read(&mut values);
            assert!(values[&Metric::DeviceReadBytes] >= disk.sectors_read as f64 * 512.0);
        }
    }

    #[test]
    fn own_cpu_needs_two_readings_and_counts_work() {
        let start = Instant::now();
        let mut meters = SelfMeters::default();
        let mut values = Values::new();
        meters.read(&mut values);
        assert!(!values.contains_key(&Metric::SelfCpuPercent) && values[&Metric::SelfRssBytes] > 1e5);
        let used = || cpu_ns(rustix::time::ClockId::ThreadCPUTime);
        let before = used();
        let mut sum = 0_u64;
        while used() - before < 20_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        // This thread used 20 ms of CPU time. Other threads of the process may have used more.
        meters.read(&mut values);
        let least = 20e6 * 100.0 / start.elapsed().as_nanos() as f64;
        let reported = values[&Metric::SelfCpuPercent];
        assert!(reported >= least * 0.999, "{reported} {least}");
    }
}
