use std::io;
use std::sync::{Arc, Mutex};

use serde_json::json;
use steersman_manager::object::Key;
use tracing::{Span, debug, error, info, info_span, trace, trace_span, warn};

use super::*;

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<Vec<u8>>>>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .expect("no test panics with it")
            .push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs `events` and returns the log, one item per write.
fn logged(format: LogFormat, verbosity: u8, events: impl FnOnce()) -> Vec<String> {
    logged_with(format, &LogHandle::new(verbosity, &[]), events)
}

fn logged_with(format: LogFormat, handle: &LogHandle, events: impl FnOnce()) -> Vec<String> {
    let output = Output::default();
    let out = output.clone();
    let wall = || {
        "2026-05-28T19:15:22.737538999Z"
            .parse::<Timestamp>()
            .expect("a time")
    };
    let layer = LogLayer::new(format, handle.clone(), 47512, wall, move || out.clone());
    tracing::subscriber::with_default(Registry::default().with(layer), events);
    let writes = output.0.lock().expect("no test panics with it").clone();
    writes
        .into_iter()
        .map(|write| String::from_utf8(write).expect("text"))
        .collect()
}

/// The lines without their header.
fn text(verbosity: u8, events: impl FnOnce()) -> Vec<String> {
    let lines = logged(LogFormat::Text, verbosity, events);
    let body = |line: String| line.split_once("] ").map(|(_, body)| body.trim_end().to_owned());
    lines.into_iter().filter_map(body).collect()
}

