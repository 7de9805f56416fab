//! Decoding of request bodies into objects of the requested kind, with field validation and defaulting (the serializers
//! and strict decoding of the API server).

use crate::endpoints::{Api, Call, negotiate};
use crate::field::{FieldError, json_type};
use crate::json::{Map, Value, json};
use crate::protobuf::ProtobufError;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::{protobuf, registry, schema, yaml};

/// The `fieldValidation` parameter: the handling of unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    /// Returns the `fieldValidation` of a request. Defaults to `Warn`. [`Call::check_options`] rejects unknown values.
    pub fn of(call: &Call) -> Self {
        match call.query.get("fieldValidation") {
            Some("Ignore") => Self::Ignore,
            Some("Strict") => Self::Strict,
            _ => Self::Warn,
        }
    }

    /// Returns the error for an unknown `fieldValidation` value.
    pub fn error(call: &Call) -> Option<FieldError> {
        const ALLOWED: [&str; 4] = ["", "Ignore", "Strict", "Warn"];
        let asked = call.query.get("fieldValidation")?;
        let known = ALLOWED.contains(&asked);
        (!known).then(|| FieldError::not_supported("fieldValidation", asked, &ALLOWED))
    }
}

/// A decoded object and the `Warning` headers of its response.
pub(crate) struct Decoded {
    pub value: Value,
    pub warnings: Vec<String>,
}

impl Api {
    /// Decodes the body of a create or update.
    pub(crate) fn decoded_body(&self, call: &Call, options: &str) -> Result<Decoded> {
        call.check_options(options, false)?;
        let validation = FieldValidation::of(call);
        self.decoded_bodies
            .get_or_decode(call, validation, || body(call, validation))
    }
}

fn body(call: &Call, validation: FieldValidation) -> Result<Decoded> {
    let parsed = tree(call, &call.res.api_version(), &call.res.kind)?;
    let in_yaml = negotiate::body(Some(&call.content_type)) == Ok(negotiate::Text::Yaml);
    let wrong = match parsed.duplicates {
        lines if lines.is_empty() => Vec::new(),
        lines if in_yaml && validation == FieldValidation::Strict => vec![yaml::unmarshal_errors(&lines)],
        lines if in_yaml => lines,
        paths => paths
            .iter()
            .map(|path| format!("duplicate field {path:?}"))
            .collect(),
    };
    if validation == FieldValidation::Ignore {
        check_kind_is_set(&call.res, &parsed.value, &call.body)?;
    }
    check_type_meta(&call.res, &parsed.value, &call.body)?;
    object(&call.res, parsed.value, None, wrong, validation, Stage::Sent)
}

/// Rejects a custom resource without a kind. The API server words this error differently for `fieldValidation=Ignore`.
fn check_kind_is_set(res: &Resource, value: &Value, body: &[u8]) -> Result<()> {
    let unsaid = matches!(&value["kind"], Value::Null) || value["kind"] == "";
    if res.custom.is_none() || !unsaid {
        return Ok(());
    }
    let whole = String::from_utf8_lossy(body);
    Err(ApiError::bad_request(format!(
        "{kind} in version {:?} cannot be handled as a {kind}: Object 'Kind' is missing in '{whole}'",
        res.version,
        kind = res.kind
    )))
}

/// Rejects a body whose `apiVersion` or `kind` is not a string, and a custom resource without a kind.
pub(crate) fn check_type_meta(res: &Resource, value: &Value, body: &[u8]) -> Result<()> {
    for field in ["apiVersion", "kind"] {
        let found = &value[field];
        if found.is_null() || found.is_string() {
            continue;
        }
        let why = format!(
            "couldn't get version/kind; json parse error: {field}: expected string, found {} ({})",
            json_type(found),
            summary(body)
        );
        return Err(unrecognized(&res.kind, &why));
    }
    let version = value["apiVersion"].as_str().unwrap_or_default();
    if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version} ({})", summary(body));
        return Err(unrecognized(&res.kind, &why));
    }
    if res.custom.is_some() && value["kind"].as_str().is_none_or(str::is_empty) {
        let whole = String::from_utf8_lossy(body);
        let why = format!("Object 'Kind' is missing in '{whole}' ({})", summary(body));
        return Err(unrecognized(&res.kind, &why));
    }
    Ok(())
}

