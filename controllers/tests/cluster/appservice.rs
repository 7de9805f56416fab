//! `AppServices`: what becomes of them, as anybody sees it who has nothing but the API.
//!
//! Their pods become Ready by themselves, and what nobody owns any more is collected. Where KCM runs its own controllers
//! instead of ours there is nobody to keep them.

/// Registers an `async fn(Stage)`.
macro_rules! staged {
    ($function:ident) => {
        coxswain_tests::Test::new(module_path!(), stringify!($function), |cluster| {
            Box::pin(async move {
                $function($crate::appservice::stage::Stage::set(cluster).await).await;
            })
        })
        .needs(coxswain_tests::Need::Ours)
    };
}

mod children;
mod claims;
mod costs;
mod deletion;
mod input;
mod kubectl;
mod renaming;
mod scale;
mod stage;
mod trouble;

use coxswain_tests::Test;

pub fn tests() -> Vec<Test> {
    [
        children::tests(),
        claims::tests(),
        costs::tests(),
        deletion::tests(),
        input::tests(),
        kubectl::tests(),
        renaming::tests(),
        scale::tests(),
        trouble::tests(),
    ]
    .concat()
}
