//! A cache of open files with reference counts. A file is opened and registered once, and kept while it is used. If
//! there are more files than the limit, the unused file with the oldest use is closed first.

use crate::core::HandleCacheCounts;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Open files by key, shared by threads.
#[derive(Debug)]
pub struct HandleCache<K, H> {
    limit: usize,
    inner: Mutex<Inner<K, H>>,
}

#[derive(Debug)]
struct Inner<K, H> {
    entries: HashMap<K, Entry<H>>,
    /// Unused handles by the time of their release.
    unused: BTreeMap<u64, K>,
    /// With a limit of 0: one handle for each current use, even if several are of the same file.
    own: Vec<(K, Arc<H>)>,
    clock: u64,
    counts: HandleCacheCounts,
}

/// While one thread opens a file, other threads wait on this cell. `None` in the cell means that opening failed.
type Cell<H> = Arc<OnceLock<Option<Arc<H>>>>;

#[derive(Debug)]
struct Entry<H> {
    cell: Cell<H>,
    references: usize,
    released_at: u64,
}

impl<K: Clone + Eq + Hash, H> HandleCache<K, H> {
    /// Creates a cache that keeps at most `limit` handles; more are possible while they are in use. With 0 nothing is
    /// cached: each use opens a separate handle and closes it, even while the same file is in use elsewhere.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let counts = HandleCacheCounts { limit: limit as u64, ..HandleCacheCounts::default() };
        let inner = Inner { entries: HashMap::new(), unused: BTreeMap::new(), own: Vec::new(), clock: 0, counts };
        Self { limit, inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, H>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handle for `key`, which `open` opens if it is not cached. Each success requires one call of
    /// [`Self::release`].
    ///
    /// # Errors
    /// Returns the error of `open`. Nothing is cached in this case.
    pub fn acquire<E>(&self, key: &K, open: impl FnOnce() -> Result<H, E>) -> Result<Arc<H>, E> {
        if self.limit == 0 {
            return self.open_own(key, open);
        }
        let cell = loop {
            let (cell, mine) = self.enter(key);
            if mine {
                break cell;
            }
            if let Some(handle) = cell.wait() {
                return Ok(Arc::clone(handle));
            }
            // The other thread could not open the file and removed its entry, so this thread tries it.
        };
        match open() {
            Ok(handle) => {
                let handle = Arc::new(handle);
                let _ = cell.set(Some(Arc::clone(&handle)));
                drop(self.evict());
                Ok(handle)
            }
            Err(error) => {
                self.lock().entries.remove(key);
                let _ = cell.set(None);
                Err(error)
            }
        }
    }

    fn open_own<E>(&self, key: &K, open: impl FnOnce() -> Result<H, E>) -> Result<Arc<H>, E> {
        let handle = Arc::new(open()?);
        let mut inner = self.lock();
        inner.own.push((key.clone(), Arc::clone(&handle)));
        inner.counts.misses += 1;
        inner.counts.peak = inner.counts.peak.max(inner.own.len() as u64);
        Ok(handle)
    }

    /// Counts a use of the entry, which is created if needed. Returns whether the caller has to open the file.
    fn enter(&self, key: &K) -> (Cell<H>, bool) {
        let mut inner = self.lock();
        if let Some(entry) = inner.entries.get_mut(key) {
            let (cell, at) = (Arc::clone(&entry.cell), entry.released_at);
            entry.references += 1;
            if entry.references == 1 {
                inner.unused.remove(&at);
            }
            inner.counts.hits += 1;
            return (cell, false);
        }
        let cell: Cell<H> = Arc::default();
        inner.entries.insert(key.clone(), Entry { cell: Arc::clone(&cell), references: 1, released_at: 0 });
        inner.counts.misses += 1;
        inner.counts.peak = inner.counts.peak.max(inner.entries.len() as u64);
        (cell, true)
    }

    /// Ends one use. The caller must drop the handle before. Returns handles for the caller to drop, which closes
    /// them. This must happen outside the lock, because closing also deregisters.
    pub fn release(&self, key: &K) -> Vec<Arc<H>> {
        {
            let mut inner = self.lock();
            if self.limit == 0 {
                let given_back = |(of, handle): &(K, Arc<H>)| of == key && Arc::strong_count(handle) == 1;
                let Some(at) = inner.own.iter().position(given_back) else { return Vec::new() };
                inner.counts.evictions += 1;
                return vec![inner.own.swap_remove(at).1];
            }
            inner.clock += 1;
            let now = inner.clock;
            let Some(entry) = inner.entries.get_mut(key) else { return Vec::new() };
            entry.references = entry.references.saturating_sub(1);
            if entry.references == 0 {
                entry.released_at = now;
                inner.unused.insert(now, key.clone());
            }
        }
        self.evict()
    }

    /// Removes unused handles, the oldest use first, until the limit is met.
    fn evict(&self) -> Vec<Arc<H>> {
        self.take_out(self.limit)
    }

    /// Removes all unused handles.
    pub fn cleanup(&self) -> Vec<Arc<H>> {
        self.take_out(0)
    }

    fn take_out(&self, keep: usize) -> Vec<Arc<H>> {
        let mut inner = self.lock();
        let mut out: Vec<Arc<H>> = inner.own.drain(..).map(|(_, handle)| handle).collect();
        while inner.entries.len() > keep {
            let Some((_, key)) = inner.unused.pop_first() else { break };
            if let Some(entry) = inner.entries.remove(&key) {
                if keep == self.limit {
                    inner.counts.evictions += 1;
                }
                out.extend(entry.cell.get().cloned().flatten());
            }
        }
        out
    }

    /// The current counts.
    #[must_use]
    pub fn counts(&self) -> HandleCacheCounts {
        self.lock().counts
    }

    /// Number of open handles.
    #[must_use]
    pub fn len(&self) -> usize {
        let inner = self.lock();
        inner.entries.len() + inner.own.len()
    }

    /// Whether no handle is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn open(cache: &HandleCache<u32, u32>, key: u32) -> Arc<u32> {
        cache.acquire(&key, || Ok::<_, ()>(key)).unwrap()
    }

