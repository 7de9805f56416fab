//! The pages about the process, and its profiles.

use std::io::Read as _;

use http::Method;
use rustix::process::Signal;
use steersman_harness::{Program, Reply, time};

use crate::sandbox;

const PROFILE: &str = "/debug/pprof/profile";
/// The start of the names of our functions.
const OWN_FUNCTION: &str = "steersman_";
/// jemalloc samples one allocation per 4 KiB on average. With one per 512 KiB, the few samples of an idle process may
/// all be of dependencies.
const MANY_SAMPLES: &str = "_RJEM_MALLOC_CONF=lg_prof_sample:12";

pub async fn get(program: &Program, path: &str) -> Reply {
    let request = program
        .endpoints()
        .request(Method::GET, path, &[("accept", "*/*")], ());
    request.await
}

/// Checks that a reply is a profile that contains these names of sample types and functions.
fn check_profile(reply: &Reply, names: &[&str]) {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let mut profile = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&*reply.body);
    decoder.read_to_end(&mut profile).expect("a gzip file");
    let contains = |text: &str| profile.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    for text in names {
        assert!(
            contains(text),
            "{text:?} is not in the {} bytes of {}",
            profile.len(),
            reply.request
        );
    }
}

#[tokio::test]
async fn every_page_responds() {
    let program = sandbox::start(&["-v=2"]).await;
    for (path, contained) in [
        ("/version", "\"gitVersion\": \"v"),
        ("/configz", "\"config.steersman.dev\": {"),
        ("/flagz", "\nsecure-port="),
        ("/statusz", "\nPaths: / /configz /flagz "),
        ("/metrics", "\nkubernetes_build_info{"),
        (
            "/metrics/slis",
            "kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1\n",
        ),
        ("/debug/flags/v", "2\n"),
        (
            "/debug/controllers/",
            "/debug/controllers/garbage-collector-controller/graph\n",
        ),
        ("/debug/pprof/", "/debug/pprof/heap"),
        ("/debug/pprof/cmdline", "\0--sandbox\0"),
    ] {
        let reply = get(&program, path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.text().contains(contained), "{path}: {}", reply.text());
    }
    let reply = program.endpoints().put("/debug/flags/v", "4").await;
    assert_eq!(
        (reply.status, &*reply.text()),
        (200, "successfully set klog.logging.verbosity to 4\n")
    );
    assert!(get(&program, "/flagz").await.text().contains("\nv=4\n"));
    let config = get(&program, "/configz").await.json();
    assert_eq!(config["config.steersman.dev"]["logging"]["verbosity"], 4);
    let reply = program.endpoints().put("/debug/flags/v", "loud").await;
    assert_eq!(reply.status, 400);
    assert!(
        reply.text().starts_with("invalid verbosity \"loud\""),
        "{}",
        reply.text()
    );
}

#[tokio::test]
async fn profiles_are_readable_and_one_cpu_profile_runs_at_a_time() {
    let program = sandbox::start_with_variable(MANY_SAMPLES).await;
    check_profile(
        &get(&program, "/debug/pprof/heap").await,
        &["inuse_space", "bytes", OWN_FUNCTION],
    );
    for query in ["seconds=0", "seconds=121", "seconds=x"] {
        assert_eq!(
            get(&program, &format!("{PROFILE}?{query}")).await.status,
            400,
            "{query}"
        );
    }

    let one = format!("{PROFILE}?seconds=1");
    let types = ["samples", "cpu", "nanoseconds"];
    check_profile(&get(&program, &one).await, &types);

    // Another profile is refused. A client that disconnects ends its profile.
    let abandoned = async {
        get(&program, &format!("{PROFILE}?seconds=120")).await;
    };
    let another = async {
        program.logs("\"Started CPU profile\" seconds=120").await;
        get(&program, &one).await
    };
    let refused = tokio::select! {
        biased;
        () = abandoned => unreachable!(),
        refused = another => refused,
    };
    assert_eq!(refused.status, 429, "{}", refused.text());
    let next = time::eventually(time::ANSWER, async || {
        let reply = get(&program, &one).await;
        (reply.status != 429).then_some(reply)
    });
    check_profile(&next.await.expect("no other profile runs"), &types);

    // A profile does not delay the end of the process, which may close the connection before it has sent the profile.
    let running = async {
        let request = http::Request::get(format!("{PROFILE}?seconds=119")).body(Vec::new());
        let client = program.endpoints().client();
        drop(client.request_text(request.expect("a request")).await);
    };
    let stop = async {
        program.logs("\"Started CPU profile\" seconds=119").await;
        program.signal(Signal::TERM);
    };
    tokio::join!(running, stop);
    assert_eq!(program.ends_within(time::ANSWER).await.code, Some(0));
}

#[tokio::test]
async fn pages_for_debugging_are_disabled_without_profiling() {
    let program = sandbox::start(&["--profiling=false"]).await;
    for path in ["/debug/pprof/", "/debug/pprof/heap", PROFILE, "/debug/flags/v"] {
        assert_eq!(get(&program, path).await.status, 404, "{path}");
    }
    assert_eq!(get(&program, "/debug/controllers/").await.status, 200);
}
