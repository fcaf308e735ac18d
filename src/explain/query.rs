//! Finds the answers to a query: a code, a name, a key, an id or a line.

use super::answer::{Answer, Fact, Kind};
use super::checks;
use super::cuda_codes;
use super::keys;
use super::page;
use crate::checks::cufile_json;
use crate::checks::log_signatures::{explain_cufile, explain_kernel};
use crate::checks::{build_line, driver_line, xid};
use crate::core::engine_spec::ENGINES;
use crate::core::{FixId, Route};
use crate::fixes::guide;
use std::collections::HashSet;

/// A query that matches nothing in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The query.
    pub query: String,
    /// Similar names, the nearest first.
    pub nearest: Vec<String>,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let query = crate::text::sanitise_line(&self.query);
        write!(f, "'{query}' is not a code, key, check, fix, engine or log line that gds-top knows")?;
        let Some(first) = self.nearest.first() else { return Ok(()) };
        write!(f, "; similar: {}", self.nearest.join(", "))?;
        let is_key = cufile_json::key_names().any(|key| key == first);
        if is_key { f.write_str("; libcufile ignores unknown keys without a message") } else { Ok(()) }
    }
}

/// The maximum length of a query that is compared with names.
const LONGEST_NAME: usize = 100;
/// The maximum number of log lines that are explained.
const MOST_LINES: usize = 40;
/// Maximum number of examined characters of a line, and of different lines. A log can have any content.
const LONGEST_LINE: usize = 2_000;
const MOST_DIFFERENT_LINES: usize = 50_000;

/// The answers to a query. There are several if a number or the end of a name has several meanings.
pub fn explain(query: &str) -> Result<Vec<Answer>, Unknown> {
    let query = query.trim().trim_matches(['"', '\'', '`']);
    if let Some(answers) = super::matrix::answers(query).filter(|answers| !answers.is_empty()) {
        return Ok(answers);
    }
    if let Some(answer) = route(query) {
        return Ok(vec![answer]);
    }
    let mut answers = by_number(query).unwrap_or_else(|| by_name(query));
    if answers.is_empty() {
        answers = line(query);
    }
    if answers.is_empty() { Err(Unknown { query: query.to_owned(), nearest: nearest(query) }) } else { Ok(answers) }
}

/// The answer for the name of a route, or for the word `route`, which lists all.
fn route(query: &str) -> Option<Answer> {
    let query = query.to_lowercase();
    let named = Route::ALL.into_iter().find(|route| route.to_string() == query);
    let mut answer = match named {
        Some(route) => Answer::new(Kind::Route, query, route.meaning()),
        None if matches!(query.as_str(), "route" | "routes") => {
            Answer::new(Kind::Route, query, "a route is how bytes reach the GPU; a direct route bypasses host memory")
        }
        None => return None,
    };
    if named.is_none() {
        answer.facts.extend(Route::ALL.map(|route| Fact { name: route.as_str(), value: route.meaning().to_owned() }));
    }
    answer.how_to_check = Some("gds-top check PATH".to_owned());
    answer.advice = Some("'gds-top explain matrix' shows the routes of each GPU and storage.".to_owned());
    Some(answer)
}

/// Explains the known lines of a log. Each meaning is listed once.
#[must_use]
pub fn explain_log(text: &str) -> Vec<Answer> {
    let mut out: Vec<Answer> = Vec::new();
    let mut seen = HashSet::new();
    for text in text.lines().filter(|text| !text.trim().is_empty()) {
        let text: String = text.chars().take(LONGEST_LINE).collect();
        // Lines of a log repeat with other times and processes, which are in brackets or before them.
        let message = text.split_once(']').map_or(text.as_str(), |(_, message)| message);
        if !seen.insert(message.to_owned()) {
            continue;
        }
        for answer in line(&text) {
            if !out.iter().any(|known| known.meaning == answer.meaning) {
                out.push(answer);
            }
        }
        if out.len() >= MOST_LINES || seen.len() >= MOST_DIFFERENT_LINES {
            break;
        }
    }
    out.truncate(MOST_LINES);
    out
}

