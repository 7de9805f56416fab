//! The pages about the process: version, configuration, flags, status, verbosity, controllers and service level indicators.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_manager::env::Clock;
use steersman_manager::serve::{BuildInfo, Endpoints};

use super::{Client, Fixture, fixture, fixture_with};

const BUILD: BuildInfo = BuildInfo {
    name: "boatyard",
    version: "v1.2.3",
    git_commit: "5ba3f4c",
    git_tree_state: "clean",
    build_date: "",
    rust_version: "rustc 1.95.0",
};

async fn pages() -> (Fixture, Arc<Mutex<String>>) {
    let verbosity = Arc::new(Mutex::new("2".to_owned()));
    let (of_flags, of_config, shown, set) = (
        verbosity.clone(),
        verbosity.clone(),
        verbosity.clone(),
        verbosity.clone(),
    );
    let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
    let mount = move |endpoints: Endpoints| {
        endpoints
            .mount("/debug/controllers/mender/queue", |_| async { unreachable!() })
            .with_version(&BUILD)
            .with_configz(
                "config.boatyard.example",
                move || json!({"logging": {"verbosity": *of_config.lock().expect("a lock")}}),
            )
            .with_flagz(BUILD.name, move || {
                BTreeMap::from([("v".to_owned(), of_flags.lock().expect("a lock").clone())])
            })
            .with_verbosity(
                move || shown.lock().expect("a lock").clone(),
                move |value| match value.parse::<u8>() {
                    Ok(_) => {
                        value.clone_into(&mut set.lock().expect("a lock"));
                        Ok(format!("set to {value}"))
                    }
                    Err(error) => Err(format!("invalid verbosity {value:?}: {error}")),
                },
            )
            .with_controller_index()
            .with_statusz(&BUILD, &clock)
    };
    (fixture_with(mount).await, verbosity)
}

async fn json_of(client: &mut Client, path: &str) -> Value {
    let reply = client.get(path).await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (StatusCode::OK, "application/json"),
        "{path}"
    );
    serde_json::from_str(&reply.body).expect("JSON")
}

#[tokio::test]
async fn verbosity_set_by_put_is_shown_on_all_pages() {
    let (fixture, _) = pages().await;
    for (mut client, verbosity) in fixture.clients().await.into_iter().zip(["5", "7"]) {
        let reply = client
            .request(
                Method::PUT,
                "/debug/flags/v",
                if verbosity == "5" { "5" } else { "7\n" },
            )
            .await;
        assert_eq!(
            (reply.status.as_u16(), reply.body),
            (200, format!("set to {verbosity}\n"))
        );
        assert_eq!(client.get("/debug/flags/v").await.body, format!("{verbosity}\n"));
        let config = json_of(&mut client, "/configz").await;
        assert_eq!(
            config,
            json!({"config.boatyard.example": {"logging": {"verbosity": verbosity}}})
        );
        assert!(
            client
                .get("/flagz")
                .await
                .body
                .ends_with(&format!("\nv={verbosity}\n"))
        );
    }
}

#[tokio::test]
async fn invalid_verbosity_is_rejected_and_not_set() {
    let (fixture, verbosity) = pages().await;
    let mut client = fixture.http1().await;
    for (body, status) in [("", 400), ("much", 400), ("-1", 400), ("4 5", 400)] {
        let reply = client.request(Method::PUT, "/debug/flags/v", body).await;
        assert_eq!(reply.status, status, "{body:?}");
        assert!(reply.body.starts_with("invalid verbosity"), "{}", reply.body);
    }
    let huge: &'static str = Box::leak("5".repeat(70_000).into_boxed_str());
    assert_eq!(
        client.request(Method::PUT, "/debug/flags/v", huge).await.status,
        413
    );
    assert_eq!(*verbosity.lock().expect("a lock"), "2");
}

