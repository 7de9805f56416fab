//! The process itself: what it prints and refuses, how it runs, and how it ends.

mod crds;
mod ends;
mod graph;
mod logs;
mod no_server;
mod pages;
mod proxy;
mod refusals;
mod sandbox;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_coxswain");
