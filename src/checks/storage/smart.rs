//! Checks the health that NVMe disks report (SMART log, log page 2). `nvme smart-log` of nvme-cli reads it and needs
//! root.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Judged, Scope};
use crate::core::CheckId;
use crate::machine;
use serde_json::Value;
use std::collections::BTreeSet;

const ID: CheckId = CheckId::NvmeHealth;

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    for (number, subject) in ctx.subjects.iter().enumerate() {
        let Some(facts) = &subject.facts else { continue };
        let controllers: BTreeSet<String> =
            machine::disks(facts).iter().filter_map(|disk| machine::nvme_controller(&disk.name)).collect();
        out.extend(controllers.iter().map(|name| of_controller(ctx, name).of(Scope::Path(number))));
    }
    out
}

fn of_controller(ctx: &Context<'_>, controller: &str) -> Judged {
    let device = format!("/dev/{controller}");
    let argv = ["nvme", "smart-log", &device, "--output-format=json"];
    let output = ctx.root.command(&argv);
    let why = output.as_ref().map_or("nvme-cli is not installed or gave no result", |output| match output.exit_code {
        Some(0) => "the output is not JSON",
        _ => "nvme-cli reports a failure; it needs root",
    });
    let log = output
        .filter(|output| output.exit_code == Some(0))
        .and_then(|output| serde_json::from_str::<Value>(&output.stdout).ok());
    match log {
        Some(log) => judged(controller, &Health::of(&log)).found(argv.join(" "), said(&log)),
        None => Judged::na(ID, format!("the health of {controller} was not read"))
            .found(argv.join(" "), why)
            .advice(Advice::run(format!("sudo nvme smart-log {device}"))),
    }
}

/// The values of the log that show wear and failures.
#[derive(Debug, Default, PartialEq, Eq)]
struct Health {
    /// Bits of the critical warning: spare, temperature, reliability, read-only, volatile memory.
    warning: u64,
    used_percent: u64,
    spare_percent: Option<u64>,
    spare_threshold_percent: u64,
    media_errors: u64,
}

impl Health {
    /// nvme-cli 1 and 2 have different names for the wear. With `-v` the warning is an object, and large counters are
    /// strings.
    fn of(log: &Value) -> Self {
        let number = |name: &str| {
            let value = log.get(name)?;
            let value = value.get("value").unwrap_or(value);
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        };
        Self {
            warning: number("critical_warning").unwrap_or(0),
            used_percent: number("percent_used").or_else(|| number("percentage_used")).unwrap_or(0),
            spare_percent: number("avail_spare").or_else(|| number("available_spare")),
            spare_threshold_percent: number("spare_thresh").unwrap_or(0),
            media_errors: number("media_errors").unwrap_or(0),
        }
    }
}

fn judged(controller: &str, health: &Health) -> Judged {
    let spare_is_low = health.spare_percent.is_some_and(|spare| spare < health.spare_threshold_percent);
    let trouble = match health {
        Health { warning: 1.., .. } => Some(format!("reports the critical warning {:#x}", health.warning)),
        Health { media_errors: 1.., .. } => Some(format!("counts {} media errors", health.media_errors)),
        _ if spare_is_low => Some("has less spare capacity than its threshold".to_owned()),
        Health { used_percent: 100.., .. } => {
            Some(format!("is worn: {} % of its rated life is used", health.used_percent))
        }
        _ => None,
    };
    match trouble {
        Some(trouble) => Judged::warn(ID, format!("{controller} {trouble}"))
            .advice("Save the data, and plan to replace the disk. Its rates may already be lower."),
        None => {
            Judged::pass(ID, format!("{controller} is healthy, {} % of its rated life is used", health.used_percent))
        }
    }
}

/// The values of the log in one line.
fn said(log: &Value) -> String {
    ["critical_warning", "percent_used", "percentage_used", "avail_spare", "spare_thresh", "media_errors"]
        .iter()
        .filter_map(|name| Some(format!("{name} {}", log.get(name)?)))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::Status;
    use serde_json::json;

    #[test]
    fn smart_log_is_parsed_in_both_formats() {
        let status = |log: Value| judged("nvme0", &Health::of(&log)).finding.status;
        assert_eq!(
            status(json!({"critical_warning": 0, "percent_used": 3, "avail_spare": 100, "spare_thresh": 10})),
            Status::Pass
        );
        assert_eq!(status(json!({"critical_warning": {"value": 4}, "percent_used": 3})), Status::Warn);
        assert_eq!(status(json!({"percentage_used": 104})), Status::Warn);
        assert_eq!(status(json!({"avail_spare": 5, "spare_thresh": 10})), Status::Warn);
        assert_eq!(status(json!({"media_errors": "12"})), Status::Warn);
        assert_eq!(status(json!({})), Status::Pass);
    }
}
