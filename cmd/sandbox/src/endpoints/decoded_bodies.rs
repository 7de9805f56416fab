//! A cache of decoded request bodies.
//!
//! Controllers send equal bodies, such as pods of one template, and the forks of a sandbox repeat the requests of each other.
//! The decoded object depends on the body, the resource and the options of the key only.

use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use foldhash::fast::FixedState;

use crate::endpoints::Call;
use crate::endpoints::decode::{Decoded, FieldValidation};
use crate::json::Value;
use crate::resource::Resource;
use crate::status::Result;

/// The number of bodies. A new one replaces the one with the same hash.
const SLOTS: u64 = 256;
/// The maximum length of a body, in bytes.
const MAX_BODY: usize = 16 * 1024;

/// The cache. Clones share it.
#[derive(Clone)]
pub(crate) struct DecodedBodies(Arc<[Mutex<Option<Entry>>]>);

struct Entry {
    body: Bytes,
    content_type: String,
    validation: FieldValidation,
    /// A CRD that changes has another resource.
    res: Arc<Resource>,
    value: Value,
}

impl Default for DecodedBodies {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| Mutex::default()).collect())
    }
}

impl DecodedBodies {
    /// Returns the decoded body of a request, and decodes it if it is not in the cache.
    pub(crate) fn get_or_decode(
        &self,
        call: &Call,
        validation: FieldValidation,
        decode: impl FnOnce() -> Result<Decoded>,
    ) -> Result<Decoded> {
        let slot = FixedState::default().hash_one(&call.body) % SLOTS;
        let slot = usize::try_from(slot).ok().and_then(|slot| self.0.get(slot));
        let Some(slot) = slot.filter(|_| call.body.len() <= MAX_BODY) else {
            return decode();
        };
        let lock = || slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = lock().as_ref().filter(|entry| entry.is_of(call, validation)) {
            return Ok(Decoded {
                value: entry.value.clone(),
                warnings: Vec::new(),
            });
        }
        let decoded = decode()?;
        if decoded.warnings.is_empty() {
            *lock() = Some(Entry {
                // The body of the request may be a part of a larger buffer.
                body: Bytes::copy_from_slice(&call.body),
                content_type: call.content_type.clone(),
                validation,
                res: call.res.clone(),
                value: decoded.value.clone(),
            });
        }
        Ok(decoded)
    }
}

impl Entry {
    fn is_of(&self, call: &Call, validation: FieldValidation) -> bool {
        Arc::ptr_eq(&self.res, &call.res)
            && self.validation == validation
            && self.content_type == call.content_type
            && self.body == call.body
    }
}
