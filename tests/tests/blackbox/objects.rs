//! Objects of single kinds, and objects in protobuf.

mod jobs;
mod protobuf;

use coxswain_tests::Test;

/// The tests of this folder.
pub fn tests() -> Vec<Test> {
    [jobs::tests(), protobuf::tests()].concat()
}
