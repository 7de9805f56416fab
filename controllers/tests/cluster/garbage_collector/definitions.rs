//! Custom kinds that come and go while the collector runs.

use std::time::Duration;

use coxswain_tests::fixtures::{self, CRDS};
use coxswain_tests::{Test, time};
use serde_json::{Value, json};

use super::stage::{FOUND, GROUP, Kind, Stage, definition, serve, text};
use crate::controllers::WAIT_MAX;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(objects_of_a_new_kind_are_collected, [ConfigMap]),
        each!(each_new_kind_is_collected, [ConfigMap], Ours),
        each!(dependents_of_a_kind_that_goes_are_collected, [ConfigMap]),
        each!(a_kind_that_comes_again_is_collected_again, [ConfigMap], Ours),
    ]
    .concat()
}

/// A kind of this test alone.
struct Own {
    kind: String,
    plural: String,
}

impl Own {
    async fn define(s: &Stage, name: &str) -> Self {
        let kind = format!("{name}{}", s.ns.replace('-', ""));
        serve(&s.c, &definition(&kind, "Namespaced", &[("v1", true)])).await;
        let plural = format!("{}s", kind.to_lowercase());
        Self { kind, plural }
    }

    fn path(&self, s: &Stage) -> String {
        fixtures::group(&format!("{GROUP}/v1"), &s.ns, &self.plural)
    }

    /// Creates one and returns a reference to it.
    async fn create(&self, s: &Stage, name: &str, owners: &[Value]) -> Value {
        let change = json!({"metadata": {"ownerReferences": owners}});
        let object = fixtures::with(fixtures::named(&format!("{GROUP}/v1"), &self.kind, name), change);
        let created = s.c.api().post(&self.path(s), object).await.expect(201);
        let uid = text(&created["metadata"]["uid"]);
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": self.kind, "name": name, "uid": uid,
            "blockOwnerDeletion": true,
        })
    }

    /// Waits for one to go, and tells how long that took.
    async fn gone(&self, s: &Stage, name: &str, limit: Duration) -> Duration {
        let path = format!("{}/{name}", self.path(s));
        let from = time::now();
        let gone = time::eventually(limit, async || {
            (s.c.api().get(&path).await.status == 404).then_some(())
        });
        assert!(gone.await.is_some(), "{path} is there after {limit:?}");
        from.elapsed()
    }

    async fn undefine(&self, s: &Stage) {
        let path = format!("{CRDS}/{}.{GROUP}", self.plural);
        s.c.api().delete(&path, ()).await.expect(200);
        // A server that is behind goes on serving the first to whoever defines it again, and takes nothing.
        let objects = self.path(s);
        for path in [path, objects] {
            s.until(&format!("{path} is gone"), async || {
                (s.c.api().get(&path).await.status == 404).then_some(())
            })
            .await;
        }
    }
}

/// Those that were there when the collector found the kind, and those that come later.
async fn objects_of_a_new_kind_are_collected(s: Stage) {
    let own = Own::define(&s, "Fresh").await;
    let owner = own.create(&s, "owner", &[]).await;
    own.create(&s, "mine", std::slice::from_ref(&owner)).await;
    let map = s.of(Kind::ConfigMap, "map", &[owner]).await;
    own.create(&s, "garbage", &[s.never(Kind::ConfigMap)]).await;
    own.gone(&s, "garbage", FOUND).await;
    s.stay(&[&map]).await;
    let path = format!("{}/owner", own.path(&s));
    s.c.api().get(&format!("{}/mine", own.path(&s))).await.expect(200);
    s.c.api()
        .delete(&path, json!({"propagationPolicy": "Foreground"}))
        .await
        .expect(200);
    own.gone(&s, "owner", WAIT_MAX).await;
    own.gone(&s, "mine", WAIT_MAX).await;
    s.gone(&[&map]).await;
    own.undefine(&s).await;
}

/// The promise of a second is asserted on a paused clock, where no other work delays it; here its times are printed.
async fn each_new_kind_is_collected(s: Stage) {
    // Without the time that the collector itself takes to start.
    s.of(Kind::Widget, "first", &[]).await;
    s.seen().await;
    let mut times = Vec::new();
    for round in 0..5 {
        let own = Own::define(&s, &format!("Quick{round}")).await;
        own.create(&s, "garbage", &[s.never(Kind::ConfigMap)]).await;
        times.push(own.gone(&s, "garbage", FOUND).await);
        own.undefine(&s).await;
    }
    times.sort();
    println!("garbage of a new kind was collected after {times:?}");
}

/// The objects of a definition go with it, and with them what they own.
async fn dependents_of_a_kind_that_goes_are_collected(s: Stage) {
    let own = Own::define(&s, "Leaving").await;
    own.create(&s, "garbage", &[s.never(Kind::ConfigMap)]).await;
    own.gone(&s, "garbage", FOUND).await;
    let owner = own.create(&s, "owner", &[]).await;
    let map = s.of(Kind::ConfigMap, "map", std::slice::from_ref(&owner)).await;
    let solid = s.of(Kind::ConfigMap, "solid", &[]).await;
    let both = s.of(Kind::ConfigMap, "both", &[owner, solid.reference()]).await;
    s.stay(&[&map, &both]).await;
    own.undefine(&s).await;
    s.gone(&[&map]).await;
    s.is(&both, "has one owner", |now| {
        super::stage::owners(now) == [&*solid.uid]
    })
    .await;
    s.stay(&[&both]).await;
}

async fn a_kind_that_comes_again_is_collected_again(s: Stage) {
    for _ in 0..2 {
        let own = Own::define(&s, "Again").await;
        let owner = own.create(&s, "owner", &[]).await;
        own.create(&s, "garbage", &[s.never(Kind::ConfigMap)]).await;
        own.gone(&s, "garbage", FOUND).await;
        let map = s.of(Kind::ConfigMap, "map", &[owner]).await;
        s.stay(&[&map]).await;
        own.undefine(&s).await;
        s.gone(&[&map]).await;
    }
}
