//! What the black-box tests share: a cluster to talk to, plain HTTP to talk with, and a runner that tells what was skipped.
//!
//! The tests are written against "a cluster" and never ask which one it is: the sandbox in this process by default, a
//! real kube-apiserver with etcd when `KUBEBUILDER_ASSETS` names their directory (`tests/real-apiserver.sh` provides one).
//! What differs between server versions is declared where a test is registered, see [`runner::Test`].
//!
//! A surface is one file under `tests/tests/blackbox/`: private `async fn name(c: Cluster)` functions that panic when
//! they fail, and one `pub fn tests() -> Vec<Test>` that lists them. A test that is not in a list is dead code, which the
//! compiler reports.

pub mod api;
pub mod certs;
pub mod cluster;
pub mod endpoint;
pub mod fixtures;
pub mod kubectl;
pub mod log;
pub mod process;
pub mod program;
pub mod real;
pub mod reply;
pub mod runner;
pub mod sandbox;
pub mod seeds;
pub mod time;
pub mod watch;
pub mod webhook;

pub use api::Api;
pub use cluster::Cluster;
pub use log::Log;
pub use program::Program;
pub use reply::Reply;
pub use runner::{Need, Test};
pub use watch::Watch;
