//! The `/scale` subresource: GET, PUT and PATCH of an `autoscaling/v1` `Scale` (`ScaleREST` of the API server).

use std::borrow::Cow;

use http::Method;

use crate::admission::dispatcher::{Dispatcher, UpdatedObject};
use crate::endpoints::apply::Applying;
use crate::endpoints::update::Part;
use crate::endpoints::{Api, Body, Call, Reply, create, update};
use crate::field::FieldError;
use crate::fieldmanager::Writer;
use crate::json::{Value, json};
use crate::patch::{Patch, PatchType};
use crate::resource::{Resource, Scale};
use crate::status::{ApiError, Result};
use crate::{fieldmanager, meta, registry, schema};

/// Marks spec.replicas as unset while a request updates the scale of a custom resource.
const NO_REPLICAS: i32 = i32::MIN;

impl Api {
    pub(crate) async fn scale(&self, method: &Method, dispatcher: &Dispatcher<'_>) -> Result<Reply> {
        let call = dispatcher.call;
        let Some(paths) = call.res.scale.clone() else {
            return Err(ApiError::method_not_allowed());
        };
        let scale = match *method {
            Method::GET => {
                let object = self.store.get(&call.res.collection, &call.key());
                let object = object.ok_or_else(|| ApiError::not_found(&call.res, call.name()))?;
                let object = Self::served(&call.res, &object);
                if is_without_replicas(&call.res, &paths, &object) {
                    let message = format!(
                        "the spec replicas field \".{}\" does not exist",
                        paths.spec_replicas
                    );
                    return Err(ApiError::internal(message));
                }
                scale_of(&call.res, &paths, &object)
            }
            Method::PUT | Method::PATCH => self.set_scale(method, dispatcher, &paths).await?,
            _ => return Err(ApiError::method_not_allowed()),
        };
        Ok(Reply {
            code: 200,
            body: Body::Object(scale),
            warnings: Vec::new(),
        })
    }

    async fn set_scale(&self, method: &Method, dispatcher: &Dispatcher<'_>, paths: &Scale) -> Result<Value> {
        let call = dispatcher.call;
        let patch_type = if *method == Method::PATCH {
            Some(update::patch_type(call)?)
        } else {
            None
        };
        let options = if patch_type.is_some() {
            "PatchOptions"
        } else {
            "UpdateOptions"
        };
        call.check_options(options, patch_type == Some(PatchType::Apply))?;
        let applying = match patch_type {
            Some(PatchType::Apply) => {
                Some(self.applying(call, Some("scale"), "autoscaling", "v1", "Scale")?)
            }
            _ => None,
        };
        let sent = if patch_type.is_none() {
            crate::endpoints::decode::tree(call, "autoscaling/v1", "Scale")?.value
        } else {
            Value::Null
        };
        check_kind(&sent)?;
        let mut scaling = Scaling {
            call,
            paths,
            patch_type,
            sent,
            applying,
            writer: self.writer(call, options, Some("scale"))?,
            kind: scale_resource(),
        };
        if let Some(schema) = schema::builtin("autoscaling/v1", "Scale").filter(|_| scaling.sent.is_object())
        {
            let mut sent = std::mem::take(&mut scaling.sent);
            schema::conform(schema, &mut sent).map_err(|error| scaling.unfit(&error))?;
            check_identity(call, &mut sent)?;
            scaling.sent = sent;
        }
        let dry_run = call.dry_run(options)?;
        let updated = dispatcher.update(Part::Main, dry_run, scaling).await?;
        Ok(scale_of(&call.res, paths, &updated.served(&call.res)))
    }
}

/// An update of a `Scale`. Admission and patches see the `Scale`; the store writes the scaled object.
struct Scaling<'a> {
    call: &'a Call,
    paths: &'a Scale,
    patch_type: Option<PatchType>,
    /// The body of a PUT; null for a PATCH.
    sent: Value,
    applying: Option<Applying>,
    writer: Writer,
    /// The `autoscaling/v1` `Scale` resource.
    kind: Resource,
}

