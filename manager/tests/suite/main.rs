//! The library from outside, one folder per room.

mod cache;
mod client;
mod controller;
mod election;
mod manager;
mod queue;
mod serve;
mod slow_body;
mod tools;
mod webhook;
