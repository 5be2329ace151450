//! A cache of reviews with a short lifetime; its keys are hashes, so that it holds no tokens.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ring::digest::SHA256_OUTPUT_LEN;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::time::Instant;

/// HMAC of everything that a review depends on, with a secret of this process.
pub(super) type CacheKey = [u8; SHA256_OUTPUT_LEN];

/// The system has no random numbers for a secret.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandomNumbers;

/// Computes keys.
pub(super) struct KeyHasher(hmac::Key);

impl KeyHasher {
    pub(super) fn new() -> Result<Self, NoRandomNumbers> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| NoRandomNumbers)?;
        Ok(Self(key))
    }

    /// Returns the key of a list of parts. Lengths are hashed too, so that `ab, c` and `a, bc` differ.
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

/// A cache with a maximum number of entries, each with a maximum age.
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
            // All entries are fresh, so this is a flood. Starting over costs a few reviews.
            entries.clear();
        }
        entries.insert(key, (now + self.time_to_live, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn entries_expire() {
        let cache = ReviewCache::new(Duration::from_secs(10), 4);
        let key = KeyHasher::new().unwrap().key(["a"]);
        cache.put(key, 1);
        tokio::time::advance(Duration::from_millis(9999)).await;
        assert_eq!(cache.get(&key), Some(1));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(cache.get(&key), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_entries_is_limited_and_expired_ones_are_removed_first() {
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
    fn keys_depend_on_the_borders_of_parts_and_on_the_process() {
        let hasher = KeyHasher::new().unwrap();
        assert_eq!(hasher.key(["ab", "c"]), hasher.key(["ab", "c"]));
        assert_ne!(hasher.key(["ab", "c"]), hasher.key(["a", "bc"]));
        assert_ne!(hasher.key(["ab", ""]), hasher.key(["ab"]));
        assert_ne!(hasher.key(["ab"]), KeyHasher::new().unwrap().key(["ab"]));
    }
}
