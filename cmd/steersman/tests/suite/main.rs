//! Tests of the process: output, rejected configurations, operation and shutdown.

mod access;
mod config_file;
mod crds;
mod graph;
mod logs;
mod monitoring;
mod no_server;
mod pages;
mod process_pages;
mod proxy;
mod rejections;
mod sandbox;
mod shutdown;
mod tls;
mod tour;
#[cfg(feature = "otlp")]
mod traces;

const PROGRAM: &str = env!("CARGO_BIN_EXE_steersman");
