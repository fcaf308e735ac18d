//! The window of a read layer by layer. The transfers of a layer may begin when computing has almost reached it, and
//! computing of a layer begins when its transfers have ended.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time after which a waiting thread checks whether another thread failed.
const LOOK: Duration = Duration::from_millis(20);

/// The state that the loading threads and the computing thread share.
#[derive(Debug)]
pub(super) struct Window {
    ahead: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The layer that is being computed or waited for.
    turn: usize,
    /// Number of unfinished transfers by layer.
    left: Vec<usize>,
}

impl State {
    fn has_loaded(&self, layer: usize) -> bool {
        self.left.get(layer).is_none_or(|left| *left == 0)
    }
}

impl Window {
    /// A window that includes `ahead` layers after the current one.
    pub(super) fn new(ahead: usize, transfers: Vec<usize>) -> Self {
        Self { ahead, state: Mutex::new(State { turn: 0, left: transfers }), changed: Condvar::new() }
    }

    fn wait(&self, ready: impl Fn(&State) -> bool, stopped: &dyn Fn() -> bool) -> bool {
        let mut state = self.lock();
        while !ready(&state) {
            if stopped() {
                return false;
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the transfers of a layer may begin. Returns false if another thread failed.
    pub(super) fn may_load(&self, layer: usize, stopped: &dyn Fn() -> bool) -> bool {
        self.wait(|state| layer <= state.turn.saturating_add(self.ahead), stopped)
    }

    /// Whether the transfers of a layer may begin.
    pub(super) fn may_load_now(&self, layer: usize) -> bool {
        layer <= self.lock().turn.saturating_add(self.ahead)
    }

    /// Records that one transfer of a layer has ended.
    pub(super) fn landed(&self, layer: usize) {
        let mut state = self.lock();
        if let Some(left) = state.left.get_mut(layer) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.changed.notify_all();
            }
        }
    }

    /// Waits until all transfers of a layer have ended. Returns false if another thread failed.
    pub(super) fn is_loaded(&self, layer: usize, stopped: &dyn Fn() -> bool) -> bool {
        self.wait(|state| state.has_loaded(layer), stopped)
    }

    /// Whether all transfers of a layer have ended.
    pub(super) fn has_loaded(&self, layer: usize) -> bool {
        self.lock().has_loaded(layer)
    }

    /// Records that a layer was computed, so the next layer is the current one.
    pub(super) fn computed(&self, layer: usize) {
        self.lock().turn = layer + 1;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    /// The largest distance between loading and the current layer. The first layer is computed only after loading has
    /// reached this distance.
    fn furthest_ahead(ahead: usize) -> usize {
        let window = Window::new(ahead, vec![1; 8]);
        let (turn, furthest) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for layer in 0..8 {
                    assert!(window.may_load(layer, &|| false));
                    furthest.fetch_max(layer.saturating_sub(turn.load(Ordering::SeqCst)), Ordering::SeqCst);
                    window.landed(layer);
                }
            });
            let start = Instant::now();
            for layer in 0..8 {
                assert!(window.is_loaded(layer, &|| false));
                while furthest.load(Ordering::SeqCst) < ahead {
                    assert!(start.elapsed() < Duration::from_secs(60), "loading is held back");
                    std::thread::yield_now();
                }
                // This time is enough for loading to go too far.
                std::thread::sleep(Duration::from_millis(2));
                turn.store(layer + 1, Ordering::SeqCst);
                window.computed(layer);
            }
        });
        furthest.into_inner()
    }

    #[test]
    fn loading_is_as_far_ahead_as_asked_and_no_further() {
        assert_eq!(furthest_ahead(0), 0);
        assert_eq!(furthest_ahead(2), 2);
    }

    #[test]
    fn a_failure_elsewhere_ends_the_waiting() {
        let window = Window::new(0, vec![1, 1]);
        assert!(!window.may_load(1, &|| true));
        assert!(!window.is_loaded(0, &|| true));
    }
}
