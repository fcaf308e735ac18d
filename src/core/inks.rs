//! The colours of a session's lanes, out of eleven, and the numbers of lanes without a fixed colour.

use super::Engine;

/// The colours for lanes without a fixed one, beginning with those that are distinct in every theme; `Engine::place`
/// numbers them.
const ORDER: [usize; 10] = [1, 0, 5, 4, 3, 6, 2, 8, 9, 7];
/// The colour that a palette calls `command`.
const OUTSIDE: usize = 10;

/// The colours of a session's lanes. An engine with a fixed name always has the same; commands, loaders and the lanes
/// of workloads get the colours that the session's engines leave free, in the order in which they were planned.
/// Writes and reads of one variant of a workload have the same colour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneInks {
    others: Vec<(String, usize)>,
}

impl LaneInks {
    /// The colours for these lanes, in the order in which they were planned.
    #[must_use]
    pub fn of<'e>(engines: impl IntoIterator<Item = &'e Engine>) -> Self {
        let (mut taken, mut others) = ([false; OUTSIDE + 1], Vec::new());
        for engine in engines {
            let place = engine.place();
            if place < OUTSIDE {
                taken[place] = true;
                continue;
            }
            let key = key(engine);
            if !others.iter().any(|(known, _)| *known == key) {
                others.push((key, engine.is_outside()));
            }
        }
        let free = |place: &usize| !taken[*place];
        let mut pool: Vec<usize> = ORDER.into_iter().filter(free).collect();
        pool.extend(ORDER.into_iter().filter(|place| taken[*place]));
        let (mut next, mut command) = (0, false);
        let others = others
            .into_iter()
            .map(|(key, outside)| {
                // The first command keeps the colour that has its name in theme files.
                if outside && !command {
                    command = true;
                    return (key, OUTSIDE);
                }
                next += 1;
                (key, pool[(next - 1) % pool.len()])
            })
            .collect();
        Self { others }
    }

    /// The place of an engine's colour among the eleven.
    #[must_use]
    pub fn place(&self, engine: &Engine) -> usize {
        self.other(engine).and_then(|number| Some(self.others.get(number)?.1)).unwrap_or_else(|| engine.place())
    }

    /// The number, from 0, among the lanes without a fixed colour.
    #[must_use]
    pub fn other(&self, engine: &Engine) -> Option<usize> {
        if engine.place() < OUTSIDE {
            return None;
        }
        let key = key(engine);
        self.others.iter().position(|(known, _)| *known == key)
    }

    /// Whether every lane has the colour of its name.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.others.is_empty()
    }
}

/// A lane without its direction.
fn key(engine: &Engine) -> String {
    match engine {
        Engine::Workload(lane) => lane.without_direction(),
        _ => engine.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn lane(name: &str) -> Engine {
        Engine::Workload(name.parse().unwrap())
    }

    #[test]
    fn lanes_of_a_workload_have_colours_of_their_own_the_same_in_both_directions() {
        let lanes: Vec<Engine> =
            ["ucm/gds/write", "ucm/disk/write", "ucm/ram/write", "ucm/gds/read", "ucm/disk/read"].map(lane).to_vec();
        let inks = LaneInks::of(&lanes);
        let mut places: Vec<usize> = lanes[..3].iter().map(|l| inks.place(l)).collect();
        assert_eq!(inks.place(&lanes[0]), inks.place(&lanes[3]));
        assert_eq!((inks.other(&lanes[1]), inks.other(&lanes[4])), (Some(1), Some(1)));
        places.dedup();
        assert_eq!(places.len(), 3);
    }

    #[test]
    fn an_engine_keeps_its_colour_and_lends_it_to_nobody_who_races_beside_it() {
        let command = |line: &str| Engine::Command(line.into());
        let lanes = [Engine::Mmap, Engine::Pread, command("one"), command("two"), command("three")];
        let inks = LaneInks::of(&lanes);
        let places: Vec<usize> = lanes.iter().map(|l| inks.place(l)).collect();
        assert_eq!(places, [0, 1, 10, 5, 4]);
        assert_eq!((inks.other(&lanes[0]), inks.other(&lanes[3])), (None, Some(1)));
        assert_eq!(LaneInks::default().place(&lane("ucm/gds/read")), 10);
        assert!(LaneInks::of(&lanes[..2]).is_plain());
    }

    #[test]
    fn more_lanes_than_colours_begin_again() {
        let lanes: Vec<Engine> = (0..23).map(|i| lane(&format!("ucm/gds:handle_cache={i}/read"))).collect();
        let inks = LaneInks::of(&lanes);
        assert!(lanes.iter().all(|l| inks.place(l) <= 10));
        assert_eq!(inks.place(&lanes[0]), inks.place(&lanes[10]));
    }
}
