//! A candidate that reads changed Leases. It acquires the Lease once the server is healed, where none exists.

use std::time::Duration;

use coxswain_harness::draw::Draw;
use coxswain_manager::client::Fence;
use coxswain_manager::election::{Config, Elector};
use coxswain_sandbox::Sandbox;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Fixture, Healed, fixture, status};
use crate::{Input, Target, paused};

pub const TARGET: Target = Target {
    name: "client::election",
    inputs: 50,
    draw,
    check,
};

const BROKEN: Duration = Duration::from_secs(60);
const REQUESTS_MAX: usize = 300;
const RECOVERED_SECONDS: usize = 1800;

fn draw(draw: &mut Draw) -> Input {
    let lease = json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {
            "name": "fuzz", "namespace": "default", "uid": "1", "resourceVersion": "7",
            "annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"},
        },
        "spec": {
            "holderIdentity": *draw.one(&["", "other", "self"]), "leaseDurationSeconds": 15, "leaseTransitions": 3,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:05.000000Z",
        },
    });
    // Reads of the object and of the list get the same answer.
    let mut list = lease.clone();
    list["metadata"]["resourceVersion"] = json!("8");
    list["items"] = json!([lease]);
    let events = [
        json!({"type": "MODIFIED", "object": lease}),
        json!({"type": "ERROR", "object": status()}),
    ];
    super::draw(draw, &list, &events)
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    paused().block_on(async {
        let Fixture {
            env,
            registry,
            server,
            transport,
            ..
        } = &fixture(input);
        let fence = Fence::new(env.clock.clone());
        let config = Config::new("default", "fuzz", "self");
        let client = transport.unfenced("election", None);
        let elector =
            Elector::new(env, client, fence, config, registry).map_err(|error| error.to_string())?;
        env.tasks
            .spawn(elector.run(CancellationToken::new(), std::future::pending()));
        env.clock.sleep(BROKEN).await;
        if server.requests() > REQUESTS_MAX {
            return Err(format!("too many requests: {} in {BROKEN:?}", server.requests()));
        }
        let sandbox = Sandbox::builder()
            .seed(7)
            .start()
            .map_err(|error| error.to_string())?;
        server.heal(Healed::Sandbox(sandbox.service()));
        // It leads later: the holder of a Lease that it has read may still believe that it leads.
        let leases: kube::Api<Lease> =
            kube::Api::namespaced(kube::Client::new(sandbox.service(), "default"), "default");
        for _ in 0..RECOVERED_SECONDS {
            let lease = leases.get_opt("fuzz").await.map_err(|error| error.to_string())?;
            if lease.and_then(|it| it.spec?.holder_identity).as_deref() == Some("self") {
                return Ok(());
            }
            env.clock.sleep(Duration::from_secs(1)).await;
        }
        Err("candidate does not recover: it does not acquire the Lease".to_owned())
    })
}
