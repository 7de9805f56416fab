//! The identity of this build.
//!
//! A build that wants the commit and the date in `/version` sets `STEERSMAN_GIT_COMMIT`, `STEERSMAN_GIT_TREE_STATE` and
//! `STEERSMAN_BUILD_DATE` in its environment.

use steersman_manager::serve::BuildInfo;

use crate::NAME;

pub(crate) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

pub(crate) const BUILD: BuildInfo = BuildInfo {
    name: NAME,
    version: VERSION,
    git_commit: or_empty(option_env!("STEERSMAN_GIT_COMMIT")),
    git_tree_state: or_empty(option_env!("STEERSMAN_GIT_TREE_STATE")),
    build_date: or_empty(option_env!("STEERSMAN_BUILD_DATE")),
    rust_version: env!("RUSTC_VERSION"),
};

const fn or_empty(value: Option<&'static str>) -> &'static str {
    match value {
        Some(value) => value,
        None => "",
    }
}
