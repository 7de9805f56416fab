//! The request of an `AdmissionReview`.

use serde_json::{Map, Value, json};

use crate::admission::webhook::configuration::Version;
use crate::admission::webhook::{Kind, Operation};
use crate::resource::Resource;

/// The request of a review. `kind` and `resource` are those of the rule that matched, `request_kind` and
/// `request_resource` those of the original request.
pub struct ReviewRequest<'a> {
    /// The identifier that the response repeats.
    pub uid: &'a str,
    /// The kind of the objects.
    pub kind: &'a Kind,
    /// The resource of the rule that matched.
    pub resource: &'a Resource,
    pub request_kind: &'a Kind,
    pub request_resource: &'a Resource,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for a `generateName` and for a collection.
    pub name: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub operation: Operation,
    pub user: Value,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub options: &'a Value,
}

impl ReviewRequest<'_> {
    /// Returns the request without its objects, as match conditions see it.
    pub fn request(&self) -> Value {
        let kind = |kind: &Kind| json!({"group": kind.group, "version": kind.version, "kind": kind.name});
        let resource =
            |res: &Resource| json!({"group": res.group, "version": res.version, "resource": res.plural});
        let mut request = Map::new();
        request.insert("uid".to_owned(), self.uid.into());
        request.insert("kind".to_owned(), kind(self.kind));
        request.insert("resource".to_owned(), resource(self.resource));
        request.insert("requestKind".to_owned(), kind(self.request_kind));
        request.insert("requestResource".to_owned(), resource(self.request_resource));
        for (key, text) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ] {
            if !text.is_empty() {
                request.insert(key.to_owned(), text.into());
            }
        }
        request.insert("operation".to_owned(), self.operation.name().into());
        request.insert("userInfo".to_owned(), self.user.clone());
        request.insert("dryRun".to_owned(), self.dry_run.into());
        request.insert("options".to_owned(), self.options.clone());
        Value::Object(request)
    }
}

/// Encodes the review. `request` is the result of [`ReviewRequest::request`].
pub fn body(version: Version, mut request: Value, object: Option<&Value>, old: Option<&Value>) -> Vec<u8> {
    request["object"] = object.cloned().unwrap_or_default();
    request["oldObject"] = old.cloned().unwrap_or_default();
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": version.api_version(),
        "request": request,
    });
    review.to_string().into_bytes()
}