impl Scaling<'_> {
    /// Returns the scale of an object, with the managedFields converted to the `Scale`.
    fn present(&self, object: &Value) -> Value {
        let mut present = scale_of(&self.call.res, self.paths, object);
        if is_without_replicas(&self.call.res, self.paths, object) {
            present["spec"]["replicas"] = NO_REPLICAS.into();
        }
        let managers = &object["metadata"]["managedFields"];
        meta::set(
            &mut present,
            "managedFields",
            fieldmanager::to_scale(self.paths, managers),
        );
        present
    }

    /// Validates the requested scale, and checks its uid and resourceVersion against the object.
    fn check(&self, object: &Value, wanted: &Value) -> Result<()> {
        let (res, name) = (&self.call.res, self.call.name());
        if res.custom.is_some() {
            // The structural schema validates the other values.
            if wanted["spec"]["replicas"] == NO_REPLICAS {
                let path = &self.paths.spec_replicas;
                let message = format!("the spec replicas field \".{path}\" cannot be empty");
                return Err(ApiError::bad_request(message));
            }
        } else {
            check_replicas(name, wanted)?;
            let (uid, actual) = (meta::text(wanted, "uid"), meta::text(object, "uid"));
            if !uid.is_empty() && uid != actual {
                let why =
                    format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}");
                let what = format!("{}/scale", res.plural);
                return Err(ApiError::conflict_as(&res.group, &what, name, &why));
            }
        }
        let version = meta::text(wanted, "resourceVersion");
        if !version.is_empty() {
            update::check_version_number(version)?;
            if version != meta::text(object, "resourceVersion") {
                return Err(ApiError::modified(res, name));
            }
        }
        Ok(())
    }

    /// Converts a decode error into the API error for this verb and patch type.
    fn unfit(&self, error: &schema::DecodeError) -> ApiError {
        match (self.patch_type, self.call.res.custom.is_some()) {
            (None, true) => ApiError::bad_request("no kind is registered for the type v1.Scale"),
            (None, false) => ApiError::bad_request(format!(
                "Scale in version \"v1\" cannot be handled as a Scale: {error}"
            )),
            (Some(PatchType::Apply), _) => ApiError::unexplained(format!(
                "failed to convert new object (/{}; autoscaling/v1, Kind=Scale) to proper version: unable to convert \
                 unstructured object to autoscaling/v1, Kind=Scale: {error}",
                self.call.name()
            )),
            (Some(_), _) => update::unfit(self.call, &ApiError::bad_request(error.to_string())),
        }
    }
}

impl UpdatedObject for Scaling<'_> {
    fn shown<'v>(&self, object: &'v Value) -> Result<Cow<'v, Value>> {
        Ok(Cow::Owned(self.present(object)))
    }

    fn wanted(&mut self, object: &Value) -> Result<Value> {
        let (call, res) = (self.call, &self.call.res);
        let schema = schema::builtin("autoscaling/v1", "Scale");
        if self.patch_type.is_none() {
            update::check_uid(res, object, &self.sent)?;
        }
        let present = self.present(object);
        let mut wanted = match (self.patch_type, &self.applying) {
            (_, Some(applying)) => {
                if res.custom.is_some() && present["metadata"]["managedFields"].is_null() {
                    return Err(no_custom_scale(
                        "create manager for existing fields: failed to convert live",
                        &Value::Null,
                    ));
                }
                let wanted = applying.to(&self.kind, Some(&present))?;
                let mut same = wanted.clone();
                meta::copy(&present, &mut same, "managedFields");
                if res.custom.is_some() && same != present {
                    return Err(no_custom_scale("convert new", &applying.config));
                }
                wanted
            }
            (Some(kind), None) => Patch::new(kind, &call.body)
                .apply(&present, schema)
                .map_err(update::refused)?,
            (None, None) => self.sent.clone(),
        };
        check_kind(&wanted)?;
        let conform = match self.patch_type {
            Some(PatchType::Strategic | PatchType::Apply) => schema::conform_merged,
            _ => schema::conform_changed,
        };
        if let Some(schema) = schema {
            conform(schema, &mut wanted, None).map_err(|error| self.unfit(&error))?;
        }
        check_identity(call, &mut wanted)?;
        if self.applying.is_none() {
            fieldmanager::track_update(&self.kind, &self.writer, &present, &mut wanted);
        }
        Ok(wanted)
    }

    fn next(&mut self, object: &Value, wanted: Value) -> Result<Value> {
        let (res, paths) = (&self.call.res, self.paths);
        self.check(object, &wanted)?;
        let mut next = object.clone();
        meta::set_path(
            &mut next,
            &paths.spec_replicas,
            wanted["spec"]["replicas"].as_i64().unwrap_or(0).into(),
        );
        let managers = &object["metadata"]["managedFields"];
        let of_scale = &wanted["metadata"]["managedFields"];
        let managers = fieldmanager::from_scale(res, paths, managers, of_scale);
        meta::set(&mut next, "managedFields", managers);
        Ok(next)
    }
}

