//! The black-box tests: the scenarios, and tests in Rust of concurrency, webhooks, kubectl and large documents.

mod admission;
mod apply;
mod auth;
mod cluster;
mod concurrency;
mod discovery;
mod expect;
mod kinds;
mod kubectl;
mod limits;
mod lists;
mod openapi;
mod protobuf;
mod quota;
mod support;
mod watches;

use std::{path::Path, process::ExitCode};

use coxswain_tests::{runner, scenario::files::Files};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = match Files::load(&root) {
        Ok(files) => files,
        Err(error) => return runner::fail(&format!("no scenarios to run: {error}")),
    };
    let code = runner::main(
        [
            files.tests(),
            admission::tests(),
            apply::tests(),
            auth::tests(),
            cluster::tests(),
            concurrency::tests(),
            discovery::tests(),
            kinds::tests(),
            kubectl::tests(),
            limits::tests(),
            lists::tests(),
            openapi::tests(),
            protobuf::tests(),
            quota::tests(),
            watches::tests(),
        ]
        .concat(),
    );
    match files.save() {
        Ok(()) => code,
        Err(error) => runner::fail(&format!("the answers are not recorded: {error}")),
    }
}