/// Returns the first 30 bytes of a body for error messages: as text if it starts with a brace, otherwise in hex.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let (begin, more) = match body.get(..SHOWN) {
        Some(begin) if body.len() > SHOWN => (begin, " ..."),
        _ => (body, ""),
    };
    let begin = match begin.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(begin).into_owned(),
        Some(_) => begin
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}")),
    };
    begin + more
}

/// Parses a JSON, YAML or protobuf body into an untyped object.
pub(crate) fn tree(call: &Call, api_version: &str, kind: &str) -> Result<schema::Parsed> {
    if protobuf::is_protobuf(&call.content_type) {
        let value = protobuf::decode(&call.body, (api_version, kind)).map_err(|error| match error {
            // Clients that support JSON retry with it after 415.
            ProtobufError::Unknown(_) => ApiError::unsupported(&error.to_string()),
            ProtobufError::Foreign(why) => unrecognized(kind, &format!("{why} ({})", summary(&call.body))),
            ProtobufError::Malformed(why) => {
                let version = api_version.rsplit('/').next().unwrap_or_default();
                ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
                ))
            }
        })?;
        return Ok(schema::Parsed {
            value,
            duplicates: Vec::new(),
        });
    }
    let parse_error =
        |e: &str| unrecognized(kind, &format!("couldn't get version/kind; json parse error: {e}"));
    let parsed = match negotiate::body(Some(&call.content_type)) {
        Ok(negotiate::Text::Json) => schema::parse(&call.body).map_err(|e| parse_error(&e.to_string()))?,
        Ok(negotiate::Text::Yaml) => {
            yaml::parse(&call.body).map_err(|e| unrecognized(kind, &e.to_string()))?
        }
        Err(_) => {
            return Err(ApiError::unsupported_media_type(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
    };
    match parsed.value {
        Value::Object(_) => Ok(parsed),
        // The API server decodes null as an empty object.
        Value::Null => Ok(schema::Parsed {
            value: json!({}),
            duplicates: Vec::new(),
        }),
        _ => Err(unrecognized(
            kind,
            "couldn't get version/kind; json parse error: expected object",
        )),
    }
}

/// Returns the 400 for a body without a readable version and kind.
fn unrecognized(kind: &str, why: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why}"
    ))
}

/// The origin of an untyped object. It selects the conversion rules and the wording of the warning about duplicate
/// owner references.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The body of a create or update.
    Sent,
    /// The result of a patch or of a mutating webhook.
    Changed,
    /// The result of a strategic merge patch or an apply: numbers are converted to the type of the field.
    Merged,
    /// The result of a patch that changed the `apiVersion` of a custom resource. The schema does not apply to it.
    Foreign,
}

/// Reports every field of an object without an `apiVersion` as unknown.
pub(crate) fn unread(
    res: &Resource,
    value: &Value,
    mut wrong: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>> {
    let fields = value.as_object().into_iter().flat_map(Map::keys);
    let unknown = fields.filter(|field| !matches!(field.as_str(), "apiVersion" | "kind"));
    wrong.extend(unknown.map(|field| format!("unknown field {field:?}")));
    report(res, wrong, validation)
}

/// Converts an untyped object to the kind of the resource: checks kind, version and types, drops unknown fields and
/// sets defaults. `wrong` contains the strict decoding errors found so far. `base` is the stored object that a patch has
/// changed: the parts that the value shares with it are not decoded again.
pub(crate) fn object(
    res: &Resource,
    mut value: Value,
    base: Option<&Value>,
    mut wrong: Vec<String>,
    validation: FieldValidation,
    stage: Stage,
) -> Result<Decoded> {
    let unknown = convert(res, &mut value, base, stage, Nulls::Dropped)?;
    wrong.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
    let mut warnings = report(res, wrong, validation)?;
    warnings.extend(single_owner_references(&mut value, stage));
    registry::default(res, &mut value, base);
    Ok(Decoded { value, warnings })
}

/// Converts the result of an apply like [`object`], but keeps nulls in custom resources for schema validation.
pub(crate) fn applied(res: &Resource, mut value: Value, base: Option<&Value>) -> Result<Decoded> {
    convert(res, &mut value, base, Stage::Merged, Nulls::Kept)?;
    let warnings = single_owner_references(&mut value, Stage::Merged)
        .into_iter()
        .collect();
    registry::default(res, &mut value, base);
    Ok(Decoded { value, warnings })
}

/// The handling of nulls in custom resources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Dropped,
    Kept,
}

