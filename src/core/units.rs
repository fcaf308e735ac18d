//! Formats sizes, times and rates for people: three significant digits, binary units for sizes, decimal units for
//! rates.

/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;
/// Bytes in a KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

/// The advice if the system cannot start a thread or a process.
pub const MORE_THREADS: &str = "raise the limit of processes and threads (ulimit -u, pids.max of the cgroup, TasksMax= of a systemd unit), or end others";

/// The message if a thread could not be started: the error of the system and the advice.
#[must_use]
pub fn no_thread(said: impl std::fmt::Display) -> String {
    format!("no more threads can be started ({said}); {MORE_THREADS}")
}

/// `value` with three significant digits and no exponent: `1.76`, `14.2`, `512`, `0.0312`.
#[must_use]
pub fn three_digits(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let decimals = if size >= 99.95 || size == 0.0 {
        0
    } else if size >= 9.995 {
        1
    } else if size >= 0.9995 {
        2
    } else {
        // Below 0.1, three digits after the leading zeros are shown, with at most six decimal places.
        (2 - size.log10().floor() as i32).clamp(3, 6) as usize
    };
    format!("{value:.decimals$}")
}

/// `value` with up to three significant digits, without trailing zeros: `1.76`, `1`, `0.5`, `100`.
#[must_use]
pub fn short(value: f64) -> String {
    let digits = three_digits(value);
    match digits.split_once('.') {
        Some((integer, decimals)) => match decimals.trim_end_matches('0') {
            "" => integer.to_owned(),
            decimals => format!("{integer}.{decimals}"),
        },
        None => digits,
    }
}

/// A size in memory or on disk, in binary units without trailing zeros: `14.2 GiB`, `4 KiB`, `17 B`.
#[must_use]
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if value < KIB {
        return format!("{value} B");
    }
    let mut scaled = value as f64;
    let mut unit = 0;
    // A value of 999.5 or more would be rounded to four digits, so it uses the next unit.
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", short(scaled), UNITS[unit])
}

/// A time in UTC for file names: `20261123-031205Z`. Years start in March here, so that the leap day is the last day
/// of a year.
#[must_use]
pub fn utc_stamp(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    // Day 0 is 1 March of the year 0. 400 years have 146 097 days.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let (month, next) = if from_march < 10 { (from_march + 3, 0) } else { (from_march - 9, 1) };
    let (year, date) = (era * 400 + year + next, of_year - (153 * from_march + 2) / 5 + 1);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{date:02}-{hour:02}{minute:02}{second:02}Z")
}

/// A duration of this many nanoseconds: `1.76 s`, `2.70 ms`, `36.0 µs`, `80 ns`, `3 min 20 s`.
#[must_use]
pub fn duration(ns: u64) -> String {
    duration_with(ns, three_digits)
}

/// A duration without trailing zeros, for the ticks of an axis: `1 ms`, `2.5 s`.
#[must_use]
pub fn short_duration(ns: u64) -> String {
    duration_with(ns, short)
}

fn duration_with(ns: u64, digits: fn(f64) -> String) -> String {
    let value = ns as f64;
    if ns < 1_000 {
        format!("{ns} ns")
    } else if value < 999.5e3 {
        format!("{} µs", digits(value / 1e3))
    } else if value < 999.5e6 {
        format!("{} ms", digits(value / 1e6))
    } else if ns < 120 * NS_PER_S {
        format!("{} s", digits(value / 1e9))
    } else {
        let seconds = ns.saturating_add(NS_PER_S / 2) / NS_PER_S;
        if seconds < 7200 {
            format!("{} min {:02} s", seconds / 60, seconds % 60)
        } else {
            format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60)
        }
    }
}

/// A rate in bytes per second, in decimal units: `49.1 GB/s`.
#[must_use]
pub fn rate(bytes_per_s: f64) -> String {
    if !bytes_per_s.is_finite() {
        return "–".to_owned();
    }
    let size = bytes_per_s.abs();
    if size < 999.5 {
        format!("{} B/s", three_digits(bytes_per_s))
    } else if size < 999.5e3 {
        format!("{} kB/s", three_digits(bytes_per_s / 1e3))
    } else if size < 999.5e6 {
        format!("{} MB/s", three_digits(bytes_per_s / 1e6))
    } else {
        format!("{} GB/s", three_digits(bytes_per_s / 1e9))
    }
}

/// An integer with thin spaces between groups of three digits: `18 867`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 read`, `18 867 reads`.
#[must_use]
pub fn plural(value: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(value), if value == 1 { "" } else { "s" })
}

