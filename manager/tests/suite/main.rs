//! The library from outside, one folder per room.

mod cache;
mod controller;
mod queue;
mod tools;