/// Checks the kind and converts the fields. Returns the paths of dropped fields.
fn convert(
    res: &Resource,
    value: &mut Value,
    base: Option<&Value>,
    stage: Stage,
    nulls: Nulls,
) -> Result<Vec<String>> {
    check_kind(res, value)?;
    // An empty managedFields list resets field ownership; an absent list keeps it.
    let forgets = res.custom.is_none() && value["metadata"]["managedFields"] == json!([]);
    let unknown = conform(res, value, base, stage, nulls)?;
    if forgets && let Some(meta) = crate::meta::metadata_mut(value) {
        meta.insert("managedFields", json!([]));
    }
    Ok(unknown)
}

/// Turns strict decoding errors into a 400, into warnings or into nothing, depending on `fieldValidation`.
fn report(res: &Resource, wrong: Vec<String>, validation: FieldValidation) -> Result<Vec<String>> {
    Ok(match validation {
        FieldValidation::Strict if !wrong.is_empty() => {
            let what = format!("{} in version {:?}", res.kind, res.version);
            let message = format!(
                "{what} cannot be handled as a {}: strict decoding error: {}",
                res.kind,
                wrong.join(", ")
            );
            return Err(ApiError::bad_request(message));
        }
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn | FieldValidation::Strict => wrong,
    })
}

/// Removes duplicate owner references and returns a warning about them.
fn single_owner_references(value: &mut Value, stage: Stage) -> Option<String> {
    let references = value
        .get_mut("metadata")?
        .get_mut("ownerReferences")?
        .as_array_mut()?;
    let mut seen: Vec<Value> = Vec::new();
    let mut repeated: Vec<String> = Vec::new();
    references.retain(|reference| {
        let first = !seen.contains(reference);
        if first {
            seen.push(reference.clone());
        } else {
            repeated.extend(reference["uid"].as_str().map(str::to_owned));
        }
        first
    });
    let when = match stage {
        Stage::Sent => "",
        Stage::Changed | Stage::Merged | Stage::Foreign => " after mutating admission happens",
    };
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
             may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

/// Converts the fields to their types. Returns the paths of dropped fields.
fn conform(
    res: &Resource,
    value: &mut Value,
    base: Option<&Value>,
    stage: Stage,
    nulls: Nulls,
) -> Result<Vec<String>> {
    let cannot = |e: schema::DecodeError| {
        let what = format!("{} in version {:?}", res.kind, res.version);
        ApiError::bad_request(format!("{what} cannot be handled as a {}: {e}", res.kind))
    };
    let unknown = if let Some(kind) = res.schema {
        let unknown = match stage {
            Stage::Merged => schema::conform_merged(kind, value, base),
            Stage::Sent | Stage::Changed | Stage::Foreign => schema::conform_changed(kind, value, base),
        };
        unknown.map_err(cannot)?
    } else {
        // A custom resource: only its metadata has a built-in schema.
        let Some(meta) = crate::meta::metadata_mut(value) else {
            return Err(not_an_object(res));
        };
        if let (Nulls::Kept, Some(shape)) = (nulls, schema::object_meta()) {
            // An apply merges metadata without decoding it. The server drops invalid metadata fields here.
            meta.retain(|name, value| {
                schema::conform(shape, &mut json!({ (name.clone()): &*value })).is_ok()
            });
        }
        let mut tree = Value::Object(std::mem::take(meta));
        let dropped = match schema::object_meta() {
            Some(shape) => schema::conform(shape, &mut tree).map_err(cannot)?,
            None => Vec::new(),
        };
        if let (Some(meta), Value::Object(tree)) = (crate::meta::metadata_mut(value), tree) {
            *meta = tree;
        }
        let mut dropped: Vec<String> = dropped
            .into_iter()
            .map(|path| format!("metadata.{path}"))
            .collect();
        let is_same = base.is_some_and(|base| !registry::content_changed(base, value));
        if let Some(custom) = res
            .custom
            .as_ref()
            .filter(|_| stage != Stage::Foreign && !is_same)
        {
            let unknown = custom.schema.admit(value, nulls == Nulls::Dropped);
            dropped.extend(unknown.map_err(|error| ApiError::bad_request(error.to_string()))?);
            whole_numbers(value);
        }
        dropped
    };
    crate::meta::set(value, "selfLink", Value::Null);
    Ok(unknown)
}

/// Converts floating-point numbers without a fraction to integers, recursively.
#[allow(clippy::cast_possible_truncation)]
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.make_mut().iter_mut().for_each(whole_numbers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < 1e15 {
                *value = json!(float as i64);
            }
        }
        _ => {}
    }
}

