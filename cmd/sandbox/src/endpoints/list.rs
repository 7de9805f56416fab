//! The list handler: GET of a collection (`ListResource` in `handlers/get.go` of the API server).
//!
//! Implements label and field selectors, pagination with continue tokens, and the resourceVersion semantics of lists.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::endpoints::{Api, Body, Call, Reply};
use crate::field::FieldError;
use crate::json::{Value, json};
use crate::registry;
use crate::resource::Resource;
use crate::selector::{FieldSelector, LabelSelector, Selector, SelectorError};
use crate::status::{ApiError, Result};
use crate::storage::{Object, Snapshot, StoreError};

/// Maximum time that a request waits for the watch cache to reach a resourceVersion.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

const EXPIRED_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list result. You \
    can start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

impl Api {
    pub(crate) async fn list(&self, call: &Call) -> Result<Reply> {
        let Page { objects, metadata } = self.page(call).await?;
        Ok(Reply {
            code: 200,
            body: Body::List { objects, metadata },
            warnings: Vec::new(),
        })
    }

    /// Returns the objects and the metadata of a list.
    pub(crate) async fn page(&self, call: &Call) -> Result<Page> {
        check_options(call)?;
        call.query.number("timeoutSeconds")?;
        let selector = selector(call)?;
        let limit = usize::try_from(call.query.number("limit")?.unwrap_or(0)).unwrap_or(0);
        // A selector is applied to all objects that follow.
        let max = |limit: usize| match limit {
            limit if limit > 0 && selector.is_everything() => limit,
            _ => usize::MAX,
        };
        let (snapshot, limit) = match call.query.get("continue") {
            Some(token) => (self.continued(call, token, max(limit))?, limit),
            None => self.first_page(call, limit, max).await?,
        };
        let mut metadata = json!({"resourceVersion": snapshot.revision.to_string()});
        let total = snapshot.objects.len() + snapshot.remaining;
        let selected = snapshot
            .objects
            .into_iter()
            .enumerate()
            .filter(|(_, o)| selector.matches(o));
        let most = if limit == 0 { usize::MAX } else { limit };
        let objects: Vec<_> = selected.take(most).collect();
        // A full page has a continue token if any object follows, even one that does not match the selector.
        if let Some((last, object)) = objects.last()
            && objects.len() == most
            && last + 1 < total
        {
            metadata["continue"] = Token {
                revision: Some(snapshot.revision),
                start: after(&object.key),
            }
            .encode()
            .into();
            if selector.is_everything() {
                metadata["remainingItemCount"] = (total - last - 1).into();
            }
        }
        if call.res.custom.is_some() && metadata["continue"].is_null() {
            // Lists of custom resources include an empty continue token.
            metadata["continue"] = "".into();
        }
        let objects = objects.into_iter().map(|(_, o)| o).collect();
        Ok(Page { objects, metadata })
    }

    async fn first_page(
        &self,
        call: &Call,
        limit: usize,
        max: impl Fn(usize) -> usize,
    ) -> Result<(Snapshot, usize)> {
        let read = |at: Option<u64>, limit: usize| {
            let snapshot = self
                .store
                .page(&call.res.collection, &prefix(call), None, at, max(limit));
            snapshot.map(|it| (it, limit)).map_err(expired)
        };
        let Some(version) = call.query.get("resourceVersion") else {
            return read(None, limit);
        };
        let asked = parse_version(version)?;
        // With a limit and a nonzero resourceVersion, resourceVersionMatch defaults to Exact.
        let matching = call.query.get("resourceVersionMatch");
        if matching == Some("Exact") || (matching.is_none() && limit > 0 && asked > 0) {
            let newest = self.store.revision();
            if asked > newest {
                return Err(ApiError::too_large_resource_version(asked, newest));
            }
            return read(Some(asked), limit);
        }
        let at = self.visible(call, asked).await?;
        // The watch cache ignores the limit for resourceVersion 0.
        read(Some(at), if asked == 0 { 0 } else { limit })
    }

