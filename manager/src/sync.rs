//! The mutex of the work queue. `tests/shuttle` compiles the queue with the mutex of shuttle instead.

pub(crate) use std::sync::Mutex;
