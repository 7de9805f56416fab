//! The public API of the sandbox without a socket, under a paused clock, and the program `steersman-sandbox`.

mod api_services;
mod auth;
mod builder;
mod cli;
mod client;
mod definitions;
mod faults;
mod history;
mod invariants;
mod journal;
mod managed_fields;
mod pods;
mod races;
mod repeatable;
mod served_resources;
mod sockets;
mod steps;
mod watch_timing;
mod writes;
