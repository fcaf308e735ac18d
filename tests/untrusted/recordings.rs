//! Tests recordings. They also contain everything that run frames send, because both consist of the same events.

use crate::{HOSTILE, coloured, exported, plain};
use gds_top::core::Event;
use gds_top::report::{self, Format};
use gds_top::session::{State, recording};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Small recordings that together contain all kinds of events.
const RECORDINGS: [&str; 5] =
    ["h200-no-udev", "h200-hot-qwen3-0.6b", "h200-kv-ucm-layers", "h200-kv-no-library", "h200-io"];

/// The strings of a value, each with its path. Indices of lists are left out, so that all rows have the same paths.
fn strings(value: &mut Value, place: &str, each: &mut dyn FnMut(&str, &mut String)) {
    match value {
        Value::String(text) => each(place, text),
        Value::Array(list) => list.iter_mut().for_each(|value| strings(value, &format!("{place}/*"), each)),
        Value::Object(map) => {
            map.iter_mut().for_each(|(key, value)| strings(value, &format!("{place}/{key}"), each));
        }
        _ => {}
    }
}

/// Adds the hostile string before or after each string of an event that accepts it.
struct Planter {
    before: bool,
    /// Whether the strings at a path accept it. Names of variants do not, because such an event is rejected when it
    /// is read.
    accepts: BTreeMap<String, bool>,
}

impl Planter {
    fn planted(&self, text: &str) -> String {
        if self.before { format!("{HOSTILE}{text}") } else { format!("{text}{HOSTILE}") }
    }

    fn event(&mut self, event: &Event) -> Event {
        let value = serde_json::to_value(event).unwrap();
        let kind = value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(",");
        let named = |place: &str| format!("{kind}{place}");
        let mut places = Vec::new();
        strings(&mut value.clone(), "", &mut |place, _| places.push(place.to_owned()));
        places.sort();
        places.dedup();
        for place in places {
            if !self.accepts.contains_key(&named(&place)) {
                let mut one = value.clone();
                strings(&mut one, "", &mut |at, text| {
                    if at == place {
                        *text = self.planted(text);
                    }
                });
                self.accepts.insert(named(&place), serde_json::from_value::<Event>(one).is_ok());
            }
        }
        let mut all = value;
        strings(&mut all, "", &mut |place, text| {
            if self.accepts[&named(place)] {
                *text = self.planted(text);
            }
        });
        serde_json::from_value(all).unwrap_or_else(|_| event.clone())
    }
}

#[test]
fn no_field_of_a_recording_commands_a_terminal_or_is_a_formula() {
    let cases = RECORDINGS.map(|name| [(name, false), (name, true)]).concat();
    let all = crate::spread::spread(&cases, |&(name, before)| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("assets/recordings/{name}.gdsrec"));
        let mut planter = Planter { before, accepts: BTreeMap::new() };
        let mut state = State::default();
        for event in recording::read(&path).unwrap() {
            state.reduce(&planter.event(&event.unwrap()));
        }
        let places = planter.accepts.values().filter(|accepts| **accepts).count();
        let what = format!("{name}, before: {before}");
        let mut arrived = Vec::new();
        if plain(&what, &report::text(&state, 100, false)) {
            arrived.push("text".to_owned());
        }
        if coloured(&what, &report::text(&state, 100, true)) {
            arrived.push("coloured".to_owned());
        }
        let folder = tempfile::tempdir().unwrap();
        let all =
            [Format::Json, Format::Markdown, Format::Html, Format::Csv, Format::Trace, Format::Prom, Format::Junit];
        report::export(&state, folder.path(), &all).unwrap();
        arrived.extend(exported(&what, folder.path()));
        (places, arrived)
    });
    let places: usize = all.iter().map(|(places, _)| places).sum();
    let arrived: BTreeSet<&str> = all.iter().flat_map(|(_, arrived)| arrived).map(String::as_str).collect();
    assert!(places > 100, "only {places} places took the string");
    for form in [
        "text",
        "coloured",
        "report.json",
        "report.md",
        "report.html",
        "runs.csv",
        "gds-top.prom",
        "trace.json",
        "junit.xml",
    ] {
        assert!(arrived.contains(form), "the string did not arrive in {form}: {arrived:?}");
    }
}
