//! The memory of hostile reviews: at most two bytes for each byte of the body, whatever the body is.

use std::cell::RefCell;

use super::response;
use super::reviews::post;

/// The length of a body. Shorter than the limit of the server, as this build is slow.
const BODY: usize = 3 << 20;
/// The memory of a connection and of both of its ends, and of a small decoded object.
const CONNECTION_MAX: u64 = 512 << 10;

pub fn check() -> Result<(), String> {
    let hooks =
        ["validate", "mutate"].map(|verb| format!("/{verb}-appcontroller-k8s-io-v1alpha1-appservice"));
    // Starts the server.
    let _ = post(&hooks[0], b"")()?;
    let mut wrong = Vec::new();
    for (name, body) in bodies() {
        for path in &hooks {
            let (send, answer) = (post(path, body.as_bytes()), RefCell::default());
            let memory = allocation_counter::measure(|| *answer.borrow_mut() = Some(send()));
            let answer = answer
                .into_inner()
                .unwrap_or_else(|| Err("no answer".to_owned()))?;
            let code = response(&answer)?.map_or(0, |it| it.code);
            let percent = 100 * memory.bytes_max / body.len() as u64;
            println!("{name}: {code}, {percent} % of {} bytes", body.len());
            if ![200, 400].contains(&code) || memory.bytes_max > 2 * body.len() as u64 + CONNECTION_MAX {
                wrong.push(format!("{name} of {path}: {code}, {} bytes", memory.bytes_max));
            }
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
}

/// Returns hostile bodies by name.
fn bodies() -> Vec<(&'static str, String)> {
    let half = BODY / 2;
    let list = |element: &str, bytes: usize| {
        format!("[{}0]", format!("{element},").repeat(bytes / (element.len() + 1)))
    };
    let keys = |bytes: usize| {
        let keys: Vec<_> = (0..bytes / 11).map(|it| format!("\"{it:06x}\":0")).collect();
        format!("{{{}}}", keys.join(","))
    };
    let labels = |bytes: usize| keys(bytes).replace(":0", ":\"\"");
    let app = |metadata: &str, spec: &str| {
        format!(r#"{{"metadata":{{"name":"a"{metadata}}},"spec":{{"deploymentName":"a"{spec}}}}}"#)
    };
    let spec = |spec: &str| app("", spec);
    let twice = |object: String| update("", &object, &object);
    // A decoder reads a list as the fields of a struct, in their order.
    let ports = |bytes: usize| list("[]", bytes).replace(",0]", "]");
    let env = list(r#"{"name":"A","value":"b"}"#, half).replace(",0]", "]");
    vec![
        ("small objects", twice(list(r#"{"":0}"#, half))),
        (
            "nesting",
            twice(format!("{}{}", "[".repeat(half / 2), "]".repeat(half / 2))),
        ),
        ("open lists", update("", &"[".repeat(BODY), "")),
        ("keys", twice(keys(half))),
        (
            "labels",
            twice(app(&format!(r#","labels":{}"#, labels(half)), "")),
        ),
        (
            "keys of the spec",
            twice(spec(&format!(r#","a":{}"#, keys(half)))),
        ),
        ("variables", twice(spec(&format!(r#","env":{env}"#)))),
        ("limits", twice(spec(&format!(r#","resources":{}"#, keys(half))))),
        (
            "ports",
            twice(spec(&format!(
                r#","ports":{}"#,
                list("{}", half).replace(",0]", "]")
            ))),
        ),
        (
            "ports of a spec of 64 KiB",
            twice(spec(&format!(r#","ports":[{}{{}}]"#, "{},".repeat(21_000)))),
        ),
        (
            "ports of a spec that is a list",
            twice(format!(r#"{{"spec":["a",1,"i",{}]}}"#, ports(half))),
        ),
        (
            "ports of an object that is a list",
            twice(format!(r#"[{{}},{{"ports":{}}}]"#, ports(half))),
        ),
        (
            "ports of the first of two specs",
            twice(format!(r#"{{"spec":{{"ports":{}}},"spec":0}}"#, ports(half))),
        ),
        (
            "conditions",
            twice(format!(
                r#"{{"status":{{"conditions":{}}}}}"#,
                list("{}", half).replace(",0]", "]")
            )),
        ),
        (
            "name",
            twice(spec(&format!(r#","image":"{}""#, "a".repeat(half)))),
        ),
        (
            "escapes",
            twice(spec(&format!(r#","replicas":"{}""#, "\\n".repeat(half / 2)))),
        ),
        (
            "own name",
            twice(format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "a".repeat(half))),
        ),
        (
            "groups",
            update(
                &format!(r#""userInfo":{{"groups":{}}},"#, list("\"\"", BODY)),
                "{}",
                "{}",
            ),
        ),
        (
            "uid",
            update(&format!(r#""namespace":"{}","#, "a".repeat(BODY)), "{}", "{}"),
        ),
    ]
}

fn update(head: &str, object: &str, old: &str) -> String {
    let kind = r#""apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview""#;
    format!(
        r#"{{{kind},"request":{{{head}"uid":"7","operation":"UPDATE","object":{object},"oldObject":{old}}}}}"#
    )
}
