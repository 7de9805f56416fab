//! The question: an `AdmissionReview` about one write, for one webhook.

use serde_json::{Map, Value, json};

use crate::admission::webhook::hook::Version;
use crate::admission::webhook::{Kind, Operation};
use crate::resource::Resource;

/// What is asked. The kind and the resource are those in which the webhook wants the object; those of the request itself are
/// beside them.
pub struct Question<'a> {
    /// How the answer is known again.
    pub uid: &'a str,
    /// The kind in which the objects are shown.
    pub kind: &'a Kind,
    /// The resource by which the webhook was found.
    pub resource: &'a Resource,
    /// The kind of the request.
    pub request_kind: &'a Kind,
    /// The resource of the request.
    pub request_resource: &'a Resource,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty where it is not known yet, or where there are many.
    pub name: &'a str,
    /// Empty for what is in none.
    pub namespace: &'a str,
    /// What is done.
    pub operation: Operation,
    /// A `UserInfo`.
    pub user: Value,
    /// Whether nothing will be done in the end.
    pub dry_run: bool,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub options: &'a Value,
}

impl Question<'_> {
    /// The request without its objects: what conditions see.
    #[must_use]
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

/// The whole review, as it is sent. `request` is [`Question::request`].
#[must_use]
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
