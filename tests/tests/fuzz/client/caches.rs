//! Caches that list and watch changed answers. They send few requests meanwhile, and equal the healed server afterwards.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod as WholePod;
use serde_json::{Value, json};
use steersman_controllers::api::app_service::{APP_SERVICES, AppService};
use steersman_controllers::support::deployment::Deployment;
use steersman_controllers::support::pod::Pod;
use steersman_harness::draw::Draw;
use steersman_manager::cache::{Caches, Scope};
use steersman_manager::object::{Key, Object, Resource};

use super::{Answer, Fixture, fixture, status};
use crate::sandbox::corpus;
use crate::{AllocatedMax, Input, Target, paused};

pub const TARGET: Target = Target {
    name: "client::caches",
    inputs: 100,
    allocated_max: AllocatedMax::TREE,
    draw,
    check,
};

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
/// The virtual time until the server is healed, and the number of requests until then.
const BROKEN: Duration = Duration::from_secs(30);
const REQUESTS_MAX: usize = 100;
/// The virtual time in which a cache recovers: it waits for a silent watch, and for three lists of a restored server.
const RECOVERED_SECONDS: usize = 900;

fn draw(draw: &mut Draw) -> Input {
    let resource = *draw.one(&["pods", "deployments", "appservices"]);
    let list = list(resource);
    let (object, other) = (&list["items"][0], &list["items"][1]);
    let bookmark = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "104"}});
    let mut events = vec![
        json!({"type": "ADDED", "object": object}),
        json!({"type": "MODIFIED", "object": other}),
        json!({"type": "BOOKMARK", "object": bookmark}),
        json!({"type": "DELETED", "object": object}),
    ];
    if draw.once_in(3) {
        events.push(json!({"type": "ERROR", "object": status()}));
    }
    let mut input = super::draw(draw, &list, &events);
    input.push(resource.as_bytes().to_vec());
    input
}

/// Returns a list of two objects of the corpus as a server returns it.
fn list(resource: &str) -> Value {
    let stored = |name: &str, uid: &str| {
        let mut object = corpus::object(resource);
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!("default");
        object["metadata"]["uid"] = json!(uid);
        object["metadata"]["resourceVersion"] = json!("99");
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        object
    };
    let (a, b) = (
        "11111111-1111-1111-1111-111111111111",
        "22222222-2222-2222-2222-222222222222",
    );
    json!({
        "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "100", "continue": "", "remainingItemCount": null},
        "items": [stored("a", a), stored("b", b)],
    })
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    paused().block_on(async {
        let fixture = fixture(input);
        match &*input[8] {
            b"deployments" => synced::<Deployment>(&fixture, &DEPLOYMENTS).await,
            b"appservices" => synced::<AppService>(&fixture, &APP_SERVICES).await,
            _ => synced::<Pod>(&fixture, &PODS).await,
        }
    })
}

async fn synced<T: Object>(fixture: &Fixture, resource: &Resource) -> Result<(), String> {
    let Fixture {
        env,
        registry,
        server,
        transport,
        ..
    } = fixture;
    let caches = Caches::new(env, transport.reader("caches", None), Scope::default(), registry);
    let caches = caches.map_err(|error| error.to_string())?;
    let (cache, metadata) = (caches.of::<T>(resource), caches.metadata(resource));
    let mut deltas = cache.subscribe();
    // A second projection of the same list.
    let whole = (*resource == PODS).then(|| caches.of_kind::<WholePod>());
    env.clock.sleep(BROKEN).await;
    if server.requests() > REQUESTS_MAX {
        return Err(format!("too many requests: {} in {BROKEN:?}", server.requests()));
    }
    server.heal(Answer {
        code: 200,
        retry_after: Vec::new(),
        body: list(&resource.plural).to_string().into(),
        chunks: Vec::new(),
    });
    cache.relist();
    let expected = [Key::new("default", "a"), Key::new("default", "b")];
    for _ in 0..RECOVERED_SECONDS {
        let keys: Vec<Key> = cache.all().iter().map(|object| object.meta().key()).collect();
        let all: Vec<Key> = metadata
            .all()
            .iter()
            .map(|object| object.metadata.key())
            .collect();
        let is_whole = whole
            .as_ref()
            .is_none_or(|whole| whole.is_synced() && whole.len() == expected.len());
        if cache.is_synced()
            && keys == expected
            && all == expected
            && is_whole
            && cache.undecodable().is_empty()
        {
            while deltas.try_next().is_some() {}
            return Ok(());
        }
        env.clock.sleep(Duration::from_secs(1)).await;
    }
    let keys: Vec<Key> = cache.all().iter().map(|object| object.meta().key()).collect();
    Err(format!(
        "cache does not recover: {keys:?} instead of {expected:?}, {:?}",
        cache.status()
    ))
}
