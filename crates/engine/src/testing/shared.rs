//! A value that a test changes while plugins read it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value shared by a test and its stub plugins, which must be `Send + Sync`.
#[derive(Debug, Default)]
pub struct Shared<T>(Mutex<T>);

impl<T> Shared<T> {
    /// Returns access to the value. A thread must not hold two of them at once.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        *self.lock() = value;
    }

    /// Returns a copy of the value.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.lock().clone()
    }

    /// Returns the value and leaves its default.
    pub fn take(&self) -> T
    where
        T: Default,
    {
        std::mem::take(&mut *self.lock())
    }
}
