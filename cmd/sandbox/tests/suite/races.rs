//! Concurrent requests on several threads.

use std::sync::Barrier;
use std::thread;

use http::Method;
use serde_json::{Value, json};
use steersman_sandbox::ApiService;

use crate::client::{sandbox, send};

const THREADS: usize = 4;
const ROUNDS: usize = 100;

fn at_once(service: &ApiService, request: impl Fn(usize) -> (Method, String, Value) + Sync) -> Vec<u16> {
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (barrier, request) = (&barrier, &request);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                        .expect("a runtime");
                    let (method, path, body) = request(thread);
                    barrier.wait();
                    runtime.block_on(send(service, method, &path, &body)).0
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

#[test]
fn cluster_ip_is_allocated_to_one_service() {
    let service = sandbox().service();
    let path = "/api/v1/namespaces/default/services";
    for round in 0..ROUNDS {
        let spec = json!({"clusterIP": format!("10.0.1.{round}"), "ports": [{"port": 80}]});
        let statuses = at_once(&service, |thread| {
            let name = format!("s-{round}-{thread}");
            (
                Method::POST,
                path.to_owned(),
                json!({"metadata": {"name": name}, "spec": spec}),
            )
        });
        assert_eq!(
            statuses.iter().filter(|status| **status == 201).count(),
            1,
            "{statuses:?}"
        );
    }
}

#[test]
fn deleted_namespace_leaves_no_objects() {
    let service = sandbox().service();
    for round in 0..ROUNDS {
        let ns = format!("ns-{round}");
        at_once(&service, |_| {
            (
                Method::POST,
                "/api/v1/namespaces".to_owned(),
                json!({"metadata": {"name": ns}}),
            )
        });
        at_once(&service, |thread| {
            if thread == 0 {
                return (Method::DELETE, format!("/api/v1/namespaces/{ns}"), Value::Null);
            }
            let body = json!({"metadata": {"name": format!("m-{thread}")}});
            (Method::POST, format!("/api/v1/namespaces/{ns}/configmaps"), body)
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (status, _) = crate::client::get(&service, &format!("/api/v1/namespaces/{ns}")).await;
            assert_eq!(status, 404, "the namespace is removed");
            let (_, list) = crate::client::get(&service, "/api/v1/configmaps").await;
            assert_eq!(list["items"], json!([]), "no object is left");
        });
    }
}
