//! The switch between the product and its deliberately wrong variants.

/// Reports whether the simulation has revived an incident, by its id: `revived!(G3)`, or one of several:
/// `revived!(G2 | G5)`.
///
/// The product never takes the branch of a revived incident: without the cargo feature `incidents`, which only the
/// simulation enables, the macro is the constant `false`, and the compiler removes the branch. With the feature, it is
/// `is_revived` of the module `incidents`, which has the list of incidents.
#[cfg(not(feature = "incidents"))]
#[doc(hidden)]
#[macro_export]
macro_rules! revived {
    ($($incident:ident)|+) => {
        false
    };
}

/// See the macro without the feature.
#[cfg(feature = "incidents")]
#[doc(hidden)]
#[macro_export]
macro_rules! revived {
    ($($incident:ident)|+) => {
        $($crate::incidents::is_revived($crate::incidents::Incident::$incident))||+
    };
}
