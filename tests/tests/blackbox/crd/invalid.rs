//! Definitions that are refused.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::{CRDS, Place, version};
use crate::support::with;

pub fn tests() -> Vec<Test> {
    vec![
        test!(name_must_be_plural_and_group),
        test!(one_version_must_be_stored),
        test!(only_one_version_may_be_stored),
        test!(versions_must_differ),
        test!(version_must_have_a_schema),
        test!(scope_must_be_known),
        test!(group_must_have_a_dot),
        test!(group_may_not_be_protected),
        test!(names_must_be_there),
    ]
}

/// Asserts that a definition is refused for these fields, with these reasons, and that it is not there.
async fn assert_invalid(c: &Cluster, crd: &Value, expected: &[(&str, &str)]) -> String {
    let reply = c.api().post(CRDS, crd).await;
    reply.expect_error(422, "Invalid");
    let causes = reply.causes();
    let found: Vec<_> = causes.iter().map(|c| (&*c.reason, &*c.field)).collect();
    assert_eq!(found, expected, "{reply}");
    let name = crd["metadata"]["name"].as_str().unwrap_or_default();
    let start = format!("CustomResourceDefinition.apiextensions.k8s.io \"{name}\" is invalid: ");
    reply.check(reply.message().starts_with(&start), &start);
    c.api()
        .get(&format!("{CRDS}/{name}"))
        .await
        .expect_error(404, "NotFound");
    causes[0].message.clone()
}

async fn versions(c: &Cluster, versions: &[Value], expected: &[(&str, &str)]) -> String {
    let place = Place::new(c).await;
    let crd = with(place.crd(), "/spec/versions", json!(versions));
    assert_invalid(c, &crd, expected).await
}

async fn name_must_be_plural_and_group(c: Cluster) {
    let place = Place::new(&c).await;
    let name = format!("gadgets.{}", place.group);
    let crd = with(place.crd(), "/metadata/name", json!(name));
    let message = assert_invalid(&c, &crd, &[("FieldValueInvalid", "metadata.name")]).await;
    let expected = format!("Invalid value: \"{name}\": must be spec.names.plural+\".\"+spec.group");
    assert_eq!(message, expected);
}

async fn one_version_must_be_stored(c: Cluster) {
    for none in [vec![version("v1", true, false)], vec![]] {
        let expected = [
            ("FieldValueInvalid", "spec.versions"),
            ("FieldValueInvalid", "status.storedVersions"),
        ];
        let message = versions(&c, &none, &expected).await;
        let end = ": must have exactly one version marked as storage version";
        assert!(message.ends_with(end), "{message}");
    }
}

async fn only_one_version_may_be_stored(c: Cluster) {
    let two = [version("v1", true, true), version("v2", true, true)];
    let expected = [
        ("FieldValueInvalid", "spec.versions"),
        ("FieldValueInvalid", "status.storedVersions"),
    ];
    let message = versions(&c, &two, &expected).await;
    let end = ": must have exactly one version marked as storage version";
    assert!(message.ends_with(end), "{message}");
}

async fn versions_must_differ(c: Cluster) {
    let two = [version("v1", true, true), version("v1", true, false)];
    let message = versions(&c, &two, &[("FieldValueInvalid", "spec.versions")]).await;
    let end = ": must contain unique version names";
    assert!(message.ends_with(end), "{message}");
}

async fn version_must_have_a_schema(c: Cluster) {
    let without = json!({"name": "v1", "served": true, "storage": true});
    let field = "spec.versions[0].schema.openAPIV3Schema";
    let message = versions(&c, &[without], &[("FieldValueRequired", field)]).await;
    assert!(message.starts_with("Required value"), "{message}");
}

async fn scope_must_be_known(c: Cluster) {
    let place = Place::new(&c).await;
    let crd = with(place.crd(), "/spec/scope", json!("Galaxy"));
    let message = assert_invalid(&c, &crd, &[("FieldValueNotSupported", "spec.scope")]).await;
    assert_eq!(
        message,
        "Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\""
    );
    let crd = with(place.crd(), "/spec/scope", json!(""));
    assert_invalid(&c, &crd, &[("FieldValueRequired", "spec.scope")]).await;
}

async fn group_must_have_a_dot(c: Cluster) {
    let place = Place::new(&c).await;
    let crd = with(place.crd(), "/spec/group", json!("nodots"));
    let crd = with(crd, "/metadata/name", json!("widgets.nodots"));
    let message = assert_invalid(&c, &crd, &[("FieldValueInvalid", "spec.group")]).await;
    assert_eq!(
        message,
        "Invalid value: \"nodots\": should be a domain with at least one dot"
    );
}

async fn group_may_not_be_protected(c: Cluster) {
    let place = Place::new(&c).await;
    for group in ["x.k8s.io", "x.kubernetes.io"] {
        let crd = with(place.crd(), "/spec/group", json!(group));
        let crd = with(crd, "/metadata/name", json!(format!("widgets.{group}")));
        let field = "metadata.annotations[api-approved.kubernetes.io]";
        assert_invalid(&c, &crd, &[("FieldValueRequired", field)]).await;
    }
}

async fn names_must_be_there(c: Cluster) {
    let place = Place::new(&c).await;
    let crd = with(place.crd(), "/spec/names/kind", json!(""));
    let expected = [
        ("FieldValueRequired", "spec.names.kind"),
        ("FieldValueRequired", "spec.names.listKind"),
    ];
    assert_invalid(&c, &crd, &expected).await;
}
