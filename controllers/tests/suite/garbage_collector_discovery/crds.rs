//! CRDs are known from themselves: at once, and without a document.

use std::time::Duration;

use serde_json::json;

use super::way::Act;
use super::{CRDS, SECOND, bed, bed_with, known};

#[tokio::test(start_paused = true)]
async fn a_new_crd_is_known_and_its_metadata_there_within_a_second() {
    let bed = known().await;
    bed.way.asked();
    // Whatever discovery says, or does not say.
    bed.way.rule(|path| {
        path.starts_with("/apis/t.io/v1")
            .then(|| Act::Answer(404, "404 page not found".to_owned()))
    });
    bed.define("things.t.io", &["v1beta1", "v1"]).await;
    bed.within(SECOND, "known", || bed.collects("t.io/v1 things custom"))
        .await;
    assert!(bed.resolves("t.io/v1", "Kind6") && bed.resolves("t.io/v1beta1", "Kind6"));
    assert_eq!(bed.way.asked().0, Vec::<String>::new(), "no document was read");

    // The server may need a moment to serve it.
    let kinds = bed.discovery.kinds();
    let kind = kinds
        .borrow()
        .clone()
        .and_then(|it| it.collected().iter().find(|it| it.custom).cloned());
    let cache = bed.caches.metadata(&kind.expect("the kind").resource);
    bed.sleep(Duration::from_millis(200)).await;
    bed.way.heal();
    bed.within(SECOND, "filled", || cache.is_synced()).await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_no_longer_served_goes() {
    let bed = known().await;
    bed.define("things.t.io", &["v1", "v2"]).await;
    bed.within(SECOND, "known", || bed.collects("t.io/v2 things custom"))
        .await;
    let mut patch = super::crd("things.t.io", &["v1", "v2"]);
    patch["spec"]["versions"][1]["served"] = json!(false);
    bed.patch(
        &CRDS,
        "things.t.io",
        &json!({"spec": {"versions": patch["spec"]["versions"]}}),
    )
    .await;
    bed.within(SECOND, "changed", || bed.collects("t.io/v1 things custom"))
        .await;
    assert!(!bed.resolves("t.io/v2", "Kind6"));
    assert_eq!(
        bed.collected().iter().filter(|it| it.contains("things")).count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_is_gone_is_not_brought_back_by_documents_that_lag() {
    let bed = known().await;
    bed.define("things.t.io", &["v1"]).await;
    bed.within(SECOND, "known", || bed.collects("t.io/v1 things custom"))
        .await;
    // The documents with it are read, as they are every ten minutes.
    bed.sleep(601 * SECOND).await;
    assert!(bed.way.asked().0.iter().any(|it| it == "/apis/t.io/v1"));
    assert_eq!(
        bed.collected().iter().filter(|it| it.contains("things")).count(),
        1
    );
    bed.undefine("things.t.io").await;
    bed.within(SECOND, "gone", || !bed.resolves("t.io/v1", "Kind6"))
        .await;
    assert!(!bed.collected().iter().any(|it| it.contains("things")));

    bed.define("others.t.io", &["v1"]).await;
    bed.within(SECOND, "known", || bed.collects("t.io/v1 others custom"))
        .await;
    bed.undefine("others.t.io").await;
    bed.within(SECOND, "gone", || !bed.collects("t.io/v1 others custom"))
        .await;
    bed.sleep(1200 * SECOND).await;
    assert!(
        !bed.collected().iter().any(|it| it.contains("t.io")),
        "{:?}",
        bed.collected()
    );
    assert_eq!(bed.discovery.problems(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn where_crds_may_not_be_read_the_documents_are_all_there_is() {
    let bed = bed(|way| {
        let forbidden = r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#.to_owned();
        way.rule(move |path| {
            path.ends_with("/customresourcedefinitions")
                .then(|| Act::Answer(403, forbidden.clone()))
        });
    })
    .await;
    bed.within(SECOND, "known", || bed.collects("v1 pods")).await;
    bed.define("things.t.io", &["v1"]).await;
    bed.within(600 * SECOND, "read", || bed.collects("t.io/v1 things"))
        .await;
    bed.undefine("things.t.io").await;
    bed.within(601 * SECOND, "read", || !bed.collects("t.io/v1 things"))
        .await;
    bed.define("others.t.io", &["v1"]).await;
    bed.way.heal();
    // Its own, once it may.
    bed.within(61 * SECOND, "read", || bed.collects("t.io/v1 others custom"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn where_crds_may_no_longer_be_read_the_documents_are_believed() {
    let bed = known().await;
    bed.define("things.t.io", &["v1"]).await;
    bed.within(SECOND, "known", || bed.collects("t.io/v1 things custom"))
        .await;
    let forbidden = r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#.to_owned();
    bed.way.rule(move |path| {
        path.ends_with("/customresourcedefinitions")
            .then(|| Act::Answer(403, forbidden.clone()))
    });
    bed.within(660 * SECOND, "noticed", || bed.collects("t.io/v1 things"))
        .await;
    bed.define("widgets.t.io", &["v1"]).await;
    bed.within(660 * SECOND, "read", || bed.collects("t.io/v1 widgets"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn crds_that_do_not_answer_hold_up_the_others_for_a_moment_only() {
    let bed = bed_with(&["things.t.io"], |way| {
        way.rule(|path| path.ends_with("/customresourcedefinitions").then_some(Act::Hang));
    })
    .await;
    bed.within(3 * SECOND / 2, "known", || bed.collects("v1 pods"))
        .await;
    assert!(bed.collects("t.io/v1 things"), "from the documents");
    bed.way.heal();
    bed.within(35 * SECOND, "read", || bed.collects("t.io/v1 things custom"))
        .await;
}