/// The verb that follows a number: the first form for 1, otherwise the second.
#[must_use]
pub const fn verb(value: u64, one: &'static str, many: &'static str) -> &'static str {
    if value == 1 { one } else { many }
}

/// Like [`plural`], for a noun like 'process': `1 process`, `3 processes`.
#[must_use]
pub fn plural_es(value: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(value), if value == 1 { "" } else { "es" })
}

/// Like [`plural`], for a noun like 'entry', of which `stem` is the part before 'y': `1 entry`, `3 entries`.
#[must_use]
pub fn plural_ies(value: u64, stem: &str) -> String {
    format!("{} {stem}{}", count(value), if value == 1 { "y" } else { "ies" })
}

/// A share of 1 in percent, without decimals: `93 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A share of 1 in percent, with one decimal, or three significant digits from 100 on: `15.0 %`, `584 %`, `1010 %`.
#[must_use]
pub fn exact_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 99.95 || !percent.is_finite() {
        return format!("{percent:.1} %");
    }
    let step = 10_f64.powf(percent.abs().log10().floor() - 2.0);
    format!("{:.0} %", (percent / step).round() * step)
}

/// A sum that saturates, because recordings and watched programs can contain any numbers.
#[must_use]
pub fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// The rate in bytes per second. `None` if no time passed.
#[must_use]
pub fn bytes_per_s(bytes: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| bytes as f64 * NS_PER_S as f64 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_have_no_zeros_at_their_end() {
        for (value, expected) in [(0.5, "0.5"), (100.0, "100"), (14.24, "14.2"), (0.0, "0"), (1.0, "1"), (90.0, "90")] {
            assert_eq!(short(value), expected);
        }
        assert_eq!((short_duration(1_000_000), short_duration(2_500_000_000)), ("1 ms".to_owned(), "2.5 s".to_owned()));
    }

    #[test]
    fn a_moment_is_named_by_its_date_and_time_in_utc() {
        assert_eq!(utc_stamp(0), "19700101-000000Z");
        assert_eq!(utc_stamp(951_782_400_000), "20000229-000000Z");
        assert_eq!(utc_stamp(1_795_403_525_999), "20261123-031205Z");
        assert_eq!(utc_stamp(1_735_689_599_000), "20241231-235959Z");
    }

    #[test]
    fn three_significant_digits_over_the_whole_range() {
        for (value, text) in [
            (0.0, "0"),
            (0.0312, "0.0312"),
            (0.312, "0.312"),
            (1.0, "1.00"),
            (9.994, "9.99"),
            (9.999, "10.0"),
            (14.19, "14.2"),
            (99.96, "100"),
            (512.4, "512"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(three_digits(value), text, "{value}");
        }
    }

    #[test]
    fn sizes_use_binary_units_and_never_four_digits() {
        for (value, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1_503_264_768, "1.4 GiB"),
            (10 << 30, "10 GiB"),
            (100 << 20, "100 MiB"),
            (15_231_233_024, "14.2 GiB"),
            (1_048_575, "1 MiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn durations_and_rates_pick_the_unit_that_reads_best() {
        assert_eq!(duration(80), "80 ns");
        assert_eq!(duration(36_000), "36.0 µs");
        assert_eq!(duration(2_700_000), "2.70 ms");
        assert_eq!(duration(1_760_000_000), "1.76 s");
        assert_eq!(duration(200 * NS_PER_S), "3 min 20 s");
        assert_eq!(duration(7_260 * NS_PER_S), "2 h 01 min");
        assert!(duration(u64::MAX).ends_with(" min"), "the largest number has words too");
        assert_eq!(rate(49.12e9), "49.1 GB/s");
        assert_eq!(rate(999.6e6), "1.00 GB/s");
        assert_eq!(rate(512.0), "512 B/s");
    }

    #[test]
    fn counts_are_grouped_by_three() {
        assert_eq!(count(7), "7");
        assert_eq!(count(18867), "18\u{202f}867");
        assert_eq!(count(1_503_264_768), "1\u{202f}503\u{202f}264\u{202f}768");
    }

    #[test]
    fn percents_have_one_decimal_or_three_digits() {
        for (share, text) in [
            (0.15, "15.0 %"),
            (0.004, "0.4 %"),
            (0.9996, "100 %"),
            (5.84, "584 %"),
            (10.138, "1010 %"),
            (-0.031, "-3.1 %"),
            (f64::NAN, "NaN %"),
        ] {
            assert_eq!(exact_percent(share), text);
        }
    }

    #[test]
    fn no_time_has_no_rate() {
        assert_eq!(bytes_per_s(5, 0), None);
        assert_eq!(bytes_per_s(1000, NS_PER_S), Some(1000.0));
    }
}
