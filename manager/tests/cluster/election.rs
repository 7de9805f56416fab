//! The election: who leads, from when, until when, and what the Lease says of it.

mod record;
mod tampering;
mod turns;

use coxswain_tests::Test;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [record::tests(), tampering::tests(), turns::tests()].concat()
}