/// The answers if the query is a number.
fn by_number(query: &str) -> Option<Vec<Answer>> {
    let code: i32 = query.parse().ok()?;
    let system = page::system_error(code);
    let cuda = page::cuda_code(code.checked_abs()?);
    let mut out: Vec<Answer> = page::cufile_code(code).into_iter().collect();
    // A negative number below 5000 is a system error. A positive one is more likely a CUDA code.
    if code < 0 {
        out.extend(system.or_else(|| page::other_system_error(code)));
        if out.is_empty() {
            out.extend(cuda);
        }
    } else {
        out.extend(cuda.into_iter().chain(system));
    }
    Some(out)
}

/// The answers for the name of a code, key, variable, check, fix or engine. The end of a key is sufficient.
fn by_name(query: &str) -> Vec<Answer> {
    let upper = query.to_uppercase().replace('-', "_");
    let cufile = cufile_ffi::codes::known().chain(
        [(5050, cufile_ffi::codes::describe(5050, None))].into_iter().filter_map(|(code, known)| Some((code, known?))),
    );
    let mut out: Vec<Answer> = cufile
        .filter(|(_, known)| known.name == upper || known.name.strip_prefix("CU_FILE_") == Some(&upper))
        .filter_map(|(code, _)| page::cufile_code(code))
        .collect();
    let same = |name: &str| !name.is_empty() && name.eq_ignore_ascii_case(query);
    let cuda = cuda_codes::CODES
        .iter()
        .filter(|row| same(row.1) || same(row.2) || (row.0 != 0 && row.1.strip_prefix("CUDA_ERROR_") == Some(&upper)));
    out.extend(cuda.filter_map(|row| page::cuda_code(row.0)));
    out.extend(page::SYSTEM.iter().filter(|row| row.1 == upper).filter_map(|row| page::system_error(row.0)));
    out.extend(page::check(query));
    out.extend(page::fix(query));
    out.extend(page::checklist(query));
    out.extend(page::engine(query));
    out.extend(by_key(query));
    out.extend(page::position(query));
    out
}

fn by_key(query: &str) -> Vec<Answer> {
    // A line of a cufile.json has the key before its value.
    let is_value = |text: &str| {
        let text = text.trim().trim_end_matches(',');
        matches!(text, "{" | "[") || serde_json::from_str::<serde_json::Value>(text).is_ok()
    };
    let query = query.split_once(':').filter(|(_, value)| is_value(value)).map_or(query, |(name, _)| name.trim_end());
    let written = query.trim_end_matches(':').trim_matches('"');
    let mut meant = cufile_json::meant_by(written).filter(|meant| !meant.is_empty());
    let mut found = keys_of(meant.unwrap_or(written));
    if found.is_empty() {
        let misnamed = ["properties", "profile"].map(|section| format!("{section}.{written}"));
        let in_section = misnamed.iter().find_map(|key| cufile_json::meant_by(key)).filter(|meant| !meant.is_empty());
        meant = in_section.or_else(|| cufile_json::key_instead_of(written));
        found.extend(meant);
    }
    let answers = found.into_iter().filter_map(page::key);
    match meant {
        Some(meant) => answers.map(|answer| page::instead_of(written, meant, answer)).collect(),
        None => answers.collect(),
    }
}

/// The keys and variables with this name, with this end of their name, or in the section of this name.
fn keys_of(name: &str) -> Vec<&str> {
    if keys::of(name).is_some() {
        return vec![name];
    }
    let ends = |key: &str| key.strip_suffix(name).is_some_and(|before| before.ends_with('.'));
    let mut found: Vec<&str> = cufile_json::key_names().filter(|key| ends(key)).collect();
    if found.is_empty() && !name.is_empty() {
        let is_in = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        found = cufile_json::key_names().filter(|key| is_in(key)).collect();
    }
    found
}

/// The answers for a log line: from the checks, from this module, and for the codes in it.
fn line(text: &str) -> Vec<Answer> {
    let text = text.trim();
    let mut out: Vec<Answer> = explain_cufile(text).iter().chain(&explain_kernel(text)).map(page::known_line).collect();
    // The names of this table are more specific than those of the table for nvidia-fs.
    if let Some(known) = driver_line(text) {
        out = vec![page::driver_line(text, known)];
    }
    if let Some(number) = xid::number(text) {
        out = vec![page::xid(text, number)];
    }
    if let Some(error) = xid::switch_error(text) {
        out = vec![page::switch_error(text, error)];
    }
    if out.is_empty() {
        out.extend(super::lines::of(text).map(|row| page::other_line(text, row)));
    }
    if out.is_empty() {
        out.extend(super::modules::answer(text));
    }
    if out.is_empty() {
        out.extend(build_line(text).map(|known| page::build_line(text, known)));
    }
    for answer in codes_in(text) {
        if !out.contains(&answer) {
            out.push(answer);
        }
    }
    out
}

