//! The binary, as a library.

pub mod log;
