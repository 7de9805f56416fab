//! The black-box tests: the scenarios, and tests in Rust of concurrency, sockets, time and large requests.

mod admission;
mod auth;
mod cluster;
mod concurrency;
mod documents;
mod kinds;
mod kubectl;
mod limits;
mod quota;
mod support;
mod watches;

use std::{path::Path, process::ExitCode};

use steersman_harness::{runner, scenario::files::Files};

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
            auth::tests(),
            cluster::tests(),
            concurrency::tests(),
            documents::tests(),
            kinds::tests(),
            kubectl::tests(),
            limits::tests(),
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
