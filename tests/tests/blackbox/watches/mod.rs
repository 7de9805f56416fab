//! Watches: which events come, in which order, from which version on, and how a stream ends.

mod bookmarks;
mod events;
mod forms;
mod initial;
mod order;
mod selectors;
mod versions;

use coxswain_tests::Test;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        bookmarks::tests(),
        events::tests(),
        forms::tests(),
        initial::tests(),
        order::tests(),
        selectors::tests(),
        versions::tests(),
    ]
    .concat()
}
