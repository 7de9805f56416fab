//! The identity of this build.
//!
//! A build that wants the commit and the date in `/version` sets `COXSWAIN_GIT_COMMIT`, `COXSWAIN_GIT_TREE_STATE` and
//! `COXSWAIN_BUILD_DATE` in its environment.

use coxswain_manager::serve::BuildInfo;

use crate::NAME;

pub(crate) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

pub(crate) const BUILD: BuildInfo = BuildInfo {
    name: NAME,
    version: VERSION,
    git_commit: or_empty(option_env!("COXSWAIN_GIT_COMMIT")),
    git_tree_state: or_empty(option_env!("COXSWAIN_GIT_TREE_STATE")),
    build_date: or_empty(option_env!("COXSWAIN_BUILD_DATE")),
    rust_version: env!("RUSTC_VERSION"),
};

const fn or_empty(value: Option<&'static str>) -> &'static str {
    match value {
        Some(value) => value,
        None => "",
    }
}
