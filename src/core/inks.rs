//! The eleven colours and the markers of the runs in a session, and the numbers of engines without a fixed colour.

use super::engine::Engine;

/// The colours for engines without a fixed one. The first ones are distinct in every theme. `Engine::place` defines
/// the indices.
const ORDER: [usize; 10] = [1, 0, 5, 4, 3, 6, 2, 8, 9, 7];
/// The index of the colour `command` in theme files.
const OUTSIDE: usize = 10;

/// The colours of the runs in a session. An engine with a fixed name always has the same colour. Commands, loaders
/// and workloads get the colours that no engine of the session uses, in the order in which they were planned. Writes
/// and reads of one variant of a workload have the same colour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneInks {
    others: Vec<(String, usize)>,
}

impl LaneInks {
    /// Assigns colours to these engines, in the order in which they were planned.
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
                // The first command has the colour `command` of the theme files.
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

    /// The index of an engine's colour among the eleven.
    #[must_use]
    pub fn place(&self, engine: &Engine) -> usize {
        self.other(engine).and_then(|number| Some(self.others.get(number)?.1)).unwrap_or_else(|| engine.place())
    }

    /// The number of an engine without a fixed colour, from 0. `None` for other engines.
    #[must_use]
    pub fn other(&self, engine: &Engine) -> Option<usize> {
        if engine.place() < OUTSIDE {
            return None;
        }
        let key = key(engine);
        self.others.iter().position(|(known, _)| *known == key)
    }

    /// The marker of an engine, which distinguishes it in addition to its colour.
    #[must_use]
    pub fn marker(&self, engine: &Engine) -> char {
        const OTHERS: [char; 8] = ['△', '▽', '▷', '◁', '◊', '◎', '▣', '◐'];
        self.other(engine).map_or_else(|| marker(engine), |number| OTHERS[number % OTHERS.len()])
    }

    /// Whether every engine of the session has a fixed colour.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.others.is_empty()
    }
}

/// The marker of an engine. It depends only on the engine's name.
fn marker(engine: &Engine) -> char {
    match engine {
        Engine::Mmap => '○',
        Engine::Pread => '■',
        Engine::Odirect => '◆',
        Engine::GdsPerTensor => '▼',
        Engine::GdsBounce => '◇',
        Engine::GdsSlab => '●',
        Engine::GdsBatch => '★',
        Engine::GdsStream => '◈',
        Engine::Nixl(_) => '□',
        Engine::Auto => '☆',
        Engine::Command(_) | Engine::Loader(_) => '△',
        Engine::Workload(_) => '▽',
    }
}

/// The name of an engine without the direction of its workload.
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
    fn engines_of_one_race_have_different_constant_colours() {
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
