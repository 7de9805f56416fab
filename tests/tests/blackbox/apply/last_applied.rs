//! From client-side apply to server-side apply: the annotation that kubectl left says what kubectl may take.

use coxswain_tests::{Cluster, Test, fixtures::core, test};
use serde_json::{Value, json};

use super::{apply, map};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(kubectl_takes_over_what_it_applied),
        test!(others_do_not),
        test!(the_annotation_is_kept_up_to_date),
    ];
    tests.into_iter().map(|test| test.since(1, 36)).collect()
}

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

async fn create(c: &Cluster) -> String {
    let ns = c.namespace().await;
    let mut object = map(&json!({"k": "1", "l": "2", "other": "3"}));
    object["metadata"]["annotations"][ANNOTATION] = map(&json!({"k": "1", "l": "2"})).to_string().into();
    let path = core(&ns, "configmaps?fieldManager=kubectl-client-side-apply");
    c.api().post(&path, object).await.expect(201);
    core(&ns, "configmaps/a")
}

async fn kubectl_takes_over_what_it_applied(c: Cluster) {
    let path = create(&c).await;
    let refused = apply(&c, &path, "kubectl", "", &map(&json!({"k": "9", "other": "9"}))).await;
    refused.expect_error(409, "Conflict");
    let left: Vec<String> = refused.causes().into_iter().map(|cause| cause.field).collect();
    assert_eq!(left, [".data.other"], "what it had applied is no conflict");
    let taken = apply(&c, &path, "kubectl", "", &map(&json!({"k": "9"})))
        .await
        .expect(200);
    assert_eq!(taken["data"]["k"], "9");
}

async fn others_do_not(c: Cluster) {
    let path = create(&c).await;
    apply(&c, &path, "m", "", &map(&json!({"k": "9"})))
        .await
        .expect_error(409, "Conflict");
}

async fn the_annotation_is_kept_up_to_date(c: Cluster) {
    let path = create(&c).await;
    let said = |object: &Value| -> Value {
        let text = object["metadata"]["annotations"][ANNOTATION]
            .as_str()
            .unwrap_or_default();
        serde_json::from_str(text).expect("JSON")
    };
    let taken = apply(&c, &path, "kubectl", "", &map(&json!({"k": "9"})))
        .await
        .expect(200);
    assert_eq!(said(&taken), map(&json!({"k": "9"})));
    let other = apply(&c, &path, "m", "", &map(&json!({"m": "1"})))
        .await
        .expect(200);
    assert_eq!(said(&other), map(&json!({"k": "9"})), "only kubectl's");
}