fn not_an_object(res: &Resource) -> ApiError {
    let what = format!("{} in version {:?}", res.kind, res.version);
    ApiError::bad_request(format!(
        "{what} cannot be handled as a {}: expected object",
        res.kind
    ))
}

/// Validates the metadata of a custom resource of another version. Its errors precede the version mismatch.
fn check_foreign_metadata(res: &Resource, api_version: &str, value: &Value) -> Result<()> {
    let Some(shape) = schema::object_meta().filter(|_| res.custom.is_some()) else {
        return Ok(());
    };
    let mut meta = value["metadata"].clone();
    if meta.is_null() {
        return Ok(());
    }
    let (kind, version) = (&res.kind, api_version.rsplit('/').next().unwrap_or_default());
    let unknown = schema::conform(shape, &mut meta).map_err(|e| {
        let what = format!("{kind} in version {version:?} cannot be handled as a {kind}");
        ApiError::bad_request(format!("{what}: {e}"))
    });
    unknown.map(drop)
}

/// Rejects another kind or version, and sets both fields. Built-in kinds may omit them.
fn check_kind(res: &Resource, value: &mut Value) -> Result<()> {
    let expected = res.api_version();
    let Some(map) = value.as_object() else {
        return Err(not_an_object(res));
    };
    if !map.get("metadata").is_none_or(|m| m.is_object() || m.is_null()) {
        return Err(not_an_object(res));
    }
    let said = |field: &str| {
        map.get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (api_version, kind) = (said("apiVersion"), said("kind"));
    if api_version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {api_version} ({value})");
        return Err(unrecognized(&res.kind, &why));
    }
    // Only custom resources require an apiVersion.
    let other_version = api_version != expected && (res.custom.is_some() || !api_version.is_empty());
    if res.custom.is_some() {
        if kind.is_empty() {
            return Err(unrecognized(
                &res.kind,
                &format!("Object 'Kind' is missing in '{value}'"),
            ));
        }
        if kind != res.kind && !other_version {
            let wrong = FieldError::invalid("kind", kind.as_str(), format!("must be {}", res.kind));
            return Err(ApiError::invalid_kind(
                &res.group,
                &kind,
                crate::meta::name(value),
                &[wrong],
            ));
        }
    } else if (!kind.is_empty() && kind != res.kind)
        || (other_version && schema::builtin(&api_version, &kind).is_none())
    {
        let version = if api_version.is_empty() {
            &expected
        } else {
            &api_version
        };
        let version = version.rsplit('/').next().unwrap_or_default();
        let expected = &res.kind;
        return Err(ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {expected}: no kind {kind:?} is known here"
        )));
    }
    if other_version {
        check_foreign_metadata(res, &api_version, value)?;
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    let Some(map) = value.as_object_mut() else {
        return Err(not_an_object(res));
    };
    map.insert("apiVersion", json!(expected));
    map.insert("kind", json!(res.kind));
    if map.get("metadata").is_none_or(Value::is_null) {
        map.insert("metadata", json!({}));
    }
    Ok(())
}
