//! `AppServices`, observed through the API only.
//!
//! The cluster makes pods Ready and collects garbage. The tests need our controllers, not those of KCM.

/// Registers a test, an `async fn(Fixture)`.
macro_rules! fixture_test {
    ($function:ident) => {
        steersman_harness::Test::new(module_path!(), stringify!($function), |cluster| {
            Box::pin(async move {
                $function($crate::appservice::fixture::Fixture::new(cluster).await).await;
            })
        })
        .needs(steersman_harness::Need::Ours)
    };
}

mod children;
mod deletion;
mod failures;
mod fixture;
mod input;
mod kubectl;
mod name_conflicts;
mod renaming;
mod scale;
mod writes;

use steersman_harness::Test;

pub fn tests() -> Vec<Test> {
    [
        children::tests(),
        name_conflicts::tests(),
        writes::tests(),
        deletion::tests(),
        input::tests(),
        kubectl::tests(),
        renaming::tests(),
        scale::tests(),
        failures::tests(),
    ]
    .concat()
}
