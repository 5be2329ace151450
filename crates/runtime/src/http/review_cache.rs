//! Answers that are remembered for a short time under keys from which nothing can be read.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ring::digest::SHA256_OUTPUT_LEN;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::time::Instant;

/// A hash of what an answer depends on, keyed with a secret of this process.
pub(super) type CacheKey = [u8; SHA256_OUTPUT_LEN];

/// Makes keys.
pub(super) struct KeyHasher(hmac::Key);

impl KeyHasher {
    pub(super) fn new() -> anyhow::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
        Ok(Self(key))
    }

    /// The key of a list of parts. Lengths go in, so that parts cannot run into each other.
    pub(super) fn key<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> CacheKey {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut key = CacheKey::default();
        key.copy_from_slice(context.sign().as_ref());
        key
    }
}

/// A bounded number of answers, each for a bounded time.
pub(super) struct ReviewCache<V> {
    time_to_live: Duration,
    count_max: usize,
    entries: Mutex<HashMap<CacheKey, (Instant, V)>>,
}

impl<V: Clone> ReviewCache<V> {
    pub(super) fn new(time_to_live: Duration, count_max: usize) -> Self {
        Self { time_to_live, count_max, entries: Mutex::new(HashMap::new()) }
    }

    pub(super) fn get(&self, key: &CacheKey) -> Option<V> {
        let now = Instant::now();
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|(until, _)| now < *until).map(|(_, value)| value.clone())
    }

    pub(super) fn put(&self, key: CacheKey, value: V) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.count_max && !entries.contains_key(&key) {
            entries.retain(|_, (until, _)| now < *until);
        }
        if entries.len() >= self.count_max && !entries.contains_key(&key) {
            // All are fresh: somebody floods us. Starting over costs a few questions.
            entries.clear();
        }
        entries.insert(key, (now + self.time_to_live, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_are_forgotten_after_their_time() {
        let cache = ReviewCache::new(Duration::from_secs(10), 4);
        let key = KeyHasher::new().unwrap().key(["a"]);
        cache.put(key, 1);
        tokio::time::advance(Duration::from_millis(9999)).await;
        assert_eq!(cache.get(&key), Some(1));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(cache.get(&key), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_count_is_bounded_and_old_answers_go_first() {
        let (cache, hasher) =
            (ReviewCache::new(Duration::from_secs(10), 4), KeyHasher::new().unwrap());
        let keys: Vec<CacheKey> = (0..6).map(|number| hasher.key([&*number.to_string()])).collect();
        for key in &keys[..4] {
            cache.put(*key, 1);
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        cache.put(keys[4], 2);
        assert_eq!(cache.entries.lock().unwrap().len(), 1);
        for key in &keys {
            cache.put(*key, 3);
            assert!(cache.entries.lock().unwrap().len() <= 4);
        }
        assert_eq!(cache.get(&keys[5]), Some(3));
    }

    #[test]
    fn parts_do_not_run_into_each_other_and_processes_differ() {
        let hasher = KeyHasher::new().unwrap();
        assert_eq!(hasher.key(["ab", "c"]), hasher.key(["ab", "c"]));
        assert_ne!(hasher.key(["ab", "c"]), hasher.key(["a", "bc"]));
        assert_ne!(hasher.key(["ab", ""]), hasher.key(["ab"]));
        assert_ne!(hasher.key(["ab"]), KeyHasher::new().unwrap().key(["ab"]));
    }
}