#[tokio::test]
async fn every_page_serves_head_and_rejects_other_methods() {
    let (fixture, _) = pages().await;
    for path in [
        "/version",
        "/configz",
        "/flagz",
        "/statusz",
        "/metrics/slis",
        "/debug/flags/v",
        "/debug/controllers/",
    ] {
        let mut client = fixture.http1().await;
        let (get, head) = (
            client.get(path).await,
            client.request(Method::HEAD, path, "").await,
        );
        assert_eq!(
            (get.status, head.status),
            (StatusCode::OK, StatusCode::OK),
            "{path}"
        );
        assert!(head.body.is_empty() && !get.body.is_empty(), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        let reply = client.request(Method::POST, path, "").await;
        assert_eq!(reply.status, 405, "{path}");
        assert!(
            reply.header("allow").starts_with("GET, HEAD"),
            "{path}: {}",
            reply.header("allow")
        );
    }
}

#[tokio::test]
async fn structured_pages_negotiate_their_format() {
    let (fixture, _) = pages().await;
    let Client::Http1(mut client) = fixture.http1().await else {
        unreachable!()
    };
    let mut get = async |path: &str, accept: &str| {
        let request = Request::get(path)
            .header("host", "localhost")
            .header("accept", accept);
        let request = request.body(Full::default()).expect("a request");
        client.ready().await.expect("a connection");
        let (parts, body) = client
            .send_request(request)
            .await
            .expect("a response")
            .into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        (parts, String::from_utf8(body.to_vec()).expect("text"))
    };
    let (parts, body) = get(
        "/statusz",
        "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
    )
    .await;
    assert_eq!(parts.status, 200);
    assert!(parts.headers.get("warning").is_none());
    let status: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(status["apiVersion"], "config.k8s.io/v1beta1");
    assert_eq!(
        (&status["kind"], &status["metadata"]["name"]),
        (&json!("Statusz"), &json!("boatyard"))
    );
    assert_eq!(status["startTime"], "1970-01-01T00:00:00Z");
    let paths = [
        "/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version",
    ];
    assert_eq!(status["paths"], json!(paths));

    let (parts, body) = get("/flagz", "application/yaml;v=v1alpha1;g=config.k8s.io;as=Flagz").await;
    assert_eq!(
        (parts.status, &parts.headers["content-type"]),
        (StatusCode::OK, &"application/yaml".parse().expect("a value"))
    );
    assert!(parts.headers.get("warning").is_some());
    assert!(
        body.ends_with("flags:\n  v: \"2\"\nkind: \"Flagz\"\nmetadata:\n  name: \"boatyard\"\n"),
        "{body}"
    );

    let (parts, body) = get("/flagz", "application/json").await;
    assert_eq!(parts.status, 406);
    let refusal: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (&refusal["kind"], &refusal["reason"]),
        (&json!("Status"), &json!("NotAcceptable"))
    );
}

#[tokio::test]
async fn controller_index_lists_pages_and_unknown_page_returns_404() {
    let (fixture, _) = pages().await;
    let mut client = fixture.http1().await;
    for (path, status) in [
        ("/debug/controllers", 200),
        ("/debug/controllers/", 200),
        ("/debug/controllers/mender", 404),
        ("/debug/controllers/other/queue", 404),
    ] {
        let reply = client.get(path).await;
        assert_eq!(reply.status, status, "{path}");
        assert!(
            reply.body.ends_with("/debug/controllers/mender/queue\n"),
            "{path}: {}",
            reply.body
        );
    }
}

#[tokio::test]
async fn probes_and_scrapes_count_health_checks() {
    let fixture = fixture().await;
    let mut client = fixture.http1().await;
    let counted = |number: u8| {
        format!("kubernetes_healthchecks_total{{name=\"ping\",status=\"success\",type=\"livez\"}} {number}\n")
    };
    for path in ["/livez", "/livez?verbose", "/livez?exclude=ping", "/livez/ping"] {
        assert_eq!(client.get(path).await.status, 200);
    }
    let page = client.get("/metrics/slis").await;
    assert_eq!(
        page.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    assert!(
        page.body.contains(&counted(3)),
        "two probes and the scrape: {}",
        page.body
    );
    assert!(
        page.body
            .contains("kubernetes_healthcheck{name=\"ping\",type=\"readyz\"} 1\n")
    );
    assert!(
        !client
            .get("/metrics")
            .await
            .body
            .contains("kubernetes_healthcheck")
    );
    let reset = client.request(Method::DELETE, "/metrics/slis", "").await;
    assert_eq!(
        (reset.status.as_u16(), reset.body.as_str()),
        (200, "metrics reset\n")
    );
    assert!(client.get("/metrics/slis").await.body.contains(&counted(1)));
}
