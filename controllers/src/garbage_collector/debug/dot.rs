//! A picture in the language of Graphviz, with the attributes that kube-controller-manager gives.

use std::fmt::Write as _;

use super::picture::{Picture, Vertex};

pub fn dot(picture: &Picture) -> String {
    let mut text = "strict digraph full {\n  // Node definitions.\n".to_owned();
    for (uid, vertex) in &picture.vertices {
        let _ = writeln!(text, "  {} [", quoted(uid));
        for (key, value) in attributes(uid, vertex) {
            let _ = writeln!(text, "    {key}={}", quoted(&value));
        }
        text.push_str("  ];\n");
    }
    text.push_str("\n  // Edge definitions.\n");
    for (from, to) in &picture.edges {
        let _ = writeln!(text, "  {} -> {};", quoted(from), quoted(to));
    }
    text.push_str("}\n");
    text
}

fn attributes(uid: &str, vertex: &Vertex) -> [(&'static str, String); 11] {
    let mut label = format!(
        "uid={uid}\nnamespace={}\n{}\n",
        vertex.namespace,
        vertex.reference()
    );
    let flags = vertex.flags();
    if !flags.is_empty() {
        label.push_str(&flags.join(","));
        label.push('\n');
    }
    [
        ("label", label),
        ("group", vertex.group.clone()),
        ("version", vertex.version.clone()),
        ("kind", vertex.kind.clone()),
        ("namespace", vertex.namespace.clone()),
        ("name", vertex.name.clone()),
        ("uid", uid.to_owned()),
        ("missing", vertex.missing.to_string()),
        ("beingDeleted", vertex.deleting.to_string()),
        ("deletingDependents", vertex.deleting_dependents.to_string()),
        ("virtual", vertex.unseen.to_string()),
    ]
}

/// In quotes, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match char {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            char if char.is_control() => quoted.push('\u{fffd}'),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}
