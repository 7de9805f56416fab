//! The sandbox from outside its library: without a socket, under a paused clock; and as the program that people start.

mod api_services;
mod auth;
mod cli;
mod client;
mod definitions;
mod history;
mod invariants;
mod races;
mod repeatable;
mod sockets;
mod watch_timing;
mod writes;