/// Words that precede a number that is not a code.
const NOT_CODES: &[&str] = &["pid", "tid", "line", "port", "size", "offset", "fd", "gpu", "index", "tensor", "bytes"];
/// Words that precede a CUDA code.
const CODE_WORDS: &[&str] =
    &["error", "errornum", "err", "code", "cuda", "cuerr", "cu", "status", "curesult", "rc", "ret"];

/// The codes in a line, by name or number.
fn codes_in(text: &str) -> Vec<Answer> {
    let lower = text.to_lowercase();
    let about_errors = ["err", "fail", "code", "status", "cufile"].iter().any(|word| lower.contains(word));
    let words: Vec<&str> = text
        .split_whitespace()
        .filter(|part| !is_position(part))
        .flat_map(|part| part.split(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c))))
        .filter(|word| !word.is_empty())
        .collect();
    let mut out: Vec<Answer> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map_or_else(String::new, |at| words[at].to_lowercase().replace('_', ""));
        let found = match word.parse::<i32>() {
            // Transfers return negative cuFile codes. Other negative numbers are system errors.
            Ok(code) if (5001..=5050).contains(&code.saturating_abs()) || (6001..=6002).contains(&code) => {
                page::cufile_code(code).filter(|_| about_errors && !NOT_CODES.contains(&before.as_str()))
            }
            Ok(code) if code > 0 && (CODE_WORDS.contains(&before.as_str()) || before == "5011") => {
                page::cuda_code(code)
            }
            Ok(_) => None,
            Err(_)
                if word.starts_with("CU_FILE_") || word.starts_with("CUDA_ERROR_") || word.starts_with("cudaError") =>
            {
                by_name(word).into_iter().next().filter(|answer| answer.code != Some(0))
            }
            Err(_) => None,
        };
        out.extend(found.filter(|answer| !out.contains(answer)));
    }
    out
}

/// Whether a part of a line is a position in a source file, such as `main.cu:12`.
fn is_position(part: &str) -> bool {
    const ENDINGS: [&str; 8] = [".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp", ".py"];
    part.split_once([':', '(']).is_some_and(|(file, rest)| {
        ENDINGS.iter().any(|ending| file.ends_with(ending)) && rest.starts_with(|first: char| first.is_ascii_digit())
    })
}

/// At most three names that are similar to a query.
fn nearest(query: &str) -> Vec<String> {
    let query = query.to_lowercase();
    if query.len() > LONGEST_NAME || query.len() < 3 {
        return Vec::new();
    }
    let cufile = cufile_ffi::codes::known().map(|(_, known)| known.name);
    let cuda = cuda_codes::CODES.iter().flat_map(|row| [row.1, row.2]);
    let names = cufile
        .chain(cuda)
        .chain(checks::pages().map(|page| page.id))
        .chain(FixId::ALL.iter().map(|id| id.as_str()).chain([guide::ID]))
        .chain(ENGINES.iter().map(|spec| spec.name))
        .chain(Route::ALL.map(Route::as_str))
        .chain(keys::KEYS.iter().chain(keys::VARIABLES).chain(keys::OTHER_VARIABLES).map(|row| row.0));
    let mut near: Vec<(f64, &str)> = names
        .filter(|name| !name.is_empty())
        .map(|name| {
            let lower = name.to_lowercase();
            // Users often type only the end of a name: `io_batchsize`, `INTERNAL_ERROR`.
            let end = lower.rsplit('.').next().unwrap_or(&lower);
            let end = end.strip_prefix("cu_file_").or_else(|| end.strip_prefix("cuda_error_")).unwrap_or(end);
            (strsim::jaro_winkler(&query, &lower).max(strsim::jaro_winkler(&query, end)), name)
        })
        .filter(|(score, _)| *score > 0.82)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.dedup_by_key(|(_, name)| *name);
    near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}
