//! Bounds of numbers in a cufile.json. If the installed library does not report its bounds, the documented or
//! measured bounds are used.

use super::known::{Known, Takes, minor};
use super::lint::{ABORTS, FATAL, Linter};
use super::meant::from_bytes;
use super::syntax::{Kind, Node};
use super::types::Severity;

/// The largest sensible value of a key. Sizes are in KiB: 1 TiB of GPU memory, 64 GiB of bounce buffers, 1 GiB for one
/// request.
fn sensible(key: &str) -> Option<u64> {
    let name = key.rsplit('.').next().unwrap_or(key);
    Some(match name {
        "max_device_pinned_mem_size_kb" => 1 << 30,
        "max_device_cache_size_kb" => 1 << 26,
        name if name.ends_with("_kb") => 1 << 20,
        name if name.ends_with("_ms") || name.ends_with("_msecs") => 3_600_000,
        "rdma_io_retry_count" | "rdma_max_backup_devices" | "rdma_unhealthy_threshold" => 10_000,
        _ => return None,
    })
}

/// Whether the value is the default, with which the library has no limit.
fn is_unlimited(known: &Known, written: &str) -> bool {
    known.default(None).as_u64().is_some_and(|default| written == default.to_string())
}

impl Linter<'_> {
    pub(super) fn range(&mut self, known: &Known, node: &Node) {
        let key = known.key;
        if let (Kind::Bool(on), Takes::Whole(..)) = (&node.kind, known.takes) {
            let number = u8::from(*on);
            let what = format!("{key} is {on}, which counts as {number}");
            self.warn("L3", node, key, what, "libcufile expects a number here.", format!("Write {number}."));
        }
        let Kind::Number(written) = &node.kind else { return };
        let Ok(number) = written.parse::<f64>() else { return };
        if written.starts_with('0') && written.len() > 1 && written.bytes().all(|byte| byte.is_ascii_digit()) {
            self.warn(
                "L2",
                node,
                key,
                format!("{key} is written with a leading zero"),
                "libcufile accepts it, but JSON does not allow it, and other programs reject the file.",
                format!("Write {number}."),
            );
        }
        match known.takes {
            Takes::Whole(low, high, multiple) => {
                let (low, high, source) = self.limits(known, low, high);
                let in_bytes = from_bytes(known, number)
                    .map(|(number, unit)| format!("Write {number}, because the unit of the key is {unit}, not bytes."));
                if high == u64::from(u32::MAX) && number > f64::from(u32::MAX) {
                    self.say(
                        "L4",
                        Severity::Error,
                        node.start,
                        key,
                        format!("{key} is {written}, which does not fit into 32 bits"),
                        ABORTS,
                        in_bytes.unwrap_or_else(|| format!("Write a number from {low} to {high}.")),
                    );
                    return;
                }
                // Measured with 1.14 and 1.20: a number with a point or an exponent must fit into 32 bits.
                let is_real = written.contains(['.', 'e', 'E']);
                if is_real && number > f64::from(u32::MAX) {
                    self.say(
                        "L4",
                        Severity::Error,
                        node.start,
                        key,
                        format!("{key} is {written}; with a point or an exponent it must fit into 32 bits"),
                        FATAL,
                        "Write the number with digits only.",
                    );
                    return;
                }
                let huge = sensible(key).filter(|most| number > *most as f64 && !is_unlimited(known, written));
                // The library ignores digits after the decimal point.
                let effective = number.trunc();
                // Some keys accept 0 outside of their range. 0 then disables the bounce buffers or the limit.
                let zero = effective == 0.0
                    && (key == "properties.max_device_pinned_mem_size_kb"
                        || (key == "properties.per_buffer_cache_size_kb"
                            && minor(self.around.version).is_some_and(|minor| minor < 20)));
                if !zero && (effective < low as f64 || effective > high as f64) {
                    let range = if high >= 18_014_398_509_481_980 {
                        format!("at least {low}")
                    } else {
                        format!("from {low} to {high}")
                    };
                    self.say(
                        "L4",
                        Severity::Error,
                        node.start,
                        key,
                        format!("{key} must be {range} ({source}), but is {written}"),
                        FATAL,
                        in_bytes
                            .filter(|_| effective > high as f64)
                            .unwrap_or_else(|| format!("Write a number {range}.")),
                    );
                } else if multiple > 1 && effective % multiple as f64 != 0.0 {
                    let below = (effective / multiple as f64).floor() * multiple as f64;
                    self.say(
                        "L4",
                        Severity::Error,
                        node.start,
                        key,
                        format!("{key} must be a multiple of {multiple}, but is {written}"),
                        FATAL,
                        match huge {
                            Some(most) => format!("Write a multiple of {multiple} up to {most}, or remove the key."),
                            None => format!("Write {} or {}.", below.max(low as f64), below + multiple as f64),
                        },
                    );
                } else if let Some(most) = huge {
                    self.warn(
                        "L4",
                        node,
                        key,
                        format!("{key} is {written}, more than any machine has or needs"),
                        "The library accepts it; it is probably a typing error or has another unit.",
                        in_bytes.unwrap_or_else(|| format!("Write a number up to {most}, or remove the key.")),
                    );
                } else if is_real && number == effective {
                    self.warn(
                        "L3",
                        node,
                        key,
                        format!("{key} is written as {written}, but is an integer"),
                        "libcufile accepts it up to 32 bits only.",
                        format!("Write {effective}."),
                    );
                } else if number != effective {
                    self.warn(
                        "L3",
                        node,
                        key,
                        format!("{key} is {written}, and {effective} is in effect"),
                        "libcufile cuts off digits after the point.",
                        format!("Write {effective}."),
                    );
                }
                if key == "profile.cufile_stats" && effective > 3.0 {
                    self.warn(
                        "L4",
                        node,
                        key,
                        format!("{key} is {written}; levels go from 0 to 3"),
                        "The library accepts it, but its effect is not documented.",
                        "Write 3 for everything.",
                    );
                }
            }
            Takes::Int(low, high) if number < low as f64 || number > high as f64 => self.say(
                "L4",
                Severity::Error,
                node.start,
                key,
                format!("{key} must be from {low} to {high}, but is {written}"),
                FATAL,
                format!("Write a number from {low} to {high}."),
            ),
            Takes::Signed(low, high) if number == 0.0 || number < low as f64 || number > high as f64 => {
                self.say(
                    "L4",
                    Severity::Error,
                    node.start,
                    key,
                    format!("{key} must be {low} (unlimited) or from 1 to {high}, but is {written}"),
                    FATAL,
                    "Write 32, the default.",
                );
            }
            _ => {}
        }
    }

    /// The range of a key: from the installed library if it reports one, otherwise from the table.
    pub(super) fn limits(&self, known: &Known, low: u64, high: u64) -> (u64, u64, &'static str) {
        let said = self
            .around
            .ranges
            .get(known.parameter)
            .and_then(|pair| Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_u64()?)));
        match said {
            // Before the driver is open, the library reports no upper bound for some keys: [64, 0] or [0, 0].
            Some((0, 0)) => (low, high, "documented"),
            Some((low, 0)) => (low, high, "reported by the installed library"),
            Some((low, high)) => (low, high, "reported by the installed library"),
            None if known.key == "execution.max_io_threads" && minor(self.around.version).is_some_and(|m| m < 16) => {
                (0, 32, "measured with 1.14 and 1.15")
            }
            None => (low, high, "measured with libcufile 1.20, not with the installed one"),
        }
    }
}
