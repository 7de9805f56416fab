//! A cache of the large documents: each is built on its first request and kept in its encoded form.
//!
//! They belong to one registry. The next one takes over what has not changed, so that a new CRD costs no more than the
//! document of its own group.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

use super::aggregated::aggregated;
use crate::json::Value;
use crate::openapi::{
    openapi_v2, openapi_v2_protobuf, openapi_v3_index, openapi_v3_of, openapi_v3_path, openapi_v3_paths,
};
use crate::resource::Resource;

/// A document as it is sent, and the hash by which clients know it again.
#[derive(Debug)]
pub struct Document {
    /// The bytes.
    pub body: Bytes,
    /// Another one for another document.
    pub hash: String,
}

/// See the module's contract.
#[derive(Debug, Default)]
pub struct Documents {
    core: OnceLock<Arc<Document>>,
    groups: OnceLock<Arc<Document>>,
    index: OnceLock<Arc<Document>>,
    v2: OnceLock<Arc<Document>>,
    v2_protobuf: OnceLock<Arc<Document>>,
    /// Those of version 3, by their path.
    v3: Mutex<BTreeMap<String, Arc<Document>>>,
}

impl Document {
    fn new(body: impl Into<Bytes>) -> Arc<Self> {
        let body = body.into();
        let digest = ring::digest::digest(&ring::digest::SHA512, &body);
        let mut hash = String::new();
        for byte in digest.as_ref() {
            // Writing to a text cannot fail.
            let _ = write!(hash, "{byte:02X}");
        }
        Arc::new(Self { body, hash })
    }

    fn of(value: &Value) -> Arc<Self> {
        Self::new(value.to_string())
    }
}

impl Documents {
    /// The documents that another set of resources can keep: the documents of groups in which nothing has changed.
    #[must_use]
    pub fn for_next(&self, before: &[Arc<Resource>], after: &[Arc<Resource>]) -> Self {
        let changing: BTreeSet<String> = [before, after].into_iter().flat_map(custom_paths).collect();
        let kept = self.v3().clone().into_iter();
        let v3 = kept.filter(|(path, _)| !changing.contains(path)).collect();
        Self {
            core: self.core.clone(),
            v3: Mutex::new(v3),
            ..Self::default()
        }
    }

    /// `/api` or `/apis`, aggregated.
    #[must_use]
    pub fn aggregated(&self, resources: &[Arc<Resource>], core: bool) -> Arc<Document> {
        let kept = if core { &self.core } else { &self.groups };
        kept.get_or_init(|| Document::of(&aggregated(resources, core)))
            .clone()
    }

    /// `/openapi/v3`.
    #[must_use]
    pub fn openapi_v3_index(&self, resources: &[Arc<Resource>]) -> Arc<Document> {
        let index = || {
            let hashes = openapi_v3_paths(resources)
                .into_iter()
                .filter_map(|(group, version)| {
                    let document = self.openapi_v3(resources, group, version)?;
                    Some((openapi_v3_path(group, version), document.hash.clone()))
                });
            Document::of(&openapi_v3_index(hashes))
        };
        self.index.get_or_init(index).clone()
    }

    /// `/openapi/v3/apis/<group>/<version>`, if that is served.
    #[must_use]
    pub fn openapi_v3(
        &self,
        resources: &[Arc<Resource>],
        group: &str,
        version: &str,
    ) -> Option<Arc<Document>> {
        let path = openapi_v3_path(group, version);
        if let Some(known) = self.v3().get(&path) {
            return Some(known.clone());
        }
        // Two who ask at once may both make it; it is the same.
        let made = Document::of(&openapi_v3_of(resources, group, version)?);
        self.v3().insert(path, made.clone());
        Some(made)
    }

    /// `/openapi/v2`, as JSON.
    #[must_use]
    pub fn openapi_v2(&self, resources: &[Arc<Resource>]) -> Arc<Document> {
        self.v2
            .get_or_init(|| Document::of(&openapi_v2(resources)))
            .clone()
    }

    /// `/openapi/v2`, as protobuf.
    #[must_use]
    pub fn openapi_v2_protobuf(&self, resources: &[Arc<Resource>]) -> Arc<Document> {
        self.v2_protobuf
            .get_or_init(|| Document::new(openapi_v2_protobuf(&openapi_v2(resources))))
            .clone()
    }

    fn v3(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Document>>> {
        self.v3.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The paths of the documents that definitions may change.
fn custom_paths(resources: &[Arc<Resource>]) -> impl Iterator<Item = String> {
    let custom = resources.iter().filter(|resource| resource.custom.is_some());
    custom.map(|resource| openapi_v3_path(&resource.group, &resource.version))
}
