//! The library from outside, one folder per room.

mod cache;
mod client;
mod queue;
mod serve;
mod tools;
