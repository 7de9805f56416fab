//! Health, metrics and debug endpoints: raw requests get a response that is not 500, or a closed connection.

use std::collections::BTreeMap;

use serde_json::json;
use steersman_harness::draw::Draw;
use steersman_manager::health::{Checks, Health, Probes};
use steersman_manager::serve::{ALWAYS_ALLOW_PATHS, Access, BuildInfo, Endpoints, Tls};

use super::{Server, response};
use crate::{AllocatedMax, Input, Target, mutate};

pub const TARGET: Target = Target {
    name: "https::endpoints",
    inputs: 200,
    allocated_max: AllocatedMax::TREE,
    draw,
    check,
};

const BUILD: BuildInfo = BuildInfo {
    name: "fuzz",
    version: "v1.2.3",
    git_commit: "",
    git_tree_state: "clean",
    build_date: "",
    rust_version: "",
};
const PATHS: [&str; 12] = [
    "/healthz",
    "/livez/ping",
    "/readyz?verbose&exclude=ping&exclude=caches",
    "/metrics",
    "/metrics/slis",
    "/version",
    "/configz",
    "/flagz",
    "/statusz",
    "/debug/flags/v",
    "/debug/controllers/",
    "/",
];
const HEADERS: [&str; 8] = [
    "",
    "Accept: application/json;v=v1alpha1;g=config.k8s.io;as=Flagz, text/plain;q=0.5\r\n",
    "Authorization: Bearer abc\r\n",
    "Content-Length: 2\r\n\r\n12",
    "Transfer-Encoding: chunked\r\n\r\n1\r\n5\r\n0\r\n\r\n",
    "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n4",
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
    "Connection: close\r\n",
];
/// The begin of a connection of HTTP/2: settings, then the head of GET /healthz.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x10\x01\x05\0\0\0\x01\x82\x87\x04\x08/healthz\x41\x01a";

/// The turns of the runtime after which an answer is complete.
const QUIET: usize = 40;

thread_local! {
    static SERVER: Server = Server::start(async |env, registry, folder| {
        let checks = Checks::new();
        for name in ["ping", "caches", "a b&c"] {
            // The check exists as long as the server.
            std::mem::forget(checks.add(name, Probes::READYZ | Probes::HEALTHZ | Probes::LIVEZ, || Health::Ok));
        }
        let access = Access::new(ALWAYS_ALLOW_PATHS).expect("valid paths").allow_loopback();
        let set = |text: &str| text.parse::<u8>().map(|it| it.to_string()).map_err(|error| error.to_string());
        let endpoints = Endpoints::new(&checks, registry.clone(), access, &env.clock).expect("metrics");
        let endpoints = endpoints
            .with_version(&BUILD)
            .with_statusz(&BUILD, &env.clock)
            .with_configz("a", || json!({"b": 1}))
            .with_flagz("a", || BTreeMap::from([("v".to_owned(), "2".to_owned())]))
            .with_verbosity(|| "2".to_owned(), set)
            .with_controller_index();
        let tls = Tls::from_files(&folder.join("tls.crt"), &folder.join("tls.key")).expect("a certificate");
        let local = "127.0.0.1:0".parse().expect("an address");
        let server = steersman_manager::serve::Server::bind(local, tls).await.expect("a free port");
        let address = server.address();
        env.tasks.spawn(server.serve(env.clone(), endpoints, std::future::pending()));
        address
    });
}

fn draw(draw: &mut Draw) -> Input {
    if draw.once_in(8) {
        return vec![mutate::bytes(draw, HTTP2)];
    }
    let request = |draw: &mut Draw| {
        let method = *draw.one(&["GET", "GET", "PUT", "DELETE", "HEAD", "POST", "OPTIONS"]);
        let (path, headers) = (*draw.one(&PATHS), *draw.one(&HEADERS));
        let end = if headers.contains("\r\n\r\n") { "" } else { "\r\n" };
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}{end}").into_bytes()
    };
    let (one, other) = (request(draw), request(draw));
    vec![match draw.below(4) {
        0 => [mutate::bytes(draw, &one), other].concat(),
        1 => mutate::splice(draw, &one, &other),
        2 => {
            // A long head.
            let header = format!("X-A: {}\r\n", mutate::tokens::text(draw).replace('\n', ""));
            let at = one.windows(2).position(|it| it == b"\r\n").map_or(0, |at| at + 2);
            let copies = 1 + draw.below(200);
            [&one[..at], &header.repeat(copies).into_bytes(), &one[at..]].concat()
        }
        _ => mutate::bytes(draw, &one),
    }]
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    SERVER.with(|server| {
        let answer = server.send(&input[0], QUIET)?;
        // A server of HTTP/2 starts with its settings.
        if !answer.starts_with(b"\0\0") {
            response(&answer)?;
        }
        let answer = server.exchange(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        match response(&answer)? {
            Some(it) if it.code == 200 && it.body == b"ok" => Ok(()),
            _ => Err(format!("server does not recover: {}", answer.escape_ascii())),
        }
    })
}
