//! DELETE: what it does to finalizers, when the object goes, and what it answers.

mod answers;
mod collecting;
mod collection;
mod finalizers;
mod namespaces;
mod options;
mod pods;
mod policies;

use coxswain_tests::Test;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        answers::tests(),
        collecting::tests(),
        collection::tests(),
        finalizers::tests(),
        namespaces::tests(),
        options::tests(),
        pods::tests(),
        policies::tests(),
    ]
    .concat()
}
