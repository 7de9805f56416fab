//! Strategies of Event in the core group and in `events.k8s.io`. Both share one collection.

mod convert;
mod validate;

use crate::registry::{Rules, names};

pub(crate) use convert::{from_core, to_core};

pub(crate) const CORE: Rules = Rules {
    // Clients of every age write these events: a name only has to fit into a path.
    name: names::segment_name,
    validate: |event, errors| validate::legacy(event, "reportingComponent", errors),
    create_on_update: true,
    ..Rules::GENERIC
};

pub(crate) const MODERN: Rules = Rules {
    validate_create: validate::modern,
    validate_update: validate::modern_update,
    create_on_update: true,
    ..Rules::GENERIC
};
