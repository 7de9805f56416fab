//! Shuttle's mutex, but with a switch after unlocking too: shuttle itself only switches before locking, so that whatever
//! follows the lock would never be overtaken.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError};

use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::{Mutex as Inner, MutexGuard};

#[derive(Debug)]
pub(crate) struct Mutex<T> {
    inner: Inner<T>,
    /// Every look at an atomic is a switch.
    switch: AtomicBool,
}

pub(crate) struct Guard<'a, T> {
    /// None only while dropping.
    inner: Option<MutexGuard<'a, T>>,
    switch: &'a AtomicBool,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            inner: Inner::new(value),
            switch: AtomicBool::new(false),
        }
    }

    pub(crate) fn lock(&self) -> LockResult<Guard<'_, T>> {
        let guard = |inner| Guard {
            inner: Some(inner),
            switch: &self.switch,
        };
        match self.inner.lock() {
            Ok(inner) => Ok(guard(inner)),
            Err(poisoned) => Err(PoisonError::new(guard(poisoned.into_inner()))),
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("not dropped")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("not dropped")
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        if !std::thread::panicking() {
            self.switch.load(Ordering::SeqCst);
        }
    }
}
