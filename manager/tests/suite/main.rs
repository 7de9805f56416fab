//! The library from outside, one folder per room.

mod queue;
mod tools;
