//! What a client wants to get (`Accept`) and what it has sent (`Content-Type`).
//!
//! JSON is all we write and read; YAML, protobuf and CBOR are passed over for the next type that the client would
//! take. Parameters of the type ask for another form of the same objects: `as=Table`, `as=PartialObjectMetadata`.
//! A form that is unknown makes the clause unacceptable, and the next one has its turn: clients list plain JSON last.

use std::cmp::Ordering;

/// A version of `meta.k8s.io`. Both have the same forms; the answer names the one that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetaVersion {
    /// `v1`
    #[default]
    V1,
    /// `v1beta1`, which old clients ask for.
    V1Beta1,
}

impl MetaVersion {
    /// As it stands in an object.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The form in which objects are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// As they are.
    Object,
    /// As rows of a table.
    Table(MetaVersion),
    /// A single object reduced to its metadata; the events of a watch too.
    Partial(MetaVersion),
    /// A list of objects reduced to their metadata.
    PartialList(MetaVersion),
}

/// Nothing that the client would take can be served: 406, reason `NotAcceptable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAcceptable {
    /// No media type fits.
    #[error("406: Not Acceptable: only the following media types are accepted: application/json")]
    MediaType,
    /// The media type fits, but it is wanted in a form that there is not.
    #[error("only the following media types are accepted: application/json")]
    Form,
    /// Metadata of one object was asked for, but there is a list.
    #[error("you requested PartialObjectMetadata, but the requested object is a list")]
    List,
    /// Metadata of a list was asked for, but there is one object.
    #[error("you requested PartialObjectMetadataList, but the requested object is not a list")]
    NoList,
}

/// The body of a request is in a form that we do not read: 415, reason `UnsupportedMediaType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body of the request was in an unknown format - accepted media types include: application/json")]
pub struct UnsupportedMediaType;

/// What the answer holds, which decides on the forms it can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// One object, or the events of a watch.
    Object,
    /// A list.
    List,
    /// Something that is not kept in the store: discovery, a version.
    Document,
}

/// Chooses the form of an answer by the `Accept` header of the request.
pub fn accept(header: Option<&str>, holds: Holds) -> Result<View, NotAcceptable> {
    let header = header.unwrap_or_default();
    if header.is_empty() {
        return Ok(View::Object);
    }
    let clauses = clauses(header);
    // For objects half a wildcard is none.
    let whole = |clause: &&Clause| holds == Holds::Document || clause.kind == "*" || clause.subtype != "*";
    let view = clauses
        .iter()
        .filter(whole)
        .find_map(|clause| clause.view(holds))
        .ok_or_else(|| {
            let json = |clause: &Clause| (clause.kind, clause.subtype) == ("application", "json");
            if clauses.iter().any(json) {
                NotAcceptable::Form
            } else {
                NotAcceptable::MediaType
            }
        })?;
    match (view, holds) {
        (View::Partial(_), Holds::List) => Err(NotAcceptable::List),
        (View::PartialList(_), Holds::Object) => Err(NotAcceptable::NoList),
        _ => Ok(view),
    }
}

/// Whether discovery is wanted all in one document rather than one by one. Whoever would take it gets it, whatever it would
/// like better.
#[must_use]
pub fn wants_aggregated(header: Option<&str>) -> bool {
    let aggregated = |clause: &Clause| clause.is_json() && clause.form == AGGREGATED;
    clauses(header.unwrap_or_default()).iter().any(aggregated)
}

/// Media type of the `OpenAPI` version 2 document as protobuf, as it is sent.
pub const SWAGGER_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Whether the `OpenAPI` version 2 document is wanted as protobuf rather than as JSON.
#[must_use]
pub fn prefers_swagger_protobuf(header: Option<&str>) -> bool {
    let choice = |clause: &Clause| {
        // Clients write the type with an @, which is no valid character there; it is understood, but not sent.
        let name = format!("{}/{}", clause.kind, clause.subtype.replace('@', "."));
        if name == SWAGGER_PROTOBUF {
            Some(true)
        } else {
            clause.view(Holds::Document).map(|_| false)
        }
    };
    clauses(header.unwrap_or_default())
        .iter()
        .find_map(choice)
        .unwrap_or(false)
}

