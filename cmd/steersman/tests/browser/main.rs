//! The status page in a headless Chromium: content, search, sign-in, an end of the process, and an empty console.
//!
//! Without a browser the test is skipped, unless `STEERSMAN_TEST_BROWSER=required`, which CI sets. `UPDATE=1` writes
//! `docs/status-page.png`.

mod devtools;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use steersman_harness::{Program, time};

use self::devtools::Page;

const PROGRAM: &str = env!("CARGO_BIN_EXE_steersman");
const TOKEN: &str = "an-accepted-token";
/// Markup in the places that objects and errors can fill.
const MARKUP: &str = "<img src=x onerror=alert(1)>";

/// Starts the sandbox and waits until its sample is ready.
async fn start() -> Program {
    let program = Program::start(PROGRAM, &["--sandbox"]).await;
    let ready = time::eventually(time::ANSWER, async || {
        program.stdout().contains("kubectl delete").then_some(())
    });
    assert!(ready.await.is_some(), "no summary: {}", program.stdout());
    program
}

/// The kinds of the drawn objects from top to bottom, with those of one row in one list.
async fn drawn(page: &mut Page) -> Value {
    let rows = "Object.values(Object.groupBy(document.querySelectorAll('.node'), it => \
                it.getBoundingClientRect().y)).map(row => row.map(it => \
                it.querySelector('.kind').textContent))";
    page.evaluate(rows).await
}

async fn text(page: &mut Page, selector: &str) -> String {
    let text = page
        .evaluate(&format!("document.querySelector('{selector}').innerText"))
        .await;
    text.as_str().expect("text").to_owned()
}

/// A document with an unhealthy controller and an error, in which names and messages are markup.
fn broken() -> String {
    let series = json!({"queued": [1, 4, 9], "oldestSeconds": [0, 10, 2000], "processed": [5, 2, 0], "failed": [0, 1, 0]});
    let controller = json!({
        "name": "deployment-controller", "state": "unhealthy", "reason": MARKUP, "queued": 9, "processing": 5,
        "processed": 7, "failed": 1, "oldest": {"object": MARKUP, "seconds": 2000}, "series": series,
    });
    let cache = json!({
        "resource": "widgets.example.com", "version": "v1", "kind": "Widget", "synced": false, "required": true,
        "status": format!("retrying: {MARKUP}"), "objects": 0, "bytes": 0, "undecodable": 0, "ageSeconds": 700,
    });
    let error = json!({
        "controller": "deployment-controller", "object": MARKUP, "message": MARKUP, "count": 3,
        "first": "2026-01-01T00:00:00Z", "last": "2026-01-01T00:10:00Z",
    });
    let document = json!({
        "manager": "steersman", "version": "v0", "time": "2026-01-01T00:10:00Z", "startTime": "2026-01-01T00:00:00Z",
        "intervalSeconds": 5, "failingChecks": [{"name": "deployment-controller", "reason": MARKUP}],
        "leader": {"election": true, "leading": false, "identity": "a", "holder": MARKUP, "lease": "ns/l", "terms": 0, "transitions": 2},
        "controllers": [controller], "caches": [cache], "unsynced": ["widgets.example.com"], "errors": [error],
    });
    document.to_string()
}

fn forbidden_without_token(authorization: Option<&str>) -> Option<(u16, String)> {
    let accepted = authorization == Some(&format!("Bearer {TOKEN}"));
    (!accepted).then(|| (403, "{}".to_owned()))
}

#[tokio::test]
async fn status_page_shows_and_searches_the_state_of_the_process() {
    let Some(browser) = devtools::installed() else {
        assert!(
            std::env::var("STEERSMAN_TEST_BROWSER").as_deref() != Ok("required"),
            "no browser is installed: apt-get install chromium"
        );
        println!("Skipped: no browser is installed (apt-get install chromium)");
        return;
    };
    let (program, mut page) = tokio::join!(start(), Page::start(browser));
    page.resize(1200, 900, "light").await;
    page.open(&format!("https://{}/", program.address())).await;

    shows_leader_controllers_and_caches(&mut page).await;
    search_draws_owners_and_dependents(&mut page).await;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/status-page.png");
    if std::env::var_os("UPDATE").is_some() {
        write_screenshot(&mut page, &program, &docs).await;
    }
    fits_on_a_phone(&mut page).await;
    assert_eq!(page.take_console(), Vec::<String>::new(), "the console is empty");

    markup_is_shown_as_text(&mut page).await;
    assert_eq!(page.take_console(), Vec::<String>::new(), "the console is empty");

    token_is_requested_and_sent(&mut page).await;
    end_of_the_process_is_shown(&mut page, program).await;
}

