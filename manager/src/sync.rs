//! The mutex, by an alias: `tests/shuttle` compiles the same sources with shuttle's.

pub(crate) use std::sync::Mutex;
