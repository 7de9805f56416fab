//! Conversion of typed objects through a hub version, as in controller-runtime.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::super::typed::{decode, for_each_field, merge};
use super::{ConversionError, Head, field};

/// A version of a custom resource that converts to and from the hub version `H`.
///
/// A conversion must keep the metadata, except for labels and annotations, and should lose no field: the API server
/// converts objects to the storage version and back. Annotations can store fields that the other version does not have.
pub trait Convertible<H>: Sized {
    /// Converts this version to the hub version.
    fn convert_to(self) -> Result<H, ConversionError>;

    /// Converts the hub version to this version.
    fn convert_from(hub: H) -> Result<Self, ConversionError>;
}

/// The versions of a custom resource: the hub version `H`, and others that convert to and from it.
///
/// Metadata that the types do not know stays as it is. Other fields that a type does not know are lost.
pub struct Conversion<H>(BTreeMap<String, Codec<H>>);

/// An object, and the text of its metadata.
type Decoded<T> = (T, Box<RawValue>);

/// The conversion of one version, by `apiVersion`.
struct Codec<H> {
    /// Returns the hub version, and the metadata as the type encodes it.
    decode: fn(&RawValue) -> Result<Decoded<H>, ConversionError>,
    encode: fn(H) -> Result<Box<RawValue>, ConversionError>,
}

impl<H> Conversion<H>
where
    H: kube::Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    /// Returns a conversion with the hub version.
    #[must_use]
    pub fn new() -> Self {
        let hub = Codec {
            decode: decode_object,
            encode: encode_object,
        };
        Self([(H::api_version(&()).into_owned(), hub)].into())
    }

    /// Adds a version.
    #[must_use]
    pub fn version<V>(mut self) -> Self
    where
        V: Convertible<H> + kube::Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let codec = Codec {
            decode: |object| {
                let (version, metadata) = decode_object::<V>(object)?;
                Ok((version.convert_to()?, metadata))
            },
            encode: |hub| encode_object(V::convert_from(hub)?),
        };
        self.0.insert(V::api_version(&()).into_owned(), codec);
        self
    }
}

impl<H> Conversion<H> {
    pub(in crate::webhook) fn convert(
        &self,
        object: &RawValue,
        desired: &str,
    ) -> Result<Box<RawValue>, ConversionError> {
        let head = Head::of(object);
        let (hub, before) = (self.codec(&head.api_version)?.decode)(object)?;
        let converted = (self.codec(desired)?.encode)(hub)?;
        if !converted.get().starts_with('{') {
            return Err(ConversionError::new("its type is not encoded as an object"));
        }
        // Keeps fields that `ObjectMeta` does not know, and times as they are written.
        let metadata = merge(
            field(object, "metadata").unwrap_or("null"),
            before.get(),
            field(&converted, "metadata").unwrap_or("null"),
        );
        let (version, kind) = (json!(desired), json!(head.kind));
        let mut result = format!(r#"{{"apiVersion":{version},"kind":{kind},"metadata":{metadata}"#);
        for_each_field(converted.get(), |key, value| {
            if !["apiVersion", "kind", "metadata"].contains(&&*key) {
                result.extend([",", &*Value::from(key).to_string(), ":", value]);
            }
        });
        result.push('}');
        // Made of valid texts.
        RawValue::from_string(result).map_err(|_| ConversionError::new("its type is not encoded as JSON"))
    }

    fn codec(&self, version: &str) -> Result<&Codec<H>, ConversionError> {
        self.0.get(version).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let known = known.join(", ");
            ConversionError(format!("the version is unknown; known versions are {known}"))
        })
    }
}

impl<H> Default for Conversion<H>
where
    H: kube::Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<H> fmt::Debug for Conversion<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn decode_object<V>(object: &RawValue) -> Result<Decoded<V>, ConversionError>
where
    V: kube::Resource<DynamicType = ()> + DeserializeOwned,
{
    let decoded: V = decode(object.get()).map_err(|error| ConversionError(error.to_string()))?;
    let metadata = encode_object(decoded.meta())?;
    Ok((decoded, metadata))
}

fn encode_object(object: impl Serialize) -> Result<Box<RawValue>, ConversionError> {
    // Fails for a map whose keys are not text, which is a programming error. The error may quote the object.
    to_raw_value(&object).map_err(|_| ConversionError::new("its type cannot be encoded as JSON"))
}
