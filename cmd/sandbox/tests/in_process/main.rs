//! The sandbox without a socket: what only shows with a paused clock, with several doors, or with its own controls.

mod client;
mod doors;
mod history;
mod invariants;
mod repeatable;
mod watch_timing;