fn json_lines(events: impl FnOnce()) -> Vec<serde_json::Value> {
    let lines = logged(LogFormat::Json, 9, events);
    lines
        .iter()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

#[test]
fn text_line_has_the_klog_format() {
    let at = line!() + 2;
    let lines = logged(LogFormat::Text, 0, || {
        info!(controller = "gc", replicas = 3, ok = true, "Synced");
        warn!("Slow");
        error!(error = %io::Error::other("gone"), "Failed");
    });
    let header = |severity, line| format!("{severity}0528 19:15:22.737538   47512 tests.rs:{line}] ");
    let fields = r#""Synced" controller="gc" replicas=3 ok=true"#;
    assert_eq!(lines[0], format!("{}{fields}\n", header('I', at)));
    assert_eq!(lines[1], format!("{}\"Slow\"\n", header('W', at + 1)));
    assert_eq!(
        lines[2],
        format!("{}\"Failed\" error=\"gone\"\n", header('E', at + 2))
    );
    assert_eq!(lines.len(), 3);
}

#[test]
fn json_line_has_the_klog_format() {
    let at = line!() + 2;
    let lines = logged(LogFormat::Json, 2, || {
        info!(key = "a/b", count = 3_u64, ok = false, "Synced");
        debug!("Step");
        warn!("Slow");
    });
    assert_eq!(
        lines,
        [
            format!(
                "{{\"ts\":1779995722737.538,\"caller\":\"tests.rs:{at}\",\"msg\":\"Synced\",\"v\":0,\"key\":\"a/b\",\
                 \"count\":3,\"ok\":false}}\n"
            ),
            format!(
                "{{\"ts\":1779995722737.538,\"caller\":\"tests.rs:{}\",\"msg\":\"Step\",\"v\":2}}\n",
                at + 1
            ),
            format!(
                "{{\"ts\":1779995722737.538,\"caller\":\"tests.rs:{}\",\"msg\":\"Slow\",\"v\":0,\"level\":\"warning\"}}\n",
                at + 2
            ),
        ]
    );
}

#[test]
fn span_fields_follow_innermost_first_without_duplicates() {
    let events = || {
        let _outer = info_span!("manager", controller = "gc", key = "outer", pod = "p").entered();
        let _inner = info_span!("sync", key = "inner", cause = tracing::field::Empty).entered();
        Span::current().record("cause", "resync");
        info!(pod = "own", "Synced");
        Span::current().record("cause", "update");
        info!("Synced");
    };
    assert_eq!(
        text(0, events),
        [
            r#""Synced" pod="own" key="inner" cause="resync" controller="gc""#,
            r#""Synced" key="inner" cause="update" controller="gc" pod="p""#,
        ]
    );
    assert_eq!(json_lines(events)[0]["controller"], "gc");
}

#[test]
fn object_is_logged_under_its_kind() {
    let key = Key::new("default", "web");
    let events = || {
        let _span = info_span!("reconcile", object = %key.logged("ReplicaSet")).entered();
        info!(object = %key.logged("Pod"), "Created");
        info!(object = %Key::cluster("a").logged("CSINode"), "Deleted");
        info!(object = %key.logged(""), "Unknown kind");
        info!(object = %key.logged("a=b \"c"), "Invalid kind");
        info!(object = %key.logged("Error"), error = "gone", "Failed");
        info!(error = "gone", object = %key.logged("Error"), "Failed");
        info!(object = "some text", "Not an object");
        info!(object = %key.logged("Level"), "Reserved");
    };
    let set = r#"replicaSet="default/web""#;
    assert_eq!(
        text(0, events),
        [
            format!(r#""Created" pod="default/web" {set}"#),
            format!(r#""Deleted" csiNode="a" {set}"#),
            format!(r#""Unknown kind" object="default/web" {set}"#),
            format!(r#""Invalid kind" object="default/web" {set}"#),
            format!(r#""Failed" object="default/web" error="gone" {set}"#),
            format!(r#""Failed" error="gone" object="default/web" {set}"#),
            format!(r#""Not an object" object="some text" {set}"#),
            format!(r#""Reserved" level="default/web" {set}"#),
        ]
    );
    let values = json_lines(events);
    let web = json!({"name": "web", "namespace": "default"});
    assert_eq!(values[0]["pod"], web);
    assert_eq!(values[0]["replicaSet"], web);
    assert_eq!(values[1]["csiNode"], json!({"name": "a"}));
    assert_eq!(values[7]["level_"], web);
}

#[test]
fn value_cannot_forge_a_line() {
    let evil = "a\nE0528 19:15:22.737538   47512 x.rs:1] \"b\"\r\u{1b}[31m\u{85}\u{2028}\u{202e}\u{7}\u{b}\u{0}\u{7f}\\'\u{e0001}";
    let events = || {
        let _span = info_span!("sync", key = evil).entered();
        info!(text = evil, display = %evil, debug = ?evil, "{evil}");
    };
    for format in [LogFormat::Text, LogFormat::Json] {
        let lines = logged(format, 0, events);
        assert_eq!(lines.len(), 1, "one event is one write");
        let line = lines[0].strip_suffix('\n').expect("a line ends");
        assert!(!line.contains(char::is_control), "{line:?}");
        for hidden in ['\u{2028}', '\u{202e}', '\u{e0001}'] {
            assert!(!line.contains(hidden), "{line:?}");
        }
    }
    let quoted = r#""a\nE0528 19:15:22.737538   47512 x.rs:1] \"b\"\r\x1b[31m\u0085\u2028\u202e\a\v\x00\x7f\\'\U000e0001""#;
    let line = text(0, || info!(text = evil, "Synced")).remove(0);
    assert_eq!(line, format!("\"Synced\" text={quoted}"));
    let value = &json_lines(events)[0];
    assert_eq!(
        [&value["msg"], &value["text"], &value["display"], &value["key"]],
        [evil; 4]
    );
}

#[test]
fn printable_unicode_is_not_escaped() {
    let line = text(0, || info!(name = "Zo\u{eb} \u{4f60}\u{597d} it's", "Synced")).remove(0);
    assert_eq!(line, "\"Synced\" name=\"Zo\u{eb} \u{4f60}\u{597d} it's\"");
}

#[test]
fn every_field_value_is_valid_json() {
    let values = json_lines(|| {
        info!(
            nan = f64::NAN,
            inf = f64::INFINITY,
            big = u128::MAX,
            small = i64::MIN,
            tiny = 1e-9,
            "Synced"
        );
        info!(ts = 1, msg = "x", v = true, level = "l", caller = "c", r#type = "t", a.b = 1, none = ?None::<u8>, "Synced");
    });
    assert_eq!(values[0]["nan"], "NaN");
    assert_eq!(values[0]["inf"], "inf");
    assert_eq!(values[0]["small"], i64::MIN);
    assert_eq!(values[0]["tiny"], 1e-9);
    assert_eq!(values[1]["msg"], "Synced");
    assert_eq!(values[1]["msg_"], "x");
    assert_eq!(values[1]["v_"], true);
    assert_eq!(values[1]["type"], "t");
    assert_eq!(values[1]["a.b"], 1);
    assert_eq!(values[1]["none"], "None");
}

#[test]
fn verbosity_enables_our_own_levels() {
    let shown = |verbosity| {
        text(verbosity, || {
            error!("E");
            warn!("W");
            info!("I");
            debug!("D");
            trace!("T");
        })
        .concat()
    };
    assert_eq!(shown(0), r#""E""W""I""#);
    assert_eq!(shown(1), r#""E""W""I""#);
    assert_eq!(shown(2), r#""E""W""I""D""#);
    assert_eq!(shown(3), r#""E""W""I""D""#);
    assert_eq!(shown(4), r#""E""W""I""D""T""#);
    assert_eq!(shown(255), r#""E""W""I""D""T""#);
}

/// The same callsites are asked again: a stale interest would keep its first answer.
#[test]
fn changed_verbosity_applies_to_known_callsites() {
    let handle = LogHandle::new(0, &[("nothing".to_owned(), 9)]);
    let events = || {
        info!("I");
        debug!("D");
        trace!("T");
    };
    let lines = logged_with(LogFormat::Text, &handle, || {
        events();
        handle.set_verbosity(4);
        info!(verbosity = handle.verbosity(), "Changed");
        events();
        handle.set_verbosity(0);
        handle.set_vmodule(&[("tests".to_owned(), 2)]);
        info!(verbosity = handle.verbosity(), "Changed");
        events();
        handle.set_verbosity(4);
        events();
        handle.set_verbosity(1);
        handle.set_vmodule(&[]);
        events();
    });
    let messages: Vec<&str> = lines.iter().filter_map(|line| line.split('"').nth(1)).collect();
    assert_eq!(messages.concat(), "IChangedIDTChangedIDIDTI");
    assert!(lines[1].ends_with("verbosity=4\n"), "{}", lines[1]);
    assert!(lines[5].ends_with("verbosity=0\n"), "{}", lines[5]);
}

#[test]
fn libraries_log_warnings_and_kube_client_nothing() {
    let lines = text(255, || {
        error!(target: "hyper::proto", "hyper E");
        warn!(target: "rustls", "rustls W");
        info!(target: "hyper", "hyper I");
        debug!(target: "hyper", "hyper D");
        trace!(target: "rustls::client", "rustls T");
        error!(target: "kube_client", "kube E");
        warn!(target: "kube_client::client", "kube W");
        warn!(target: "kube_clients", "another W");
        info!(target: "steersman_manager::queue", "ours");
    });
    assert_eq!(
        lines,
        [r#""hyper E""#, r#""rustls W""#, r#""another W""#, r#""ours""#]
    );
}

#[test]
fn span_fields_are_logged_at_every_verbosity() {
    let lines = text(0, || {
        let _foreign = info_span!(target: "kube_client", "HTTP", url = "u").entered();
        let _span = trace_span!("sync", key = "a/b").entered();
        info!("Synced");
        warn!(target: "hyper", "Closed");
    });
    assert_eq!(lines, [r#""Synced" key="a/b""#, r#""Closed" key="a/b""#]);
}

#[test]
fn timestamp_is_padded() {
    let fields = Fields::default();
    let line = Line {
        level: tracing::Level::INFO,
        wall: "2026-01-02T03:04:05.000006Z".parse().expect("a time"),
        pid: 1,
        file: None,
        number: None,
        fields: &fields,
    };
    assert_eq!(line.text(), "I0102 03:04:05.000006       1 ???:1] \"\"\n");
    assert!(
        line.json().starts_with("{\"ts\":1767323045000.006,"),
        "{}",
        line.json()
    );
}