    #[test]
    fn a_handle_is_opened_once_while_it_is_kept() {
        let cache = HandleCache::new(4);
        for _ in 0..3 {
            assert_eq!(*open(&cache, 7), 7);
            assert!(cache.release(&7).is_empty());
        }
        let counts = cache.counts();
        assert_eq!((counts.misses, counts.hits, counts.evictions, counts.peak), (1, 2, 0, 1));
    }

    #[test]
    fn the_longest_unused_goes_first_and_what_is_used_stays() {
        let cache = HandleCache::new(2);
        for key in [1, 2] {
            open(&cache, key);
            cache.release(&key);
        }
        // Handle 1 is used again, so 2 has the oldest use.
        open(&cache, 1);
        open(&cache, 3);
        assert_eq!((cache.len(), cache.counts().evictions), (2, 1));
        open(&cache, 2);
        // All three are in use, so the limit is exceeded.
        assert_eq!((cache.len(), cache.counts().misses), (3, 4));
        let closed: Vec<u32> = [3, 1, 2].iter().flat_map(|key| cache.release(key)).map(|h| *h).collect();
        assert_eq!(closed, [3]);
    }

    #[test]
    fn with_no_room_a_handle_ends_with_its_use() {
        let cache = HandleCache::new(0);
        for _ in 0..3 {
            open(&cache, 9);
            assert_eq!(cache.release(&9).len(), 1);
        }
        assert_eq!((cache.counts().misses, cache.counts().hits, cache.len()), (3, 0, 0));
    }

    #[test]
    fn with_no_room_uses_at_the_same_time_share_nothing() {
        let cache = HandleCache::new(0);
        let (first, second) = (open(&cache, 9), open(&cache, 9));
        assert!(!Arc::ptr_eq(&first, &second));
        drop(first);
        let closed = cache.release(&9);
        assert!(closed.len() == 1 && !Arc::ptr_eq(&closed[0], &second), "a handle in use is not closed");
        drop(second);
        assert_eq!(cache.release(&9).len(), 1);
        let counts = cache.counts();
        assert_eq!((counts.misses, counts.hits, counts.evictions, counts.peak, cache.len()), (2, 0, 2, 2, 0));
        assert_eq!(cache.acquire(&9, || Err("no")).unwrap_err(), "no");
        assert_eq!(cache.counts().misses, 2);
    }

    #[test]
    fn a_failed_opening_keeps_nothing_and_the_next_tries_again() {
        let cache: HandleCache<u32, u32> = HandleCache::new(2);
        assert_eq!(cache.acquire(&1, || Err("no")).unwrap_err(), "no");
        assert!(cache.is_empty());
        assert_eq!(*open(&cache, 1), 1);
    }

    #[test]
    fn threads_that_want_the_same_file_open_it_once() {
        let cache: HandleCache<u32, u32> = HandleCache::new(8);
        let opened = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let slowly = || {
                        opened.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok::<_, ()>(5)
                    };
                    assert_eq!(*cache.acquire(&5, slowly).unwrap(), 5);
                    cache.release(&5);
                });
            }
        });
        assert_eq!((opened.into_inner(), cache.counts().hits), (1, 7));
    }

    proptest! {
        #[test]
        fn what_is_kept_is_bounded_and_what_is_used_is_never_closed(
            limit in 1..5_usize, steps in proptest::collection::vec((0..8_u32, proptest::bool::ANY), 1..200),
        ) {
            let cache: HandleCache<u32, u32> = HandleCache::new(limit);
            let mut used: BTreeMap<u32, usize> = BTreeMap::new();
            for (key, take) in steps {
                if take {
                    open(&cache, key);
                    *used.entry(key).or_default() += 1;
                } else if used.get(&key).is_some_and(|n| *n > 0) {
                    let closed = cache.release(&key);
                    *used.entry(key).or_default() -= 1;
                    prop_assert!(closed.iter().all(|h| used.get(h).copied().unwrap_or(0) == 0));
                }
                let in_use = used.values().filter(|n| **n > 0).count();
                prop_assert!(cache.len() >= in_use && cache.len() <= in_use.max(limit));
            }
            let counts = cache.counts();
            prop_assert_eq!(counts.misses - counts.evictions, cache.len() as u64);
        }
    }
}
