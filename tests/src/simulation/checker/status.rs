//! S8: `status.observedGeneration` never decreases, and is never larger than the generation.

use super::context::{Change, Context, Found};

/// Checks a status that a process has written.
pub(super) fn commit(context: &Context, change: &Change, found: &mut Found) {
    let (Some(sent), Some(new)) = (&change.request, context.model.get(change.uid)) else {
        return;
    };
    let Some(observed) = new.observed() else { return };
    if observed > new.generation {
        found.add(
            "S8",
            format!(
                "{} has generation {} and observedGeneration {observed}, written by {}",
                context.name(new),
                new.generation,
                context.sender(sent),
            ),
        );
    }
    let before = change.old.as_ref().and_then(super::model::Object::observed);
    if let Some(before) = before.filter(|it| *it > observed) {
        found.add(
            "S8",
            format!(
                "the observedGeneration of {} went back from {before} to {observed}, written by {}",
                context.name(new),
                context.sender(sent),
            ),
        );
    }
}