/// Returns the error of the API server for an apply to the scale of a custom resource: it tries to convert the `Scale`
/// to a version of the custom resource.
fn no_custom_scale(what: &str, config: &Value) -> ApiError {
    let (namespace, name) = (meta::namespace(config), meta::name(config));
    ApiError::unexplained(format!(
        "failed to {what} object ({namespace}/{name}; autoscaling/v1, Kind=Scale) to proper version: request to \
         convert CR to an invalid group/version: autoscaling/v1"
    ))
}

fn scale_resource() -> Resource {
    Resource {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        kind: "Scale".to_owned(),
        list_kind: String::new(),
        plural: "scales".to_owned(),
        singular: "scale".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        status: false,
        scale: None,
        collection: String::new(),
        stored_as: "autoscaling/v1".to_owned(),
        schema: schema::builtin("autoscaling/v1", "Scale"),
        custom: None,
    }
}

/// Rejects a body whose kind is set and is not `Scale`.
fn check_kind(sent: &Value) -> Result<()> {
    let Some(other) = sent["kind"]
        .as_str()
        .filter(|kind| !matches!(*kind, "Scale" | ""))
    else {
        return Ok(());
    };
    let version = sent["apiVersion"].as_str().unwrap_or_default();
    let version = version.rsplit('/').next().unwrap_or_default();
    Err(ApiError::bad_request(format!(
        "{other} in version {version:?} cannot be handled as a Scale: converting ({version}.{other}) to \
         (autoscaling.Scale): unknown conversion"
    )))
}

/// Checks the namespace and name of a scale against the path.
fn check_identity(call: &Call, scale: &mut Value) -> Result<()> {
    create::check_namespace(&call.res, &call.namespace, scale)?;
    update::check_name(meta::name(scale), call.name())
}

fn check_replicas(name: &str, wanted: &Value) -> Result<()> {
    let mut errors = registry::validate_embedded_metadata(&wanted["metadata"], "metadata");
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("spec.replicas", replicas, why));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid_kind("autoscaling", "Scale", name, &errors))
}

/// Returns whether the spec replicas field of a custom resource is unset.
fn is_without_replicas(res: &Resource, paths: &Scale, object: &Value) -> bool {
    res.custom.is_some() && meta::at_path(object, &paths.spec_replicas).is_null()
}

fn scale_of(res: &Resource, paths: &Scale, object: &Value) -> Value {
    let number = |path: &str| meta::at_path(object, path).as_i64().unwrap_or(0);
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if !object["metadata"][field].is_null() {
            metadata[field] = object["metadata"][field].clone();
        }
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector = match &paths.selector {
        Some(path) => meta::at_path(object, path)
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        None if res.custom.is_some() => String::new(),
        None => selector_text(&object["spec"]["selector"]),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let mut spec = json!({});
    let wanted = number(&paths.spec_replicas);
    if wanted != 0 {
        spec["replicas"] = wanted.into();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

/// Formats a selector as a label selector string. A `ReplicationController` selector is a plain map.
fn selector_text(selector: &Value) -> String {
    let Some(map) = selector.as_object() else {
        return String::new();
    };
    let structured = map.contains_key("matchLabels") || map.contains_key("matchExpressions");
    let pairs = if structured {
        selector["matchLabels"].as_object()
    } else {
        Some(map)
    };
    let mut terms: Vec<(&str, String)> = pairs
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            (
                key.as_str(),
                format!("{key}={}", value.as_str().unwrap_or_default()),
            )
        })
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let text = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key, text));
    }
    terms.sort_by_key(|(key, _)| *key);
    let terms: Vec<String> = terms.into_iter().map(|(_, text)| text).collect();
    terms.join(",")
}
