//! Properties of watches that depend on time or on many writes.

mod bookmarks;
mod order;

use steersman_harness::Test;

/// The tests of this folder.
pub fn tests() -> Vec<Test> {
    [bookmarks::tests(), order::tests()].concat()
}
