//! Content negotiation (`endpoints/handlers/negotiation` of the API server): the `Accept` and `Content-Type` headers.
//!
//! Responses are JSON: `accept` skips YAML, protobuf and CBOR in favor of the next media type of the header. Media type
//! parameters request a transformation of the objects: `as=Table`, `as=PartialObjectMetadata`. `accept` skips a media
//! range with an unknown transformation, so clients list plain JSON last.

use std::cmp::Ordering;

/// A version of `meta.k8s.io`. Both have the same representations; the response names the requested version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`, the default.
    #[default]
    V1,
    /// `meta.k8s.io/v1beta1`, which old clients request.
    V1Beta1,
}

impl MetaVersion {
    /// Returns the value of the `apiVersion` field.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The representation of objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The full object or list.
    Object,
    /// A `Table` with one row per object.
    Table(MetaVersion),
    /// A `PartialObjectMetadata`; also the representation of objects in watch events.
    Partial(MetaVersion),
    /// A `PartialObjectMetadataList`.
    PartialList(MetaVersion),
}

/// The error for an `Accept` header without a supported media range: 406, reason `NotAcceptable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAcceptable {
    /// The server supports none of the media types.
    #[error("406: Not Acceptable: only the following media types are accepted: application/json")]
    MediaType,
    /// The server supports the media type, but not its transformation.
    #[error("only the following media types are accepted: application/json")]
    Form,
    /// The client requested `PartialObjectMetadata` for a list.
    #[error("you requested PartialObjectMetadata, but the requested object is a list")]
    List,
    /// The client requested `PartialObjectMetadataList` for a single object.
    #[error("you requested PartialObjectMetadataList, but the requested object is not a list")]
    NoList,
}

/// The error for an unsupported `Content-Type`: 415, reason `UnsupportedMediaType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body of the request was in an unknown format - accepted media types include: application/json")]
pub struct UnsupportedMediaType;

/// The content of a response. It decides which representations are available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseKind {
    /// One object, or watch events.
    Object,
    /// A list of objects.
    List,
    /// A document outside the store, such as discovery or the server version.
    Document,
}

/// Selects the representation of a response from the `Accept` header.
pub fn accept(header: Option<&str>, response: ResponseKind) -> Result<View, NotAcceptable> {
    let header = header.unwrap_or_default();
    if matches!(header, "" | "application/json") {
        return Ok(View::Object);
    }
    let clauses = clauses(header);
    // For objects and lists, `application/*` does not match.
    let whole =
        |clause: &&Clause| response == ResponseKind::Document || clause.kind == "*" || clause.subtype != "*";
    let view = clauses
        .iter()
        .filter(whole)
        .find_map(|clause| clause.view(response))
        .ok_or_else(|| {
            let json = |clause: &Clause| (clause.kind, clause.subtype) == ("application", "json");
            if clauses.iter().any(json) {
                NotAcceptable::Form
            } else {
                NotAcceptable::MediaType
            }
        })?;
    match (view, response) {
        (View::Partial(_), ResponseKind::List) => Err(NotAcceptable::List),
        (View::PartialList(_), ResponseKind::Object) => Err(NotAcceptable::NoList),
        _ => Ok(view),
    }
}

/// Returns whether the `Accept` header lists aggregated discovery. The quality of the media range does not matter.
#[must_use]
pub fn wants_aggregated(header: Option<&str>) -> bool {
    let aggregated = |clause: &Clause| clause.is_json() && clause.form == AGGREGATED;
    clauses(header.unwrap_or_default()).iter().any(aggregated)
}

/// The `Content-Type` of the `OpenAPI` v2 document in protobuf.
pub const SWAGGER_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Returns whether the client prefers protobuf to JSON for the `OpenAPI` v2 document.
#[must_use]
pub fn prefers_swagger_protobuf(header: Option<&str>) -> bool {
    let choice = |clause: &Clause| {
        // Clients send the media type with an invalid `@`. The server accepts it and responds with the `.` form.
        let name = format!("{}/{}", clause.kind, clause.subtype.replace('@', "."));
        if name == SWAGGER_PROTOBUF {
            Some(true)
        } else {
            clause.view(ResponseKind::Document).map(|_| false)
        }
    };
    clauses(header.unwrap_or_default())
        .iter()
        .find_map(choice)
        .unwrap_or(false)
}

/// The text formats of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

/// Returns the text format of a request body. An empty content type means JSON.
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

/// The target kind of a transformation, from the parameters `g`, `v` and `as`.
#[derive(Debug, Default, PartialEq)]
struct Form<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

/// The target kind of aggregated discovery.
const AGGREGATED: Form<'static> = Form {
    group: "apidiscovery.k8s.io",
    version: "v2",
    kind: "APIGroupDiscoveryList",
};

/// Returns the media ranges in order of preference, without malformed ones.
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
                // RFC 9110 defines a quality of 0 as not acceptable; the API server only sorts the range last.
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

    /// Returns the requested representation, or `None` if it is not supported.
    fn view(&self, response: ResponseKind) -> Option<View> {
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
            _ if response == ResponseKind::Document => None,
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
    fn accept_header_for_object_selects_view() {
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
            assert_eq!(accept(Some(header), ResponseKind::Object), view, "{header}");
        }
        assert_eq!(accept(None, ResponseKind::Object), Ok(View::Object));
    }

    #[test]
    fn media_ranges_are_sorted_by_quality_then_specificity_then_position() {
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
            assert_eq!(accept(Some(header), ResponseKind::Object), Ok(view), "{header}");
        }
    }

    #[test]
    fn accept_header_of_metadata_client_selects_partial_list() {
        let form = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let header =
            format!("application/vnd.kubernetes.protobuf;{form},application/json;{form},application/json");
        assert_eq!(
            accept(Some(&header), ResponseKind::List),
            Ok(View::PartialList(V1))
        );
        let single = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(accept(Some(single), ResponseKind::List), Err(NotAcceptable::List));
    }

    #[test]
    fn document_with_transformation_is_not_acceptable() {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let header = format!("{aggregated},application/json");
        assert_eq!(accept(Some(&header), ResponseKind::Document), Ok(View::Object));
        assert_eq!(
            accept(Some(aggregated), ResponseKind::Document),
            Err(NotAcceptable::Form)
        );
        assert_eq!(
            accept(Some(TABLE), ResponseKind::Document),
            Err(NotAcceptable::Form)
        );
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
            accept(Some(protobuf), ResponseKind::Document),
            Err(NotAcceptable::MediaType)
        );
    }

    #[test]
    fn accept_header_selects_openapi_v2_protobuf_or_json() {
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
    fn content_type_selects_body_format() {
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
