//! Hashes of the discovery and `OpenAPI` documents, by which clients cache them.

use http::Method;
use steersman_harness::{Cluster, Reply, Test, test};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    vec![
        test!(storage_version_hash_is_stable),
        test!(matching_etag_returns_304).since(1, 30),
        test!(index_links_immutable_documents).since(1, 27),
    ]
}

async fn get_with(c: &Cluster, path: &str, headers: &[(&str, &str)]) -> Reply {
    c.api().request(Method::GET, path, headers, ()).await
}

#[track_caller]
fn assert_hash(hash: &str) {
    let hexadecimal = |c: char| c.is_ascii_digit() || ('A'..='F').contains(&c);
    assert!(hash.len() == 128 && hash.chars().all(hexadecimal), "{hash:?}");
}

/// The hash is the same for all versions of a resource.
async fn storage_version_hash_is_stable(c: Cluster) {
    for (path, resource, hash) in [
        ("/api/v1", "configmaps", Some("qFsyl6wFWjQ=")),
        ("/api/v1", "pods/status", None),
        ("/apis/apps/v1", "deployments", Some("8aSe+NMegvE=")),
        ("/apis/events.k8s.io/v1", "events", Some("r2yiGXH7wu8=")),
        ("/apis/authorization.k8s.io/v1", "subjectaccessreviews", None),
    ] {
        let list = c.read(path).await;
        let rows = list["resources"].as_array().expect("resources");
        let row = rows.iter().find(|row| row["name"] == resource).expect(resource);
        assert_eq!(row["storageVersionHash"].as_str(), hash, "{resource}");
    }
}

async fn matching_etag_returns_304(c: Cluster) {
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (path, accept) in [
        ("/api", aggregated),
        ("/openapi/v3/apis/apps/v1", "application/json"),
    ] {
        let reply = get_with(&c, path, &[("accept", accept)]).await;
        let tag = reply.header("etag").unwrap_or_default();
        assert_hash(tag.trim_matches('"'));
        let vary = reply.header("vary").is_some_and(|vary| vary.contains("Accept"));
        reply.check(reply.status == 200 && vary, "expected Vary");
        let again = get_with(&c, path, &[("accept", accept), ("if-none-match", tag)]).await;
        let is_unchanged = again.status == 304 && again.body.is_empty();
        again.check(is_unchanged, "expected 304 without a body");
        let other = get_with(&c, path, &[("accept", accept), ("if-none-match", "\"other\"")]).await;
        other.expect(200);
    }
    // Other tests create CRDs, which change this document.
    let other = get_with(&c, "/openapi/v2", &[("if-none-match", "\"other\"")]).await;
    other.expect(200);
}

async fn index_links_immutable_documents(c: Cluster) {
    let index = c.read("/openapi/v3").await;
    for path in ["api/v1", "apis/apps/v1", "apis/rbac.authorization.k8s.io/v1"] {
        let link = index["paths"][path]["serverRelativeURL"]
            .as_str()
            .unwrap_or_default();
        let hash = link.rsplit('=').next().unwrap_or_default();
        assert_hash(hash);
        assert_eq!(link, format!("/openapi/v3/{path}?hash={hash}"));
        let tag = format!("\"{hash}\"");
        let reply = c.api().get(link).await;
        reply.expect(200);
        reply.check(reply.header("etag") == Some(&*tag), "expected the hash");
        let immutable = reply.header("cache-control") == Some("public, immutable");
        reply.check(
            immutable && reply.header("expires").is_some(),
            "expected an expiry",
        );
        // A link without the hash has no expiry.
        let plain = c.api().get(&format!("/openapi/v3/{path}")).await;
        plain.check(plain.header("etag") == Some(&*tag), "expected the hash");
        plain.check(plain.header("expires").is_none(), "expected no expiry");
    }
}