/// The forms of text that a body may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

/// The form of a body that is text. A request that does not say what it sends, sends JSON.
pub fn body(content_type: Option<&str>) -> Result<Text, UnsupportedMediaType> {
    let media_type = content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if media_type.is_empty() || media_type.eq_ignore_ascii_case("application/json") {
        Ok(Text::Json)
    } else if media_type.eq_ignore_ascii_case("application/yaml") {
        Ok(Text::Yaml)
    } else {
        Err(UnsupportedMediaType)
    }
}

/// One media range of an `Accept` header.
#[derive(Debug, Default, PartialEq)]
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f64,
    form: Form<'a>,
    stream: &'a str,
}

/// What the parameters ask the objects to be turned into.
#[derive(Debug, Default, PartialEq)]
struct Form<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

/// All of discovery in one document.
const AGGREGATED: Form<'static> = Form {
    group: "apidiscovery.k8s.io",
    version: "v2",
    kind: "APIGroupDiscoveryList",
};

/// The media ranges, the preferred ones first. What cannot be parsed is left out.
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause> = header.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| {
        let quality = b.quality.partial_cmp(&a.quality).unwrap_or(Ordering::Equal);
        quality
            .then((a.kind == "*").cmp(&(b.kind == "*")))
            .then((a.subtype == "*").cmp(&(b.subtype == "*")))
    });
    clauses
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let range = parts.next()?.trim();
        let (kind, subtype) = match range.split_once('/') {
            Some((kind, subtype)) if !subtype.contains('/') => (kind.trim(), subtype.trim()),
            None if range == "*" => ("*", "*"),
            _ => return None,
        };
        let mut clause = Self {
            kind,
            subtype,
            quality: 1.0,
            ..Self::default()
        };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim();
            match key.trim() {
                // A quality of 0 ought to mean "never"; on a Kubernetes server it means "last".
                "q" => clause.quality = value.parse().unwrap_or(0.0),
                "as" => clause.form.kind = value,
                "g" => clause.form.group = value,
                "v" => clause.form.version = value,
                "stream" => clause.stream = value,
                _ => {}
            }
        }
        Some(clause)
    }

    fn is_json(&self) -> bool {
        let json = matches!(
            (self.kind, self.subtype),
            ("application", "json" | "*") | ("*", "*")
        );
        json && matches!(self.stream, "" | "watch")
    }

    /// The form asked for, if it is one that we have.
    fn view(&self, holds: Holds) -> Option<View> {
        if !self.is_json() {
            return None;
        }
        if self.form == Form::default() {
            return Some(View::Object);
        }
        let version = match (self.form.group, self.form.version) {
            ("meta.k8s.io", "v1") => MetaVersion::V1,
            ("meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
            _ => return None,
        };
        match self.form.kind {
            _ if holds == Holds::Document => None,
            "Table" => Some(View::Table(version)),
            "PartialObjectMetadata" => Some(View::Partial(version)),
            "PartialObjectMetadataList" => Some(View::PartialList(version)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MetaVersion::{V1, V1Beta1};
    use super::*;

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    #[test]
    fn one_object() {
        for (header, view) in [
            ("", Ok(View::Object)),
            ("*/*", Ok(View::Object)),
            ("*", Ok(View::Object)),
            ("application/*", Err(NotAcceptable::MediaType)),
            ("application/json", Ok(View::Object)),
            ("application/json; charset=utf-8", Ok(View::Object)),
            ("application/json;stream=watch", Ok(View::Object)),
            ("application/json;q=0", Ok(View::Object)),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Ok(View::Object),
            ),
            ("application/yaml, */*;q=0.1", Ok(View::Object)),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                Ok(View::Object),
            ),
            ("junk,a/b/c,application/json", Ok(View::Object)),
            (TABLE, Ok(View::Table(V1))),
            ("*/*;as=Table;v=v1;g=meta.k8s.io", Ok(View::Table(V1))),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
                Ok(View::Table(V1Beta1)),
            ),
            (
                "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
                Ok(View::Object),
            ),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Ok(View::Partial(V1)),
            ),
            (
                "application/json;as=Table;v=v2;g=meta.k8s.io",
                Err(NotAcceptable::Form),
            ),
            (
                "application/json;as=Chart;v=v1;g=meta.k8s.io",
                Err(NotAcceptable::Form),
            ),
            ("application/json;as=Table", Err(NotAcceptable::Form)),
            ("application/json;stream=foo", Err(NotAcceptable::Form)),
            ("application/JSON", Err(NotAcceptable::MediaType)),
            ("application/yaml", Err(NotAcceptable::MediaType)),
            (
                "application/vnd.kubernetes.protobuf",
                Err(NotAcceptable::MediaType),
            ),
            ("text/html", Err(NotAcceptable::MediaType)),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Err(NotAcceptable::NoList),
            ),
        ] {
            assert_eq!(accept(Some(header), Holds::Object), view, "{header}");
        }
        assert_eq!(accept(None, Holds::Object), Ok(View::Object));
    }

    #[test]
    fn preference_goes_by_quality_then_by_precision_then_by_place() {
        let plain_first = format!("application/json,{TABLE}");
        let plain_second = format!("{TABLE},application/json");
        let wild_first = format!("*/*,{TABLE}");
        let low = format!("{TABLE};q=0.5,application/json;q=0.9");
        for (header, view) in [
            (plain_first.as_str(), View::Object),
            (plain_second.as_str(), View::Table(V1)),
            (wild_first.as_str(), View::Table(V1)),
            (low.as_str(), View::Object),
        ] {
            assert_eq!(accept(Some(header), Holds::Object), Ok(view), "{header}");
        }
    }

    #[test]
    fn a_list_of_metadata_as_the_metadata_client_asks_for_it() {
        let form = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let header =
            format!("application/vnd.kubernetes.protobuf;{form},application/json;{form},application/json");
        assert_eq!(accept(Some(&header), Holds::List), Ok(View::PartialList(V1)));
        let single = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(accept(Some(single), Holds::List), Err(NotAcceptable::List));
    }

    #[test]
    fn documents_have_one_form() {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let header = format!("{aggregated},application/json");
        assert_eq!(accept(Some(&header), Holds::Document), Ok(View::Object));
        assert_eq!(
            accept(Some(aggregated), Holds::Document),
            Err(NotAcceptable::Form)
        );
        assert_eq!(accept(Some(TABLE), Holds::Document), Err(NotAcceptable::Form));
        for (header, wanted) in [
            (header.as_str(), true),
            (aggregated, true),
            (
                "application/json,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;q=0.1",
                true,
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
                false,
            ),
            (
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                false,
            ),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(wants_aggregated(Some(header)), wanted, "{header}");
        }
        let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        assert_eq!(
            accept(Some(protobuf), Holds::Document),
            Err(NotAcceptable::MediaType)
        );
    }

    #[test]
    fn swagger_comes_in_two_forms() {
        for (header, protobuf) in [
            (None, false),
            (Some("*/*"), false),
            (Some("text/html"), false),
            (
                Some("application/json, application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
                false,
            ),
            (
                Some("application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
                true,
            ),
            (
                Some("application/com.github.proto-openapi.spec.v2.v1.0+protobuf, application/json"),
                true,
            ),
        ] {
            assert_eq!(prefers_swagger_protobuf(header), protobuf, "{header:?}");
        }
    }

    #[test]
    fn bodies() {
        for json in [
            None,
            Some(""),
            Some("application/json"),
            Some("Application/JSON; charset=utf-8"),
        ] {
            assert_eq!(body(json), Ok(Text::Json), "{json:?}");
        }
        assert_eq!(body(Some("application/yaml; charset=utf-8")), Ok(Text::Yaml));
        for other in ["application/vnd.kubernetes.protobuf", "text/plain", "json"] {
            assert_eq!(body(Some(other)), Err(UnsupportedMediaType), "{other}");
        }
    }
}
