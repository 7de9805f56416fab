//! The garbage collector: most of it for a built-in kind and for a custom one.

/// Registers an `async fn(Stage)` for these kinds; for a built-in and a custom one, if none is named.
macro_rules! each {
    ($function:ident) => {
        each!($function, [ConfigMap, Widget])
    };
    ($function:ident, [$($kind:ident),+]) => {
        vec![$(
            coxswain_tests::Test::new(
                module_path!(),
                concat!(stringify!($function), "::", stringify!($kind)),
                |cluster| Box::pin(async move {
                    let kind = $crate::garbage_collector::stage::Kind::$kind;
                    $function($crate::garbage_collector::stage::Stage::set(kind, cluster).await).await;
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
            .map(|test| test.needs(coxswain_tests::Need::$need))
            .collect::<Vec<_>>()
    };
}

mod background;
mod cycles;
mod definitions;
mod foreground;
mod identity;
mod kubectl;
mod late;
mod mixed;
mod namespaces;
mod orphan;
mod races;
mod scope;
mod stage;
mod switching;
mod twice;
mod workloads;

use coxswain_tests::Test;

pub fn tests() -> Vec<Test> {
    [
        background::tests(),
        cycles::tests(),
        definitions::tests(),
        foreground::tests(),
        identity::tests(),
        kubectl::tests(),
        late::tests(),
        mixed::tests(),
        namespaces::tests(),
        orphan::tests(),
        races::tests(),
        scope::tests(),
        switching::tests(),
        twice::tests(),
        workloads::tests(),
    ]
    .concat()
}
