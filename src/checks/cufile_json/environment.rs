//! Problems in the environment variables that libcufile reads.

use super::known::minor;
use super::nearest::distance;
use super::types::{Linted, Problem, Severity};
use crate::machine::Root;

/// The values that a variable accepts.
#[derive(Clone, Copy)]
enum Takes {
    /// Only the word `true`, in upper or lower case, counts as true (measured with 1.14 and 1.20).
    Switch,
    /// true, false, 1 or 0.
    Either,
    /// An integer in the range from the first to the second number.
    Number(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// The path of a file. A directory is an error.
    File,
    /// Any value. It is not checked.
    Any,
}

/// The name, the accepted values, and the first and last release 1.x that reads it (0 for no bound).
type Row = (&'static str, Takes, u32, u32);

pub(super) const LEVELS: &[&str] = &["NOTICE", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
const VARIABLES: &[Row] = &[
    ("CUFILE_ENV_PATH_JSON", Takes::Any, 0, 0),
    ("CUFILE_LOGFILE_PATH", Takes::File, 0, 0),
    ("CUFILE_LOGFILE_MAX_SIZE_MB", Takes::Any, 18, 0),
    ("CUFILE_LOGGING_LEVEL", Takes::Word(LEVELS), 0, 0),
    ("CUFILE_STATS_LEVEL", Takes::Number(0, 3), 18, 0),
    ("CUFILE_FORCE_COMPAT_MODE", Takes::Switch, 0, 0),
    ("CUFILE_ALLOW_COMPAT_MODE", Takes::Switch, 0, 16),
    ("CUFILE_NVTX", Takes::Any, 0, 15),
    ("CUFILE_USE_PCIP2PDMA", Takes::Switch, 0, 0),
    ("CUFILE_DMABUF_ENABLE", Takes::Any, 0, 0),
    ("CUFILE_IO_PRIORITY", Takes::Word(&["default", "low", "med", "high"]), 0, 0),
    ("CUFILE_MAX_DEVICE_CACHE_SIZE", Takes::Number(0, u64::MAX), 0, 0),
    ("CUFILE_PER_BUFFER_CACHE_SIZE", Takes::Number(0, u64::MAX), 0, 0),
    ("CUFILE_SKIP_TOPOLOGY_DETECTION", Takes::Any, 0, 0),
    ("CUFILE_STREAM_MEMOPS_BYPASS", Takes::Any, 0, 0),
    ("CUFILE_VISIBLE_DEVICES", Takes::Any, 20, 0),
    ("CUFILE_RDMA_DC_KEY", Takes::Any, 0, 0),
    ("CUFILE_IB_SL", Takes::Any, 0, 0),
    ("CUFILE_ETH_SL", Takes::Any, 0, 0),
    ("CUFILE_RDMA_ALLOW_RDMA_TOKEN_RESET", Takes::Either, 20, 0),
    ("CUFILE_RDMA_TOKEN_RESET_TIMEOUT_SECS", Takes::Number(1, u64::MAX), 20, 0),
    ("CUFILE_EXPERIMENTAL_FS", Takes::Any, 0, 0),
    ("CUFILE_SKIP_BUFFER_VALIDITY_CHECK", Takes::Any, 20, 0),
];

/// Variables of guides that libcufile does not read, and their replacements.
const WITHOUT_EFFECT: [(&str, &str); 1] = [("CUFILE_DEBUG", "CUFILE_LOGGING_LEVEL=DEBUG")];

/// The names of all variables.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().map(|row| row.0)
}

/// The label of the environment in the list of files.
pub const PLACE: &str = "environment";

/// Lints the environment variables of the machine. `None` if there are no problems.
pub(crate) fn lint_environment(root: &Root, version: Option<(u32, u32)>) -> Option<Linted> {
    let environment = root.environment();
    let mut problems = Vec::new();
    let mut say = |name: &str, severity, what: String, why: &str, todo: String| {
        problems.push(Problem {
            rule: "ENV".to_owned(),
            severity,
            line: 1,
            column: 1,
            key: Some(name.to_owned()),
            what,
            why: why.to_owned(),
            todo,
        });
    };
    for (name, value) in environment.iter().filter(|(name, _)| name.starts_with("CUFILE_")) {
        let Some((_, takes, since, until)) = VARIABLES.iter().find(|row| row.0 == name) else {
            if let Some((_, instead)) = WITHOUT_EFFECT.iter().find(|(known, _)| known == name) {
                say(
                    name,
                    Severity::Warning,
                    format!("{name} has no effect, although guides name it"),
                    "libcufile 1.11 to 1.20 do not contain this name.",
                    format!("Use {instead}."),
                );
                continue;
            }
            let near = VARIABLES.iter().map(|row| (distance(name, row.0), row.0)).min();
            let near = near.filter(|(changed, _)| *changed <= 4).map(|(_, near)| near);
            say(
                name,
                Severity::Warning,
                format!("{name} is not a known variable of libcufile"),
                "libcufile ignores unknown variables without a message.",
                near.map_or_else(|| "Unset it.".to_owned(), |near| format!("Check the name; a similar one is {near}.")),
            );
            continue;
        };
        if let Some(release) = minor(version)
            && (release < *since || (*until > 0 && release > *until))
        {
            let when = if release < *since { format!("from 1.{since} on") } else { format!("up to 1.{until}") };
            say(
                name,
                Severity::Warning,
                format!("{name} has no effect: libcufile reads it only {when}"),
                "The installed library ignores it.",
                if name == "CUFILE_ALLOW_COMPAT_MODE" {
                    "Set properties.allow_compat_mode in a file that CUFILE_ENV_PATH_JSON names.".to_owned()
                } else {
                    "Unset it, or install a libcufile that reads it.".to_owned()
                },
            );
            continue;
        }
        let lower = value.to_ascii_lowercase();
        match takes {
            _ if value.is_empty() => {}
            Takes::Switch if !matches!(lower.as_str(), "true" | "false") => say(
                name,
                Severity::Warning,
                format!("{name}={value} counts as false: libcufile accepts only true"),
                "libcufile treats 1, yes and on as false.",
                "Write true, or unset it.".to_owned(),
            ),
            Takes::Either if !matches!(lower.as_str(), "true" | "false" | "1" | "0") => say(
                name,
                Severity::Warning,
                format!("{name}={value} is neither TRUE, FALSE, 1 nor 0"),
                "libcufile ignores it.",
                "Write TRUE or FALSE.".to_owned(),
            ),
            Takes::Number(low, high) if !value.trim().parse::<u64>().is_ok_and(|n| (*low..=*high).contains(&n)) => {
                let range =
                    if *high == u64::MAX { format!("of at least {low}") } else { format!("from {low} to {high}") };
                say(
                    name,
                    Severity::Warning,
                    format!("{name}={value} is not an integer {range}"),
                    "libcufile rejects it, at most with a message in its log.",
                    format!("Write an integer {range}."),
                );
            }
            Takes::Word(words) if !words.contains(&value.as_str()) => say(
                name,
                Severity::Warning,
                format!("{name}={value} is not one of {}", words.join(", ")),
                "libcufile ignores it.",
                "Write one of them, exactly as shown.".to_owned(),
            ),
            Takes::Word(_) if matches!(value.as_str(), "DEBUG" | "TRACE") => say(
                name,
                Severity::Warning,
                format!("{name} is {value}"),
                "Writing the log slows down every read and distorts measurements.",
                "Unset it after you have found the cause.".to_owned(),
            ),
            // A path that has entries is a directory.
            Takes::File if root.entries(value).is_ok() => say(
                name,
                Severity::Warning,
                format!("{name} names the directory {value}, but must name a file"),
                "The log cannot be written, and the reasons for fallbacks are lost.",
                format!("Write {}/cufile.log.", value.trim_end_matches('/')),
            ),
            _ => {}
        }
    }
    visible(&environment, &mut say);
    (!problems.is_empty()).then(|| Linted { path: PLACE.to_owned(), problems })
}

/// The GPUs of `CUFILE_VISIBLE_DEVICES` must be visible to CUDA.
fn visible(
    environment: &std::collections::BTreeMap<String, String>,
    say: &mut dyn FnMut(&str, Severity, String, &str, String),
) {
    const NAME: &str = "CUFILE_VISIBLE_DEVICES";
    let (Some(ours), Some(cuda)) = (environment.get(NAME), environment.get("CUDA_VISIBLE_DEVICES")) else { return };
    let list = |text: &str| text.split(',').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect();
    let (ours, cuda): (Vec<String>, Vec<String>) = (list(ours), list(cuda));
    // A number in one variable and a UUID in the other cannot be compared.
    let numbers = |ids: &[String]| ids.iter().all(|id| id.bytes().all(|b| b.is_ascii_digit()));
    if numbers(&ours) != numbers(&cuda) || cuda.is_empty() {
        return;
    }
    let outside: Vec<&str> = ours.iter().filter(|id| !cuda.contains(id)).map(String::as_str).collect();
    if !outside.is_empty() {
        say(
            NAME,
            Severity::Warning,
            format!("{NAME} names {}, but CUDA_VISIBLE_DEVICES hides it", outside.join(", ")),
            "cuFile can use only GPUs that CUDA shows to the program.",
            "Name the same GPUs in both, or unset one.".to_owned(),
        );
    }
}
