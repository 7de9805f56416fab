//! The library from outside, one folder per room.

mod cache;
mod client;
mod election;
mod queue;
mod serve;
mod tools;
