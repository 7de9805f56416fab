//! The garbage collector. Most tests run for a built-in and a custom kind.

/// Registers an `async fn(Fixture)` for the given kinds; by default for a built-in and a custom kind.
macro_rules! each {
    ($function:ident) => {
        each!($function, [ConfigMap, Widget])
    };
    ($function:ident, [$($kind:ident),+]) => {
        vec![$(
            steersman_harness::Test::new(
                module_path!(),
                concat!(stringify!($function), "::", stringify!($kind)),
                |cluster| Box::pin(async move {
                    let kind = $crate::garbage_collector::fixture::Kind::$kind;
                    $function($crate::garbage_collector::fixture::Fixture::new(kind, cluster).await).await;
                }),
            )
        ),+]
    };
    ($function:ident, $need:ident) => {
        each!($function, [ConfigMap, Widget], $need)
    };
    ($function:ident, [$($kind:ident),+], $need:ident) => {
        each!($function, [$($kind),+])
            .into_iter()
            .map(|test| test.needs(steersman_harness::Need::$need))
            .collect::<Vec<_>>()
    };
}

mod background;
mod crds;
mod cross_namespace;
mod cycles;
mod fixture;
mod foreground;
mod identity;
mod kubectl;
mod late_dependents;
mod multiple_owners;
mod namespaces;
mod orphan;
mod policy_changes;
mod races;
mod repeated_deletes;
mod workloads;

use steersman_harness::Test;

pub fn tests() -> Vec<Test> {
    [
        background::tests(),
        crds::tests(),
        cross_namespace::tests(),
        cycles::tests(),
        foreground::tests(),
        identity::tests(),
        kubectl::tests(),
        late_dependents::tests(),
        multiple_owners::tests(),
        namespaces::tests(),
        orphan::tests(),
        policy_changes::tests(),
        races::tests(),
        repeated_deletes::tests(),
        workloads::tests(),
    ]
    .concat()
}
