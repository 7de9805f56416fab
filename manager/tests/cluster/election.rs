//! Leader election: leadership, its start and end, and the Lease.

mod handover;
mod record;
mod tampering;

use steersman_harness::Test;

pub fn tests() -> Vec<Test> {
    [record::tests(), tampering::tests(), handover::tests()].concat()
}
