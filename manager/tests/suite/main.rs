//! The library from outside, one folder per room.

mod election;
mod queue;
