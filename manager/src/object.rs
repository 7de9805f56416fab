//! API objects: key, uid, resourceVersion, metadata, resource.
//!
//! A cache stores whole objects ([`Typed`]), their metadata ([`MetaObject`]), or *projections*: small types that decode from
//! the wire and hold only the fields that a controller reads. A projection implements [`Object`]. It is never written as a
//! whole object, which would wipe the fields that it omits. [`Kind`] is the resource of a type.
//!
//! [`projection!`](crate::projection) shows a projection.
//!
//! ```
//! use steersman_manager::object::{Key, MetaObject, Resource};
//! use k8s_openapi::api::apps::v1::Deployment;
//!
//! let web: MetaObject = serde_json::from_value(serde_json::json!({
//!     "metadata": {"namespace": "default", "name": "web", "resourceVersion": "7", "labels": {"app": "web"}},
//!     "spec": {"replicas": 3},
//! }))?;
//! assert_eq!(web.metadata.key(), Key::new("default", "web"));
//! let path = Resource::of::<Deployment>().path(&web.metadata.key());
//! assert_eq!(path, "/apis/apps/v1/namespaces/default/deployments/web");
//! # Ok::<_, serde_json::Error>(())
//! ```

pub mod decode;
mod intern;
mod key;
mod kind;
mod logged;
mod meta;
mod resource;
mod text;
mod typed;
mod uid;
mod version;

pub use intern::Interner;
pub use key::Key;
pub use kind::{ApiObject, Kind, MetadataOf};
pub use logged::LoggedObject;
pub use meta::{Meta, OwnerRef, StringMap};
pub use resource::Resource;
pub use text::Text;
pub use typed::Typed;
pub use uid::Uid;
pub use version::Version;

use std::fmt::Debug;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A projection of an object, as a cache stores it. `PartialEq` decides whether an update changed anything that a handler
/// can read: that of [`Meta`] ignores the resourceVersion.
pub trait Object: DeserializeOwned + PartialEq + Debug + Send + Sync + 'static {
    /// The annotations to keep, `*` for all; a cache drops all others.
    const ANNOTATIONS: &'static [&'static str] = &[];
    /// The number of objects per page of a list. Choose fewer for large objects: they are whole on the wire.
    const PAGE: u32 = 500;
    /// Whether caches index the objects without a controller reference, for controllers that adopt.
    const INDEX_UNMANAGED: bool = false;

    #[expect(missing_docs, reason = "plain accessor")]
    fn meta(&self) -> &Meta;

    /// Returns the metadata, which a cache compacts before it stores the object.
    fn meta_mut(&mut self) -> &mut Meta;

    /// Interns strings that many objects have in common. A projection with more such strings overrides this.
    fn intern(&mut self, interner: &mut Interner) {
        self.meta_mut().intern(interner);
    }

    /// Returns the approximate memory size, for the metric.
    fn bytes(&self) -> usize {
        size_of_val(self) + self.meta().heap_bytes()
    }
}

/// The metadata-only projection of any kind, fetched as `PartialObjectMetadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "plain data")]
pub struct MetaObject {
    pub metadata: Meta,
}

impl Object for MetaObject {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }
}
