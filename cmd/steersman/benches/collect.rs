//! Measures garbage collection of the dependents of one owner: `cargo bench -p steersman --bench collect`.
//!
//! Prints, for each policy and size, the duration, the manager's requests by verb, and its peak memory, each measured in a
//! process of its own on a cluster (the sandbox, or the one of `KUBEBUILDER_ASSETS`). Compare sizes and versions on one machine:
//! the time per object should not grow.
//! Sizes and policies are arguments: `cargo bench -p steersman --bench collect -- 1000 3000 Foreground`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use steersman_harness::{Cluster, Program, time};

const SIZES: [usize; 2] = [10_000, 100_000];
const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];
/// Concurrent requests of the benchmark.
const AT_ONCE: usize = 16;
/// Bound on the manager's peak memory with 100,000 dependents.
const MEMORY_MIB: f64 = 256.0;
/// Bound on the growth of the time per object from one size to ten times that size.
const GROWTH: f64 = 1.5;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` only checks that the benchmark builds and runs.
    let real = arguments.iter().any(|it| it == "--bench");
    let mut sizes: Vec<usize> = arguments.iter().filter_map(|it| it.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = if real { SIZES.to_vec() } else { vec![20] };
    }
    let mut policies = POLICIES.to_vec();
    if policies
        .iter()
        .any(|it| arguments.iter().any(|argument| argument == it))
    {
        policies.retain(|it| arguments.iter().any(|argument| argument == it));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let within = runtime.block_on(async {
        let running = steersman_harness::cluster::start().await.expect("a cluster");
        let cluster = &running.cluster;
        println!("on {}", cluster.tier());
        println!("policy      objects  seconds  us/object  requests per object (by verb)           peak MiB");
        let mut within = true;
        for policy in policies {
            let mut last: Option<(usize, f64)> = None;
            for &size in &sizes {
                let cost = run(cluster, policy, size).await;
                within &= cost.peak_mib < MEMORY_MIB;
                if let Some((smaller, each)) = last
                    && size >= 10 * smaller
                    && cost.each() > GROWTH * each
                {
                    println!(
                        "  time per object: {:.1} times the previous size's",
                        cost.each() / each
                    );
                    within = false;
                }
                last = Some((size, cost.each()));
            }
        }
        within
    });
    if within {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The result of one run.
struct Cost {
    objects: usize,
    took: Duration,
    peak_mib: f64,
}

impl Cost {
    /// Seconds per object.
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    fn each(&self) -> f64 {
        self.took.as_secs_f64() / self.objects as f64
    }
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
async fn run(c: &Cluster, policy: &str, size: usize) -> Cost {
    let ns = c.namespace().await;
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    let owner = create(c, &maps, json!({"metadata": {"name": "owner"}})).await;
    let reference = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    }]);
    stream::iter(0..size)
        .for_each_concurrent(AT_ONCE, |at| {
            let object = json!({"metadata": {"name": format!("d-{at}"), "ownerReferences": reference}});
            let maps = &maps;
            async move { drop(create(c, maps, object).await) }
        })
        .await;
    let kubeconfig = format!("--kubeconfig={}", c.kubeconfig().display());
    let program = Program::start(
        env!("CARGO_BIN_EXE_steersman"),
        &[
            &kubeconfig,
            "--controllers=garbagecollector",
            "--leader-elect=false",
            "--kube-api-qps=5000",
            "--kube-api-burst=10000",
        ],
    )
    .await;
    synced(&program, size).await;
    let before = requests(&program).await;
    let start = time::now();
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
    let answer = c.api().delete(&format!("{maps}/owner"), options).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let took = finished(c, &maps, policy, size, start).await;
    let sent = requests(&program).await;
    let per_object: Vec<String> = sent
        .iter()
        .map(|(verb, count)| (verb, count - before.get(verb).copied().unwrap_or(0.0)))
        .filter(|(_, count)| *count > 0.0)
        .map(|(verb, count)| format!("{verb} {:.3}", count / size as f64))
        .collect();
    let cost = Cost {
        objects: size,
        took,
        peak_mib: peak_mib(&program),
    };
    println!(
        "{policy:<10} {size:>8} {:>8.2} {:>10.1}  {:<40} {:>7.1}",
        took.as_secs_f64(),
        cost.each() * 1e6,
        per_object.join(", "),
        cost.peak_mib
    );
    clean(c, &maps, program).await;
    cost
}

async fn create(c: &Cluster, path: &str, object: Value) -> Value {
    let answer = c.api().post(path, object).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

/// Waits until the caches contain all objects.
async fn synced(program: &Program, size: usize) {
    let read = async || {
        let page = program.endpoints().get("/metrics").await.text();
        let line = page
            .lines()
            .find(|it| it.starts_with("steersman_cache_objects{") && it.contains("resource=\"configmaps\""));
        let count = line.and_then(|it| it.rsplit(' ').next()?.parse::<usize>().ok());
        count.unwrap_or_default()
    };
    let known = time::within(Duration::from_mins(2), async {
        while read().await < size {
            time::pause(Duration::from_millis(20)).await;
        }
    });
    assert!(known.await.is_some(), "it does not know all:\n{}", program.log());
}

/// Waits until all work is done and returns the duration.
async fn finished(c: &Cluster, maps: &str, policy: &str, size: usize, start: Instant) -> Duration {
    // A list page costs time proportional to the size: polling in proportion to the objects takes the same share of the time at any
    // size.
    let pause = Duration::from_micros(size as u64);
    let done = time::within(Duration::from_mins(20), async {
        loop {
            let gone = c.api().get(&format!("{maps}/owner")).await.status == 404;
            // Dependents are removed after their owner; `kube-root-ca.crt` is not a dependent.
            let left = || async {
                let list = c.api().get(&format!("{maps}?limit=2")).await.json();
                let items = list["items"].as_array().cloned().unwrap_or_default();
                items
                    .iter()
                    .any(|it| it["metadata"]["name"] != "kube-root-ca.crt")
            };
            if gone && (policy != "Background" || !left().await) {
                return start.elapsed();
            }
            time::pause(pause).await;
        }
    });
    done.await.expect("finished")
}

/// The number of requests so far, by verb.
async fn requests(program: &Program) -> BTreeMap<String, f64> {
    let page = program.endpoints().get("/metrics").await.text();
    let mut sent = BTreeMap::new();
    for line in page.lines() {
        let Some(labels) = line.strip_prefix("rest_client_requests_total{") else {
            continue;
        };
        let method = labels
            .split("method=\"")
            .nth(1)
            .and_then(|it| it.split('"').next());
        let count = line.rsplit(' ').next().and_then(|it| it.parse::<f64>().ok());
        if let (Some(method), Some(count)) = (method, count) {
            *sent.entry(method.to_owned()).or_default() += count;
        }
    }
    sent
}

fn peak_mib(program: &Program) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id().unwrap_or_default()));
    let status = status.unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|it| it.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// Removes orphans, so that the next run does not find them.
async fn clean(c: &Cluster, maps: &str, program: Program) {
    drop(program);
    let answer = c.api().delete(maps, json!({})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