    fn continued(&self, call: &Call, token: &str, max: usize) -> Result<Snapshot> {
        if call.query.get("resourceVersion").is_some_and(|v| v != "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = Token::decode(token).ok_or_else(|| {
            ApiError::bad_request(
                "invalid continue token: continue key is not valid: it was not issued by this server",
            )
        })?;
        let prefix = prefix(call);
        if !token.start.starts_with(&prefix) {
            return Err(ApiError::bad_request(
                "invalid continue token: continue key is not valid: it belongs to another list",
            ));
        }
        self.store
            .page(
                &call.res.collection,
                &prefix,
                Some(&token.start),
                token.revision,
                max,
            )
            .map_err(|_| {
                let mut error = ApiError::expired(EXPIRED_CONTINUE);
                let rest = Token {
                    revision: None,
                    start: token.start.clone(),
                };
                error.continue_token = Some(rest.encode().into());
                error
            })
    }

    /// Waits until the watch cache has reached `at_least` and returns its revision. Returns 504 after the timeout.
    pub(crate) async fn visible(&self, call: &Call, at_least: u64) -> Result<u64> {
        let deadline = self.env.instant() + FRESHNESS_WAIT;
        let mut commits = self.store.subscribe_all();
        let mut moved = call.lag.subscribe();
        loop {
            commits.mark_seen();
            moved.mark_seen();
            let collection = &call.res.collection;
            let shown = call.lag.visible(collection, self.store.revision());
            // A cache older than the retained history shows the oldest retained revision.
            let visible = shown.max(self.store.compacted(collection));
            if visible >= at_least {
                call.lag.serve(collection, visible);
                return Ok(visible);
            }
            tokio::select! {
                biased;
                () = commits.changed() => {}
                () = moved.changed() => {}
                () = self.env.sleep_until(deadline) => {
                    return Err(ApiError::too_large_resource_version(at_least, visible));
                }
            }
        }
    }
}

/// One page of a list, or the complete list.
pub(crate) struct Page {
    pub objects: Vec<Arc<Object>>,
    pub metadata: Value,
}

/// Returns the key prefix of the objects that a call selects.
pub(crate) fn prefix(call: &Call) -> String {
    if call.namespace.is_empty() {
        String::new()
    } else {
        format!("{}/", call.namespace)
    }
}

/// Returns the smallest key greater than `key`.
fn after(key: &str) -> String {
    format!("{key}\0")
}

pub(crate) fn expired(error: StoreError) -> ApiError {
    match error {
        StoreError::Compacted { asked, oldest } => ApiError::expired(format!(
            "The resourceVersion for the provided list is too old: {asked} ({oldest})"
        )),
        other => ApiError::internal(other.to_string()),
    }
}

pub(crate) fn parse_version(version: &str) -> Result<u64> {
    version.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {version:?}: must be a number"
        ))
    })
}

/// Parses the label and field selectors of a call. A name in the path adds a `metadata.name` selector.
pub(crate) fn selector(call: &Call) -> Result<Selector> {
    let bad = |e: SelectorError| ApiError::bad_request(e.to_string());
    let labels = LabelSelector::parse(call.query.get("labelSelector").unwrap_or_default()).map_err(bad)?;
    let check = |field: &str| check_field(&call.res, field);
    let mut fields =
        FieldSelector::parse(call.query.get("fieldSelector").unwrap_or_default(), check).map_err(bad)?;
    if let Some(name) = &call.name {
        fields = fields.and(FieldSelector::named(name));
    }
    Ok(Selector {
        labels,
        fields,
        res: call.res.clone(),
    })
}

/// Rejects an unsupported field label. The message differs for kinds with selectable fields of their own.
fn check_field(res: &Resource, field: &str) -> Result<(), SelectorError> {
    if registry::supports_field(res, field) {
        return Ok(());
    }
    let own = res.custom.is_some() || registry::has_selectable_fields(res);
    Err(SelectorError(if own {
        format!("field label not supported: {field}")
    } else {
        format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }))
}

/// Validates the combination of `resourceVersion`, `resourceVersionMatch`, `continue` and `sendInitialEvents`.
fn check_options(call: &Call) -> Result<()> {
    let mut errors = Vec::new();
    let mut forbid = |field: &str, why: &str| errors.push(FieldError::forbidden(field, why));
    let version = call.query.get("resourceVersion");
    if let Some(matching) = call.query.get("resourceVersionMatch") {
        const FIELD: &str = "resourceVersionMatch";
        if version.is_none() {
            forbid(
                FIELD,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if call.query.get("continue").is_some() {
            forbid(
                FIELD,
                "resourceVersionMatch is forbidden when continue is provided",
            );
        }
        if matching == "Exact" && version == Some("0") {
            forbid(
                FIELD,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            );
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(
                FIELD,
                matching,
                &["Exact", "NotOlderThan", ""],
            ));
        }
    }
    if call.query.get("sendInitialEvents").is_some() {
        errors.push(FieldError::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid_kind("meta.k8s.io", "ListOptions", "", &errors))
    }
}

/// A continue token: the first key of the next page and the revision of the list. `None` means the current revision.
struct Token {
    revision: Option<u64>,
    start: String,
}

impl Token {
    fn encode(&self) -> String {
        let revision = self.revision.map_or(json!(-1), Value::from);
        URL_SAFE_NO_PAD
            .encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.start}).to_string())
    }

    fn decode(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        if value["v"] != "meta.k8s.io/v1" {
            return None;
        }
        let start = value["start"].as_str()?.to_owned();
        let revision = value["rv"].as_i64()?;
        Some(Self {
            revision: u64::try_from(revision).ok(),
            start,
        })
    }
}
