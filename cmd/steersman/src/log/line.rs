//! Formats one event as one line. Times are in UTC.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::Offset;
use steersman_manager::object::LoggedObject;
use tracing::Level;

use super::fields::{Fields, Value};
use super::filter::verbosity_of;
use super::quote::{Style, quote};

/// Keys of the JSON format. A field of the same name gets a trailing underscore.
const RESERVED: [&str; 5] = ["ts", "caller", "msg", "v", "level"];

pub(super) struct Line<'a> {
    pub(super) level: Level,
    pub(super) wall: Timestamp,
    pub(super) pid: u32,
    pub(super) file: Option<&'a str>,
    pub(super) number: Option<u32>,
    pub(super) fields: &'a Fields,
}

impl Line<'_> {
    /// `I0528 19:15:22.737538   47512 file.rs:123] "Message" key="value"`, as klog.
    pub(super) fn text(&self) -> String {
        let severity = match self.level {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            Level::INFO | Level::DEBUG | Level::TRACE => 'I',
        };
        let wall = Offset::UTC.to_datetime(self.wall);
        let mut out = String::with_capacity(160);
        let _ = write!(
            out,
            "{severity}{:02}{:02} {:02}:{:02}:{:02}.{:06} {:>7} {}] ",
            wall.month(),
            wall.day(),
            wall.hour(),
            wall.minute(),
            wall.second(),
            wall.subsec_nanosecond() / 1_000,
            self.pid,
            self.caller(),
        );
        quote(&mut out, &self.fields.message, Style::Go);
        for (name, value) in &self.fields.fields {
            out.push(' ');
            out.push_str(name);
            out.push('=');
            push(&mut out, value, Style::Go);
        }
        out.push('\n');
        out
    }

    /// `{"ts":1653765322737.538,"caller":"file.rs:123","msg":"Message","v":0,"key":"value"}`, as
    /// klog. That format has no severity; `level` is added to warnings and errors, so that they can be found.
    pub(super) fn json(&self) -> String {
        let micros = self.wall.as_microsecond();
        let mut out = String::with_capacity(160);
        let _ = write!(
            out,
            "{{\"ts\":{}.{:03},\"caller\":",
            micros.div_euclid(1_000),
            micros.rem_euclid(1_000)
        );
        quote(&mut out, &self.caller(), Style::Json);
        out.push_str(",\"msg\":");
        quote(&mut out, &self.fields.message, Style::Json);
        let _ = write!(out, ",\"v\":{}", verbosity_of(self.level));
        match self.level {
            Level::ERROR => out.push_str(",\"level\":\"error\""),
            Level::WARN => out.push_str(",\"level\":\"warning\""),
            Level::INFO | Level::DEBUG | Level::TRACE => {}
        }
        for (name, value) in &self.fields.fields {
            out.push(',');
            if RESERVED.contains(&&**name) {
                quote(&mut out, &format!("{name}_"), Style::Json);
            } else {
                quote(&mut out, name, Style::Json);
            }
            out.push(':');
            push(&mut out, value, Style::Json);
        }
        out.push_str("}\n");
        out
    }

    /// The file name without its directory, and the line.
    fn caller(&self) -> String {
        let file = self.file.unwrap_or("???");
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        format!("{name}:{}", self.number.unwrap_or(1))
    }
}

fn push(out: &mut String, value: &Value, style: Style) {
    match value {
        Value::Text(text) => quote(out, text, style),
        Value::Bare(text) => out.push_str(text),
        Value::Object(text) => match LoggedObject::parse(text) {
            Some(object) => push_object(out, object, style),
            None => quote(out, text, style),
        },
    }
}

/// `"namespace/name"` in text and `{"name":"name","namespace":"namespace"}` in JSON, as klog's `KObj`.
fn push_object(out: &mut String, object: LoggedObject<'_>, style: Style) {
    let (namespace, name) = (object.namespace(), object.name());
    match style {
        Style::Go if namespace.is_empty() => quote(out, name, style),
        Style::Go => quote(out, &format!("{namespace}/{name}"), style),
        Style::Json => {
            out.push_str("{\"name\":");
            quote(out, name, style);
            if !namespace.is_empty() {
                out.push_str(",\"namespace\":");
                quote(out, namespace, style);
            }
            out.push('}');
        }
    }
}
