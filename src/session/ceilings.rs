//! Which measured ceiling bounds a run.

use super::state::State;
use crate::domain::{CacheState, Ceiling, CeilingKind, Target};

impl State {
    /// The lowest measured ceiling of a load: cold, the device's read rate; hot, that of the page cache or of pinned copies. `None` where none was
    /// measured, and for a cache as it is found, whose reads come from both.
    #[must_use]
    pub fn ceiling(&self, cache: CacheState, target: &Target, model: &str) -> Option<&Ceiling> {
        self.ceilings
            .iter()
            .filter(|c| match c.kind {
                CeilingKind::PinnedCopy => copies_to(c, target) && cache != CacheState::AsIs,
                CeilingKind::DirectRead => cache == CacheState::Cold && c.model.as_deref() == Some(model),
                CeilingKind::CachedRead => cache == CacheState::Hot && c.model.as_deref() == Some(model),
            })
            .filter(|c| c.bytes_per_s.is_finite() && c.bytes_per_s > 0.0)
            .min_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))
    }

    pub(super) fn put_ceiling(&mut self, ceiling: &Ceiling) {
        let same = |c: &&mut Ceiling| (c.kind, &c.gpu, &c.model) == (ceiling.kind, &ceiling.gpu, &ceiling.model);
        match self.ceilings.iter_mut().find(same) {
            Some(known) => *known = ceiling.clone(),
            None => self.ceilings.push(ceiling.clone()),
        }
    }
}

fn copies_to(ceiling: &Ceiling, target: &Target) -> bool {
    let Target::Gpu { ordinal, uuid, .. } = target else { return false };
    let gpu = ceiling.gpu.as_deref();
    gpu.is_some() && (gpu == uuid.as_deref() || gpu == Some(ordinal.to_string().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(kind: CeilingKind, gpu: Option<&str>, model: Option<&str>, bytes_per_s: f64) -> Ceiling {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ceiling { kind, gpu: owned(gpu), model: owned(model), bytes_per_s, how: String::new(), took_ns: 1 }
    }

    #[test]
    fn the_lowest_that_applies_bounds_a_run() {
        let mut state = State::default();
        state.put_ceiling(&ceiling(CeilingKind::PinnedCopy, Some("GPU-a"), None, 55e9));
        state.put_ceiling(&ceiling(CeilingKind::DirectRead, None, Some("m"), 4e9));
        state.put_ceiling(&ceiling(CeilingKind::CachedRead, None, Some("m"), 60e9));
        let gpu = |uuid: &str| Target::Gpu { ordinal: 0, uuid: Some(uuid.into()), name: "H".into() };
        let rate = |cache, target: &Target, model| state.ceiling(cache, target, model).map(|c| c.bytes_per_s);
        assert_eq!(rate(CacheState::Hot, &gpu("GPU-a"), "m"), Some(55e9));
        assert_eq!(rate(CacheState::Cold, &gpu("GPU-a"), "m"), Some(4e9));
        // Another GPU's copies, or another model's files, bound nothing here.
        assert_eq!(rate(CacheState::Hot, &gpu("GPU-b"), "m"), Some(60e9));
        assert_eq!(rate(CacheState::Hot, &Target::Host, "n"), None);
        assert_eq!(rate(CacheState::AsIs, &gpu("GPU-a"), "m"), None);
    }
}
