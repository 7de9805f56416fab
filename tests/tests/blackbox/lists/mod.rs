//! Lists: what is selected, in which order, by which version, page by page and in other forms.

mod fields;
mod forms;
mod labels;
mod pages;
mod shape;
mod tables;
mod versions;

use coxswain_tests::Test;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        fields::tests(),
        forms::tests(),
        labels::tests(),
        pages::tests(),
        shape::tests(),
        tables::tests(),
        versions::tests(),
    ]
    .concat()
}
