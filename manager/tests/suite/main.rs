//! The library from outside, one folder per room.

mod cache;
mod queue;
mod tools;
