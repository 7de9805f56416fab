//! Patches: JSON patch, merge patch, strategic merge, and what holds for all of them.

mod any;
mod json;
mod merge;
mod metadata;
mod strategic;
mod strategic_lists;
mod versions;

use coxswain_tests::Test;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        any::tests(),
        json::tests(),
        merge::tests(),
        metadata::tests(),
        strategic::tests(),
        strategic_lists::tests(),
        versions::tests(),
    ]
    .concat()
}
