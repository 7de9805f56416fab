//! Objects close to the size limit of etcd (1.5 MiB).

use super::*;
use crate::fixture::cached_bytes;

#[tokio::test(start_paused = true)]
async fn large_objects_are_collected_and_only_their_metadata_is_cached() {
    let f = fixture().await;
    f.define_widgets().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    let data = "x".repeat(1_500_000);
    for i in 0..5 {
        let mut body = object(&WIDGETS, &format!("dependent-{i}"), &[reference(&owner)]);
        body["spec"] = json!({"large": data});
        let created: Result<Value, _> = f.admin.create(&WIDGETS, "default", body.to_string().into()).await;
        created.expect("created");
    }
    f.settle().await;
    let bytes = cached_bytes(&f.registry, "widgets");
    assert!(bytes > 0.0 && bytes < 100_000.0, "{bytes}");
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&WIDGETS).await == 0).await;
    assert_eq!(f.api.count("DELETE widgets"), 5);
}
