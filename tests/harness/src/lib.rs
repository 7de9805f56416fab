//! The harness of the black-box tests: a cluster, an HTTP client, and a runner that lists skipped tests.
//!
//! The tests run on any cluster: the sandbox in this process by default, a real kube-apiserver with etcd if
//! `KUBEBUILDER_ASSETS` names their directory (`tests/real-apiserver.sh` provides one). A test declares the server version
//! that it needs where it is registered, see [`runner::Test`].
//!
//! A surface is one file under `tests/tests/blackbox/`: private `async fn name(c: Cluster)` functions that panic when
//! they fail, and one `pub fn tests() -> Vec<Test>` that lists them. A test that is not in a list is dead code, which the
//! compiler reports.

#![allow(
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "helpers of tests fail by a panic that shows the request and the answer"
)]

pub mod api;
pub mod audit;
pub mod certs;
pub mod cluster;
pub mod dashboards;
pub mod draw;
pub mod endpoint;
pub mod fixtures;
pub mod kubectl;
pub mod log;
pub mod metrics;
pub mod process;
pub mod program;
pub mod proxy;
pub mod real;
pub mod reply;
pub mod roles;
pub mod runner;
pub mod sandbox;
pub mod scenario;
pub mod seeds;
pub mod time;
pub mod tls;
pub mod tools;
pub mod verbs;
pub mod watch;
pub mod webhook;

pub use api::Api;
pub use cluster::Cluster;
pub use log::Log;
pub use program::Program;
pub use reply::Reply;
pub use runner::{Need, Test};
pub use watch::Watch;
