//! The black-box tests, one file per surface.

mod admission;
mod apply;
mod auth;
mod cluster;
mod concurrency;
mod crd;
mod delete;
mod discovery;
mod expect;
mod kubectl;
mod lists;
mod objects;
mod openapi;
mod patch;
mod pods;
mod quota;
mod support;
mod watches;

fn main() -> std::process::ExitCode {
    coxswain_tests::runner::main(
        [
            admission::tests(),
            apply::tests(),
            auth::tests(),
            cluster::tests(),
            concurrency::tests(),
            crd::tests(),
            delete::tests(),
            discovery::tests(),
            kubectl::tests(),
            lists::tests(),
            objects::tests(),
            openapi::tests(),
            patch::tests(),
            pods::tests(),
            quota::tests(),
            watches::tests(),
        ]
        .concat(),
    )
}
