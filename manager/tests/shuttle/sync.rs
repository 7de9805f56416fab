//! Shuttle's mutex with an additional task switch after unlocking: shuttle switches before locking only, so that code after
//! a critical section would never be preempted.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError};

use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::{Mutex as Inner, MutexGuard};

#[derive(Debug)]
pub(crate) struct Mutex<T> {
    inner: Inner<T>,
    /// Every access to an atomic is a task switch.
    switch: AtomicBool,
}

pub(crate) struct Guard<'a, T> {
    /// None only during drop.
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
