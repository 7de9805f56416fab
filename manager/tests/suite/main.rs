//! Tests of the library's public API, one module per module of the library.

mod cache;
mod client;
mod controller;
mod election;
mod events;
mod fixture;
mod manager;
mod metadata_patches;
mod queue;
mod serve;
mod slow_body;
mod typed_controller;
mod webhook;