async fn shows_leader_controllers_and_caches(page: &mut Page) {
    page.until("document.querySelectorAll('#controllers tr').length === 7")
        .await;
    page.until(
        "[...document.querySelectorAll('#controllers .pill')].every(it => it.innerText === 'running')",
    )
    .await;
    assert_eq!(page.evaluate("document.title").await, "steersman: leader");
    assert_eq!(
        text(page, "#state").await.split_whitespace().collect::<Vec<_>>(),
        ["Leader", "Healthy"]
    );
    let leader = text(page, "#leader").await;
    assert!(
        leader.contains("kube-system/steersman") && leader.contains("(this process)"),
        "{leader}"
    );
    assert!(
        text(page, "#controllers")
            .await
            .contains("garbage-collector-controller")
    );
    let caches = text(page, "#caches").await;
    assert!(
        caches.contains("deployments.apps") && caches.contains("synced"),
        "{caches}"
    );
    page.click("document.getElementById('caches-all')").await;
    page.until("document.getElementById('caches').innerText.includes('configmaps')")
        .await;
    page.click("document.getElementById('caches-all')").await;
    assert_eq!(text(page, "#no-errors").await, "No errors.");
    // The charts need two samples.
    page.until("document.querySelectorAll('#controllers .spark .line').length === 21")
        .await;
}

async fn search_draws_owners_and_dependents(page: &mut Page) {
    page.submit("query", "pod/default/hello").await;
    page.until("document.querySelectorAll('#matches button').length === 2")
        .await;
    page.click("document.querySelector('#matches button')").await;
    page.until("document.querySelector('.node')").await;
    assert_eq!(
        drawn(page).await,
        json!([["AppService"], ["Deployment"], ["ReplicaSet"], ["Pod"]])
    );
    page.click("[...document.querySelectorAll('.node')].find(it => it.ariaLabel.startsWith('ReplicaSet'))")
        .await;
    page.until("document.querySelectorAll('.node').length === 5")
        .await;
    let selected = page
        .evaluate("document.querySelector('.node.selected').ariaLabel")
        .await;
    let selected = selected.as_str().expect("a label").to_owned();
    assert!(selected.starts_with("ReplicaSet/default/hello-"), "{selected}");
    // By keyboard.
    page.evaluate(
        "[...document.querySelectorAll('.node')].find(it => it.ariaLabel.startsWith('AppService')).focus()",
    )
    .await;
    page.evaluate(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))",
    )
    .await;
    page.until("document.querySelector('.node.selected').ariaLabel === 'AppService/default/hello'")
        .await;
    let rows = drawn(page).await;
    assert_eq!(rows[1], json!(["Deployment", "Service"]), "{rows}");
    page.submit("query", "no-such-object").await;
    page.until("document.getElementById('graph-note').textContent === 'No object matches.'")
        .await;
    page.submit("query", "appservice/hello").await;
    page.until("document.querySelector('.node.selected')").await;
}

async fn fits_on_a_phone(page: &mut Page) {
    for scheme in ["light", "dark"] {
        page.resize(360, 740, scheme).await;
        let width = page.evaluate("document.documentElement.scrollWidth").await;
        assert_eq!(width, 360, "no horizontal scrolling");
        save(page, &format!("phone-{scheme}"), 360).await;
    }
    page.resize(1200, 900, "dark").await;
    save(page, "dark", 1200).await;
    page.resize(1200, 900, "light").await;
}

