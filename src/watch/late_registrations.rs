//! Registrations of files whose description or handle was read from memory after the call had returned. A program
//! seldom changes this memory before its next registration, so the values count unless a later registration uses the
//! same memory.

/// The sizes of `CUfileDescr_t` and of a handle in bytes.
const DESCRIPTION_BYTES: u64 = 24;
const HANDLE_BYTES: u64 = 8;
/// Maximum time in which a program fills the description of its next registration before the call, in nanoseconds.
const FILLED_NS: u64 = 1_000_000;
/// Time after which all entries until then have been read.
const READ_NS: u64 = 2_000_000_000;
/// Maximum number of registrations that are kept.
const MOST: usize = 64;

/// A registration that was read late.
#[derive(Debug)]
struct Late {
    process: u32,
    /// The addresses of its handle and its description.
    places: [u64; 2],
    /// The time in nanoseconds until which they were read.
    read_ns: u64,
}

impl Late {
    fn overlaps(&self, places: [u64; 2]) -> bool {
        let ranges = |[handle, description]: [u64; 2]| {
            [(handle, HANDLE_BYTES), (description, DESCRIPTION_BYTES)].map(|(at, size)| (at, at.saturating_add(size)))
        };
        let others = ranges(places);
        ranges(self.places).iter().any(|own| others.iter().any(|other| own.0 < other.1 && other.0 < own.1))
    }
}

/// The registrations that were read late.
#[derive(Debug, Default)]
pub(super) struct LateRegistrations(Vec<Late>);

impl LateRegistrations {
    /// Adds a registration with the addresses of its handle and its description, which were read until `read_ns`.
    /// Returns whether its values count if no later registration uses the memory.
    pub(super) fn add(&mut self, process: u32, places: [u64; 2], read_ns: u64) -> bool {
        self.0.retain(|late| read_ns.saturating_sub(late.read_ns) < READ_NS);
        let has_room = self.0.len() < MOST;
        if has_room {
            self.0.push(Late { process, places, read_ns });
        }
        has_room
    }

    /// Processes the entry of a registration. Returns the number of earlier ones of which the values may be those of
    /// this one.
    pub(super) fn begin(&mut self, process: u32, places: [u64; 2], at_ns: u64) -> u64 {
        let before = self.0.len();
        self.0.retain(|late| {
            let may_be_its = late.read_ns.saturating_add(FILLED_NS) >= at_ns;
            late.process != process || !may_be_its || !late.overlaps(places)
        });
        (before - self.0.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_registration_in_the_same_memory_takes_the_values_of_an_earlier_one() {
        let lost = |process, places, at_ns| {
            let mut late = LateRegistrations::default();
            assert!(late.add(7, [0x1000, 0x2000], 5_000_000));
            (late.begin(process, places, at_ns), late.begin(7, [0x1000, 0x2000], 5_000_000))
        };
        assert_eq!(lost(7, [0x1000, 0x3000], 4_000_000), (1, 0));
        assert_eq!(lost(7, [0x3000, 0x2010], 5_500_000), (1, 0));
        assert_eq!(lost(7, [0x2008, 0x3000], 5_500_000), (1, 0));
        // Other memory, another process, and a call after the program had time to fill the description.
        assert_eq!(lost(7, [0x1008, 0x2018], 4_000_000), (0, 1));
        assert_eq!(lost(8, [0x1000, 0x2000], 4_000_000), (0, 1));
        assert_eq!(lost(7, [0x1000, 0x2000], 6_000_001), (0, 1));
    }

    #[test]
    fn the_number_of_registrations_is_limited_until_their_time_is_over() {
        let mut late = LateRegistrations::default();
        let added = |late: &mut LateRegistrations, at_ns| late.add(7, [0x1000, 0x2000], at_ns);
        assert!((0..MOST).all(|_| added(&mut late, 5)) && !added(&mut late, 5));
        assert!(added(&mut late, 5 + READ_NS) && late.0.len() == 1);
    }
}
