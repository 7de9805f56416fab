//! Objects: what the server makes of what is sent, kind by kind, and what it refuses.

mod autoscalers;
mod bodies;
mod concurrency;
mod create;
mod defaults;
mod found;
mod generation;
mod jobs;
mod metadata;
mod options;
mod protobuf;
mod scale;
mod services;
mod status;
mod status_rules;
mod update;
mod validation;
mod workload_defaults;
mod workloads;

use coxswain_tests::Test;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        autoscalers::tests(),
        bodies::tests(),
        concurrency::tests(),
        create::tests(),
        defaults::tests(),
        found::tests(),
        generation::tests(),
        jobs::tests(),
        metadata::tests(),
        options::tests(),
        protobuf::tests(),
        scale::tests(),
        services::tests(),
        status::tests(),
        status_rules::tests(),
        update::tests(),
        validation::tests(),
        workload_defaults::tests(),
        workloads::tests(),
    ]
    .concat()
}