async fn markup_is_shown_as_text(page: &mut Page) {
    page.intercept("/debug/status", |_| Some((200, broken()))).await;
    page.until("document.querySelectorAll('#controllers tr').length === 1")
        .await;
    assert_eq!(page.evaluate("document.querySelectorAll('img').length").await, 0);
    for part in ["#checks-list", "#leader", "#controllers", "#caches", "#errors"] {
        let shown = text(page, part).await;
        assert!(shown.contains(MARKUP), "{part}: {shown}");
    }
    assert_eq!(text(page, "#controllers .pill").await, "unhealthy");
    assert!(text(page, "#unsynced").await.contains("widgets.example.com"));
    save(page, "errors", 1200).await;
    page.end_intercept().await;
}

async fn token_is_requested_and_sent(page: &mut Page) {
    page.intercept("/debug/status", forbidden_without_token).await;
    page.until("!document.getElementById('access').hidden && document.getElementById('data').hidden")
        .await;
    save(page, "token", 1200).await;
    page.submit("token", "another-token").await;
    page.until("document.getElementById('access-reason').textContent.startsWith('The user of this token')")
        .await;
    page.submit("token", TOKEN).await;
    page.until("document.getElementById('access').hidden && !document.getElementById('data').hidden")
        .await;
    let stored = "[localStorage.length, sessionStorage.length, document.cookie, document.getElementById('token').value, \
                  document.documentElement.outerHTML.includes('accepted-token')]";
    assert_eq!(
        page.evaluate(stored).await,
        json!([0, 0, "", "", false]),
        "only in memory"
    );
    let console = page.take_console();
    assert!(
        console.iter().all(|it| it.contains("status of 403")),
        "{console:?}"
    );
}

async fn end_of_the_process_is_shown(page: &mut Page, program: Program) {
    program.signal(Signal::KILL);
    page.until("document.getElementById('updated').textContent.startsWith('No data since ')")
        .await;
    assert_eq!(text(page, "#state").await, "No data");
    assert_eq!(
        page.evaluate("document.querySelectorAll('#controllers tr').length")
            .await,
        7
    );
}

/// Writes an image to the directory `STEERSMAN_SCREENSHOTS`, for a look at the page.
async fn save(page: &mut Page, name: &str, width: u32) {
    let Some(dir) = std::env::var_os("STEERSMAN_SCREENSHOTS") else {
        return;
    };
    let height = page.evaluate("document.documentElement.scrollHeight").await;
    let height = height
        .as_u64()
        .and_then(|it| u32::try_from(it).ok())
        .expect("a height");
    let image = page.screenshot(width, height).await;
    std::fs::write(PathBuf::from(dir).join(format!("{name}.png")), image).expect("written");
}

/// Scales the sample for some minutes, so that the charts show something, and takes the image of the README.
async fn write_screenshot(page: &mut Page, program: &Program, file: &Path) {
    let summary = program.stdout();
    let kubeconfig = summary.lines().find_map(|line| line.strip_prefix("Kubeconfig:"));
    let kubeconfig = PathBuf::from(kubeconfig.expect("a kubeconfig").trim());
    let api = steersman_harness::endpoint::client(&kubeconfig)
        .await
        .expect("a client");
    let api = steersman_harness::Api::new(api);
    let sample = "/apis/appcontroller.k8s.io/v1alpha1/namespaces/default/appservices/hello";
    for replicas in [12, 3, 20, 8, 30, 5, 18, 2, 25, 10, 3] {
        let patch = json!({"spec": {"replicas": replicas}});
        api.patch(sample, "application/merge-patch+json", patch)
            .await
            .expect(200);
        time::pause(Duration::from_secs(14)).await;
    }
    page.submit("query", "appservice/hello").await;
    page.until("document.querySelectorAll('.node').length === 7")
        .await;
    page.resize(1200, 900, "light").await;
    let bottom = "Math.ceil(document.getElementById('graph').getBoundingClientRect().bottom + scrollY + 16)";
    let height = page.evaluate(bottom).await;
    let height = height
        .as_u64()
        .and_then(|it| u32::try_from(it).ok())
        .expect("a height");
    let image = page.screenshot(1200, height).await;
    assert!(image.len() < 150_000, "{} bytes", image.len());
    std::fs::write(file, image).expect("written");
}
