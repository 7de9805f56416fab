//! Strategies of Event in the core group and in `events.k8s.io`. Both share one collection.

mod convert;
mod validate;

#[cfg(test)]
mod tests;

use crate::registry::Rules;
use crate::registry::json::{section, set_default};

pub(crate) use convert::{from_core, to_core};

pub(crate) const CORE: Rules = Rules {
    // Events of the core group are written by clients of every age, so that not even their names are checked.
    name: |_, _| Vec::new(),
    default: |event| {
        section(event, "involvedObject");
        section(event, "source");
        set_default(event, "reportingComponent", "");
        set_default(event, "reportingInstance", "");
    },
    validate: validate::core,
    validate_update: |_, new| validate::core(new),
    create_on_update: true,
    ..Rules::GENERIC
};

pub(crate) const MODERN: Rules = Rules {
    default: |event| {
        section(event, "deprecatedSource");
        section(event, "regarding");
    },
    validate: validate::modern,
    validate_update: validate::modern_update,
    create_on_update: true,
    ..Rules::GENERIC
};
