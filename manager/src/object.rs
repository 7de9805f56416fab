//! What is known of any object of the API: its key, its uid, its version, its metadata, and the resource that it is of.
//!
//! Controllers read *projections*: small types that decode straight from the wire and hold what is read, nothing else. A
//! projection is an [`Object`]; it is never sent back as a whole, or the fields that it does not know would be wiped.

pub mod decode;
mod intern;
mod key;
mod meta;
mod resource;
mod text;
mod uid;
mod version;

pub use intern::Interner;
pub use key::Key;
pub use meta::{Meta, OwnerRef, Pairs};
pub use resource::Resource;
pub use text::Text;
pub use uid::Uid;
pub use version::Version;

use std::fmt::Debug;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What a cache keeps of an object. `PartialEq` says whether a handler could tell two states apart: [`Meta`]'s does not
/// look at the version.
pub trait Object: DeserializeOwned + PartialEq + Debug + Send + Sync + 'static {
    /// The annotations that are kept; all others are dropped before the object enters a cache.
    const ANNOTATIONS: &'static [&'static str] = &[];
    /// How many objects are asked for at once, on the wire in full; fewer where each is large.
    const PAGE: u32 = 500;

    /// Whether caches have an index of the objects that nobody manages: for whoever adopts them.
    const INDEX_UNMANAGED: bool = false;

    /// Its metadata.
    fn meta(&self) -> &Meta;

    /// Its metadata, to be packed before it is shared.
    fn meta_mut(&mut self) -> &mut Meta;

    /// Shares strings that many objects have in common. A projection with such strings of its own adds them here.
    fn intern(&mut self, interner: &mut Interner) {
        self.meta_mut().intern(interner);
    }

    /// About how much memory it takes, for the metric.
    fn bytes(&self) -> usize {
        size_of_val(self) + self.meta().heap_bytes()
    }
}

/// The projection of whoever needs metadata only: any kind, fetched as `PartialObjectMetadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MetaObject {
    /// The metadata.
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
